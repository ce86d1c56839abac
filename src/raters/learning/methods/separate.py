"""`separate`: one network per rater, outputs averaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.learning.methods.base import Batch, HeldOut, Method, Step, Task, mean_step
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.targets import cross_entropy

if TYPE_CHECKING:
    from raters.learning.networks import TruthNetwork


class OfLabelled(Method):
    """A method that knows whose labels it learns from: nothing it says rests on other raters.

    Who labelled held-out cases alone is among the others: of them nothing is learnt.

    Attributes:
        labelled: Whose labels are trained on, `(raters,)`.
    """

    labelled: Tensor

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        there = [name not in task.unlabelled for name in task.raters]
        self.register_buffer("labelled", torch.tensor(there))


class Separate(OfLabelled):
    """Trains one network on each rater's labels; the truth is the mean of what they predict."""

    answers = frozenset({"truth", "as_rater"})
    # A network is no small part.
    not_extended = "each rater has a network of their own: train again with all raters"

    def __init__(self, task: Task, options: MethodOptions) -> None:
        super().__init__(task, options)
        self.networks = nn.ModuleList([task.network() for _ in task.raters])

    def truth_networks(self) -> list[TruthNetwork]:
        """Return the networks of raters who labelled."""
        there = self.labelled.tolist()
        return [n for n, used in zip(self.networks, there, strict=True) if used]  # type: ignore[misc]

    def _losses(self, batch: Batch, weights: Tensor) -> tuple[Tensor, Tensor]:
        total = batch["image"].new_zeros(())
        count = torch.zeros((), dtype=torch.long)
        for rater, network in enumerate(self.networks):
            for labels in _labels_of(batch, rater):
                rows = (labels != MISSING).flatten(1).any(1)
                if rows.any():
                    log_truth = network(batch["image"][rows])[1].log_softmax(1)
                    more, known = cross_entropy(log_truth, labels[rows].squeeze(1), weights)
                    total = total + more
                    count = count + known
        return total, count

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy of each network with its rater's labels."""
        total, count = self._losses(batch, self.class_weights)
        if not count:  # no network learns, yet the loss must have a gradient: that of no labels
            total = 0 * next(self.parameters()).sum()
        return mean_step(total, count)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy on held-out cases."""
        even = torch.ones_like(self.class_weights)
        loss, count = self._losses(batch, even)
        return HeldOut(loss, count, self.truth(batch["image"]))

    def truth(self, image: Tensor) -> Tensor:
        """Return the mean of what the networks of raters who labelled predict."""
        found = [network(image)[1].softmax(1) for network in self.truth_networks()]
        return torch.stack(found).mean(0)

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what the rater's own network predicts."""
        return self.networks[rater](image)[1].softmax(1)  # type: ignore[no-any-return]


def _labels_of(batch: Batch, rater: int) -> list[Tensor]:
    """Return the labels of one rater as maps `(batch, 1, *space)`; in tables a rater may repeat."""
    labels = batch["labels"]
    raters = batch.get("raters")
    if raters is None:
        return [labels[:, rater : rater + 1]]
    return [
        torch.where(raters[:, k : k + 1] == rater, labels[:, k : k + 1], MISSING)
        for k in range(labels.shape[1])
        if bool((raters[:, k] == rater).any())
    ]

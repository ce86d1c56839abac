"""`agg-net`: an aggregation layer of counted matrices, in turns with the network's steps."""

from __future__ import annotations

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.learning.distributed import summed
from raters.learning.methods.base import Batch, Step, Task
from raters.learning.methods.counting import CountedRaters, CountingMethod
from raters.learning.methods.options import AggNetOptions
from raters.learning.rater_models import Seen, posterior


class AggNet(CountingMethod):
    r"""The network learns, batch by batch, what its aggregation layer makes of it and the labels.

    .. math::
        q(t) &\propto p(t \mid x) \prod_r C_r[t, o_r] \\
        \text{loss} &= -\sum_t q(t) \log p(t \mid x) \\
        n_r[t, o] &\leftarrow (1 - 1/S) \, n_r[t, o] + \sum_{x \in \text{batch}} q(t) \, 1[o_r = o]

    q is a target without a gradient, from the network and the counts as they are at this step; S
    is the number of batches of an epoch. Of two classes, C holds each rater's sensitivity and
    specificity.

    Of masks, where raters differ, or where only one labelled, the C of q are counted at such pixels
    alone. Pixels on which several agree say nothing of who is right, and are so many that whoever
    draws too much hardly ever seems wrong: counted with them, the largest drawer is believed. Where
    raters agree, C is counted at all pixels, as it is for predictions: by the other, which never
    saw them agree, what all say would hardly count.

    Albarqouni et al., AggNet: deep learning from crowds for mitosis detection in breast cancer
    histology images, IEEE TMI 35, 2016.

    Attributes:
        disputed: The matrices where raters of masks differ; None for class labels.
    """

    options: AggNetOptions
    disputed: CountedRaters | None

    def __init__(self, task: Task, options: AggNetOptions) -> None:
        super().__init__(task, options)
        self.disputed = self.rater_model() if task.spatial_dims else None
        self._first = torch.zeros((), dtype=torch.float64)

    def start_counts(self, batch: Batch) -> Tensor:
        """Return the posterior under the matrices at their start; count where raters differ."""
        found = self._aggregated(self.network.log_truth(batch["image"]), batch)
        if self.disputed is not None:
            self._first = self._first + self._counted(batch, found * _differ(batch["labels"]))
        return found

    def counted(self, shares: Tensor) -> None:  # noqa: ARG002
        """Keep what was counted where raters differ."""
        if self.disputed is not None:
            self.disputed.counts.copy_(summed(self._first))
            self._first = torch.zeros_like(self._first)

    @torch.no_grad()
    def count_batch(self, batch: Batch, posterior: Tensor) -> None:
        """Add a batch to the counts, and to those where raters differ."""
        super().count_batch(batch, posterior)
        if self.disputed is not None:
            found = summed(self._counted(batch, posterior * _differ(batch["labels"])))
            self.disputed.follow(found, 1 - 1 / max(self.steps_per_epoch, 1))

    def fused(self, batch: Batch) -> Tensor:
        """Return q; the network's truth where nobody labelled."""
        log_truth = self.network.log_truth(batch["image"])
        return posterior(log_truth, self._columns(log_truth, batch))

    def _columns(self, log_truth: Tensor, batch: Batch) -> Tensor:
        labels = batch["labels"]
        seen: Seen = self.raters(log_truth).see(labels, batch.get("raters"))
        if self.disputed is None:
            return seen.log_column
        differ = _differ(labels).unsqueeze(2)
        return torch.where(differ, self.disputed(log_truth).see(labels).log_column, seen.log_column)

    @torch.no_grad()
    def _aggregated(self, log_truth: Tensor, batch: Batch) -> Tensor:
        """Return q; zero for all classes where nobody labelled."""
        known = (batch["labels"] != MISSING).any(1, keepdim=True)
        return posterior(log_truth.detach(), self._columns(log_truth, batch)) * known

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the aggregated labels, and count them."""
        if self.raters.held:
            return super().step(batch)
        log_truth = self.network.log_truth(batch["image"])
        target = self._aggregated(log_truth, batch)
        self.count_batch(batch, target)
        return self.entropy_step(log_truth, target)


def _differ(labels: Tensor) -> Tensor:
    """Return where raters differ or only one labelled, `(batch, 1, *space)`.

    Example:
        >>> labels = torch.tensor([[[0, 1, 1, MISSING], [0, 0, MISSING, MISSING]]])
        >>> _differ(labels).tolist()
        [[[False, True, True, False]]]
    """
    known = labels != MISSING
    most = labels.amax(1, keepdim=True)
    return ((labels != most) & known).any(1, keepdim=True) | (known.sum(1, keepdim=True) == 1)

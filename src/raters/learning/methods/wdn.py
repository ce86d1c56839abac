"""`wdn`: one head per rater on shared features, then learnt weights of the raters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.optim.lr_scheduler import CosineAnnealingLR

from raters.core.classes import MISSING
from raters.learning.methods.base import Asked, Batch, HeldOut, Maps, Step, Task, mean_step
from raters.learning.methods.options import WdnOptions
from raters.learning.methods.phases import MakeOptimiser, Optimiser
from raters.learning.methods.separate import OfLabelled
from raters.learning.methods.targets import cross_entropy
from raters.learning.rater_models.confusion import per_answer
from raters.learning.rater_models.start import pointwise

RATE = 0.05
"""The learning rate of the weights: a few numbers behind frozen heads, which cannot go astray."""


class WeightedDoctorNet(OfLabelled):
    r"""Heads learn what each rater says; then weights are learnt by which others are predicted.

    .. math::
        p_r(\cdot \mid x) &= \mathrm{softmax}(\text{head}_r(x)), \quad w = \mathrm{softmax}(v) \\
        \text{first:} \quad & -\log p_r(o_r \mid x) \\
        \text{then, heads frozen:} \quad
        & -\log \frac{\sum_{s \neq r} w_s \, p_s(o_r \mid x)}{1 - w_r} \\
        p(t \mid x) &= \sum_r w_r \, p_r(t \mid x)

    Each label is predicted by the heads of the other raters: its own head has seen it. A rater
    whose head says nothing about what others say ends with little weight.

    Guan et al., Who said what: modeling individual labelers improves classification, AAAI 2018.

    Attributes:
        network: Its head gives the logits of all raters, `(batch, raters * L, *space)`.
        averaging: v, one number per rater.
    """

    answers = frozenset({"truth", "as_rater", "weights"})
    # Weights are shares of a whole.
    not_extended = "the weights of all raters are learnt together: train again"
    options: WdnOptions

    def __init__(self, task: Task, options: WdnOptions) -> None:
        super().__init__(task, options)
        raters = len(task.raters)
        self.network = task.network()
        features = self.network.backbone.features
        self.network.head = pointwise(features, raters * task.num_classes, task.spatial_dims)
        self.averaging = nn.Parameter(torch.zeros(raters))
        self._averages = False

    @property
    def head_epochs(self) -> int:
        """How many epochs the heads learn; one at least, and if there are two, one is left."""
        share = self.options.weight_epochs
        epochs = self.task.epochs
        last = round(share * epochs) if share < 1 else round(share)
        return max(1, epochs - max(1, last))

    @property
    def warm_up(self) -> int:
        """While the heads learn, all raters weigh alike."""
        return min(self.head_epochs, max(0, self.task.epochs - 1))

    def phase(self, epoch: int) -> str:
        """Name what learns."""
        return "heads" if epoch < self.head_epochs else "weights"

    def start_epoch(self, epoch: int) -> None:
        """Freeze the heads after their epochs."""
        self._averages = epoch >= self.head_epochs

    def optimisers(self, make: MakeOptimiser) -> Mapping[str, Optimiser]:
        """Make one for network and heads, and one for the weights."""
        steps = self.head_epochs * self.steps_per_epoch
        rest = max(1, (self.task.epochs - self.head_epochs) * self.steps_per_epoch)
        plain = torch.optim.Adam([self.averaging], lr=RATE)
        return {
            "heads": make(self.network.parameters(), steps=steps),
            "weights": Optimiser(plain, CosineAnnealingLR(plain, rest)),
        }

    def turns(self, epoch: int, step: int) -> Sequence[str]:  # noqa: ARG002
        """Let the heads learn, or the weights."""
        return (self.phase(epoch),)

    def _logits(self, image: Tensor) -> Tensor:
        """Return what the heads give, `(batch, raters, L, *space)`."""
        logits: Tensor = self.network(image)[1]
        shape = len(self.task.raters), self.task.num_classes, *logits.shape[2:]
        return logits.view(len(logits), *shape)

    def _heads(self, image: Tensor) -> Tensor:
        """Return `log p_r(o | x)`, `(batch, raters, L, *space)`."""
        return self._logits(image).log_softmax(2)

    @property
    def rater_weights(self) -> Tensor:
        """The learnt weights, `(raters,)`; they sum to one."""
        return self._log_weights().exp()

    def learnt_weights(self) -> Tensor:
        """Return the weights."""
        return self.rater_weights

    def _log_weights(self) -> Tensor:
        return self.averaging.masked_fill(~self.labelled, -torch.inf).log_softmax(0)

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy of each head, or of what the others' heads say together."""
        if self._averages:
            self.network.eval()  # frozen, dropout and running means too
            with torch.no_grad():
                heads = self._logits(batch["image"]).softmax(2)
            said = self._by_others(heads, batch)
            labels = batch["labels"]
            weights = nn.functional.pad(self.class_weights, (1, 0))[labels - MISSING]
            return mean_step(-(said * weights).sum(), (labels != MISSING).sum())
        total, count = self._own(self._logits(batch["image"]), batch, self.class_weights)
        return mean_step(total, count)

    def _own(self, logits: Tensor, batch: Batch, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed cross entropy of each label under its rater's own head.

        Of many workers few answer a task: only their heads are normalised.
        """
        own = per_answer(logits, batch["labels"], batch.get("raters")).log_softmax(2)
        return cross_entropy(own.flatten(0, 1), batch["labels"].flatten(0, 1), weights)

    def _by_others(self, heads: Tensor, batch: Batch) -> Tensor:
        """Return the log-probability of each label under the heads of the other raters.

        Args:
            heads: `p_r(o | x)`, `(batch, raters, L, *space)`.
            batch: Labels, and of a table who gave them.
        """
        labels = batch["labels"]
        raters = batch.get("raters")
        number = heads.shape[1]
        if raters is None:
            raters = torch.arange(number, device=labels.device)[None]
        own = one_hot(raters, number).bool() & (self.labelled.sum() > 1)
        log_weights = self._log_weights().expand(own.shape).masked_fill(own, -torch.inf)
        index = labels.clamp(min=0).reshape(*labels.shape[:2], 1, 1, -1)
        every = heads.reshape(len(heads), 1, *heads.shape[1:3], -1)
        each = every.expand(-1, labels.shape[1], -1, -1, -1).gather(
            3, index.expand(-1, -1, number, -1, -1)
        )
        said = (log_weights.softmax(2).unsqueeze(2) @ each.squeeze(3)).view(labels.shape)
        return said.clamp(min=torch.finfo(said.dtype).tiny).log()

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of the labels: by their own heads, then by the others' heads.

        The weights take part in the second alone, so an epoch of theirs can only be chosen by it.
        """
        logits = self._logits(batch["image"])
        labels = batch["labels"]
        truth = _mean(logits.log_softmax(2), self.rater_weights)
        if not self._averages:
            loss, count = self._own(logits, batch, torch.ones_like(self.class_weights))
            return HeldOut(loss, count, truth)
        known = labels != MISSING
        said = self._by_others(logits.softmax(2), batch) * known
        return HeldOut(-said.sum(), known.sum(), truth)

    def truth(self, image: Tensor) -> Tensor:
        """Return the heads' mean, weighted as was learnt."""
        return _mean(self._heads(image), self.rater_weights)

    def weighted(self, image: Tensor, weights: Tensor) -> Tensor:
        """Return the heads' mean for other weights, `(raters,)`."""
        return _mean(self._heads(image), weights / weights.sum())

    def as_rater(self, image: Tensor, rater: int) -> Tensor:
        """Return what the rater's own head says."""
        return self._heads(image)[:, rater].exp()

    def maps(self, image: Tensor, asked: Asked, latents: Sequence[Tensor] = ()) -> Maps:
        """Return the truth and what some raters would say, from one look."""
        heads = self._heads(image)
        weights = self.rater_weights
        if asked.weights is not None:
            weights = torch.tensor(asked.weights, device=image.device)
        found = {"truth": _mean(heads, weights / weights.sum())}
        for rater in asked.raters:
            found[self.task.as_key(rater)] = heads[:, self.task.number_of(rater)].exp()
        return found | self.sampled(image, asked, latents)


def _mean(heads: Tensor, weights: Tensor) -> Tensor:
    """Average `(batch, raters, L, *space)` log-probabilities, as probabilities."""
    return torch.einsum("r,brl...->bl...", weights.to(heads), heads.exp())

"""Labels counted against a truth, in torch; and matrices that are counted batch by batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from raters.core.classes import MISSING
from raters.learning.distributed import summed
from raters.learning.methods.base import Batch
from raters.learning.methods.confusion_method import ConfusionMethod
from raters.learning.methods.options import CountedOptions
from raters.learning.methods.targets import over_pixels
from raters.learning.rater_models import RaterModel, SharedConfusion, near_identity_logits

IN_TURNS = "network and matrices are found in turns: train again"
"""Why no rater can be added: the network learnt from what the matrices say."""


def count_labels(
    truth: Tensor, labels: Tensor, number: int, raters: Tensor | None = None
) -> Tensor:
    r"""Count how often each rater said `o` where the truth is `t`, `(raters, L, L)`.

    .. math:: n_r[t, o] = \sum_x q(t \mid x) \, 1[o_r(x) = o]

    Args:
        truth: The weight of each class, `(batch, L, *space)`.
        labels: `(batch, answers, *space)`, with MISSING.
        number: How many raters there are.
        raters: Who gave each answer, `(batch, answers)`; without it answer k is of rater k.

    Example:
        >>> truth = torch.tensor([[0.75, 0.25], [0.0, 1.0]])
        >>> count_labels(truth, torch.tensor([[0, 1], [1, -1]]), 2)[0]
        tensor([[0.7500, 0.0000],
                [0.2500, 1.0000]])
    """
    classes = truth.shape[1]
    if raters is None:
        flat = truth.reshape(len(truth), classes, -1)
        said = ((labels == o).reshape(*labels.shape[:2], -1).to(truth) for o in range(classes))
        return torch.stack([(one @ flat.mT).sum(0) for one in said], 2)
    case, answer = (labels != MISSING).nonzero(as_tuple=True)
    cell = raters[case, answer] * classes + labels[case, answer]
    counts = truth.new_zeros(number * classes, classes).index_add_(0, cell, truth[case])
    return counts.view(number, classes, classes).transpose(1, 2)


class CountedRaters(RaterModel):
    r"""One matrix per rater, from counts: `C_r[t, o] = (n_r[t, o] + s A[t, o]) / (n_r[t] + s)`.

    Args:
        raters: Number of raters.
        num_classes: Number of classes.
        init_accuracy: The diagonal of A, the matrix without any count.
        smoothing: s, how many labels A counts for in each row.

    Example:
        >>> matrices = CountedRaters(raters=1, num_classes=2, init_accuracy=0.75, smoothing=2.0)
        >>> matrices.counts.copy_(torch.tensor([[[8.0, 0.0], [0.0, 0.0]]]))
        tensor([[[8., 0.],
                 [0., 0.]]])
        >>> matrices(torch.zeros(1, 8)).matrix()
        tensor([[[[0.9500, 0.0500],
                  [0.2500, 0.7500]]]])
    """

    counts: Tensor
    start: Tensor

    def __init__(
        self, raters: int, num_classes: int, init_accuracy: float, smoothing: float
    ) -> None:
        super().__init__()
        self.smoothing = smoothing
        start = near_identity_logits(num_classes, init_accuracy).softmax(1)
        self.register_buffer("start", start, persistent=False)
        self.register_buffer("counts", torch.zeros(raters, num_classes, num_classes))

    def follow(self, found: Tensor, kept: float) -> None:
        """Add the counts of a batch to a share of those before it."""
        self.counts.mul_(kept).add_(found)

    def forward(self, features: Tensor, cases: Tensor | None = None) -> SharedConfusion:  # noqa: ARG002
        """Return the matrices, the same for all cases; while they are held, their start."""
        counts = torch.zeros_like(self.counts) if self.holds else self.counts
        rows = counts + self.smoothing * self.start
        return SharedConfusion((rows / rows.sum(2, keepdim=True)).log()[None])


class CountingMethod(ConfusionMethod):
    r"""A truth network, and matrices that are counted against a posterior as batches come.

    After the warm-up all training cases are counted once. From then on each batch adds its counts,
    and what was counted before fades by `1 - 1/S` with S batches in an epoch: counts always stand
    for about one epoch, whatever the size of a batch, also of a rater who labels rarely.

    Subclasses define `step`, and `start_counts`: what all cases are counted against at first.
    """

    options: CountedOptions
    raters: CountedRaters
    not_extended = IN_TURNS

    def rater_model(self) -> CountedRaters:
        """Make matrices without any counts."""
        sizes = len(self.task.raters), self.task.num_classes
        return CountedRaters(*sizes, self.options.init_accuracy, self.options.smoothing)

    def needs_pass(self, epoch: int) -> bool:
        """Return whether the warm-up is over."""
        return epoch == self.warm_up

    def start_counts(self, batch: Batch) -> Tensor:
        """Return what the labels of all cases are counted against at first, `(batch, L, *space)`.

        It is zero for all classes where nothing is known.
        """
        raise NotImplementedError

    def see_all(self, batches: Iterable[Batch]) -> None:
        """Count the labels of all training cases."""
        counts = torch.zeros_like(self.raters.counts, dtype=torch.float64)
        shares = counts.new_zeros(self.task.num_classes)
        for batch in batches:
            truth = self.start_counts(batch)
            counts += self._counted(batch, truth)
            shares += over_pixels(truth)
        self.raters.counts.copy_(summed(counts))
        self.counted(summed(shares))

    def counted(self, shares: Tensor) -> None:
        """Receive how much of each class there is, `(L,)`, once all cases were counted."""

    def _counted(self, batch: Batch, truth: Tensor) -> Tensor:
        return count_labels(truth, batch["labels"], len(self.raters.counts), batch.get("raters"))

    @torch.no_grad()
    def count_batch(self, batch: Batch, posterior: Tensor) -> None:
        """Add a batch to the counts; of several processes, the batches of all."""
        found = summed(self._counted(batch, posterior))
        self.raters.follow(found, 1 - 1 / max(self.steps_per_epoch, 1))

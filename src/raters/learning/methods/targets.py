"""What networks are trained on: fused labels of each case, votes of batches, and cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import nll_loss

from raters.core.classes import MISSING

if TYPE_CHECKING:
    from raters.consensus.consensus import Consensus
    from raters.core.arrays import Floats
    from raters.study.case import Case
    from raters.study.study import Study

Target = NDArray[Any]


class FusedLabels:
    """The fused labels of each case of a study.

    Args:
        fusion: The fusion method, see `raters fuse`.
        pool: Let all cases share the raters' matrices.
        soft: Give probabilities instead of the likeliest class.
    """

    def __init__(self, fusion: str, pool: bool = False, soft: bool = False) -> None:
        self._fusion = fusion
        self._pool = pool
        self._soft = soft
        self._consensus: Consensus | None = None
        self._of_table: dict[str, Target] = {}

    def fit(self, study: Study) -> None:
        """Fit what all cases share: pooled matrices, or the whole of a table."""
        from raters.consensus.consensus import fuse

        self._consensus = fuse(study, self._fusion, pool=self._pool)
        self._consensus.prepare()
        self._of_table = {}
        if study.kind == "classification":
            table = self._consensus.table
            values = self._chosen(table.truth.T, table.labels)
            values = values.T if self._soft else values
            self._of_table = {str(name): values[k] for k, name in enumerate(study.index.ids)}

    def of(self, case: Case) -> Target:
        """Fuse the labels of a case; masks again each time, as memory must not hold all of them."""
        if case.id in self._of_table:
            return self._of_table[case.id]
        assert self._consensus is not None  # `fit` came first
        fusion = self._consensus.fuse_case(case)
        truth = fusion.truth if self._soft else fusion.labels
        return self._chosen(truth, fusion.labels)

    def _chosen(self, truth: Target, labels: Target) -> Target:
        """Return labels, or the truth `(L, ...)` with zeros where nobody labelled: unknown."""
        if not self._soft:
            return labels
        return np.where(labels == MISSING, 0, truth).astype(np.float32)

    @property
    def confusion(self) -> Floats:
        """The raters' matrices that all cases share, `(raters, L, L)`; pooled or of a table."""
        assert self._consensus is not None  # `fit` came first
        return np.array(self._consensus.fitted()["confusion"])


def cross_entropy(log_truth: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the summed cross entropy with a hard or soft target, and how many pixels are known.

    .. math:: -\sum_x w \sum_t q(t) \log p(t \mid x)

    Args:
        log_truth: `log p(t | x)`, `(batch, L, *space)`.
        target: Labels `(batch, *space)` with MISSING, or q `(batch, L, *space)`, zero everywhere
            where it is unknown.
        weights: A weight of each class, `(L,)`.

    Example:
        >>> uniform = torch.full((1, 2, 3), 0.5).log()
        >>> cross_entropy(uniform, torch.tensor([[0, 1, -1]]), torch.ones(2))
        (tensor(1.3863), tensor(2))
    """
    if target.ndim == log_truth.ndim:
        return soft_entropy(log_truth, target, weights), (target.sum(1) > 0).sum()
    weights = weights.to(log_truth)
    total = nll_loss(log_truth, target.long(), weights, ignore_index=MISSING, reduction="sum")
    return total, (target != MISSING).sum()


Entropy = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes `log p(t | x)`, a target and the weights of classes; gives a sum and how many it is of."""


def of_each(log_truth: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross entropy with labels `(batch, answers, *space)`, and how many there are."""
    log_truth = log_truth.unsqueeze(2)
    every = log_truth.expand(-1, -1, labels.shape[1], *log_truth.shape[3:])
    return cross_entropy(every, labels, weights)


def soft_entropy(log_truth: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Return the summed cross entropy with a soft target, as of `cross_entropy`.

    Example:
        >>> log_truth, target = torch.tensor([[0.5, 0.25]]).log2(), torch.tensor([[1.0, 3.0]])
        >>> soft_entropy(log_truth, target, torch.ones(2))
        tensor(7.)
    """
    by_class = over_pixels(target * log_truth)
    return -(by_class * weights).sum()


def over_pixels(values: Tensor) -> Tensor:
    """Add up values `(batch, L, *space)` over cases and pixels, `(L,)`.

    Example:
        >>> over_pixels(torch.ones(2, 3, 5, 5))
        tensor([50., 50., 50.])
    """
    return values.sum([0, *range(2, values.ndim)])


def label_counts(labels: Tensor, num_classes: int) -> Tensor:
    """Count the labels of each class, `(batch, L, *space)`.

    Args:
        labels: `(batch, answers, *space)`, with MISSING.
        num_classes: Number of classes.

    Example:
        >>> label_counts(torch.tensor([[1, 1, 0, -1]]), 3)
        tensor([[1, 2, 0]])
    """
    if labels.ndim == 2:  # few enough to compare with all classes at once
        every = torch.arange(num_classes, device=labels.device)
        return (labels[:, None] == every[:, None]).sum(2)
    return torch.stack([(labels == c).sum(1) for c in range(num_classes)], 1)


def votes_of(labels: Tensor, num_classes: int) -> Tensor:
    """Return one for each label, `(batch, raters, L, *space)`; zeros where it is MISSING.

    Example:
        >>> votes_of(torch.tensor([[1, -1]]), 2)
        tensor([[[False,  True],
                 [False, False]]])
    """
    every = torch.arange(num_classes, device=labels.device)
    return labels.unsqueeze(2) == every.view(-1, *(1,) * (labels.ndim - 2))


def mean_label(labels: Tensor, num_classes: int, weights: Tensor | None = None) -> Tensor:
    r"""Return the share of each class among the labels that were given; zeros where there are none.

    .. math:: \frac{\sum_r w_r \, 1[o_r = c]}{\sum_r w_r \, 1[o_r \neq -1]}

    Args:
        labels: `(batch, answers, *space)`, with MISSING.
        num_classes: Number of classes.
        weights: Of the answers, `(batch or 1, answers)`, or several weightings of them,
            `(batch or 1, weightings, answers)`; without them all weigh alike.

    Returns:
        `(batch, L, *space)`, or `(batch, weightings, L, *space)`; zeros also where all labels are
        without weight.

    Example:
        >>> labels = torch.tensor([[1, 1, 0, -1], [0, -1, -1, -1]])
        >>> mean_label(labels, 2)
        tensor([[0.3333, 0.6667],
                [1.0000, 0.0000]])
        >>> mean_label(labels, 2, torch.tensor([[0.1, 0.1, 0.3, 0.5]]))
        tensor([[0.6000, 0.4000],
                [1.0000, 0.0000]])
    """
    if weights is None:
        counts = label_counts(labels, num_classes)
        return counts / counts.sum(1, keepdim=True).clamp(min=1)
    chosen = votes_of(labels, num_classes)
    rows = weights.reshape(len(weights), -1, weights.shape[-1])
    total = rows @ chosen.flatten(2).to(rows.dtype)
    total = total.view(len(labels), *weights.shape[1:-1], *chosen.shape[2:])
    return total / total.sum(weights.ndim - 1, keepdim=True).clamp(min=1e-12)


def majority(labels: Tensor, num_classes: int) -> Tensor:
    """Return the class with most labels, `(batch, *space)`; MISSING where nobody labelled.

    Ties go to the class listed first, as in the fusion method `vote`.

    Args:
        labels: `(batch, raters, *space)`, with MISSING.
        num_classes: Number of classes.

    Example:
        >>> majority(torch.tensor([[[1, 1, -1], [1, 0, -1], [0, -1, -1]]]), 2)
        tensor([[ 1,  0, -1]])
    """
    votes = label_counts(labels, num_classes)
    best = votes.max(1).indices  # the first of several; a tenth of the time of argmax
    return best.masked_fill(votes.sum(1) == 0, MISSING)

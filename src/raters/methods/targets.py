"""Targets: cross entropy with hard or soft ones, the vote of a batch, raters' matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters import confusion as matrices
from raters.methods.base import Task
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.study.case import Case


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
        by_class = weights.view(-1, *(1,) * (target.ndim - 2))
        return -(target * by_class * log_truth).sum(), (target.sum(1) > 0).sum()
    chosen = log_truth.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    known = target != MISSING
    return -(chosen * weights[target.clamp(min=0)] * known).sum(), known.sum()


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
    votes = torch.stack([(labels == c).sum(1) for c in range(num_classes)], 1)
    return votes.argmax(1).masked_fill(votes.sum(1) == 0, MISSING)


def count_case(case: Case, target: NDArray[Any], task: Task) -> NDArray[np.float64]:
    """Count a case's labels against a target: `(raters, L, L)`, `[t, o]`.

    Args:
        case: The case.
        target: Labels `(*space)` with MISSING, or soft ones `(L, *space)`.
        task: What is learnt.
    """
    return matrices.count_case(case, target, task.num_classes)


def rows_of(counts: NDArray[Any], unseen: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return matrices with rows that sum to one; rows of classes that never occurred as given."""
    rows = matrices.normalise(counts)
    return np.where(np.isnan(rows), unseen, rows)

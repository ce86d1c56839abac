"""Counting raters' labels against a target, for masks and answers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.methods.base import Task

if TYPE_CHECKING:
    from raters.study.case import Case


def count_case(case: Case, target: NDArray[Any], task: Task) -> NDArray[np.float64]:
    """Count a case's labels against a target: `(raters, L, L)`, `[t, o]`.

    Args:
        case: The case.
        target: Labels `(*space)` with MISSING, or soft ones `(L, *space)`.
        task: What is learnt.
    """
    counts = np.zeros((len(task.raters), task.classes, task.classes))
    soft = as_soft(target, task.classes).reshape(task.classes, -1)
    for rater, labels in zip(case.raters, case.labels, strict=True):
        flat = labels.reshape(-1)
        for observed in range(task.classes):
            counts[rater, :, observed] += soft[:, flat == observed].sum(axis=1)
    return counts


def as_soft(target: NDArray[Any], classes: int) -> NDArray[np.floating[Any]]:
    """Give labels as probabilities `(L, *space)`; MISSING is zero everywhere."""
    if np.issubdtype(target.dtype, np.floating):
        return target
    numbers = np.arange(classes).reshape(-1, *(1,) * target.ndim)
    found: NDArray[np.float32] = (target == numbers).astype(np.float32)  # MISSING is no class
    return found

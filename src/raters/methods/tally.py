"""Counting raters' labels against a target, for masks and answers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters import confusion as matrices
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
    return matrices.count_case(case, target, task.num_classes)


def rows_of(counts: NDArray[Any], unseen: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return matrices with rows that sum to one; rows of classes that never occurred as given."""
    rows = matrices.normalise(counts)
    return np.where(np.isnan(rows), unseen, rows)

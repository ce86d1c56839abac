"""Column dominance of the raters' mean matrix: a condition for telling truth from error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def dominance_margin(confusion: NDArray[Any]) -> float:
    """Give how far the mean matrix is from losing column dominance; positive if it has it.

    With `C*` the mean over raters, the margin is `min_{i != j} C*[i, i] - C*[j, i]`: among the
    labels `i`, those of true class `i` must be more frequent than those of any other true class
    `j` (classes weighing alike). This is a condition of Theorem 1 in Tanno et al. (2019,
    "Learning From Noisy Labels By Regularized Estimation Of Annotator Confusion"), who write it
    by rows of the transposed matrix. It does not suffice alone: the theorem also asks that a
    network on the images fits every rater, and for the smallest trace.

    Args:
        confusion: `(raters, L, L)` or one matrix `(L, L)`, `C[t, o]`.

    Example:
        >>> dominance_margin(np.array([[0.6, 0.4], [0.3, 0.7]]))
        0.3
    """
    mean = np.asarray(confusion, np.float64).reshape(-1, *confusion.shape[-2:]).mean(axis=0)
    if len(mean) == 1:
        return float(mean[0, 0])
    others = np.where(np.eye(len(mean), dtype=bool), -np.inf, mean)
    return float(round((np.diag(mean) - others.max(axis=0)).min(), 12))


def is_dominant(confusion: NDArray[Any]) -> bool:
    """Say whether the raters' mean matrix is column-dominant.

    Example:
        >>> flipper = np.array([[0.3, 0.7], [0.7, 0.3]])
        >>> is_dominant(flipper), is_dominant(np.stack([flipper, np.eye(2)]))
        (False, True)
    """
    return dominance_margin(confusion) > 0

"""Column dominance of the raters' mean matrix: a condition for telling truth from error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from raters.arrays import Array


def dominance_margin(confusion: Array, labels: ArrayLike | None = None) -> float:
    """Return how far the mean matrix is from losing column dominance; positive if it has it.

    With `C*` the mean over raters, the margin is `min_{i != j} C*[i, i] - C*[j, i]`: among the
    labels `i`, those of true class `i` must be more frequent than those of any other true class
    `j` (classes weighing alike). This is a condition of Theorem 1 in Tanno et al. (2019,
    "Learning From Noisy Labels By Regularized Estimation Of Annotator Confusion") and in Zhang et
    al. (2020, "Disentangling Human Error from the Ground Truth in Segmentation of Medical
    Images"), who write it by rows of the transposed matrix. The former weigh raters alike, as each
    labels equally often there; the latter by how often each labels (their pi_r).

    It is asked of the true matrices and of the estimated ones, and does not suffice alone: the
    theorem also asks that a network on the images fits every rater, and for the smallest trace. An
    estimate in which truth and error are swapped for all raters alike can be dominant too.

    Args:
        confusion: `(raters, L, L)` or one matrix `(L, L)`, `C[t, o]`.
        labels: How many labels each rater gave, `(raters,)`: their weights; None weighs them
            alike. Raters without a label count nowhere.

    Example:
        >>> dominance_margin(np.array([[0.6, 0.4], [0.3, 0.7]]))
        0.3
        >>> flipper = np.array([[0.3, 0.7], [0.7, 0.3]])
        >>> dominance_margin(np.stack([flipper, np.eye(2)]), labels=[30, 10])
        -0.05
    """
    every = np.asarray(confusion, np.float64).reshape(-1, *confusion.shape[-2:])
    weights = np.ones(len(every)) if labels is None else np.asarray(labels, np.float64)
    there = weights > 0  # a rater who never labels may have no matrix at all (NaN)
    if not there.any():
        return float("nan")
    mean = np.average(every[there], axis=0, weights=weights[there])
    if len(mean) == 1:
        return float(mean[0, 0])
    others = np.where(np.eye(len(mean), dtype=bool), -np.inf, mean)
    return float(round((np.diag(mean) - others.max(axis=0)).min(), 12))


def is_dominant(confusion: Array) -> bool:
    """Return whether the raters' mean matrix is column-dominant.

    Example:
        >>> flipper = np.array([[0.3, 0.7], [0.7, 0.3]])
        >>> is_dominant(flipper), is_dominant(np.stack([flipper, np.eye(2)]))
        (False, True)
    """
    return dominance_margin(confusion) > 0

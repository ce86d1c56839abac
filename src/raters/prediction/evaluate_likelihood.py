"""The likelihood of raters' labels by what a model said, in numpy: each rater alone, or together.

Probabilities below the precision of single numbers count as that (1.2e-7), as in
`raters.scores.negative_log_likelihood`: one certain error costs 16 nats and not infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.study.classes import MISSING

LEAST = float(np.finfo(np.float32).eps)


def at_labels(probabilities: NDArray[Any], labels: NDArray[Any]) -> tuple[float, int]:
    """Sum `log p(label)` over the labels that are not MISSING, and count these.

    Args:
        probabilities: `(classes, *space)`; `(classes,)` goes with any number of labels.
        labels: `(*space)`, or `(answers,)`.

    Example:
        >>> log, number = at_labels(np.array([[0.5, 0.25], [0.5, 0.75]]), np.array([1, -1]))
        >>> float(np.exp(log).round(3)), number
        (0.5, 1)
    """
    seen = labels != MISSING
    chosen = labels[seen].astype(np.intp)
    if probabilities.ndim == 1:
        found = probabilities[chosen]
    else:
        found = probabilities[:, seen][chosen, np.arange(chosen.size)]
    return float(np.log(np.maximum(found, LEAST), dtype=np.float64).sum()), int(chosen.size)


def joint_log_likelihood(
    truth: NDArray[Any], matrices: NDArray[Any], labels: Sequence[NDArray[Any]]
) -> float:
    """Sum `log sum_t p(t | x) prod_r C_r[t, o_r]` over pixels: one truth explains all raters.

    Args:
        truth: `p(t | x)`, `(classes, *space)`.
        matrices: `C[t, o]`, `(raters, L, L, *space)`; axes of length 1 where they do not vary.
        labels: Of each rater, `(*space)` with MISSING; where there is no space `(answers,)`.

    Example:
        >>> truth, right = np.array([1.0, 0.0]), np.array([[[0.9, 0.1], [0.2, 0.8]]] * 2)
        >>> log = joint_log_likelihood(truth, right, [np.array([0]), np.array([0])])  # 0.9 * 0.9
        >>> float(np.exp(log).round(2))
        0.81
    """
    classes, space = len(truth), truth.shape[1:]
    log_truth = np.log(np.maximum(truth, LEAST), dtype=np.float64).reshape(classes, -1)
    total, seen = log_truth, np.zeros(log_truth.shape[1], bool)
    for matrix, own in zip(matrices, labels, strict=True):
        log_matrix = np.log(np.maximum(matrix, LEAST), dtype=np.float64)
        log_matrix = log_matrix.reshape(classes, classes, -1)
        if not space:  # a class: all answers of the rater are of the same one
            chosen = own[own != MISSING].astype(np.intp)
            total = total + log_matrix[:, chosen, 0].sum(axis=1, keepdims=True)
            seen |= bool(chosen.size)
            continue
        flat = own.ravel()
        there = np.flatnonzero(flat != MISSING)
        place = there if log_matrix.shape[2] > 1 else 0
        total = total.copy() if total is log_truth else total
        total[:, there] += log_matrix[:, flat[there].astype(np.intp), place]
        seen[there] = True
    kept = total[:, seen]
    top = kept.max(axis=0, initial=-np.inf)
    return float((np.log(np.exp(kept - top).sum(axis=0)) + top).sum())

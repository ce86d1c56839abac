"""The compiled steps of Spatial STAPLE that need no window: whole-image counts and posteriors.

Both run outside Python's lock, on a stretch of voxels.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(nogil=True, cache=True)
def count_pass(
    labels: NDArray[np.int16],
    weights: NDArray[np.float64],
    start: int,
    stop: int,
    counts: NDArray[np.float64],
) -> None:
    """Add up the whole-image counts `(raters, o + 1, t)` of labels `(raters, n)`."""
    for r in range(labels.shape[0]):
        for t in range(weights.shape[0]):
            for i in range(start, stop):
                counts[r, labels[r, i] + 1, t] += weights[t, i]


@numba.njit(nogil=True, cache=True)
def normalise_pass(
    logs: NDArray[np.float64], old: NDArray[np.float64], start: int, stop: int
) -> tuple[float, float]:
    """Turn log weights `(L, n)` into posteriors in place.

    Returns:
        The log-likelihood, and the largest change against the posteriors `old`.
    """
    classes = logs.shape[0]
    log_likelihood, largest = 0.0, 0.0
    for i in range(start, stop):
        highest = -math.inf
        for t in range(classes):
            highest = max(highest, logs[t, i])
        total = 0.0
        for t in range(classes):  # where no class is possible under the prior, nothing is known
            logs[t, i] = math.exp(logs[t, i] - highest) if highest > -math.inf else 1.0
            total += logs[t, i]
        for t in range(classes):
            logs[t, i] /= total
            largest = max(largest, abs(logs[t, i] - old[t, i]))
        log_likelihood += highest + math.log(total)
    return log_likelihood, largest

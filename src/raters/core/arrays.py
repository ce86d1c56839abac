"""Short names of array types, for signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.int16]
"""Class numbers with MISSING."""


def mean_known(
    values: Array, known: Flags | None = None, axis: int = 0, keepdims: bool = False
) -> Floats:
    """Return the mean over an axis of the values that are known (not NaN); NaN where none is.

    Example:
        >>> mean_known(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()
        [2.0, nan]
    """
    there = np.isfinite(values) if known is None else known
    number = there.sum(axis=axis, keepdims=keepdims)
    total = np.where(there, values, 0.0).sum(axis=axis, keepdims=keepdims)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)

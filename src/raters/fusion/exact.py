"""Sums that do not depend on the order of what is added.

EM at an exact tie is decided by the last bit of a sum, and that bit depends on the order of raters,
cases and voxels. So logs lie on a grid on which sums of them are exact, and counts are summed in
twice the precision of a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_BITS = 52
_FEW_BITS = 20


def on_grid(logs: Sequence[Array], terms: int) -> list[Array]:
    """Round logs to a grid that is just fine enough for sums of so many of them to be exact.

    Args:
        logs: Arrays of logs; `-inf` stays.
        terms: At most so many are added.

    Example:
        >>> (logs,) = on_grid([np.log([0.1, 0.7, 0.3, 0.9])], terms=4)
        >>> bool(logs[0] + logs[1] + logs[2] + logs[3] == logs[3] + logs[1] + logs[2] + logs[0])
        True
        >>> float(abs(logs - np.log([0.1, 0.7, 0.3, 0.9])).max()) < 1e-13
        True
    """
    most = max((float(np.abs(a, where=np.isfinite(a), out=np.zeros(a.shape)).max(initial=0.0))
                for a in logs), default=0.0)  # fmt: skip
    scale = 2.0 ** (_BITS - math.ceil(math.log2(max(most * max(terms, 1), 1.0))))
    return [np.rint(a * scale) / scale for a in logs]


def exact_shares(shares: Array) -> Array:
    """Round shares so that sums over up to four thousand million voxels are exact.

    Example:
        >>> exact_shares(np.array([0.0, 1 / 3, 1.0])).round(5).tolist()
        [0.0, 0.33333, 1.0]
    """
    scale = 2.0**_FEW_BITS
    return np.asarray(np.rint(shares * scale) / scale)


def total_of(parts: Sequence[Array]) -> Array:
    """Add sums that come as `(2, ...)`: what was summed, and what rounding took from it.

    Example:
        >>> total_of([np.array([[1e16], [1.0]]), np.array([[1.0], [0.0]])]).tolist()
        [1.0000000000000002e+16]
    """
    high, low = parts[0]
    for more, less in parts[1:]:
        both = high + more
        part = both - high
        low = low + less + ((high - (both - part)) + (more - part))
        high = both
    return np.asarray(high + low)

"""What each rater draws of the consensus: one set of numbers for sentence, figure and table.

Over all cases and foreground classes together, so that what is large counts more than what is small
and the background not at all. With `n[t, o]` pixels of class `t` in the consensus that the rater
calls `o`, and `F = sum n[t, o]` over `t > 0`:

    sensitivity   sum_{t > 0} n[t, t] / F                      the same class
    other         sum_{t > 0, o > 0, o != t} n[t, o] / F       another foreground class
    missed        sum_{t > 0} n[t, 0] / F                      background: these three add up to 1
    beyond        sum_{o > 0} n[0, o] / F                      drawn where the consensus has nothing
    ppv           sum_{t > 0} n[t, t] / sum_{o > 0} n[t, o]    of what is drawn, how much is right
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raters.rows import Row

_MEASURES = ("sensitivity", "ppv", "beyond", "missed", "other")


def foreground_rows(counts: NDArray[np.int64], raters: Sequence[str]) -> list[Row]:
    """Return the numbers above for each rater, with standard errors between cases.

    The error is that of a ratio of sums: `sqrt(n / (n - 1) sum (a - r b)²) / sum b` for `r = a / b`
    over n cases; None with one case. A number that does not exist is None.

    Args:
        counts: `(cases, raters, L, L)`: class of the consensus, then class of the rater.
        raters: Names.

    Example:
        >>> row = foreground_rows(np.array([[[[5, 2], [1, 3]]]]), ["ann"])[0]
        >>> [row[name] for name in ("sensitivity", "ppv", "beyond", "missed", "other")]
        [0.75, 0.6, 0.5, 0.25, 0.0]
    """
    same = np.einsum("krtt->kr", counts[..., 1:, 1:])
    drawn, there = counts[..., 1:].sum(axis=(2, 3)), counts[..., 1:, :].sum(axis=(2, 3))
    missed, beyond = counts[..., 1:, 0].sum(axis=2), counts[..., 0, 1:].sum(axis=2)
    parts = {
        "sensitivity": (same, there),
        "ppv": (same, drawn),
        "beyond": (beyond, there),
        "missed": (missed, there),
        "other": (there - missed - same, there),
    }
    rows = []
    for k, rater in enumerate(raters):
        row: Row = {"rater": rater}
        for name in _MEASURES:
            above, below = (part[:, k].astype(np.float64) for part in parts[name])
            row[name], row[f"{name}_se"] = _ratio(above, below)
        rows.append(row)
    return rows


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> tuple[float | None, ...]:
    total, number = float(below.sum()), int((below > 0).sum())
    if not total:
        return None, None
    ratio = float(above.sum()) / total
    if number < 2:
        return ratio, None
    squares = float(((above - ratio * below) ** 2).sum())
    return ratio, math.sqrt(number / (number - 1) * squares) / total

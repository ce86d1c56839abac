"""Intervals of shares that are estimated: 95 %, also near 0 and 1, also from few groups.

A share `p` with the standard error `e` is as sure as one counted from `n = p (1 - p) / e^2` labels
whose truth is known. Its interval is Wilson's of that many labels (E. B. Wilson, 1927; with an
effective number: E. L. Korn, B. I. Graubard, 1998), with the quantile of Student's t where the
error itself was estimated from few groups. Unlike `p +- 1.96 e` it stays within 0 and 1 and holds
the truth near both. `benchmarks/interval_coverage.py` measures how often.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

LEVEL = 0.95
"""How often an interval should hold the true value."""

LEAST_LABELS = 1.0
"""A share that is no surer than one label makes it has no interval: the labels do not tell it."""

# Quantiles 0.975 of Student's t; importing scipy for them would take longer than most fits.
_FREEDOM = np.array([1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 120, np.inf])
_QUANTILES = np.array(
    [
        12.7062,
        8.0280,
        6.0167,
        4.3027,
        3.5747,
        3.1824,
        2.7764,
        2.5706,
        2.4469,
        2.3060,
        2.2281,
        2.1314,
        2.0860,
        2.0423,
        2.0003,
        1.9799,
        1.9600,
    ]
)


def t_quantile(freedom: ArrayLike) -> Array:
    """Return the 97.5 % quantile of Student's t by its degrees of freedom; NaN below 1.

    Example:
        >>> t_quantile([1, 5, 50, np.inf]).round(2).tolist()
        [12.71, 2.57, 2.01, 1.96]
    """
    given = np.asarray(freedom, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.exp(np.interp(-1 / given, -1 / _FREEDOM, np.log(_QUANTILES)))
    return np.where(given >= 1, found, np.nan)


def share_interval(
    share: ArrayLike, error: ArrayLike, freedom: ArrayLike = np.inf
) -> tuple[Array, Array]:
    """Return both ends of the 95 % interval of a share by its standard error; NaN where none is.

    Args:
        share: The estimate, 0 to 1.
        error: Its standard error.
        freedom: The degrees of freedom that the error was estimated with.

    Example:
        >>> low, high = share_interval(0.9, np.sqrt(0.9 * 0.1 / 50))     # 45 of 50 labels
        >>> round(float(low), 3), round(float(high), 3)
        (0.786, 0.957)
    """
    p, e = np.asarray(share, np.float64), np.asarray(error, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        labels = p * (1 - p) / e**2
        extra = t_quantile(freedom) ** 2 / labels
        centre = (p + extra / 2) / (1 + extra)
        half = np.sqrt(extra * (p * (1 - p) + extra / 4)) / (1 + extra)
        known = (labels >= LEAST_LABELS) & np.isfinite(extra)
    return np.where(known, centre - half, np.nan), np.where(known, centre + half, np.nan)


def effective_groups(sizes: Array) -> Array:
    """Return how many groups of one size `(groups, ...)` are worth: `(sum n)^2 / sum n^2`.

    The degrees of freedom of an error over groups are one less (F. E. Satterthwaite, 1946): where
    one case has nearly all of the labels, there are hardly any.

    Example:
        >>> effective_groups(np.array([[10.0, 100.0], [10.0, 1.0]])).round(2).tolist()
        [2.0, 1.02]
    """
    return groups_from_sums(sizes.sum(axis=0), (sizes**2).sum(axis=0))


def groups_from_sums(total: Array, squares: Array) -> Array:
    """Return `total^2 / squares`, 0 where there is nothing."""
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)

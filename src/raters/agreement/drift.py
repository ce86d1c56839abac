"""Whether a rater changes over time: the trend of a score over the order of readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from raters.arrays import Floats
from raters.scores.bootstrap import GroupBootstrap, Interval
from raters.scores.conventions import UNDEFINED

LEAST_READINGS = 10
"""Groups (patients) that a trend needs; intervals from fewer hold the true one too rarely."""
LEAST_LABELS = 30
"""The same where scores are right or wrong: of 12 labels, the interval holds it in 81 % only."""


@dataclass(frozen=True)
class Trend:
    """A line through the scores over the order of readings.

    Attributes:
        change: From the first reading to the last, with its interval.
        first: Where the line begins.
        last: Where it ends.
        place: Where each reading is in the order, from 0 to 1, `(n,)`.
        readings: How many had both a score and a place.
        least: How many groups are needed to say anything.
    """

    change: Interval
    first: float
    last: float
    place: Floats
    readings: int
    least: int = LEAST_READINGS

    @property
    def exists(self) -> bool:
        """Whether there were enough readings to say anything."""
        return self.change.groups >= self.least and bool(np.isfinite(self.change.low))

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out 0: by chance alone that happens in one of twenty."""
        return self.exists and (self.change.low > 0 or self.change.high < 0)


def trend(order: ArrayLike, scores: ArrayLike, groups: ArrayLike, seed: int = 0) -> Trend:
    """Fit a line to scores by their rank in the order, and say how sure its slope is.

    Least squares of the score on `(rank - 1) / (n - 1)`: pauses do not count, readings of one day
    share a rank. The interval is from resampling groups (`raters.scores.GroupBootstrap`), each with
    its places: cases of one patient are alike.

    Args:
        order: When each reading was made, any numbers that rise; NaN where unknown.
        scores: The score of each; NaN is left out.
        groups: The group (patient) of each.
        seed: The same seed gives the same interval.

    Example:
        >>> found = trend(range(20), np.linspace(0.9, 0.7, 20), range(20))
        >>> round(found.change.estimate, 2), found.differs
        (-0.2, True)
    """
    when, values = np.asarray(order, np.float64), np.asarray(scores, np.float64)
    there = np.isfinite(when) & np.isfinite(values)
    number = int(there.sum())
    place = np.full(len(when), np.nan)
    if number < 2:
        nothing = Interval(UNDEFINED, UNDEFINED, UNDEFINED, number, 0)
        return Trend(nothing, UNDEFINED, UNDEFINED, place, number)
    _, same, times = np.unique(when[there], return_inverse=True, return_counts=True)
    ranks = np.cumsum(times) - (times - 1) / 2  # those of equal times share their mean
    x = place[there] = (ranks[same] - 1) / (number - 1)
    y = values[there]
    sums = np.stack([np.ones(number), x, y, x * x, x * y], axis=1)
    change = GroupBootstrap(np.asarray(groups)[there], seed=seed).interval(sums, slope)
    first = float(y.mean() - change.estimate * x.mean())
    least = LEAST_LABELS if np.isin(y, (0.0, 1.0)).all() else LEAST_READINGS
    return Trend(change, first, first + change.estimate, place, number, least)


def slope(sums: Floats) -> Floats:
    """Return the slope of a least-squares line from sums of 1, x, y, x² and xy, `(..., 5)`.

    Example:
        >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
        >>> slope(np.array([3.0, x.sum(), y.sum(), x @ x, x @ y]))
        array(2.)
    """
    n, x, y, xx, xy = np.moveaxis(np.asarray(sums), -1, 0)
    spread = n * xx - x * x
    there = spread > 1e-12 * np.maximum(n * xx, 1.0)
    found = np.full(np.shape(spread), UNDEFINED)
    return np.asarray(np.divide(n * xy - x * y, spread, out=found, where=there))

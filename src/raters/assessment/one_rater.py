"""What a sheet says of one rater: scores by class, bias, classes mixed up, examples, drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from raters.assessment.readings import OneRater, Readings
from raters.core.arrays import Array, Floats, Ints
from raters.metrics.bootstrap import (
    LEAST_GROUPS,
    GroupBootstrap,
    Interval,
    interval,
    mean_sums,
    ratio,
    wilson,
)
from raters.metrics.conventions import UNDEFINED

ENOUGH = 10
"""Readings from which on a rater of a table is one to compare with."""
_LEAST_MIXED = 3  # labels of a table that were mixed up


@dataclass(frozen=True)
class ClassScore:
    """How far a rater agrees on one class, or on all (`name` is '').

    Attributes:
        name: The class.
        score: The mean over readings, with its interval over groups.
        readings: How many there are.
        others: The same of each of the other raters, sorted; without those who have too few.
    """

    name: str
    score: Interval
    readings: int
    others: tuple[float, ...]


def class_scores(
    readings: Readings, rater: int, own: OneRater, groups: Array, gold: bool = False
) -> list[ClassScore]:
    """Return the scores of a rater by class, and those of all classes last.

    Args:
        readings: Those of all raters.
        rater: The rater's number.
        own: The rater's readings.
        groups: The group of each of these, `(n,)`.
        gold: Against references, and not against the others.
    """
    scores = own.gold if gold else own.scores
    known = np.isfinite(scores)
    least = 1 if own.sizes.shape[1] else ENOUGH
    means = np.delete(readings.means(gold, least), rater, axis=0)
    draws = GroupBootstrap(groups) if len(groups) else None
    found = []
    for k, name in enumerate((*readings.names, "")):
        if draws is not None and known[:, k].any():
            others = np.sort(means[:, k][np.isfinite(means[:, k])])
            if own.sizes.shape[1]:
                score = draws.interval(mean_sums(scores[:, k]), ratio)
            else:
                score = share_interval(scores[:, k], groups)
            found.append(ClassScore(name, score, int(known[:, k].sum()), tuple(others.tolist())))
    return found


def share_interval(right: Floats, groups: Array) -> Interval:
    """Return the share of labels that are right (1, not 0; NaN is left out) with Wilson's interval.

    Labels are right or wrong: resampling 7 right ones of 7 gives '100 % to 100 %', which is not so
    sure. Labels of one group count as one.

    Example:
        >>> print(share_interval(np.ones(7), np.arange(7)))
        1.000 (0.646 to 1.000)
    """
    there = np.isfinite(right)
    share = float(right[there].mean())
    number = len(np.unique(groups[there]))
    low, high = wilson(share, number if number >= LEAST_GROUPS else UNDEFINED)
    return Interval(share, float(low), float(high), number, int((~there).sum()))


def size_ratio(relative: Floats, groups: Array) -> Interval:
    """Return the typical size over that of the others, from `(v - o) / (v + o)`: the median.

    Example:
        >>> size_ratio(np.array([0.0, 0.2, 0.2, 0.2, 0.2, 0.2, 1.0]), np.arange(7)).estimate
        1.5
    """
    found = interval(relative, groups, lambda drawn: float(np.median(drawn)))
    ends = found.estimate, found.low, found.high
    middle, low, high = (np.inf if v >= 1 else round((1 + v) / (1 - v), 6) for v in ends)
    return Interval(middle, low, high, found.groups, found.skipped)


@dataclass(frozen=True)
class MixedUp:
    """A class that a rater takes for another.

    Attributes:
        others: The class that most of the others say.
        said: What the rater says instead.
        share: Of what is the class of the others.
        number: How many labels (or voxels).
        usual: The same share of the other raters together; NaN where they have none.
    """

    others: str
    said: str
    share: float
    number: int
    usual: float


def mixed_up(
    own: Ints, everybody: Ints, names: Sequence[str], masks: bool, most: int = 4
) -> list[MixedUp]:
    """Return the classes that a rater mixes up no less than others do, the largest share first.

    Args:
        own: How often the others say the class of the row, and the rater that of the column.
        everybody: The same, summed over all raters.
        names: The classes, background of masks first.
        masks: Whether background is a class of its own kind: missing and excess are no mix-up.
        most: How many to return.

    Example:
        >>> own = np.array([[8, 2], [6, 4]])
        >>> [(one.others, one.said, one.share) for one in mixed_up(own, 2 * own, "ab", False)]
        [('b', 'a', 0.6)]
    """
    rest = everybody - own
    first = int(masks)
    found = []
    for row in range(first, len(names)):
        for column in range(first, len(names)):
            number = int(own[row, column])
            total = int(own[row].sum())
            if row == column or number < (1 if masks else _LEAST_MIXED) or number < 0.02 * total:
                continue
            usual = rest[row, column] / rest[row].sum() if rest[row].any() else np.nan
            if number / total < usual:
                continue
            one = MixedUp(names[row], names[column], number / total, number, float(usual))
            found.append(one)
    return sorted(found, key=lambda one: -one.share)[:most]


@dataclass(frozen=True)
class Beside:
    """What a rater of masks leaves out of a class, and draws where the others have none of it."""

    missed: float
    beyond: float


def beside(own: Ints, chosen: int) -> Beside:
    """Return the share of the others' class that a rater left bare, and of the rater's, beyond.

    Example:
        >>> beside(np.array([[90, 5], [2, 15]]), 1)
        Beside(missed=0.11764..., beyond=0.25)
    """
    theirs = own[chosen].sum()
    mine = own[:, chosen].sum()
    return Beside(
        float(own[chosen, 0] / theirs) if theirs else np.nan,
        float(own[0, chosen] / mine) if mine else np.nan,
    )


def farthest(own: OneRater, votes: Ints, most: int) -> list[int]:
    """Return which readings differ most from the others, the farthest first.

    Of masks those with the lowest Dice; of labels those that most of the others contradict.

    Args:
        own: The readings of a rater.
        votes: Of tables the labels of each task, `(tasks, L)`.
        most: How many to return; each case once.
    """
    score = own.scores[:, -1]
    if own.vote.size:
        differ = np.flatnonzero(score == 0)
        with_vote = votes[own.cases[differ], own.vote[differ]].astype(np.float64)
        total = votes[own.cases[differ]].sum(axis=1)
        order = differ[np.lexsort((-with_vote, -with_vote / total))]
    else:
        order = np.argsort(np.where(np.isfinite(score), score, np.inf), kind="stable")
        order = order[np.isfinite(score[order]) & (score[order] < 1)]
    _, first = np.unique(own.cases[order], return_index=True)
    return [int(k) for k in order[np.sort(first)][:most]]


@dataclass(frozen=True)
class Drift:
    """How a rater changes over time.

    Attributes:
        agreement: Of the score with the others.
        excess: Of the score less that of the others on the same cases; None of two raters.
        size: Of the relative size, `(v - o) / (v + o)`; None of tables.
    """

    agreement: Trend
    excess: Trend | None
    size: Trend | None

    @property
    def own(self) -> bool:
        """Whether the change is the rater's: the others do not change alike on these cases."""
        if self.excess is None or not self.agreement.differs:
            return False
        both = self.excess.change.estimate * self.agreement.change.estimate
        return self.excess.differs and both > 0


def drift(own: OneRater, order: Floats, groups: Array) -> Drift:
    """Return the trends of a rater over the order of readings, `(n,)`; NaN is unknown."""
    over = partial(trend, order, groups=groups)
    score = own.scores[:, -1]
    excess = over(score - own.others) if np.isfinite(own.others).any() else None
    size = over(own.sizes[:, -1]) if own.sizes.shape[1] else None
    return Drift(over(score), excess, size)


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
    share a rank. The interval is from resampling groups (`raters.metrics.GroupBootstrap`), each
    with its places: cases of one patient are alike.

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
    when = np.asarray(order, np.float64)
    values = np.asarray(scores, np.float64)
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

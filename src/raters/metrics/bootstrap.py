"""How sure a mean score is: intervals from resampling whole groups, such as patients.

Slices of one patient are alike. Resampling slices as if they were independent gives intervals that
are too narrow; resampling patients with all of theirs does not.

A mean, a likelihood by label, an accuracy of classes, a calibration error: each is a function of
sums over cases. For these a draw needs only the sums of each group, and one set of draws serves
all scores and all methods, so that differences are paired (`GroupBootstrap`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Floats, Ints
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.metrics.conventions import UNDEFINED

OfSums = Callable[[Floats], Floats]
"""Takes sums `(..., columns)` and gives the score `(...)`; NaN where it does not exist."""

Statistic = Callable[[Floats], float]

LEAST_GROUPS = 6
"""Fewer groups have no interval: all draws lie between the lowest and the highest group, and these
hold the true mean too rarely (4 groups: in 88 % of studies; 5 of skewed scores: in 85 %)."""

_KEPT = 1 << 26  # counts of drawn groups that are kept in memory
_CELLS = 1 << 22  # drawn groups held at a time


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval.

    Attributes:
        estimate: The statistic of all scores that exist.
        low: The lower end; NaN if no interval exists.
        high: The upper end; NaN if no interval exists.
        groups: How many groups had a score.
        skipped: How many scores were undefined and left out.

    Example:
        >>> print(Interval(0.8, 0.75, 0.84, groups=12, skipped=0))
        0.800 (0.750 to 0.840)
        >>> print(Interval(0.8, float("nan"), float("nan"), groups=1, skipped=2))
        0.800 (no interval: found 1 group, expected at least 6; 2 undefined scores left out)
    """

    estimate: float
    low: float
    high: float
    groups: int
    skipped: int

    @property
    def exists(self) -> bool:
        """Whether there were enough groups, at least 6, for an interval."""
        return self.groups >= LEAST_GROUPS

    def __str__(self) -> str:
        ends = f"{self.low:.3f} to {self.high:.3f}"
        if not self.exists:
            found = many(self.groups, "group")
            ends = f"no interval: found {found}, expected at least {LEAST_GROUPS}"
        left_out = f"; {self.skipped} undefined scores left out" if self.skipped else ""
        return f"{self.estimate:.3f} ({ends}{left_out})"


def interval(
    scores: ArrayLike,
    groups: ArrayLike | None = None,
    statistic: Statistic | None = None,
    level: float = 0.95,
    repeats: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return a statistic of scores with its percentile bootstrap interval over groups.

    In each repeat as many groups as there are get drawn with replacement, each with all its
    scores; the interval goes from a low to a high quantile of the repeats' statistics. A. C.
    Davison, D. V. Hinkley, Bootstrap methods and their application, 1997, section 3.8. Draws of
    few groups spread too little, so the quantiles lie further out the fewer there are
    (`quantile_of`). Fewer than 6 groups have no interval.

    Args:
        scores: One number per case, `(n,)`; NaN is left out.
        groups: The group of each case, for example its patient; None if each stands alone.
        statistic: A function of the drawn scores `(k,)`; None is their mean, and fast.
        level: How often the interval should hold the true value.
        repeats: How many times to draw.
        seed: The same seed gives the same interval.

    Example:
        >>> values = [0.7, 0.8, 0.9, 0.8, 0.6, 0.9, 0.8]
        >>> print(interval(values, groups=["a", "a", "b", "c", "d", "e", "f"]))
        0.786 (0.671 to 0.883)
        >>> print(interval([0.7, 0.8], groups=["a", "a"]))
        0.750 (no interval: found 1 group, expected at least 6)
    """
    values = np.asarray(scores, np.float64)[..., None]
    own = None if statistic is None else (lambda drawn: statistic(drawn[:, 0]))
    return _interval(values, groups, own, level, repeats, seed)


def difference_interval(
    a: ArrayLike,
    b: ArrayLike,
    groups: ArrayLike | None = None,
    statistic: Statistic | None = None,
    level: float = 0.95,
    repeats: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return `statistic(b) - statistic(a)` of two methods on the same cases, with its interval.

    Paired: each repeat draws the same groups for both, so that what makes a case hard cancels.
    Cases where either score is NaN are left out. The other arguments are those of `interval`.

    Example:
        >>> print(difference_interval(np.arange(6) / 10, np.arange(1, 7) / 10))
        0.100 (0.100 to 0.100)
    """
    first = np.asarray(a, np.float64)
    second = np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise RatersError(f"found {first.size} and {second.size} scores, expected pairs")
    if statistic is None:  # a difference of means is the mean of differences
        return _interval((second - first)[:, None], groups, None, level, repeats, seed)

    def difference(drawn: Floats) -> float:
        return statistic(drawn[:, 1]) - statistic(drawn[:, 0])

    pairs = np.stack([first, second], axis=1)
    return _interval(pairs, groups, difference, level, repeats, seed)


def _interval(
    values: Floats,
    groups: ArrayLike | None,
    statistic: Statistic | None,
    level: float,
    repeats: int,
    seed: int,
) -> Interval:
    """Do the work for scores `(n, columns)`: leave out NaN, estimate, draw, take quantiles."""
    _refuse_draws(level, repeats)
    if values.ndim != 2:
        raise RatersError(f"found scores of {values.ndim - 1} axes, expected one number per case")
    kept = ~np.isnan(values).any(axis=1)
    skipped = int((~kept).sum())
    names = group_names(groups, len(values))[kept]
    values = values[kept]
    if not len(values):
        return Interval(UNDEFINED, UNDEFINED, UNDEFINED, 0, skipped)
    estimate = float(values.mean() if statistic is None else statistic(values))
    found, numbers = np.unique(names, return_inverse=True)
    if len(found) < LEAST_GROUPS:
        return Interval(estimate, UNDEFINED, UNDEFINED, len(found), skipped)
    draws = drawn_groups(len(found), repeats, np.random.default_rng(seed))
    if statistic is None:
        sums = np.bincount(numbers, values[:, 0])
        counts = np.bincount(numbers)
        drawn = np.concatenate([sums[some].sum(1) / counts[some].sum(1) for some in draws])
    else:
        order = np.argsort(numbers, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
        chosen = (np.concatenate([members[g] for g in some]) for block in draws for some in block)
        drawn = np.array([statistic(values[rows]) for rows in chosen])
    return Interval(estimate, *_ends(drawn, level, len(found)), len(found), skipped)


def _refuse_draws(level: float, repeats: int) -> None:
    if not 0 < level < 1:
        raise RatersError(f"found level {level:g}, expected a number between 0 and 1")
    if repeats < 1:
        raise RatersError(f"found {repeats} repeats, expected at least 1")


def _ends(drawn: Floats, level: float, groups: int) -> tuple[float, float]:
    """Return the ends of the interval that scores of drawn groups make."""
    tail = quantile_of(level, groups)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def quantile_of(level: float, groups: int) -> float:
    """Return the lower quantile of draws that makes an interval of a level from so many groups.

    `Phi(-sqrt(n / (n - 1)) t)`, with `t` the quantile of Student's t with `n - 1` degrees of
    freedom: the expanded percentile interval of T. C. Hesterberg, What teachers should know about
    the bootstrap, The American Statistician 69, 2015. For a mean it is as wide as Student's.

    Example:
        >>> [round(quantile_of(0.95, n), 4) for n in (5, 10, 1000)]
        [0.001, 0.0086, 0.0248]
    """
    from scipy.special import ndtr, stdtrit

    t = stdtrit(groups - 1, (1 + level) / 2)
    return float(ndtr(-t * np.sqrt(groups / (groups - 1))))


def group_names(groups: ArrayLike | None, cases: int) -> Array:
    """Return the group of each case; without groups each stands alone."""
    if groups is None:
        return np.arange(cases)
    names = np.asarray(groups)
    if names.shape != (cases,):
        raise RatersError(f"found {names.size} groups for {cases} scores, expected one per score")
    return names


def drawn_groups(groups: int, repeats: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Draw groups with replacement, `(repeats, groups)`, in blocks of bounded size."""
    block = max(1, _CELLS // groups)
    for start in range(0, repeats, block):
        yield rng.integers(groups, size=(min(block, repeats - start), groups))


def wilson(share: ArrayLike, labels: ArrayLike, z: ArrayLike = 1.96) -> tuple[Floats, Floats]:
    """Return both ends of the interval of a share of so many labels (E. B. Wilson, 1927)."""
    p, width, number = (np.asarray(given, np.float64) for given in (share, z, labels))
    extra = np.square(width) / number
    centre = (p + extra / 2) / (1 + extra)
    half = np.sqrt(extra * (p * (1 - p) + extra / 4)) / (1 + extra)
    return centre - half, centre + half


def ratio(sums: Floats) -> Floats:
    """Divide the first of two sums by the second; NaN where the second is 0.

    Example:
        >>> ratio(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([0.75,  nan])
    """
    part = sums[..., 0]
    whole = sums[..., 1]
    found = np.divide(part, whole, out=np.full(np.shape(whole), UNDEFINED), where=whole > 0)
    return np.asarray(found)


def mean_sums(scores: ArrayLike) -> Floats:
    """Return what `ratio` makes the mean of: `(cases, 2)`, the score and 1, or 0 and 0 for NaN.

    Example:
        >>> mean_sums([0.5, float("nan")])
        array([[0.5, 1. ],
               [0. , 0. ]])
    """
    values = np.asarray(scores, np.float64)
    there = ~np.isnan(values)
    return np.stack([np.where(there, values, 0.0), there.astype(np.float64)], axis=-1)


class GroupBootstrap:
    """Draws whole groups with replacement; every score is taken of the same draws.

    With the same seed the draws are those of `raters.metrics.interval` (if all groups have a
    score).

    Args:
        groups: The group of each case, for example its patient.
        level: How often an interval should hold the true value.
        repeats: How many times to draw.
        seed: The same seed gives the same intervals.

    Example:
        >>> bootstrap = GroupBootstrap(["a", "a", "b", "c", "d", "e", "f"])
        >>> print(bootstrap.interval(mean_sums([0.7, 0.8, 0.9, 0.8, 0.6, 0.9, 0.8]), ratio))
        0.786 (0.671 to 0.883)
    """

    def __init__(
        self, groups: ArrayLike, level: float = 0.95, repeats: int = 2000, seed: int = 0
    ) -> None:
        _refuse_draws(level, repeats)
        names = np.asarray(groups)
        found, self._numbers = np.unique(group_names(names, len(names)), return_inverse=True)
        self.groups = len(found)
        self.level = level
        self.repeats = repeats
        self.seed = seed

    def interval(self, sums: ArrayLike, score: OfSums) -> Interval:
        """Return the score of all cases with its interval; `sums` are `(cases, columns)`."""
        return self._interval([self._by_group(sums)], lambda drawn: score(drawn[0]))

    def difference(self, a: ArrayLike, b: ArrayLike, score: OfSums) -> Interval:
        """Return `score(b) - score(a)` of two methods on the same cases, with a paired interval."""
        both = [self._by_group(a), self._by_group(b)]
        return self._interval(both, lambda drawn: score(drawn[1]) - score(drawn[0]))

    def _by_group(self, sums: ArrayLike) -> Floats:
        values = np.asarray(sums, np.float64)
        if values.ndim != 2 or len(values) != len(self._numbers):
            raise RatersError(
                f"found sums of shape {values.shape}, expected a row for each of "
                f"{len(self._numbers)} cases"
            )
        columns = [np.bincount(self._numbers, column, self.groups) for column in values.T]
        return np.stack(columns, axis=1)

    def _interval(self, parts: list[Floats], score: Callable[[list[Floats]], Floats]) -> Interval:
        estimate = float(score([part.sum(axis=0) for part in parts]))
        there = int(np.logical_or.reduce([(part != 0).any(axis=1) for part in parts]).sum())
        if there < LEAST_GROUPS:
            return Interval(estimate, UNDEFINED, UNDEFINED, there, 0)
        drawn = np.concatenate([score([w @ part for part in parts]) for w in self._weights()])
        drawn = drawn[~np.isnan(drawn)]  # draws without any case that has a score
        if not drawn.size:
            return Interval(estimate, UNDEFINED, UNDEFINED, there, 0)
        return Interval(estimate, *_ends(drawn, self.level, there), there, 0)

    def _weights(self) -> Iterator[Floats]:
        """Return how often each group is drawn, `(some repeats, groups)`, in blocks."""
        kept = self.groups * self.repeats <= _KEPT
        for block in self._counts if kept else self._counted():
            yield block.astype(np.float64)

    @cached_property
    def _counts(self) -> list[Array]:
        return list(self._counted())

    def _counted(self) -> Iterator[Array]:
        kind = np.uint8 if self.groups < 256 else np.uint16
        for drawn in drawn_groups(self.groups, self.repeats, np.random.default_rng(self.seed)):
            rows = np.arange(len(drawn))[:, None] * self.groups
            flat = np.bincount((rows + drawn).ravel(), minlength=len(drawn) * self.groups)
            yield flat.reshape(len(drawn), self.groups).astype(kind)

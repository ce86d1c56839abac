"""Intervals of scores that come from sums over cases, with the same draws for every score.

A mean, a likelihood by label, an accuracy of classes, a calibration error: each is a function of
sums over cases. Then a draw of groups needs only the sums of each group, and one set of draws
serves all scores and all methods, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.scores.bootstrap import (
    LEAST_GROUPS,
    Interval,
    drawn_groups,
    group_names,
    quantile_of,
)
from raters.scores.empty import UNDEFINED

Floats = NDArray[np.float64]
OfSums = Callable[[Floats], Floats]
"""Takes sums `(..., columns)` and gives the score `(...)`; NaN where it does not exist."""

_KEPT = 1 << 26  # counts of drawn groups that are kept in memory


def ratio(sums: Floats) -> Floats:
    """Divide the first of two sums by the second; NaN where the second is 0.

    Example:
        >>> ratio(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([0.75,  nan])
    """
    part, whole = sums[..., 0], sums[..., 1]
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

    With the same seed the draws are those of `raters.scores.interval` (if all groups have a score).

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
        if not 0 < level < 1 or repeats < 1:
            raise RatersError(
                f"found level {level:g} and {repeats} repeats, expected 0 < level < 1 and repeats"
            )
        names = np.asarray(groups)
        found, self._numbers = np.unique(group_names(names, len(names)), return_inverse=True)
        self.groups, self.level, self.repeats, self.seed = len(found), level, repeats, seed

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
        tail = quantile_of(self.level, there)
        low, high = np.quantile(drawn, [tail, 1 - tail])
        return Interval(estimate, float(low), float(high), there, 0)

    def _weights(self) -> Iterator[Floats]:
        """Return how often each group is drawn, `(some repeats, groups)`, in blocks."""
        kept = self.groups * self.repeats <= _KEPT
        for block in self._counts if kept else self._counted():
            yield block.astype(np.float64)

    @cached_property
    def _counts(self) -> list[NDArray[Any]]:
        return list(self._counted())

    def _counted(self) -> Iterator[NDArray[Any]]:
        kind = np.uint8 if self.groups < 256 else np.uint16
        for drawn in drawn_groups(self.groups, self.repeats, np.random.default_rng(self.seed)):
            rows = np.arange(len(drawn))[:, None] * self.groups
            flat = np.bincount((rows + drawn).ravel(), minlength=len(drawn) * self.groups)
            yield flat.reshape(len(drawn), self.groups).astype(kind)

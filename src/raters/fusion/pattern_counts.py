"""Gathers the patterns of labels of many cases, in memory that does not grow with their number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.fusion.columns import Columns, merge

Groups = dict[str, NDArray[np.float64]]

MOST_KEPT = 1 << 20
"""So many patterns may be kept; a group's own are kept until all groups' are more than this."""

MOST_OF_GROUPS = 1 << 24
"""The largest table of groups by patterns."""


def occurring(columns: Columns) -> Columns:
    """Return the patterns that occur, each once; voxels are forgotten.

    Example:
        >>> found = occurring(Columns(np.array([[0, 1, 0]], np.int8), np.ones(1)))
        >>> found.labels.tolist(), found.weights.tolist()
        ([[0, 1]], [2.0, 1.0])
    """
    if columns.codes is None:  # voxels: a pattern may be there many times
        return merge([columns])[0]
    there = columns.weights > 0
    return Columns(columns.labels[:, there], columns.weights[there])


class PatternCounts:
    """How often each pattern of labels occurs, in all cases and by group.

    Attributes:
        full: Whether there were more patterns than are kept; nothing more is gathered then.

    Example:
        >>> counts = PatternCounts()
        >>> counts.add("a", Columns(np.array([[0, 1], [0, 1]], np.int8), np.array([5.0, 2.0])))
        >>> counts.add("b", Columns(np.array([[1], [1]], np.int8), np.array([4.0])))
        >>> columns, groups = counts.result()
        >>> columns.labels.tolist(), columns.weights.tolist()
        ([[0, 1], [0, 1]], [5.0, 6.0])
        >>> {name: weights.tolist() for name, weights in groups.items()}
        {'a': [5.0, 2.0], 'b': [0.0, 4.0]}
    """

    def __init__(self) -> None:
        self.full = False
        self._parts: list[tuple[str | None, Columns]] = []
        self._waiting = 0

    def add(self, group: str, columns: Columns) -> None:
        """Add the patterns of a case, as `occurring` gives them."""
        if self.full:
            return
        self._parts.append((group, columns))
        self._waiting += columns.size
        if self._waiting > MOST_KEPT:
            self._shrink()

    def _shrink(self) -> None:
        """Forget the groups; keep the sums."""
        whole, _ = merge([columns for _, columns in self._parts])
        self._parts = [(None, whole)]
        self._waiting = 2 * whole.size  # so that it is not done again at every case
        if whole.size > MOST_KEPT // 2:
            self.full, self._parts = True, []

    def result(self) -> tuple[Columns, Groups | None]:
        """Return all patterns, and how often each occurs in each group (None: too many)."""
        whole, numbers = merge([columns for _, columns in self._parts])
        names = {group for group, _ in self._parts}
        if None in names or len(names) * whole.size > MOST_OF_GROUPS:
            return whole, None
        groups: Groups = {}
        for (group, columns), number in zip(self._parts, numbers, strict=True):
            weights = groups.setdefault(str(group), np.zeros(whole.size))
            weights[number] += columns.weights
        return whole, groups

    def __bool__(self) -> bool:
        return bool(self._parts)

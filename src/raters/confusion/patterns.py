"""Which combinations of labels occur, and how often: all that many methods need of a case.

With `R` raters and `L` classes a pixel has one of `(L + 1)^R` patterns (one more for MISSING).
Where these are few, counting them once turns work on millions of pixels into work on hundreds of
patterns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raters.arrays import Array, Ints, Labels

_FEW = 1 << 20
_BLOCK = 1 << 18  # voxels


@dataclass(frozen=True)
class Patterns:
    """The patterns of labels that occur, with how often each does.

    Attributes:
        labels: Class numbers with MISSING, `(patterns, raters)`.
        counts: How many pixels have each pattern, `(patterns,)`.
    """

    labels: Labels
    counts: Ints

    def votes(self, num_classes: int) -> Ints:
        """Count how many raters say each class, `(patterns, classes)`."""
        return np.stack([(self.labels == c).sum(axis=1) for c in range(num_classes)], axis=1)


def count_patterns(labels: Array, num_classes: int) -> Patterns:
    """Count the patterns of labels over all pixels.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.

    Example:
        >>> patterns = count_patterns(np.array([[0, 1, 1, 1], [0, 1, 1, -1]]), num_classes=2)
        >>> patterns.labels.tolist(), patterns.counts.tolist()
        ([[0, 0], [1, -1], [1, 1]], [1, 1, 2])
    """
    raters = len(labels)
    if raters == 0:
        size = int(np.prod(labels.shape[1:]))
        return Patterns(np.zeros((1, 0), np.int16), np.array([size], np.int64))
    flat = np.ascontiguousarray(labels.reshape(raters, -1), np.int16)
    base = num_classes + 1
    if base**raters > _FEW:
        return _by_sorting(flat)
    counts = np.zeros(0, np.int64)
    for start in range(0, flat.shape[1], _BLOCK):  # numpy counts in 8 bytes per voxel
        part = flat[:, start : start + _BLOCK]
        code = np.zeros(part.shape[1], np.int32)
        for row in part:
            code *= base
            code += row
            code += 1
        short, counts = sorted((counts, np.bincount(code)), key=len)
        counts[: len(short)] += short
    found = np.flatnonzero(counts)
    powers = base ** np.arange(raters - 1, -1, -1)
    digits = found[:, np.newaxis] // powers % base - 1
    return Patterns(digits.astype(np.int16), counts[found])


def _by_sorting(flat: Labels) -> Patterns:
    """Count patterns that are too many for a table, by sorting them as bytes."""
    columns = np.ascontiguousarray(flat.T)
    found, counts = np.unique(columns, axis=0, return_counts=True)
    return Patterns(found, counts)

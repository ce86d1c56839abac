"""What raters call foreground by the distance to the border of a consensus.

The signed distance of a voxel goes from its centre to the nearest voxel on the other side, less
half of the smallest spacing, so that the border between two neighbours is at 0; it is negative
inside of the consensus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Flags, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics.conventions import Spacing, label_array, spacing_of
from raters.metrics.surface import bounding_box

DEFAULT_BINS = tuple(float(edge) for edge in range(-10, 11))


@dataclass(frozen=True)
class DistanceCounts:
    """Voxels by distance to the border of the consensus; counts of cases can be added.

    Attributes:
        edges: The edges of the bins.
        seen: How many voxels each rater labelled, `(raters, bins)`.
        drawn: How many of them the rater called foreground, `(raters, bins)`.
    """

    edges: Floats
    seen: Ints
    drawn: Ints

    def __add__(self, other: DistanceCounts) -> DistanceCounts:
        return DistanceCounts(self.edges, self.seen + other.seen, self.drawn + other.drawn)

    @property
    def shares(self) -> Floats:
        """The share of foreground, `(raters, bins)`; NaN where a rater labelled nothing."""
        full = self.seen > 0
        return np.where(full, self.drawn / np.maximum(self.seen, 1), np.nan)


def signed_distance_counts(
    consensus: ArrayLike,
    labels: ArrayLike,
    spacing: Spacing | None = None,
    bins: ArrayLike = DEFAULT_BINS,
    number: int = 1,
) -> DistanceCounts:
    """Count what raters call foreground by the signed distance to the consensus, for one case.

    Where the consensus has no border (nothing or everything is foreground) nothing is counted.

    Args:
        consensus: Class numbers with MISSING, `(*space)`.
        labels: Those of raters, `(raters, *space)`.
        spacing: The size of a voxel by axis.
        bins: Edges, rising; a bin holds its lower edge, the last one both.
        number: The class that is foreground.

    Example:
        >>> counts = signed_distance_counts([0, 0, 1, 1], [[0, 1, 1, 1]], bins=[-2, -1, 0, 1, 2])
        >>> counts.seen.tolist(), counts.drawn.tolist()
        ([[1, 1, 1, 1]], [[1, 1, 1, 0]])
    """
    truth = label_array(consensus)
    given = label_array(labels)
    if given.shape[1:] != truth.shape or given.ndim != truth.ndim + 1:
        raise RatersError(
            f"found labels of shape {given.shape}, expected (raters, "
            f"{', '.join(map(str, truth.shape))}) as the consensus has"
        )
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise RatersError(f"found bins {edges.tolist()}, expected at least two rising edges")
    distance = _signed_distance(truth, number, spacing_of(truth.ndim, spacing))
    empty = np.zeros((len(given), len(edges) - 1), np.int64)
    if distance is None:
        return DistanceCounts(edges, empty, empty)
    seen = [np.histogram(distance[row != MISSING], edges)[0] for row in given]
    drawn = [np.histogram(distance[row == number], edges)[0] for row in given]
    shape = empty.shape
    return DistanceCounts(
        edges, np.array(seen, np.int64).reshape(shape), np.array(drawn, np.int64).reshape(shape)
    )


def _signed_distance(truth: Array, number: int, spacing: Floats) -> Floats | None:
    """Return the signed distance, NaN where the consensus is MISSING; None without a border."""
    from scipy.ndimage import distance_transform_edt

    inside = truth == number
    outside = (truth != number) & (truth != MISSING)
    if not inside.any() or not outside.any():
        return None
    to_inside = distance_transform_edt(~inside, sampling=spacing)
    to_outside = distance_transform_edt(~outside, sampling=spacing)
    half = float(spacing.min()) / 2
    signed = np.where(inside, half - to_outside, to_inside - half)
    return np.where(inside | outside, signed, np.nan)


STEPS = 10
"""Bins on each side of the border."""
_FINEST = 1000  # bins are not finer than this part of the longest side


def bin_step(shape: Sequence[int], spacing: Sequence[float]) -> float:
    """Return the width of bins: about a pixel, more for large images, as 1, 2 or 5 times 10^k.

    Example:
        >>> bin_step((64, 64), (1.0, 1.0)), bin_step((512, 512, 90), (0.7, 0.7, 2.5))
        (1.0, 1.0)
        >>> bin_step((5000, 5000), (1.0, 1.0))
        5.0
    """
    longest = max((n * s for n, s in zip(shape, spacing, strict=True)), default=1.0)
    least = max(min(spacing, default=1.0), longest / _FINEST)
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= least * 0.999))


def border_counts(
    consensus: Array, labels: Array, spacing: Sequence[float], step: float, number: int | None
) -> DistanceCounts:
    """Count what raters call foreground by the distance to the consensus, near its border.

    The same as `signed_distance_counts`, but only around the consensus, and on every second,
    third, ... pixel where bins are that wide.

    Args:
        consensus: Class numbers with MISSING, `(*space)`.
        labels: Those of raters, `(raters, *space)`.
        spacing: The size of a voxel by axis.
        step: The width of a bin.
        number: The class; None for all foreground together.
    """
    edges = np.arange(-STEPS, STEPS + 1, dtype=np.float64) * step
    inside = consensus > 0 if number is None else consensus == number
    window = _around(inside, [math.ceil(STEPS * step / s) + 1 for s in spacing])
    thin = tuple(slice(None, None, max(1, int(step / s))) for s in spacing)
    truth = _foreground(consensus[window][thin], number)
    given = _foreground(labels[(slice(None), *window)][(slice(None), *thin)], number)
    wide = [s * part.step for s, part in zip(spacing, thin, strict=True)]
    return signed_distance_counts(truth, given, wide, edges)


def _foreground(labels: Array, number: int | None) -> Labels:
    drawn = labels > 0 if number is None else labels == number
    return np.where(labels == MISSING, MISSING, drawn).astype(np.int16)


def _around(inside: Flags, margin: Sequence[int]) -> tuple[slice, ...]:
    """Return the box around what is inside, with a margin; all of it where there is nothing."""
    if not inside.any():
        return (slice(None),) * inside.ndim
    box = zip(bounding_box(inside), margin, strict=True)
    return tuple(slice(max(0, one.start - more), one.stop + more) for one, more in box)

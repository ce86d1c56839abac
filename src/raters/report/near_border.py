"""Errors of raters by distance to the border of the consensus, on a grid that is fine enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.plots.boundary import DistanceCounts, signed_distance_counts
from raters.study.classes import MISSING

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
    consensus: NDArray[Any],
    labels: NDArray[Any],
    spacing: Sequence[float],
    step: float,
    number: int | None,
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


def _foreground(labels: NDArray[Any], number: int | None) -> NDArray[np.int16]:
    drawn = labels > 0 if number is None else labels == number
    return np.where(labels == MISSING, MISSING, drawn).astype(np.int16)


def _around(inside: NDArray[np.bool_], margin: Sequence[int]) -> tuple[slice, ...]:
    """Return the box around what is inside, with a margin; all of it where there is nothing."""
    window = []
    for axis, more in enumerate(margin):
        others = tuple(k for k in range(inside.ndim) if k != axis)
        found = np.flatnonzero(inside.any(axis=others))
        if not found.size:
            return (slice(None),) * inside.ndim
        window.append(slice(max(0, int(found[0]) - more), int(found[-1]) + more + 1))
    return tuple(window)

"""Masks of the optic disc and cup as one map: background 0, rim (disc without cup) 1, cup 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from raters.arrays import Array, Flags, Labels
from raters.errors import RatersError
from raters.study import formats
from raters.study.backend import RawMask
from raters.study.classes import Classes
from raters.study.geometry import Geometry
from raters.study.whole_numbers import value_counts

CLASSES = Classes.of(["background", "rim", "cup"])
BACKGROUND, RIM, CUP = range(3)
_INSIDE = 0.5  # the least share of a cup that lies in the disc, where the two were drawn apart


def combined(disc: Path, cup: Path) -> RawMask:
    """Read two masks, and put the cup into the disc; what of it lies outside is cup all the same.

    Raises:
        RatersError: Most of the cup lies outside the disc, or it is larger than the disc.
    """
    in_disc, in_cup = _drawn(disc), _drawn(cup)
    if in_disc.shape != in_cup.shape:
        message = f"found shape {in_cup.shape}, expected {in_disc.shape} as in {disc}"
        raise RatersError(message, kind="geometry", file=cup)
    size, inside = int(in_cup.sum()), int((in_cup & in_disc).sum())
    if size > int(in_disc.sum()) or inside < _INSIDE * size:
        message = (
            f"found a cup of {size:,} pixels, {inside:,} of them in the disc of "
            f"{int(in_disc.sum()):,} ({disc.name}), expected it inside the disc"
        )
        raise RatersError(message, kind="dataset", file=cup)
    values = np.where(in_cup, CUP, np.where(in_disc, RIM, BACKGROUND)).astype(np.int16)
    return RawMask(values, Geometry(values.shape), str(cup), coded=True)


def _drawn(path: Path) -> Flags:
    """Read where a mask of 0 and one other value, 1 or 255, is not 0."""
    values = formats.read_labels(path).array
    found = sorted(value_counts(values.astype(np.uint8) if values.dtype == bool else values))
    if not set(found) <= {0, 1} and not set(found) <= {0, 255}:
        listed = ", ".join(map(str, found[:5]))
        message = f"found the values {listed}, expected 0 and 255 (or 1) in a mask of one structure"
        raise RatersError(message, kind="unknown-value", file=path)
    return np.asarray(values != 0)


def by_values(path: Path, rim: int | None, cup: int) -> RawMask:
    """Read a mask that holds the rim and the cup as two values.

    Args:
        path: The file.
        rim: The value of the rim; None takes every value but 0 and the cup's.
        cup: The value of the cup.

    Raises:
        RatersError: There are other values, or the rim lies inside the cup: the two are swapped.
    """
    found = formats.read_labels(path).array
    stray = [] if rim is None else sorted(value_counts(found).keys() - {0, rim, cup})
    if stray:
        message = f"found the value {stray[0]}, expected 0, {rim} (rim) and {cup} (cup)"
        raise RatersError(message, kind="unknown-value", file=path)
    values: Labels = np.where(found == cup, CUP, np.where(found != 0, RIM, 0)).astype(np.int16)
    if _within(values == RIM, values == CUP):
        message = (
            f"found the rim inside the cup (value {cup}), expected it around the cup: are these "
            "the values of another copy?"
        )
        raise RatersError(message, kind="dataset", file=path)
    return RawMask(values, Geometry(values.shape), str(path), coded=True)


def _within(inner: Array, outer: Array) -> bool:
    """Return whether the box around one region lies inside that of another, on all four sides."""
    if not inner.any() or not outer.any():
        return False
    boxes = [
        (at.min(axis=1), at.max(axis=1)) for at in map(np.array, map(np.nonzero, (inner, outer)))
    ]
    (low, high), (outer_low, outer_high) = boxes
    return bool((low > outer_low).all() and (high < outer_high).all())

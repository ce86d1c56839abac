"""What all scores share: what they ask of their input, and what empty masks score.

A formula such as `2 |A B| / (|A| + |B|)` is 0 / 0 on two empty masks. Raters who both say 'there
is nothing here' agree, so that this is not an error to skip but the best score. The rules:

| score | both empty | exactly one empty | no voxel labelled in both |
| --- | --- | --- | --- |
| Dice, IoU, soft Dice | 1 | 0 | undefined |
| 1 - Dice, 1 - IoU (in energy distances) | 0 | 1 | undefined |
| Hausdorff, hd95, average surface distance | 0 | the diagonal of the grid in mm | undefined |
| volume difference in mm³ | 0 | the other's volume, signed | undefined |
| volume difference, relative | 0 | 2 or -2 | undefined |
| accuracy, calibration | - | - | undefined |

The diagonal is `norm(shape * spacing)`; no two voxels are further apart. BraTS takes the same:
373.13 mm for its 240 x 240 x 155 voxels of 1 mm.

*Undefined* is NaN: the score does not exist, for example where a rater skipped the case. Means over
cases leave it out and say how many they left out (`defined_mean`). Nothing else gives NaN, except
where a function says so: the U form of `energy_distance`, empty bins, a pair in `matched_mean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.study import foreign

Spacing = Sequence[float] | Floats
"""The size of a voxel in mm, by axis."""


def label_array(labels: ArrayLike, num_classes: int | None = None) -> Array:
    """Return labels as an integer array; reject fractions and labels that are not classes.

    Example:
        >>> label_array([True, False])
        array([1, 0], dtype=int8)
        >>> label_array([0, 255], num_classes=2)
        Traceback (most recent call last):
        raters.core.errors.RatersError: found label 255, expected -1 (MISSING) or a class ...
    """
    array = foreign.label_array(labels)
    if num_classes is not None and array.size:
        low = int(array.min())
        high = int(array.max())
        if low < MISSING or high >= num_classes:
            raise RatersError(
                f"found label {low if low < MISSING else high}, "
                f"expected {MISSING} (MISSING) or a class from 0 to {num_classes - 1}"
            )
    return array


def label_pair(a: ArrayLike, b: ArrayLike, num_classes: int | None = None) -> tuple[Array, Array]:
    """Return two label arrays of the same shape."""
    first = label_array(a, num_classes)
    second = label_array(b, num_classes)
    if first.shape != second.shape:
        raise RatersError(
            f"found labels of shapes {first.shape} and {second.shape}, expected the same shape"
        )
    return first, second


def check_classes(num_classes: int) -> None:
    """Reject a number of classes that leaves no foreground."""
    if not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise RatersError(
            f"found {num_classes} classes, expected at least 2: background and a foreground class"
        )


def spacing_of(ndim: int, spacing: Spacing | None) -> Floats:
    """Return the spacing by axis in mm; 1 where none is known.

    Example:
        >>> spacing_of(2, None)
        array([1., 1.])
        >>> spacing_of(2, (1.0, 1.0, 3.0))
        Traceback (most recent call last):
        raters.core.errors.RatersError: found spacing (1.0, 1.0, 3.0), expected 2 numbers above 0
    """
    if spacing is None:
        return np.ones(ndim)
    given = np.asarray(spacing, np.float64)
    if given.shape != (ndim,) or not (np.isfinite(given) & (given > 0)).all():
        found = tuple(given.ravel().tolist())
        raise RatersError(f"found spacing {found}, expected {ndim} numbers above 0")
    return given


BOTH_EMPTY_OVERLAP = 1.0
"""Dice, IoU and soft Dice of two empty masks."""

UNDEFINED = float("nan")
"""The score does not exist: there is nothing to compare."""


class DefinedMean(NamedTuple):
    """A mean, over how many scores it goes, and how many were undefined and left out."""

    mean: float
    used: int
    skipped: int


def defined_mean(scores: ArrayLike) -> DefinedMean:
    """Average scores, leaving out those that do not exist, and say how many these were.

    Of nothing but undefined scores the mean is undefined.

    Example:
        >>> defined_mean([0.5, float("nan"), 1.0])
        DefinedMean(mean=0.75, used=2, skipped=1)
    """
    values = np.asarray(scores, np.float64).ravel()
    kept = values[~np.isnan(values)]
    mean = float(kept.mean()) if kept.size else UNDEFINED
    return DefinedMean(mean, kept.size, values.size - kept.size)


def overlap_ratio(part: ArrayLike, whole: ArrayLike, common: ArrayLike) -> Floats:
    """Divide an overlap by its whole, with the rules above; `common` counts voxels in both.

    Example:
        >>> overlap_ratio(part=[3, 0, 0, 0], whole=[4, 2, 0, 0], common=[9, 9, 9, 0])
        array([0.75, 0.  , 1.  ,  nan])
    """
    part, whole, common = np.broadcast_arrays(
        *(np.asarray(given, np.float64) for given in (part, whole, common))
    )
    ratio = np.full(whole.shape, BOTH_EMPTY_OVERLAP)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return np.where(common > 0, ratio, UNDEFINED)


def diagonal(shape: Sequence[int], spacing: Spacing | None = None) -> float:
    """Return the diagonal of a grid in mm: the distance where exactly one mask is empty.

    Example:
        >>> round(diagonal((240, 240, 155)), 2)
        373.13
    """
    return float(np.linalg.norm(np.array(shape) * spacing_of(len(shape), spacing)))

"""What every score asks of its input: arrays of one shape, known labels, a spacing by axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from raters.arrays import Array, Floats
from raters.errors import RatersError
from raters.study.classes import MISSING
from raters.study.foreign import array_of

Spacing = Sequence[float] | Floats
"""The size of a voxel in mm, by axis."""


def label_array(labels: ArrayLike, num_classes: int | None = None) -> Array:
    """Return labels as an integer array; reject fractions and labels that are not classes.

    Example:
        >>> label_array([True, False])
        array([1, 0], dtype=int8)
        >>> label_array([0, 255], num_classes=2)
        Traceback (most recent call last):
        raters.errors.RatersError: found label 255, expected -1 (MISSING) or a class from 0 to 1
    """
    array = array_of(labels)
    if array.dtype.kind == "b":
        array = array.view(np.int8)
    if array.dtype.kind not in "iu" and array.size:
        raise RatersError(f"found labels of type {array.dtype}, expected whole numbers")
    if num_classes is not None and array.size:
        _refuse_unknown(array, num_classes)
    return array


def label_pair(a: ArrayLike, b: ArrayLike, num_classes: int | None = None) -> tuple[Array, Array]:
    """Return two label arrays of the same shape."""
    first, second = label_array(a, num_classes), label_array(b, num_classes)
    if first.shape != second.shape:
        raise RatersError(
            f"found labels of shapes {first.shape} and {second.shape}, expected the same shape"
        )
    return first, second


def check_classes(num_classes: int) -> None:
    """Reject a number of classes that leaves no foreground."""
    if num_classes < 2:
        raise RatersError(
            f"found {num_classes} classes, expected at least 2: background and a foreground class"
        )


def check_choice(what: str, found: object, expected: Sequence[str]) -> None:
    """Reject a word that is not one of those expected."""
    if found not in expected:
        raise RatersError(f"found {what} {found!r}, expected {' or '.join(map(repr, expected))}")


def spacing_of(ndim: int, spacing: Spacing | None) -> Floats:
    """Return the spacing by axis in mm; 1 where none is known.

    Example:
        >>> spacing_of(2, None)
        array([1., 1.])
        >>> spacing_of(2, (1.0, 1.0, 3.0))
        Traceback (most recent call last):
        raters.errors.RatersError: found spacing (1.0, 1.0, 3.0), expected 2 numbers above 0
    """
    if spacing is None:
        return np.ones(ndim)
    given = np.asarray(spacing, np.float64)
    if given.shape != (ndim,) or not (np.isfinite(given) & (given > 0)).all():
        found = tuple(given.ravel().tolist())
        raise RatersError(f"found spacing {found}, expected {ndim} numbers above 0")
    return given


def _refuse_unknown(labels: Array, num_classes: int) -> None:
    low, high = int(labels.min()), int(labels.max())
    if low < MISSING or high >= num_classes:
        raise RatersError(
            f"found label {low if low < MISSING else high}, "
            f"expected {MISSING} (MISSING) or a class from 0 to {num_classes - 1}"
        )

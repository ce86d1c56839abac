"""Turns what a mask file holds into whole numbers, or says why that cannot be done."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Ints
from raters.core.errors import RatersError

_BLOCK = 1 << 18  # values
_WHITE = (255, 65535)  # what pictures of 8 and 16 bits use for foreground

MOST_VALUES = 32
"""A file with more values than this is taken for a grey picture, unless its values are named."""


def whole_numbers(array: Array, threshold: float | None = None) -> Array:
    """Return the labels of a mask as integers; floats such as 1.0 are whole, 0.7 is rejected.

    With a threshold, a mask of 0 and 1 stays as it is and any other becomes `array > threshold`.

    Example:
        >>> whole_numbers(np.array([0.0, 2.0]))
        array([0, 2], dtype=int32)
        >>> whole_numbers(np.array([0, 130, 255]), threshold=127)
        array([0, 1, 1], dtype=uint8)
    """
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind not in "iuf":
        raise RatersError(
            f"found values of type {array.dtype}, expected whole numbers", kind="not-whole"
        )
    if threshold is not None:
        return _cut(array, threshold)
    return _rounded(array) if array.dtype.kind == "f" else array


def _cut(array: Array, threshold: float) -> NDArray[np.uint8]:
    if array.size == 0 or bool(((array == 0) | (array == 1)).all()):
        return array.astype(np.uint8)
    above = np.asarray(array > threshold)
    # All of one kind is what a wrong threshold gives, and what a faint or a full mask gives.
    if above.all() or not above.any():
        _refuse_out_of_range(array, threshold)
    return above.view(np.uint8)


def _refuse_out_of_range(array: Array, threshold: float) -> None:
    """Reject a threshold that no mask of these values can cross, so that it would say nothing.

    The range is that of probabilities (0 to 1), of black and white (0 to 255), or of the integers
    that the file can hold. (A mask of 0 and 100 may well be too faint for a threshold of 127.)
    """
    low = float(np.nanmin(array))
    high = float(np.nanmax(array))
    least = min(low, 0.0)
    most = np.inf
    if low >= 0 and high <= 1 and array.dtype.kind == "f":
        most = 1.0
    elif high in _WHITE and bool(((array == 0) | (array == high)).all()):
        most = high
    elif array.dtype.kind in "iu":
        most = float(np.iinfo(array.dtype).max)
    if not least <= threshold < most:
        raise RatersError(
            f"found values from {low:g} to {high:g} and the threshold {threshold:g}, expected a "
            f"threshold from {least:g} to less than {most:g}: this one makes the whole mask "
            f"{'foreground' if threshold < low else 'background'}",
            kind="threshold",
        )


def _rounded(array: Array) -> NDArray[np.int32]:
    array = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    with np.errstate(invalid="ignore"):
        rounded = np.rint(array)
        whole = (rounded == array) & (np.abs(rounded) < 2**31)
    if not whole.all():
        found = array[~whole].ravel()[0]
        raise RatersError(
            f"found value {found:g}, expected whole numbers "
            "(a grey or probability mask needs --threshold, for example --threshold 0.5)",
            kind="not-whole",
        )
    return np.asarray(rounded, np.int32)


def value_counts(values: Array) -> dict[int, int]:
    """Count how often each whole number occurs.

    Example:
        >>> value_counts(np.array([0, 4, 4, -1]))
        {-1: 1, 0: 1, 4: 2}
    """
    if values.size == 0:
        return {}
    if values.dtype == np.uint8 and values.size > _BLOCK:
        counts = _count_bytes(values.ravel(order="K"))
        return {int(v): int(counts[v]) for v in np.flatnonzero(counts)}
    low = int(values.min())
    high = int(values.max())
    if low > -(1 << 16) and high < 1 << 16:
        base = min(low, 0)
        counts = np.zeros(high - base + 1, np.int64)
        flat = values.ravel(order="K")  # no copy, whatever the order of the axes
        for start in range(0, flat.size, _BLOCK):  # numpy counts in 8 bytes per value
            part = flat[start : start + _BLOCK].astype(np.intp) - base
            counts += np.bincount(part, minlength=len(counts))
        return {int(v) + base: int(counts[v]) for v in np.flatnonzero(counts)}
    found, times = np.unique(values, return_counts=True)
    return {int(v): int(n) for v, n in zip(found, times, strict=True)}


def _count_bytes(flat: NDArray[np.uint8]) -> Ints:
    """Count bytes, `(256,)`; two at a time, which takes half as long."""
    pairs = flat[: flat.size // 2 * 2].view(np.uint16)
    counts = np.zeros(1 << 16, np.int64)
    for start in range(0, pairs.size, _BLOCK):  # numpy counts in 8 bytes per value
        counts += np.bincount(pairs[start : start + _BLOCK], minlength=1 << 16)
    table = counts.reshape(256, 256)
    single = table.sum(axis=0) + table.sum(axis=1)
    if flat.size % 2:
        single[flat[-1]] += 1
    return np.asarray(single)


def refuse_grey(counts: dict[int, int], file: str) -> None:
    """Reject a mask with so many values that it must be a grey picture.

    Raises:
        RatersError: that asks for a threshold.
    """
    if len(counts) > MOST_VALUES:
        message = (
            f"found {len(counts)} values from {min(counts)} to {max(counts)}, expected few: "
            "a grey mask needs --threshold (for example --threshold 127); "
            "if these are classes, name them with --values; "
            "if they number the segments or objects of this one image, they are no classes: "
            "write the segments' boundaries instead (skimage.segmentation.find_boundaries), or "
            "one class at a time (--threshold 0 tells objects from background); "
            "if this is an image, name it with --images"
        )
        raise RatersError(message, kind="grey", file=file)


def at_least(least: int, given: object, what: str) -> int:
    """Return a whole number that is not too small.

    Raises:
        RatersError: For what is no whole number, or too small.

    Example:
        >>> at_least(1, 2.5, "samples")
        Traceback (most recent call last):
        raters.core.errors.RatersError: found 2.5 samples, expected at least 1, a whole number
    """
    if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < least:
        raise RatersError(f"found {given!r} {what}, expected at least {least}, a whole number")
    return int(given)

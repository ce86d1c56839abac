"""Images and masks as 2D pictures: channels, grey values, and the slice of a volume to show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.agreement.case import entropy_map
from raters.errors import RatersError
from raters.scores.inputs import label_array
from raters.study.classes import MISSING

_LARGE = 4_000_000  # values
_DRAWN = 1_000_000


def mask_stack(masks: ArrayLike) -> NDArray[Any]:
    """Give masks as `(raters, *space)` of 2D or 3D; refuse what cannot be drawn."""
    try:
        array = label_array(masks)
    except ValueError:
        raise RatersError("found masks of different shapes, expected one shape") from None
    if array.ndim not in (3, 4) or not array.size:
        raise RatersError(
            f"found masks of shape {array.shape}, expected (raters, rows, columns) "
            "or (raters, i, j, k) with at least one rater and pixel"
        )
    return array


def picture(image: ArrayLike, space: tuple[int, ...], channel: int | None) -> NDArray[np.float64]:
    """Give an image as values from 0 to 1, `(*space)` for grey or `(*space, 3)` for colours.

    Three channels are colours, unless `channel` chooses one; of other numbers the first is shown.
    Grey values are cut at their 1st and 99th percentile.

    Example:
        >>> picture(np.arange(3.0).reshape(1, 1, 3), (1, 3), None).round(2).tolist()
        [[0.0, 0.5, 1.0]]
    """
    array = np.asarray(image)
    array = array[np.newaxis] if array.shape == space else array
    if array.shape[1:] != space:
        raise RatersError(
            f"found an image of shape {np.shape(image)}, expected (channels, "
            f"{', '.join(map(str, space))}) as the masks have"
        )
    if channel is not None and not 0 <= channel < len(array):
        raise RatersError(f"found channel {channel}, expected 0 to {len(array) - 1}")
    if len(array) == 3 and channel is None:
        return _scaled(np.moveaxis(array, 0, -1), whole=array.dtype == np.uint8)
    return _scaled(array[channel or 0], whole=False)


def _scaled(values: NDArray[Any], whole: bool) -> NDArray[np.float64]:
    large = values.size > _LARGE
    if large and values.dtype.itemsize < 8:  # a slide in float64 takes gigabytes
        values = np.asarray(values, np.float32)
    else:
        values = np.asarray(values, np.float64)
    if whole:
        return np.asarray(values / 255)
    known = _drawn(values) if large else values
    known = known[np.isfinite(known)]
    low, high = np.percentile(known, [1, 99]) if known.size else (0.0, 1.0)
    if high <= low:
        low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    scaled = values - values.dtype.type(low)
    scaled /= values.dtype.type(high - low or 1.0)
    return np.asarray(np.nan_to_num(scaled.clip(0, 1, out=scaled), copy=False))


def _drawn(values: NDArray[Any]) -> NDArray[Any]:
    """Draw so many values that percentiles are settled."""
    return values.ravel()[np.random.default_rng(0).integers(0, values.size, _DRAWN)]


def chosen_slice(masks: NDArray[Any], axis: int, number: int | None) -> int:
    """Give the slice of volumes `(raters, i, j, k)` to show: where raters differ most.

    Where they do not differ, it is the one with most foreground. `axis` counts in space.

    Example:
        >>> masks = np.zeros((2, 4, 4, 3), int)
        >>> masks[0, 1, 1, 2] = 1
        >>> chosen_slice(masks, axis=2, number=None)
        2
    """
    length = masks.shape[1 + axis]
    if number is not None:
        if not 0 <= number < length:
            raise RatersError(f"found slice {number}, expected 0 to {length - 1}")
        return number
    others = tuple(k for k in range(3) if k != axis)
    spread = entropy_map(masks, int(masks.max(initial=1)) + 1).sum(axis=others)
    if not spread.any():
        spread = ((masks != 0) & (masks != MISSING)).any(axis=0).sum(axis=others)
    return int(spread.argmax())


def cut(array: NDArray[Any], axis: int, number: int, lead: int) -> NDArray[Any]:
    """Take a slice across `axis` of space, which begins at axis `lead`, and turn it upright.

    The first axis of space that is left runs to the right and the second one upwards, as people
    look at volumes in RAS order.

    Example:
        >>> volume = np.arange(6).reshape(2, 3, 1)
        >>> cut(volume, axis=2, number=0, lead=0).tolist()
        [[2, 5], [1, 4], [0, 3]]
    """
    flat = np.take(array, number, axis=lead + axis)
    return np.rot90(flat, axes=(lead, lead + 1))

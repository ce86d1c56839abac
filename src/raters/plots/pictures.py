"""Images and masks as pictures: channels, grey values, and the slice of a volume to show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.agreement.case import entropy_map
from raters.errors import RatersError
from raters.scores.inputs import label_array
from raters.study.classes import MISSING

_AIR = 0.1  # of the voxels, from which on the value of the corners is what is around a patient
_LARGE = 4_000_000  # values
_DRAWN = 1_000_000


def mask_stack(masks: ArrayLike) -> NDArray[Any]:
    """Return masks as `(raters, *space)` of 2D or 3D; reject what cannot be drawn."""
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
    """Return an image as values from 0 to 1, `(*space)` for grey or `(*space, 3)` for colours.

    Three channels are colours, unless `channel` chooses one; of other numbers the first is shown.
    Grey values are cut at their 1st and 99th percentile. Of a volume whose corners have a value
    that more than a tenth of its voxels share (the air around a head), only the others count, and
    are cut at the 0.5th and 99.8th: a lesion of a hundredth of the brain would be plain white.

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
    return _scaled(array[channel or 0], whole=False, volume=len(space) == 3)


def _scaled(values: NDArray[Any], whole: bool, volume: bool = False) -> NDArray[np.float64]:
    large = values.size > _LARGE
    if large and values.dtype.itemsize < 8:  # a slide in float64 takes gigabytes
        values = np.asarray(values, np.float32)
    else:
        values = np.asarray(values, np.float64)
    if whole:
        return np.asarray(values / 255)
    known = _drawn(values) if large else values
    known = known[np.isfinite(known)]
    inside = _without_air(values) if volume else None
    if inside is not None:
        low, high = np.percentile(_drawn(inside) if large else inside, [0.5, 99.8])
    else:
        low, high = np.percentile(known, [1, 99]) if known.size else (0.0, 1.0)
    if high <= low:
        low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    scaled = values - values.dtype.type(low)
    scaled /= values.dtype.type(high - low or 1.0)
    return np.asarray(np.nan_to_num(scaled.clip(0, 1, out=scaled), copy=False))


def _drawn(values: NDArray[Any]) -> NDArray[Any]:
    """Draw so many values that percentiles are settled."""
    return values.ravel()[np.random.default_rng(0).integers(0, values.size, _DRAWN)]


def _without_air(values: NDArray[Any]) -> NDArray[Any] | None:
    """Leave out the value that most corners of a volume have; None if it is not that of air."""
    corners = values[np.ix_(*([0, length - 1] for length in values.shape))]
    found, times = np.unique(corners, return_counts=True)
    inside = values[np.isfinite(values) & (values != found[times.argmax()])]
    return inside if 0 < inside.size < (1 - _AIR) * values.size else None


def most_disputed(masks: NDArray[Any]) -> int:
    """Return where raters differ most among the slices of masks `(raters, slices, rows, columns)`.

    Where they do not differ, it is the slice with most foreground.

    Example:
        >>> masks = np.zeros((2, 3, 4, 4), int)
        >>> masks[0, 2, 1, 1] = 1
        >>> most_disputed(masks)
        2
    """
    spread = entropy_map(masks, int(masks.max(initial=1)) + 1).sum(axis=(1, 2))
    if not spread.any():
        spread = ((masks != 0) & (masks != MISSING)).any(axis=0).sum(axis=(1, 2))
    return int(spread.argmax())

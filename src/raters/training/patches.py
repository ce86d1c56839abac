"""Where patches lie in an image, and cutting them out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Corner = tuple[int, ...]
Value = TypeVar("Value", bound=np.generic)

MOST_POSITIONS = 10_000
"""Foreground pixels of a case that are remembered as centres of patches."""


def random_corner(
    rng: np.random.Generator,
    foreground: NDArray[Any] | None,
    shape: Sequence[int],
    patch_size: Sequence[int],
    foreground_share: float = 0.5,
) -> Corner:
    """Choose where a patch starts.

    With probability `foreground_share` it is centred on a random foreground pixel, then moved into
    the image; else (and where there is no foreground) every place is equally likely.

    Args:
        rng: Randomness.
        foreground: Where some rater sees foreground: a mask `(*space)`, or the positions in the
            flattened image that `foreground_positions` gives; None for none.
        shape: The spatial shape of the image.
        patch_size: The shape of the patch; along an axis that is shorter it starts at 0.
        foreground_share: How often to look at foreground.

    Example:
        >>> mask = np.zeros((100, 100), bool)
        >>> mask[50, 3] = True
        >>> random_corner(np.random.default_rng(0), mask, (100, 100), (10, 10), 1.0)
        (45, 0)
    """
    last = [max(side - size, 0) for side, size in zip(shape, patch_size, strict=True)]
    if foreground is not None and rng.random() < foreground_share:
        flat = foreground
        if foreground.dtype == bool:
            flat = np.flatnonzero(foreground)
        if len(flat):
            centre = np.unravel_index(int(flat[rng.integers(len(flat))]), tuple(shape))
            starts = [int(c) - size // 2 for c, size in zip(centre, patch_size, strict=True)]
            return tuple(min(max(s, 0), most) for s, most in zip(starts, last, strict=True))
    return tuple(int(rng.integers(most + 1)) for most in last)


def foreground_positions(labels: NDArray[Any], most: int = MOST_POSITIONS) -> NDArray[np.int64]:
    """Return the flat positions of pixels that some rater labelled as a class above 0.

    Args:
        labels: `(raters, *space)`.
        most: Give at most so many, evenly spread.

    Example:
        >>> foreground_positions(np.array([[[0, 1], [-1, 0]], [[0, 0], [2, 0]]]))
        array([1, 2])
    """
    flat = np.flatnonzero((labels > 0).any(axis=0)).astype(np.int64)
    if len(flat) <= most:
        return flat
    return flat[np.linspace(0, len(flat) - 1, most).round().astype(np.int64)]


def tile_corners(shape: Sequence[int], patch_size: Sequence[int]) -> list[Corner]:
    """Return the corners of tiles that cover an image without overlap; the last may stick out.

    Example:
        >>> tile_corners((4, 5), (4, 3))
        [(0, 0), (0, 3)]
    """
    return list(
        product(*(range(0, side, size) for side, size in zip(shape, patch_size, strict=True)))
    )


def cut(
    array: NDArray[Value], corner: Sequence[int], patch_size: Sequence[int], fill: float
) -> NDArray[Value]:
    """Cut a patch along the last axes; where it sticks out of the image it is filled.

    Args:
        array: `(..., *space)`.
        corner: Where the patch starts.
        patch_size: The shape of the patch.
        fill: What lies outside: MISSING for labels, 0 for normalised images and soft labels.

    Returns:
        A view where the patch lies inside, else a new array.

    Example:
        >>> cut(np.array([[1, 2, 3]]), (1,), (4,), fill=-1)
        array([[ 2,  3, -1, -1]])
    """
    return pad_to(inside(array, corner, patch_size), patch_size, fill)


def inside(
    array: NDArray[Value], corner: Sequence[int], patch_size: Sequence[int]
) -> NDArray[Value]:
    """Cut the part of a patch that lies in the image: a view.

    Example:
        >>> inside(np.array([[1, 2, 3]]), (1,), (4,))
        array([[2, 3]])
    """
    ends = [start + size for start, size in zip(corner, patch_size, strict=True)]
    part: NDArray[Value] = array[_last([slice(s, e) for s, e in zip(corner, ends, strict=True)])]
    return part


def pad_to(array: NDArray[Value], shape: Sequence[int], fill: float) -> NDArray[Value]:
    """Fill the last axes up to a shape, at their ends.

    Example:
        >>> pad_to(np.array([[1, 2]]), (2, 3), fill=0)
        array([[1, 2, 0],
               [0, 0, 0]])
    """
    front = array.ndim - len(shape)
    if array.shape[front:] == tuple(shape):
        return array
    padded = np.full((*array.shape[:front], *shape), fill, array.dtype)
    padded[_last([slice(side) for side in array.shape[front:]])] = array
    return padded


def _last(slices: list[slice]) -> tuple[Any, ...]:
    """Index the last axes."""
    return (..., *slices)

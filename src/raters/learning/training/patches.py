"""Patches of training images, and random changes of images that move all label maps along."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.core.errors import RatersError, one_of

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
        flat = np.flatnonzero(foreground) if foreground.dtype == bool else foreground
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
    axes = zip(shape, patch_size, strict=True)
    return list(product(*(range(0, side, size) for side, size in axes)))


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
    sides = zip(corner, patch_size, strict=True)
    place: tuple[Any, ...] = (..., *(slice(start, start + size) for start, size in sides))
    part: NDArray[Value] = array[place]
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
    place: tuple[Any, ...] = (..., *map(slice, array.shape[front:]))
    padded[place] = array
    return padded


Maps = Sequence[NDArray[Any]]
Augmented = tuple[NDArray[np.float32], list[NDArray[Any]]]
Augmentation = Callable[[NDArray[np.float32], Maps, np.random.Generator], Augmented]

TURN = np.pi / 12
"""Rotations reach 15 degrees to both sides, in the plane of the first two axes."""
ZOOM = 0.15
"""Every axis is scaled by 0.85 to 1.15."""
OFTEN = {"affine": 0.3, "noise": 0.15, "gamma": 0.3, "contrast": 0.15, "brightness": 0.15}
"""How often each change of 'full' is made; the rates of nnU-Net, or close to them."""

_ONE_AT_A_TIME = Lock()


def no_change(image: NDArray[np.float32], maps: Maps, _: np.random.Generator) -> Augmented:
    """Leave everything as it is."""
    return image, list(maps)


def flip(image: NDArray[np.float32], maps: Maps, rng: np.random.Generator) -> Augmented:
    """Flip along every axis with probability 1/2, and turn by 90 degrees where that fits.

    In 2D all 8 symmetries of a square are equally likely. Plain numpy: a flip by MONAI takes about
    450 us on a 28 x 28 image, nearly all of it for bookkeeping.

    Args:
        image: `(channels, *space)`.
        maps: Arrays `(*space)` or `(something, *space)` that are to move with the image.
        rng: Randomness.

    Example:
        >>> image = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
        >>> turned, (labels,) = flip(image, [image[0].astype(int)], np.random.default_rng(1))
        >>> turned[0].tolist(), bool((labels == turned[0]).all())
        ([[0.0, 2.0], [1.0, 3.0]], True)
    """
    space = image.shape[1:]
    backwards = rng.random(len(space)) < 0.5
    square = len(space) > 1 and space[0] == space[1]
    turn = False
    if square:
        turn = rng.random() < 0.5
    # From behind, as maps may or may not have an axis in front.
    steps: tuple[Any, ...] = (..., *(slice(None, None, -1 if b else 1) for b in backwards))

    def moved(array: NDArray[Any]) -> NDArray[Any]:
        flipped: NDArray[Any] = array[steps]
        return flipped.swapaxes(-len(space), 1 - len(space)) if turn else flipped

    return moved(image), [moved(array) for array in maps]


def full(image: NDArray[np.float32], maps: Maps, rng: np.random.Generator) -> Augmented:
    """Flip, turn and scale a little, and change noise, gamma, contrast and brightness.

    Flips as `flip` makes them, the rest by MONAI, each with the probability in `OFTEN`. The image
    must be normalised: the changes of intensity are in standard deviations, and outside is 0.

    Args:
        image: `(channels, *space)` in 2D or 3D.
        maps: Arrays `(*space)` or `(something, *space)`: they take the nearest value, and beyond
            the image integers become MISSING and floats 0.
        rng: Randomness.

    Example:
        >>> image = np.ones((1, 8, 8), np.float32)
        >>> changed, (labels,) = full(image, [np.ones((8, 8), int)], np.random.default_rng(4))
        >>> changed.shape, changed.dtype, labels.shape, labels.dtype
        ((1, 8, 8), dtype('float32'), (8, 8), dtype('int64'))
    """
    image, moved = flip(image, maps, rng)
    todo = [name for name, share in OFTEN.items() if rng.random() < share]
    if not todo:
        return image, moved
    # MONAI draws from the legacy generator, which can stand on the new one.
    state = np.random.RandomState(rng.bit_generator)
    with _lean():
        if "affine" in todo:
            image, moved = _affine(image, moved, state)
        changed: Any = image.copy()  # the image may be a view of what is cached
        for name in todo:
            if name != "affine":
                changed = _intensity()[name].set_random_state(state=state)(changed)
        return np.asarray(changed, np.float32), moved


AUGMENTATIONS: dict[str, Augmentation] = {"none": no_change, "flip": flip, "full": full}
"""The levels by name; a new one is a function and an entry here."""


def augmentation_of(name: str, axes: int) -> Augmentation:
    """Find an augmentation by its name.

    Args:
        name: A key of `AUGMENTATIONS`.
        axes: The number of spatial axes of the images, 0 for feature vectors.

    Raises:
        RatersError: for an unknown name, and one that does not fit the images.

    Example:
        >>> augmentation_of("flip", axes=2) is flip
        True
        >>> augmentation_of("flip", axes=0)
        Traceback (most recent call last):
        ...
        raters.core.errors.RatersError: found the augmentation 'flip' for feature ...
    """
    one_of(AUGMENTATIONS, name, "the augmentation")
    if axes == 0 and name != "none":
        raise RatersError(
            f"found the augmentation {name!r} for feature vectors, expected 'none': "
            "only images can be flipped or turned"
        )
    if axes not in (2, 3) and name == "full":
        raise RatersError(
            f"found the augmentation 'full' for images with {axes} spatial axes, expected 2 or 3 "
            "('flip' and 'none' take any)"
        )
    return AUGMENTATIONS[name]


@contextmanager
def _lean() -> Iterator[None]:
    """Let MONAI work on one thread and without metadata.

    That took half of the time of small images; where other work keeps the cores busy, a tenth.
    """
    import torch
    from monai.data.meta_obj import get_track_meta, set_track_meta

    with _ONE_AT_A_TIME:
        threads = torch.get_num_threads()
        track = get_track_meta()
        torch.set_num_threads(1)
        set_track_meta(False)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            set_track_meta(track)


def _affine(image: NDArray[np.float32], maps: Maps, state: np.random.RandomState) -> Augmented:
    """Resample the image and all maps on one random grid; maps are stacked and read at once."""
    import torch
    from monai.transforms.spatial.array import Resample

    space = image.shape[1:]
    grid = _affine_grid(len(space)).set_random_state(state=state)(spatial_size=space)
    resample = Resample(padding_mode="zeros", dtype=np.float32)

    def read(array: NDArray[Any], mode: str) -> NDArray[np.float32]:
        values = resample(torch.from_numpy(array), grid=grid, mode=mode)
        return np.asarray(values, np.float32)

    turned = read(image.copy(), "bilinear")
    if not maps:
        return turned, []
    # Beyond the image MONAI writes 0: integers are lifted, so that MISSING is what 0 stands for.
    lowest = [0 if array.dtype.kind == "f" else MISSING for array in maps]
    flat = [array.astype(np.float32).reshape(-1, *space) for array in maps]
    nearest = read(
        np.concatenate([a - low for a, low in zip(flat, lowest, strict=True)]), "nearest"
    )
    parts = np.split(nearest, np.cumsum([len(part) for part in flat])[:-1])
    moved = []
    for array, part, low in zip(maps, parts, lowest, strict=True):
        values = np.rint(part) + low if low else part
        moved.append(values.reshape(array.shape).astype(array.dtype))
    return turned, moved


@cache
def _affine_grid(axes: int) -> Any:  # noqa: ANN401
    """Make MONAI's random grid; in 3D it turns about the last axis, so that slices stay slices."""
    from monai.transforms.spatial.array import RandAffineGrid

    turn = (TURN,) if axes == 2 else (0.0, 0.0, TURN)
    return RandAffineGrid(rotate_range=turn, scale_range=(ZOOM,) * axes)


@cache
def _intensity() -> dict[str, Any]:
    from monai.transforms.intensity.array import (
        RandAdjustContrast,
        RandGaussianNoise,
        RandScaleIntensity,
        RandShiftIntensity,
    )

    return {
        "noise": RandGaussianNoise(prob=1.0, std=0.3),
        "gamma": RandAdjustContrast(prob=1.0, gamma=(0.7, 1.5)),
        "contrast": RandScaleIntensity(factors=0.25, prob=1.0),
        "brightness": RandShiftIntensity(offsets=0.25, prob=1.0),
    }

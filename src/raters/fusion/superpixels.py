"""Superpixels of an image, and the graph of those that touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from raters.arrays import Array, Floats, Ints, Labels
from raters.study.classes import MISSING

SUPERPIXELS = 2000
"""Superpixels of an image, by default; fewer where they would have less than `SMALLEST` pixels."""

SMALLEST = 8
_COMPACT = 0.2
_EDGE = 0.001  # the share of darkest and brightest pixels that do not decide about the range


class RegionGraph(NamedTuple):
    """Which regions of an image touch, and along how many pixels.

    Attributes:
        edges: Pairs of regions, `(edges, 2)`, each once.
        lengths: Pairs of neighbouring pixels across each edge, `(edges,)`.
    """

    edges: Ints
    lengths: Ints


def in_range(image: Array) -> Floats:
    """Return an image with channels last, each from 0 to 1; what is not a number becomes 0.

    The darkest and brightest thousandth of the pixels are cut off.

    Example:
        >>> in_range(np.array([[[0.0, 5.0, 10.0]]]))[..., 0]
        array([[0. , 0.5, 1. ]])
    """
    image = np.nan_to_num(np.moveaxis(image, 0, -1).astype(np.float64), posinf=0.0, neginf=0.0)
    flat = image.reshape(-1, image.shape[-1])
    low, high = np.quantile(flat, [_EDGE, 1 - _EDGE], axis=0)
    narrow = high <= low  # nearly all pixels are alike
    low, high = np.where(narrow, flat.min(0), low), np.where(narrow, flat.max(0), high)
    return np.asarray(np.clip((image - low) / np.where(high > low, high - low, 1.0), 0, 1))


def superpixels_of(image: Array, number: int = SUPERPIXELS, smallest: int = SMALLEST) -> Ints:
    """Part an image into superpixels by SLIC, numbered from 0.

    R. Achanta et al., SLIC superpixels compared to state-of-the-art superpixel methods, IEEE TPAMI
    34, 2012; scikit-image's, in 2D and 3D.

    Args:
        image: `(channels, *space)`.
        number: About how many there shall be.
        smallest: Fewer, if they would have fewer pixels than this.

    Example:
        >>> image = np.zeros((1, 8, 8))
        >>> image[:, 2:5, 3:6] = 1
        >>> regions = superpixels_of(image, 8)
        >>> set(regions[image[0] == 1]) & set(regions[image[0] == 0])
        set()
    """
    from skimage.segmentation import slic

    pixels = in_range(image)
    space = pixels.shape[:-1]
    wanted = max(1, min(number, int(np.prod(space)) // smallest))
    found = slic(pixels, wanted, _COMPACT, convert2lab=False, start_label=0, channel_axis=-1)
    return np.asarray(np.unique(found, return_inverse=True)[1].reshape(space), np.int64)


def region_graph(regions: Ints) -> RegionGraph:
    """Return which regions touch along the axes.

    Example:
        >>> region_graph(np.array([[0, 0, 1], [2, 2, 1]]))
        RegionGraph(edges=array([[0, 1],
           [0, 2],
           [1, 2]]), lengths=array([1, 2, 1]))
    """
    number, pairs = int(regions.max(initial=0)) + 1, []
    for axis in range(regions.ndim):
        ahead, behind = (np.delete(regions, k, axis).ravel() for k in (0, -1))
        low, high = np.minimum(ahead, behind), np.maximum(ahead, behind)
        pairs.append((low * number + high)[low != high])
    keys, lengths = np.unique(np.concatenate(pairs), return_counts=True)
    return RegionGraph(np.stack(np.divmod(keys, number), axis=1), lengths)


def sizes_of(regions: Ints) -> Ints:
    """Return how many pixels each region has."""
    return np.bincount(regions.ravel())


def means_of(pixels: Array, regions: Ints) -> Floats:
    """Return the mean of each region, `(regions, channels)`, of pixels `(*space, channels)`.

    Example:
        >>> means_of(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]))
        array([[2.],
               [5.]])
    """
    flat, channels = regions.ravel(), pixels.reshape(-1, pixels.shape[-1]).T
    sums = np.stack([np.bincount(flat, channel) for channel in channels], 1)
    return np.asarray(sums / sizes_of(regions)[:, np.newaxis])


def split_by_marks(regions: Ints, marks: Labels) -> tuple[Ints, Ints]:
    """Return the class that is marked in each region; part regions with several along their marks.

    Args:
        regions: `(*space)`, numbered from 0.
        marks: Class numbers `(*space)`, MISSING where nothing is marked.

    Returns:
        The regions, numbered anew, and the class marked in each, MISSING without a mark.

    Example:
        >>> split_by_marks(np.array([0, 0, 0, 1, 1, 2]), np.array([1, 0, -1, 1, -1, -1]))
        (array([1, 0, 2, 3, 3, 4]), array([ 0,  1, -1,  1, -1]))
    """
    classes = int(marks.max(initial=0)) + 1
    marked = marks != MISSING
    there = np.zeros((int(regions.max(initial=0)) + 1, classes), bool)
    there[regions[marked], marks[marked]] = True
    apart = (there.sum(axis=1) > 1)[regions]
    last = classes  # unmarked pixels of a region that is parted come last
    keys = regions * (classes + 1) + np.where(apart, np.where(marked, marks, last), 0)
    kept, found = np.unique(keys, return_inverse=True)
    found = found.reshape(regions.shape)
    seeds = np.full(len(kept), MISSING, np.int64)
    seeds[found[marked]] = marks[marked]
    return np.asarray(found, np.int64), seeds

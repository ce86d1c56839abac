"""Superpixels of an image, the graph of those that touch, and regions of several at all scales."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from raters.core.arrays import Array, Flags, Floats, Ints, Labels
from raters.core.classes import MISSING

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
    low = np.where(narrow, flat.min(0), low)
    high = np.where(narrow, flat.max(0), high)
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
    number = int(regions.max(initial=0)) + 1
    pairs = []
    for axis in range(regions.ndim):
        ahead, behind = (np.delete(regions, k, axis).ravel() for k in (0, -1))
        low = np.minimum(ahead, behind)
        high = np.maximum(ahead, behind)
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
    flat = regions.ravel()
    channels = pixels.reshape(-1, pixels.shape[-1]).T
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


class Merges(NamedTuple):
    """A tree of regions: the superpixels, and after them each pair that was merged.

    Attributes:
        members: Which superpixels each region is made of, `(nodes, superpixels)`.
        corners: First and last pixel of each region along each axis, `(nodes, 2, axes)`.
    """

    members: Flags
    corners: Ints


def merge_tree(regions: Ints, colours: Floats, graph: RegionGraph, power: float = 1.0) -> Merges:
    r"""Merge superpixels until nothing is left to merge.

    Two regions that touch are merged in the order of

    .. math:: \Big(\frac{n_i n_j}{n_i + n_j}\Big)^{p} \|c_i - c_j\|^2

    with sizes n and mean colours c: for p = 1 the rise of the squared error (Ward), for p = 0
    colours alone.

    Args:
        regions: Superpixels `(*space)`, numbered from 0.
        colours: Their mean colours, `(superpixels, channels)`.
        graph: Which of them touch.
        power: p.

    Example:
        >>> regions = np.array([[0, 1, 2]])
        >>> graph = RegionGraph(np.array([[0, 1], [1, 2]]), np.array([1, 1]))
        >>> tree = merge_tree(regions, np.array([[0.0], [1.0], [1.2]]), graph)
        >>> tree.members[3:].astype(int), tree.corners[3].tolist()
        (array([[0, 1, 1],
               [1, 1, 1]]), [[0, 1], [0, 2]])
    """
    number = len(colours)
    nodes = 2 * number - 1  # the superpixels, and behind them room for all merges
    sizes = np.zeros(nodes)
    total = np.zeros((nodes, colours.shape[1]))
    sizes[:number] = sizes_of(regions)
    total[:number] = colours * sizes[:number, np.newaxis]
    members = np.eye(nodes, number, dtype=bool)
    corners = np.zeros((nodes, 2, regions.ndim), np.int64)
    corners[:number] = corners_of(regions)
    touching: dict[int, set[int]] = {k: set() for k in range(number)}
    for i, j in graph.edges.tolist():
        touching[i].add(j)
        touching[j].add(i)

    def costs(i: Ints, j: Ints) -> list[float]:
        apart = total[i] / sizes[i, np.newaxis] - total[j] / sizes[j, np.newaxis]
        merged = sizes[i] * sizes[j] / (sizes[i] + sizes[j])
        found: list[float] = (merged**power * (apart**2).sum(axis=1)).tolist()
        return found

    first, second = graph.edges.T
    queue = [*zip(costs(first, second), first.tolist(), second.tolist(), strict=True)]
    heapify(queue)
    made = number
    while queue:
        _, i, j = heappop(queue)
        if i not in touching or j not in touching:
            continue  # merged before
        total[made] = total[i] + total[j]
        sizes[made] = sizes[i] + sizes[j]
        members[made] = members[i] | members[j]
        corners[made, 0] = np.minimum(corners[i, 0], corners[j, 0])
        corners[made, 1] = np.maximum(corners[i, 1], corners[j, 1])
        around = (touching.pop(i) | touching.pop(j)) - {i, j}
        others = list(around)
        for cost, other in zip(
            costs(np.full(len(others), made), np.array(others, int)), others, strict=True
        ):
            touching[other] -= {i, j}
            touching[other].add(made)
            heappush(queue, (cost, other, made))
        touching[made] = around
        made += 1
    return Merges(members[:made], corners[:made])


def corners_of(regions: Ints) -> Ints:
    """Return the first and last pixel of each region along each axis, `(regions, 2, axes)`.

    Example:
        >>> corners_of(np.array([[0, 1], [1, 1]])).tolist()
        [[[0, 0], [0, 0]], [[0, 0], [1, 1]]]
    """
    from scipy.ndimage import find_objects

    found = find_objects(regions.astype(np.int32) + 1)
    return np.array([[[s.start for s in box], [s.stop - 1 for s in box]] for box in found])


def overlap(box: Ints, others: Ints) -> Floats:
    """Return the intersection over union of a box with others.

    Args:
        box: First and last pixel along each axis, `(2, axes)`.
        others: `(boxes, 2, axes)`.

    Example:
        >>> overlap(np.array([[0, 0], [1, 1]]), np.array([[[0, 0], [1, 0]], [[5, 5], [6, 6]]]))
        array([0.5, 0. ])
    """
    first = np.maximum(box[0], others[:, 0])
    last = np.minimum(box[1], others[:, 1])
    both = np.clip(last - first + 1, 0, None).prod(axis=-1)
    one = (box[1] - box[0] + 1).prod()
    other = (others[:, 1] - others[:, 0] + 1).prod(axis=-1)
    return np.asarray(both / (one + other - both))

"""Regions at all scales: superpixels that touch are merged two at a time, the most alike first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from raters.arrays import Flags, Floats, Ints
from raters.fusion.superpixels import RegionGraph


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
    total, sizes = _grown(colours), np.zeros(2 * number - 1)
    sizes[:number] = np.bincount(regions.ravel())
    total[:number] *= sizes[:number, np.newaxis]
    members = np.zeros((2 * number - 1, number), bool)
    members[np.arange(number), np.arange(number)] = True
    corners = np.zeros((2 * number - 1, 2, regions.ndim), np.int64)
    corners[:number] = corners_of(regions)
    touching = _neighbours(graph.edges, number)

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
        total[made], sizes[made] = total[i] + total[j], sizes[i] + sizes[j]
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


def _grown(colours: Floats) -> Floats:
    """Return an array with room for all merges behind the superpixels."""
    found = np.zeros((2 * len(colours) - 1, colours.shape[1]))
    found[: len(colours)] = colours
    return found


def _neighbours(edges: Ints, number: int) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {k: set() for k in range(number)}
    for i, j in edges.tolist():
        found[i].add(j)
        found[j].add(i)
    return found


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
    first, last = np.maximum(box[0], others[:, 0]), np.minimum(box[1], others[:, 1])
    both = np.clip(last - first + 1, 0, None).prod(axis=-1)
    one = (box[1] - box[0] + 1).prod()
    other = (others[:, 1] - others[:, 0] + 1).prod(axis=-1)
    return np.asarray(both / (one + other - both))

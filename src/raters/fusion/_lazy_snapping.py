"""Lazy snapping: a graph cut of superpixels gives unmarked pixels the class of marks alike.

Y. Li, J. Sun, C.-K. Tang and H.-Y. Shum, Lazy snapping, ACM Transactions on Graphics 23(3), 2004.
"""

from __future__ import annotations

import numpy as np

from raters.core.arrays import Array, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.fusion.graph_cut import graph_cut
from raters.fusion.marks import as_fusion, distances, marks_of
from raters.fusion.option_values import Count, NotNegative
from raters.fusion.result import Fusion
from raters.fusion.superpixels import (
    SUPERPIXELS,
    RegionGraph,
    in_range,
    means_of,
    region_graph,
    sizes_of,
    split_by_marks,
    superpixels_of,
)


def lazy_snapping(
    labels: Array,
    num_classes: int,
    image: Array,
    *,
    smoothness: NotNegative = 1.0,
    superpixels: Count = SUPERPIXELS,
) -> Fusion:
    r"""Make a mask of what raters marked and the image, in 2D or 3D.

    Superpixels i get the classes t that make least

    .. math:: \sum_i n_i \frac{d_i^{t_i}}{\sum_t d_i^t}
        + \lambda \sum_{ij} \frac{n_{ij} \, 1[t_i \neq t_j]}{1 + \|c_i - c_j\|^2 / \sigma^2}

    with their size n, the distance d of their mean colour c from the nearest colour of pixels that
    are marked as t (of 64 clusters, if there are more), the length of the border that two share,
    and the mean :math:`\sigma^2` of the squared differences. Marked superpixels keep their class. A
    class that nobody marked in the image does not occur in it; without any marks all is MISSING.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        image: `(channels, *space)`.
        smoothness: The weight of the second sum (the paper's lambda).
        superpixels: About how many superpixels there are, of 8 pixels at least.

    Example:
        >>> image = np.zeros((1, 12, 12))
        >>> image[:, 3:9, 3:9] = 1
        >>> marks = np.full((1, 12, 12), -1)
        >>> marks[0, 5, 5:7], marks[0, 0] = 1, 0
        >>> found = lazy_snapping(marks, 2, image).labels
        >>> int((found == image[0]).sum())
        144
    """
    marks = marks_of(labels, num_classes)
    if (marks == MISSING).all():
        return as_fusion(marks, num_classes)
    regions, seeds = split_by_marks(superpixels_of(image, superpixels), marks)
    pixels = in_range(image)
    seen = marks != MISSING
    colours = means_of(pixels, regions)
    graph = region_graph(regions)
    costs = colour_costs(colours, pixels[seen], marks[seen], num_classes)
    costs = costs * sizes_of(regions)[:, np.newaxis]
    found = graph_cut(hold(costs, seeds), graph.edges, smoothness * contrast(colours, graph))
    return as_fusion(np.where(marks == MISSING, found[regions], marks), num_classes)


def colour_costs(colours: Floats, marked: Floats, marks: Labels, num_classes: int) -> Floats:
    """Return the share of each class in all distances from marked colours, `(regions, L)`.

    Args:
        colours: The mean colours of regions, `(regions, channels)`.
        marked: The colours of marked pixels, `(n, channels)`.
        marks: What they are marked as, `(n,)`.
        num_classes: The number of classes.

    Example:
        >>> colour_costs(np.array([[0.25]]), np.array([[0.0], [1.0]]), np.array([0, 1]), 2)
        array([[0.25, 0.75]])
    """
    far = distances(marked, marks, num_classes, colours)
    total = np.where(np.isfinite(far), far, 0.0).sum(axis=1, keepdims=True)
    return np.where(np.isfinite(far), far / np.where(total > 0, total, 1.0), np.inf)


def contrast(colours: Floats, graph: RegionGraph) -> Floats:
    """Return what it costs to part each pair of regions that touch."""
    squared = ((colours[graph.edges[:, 0]] - colours[graph.edges[:, 1]]) ** 2).sum(axis=1)
    usual = squared.mean() if squared.any() else 1.0
    return np.asarray(graph.lengths / (1 + squared / usual))


def hold(costs: Floats, seeds: Ints) -> Floats:
    """Return costs that let regions with a mark have no other class.

    Example:
        >>> hold(np.ones((2, 2)), np.array([-1, 1]))
        array([[ 1.,  1.],
               [inf,  0.]])
    """
    held = costs.copy()
    marked = seeds != MISSING
    held[marked] = np.inf
    held[marked, seeds[marked]] = 0.0
    return held

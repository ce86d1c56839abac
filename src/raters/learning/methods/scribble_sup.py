"""`scribble-sup`: a graph of superpixels spreads marks, in turns with the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raters.core.arrays import Array, Floats, Ints
from raters.core.classes import MISSING
from raters.fusion._lazy_snapping import hold
from raters.fusion.graph_cut import graph_cut
from raters.fusion.marks import marks_of
from raters.fusion.superpixels import RegionGraph, in_range, region_graph, split_by_marks
from raters.learning.methods.base import Task
from raters.learning.methods.mask_options import ScribbleSupOptions
from raters.learning.methods.region_method import RegionMethod, image_of, refuse_one_class
from raters.learning.methods.targets import Target

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

COLOURS = 25
SLOPES = 10
"""Bins of the histograms of each channel, and of the slope along each axis."""


class _Marked(NamedTuple):
    """What is kept of a case: its graph, what it costs to cut it, and what is marked."""

    edges: Ints
    weights: Floats
    seeds: Ints


class ScribbleSup(RegionMethod):
    r"""Labels of superpixels by a graph cut, and a network that learns them, in turns.

    Superpixels i with pixels x get the classes that make least

    .. math:: \sum_i \psi_i(t_i) - \sum_i \sum_{x \in i} \log p(t_i \mid x)
        + \lambda \sum_{ij} w_{ij} 1[t_i \neq t_j]

    where :math:`\psi` is infinite for classes that contradict a mark in i, and for those that are
    marked nowhere in the image, else 0; the first time there is no second sum. Pairs that touch
    cost less the less alike they are,

    .. math:: w_{ij} = \exp\big(-\|h_i - h_j\|^2 / \delta_h^2 - \|g_i - g_j\|^2 / \delta_g^2\big)

    with histograms h of intensities and g of slopes.

    D. Lin, J. Dai, J. Jia, K. He and J. Sun, ScribbleSup: scribble-supervised convolutional
    networks for semantic segmentation, CVPR 2016.
    """

    options: ScribbleSupOptions

    def __init__(self, task: Task, options: ScribbleSupOptions) -> None:
        super().__init__(task, options)
        self._kept: list[_Marked] = []

    def prepare(self, study: Study) -> None:
        """Make the graphs of all cases."""
        refuse_one_class(study, "scribble-sup")
        self._kept = []
        super().prepare(study)

    def _parted(self, case: Case) -> tuple[Ints, Ints]:
        marks = marks_of(case.labels, self.task.num_classes)
        return split_by_marks(self.superpixels(case), marks)

    def regions(self, case: Case) -> Target:
        """Return the superpixels of a case."""
        return self._parted(case)[0]

    def look_at(self, case: Case) -> int:
        """Keep the graph of a case."""
        regions, seeds = self._parted(case)
        graph = region_graph(regions)
        weights = likeness(image_of(case), regions, graph)
        self._kept.append(_Marked(graph.edges, weights, seeds))
        return len(seeds)

    def labels_of(self, row: int, log_truth: Floats | None) -> Ints:
        """Return the labels of least cost; MISSING where nothing is marked in the whole case."""
        edges, weights, seeds = self._kept[row]
        costs = costs_of(seeds, log_truth, self.task.num_classes)
        if not np.isfinite(costs).any():
            return np.full(len(seeds), MISSING)
        return graph_cut(costs, edges, self.options.smoothness * weights)


def costs_of(seeds: Ints, log_truth: Floats | None, num_classes: int) -> Floats:
    """Return what each class costs each superpixel: marks, and the network if it is asked.

    Example:
        >>> log_truth = np.array([[-1.0, -2, -3], [-2, -0.5, -0.1], [-1, -1, -1]])
        >>> costs_of(np.array([0, -1, 1]), log_truth, 3)
        array([[0. , inf, inf],
               [2. , 0.5, inf],
               [inf, 0. , inf]])
    """
    marked = np.isin(np.arange(num_classes), seeds)
    costs = np.zeros((len(seeds), num_classes)) if log_truth is None else -log_truth[: len(seeds)]
    return hold(np.where(marked, costs, np.inf).astype(np.float64), seeds)


def likeness(image: Array, regions: Ints, graph: RegionGraph) -> Floats:
    """Return how alike superpixels are that touch, from 0 to 1.

    Both deltas are means over the pairs of an image: what is a large difference depends on it.

    Args:
        image: `(channels, *space)`.
        regions: `(*space)`.
        graph: Which of them touch.
    """
    pixels = in_range(image)
    grey = pixels.mean(axis=-1)
    slopes = [
        np.gradient(grey, axis=k) if n > 1 else np.zeros_like(grey)
        for k, n in enumerate(grey.shape)
    ]
    steep = max(float(np.abs(slopes).max()), 1e-12)
    turned = (np.stack(slopes, axis=-1) / steep + 1) / 2
    far = [
        relative(histograms(values, regions, bins), graph.edges)
        for values, bins in ((pixels, COLOURS), (turned, SLOPES))
    ]
    return np.asarray(np.exp(-far[0] - far[1]))


def histograms(values: Array, regions: Ints, bins: int) -> Floats:
    """Return the histogram of each channel of each region, one after the other, with sum 1.

    Args:
        values: `(*space, channels)`, from 0 to 1.
        regions: `(*space)`.
        bins: Of each channel.

    Example:
        >>> histograms(np.array([[0.0], [0.9], [1.0]]), np.array([0, 0, 1]), 2)
        array([[0.5, 0.5],
               [0. , 1. ]])
    """
    channels = values.shape[-1]
    number = int(regions.max()) + 1
    placed = np.minimum((values * bins).astype(np.int64), bins - 1).reshape(-1, channels)
    places = (regions.reshape(-1, 1) * channels + np.arange(channels)) * bins + placed
    counts = np.bincount(places.ravel(), minlength=number * channels * bins)
    found = counts.reshape(number, channels * bins).astype(np.float64)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def relative(features: Floats, edges: Ints) -> Floats:
    """Return the squared difference of each pair, as a multiple of their mean."""
    squared = ((features[edges[:, 0]] - features[edges[:, 1]]) ** 2).sum(axis=1)
    usual = squared.mean() if squared.any() else 1.0
    return np.asarray(squared / usual)

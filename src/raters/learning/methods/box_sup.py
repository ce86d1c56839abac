"""`box-sup`: candidate masks inside boxes, chosen in turns with the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from raters.core.arrays import Array, Flags, Floats, Ints
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.marks import marks_of
from raters.fusion.superpixels import (
    corners_of,
    in_range,
    means_of,
    merge_tree,
    overlap,
    region_graph,
    sizes_of,
    split_by_marks,
)
from raters.learning.methods.base import Batch, HeldOut, Task
from raters.learning.methods.mask_options import BoxSupOptions
from raters.learning.methods.phases import generator_of
from raters.learning.methods.region_method import RegionMethod, image_of, labels_at
from raters.learning.methods.targets import Target

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

LEAST = 0.5
"""How far the box of a candidate overlaps the box that it is a candidate for, at least."""

POWERS = (1.0, 0.5, 0.0)
"""Of the trees of merges that give candidates: from sizes and colours to colours alone."""


class Box(NamedTuple):
    """A box and what may be in it.

    Attributes:
        inside: The regions inside, `(regions,)` numbers.
        sizes: Their pixels.
        candidates: Which of these regions each candidate is made of, `(candidates, regions)`.
        overlaps: How far its own box overlaps the box, `(candidates,)`.
    """

    inside: Ints
    sizes: Ints
    candidates: Flags
    overlaps: Floats


class BoxSup(RegionMethod):
    r"""Chooses a candidate mask for each box, and a network learns them, in turns.

    Candidates S are merges of superpixels at all scales. For a box B those are best that make least

    .. math:: 1 - \mathrm{IoU}(B, \mathrm{box}(S))
        + \lambda \frac{1}{|B|} \sum_{x \in B} -\log p(1[x \in S] \mid x)

    the first time without the second part. The box of S is that of all of it, also outside of B. In
    each epoch one of the best is drawn: what of it is inside is the object, and the rest of the box
    is background.

    J. Dai, K. He and J. Sun, BoxSup: exploiting bounding boxes to supervise convolutional networks
    for semantic segmentation, ICCV 2015.

    Attributes:
        ranked: The best candidates of each box of each case.
        first: The labels of regions that were found first, `(cases, regions)`.
    """

    training_only = ("found", "ranked")
    options: BoxSupOptions
    first: Tensor

    def __init__(self, task: Task, options: BoxSupOptions) -> None:
        super().__init__(task, options)
        self._boxes: list[list[Box]] = []
        self._seeds: list[Ints] = []
        self.ranked: list[list[list[int]]] = []
        self.register_buffer("first", self.found.clone(), persistent=False)

    def prepare(self, study: Study) -> None:
        """Find the boxes of all cases, and candidates for each."""
        if self.task.num_classes != 2:
            raise RatersError(
                f"found {self.task.num_classes} classes, expected 2: a box does not say to box-sup "
                "of which class its object is"
            )
        self._boxes = []
        self._seeds = []
        self.ranked = []
        super().prepare(study)
        self.first = self.found.clone()
        if not any(self._boxes):
            raise RatersError(
                "found no boxes in any case, expected some: background outside and nothing marked "
                "inside (annotation kind 'box'); for other marks take scribble-sup"
            )

    def _parted(self, case: Case) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the superpixels, the number of the box at each pixel, and both together."""
        pixels = self.superpixels(case)
        boxes = boxes_of(case.labels, case.id, self.task.annotations)
        both = np.unique(pixels * (boxes.max() + 1) + boxes, return_inverse=True)[1]
        marks = marks_of(case.labels, self.task.num_classes)
        return pixels, boxes, *split_by_marks(both.reshape(pixels.shape), marks)

    def regions(self, case: Case) -> Target:
        """Return the superpixels of a case, parted along the boxes."""
        return self._parted(case)[2]

    def look_at(self, case: Case) -> int:
        """Keep the candidates of all boxes of a case."""
        pixels, boxes, regions, seeds = self._parted(case)
        self._boxes.append(boxes_with_candidates(image_of(case), pixels, boxes, regions))
        self._seeds.append(seeds)
        self.ranked.append([])
        return len(seeds)

    def labels_of(self, row: int, log_truth: Floats | None) -> Ints:
        """Rank the candidates of a case, and return those that are best."""
        o = self.options
        costs = [costs_of(box, log_truth, o.network_weight) for box in self._boxes[row]]
        self.ranked[row] = [np.argsort(c, kind="stable")[: o.candidates].tolist() for c in costs]
        return self._chosen(row, [ranks[0] for ranks in self.ranked[row]])

    def _chosen(self, row: int, candidates: list[int]) -> Ints:
        """Return the labels of regions for one candidate of each box; marks stay."""
        seeds = self._seeds[row]
        found = seeds.copy()
        for box, candidate in zip(self._boxes[row], candidates, strict=True):
            found[box.inside] = box.candidates[candidate]
        return np.where(seeds == MISSING, found, seeds)

    def start_epoch(self, epoch: int) -> None:
        """Draw one of the best candidates of each box."""
        draws = generator_of("candidates", self.seed, epoch)
        for row, boxes in enumerate(self.ranked):
            drawn = torch.rand(len(boxes), generator=draws).tolist()
            chosen = [ranks[int(d * len(ranks))] for d, ranks in zip(drawn, boxes, strict=True)]
            labels = torch.from_numpy(self._chosen(row, chosen))
            self.found[row, : len(labels)] = labels.to(self.found)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with the candidates that fill their boxes best.

        The labels themselves say background alone: they would choose a network that finds nothing.
        """
        target = labels_at(self.first, batch["row"], batch["regions"])
        return self.held_out_entropy(batch["image"], target)


def boxes_of(labels: Array, case: str, annotations: tuple[str, ...] = ()) -> Ints:
    """Return the number of the box that each pixel is in, from 1 on; 0 outside of all.

    A pixel is inside where most of the raters who draw boxes in the case say nothing. Boxes that
    touch are one.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        case: The name of the case.
        annotations: What each rater's labels are; () if nobody says. Whatever is unmarked must then
            be a box.

    Raises:
        RatersError: What is unmarked is no box.

    Example:
        >>> boxes_of(np.array([[[0, -1, 0, 0], [0, -1, 0, -1]]]), "case")
        array([[0, 1, 0, 0],
               [0, 1, 0, 2]])
    """
    from scipy.ndimage import label

    drawn = (labels != MISSING).reshape(len(labels), -1).any(axis=1)
    if annotations:
        drawn &= np.array([kind == "box" for kind in annotations])
    boxes, number = label((labels[drawn] == MISSING).sum(axis=0) * 2 > drawn.sum())
    if annotations:
        return np.asarray(boxes, np.int64)
    for k, (first, last) in enumerate(corners_of(boxes - 1) if number else [], start=1):
        if (boxes == k).sum() != (last - first + 1).prod():
            raise RatersError(
                f"found unmarked pixels of case {case!r} that are no box, from {first.tolist()} to "
                f"{last.tolist()}, expected boxes: box-sup takes no scribbles",
                case=case,
            )
    return np.asarray(boxes, np.int64)


def boxes_with_candidates(image: Array, pixels: Ints, boxes: Ints, regions: Ints) -> list[Box]:
    """Return each box with its candidates; all of it is one where there is no other.

    Args:
        image: `(channels, *space)`.
        pixels: Superpixels, `(*space)`.
        boxes: The number of the box at each pixel, `(*space)`, 0 outside.
        regions: Superpixels parted along the boxes, `(*space)`.
    """
    if not boxes.any():
        return []
    colours = means_of(in_range(image), pixels)
    graph = region_graph(pixels)
    trees = [merge_tree(pixels, colours, graph, power) for power in POWERS]
    members = np.concatenate([tree.members for tree in trees])
    corners = np.concatenate([tree.corners for tree in trees])
    count = sizes_of(regions)
    of_region = np.zeros((2, len(count)), np.int64)  # the superpixel and the box of each region
    of_region[:, regions.ravel()] = pixels.ravel(), boxes.ravel()
    found = []
    for number, box in enumerate(corners_of(boxes - 1), start=1):
        inside = np.flatnonzero(of_region[1] == number)
        # Of whole candidates, as in the paper: a region that continues outside would fill the box
        # if it were cut at it first.
        overlaps = overlap(box, corners)
        good = overlaps >= LEAST
        candidates = members[good][:, of_region[0, inside]]
        candidates, first = np.unique(candidates, axis=0, return_index=True)
        overlaps = overlaps[good][first]
        if not len(candidates):
            candidates = np.ones((1, len(inside)), bool)
            overlaps = np.ones(1)
        found.append(Box(inside, count[inside], candidates, overlaps))
    return found


def costs_of(box: Box, log_truth: Floats | None, weight: float) -> Floats:
    """Return what each candidate of a box costs, `(candidates,)`.

    Args:
        box: The box.
        log_truth: `log p(t | x)` summed over the pixels of each region, `(regions, 2)`; None to
            look at boxes alone.
        weight: Of what the network says (lambda).

    Example:
        >>> candidates = np.array([[True, False], [True, True]])
        >>> box = Box(np.array([0, 1]), np.array([4, 4]), candidates, np.array([0.9, 1.0]))
        >>> log_truth = np.array([[-8.0, -0.4], [-0.8, -8.0]])
        >>> costs_of(box, None, 3.0), costs_of(box, log_truth, 1.0)
        (array([0.1, 0. ]), array([0.25, 1.05]))
    """
    costs = 1 - box.overlaps
    if log_truth is None:
        return costs
    background, objects = -log_truth[box.inside].T
    wrong = np.where(box.candidates, objects, background).sum(axis=1)
    return np.asarray(costs + weight * wrong / box.sizes.sum())

"""Scores of masks as rows: one mask against another, and a prediction against all raters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.io.rows import Row
from raters.metrics.conventions import spacing_of
from raters.metrics.overlap import (
    dice_from_counts,
    iou_from_counts,
    merged_counts,
    pair_counts,
    soft_counts,
    soft_dice_from_counts,
    volume_from_counts,
)
from raters.metrics.samples import (
    best_mean,
    energy_from_distances,
    matched_mean,
    overlap_from_sizes,
    overlap_sizes,
)
from raters.metrics.surface import SurfaceDistances, surface_distances, surface_distances_by_class

if TYPE_CHECKING:
    from raters.evaluation.case import Scoring
    from raters.study.case import Case

ALL = "all"
"""The name in the column `class` for the mean over foreground classes."""
OF_SAMPLES = ("ged", "matched_dice", "best_dice")


def score_names(surfaces: bool) -> list[str]:
    """Name the scores that `CaseScores` has for masks."""
    distances = ["hd95", "surface_distance"] if surfaces else []
    return ["dice", "dice_drawn", "iou", *distances, "volume_difference", "relative_volume"]


def mask_rows(
    case: Case, against: str, labels: Array, predicted: Array, scoring: Scoring
) -> Iterator[Row]:
    """Score a predicted mask against another: one row per class, for their mean, and per union."""
    classes = len(scoring.study.classes)
    spacing = case.geometry.spacing
    voxel = float(spacing_of(labels.ndim, spacing).prod())
    counts = pair_counts(labels, predicted, classes)
    apart = (
        surface_distances_by_class(labels, predicted, classes, spacing) if scoring.surfaces else []
    )
    scores = _scores(counts, voxel, apart)
    place = {"case": case.id, "group": case.group, "split": case.split, "against": against}
    for k, name in enumerate(scoring.study.classes.names[1:]):
        yield {**place, "class": name, **{s: float(v[k]) for s, v in scores.items()}}
    if classes > 2:
        means = {s: float(v.mean()) for s, v in scores.items()}
        drawn = is_drawn(counts)
        means["dice_drawn"] = float(scores["dice"][drawn].mean()) if drawn.any() else np.nan
        yield {**place, "class": ALL, **means}
    for name, members in scoring.unions.items():
        merged = merged_counts(counts, members)
        apart = []
        if scoring.surfaces:
            inside = [as_one(mask, members, classes) for mask in (labels, predicted)]
            apart = [surface_distances(inside[0], inside[1], spacing)]
        scores = _scores(merged, voxel, apart)
        yield {**place, "class": name, **{s: float(v[0]) for s, v in scores.items()}}


def _scores(
    counts: NDArray[np.int64], voxel: float, apart: Sequence[SurfaceDistances]
) -> dict[str, Floats]:
    volume = volume_from_counts(counts, voxel)
    dice = dice_from_counts(counts)
    found = {"dice": dice, "iou": iou_from_counts(counts)}
    if apart:
        found["hd95"] = np.array([distances.hd95 for distances in apart])
        found["surface_distance"] = np.array([distances.assd for distances in apart])
    found |= {"volume_difference": volume.mm3, "relative_volume": volume.relative}
    # Two empty masks agree (Dice 1); that says nothing on outlines, so it is told apart.
    return found | {"dice_drawn": np.where(is_drawn(counts), dice, np.nan)}


def is_drawn(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which foreground classes are in at least one of two masks."""
    return np.asarray((counts.sum(axis=0) + counts.sum(axis=1))[1:] > 0)


def as_one(labels: Array, members: Sequence[int], num_classes: int) -> Array:
    """Return 1 where a label is one of some classes, else 0; MISSING stays.

    Example:
        >>> as_one(np.array([0, 1, 2, 3, -1]), [1, 3], num_classes=4)
        array([ 0,  1,  0,  1, -1], dtype=int8)
    """
    known = np.zeros(num_classes + 1, np.int8)
    known[list(members)] = 1
    known[MISSING] = MISSING
    return known[labels]


class Variability:
    """How well a prediction fits all raters of a case together, by class and union.

    Soft Dice compares the predicted probability with the raters' mean label. Where there are
    samples, their energy distance from the raters (`ged`: V form, distance 1 - IoU, not squared),
    matched Dice and best Dice.
    """

    def __init__(self, case: Case, scoring: Scoring, raters: Sequence[Array]) -> None:
        self._case = case
        self._raters = raters
        self._classes = len(scoring.study.classes)
        self._unions = scoring.unions
        self._names = [*scoring.study.classes.names[1:], *scoring.unions]
        self._regions = [*((k,) for k in range(1, self._classes)), *scoring.unions.values()]
        self._soft: Any = 0
        self._sizes: Any = 0
        self._samples = 0

    def add(
        self,
        probability: Callable[[tuple[int, ...]], NDArray[np.floating]],
        samples: Sequence[Array],
        rows: Any,  # noqa: ANN401
    ) -> None:
        """Add all rows of the case, or some.

        Args:
            probability: Returns the probability of a union of classes.
            samples: Labels of samples.
            rows: Which rows they are.
        """
        if not self._raters:
            return
        labels = np.stack([mask[rows] for mask in self._raters])
        given = (labels != MISSING).sum(axis=0)
        counts = []
        for region in self._regions:
            votes = (as_one(labels, region, self._classes) > 0).sum(axis=0)
            mean = np.divide(votes, given, out=np.full(given.shape, np.nan), where=given > 0)
            counts.append(soft_counts(mean, probability(region)))
        self._soft = self._soft + np.stack(counts)
        self._samples = len(samples)
        if samples:
            masks = np.concatenate([labels, np.stack(samples)])
            merged = (as_one(masks, u, self._classes) for u in self._unions.values())
            parts = [overlap_sizes(masks, masks, self._classes)]
            parts += [overlap_sizes(one, one) for one in merged]
            self._sizes = self._sizes + np.concatenate(parts, axis=1)

    def rows(self) -> Iterator[Row]:
        """Return one row per class, for their mean, and for each union."""
        if not self._raters:
            return
        case = self._case
        classes = self._classes - 1
        place = {"case": case.id, "group": case.group, "split": case.split}
        soft = soft_dice_from_counts(self._soft)
        similar = [overlap_from_sizes(self._sizes, s) for s in ("iou", "dice") if self._samples]
        at = {name: slice(k, k + 1) for k, name in enumerate(self._names)}
        whole = {ALL: slice(classes)} if classes > 1 else {}
        for name, part in {**dict(islice(at.items(), classes)), **whole, **at}.items():
            row: Row = {**place, "class": name, "raters": len(self._raters)}
            row |= {"samples": self._samples, "soft_dice": float(soft[part].mean())}
            if similar:
                row |= self._of_samples(*(matrix[part].mean(axis=0) for matrix in similar))
            yield row

    def _of_samples(self, iou: Floats, dice: Floats) -> Row:
        number = len(self._raters)
        between = 1.0 - iou[:number, number:]
        within = 1.0 - iou[:number, :number]
        ged = energy_from_distances(between, within, 1.0 - iou[number:, number:])
        pairs = dice[:number, number:]
        return {"ged": ged, "matched_dice": matched_mean(pairs), "best_dice": best_mean(pairs)}

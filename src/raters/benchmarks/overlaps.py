"""Overlap with the truth as papers score it: mIoU, soft Dice; also of recurrences and fused labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from raters.arrays import Array, Ints, Labels
from raters.errors import RatersError
from raters.methods.registry import METHODS
from raters.rows import Row
from raters.scores.overlap import (
    all_iou_from_counts,
    pair_counts,
    soft_counts,
    soft_dice_from_counts,
)
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.fusion.consensus import Consensus
    from raters.prediction.predict import Found
    from raters.prediction.prediction import Prediction
    from raters.study.case import Case
    from raters.study.study import Study
    from raters.training.model import Model


@dataclass
class Overlaps:
    """Sums what a model says of cases with references while it is scored (`watch`).

    Attributes:
        num_classes: The number of classes.
        counts: Pixels by true and by most likely class, of all cases together.
        soft: By case, what soft Dice with the truth is made of, by foreground class.
    """

    num_classes: int
    counts: Ints = field(init=False)
    soft: dict[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = np.zeros((self.num_classes, self.num_classes), np.int64)

    def __call__(self, stream: Iterable[Found]) -> Iterator[Found]:
        """Look at a stream of predictions on its way."""
        for case, bands in stream:
            yield case, bands if isinstance(bands, RatersError) else self._bands(case, bands)

    def _bands(self, case: Case, bands: Iterable[Prediction]) -> Iterator[Prediction]:
        for band in bands:
            if case.reference is not None:
                rows = slice(band.start, band.start + band.truth.shape[1])
                self.add(case.id, case.reference[rows], band.truth)
            yield band

    def add(self, case: str, reference: Labels, truth: Array) -> None:
        """Add all rows of a case, or some.

        Args:
            case: Its name.
            reference: Class numbers with MISSING, `(*space)`.
            truth: What the model says, `p(t | x)`, `(classes, *space)`.
        """
        labels = truth.argmax(axis=0)
        self.counts += pair_counts(reference, labels, self.num_classes)
        known = reference != MISSING
        each = [
            soft_counts((reference[known] == k).astype(float), truth[k][known])
            for k in range(1, self.num_classes)
        ]
        self.soft[case] = np.stack(each) + self.soft.get(case, 0)

    def scores(self) -> Row:
        """Return the scores by name; none without a reference or a foreground class.

        mIoU is of all pixels of all cases together, over the classes that occur, as for scenes;
        soft Dice with the truth is the mean over foreground classes and cases.

        Example:
            >>> found = Overlaps(2)
            >>> found.add("a", np.array([0, 0, 1, 1]), np.array([[1, 0.2, 0, 0], [0, 0.8, 1, 1]]))
            >>> {name: round(score, 3) for name, score in found.scores().items()}
            {'miou': 0.667, 'miou_background': 0.583, 'soft_dice_truth': 0.84}
        """
        iou = all_iou_from_counts(self.counts)
        if np.isnan(iou[1:]).all():
            return {}
        soft = [soft_dice_from_counts(counts).mean() for counts in self.soft.values()]
        return {
            "miou": float(np.nanmean(iou[1:])),
            "miou_background": float(np.nanmean(iou)),
            "soft_dice_truth": float(np.mean(soft)),
        }


RECURRENCES = 4
"""Recurrences that there are scores of, from 0 (the first) on."""


def recurrence_scores(model: Model, test: Study) -> Row:
    """Return soft Dice with the truth of each recurrence, of methods that have some.

    The first is number 0, as papers count what comes before anything recurs.
    """
    if "recurrences" not in model.method.answers:
        return {}
    found: dict[str, Overlaps] = {}
    for case in test.iter_cases():
        if case.reference is not None:
            for k, truth in enumerate(model.recurrences(case)[0][:RECURRENCES]):
                each = found.setdefault(f"soft_dice_rec{k}", Overlaps(len(truth)))
                each.add(case.id, case.reference, truth)
    return {name: each.scores().get("soft_dice_truth") for name, each in found.items()}


def fusion_scores(model: Model, test: Study) -> Row:
    """Return soft Dice with the truth of the test cases' labels, fused.

    Methods that fuse image and labels do so by the model (`soft_dice_fused`); those that train on
    fused labels fuse these likewise. Methods with recurrences can also fuse what they think that
    raters would say (`soft_dice_unseen`). Drawings that are no masks are left out.
    """
    from raters import fuse

    if test.kind != "segmentation" or test.drawn or not test.backend.holds()["reference"]:
        return {}
    answers, way = model.method.answers, METHODS[model.config.method].fixed.get("fusion")
    found: Row = {}
    if "fusion" in answers:
        found["soft_dice_fused"] = _scored(fuse(test, model=model))
    elif way:
        found["soft_dice_fused"] = _scored(fuse(test, str(way)))
    if "recurrences" in answers:
        found["soft_dice_unseen"] = _scored(fuse(test, model=model, use_labels=False))
    return found


def _scored(consensus: Consensus) -> float | None:
    overlaps = Overlaps(len(consensus.study.classes))
    for case, fusion in consensus.iter_cases():
        if case.reference is not None:
            overlaps.add(case.id, case.reference, fusion.truth)
    return overlaps.scores().get("soft_dice_truth")

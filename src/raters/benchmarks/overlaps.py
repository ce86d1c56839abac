"""Overlap with the truth as papers score it: mIoU, soft Dice; of recurrences, of fused labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

    def truths(case: Case) -> dict[str, Array]:
        said = model.recurrences(case)[0][:RECURRENCES]
        return {f"soft_dice_rec{k}": truth for k, truth in enumerate(said)}

    return _soft_dice(test, truths)


def fusion_scores(model: Model, test: Study) -> Row:
    """Return soft Dice with the truth of the test cases' labels, fused.

    Methods that fuse image and labels do so by the model (`soft_dice_fused`); those that train on
    fused labels fuse these likewise. Methods with recurrences can also fuse what they think that
    raters would say (`soft_dice_unseen`). Drawings that are no masks are left out.
    """
    from raters.fusion.consensus import fuse
    from raters.prediction.fuse_model import fuse_with

    if test.kind != "segmentation" or test.drawn or not test.backend.holds()["reference"]:
        return {}
    way = METHODS[model.config.method].fixed.get("fusion")
    if "fusion" in model.method.answers:
        by_model = fuse_with(test, None, model)
        names = {True: "soft_dice_fused", False: "soft_dice_unseen"}
        return _soft_dice(test, lambda c: {names[k]: t for k, t in by_model.truths(c).items()})
    if way:
        fused = fuse(test, str(way))
        return _soft_dice(test, lambda case: {"soft_dice_fused": fused.fuse_case(case).truth})
    return {}


def _soft_dice(test: Study, truths: Callable[[Case], Mapping[str, Array]]) -> Row:
    """Return soft Dice with the references by the name of what is compared with them."""
    found: dict[str, Overlaps] = {}
    for case in test.iter_cases():
        if case.reference is None:
            continue
        for name, truth in truths(case).items():
            found.setdefault(name, Overlaps(len(truth))).add(case.id, case.reference, truth)
    return {name: each.scores().get("soft_dice_truth") for name, each in found.items()}

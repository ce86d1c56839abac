"""Overlap with the truth as papers on scenes and on several raters score it: mIoU, soft Dice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from raters.arrays import Array, Ints, Labels
from raters.errors import RatersError
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

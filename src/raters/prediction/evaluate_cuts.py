"""Dice of a run at each of its cuts: at 0.5, at the best one, and where the area is the raters'.

Two runs are compared fairly at cuts that suit each of them: where fewer than half of the raters
mark an object, a network that learnt their vote misses it at 0.5 although it has found it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.scores.cut import cut_labels
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.classes import MISSING
from raters.training.cuts import AREA, BEST, CutGiven

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.training.model import Model

HALF = "half"
NAMES = (HALF, BEST, AREA)
Floats = NDArray[np.float64]
Labels = NDArray[Any]


@dataclass(frozen=True)
class RunCuts:
    """Where the truth of a run is cut.

    Attributes:
        labels: The cut of all tables, `(classes - 1,)`; None takes the most likely class.
        others: Cuts at which Dice is given too, by name; none for class labels.
    """

    labels: Floats | None = None
    others: dict[str, Floats] = field(default_factory=dict)

    def labels_of(self, truth: NDArray[np.float32]) -> NDArray[np.int16]:
        """Return the labels of `(classes, *space)`."""
        return cut_labels(truth, 0.5 if self.labels is None else self.labels)


def run_cuts(model: Model, given: CutGiven = 0.5) -> RunCuts:
    """Return the cut that is asked for, and those that the model knows."""
    labels = model.cut(given)
    if model.config.kind != "segmentation":
        return RunCuts()
    others = {HALF: np.full(len(labels), 0.5)}
    known = {} if model.cuts is None else {BEST: model.cuts.best, AREA: model.cuts.area}
    others |= {name: cut for name, cut in known.items() if cut is not None}
    return RunCuts(labels, others)


class CutDice:
    """Dice of one case at each cut, against the reference and against each rater.

    Args:
        case: The case, with masks.
        num_classes: How many.
        cuts: The cuts.
    """

    def __init__(self, case: Case, num_classes: int, cuts: RunCuts) -> None:
        self._cuts, self._classes = cuts.others, num_classes
        drawn = [mask for mask in case.labels if (mask != MISSING).any()]
        there = [] if case.reference is None else [case.reference]
        self._masks: dict[str, list[Labels]] = {"reference": there, "raters": drawn}
        self._counts: dict[tuple[str, str, int], NDArray[np.int64]] = {}

    def add(self, truth: NDArray[np.float32], rows: Any) -> None:  # noqa: ANN401
        """Add all rows of the case, or some."""
        for name, cut in self._cuts.items():
            labels = cut_labels(truth, cut)
            for against, masks in self._masks.items():
                for k, mask in enumerate(masks):
                    counts = pair_counts(mask[rows], labels, self._classes)
                    place = (name, against, k)
                    self._counts[place] = self._counts.get(place, 0) + counts

    def vectors(self) -> dict[str, Floats]:
        """Return, by cut and by what it is compared with, Dice of all and each class, and counts.

        `(2, classes)` as one row: the means over masks where they exist, and whether they do.
        """
        found = {}
        for name in self._cuts:
            for against, masks in self._masks.items():
                each = [dice_from_counts(self._counts[name, against, k]) for k in range(len(masks))]
                found[key_of(name, against)] = _sums(each, self._classes)
        return found


def _sums(each: Sequence[Floats], num_classes: int) -> Floats:
    table = np.array([[dice.mean(), *dice] for dice in each]).reshape(-1, num_classes)
    there = ~np.isnan(table)
    number = there.sum(axis=0)
    means = np.where(there, table, 0.0).sum(axis=0) / np.maximum(number, 1)
    return np.concatenate([means, number > 0])


def key_of(name: str, against: str) -> str:
    """Name the sums of a cut against the reference or the raters."""
    return f"{against} at {name}"

"""Sums of one case: what a model says of it against the reference and the raters.

A large image comes in bands of rows. All that is kept of a band are sums, which add up to those of
the case, and the most likely classes, for the distances of surfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.prediction.evaluate_cuts import CutDice, RunCuts
from raters.prediction.evaluate_likelihood import at_labels, joint_log_likelihood
from raters.scores.calibration import brier, reliability_sums
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.prediction.predict import Predicted
    from raters.study.case import Case
    from raters.study.study import Study

BINS = 15
CALIBRATION = 3 * BINS + 3
"""Reliability sums, then the summed Brier score, the summed log loss, and the number of labels."""
FIELDS = ("fit", "fits", "drawn", "drawns", "log", "labels")
"""Sums of a pair 'as X' against Y: Dice (or right answers) and how many, Dice of drawn classes and
how many, log-likelihood and labels."""

Floats = NDArray[np.float64]
Labels = NDArray[Any]


class CaseSums:
    """Adds up what a model says of one case.

    Args:
        case: The case.
        study: Its study.
        known: The raters that are compared, by name: where each is in the study.
        columns: Where these raters are among the model's matrices.
        whole: Whether to compare 'as X' with every Y, and not only with X.
        cuts: Where masks are cut; by default the most likely class.

    Attributes:
        predicted: The class, `(*space)`: the most likely one, or that at the cut.
        at_cuts: Dice at further cuts; None for classes.
        pairs: `(raters, raters, 6)` sums (`FIELDS`) of 'as X' (rows) against Y.
        truth_log: The summed log-likelihood of each rater's labels if they were the truth.
        joint: The summed log-likelihood of all labels together; None without matrices.
        calibration: Of the truth against the reference.
        own: Of 'as X' against X, `(raters, CALIBRATION)`.
        truth: `p(t | x)` of a case that has one class.
        matrices: Those of the raters that are compared, if all rows came at once.
        places: Where these raters are in the study.
    """

    def __init__(
        self,
        case: Case,
        study: Study,
        known: dict[str, int],
        columns: list[int],
        whole: bool,
        cuts: RunCuts | None = None,
    ) -> None:
        self.case, self._known, self._columns, self._whole = case, known, columns, whole
        self._masks = study.kind == "segmentation"
        classes, raters = len(study.classes), len(known)
        space = case.geometry.shape if self._masks else ()
        self.predicted = np.zeros(space, np.int16)
        self.pairs = np.zeros((raters, raters, len(FIELDS)))
        self.truth_log = np.zeros(raters)
        self.joint: float | None = 0.0
        self.calibration = np.zeros(CALIBRATION)
        self.own = np.zeros((raters, CALIBRATION))
        self.truth = np.zeros(classes, np.float32)
        self.matrices: NDArray[np.float32] | None = None
        self.places = list(known.values())
        self._counts: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._classes = classes
        self._cuts = cuts or RunCuts()
        self.at_cuts = CutDice(case, classes, self._cuts) if self._masks else None

    def add(self, band: Predicted) -> None:
        """Add what the model says of all rows, or of some."""
        rows = slice(band.start, band.start + band.truth.shape[1]) if self._masks else ...
        if self.at_cuts is not None:
            self.predicted[rows] = self._cuts.labels_of(band.truth)
            self.at_cuts.add(band.truth, rows)
        else:
            self.predicted[rows] = band.truth.argmax(0)
        reference = self.case.reference
        if reference is not None:
            self.calibration += calibration_sums(reference[rows], band.truth)
        labels = self._labels(rows)
        for y, own in enumerate(labels):
            if (own != MISSING).any():
                self.truth_log[y] += at_labels(band.truth, own)[0]
        for x, rater in enumerate(self._known):
            self._compare(x, band.as_rater[rater], labels)
        if not self._masks:
            self.truth = band.truth
        if band.confusion is None:
            self.joint = None
        elif self.joint is not None:
            matrices = band.confusion[self._columns]
            self.joint += joint_log_likelihood(band.truth, matrices, labels)
            all_rows = band.truth.shape[1:] == self.predicted.shape
            self.matrices = matrices if all_rows else None

    def _labels(self, rows: Any) -> list[Labels]:  # noqa: ANN401
        """Return each known rater's labels of some rows; of a class all answers, `(answers,)`."""
        if self._masks:
            return [np.asarray(self.case.labels[place][rows]) for place in self.places]
        answers = self.case.answers.by_rater()
        return [answers[place] for place in self.places]

    def _compare(self, x: int, told: NDArray[np.float32], labels: list[Labels]) -> None:
        guess = told.argmax(0).astype(np.int16)
        for y, own in enumerate(labels):
            if not (self._whole or x == y) or not (own != MISSING).any():
                continue
            if self._masks:
                counts = pair_counts(own, guess, self._classes)
                self._counts[x, y] = self._counts.get((x, y), 0) + counts
            else:
                seen = own != MISSING
                self.pairs[x, y, :2] += (own[seen] == guess).sum(), seen.sum()
            self.pairs[x, y, 4:] += at_labels(told, own)
            if x == y:
                self.own[x] += calibration_sums(own, told)

    def finish(self) -> None:
        """Turn counts of pixels into Dice, once all rows are there."""
        for (x, y), counts in self._counts.items():
            dice = dice_from_counts(counts)
            drawn = (counts.sum(axis=0) + counts.sum(axis=1))[1:] > 0
            self.pairs[x, y, :2] = dice.mean(), 1
            if drawn.any():
                self.pairs[x, y, 2:4] = dice[drawn].mean(), 1


def calibration_sums(labels: Labels, probabilities: NDArray[np.float32]) -> Floats:
    """Return reliability sums, the summed Brier score, log loss and number of labels.

    Example:
        >>> sums = calibration_sums(np.array([0, 1]), np.array([[0.5, 0.0], [0.5, 1.0]], "f"))
        >>> sums[-3:].round(3)  # Brier 0.5 and 0, log loss 0.693 and 0, 2 labels
        array([0.5  , 0.693, 2.   ])
    """
    log, number = at_labels(probabilities, labels)
    if not number:
        return np.zeros(CALIBRATION)
    full = np.broadcast_to(
        probabilities.reshape(len(probabilities), *probabilities.shape[1:] or (1,) * labels.ndim),
        (len(probabilities), *labels.shape),
    )
    reliability = reliability_sums(labels, full, BINS).ravel()
    return np.array([*reliability, brier(labels, full) * number, -log, number])

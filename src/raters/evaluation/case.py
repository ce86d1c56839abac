"""One case: what is predicted of it against the reference and each rater, as rows and as sums.

A large image comes in bands of rows. Of a band only sums are kept, which add up to those of the
case, and the labels, for the distances of surfaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.evaluation.masks import ALL, OF_SAMPLES, Variability, as_one, is_drawn, mask_rows
from raters.evaluation.prediction import Prediction
from raters.io.rows import Row
from raters.metrics.calibration import (
    LEAST,
    at_labels,
    brier,
    joint_log_likelihood,
    reliability_sums,
)
from raters.metrics.cut import cut_labels
from raters.metrics.overlap import dice_from_counts, merged_counts, pair_counts
from raters.study.case import Case
from raters.study.study import Study

REFERENCE = "reference"
"""The name in the column `against` for true or adjudicated labels; raters have their own names."""
BINS = 15
CALIBRATION = 3 * BINS + 3
"""Reliability sums, then the summed Brier score, the summed log loss, and the number of labels."""
FIELDS = ("fit", "fits", "drawn", "drawns", "log", "labels")
"""Sums of a pair 'as X' against Y: Dice (or right answers) and how many, Dice of drawn classes and
how many, log-likelihood and labels."""
Unions = Mapping[str, tuple[int, ...]]
"""Classes that are scored as one, by the name of their union."""


@dataclass(frozen=True)
class Drawn:
    """Labels of a case that were decided before: a file, or an array.

    Attributes:
        labels: `(*space)`.
        samples: Samples of a model, each of the same shape.
    """

    labels: Array
    samples: Sequence[Array] = ()


@dataclass(frozen=True)
class Scoring:
    """What is compared, and how.

    Attributes:
        study: The cases, with raters or references.
        known: The raters whose labels are predicted too, by name: where each is in the study.
        columns: Where these raters are among the model's matrices.
        pairs: Whether to compare 'as X' with every Y, and not only with X.
        cut: The cut of masks in all tables, `(classes - 1,)`; None takes the most likely class.
        cuts: Cuts at which Dice is given too, by name; none for class labels.
        surfaces: Whether to measure surface distances (masks).
        unions: Unions of classes that are scored beside the classes.
    """

    study: Study
    known: dict[str, int] = field(default_factory=dict)
    columns: Sequence[int] = ()
    pairs: bool = True
    cut: Floats | None = None
    cuts: Mapping[str, Floats] = field(default_factory=dict)
    surfaces: bool = True
    unions: Unions = field(default_factory=dict)

    @property
    def masks(self) -> bool:
        """Whether cases have masks, and not one class each."""
        return self.study.kind == "segmentation"

    @property
    def whole(self) -> str:
        """The row that stands for the whole mask."""
        return ALL if len(self.study.classes) > 2 else self.study.classes.names[1]


class CaseScores:
    """Compares what is predicted of one case with its reference and its raters.

    Args:
        case: The case.
        scoring: What is compared.

    Attributes:
        predicted: The class, `(*space)`: the most likely one, or that at the cut.
        rows: One row per class and whatever the case is compared with.
        variability: One row per class: soft Dice, and scores of samples.
        vectors: Sums by name, to be added up over cases.
        pairs: `(raters, raters, 6)` sums (`FIELDS`) of 'as X' (rows) against Y.
        own: Calibration of 'as X' against X, `(raters, CALIBRATION)`.
        truth_log: The summed log-likelihood of each rater's labels if they were the truth.
    """

    def __init__(self, case: Case, scoring: Scoring) -> None:
        self.case = case
        self._of = scoring
        self._classes = len(scoring.study.classes)
        known = len(scoring.known)
        self.predicted = np.zeros(case.geometry.shape if scoring.masks else (), np.int16)
        self.rows: list[Row] = []
        self.variability: list[Row] = []
        self.vectors: dict[str, Any] = {}
        self.pairs = np.zeros((known, known, len(FIELDS)))
        self.own = np.zeros((known, CALIBRATION))
        self.truth_log = np.zeros(known)
        self._joint: float | None = 0.0
        self._calibration = np.zeros(CALIBRATION)
        self._truth = np.zeros(self._classes, np.float32)
        self._matrices: NDArray[np.float32] | None = None
        self._places = list(scoring.known.values())
        self._told: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._at_cuts: dict[tuple[str, int], NDArray[np.int64]] = {}
        self._masks = list(_masks(case, scoring.study)) if scoring.masks else []
        raters = [mask for against, mask in self._masks if against != REFERENCE]
        self._spread = Variability(case, scoring, raters)

    def add(self, band: Prediction | Drawn) -> None:
        """Add what is predicted of all rows, or of some."""
        if isinstance(band, Drawn):
            self.predicted[...] = band.labels
            self._spread.add(self._certain, band.samples, ...)
            return
        truth = band.truth
        rows = slice(band.start, band.start + truth.shape[1]) if self._of.masks else ...
        if self._of.masks:
            self.predicted[rows] = cut_labels(truth, 0.5 if self._of.cut is None else self._of.cut)
            self._add_cuts(truth, rows)
            samples = [sample.argmax(0).astype(np.int16) for sample in band.samples]
            self._spread.add(lambda region: truth[list(region)].sum(axis=0), samples, rows)
        else:
            self.predicted[rows] = truth.argmax(0)
            self._truth = truth
        if self.case.reference is not None:
            self._calibration += calibration_sums(self.case.reference[rows], band.truth)
        labels = self._labels(rows)
        for y, own in enumerate(labels):
            if (own != MISSING).any():
                self.truth_log[y] += at_labels(band.truth, own)[0]
        for x, rater in enumerate(self._of.known):
            self._compare(x, band.as_rater(rater), labels)
        if band.confusion is None:
            self._joint = None
        elif self._joint is not None:
            matrices = band.confusion[list(self._of.columns)]
            self._joint += joint_log_likelihood(band.truth, matrices, labels)
            all_rows = band.truth.shape[1:] == self.predicted.shape
            self._matrices = matrices if all_rows else None

    def _certain(self, region: Sequence[int]) -> Floats:
        """Return labels as probabilities of 0 and 1; NaN where they are MISSING."""
        inside = as_one(self.predicted, region, self._classes)
        return np.where(inside == MISSING, np.nan, inside)

    def _add_cuts(self, truth: NDArray[np.float32], rows: Any) -> None:  # noqa: ANN401
        """Count at further cuts too, so that two runs are compared at cuts that suit each of them.

        Where fewer than half of the raters mark an object, a network that learnt their vote misses
        it at 0.5 although it has found it.
        """
        for name, cut in self._of.cuts.items():
            labels = cut_labels(truth, cut)
            for k, (_, mask) in enumerate(self._masks):
                counts = pair_counts(mask[rows], labels, self._classes)
                self._at_cuts[name, k] = self._at_cuts.get((name, k), 0) + counts

    def _labels(self, rows: Any) -> list[Array]:  # noqa: ANN401
        """Return each known rater's labels of some rows; of a class all answers, `(answers,)`."""
        labels = labels_of(self.case)
        return [np.asarray(labels[place][rows]) for place in self._places]

    def _compare(self, x: int, told: NDArray[np.float32], labels: list[Array]) -> None:
        guess = told.argmax(0).astype(np.int16)
        for y, own in enumerate(labels):
            if not (self._of.pairs or x == y) or not (own != MISSING).any():
                continue
            if self._of.masks:
                counts = pair_counts(own, guess, self._classes)
                self._told[x, y] = self._told.get((x, y), 0) + counts
            else:
                seen = own != MISSING
                self.pairs[x, y, :2] += (own[seen] == guess).sum(), seen.sum()
            self.pairs[x, y, 4:] += at_labels(told, own)
            if x == y:
                self.own[x] += calibration_sums(own, told)

    def finish(self) -> CaseScores:
        """Turn sums into rows and vectors, once all rows are there."""
        for (x, y), counts in self._told.items():
            dice = dice_from_counts(counts)
            drawn = is_drawn(counts)
            self.pairs[x, y, :2] = dice.mean(), 1
            if drawn.any():
                self.pairs[x, y, 2:4] = dice[drawn].mean(), 1
        each = range(len(self.pairs))
        own = self.pairs[each, each]
        labels = own[:, 5].sum()
        self.vectors = {
            "marginal": (own[:, 4].sum(), labels),
            "as the truth": (self.truth_log.sum(), labels),
            "as rater": own[:, :2].sum(axis=0),
            "calibration": self._calibration,
            "as rater calibration": self.own.sum(axis=0),
        }
        if self._joint is not None:
            self.vectors["joint"] = (self._joint, labels)
        error = self._confusion_error()
        if error is not None:
            self.vectors["confusion error"] = (error, 1.0)
        if not self._of.masks:
            self.rows = list(class_rows(self.case, self._truth, self._of.study))
            self.vectors |= _main_sums(self.rows, "right", None)
            self.vectors["right by class"] = _right_by_class(self.case, self._truth)
            return self
        for against, mask in self._masks:
            self.rows += mask_rows(self.case, against, mask, self.predicted, self._of)
        self.vectors |= _main_sums(self.rows, "dice", self._of.whole)
        for name, against in product(self._of.cuts, (REFERENCE, "raters")):
            self.vectors[cut_key(name, against)] = self._cut_sums(name, against)
        self.variability = list(self._spread.rows())
        whole = [row for row in self.variability if row["class"] == self._of.whole]
        for name in ("soft_dice", *OF_SAMPLES):
            self.vectors[name] = _mean_sum([row[name] for row in whole if name in row])
        return self

    def _cut_sums(self, name: str, against: str) -> Floats:
        """Return Dice of all, of each class and union at a cut: means over masks, and whether."""
        each = []
        unions = self._of.unions.values()
        for k, (other, _) in enumerate(self._masks):
            if (other == REFERENCE) == (against == REFERENCE):
                counts = self._at_cuts[name, k]
                dice = dice_from_counts(counts)
                merged = [dice_from_counts(merged_counts(counts, union))[0] for union in unions]
                each.append([dice.mean(), *dice, *merged])
        table = np.array(each).reshape(-1, self._classes + len(unions))
        there = ~np.isnan(table)
        number = there.sum(axis=0)
        means = np.where(there, table, 0.0).sum(axis=0) / np.maximum(number, 1)
        return np.concatenate([means, number > 0])

    def _confusion_error(self) -> float | None:
        """Return the mean square error of the matrices of a case; None if it is not known.

        The rows of the true class at each pixel are compared, classes weighing alike
        (`raters.metrics.confusion.root_mean_square`). Only a study that still draws its raters
        knows their matrices, not one that was written to files.
        """
        study = self._of.study
        reference = self.case.reference
        if self._matrices is None or not hasattr(study.backend, "true_confusion"):
            return None
        from raters.metrics.confusion import root_mean_square
        from raters.simulation.study import true_confusion

        true = true_confusion(study, self.case.id)[self._places]
        if not self._of.masks:
            return root_mean_square(self._matrices, true) ** 2
        if reference is None:
            return None
        true = true.reshape(*true.shape, *(1,) * reference.ndim)
        return root_mean_square(self._matrices, true, reference) ** 2


def _masks(case: Case, study: Study) -> Iterator[tuple[str, Array]]:
    """Return what a case is compared with: the reference, and all raters who labelled it."""
    if case.reference is not None:
        yield REFERENCE, case.reference
    for rater, labels in zip(study.raters, case.labels if study.raters else (), strict=True):
        if (labels != MISSING).any():
            yield rater, labels


def labels_of(case: Case) -> list[Array]:
    """Return each rater's labels of a case, `(*space)`; of a class all answers, `(answers,)`."""
    return list(case.labels) if case.kind == "segmentation" else case.answers.by_rater()


def cut_key(name: str, against: str) -> str:
    """Name the sums of a cut against the reference or the raters."""
    return f"{against} at {name}"


def calibration_sums(labels: Array, probabilities: NDArray[np.float32]) -> Floats:
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


def class_rows(case: Case, truth: NDArray[np.float32], study: Study) -> Iterator[Row]:
    """Compare the truth of a case that has one class with the reference and every answer."""
    names = study.classes.names
    guess = int(truth.argmax())
    labels = list(case.answers)
    if case.reference is not None:
        labels.insert(0, (REFERENCE, int(case.reference)))
    for against, label in labels:
        row: Row = {"case": case.id, "group": case.group, "split": case.split, "against": against}
        row |= {"label": names[label], "predicted": names[guess], "right": float(guess == label)}
        yield row | {"log_loss": -float(np.log(max(float(truth[label]), LEAST)))}


def _main_sums(rows: Sequence[Row], score: str, whole: str | None) -> dict[str, Any]:
    """Sum the main score of a case: against the reference, and averaged over the raters."""
    kept = [row for row in rows if whole is None or row["class"] == whole]
    return {
        REFERENCE: _mean_sum([row[score] for row in kept if row["against"] == REFERENCE]),
        "raters": _mean_sum([row[score] for row in kept if row["against"] != REFERENCE]),
    }


def _mean_sum(values: Sequence[float]) -> tuple[float, float]:
    there = [value for value in values if value == value]
    return (float(np.mean(there)), 1.0) if there else (0.0, 0.0)


def _right_by_class(case: Case, truth: NDArray[np.float32]) -> Floats:
    """Return by true class whether the truth is right and whether there is a case: `2 L`."""
    sums = np.zeros((2, len(truth)))
    if case.reference is not None:
        label = int(case.reference)
        sums[:, label] = float(truth.argmax() == label), 1.0
    return sums.ravel()

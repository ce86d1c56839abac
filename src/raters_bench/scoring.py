"""What a cell is scored by: Dice at three cuts or accuracy, matrices, and each rater's labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raters.comparison.cell import ANNOTATORS, Cell
from raters.comparison.scoring import train_and_score
from raters.consensus.consensus import fuse
from raters.core.arrays import Array, Ints, Labels
from raters.core.classes import MISSING
from raters.evaluation.prediction import Prediction
from raters.evaluation.result import Evaluation
from raters.io.rows import Row
from raters.learning.evaluation.runs import score_model
from raters.learning.methods.registry import METHODS
from raters.learning.prediction.fuse_model import fuse_with
from raters.learning.training.model import Model
from raters.metrics import mean_dice
from raters.metrics.confusion import root_mean_square, squared_frobenius
from raters.metrics.overlap import (
    all_iou_from_counts,
    pair_counts,
    soft_counts,
    soft_dice_from_counts,
)
from raters.study.case import Case
from raters.study.study import Study
from raters_bench.data import BenchData

SAMPLES = 16


def score_cell(cell: Cell, data: BenchData) -> Row:
    """Train the method of a cell and return its scores by name.

    Args:
        cell: The cell.
        data: Its study.
    """
    if cell.method == ANNOTATORS:
        return annotator_scores(data.study.without_negatives())

    def evaluate(model: Model, test: Study) -> tuple[Evaluation, Row]:
        overlaps = Overlaps(len(test.classes))
        options: dict[str, Any] = {"surfaces": False, "samples": SAMPLES, "seed": cell.seed}
        if test.kind == "segmentation":
            options["watch"] = overlaps.bands
        evaluation = score_model(model, test, **options)
        further_scores = _matrix_errors(cell, model, data)
        further_scores |= overlaps.scores()
        further_scores |= recurrence_scores(model, test)
        further_scores |= fusion_scores(model, test)
        return evaluation, further_scores

    return train_and_score(cell, data.study, evaluate)


def _matrix_errors(cell: Cell, model: Model, data: BenchData) -> Row:
    """Compare matrices with those that simulated raters really have."""
    if not data.known or "confusion" not in model.method.answers:
        return {}
    if data.study.kind == "classification":
        true = data.known[""]
        estimate = model.confusion(next(data.study.iter_cases()))
        return {"frobenius": squared_frobenius(estimate.reshape(true.shape), true)}
    error = _mask_error(cell, model, data)
    return {} if error is None else {"error": error}


def _mask_error(cell: Cell, model: Model, data: BenchData) -> float | None:
    """Return the error of matrices on validation cases, of the raters who labelled each."""
    part = data.study.select(split="val")
    consensus = fuse(part, cell.method) if cell.matrices == "fusion" else None
    # The matrix of who denies classes is of what a pixel is not.
    told = np.array([rater not in part.negatives for rater in part.raters])
    errors = []
    for case in part.iter_cases():
        there = (case.labels != MISSING).reshape(len(part.raters), -1).any(axis=1) & told
        if not there.any():
            continue
        given = model.confusion(case) if consensus is None else consensus[case.id].confusion
        found = np.asarray(given)[there]
        true = data.known[case.id][there]
        space = (np.newaxis,) * case.labels[0].ndim
        found = found[(..., *space)] if found.ndim == 3 else found
        assert case.reference is not None
        errors.append(root_mean_square(found, true[(..., *space)], case.reference))
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else None


def annotator_scores(study: Study) -> Row:
    """Score the raters' own labels against the references, each label alike."""
    if study.kind == "classification":
        right = []
        for case in study.iter_cases():
            for answer in case.answers.label:
                if case.reference is not None:
                    right.append(answer == int(case.reference))
        return {"accuracy": float(np.mean(right))}
    scores = []
    for case in study.iter_cases():
        for mask in case.labels:
            if case.reference is not None and (mask != MISSING).any():
                scores.append(mean_dice(mask, case.reference, len(study.classes)))
    return {"dice": float(np.mean(scores))}


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

    def bands(self, case: Case, bands: Iterable[Prediction]) -> Iterator[Prediction]:
        """Look at what is said of a case on its way."""
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

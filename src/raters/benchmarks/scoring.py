"""What a cell is scored by: Dice at three cuts or accuracy, matrices, and each rater's labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from raters.arrays import Array, Ints, Labels
from raters.benchmarks.cell import Cell
from raters.benchmarks.data import BenchData
from raters.benchmarks.spec import ANNOTATORS
from raters.confusion import root_mean_square, squared_frobenius
from raters.errors import RatersError
from raters.evaluation.result import Evaluation
from raters.evaluation.runs import score_model
from raters.fusion.consensus import fuse
from raters.methods.base import Asked
from raters.methods.registry import METHODS
from raters.prediction.fuse_model import fuse_with
from raters.prediction.predict import predict_cases
from raters.prediction.prediction import Prediction, most_likely
from raters.prediction.suggest import labelled_by
from raters.rows import Row
from raters.scores import CutTally, energy_distance, mean_dice, search_cuts
from raters.scores.overlap import (
    all_iou_from_counts,
    pair_counts,
    soft_counts,
    soft_dice_from_counts,
)
from raters.study.case import Case
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.training.model import Model

SAMPLES = 16
SPREAD_CASES = 100


def score_cell(cell: Cell, data: BenchData, beside: Path | None = None) -> Row:
    """Train the method of a cell and return its scores by name.

    Args:
        cell: The cell.
        data: Its study.
        beside: Where to keep what is predicted, for scores that compare cells.
    """
    told = data.study.without_negatives()  # scores are of what pixels are
    if cell.method == ANNOTATORS:
        return annotator_scores(told)
    from raters.training.fit import fit  # seconds of imports, of which annotators need nothing

    test = told.select(split="test")
    with warnings.catch_warnings():
        # Lost dominance is part of what is measured; it is among the scores.
        warnings.simplefilter("ignore")
        options = {**cell.train, **cell.options, "seed": cell.seed}
        model = fit(data.study, cell.method, progress=False, **options)
        _choose_by_raters(model, told)
        if cell.data["source"] == "study":
            from raters.benchmarks.own_cell import score_own

            found, more = score_own(model, told, test, beside)
        else:
            overlaps = Overlaps(len(test.classes))
            how: dict[str, Any] = {"surfaces": False, "samples": SAMPLES, "seed": cell.seed}
            how |= {"watch": overlaps.bands} if test.kind == "segmentation" else {}
            found = score_model(model, test, **how)
            more = _matrix_errors(cell, model, data) | overlaps.scores()
            more |= recurrence_scores(model, test) | fusion_scores(model, test)
    scores = _of_evaluation(found, model) | more
    if "ged" not in scores:
        scores |= _spread_of_raters(model, test)
    last = model.history[-1] if model.history else {}
    return scores | {"epoch": model.best_epoch, "dominance": last.get("dominance")}


def _choose_by_raters(model: Model, study: Study) -> None:
    """Choose the best cut by the raters' masks of validation cases without references."""
    if model.cuts is None or model.cuts.best is not None:
        return
    found = model.predict_proba(study.select(split="val"))
    val = list(found) if len(study.classes) > 2 else found  # two classes need one pass only

    def look(tallies: list[CutTally]) -> bool:
        for case, truth in val:
            for mask in case.labels:
                if (mask != MISSING).any():
                    for tally in tallies:
                        tally.add(truth, reference=mask)
        return True

    [best] = search_cuts(len(study.classes), ["best"], look)
    if best is not None:
        model.cuts = replace(model.cuts, best=best)


_MAIN = {
    "score_best": "dice_best",
    "score_area": "dice_area",
    "joint": "likelihood",
    "ece": "ece",
    "as_rater": "as_rater",
    "soft_dice": "soft_dice",
    "ged": "ged",
    "matched_dice": "matched_dice",
}
"""Scores of `raters.evaluate` by their names here."""


def _of_evaluation(found: Evaluation, model: Model) -> Row:
    main = "dice" if model.config.kind == "segmentation" else "accuracy"
    names = {"score": main, **_MAIN}
    scores = {ours: found.main[name] for name, ours in names.items() if name in found.main}
    better = [r["log_likelihood_better"] for r in found.raters if "log_likelihood_better" in r]
    if better:
        scores["as_rater_better"] = float(np.mean(better))
    cuts = {} if model.cuts is None else {"best": model.cuts.best, "area": model.cuts.area}
    return scores | {
        f"cut_{k}": cut.round(2).tolist() for k, cut in cuts.items() if cut is not None
    }


def _spread_of_raters(model: Model, test: Study) -> Row:
    """Compare the raters' masks with those that the model draws 'as' each of them.

    They stand for samples, as in pixel-cm's Table 3, where a method has none; on test cases that
    several raters labelled, at most `SPREAD_CASES`.
    """
    known = tuple(name for name in test.raters if name in model.config.labelled)
    if test.kind != "segmentation" or not known or "as_rater" not in model.method.answers:
        return {}
    several = (case for case in test.iter_cases() if labelled_by(case) > 1)
    found = []
    for case, said in predict_cases(model, islice(several, SPREAD_CASES), Asked(raters=known)):
        if isinstance(said, RatersError):
            raise said
        masks = np.stack([most_likely(said.as_rater(name)) for name in known])
        found.append(energy_distance(case.labels, masks, len(test.classes)))
    return {"ged": float(np.mean(found))} if found else {}


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

"""What a cell is scored by: Dice at three cuts or accuracy, matrices, and each rater's labels."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.benchmarks.cell import Cell
from raters.benchmarks.data import BenchData
from raters.benchmarks.overlaps import Overlaps, fusion_scores, recurrence_scores
from raters.benchmarks.spec import ANNOTATORS
from raters.errors import RatersError
from raters.rows import Row
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
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
    test = told.select(split="test")
    from raters import fit
    from raters.evaluation.runs import score_model

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
            watch = overlaps if test.kind == "segmentation" else _pass_on
            found = score_model(
                model, test, surfaces=False, samples=SAMPLES, seed=cell.seed, watch=watch
            )
            more = _matrix_errors(cell, model, data) | overlaps.scores()
            more |= recurrence_scores(model, test) | fusion_scores(model, test)
    scores = _of_evaluation(found, model) | more
    if "ged" not in scores:
        scores |= _spread_of_raters(model, test)
    last = model.history[-1] if model.history else {}
    return scores | {"epoch": model.best_epoch, "dominance": last.get("dominance")}


def _pass_on(stream: Any) -> Any:  # noqa: ANN401
    return stream


def _choose_by_raters(model: Model, study: Study) -> None:
    """Choose the best cut by the raters' masks of validation cases without references."""
    if model.cuts is None or model.cuts.best is not None:
        return
    from raters.scores import CutTally, search_cuts

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
    from raters.methods.base import Asked
    from raters.prediction.predict import predict_cases
    from raters.prediction.prediction import most_likely
    from raters.prediction.suggest import labelled_by
    from raters.scores import energy_distance

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
    from raters.confusion import squared_frobenius

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
    from raters import fuse
    from raters.confusion import root_mean_square

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
    from raters.scores import mean_dice

    if study.kind == "classification":
        right = [
            answer == int(case.reference)
            for case in study.iter_cases()
            for answer in case.answers.label
            if case.reference is not None
        ]
        return {"accuracy": float(np.mean(right))}
    scores = [
        mean_dice(mask, case.reference, len(study.classes))
        for case in study.iter_cases()
        for mask in case.labels
        if case.reference is not None and (mask != MISSING).any()
    ]
    return {"dice": float(np.mean(scores))}

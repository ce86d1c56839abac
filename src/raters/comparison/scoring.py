"""Trains the method of a cell, and scores it: Dice at three cuts or accuracy, raters' labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np

from raters.comparison.cell import Cell
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.evaluation.prediction import most_likely
from raters.evaluation.result import Evaluation
from raters.io.rows import Row
from raters.learning.methods.base import Asked
from raters.learning.prediction.predict import predict_cases
from raters.learning.training.model import Model
from raters.metrics import CutTally, energy_distance, search_cuts
from raters.study.case import labelled_by
from raters.study.study import Study

SPREAD_CASES = 100

EvaluateModel = Callable[[Model, Study], tuple[Evaluation, Row]]
"""Evaluates a model on test cases: the evaluation, and further scores by name."""


def train_and_score(cell: Cell, study: Study, evaluate: EvaluateModel) -> Row:
    """Train the method of a cell and return its scores by name.

    Args:
        cell: The cell.
        study: Its study, with splits 'train', 'val' and 'test'.
        evaluate: Evaluates the model on the cases of 'test'.
    """
    from raters.learning.training.fit import fit  # seconds of imports

    scored = study.without_negatives()  # scores are of what pixels are
    test = scored.select(split="test")
    options = {**cell.train, **cell.options, "seed": cell.seed}
    with warnings.catch_warnings():
        # Lost dominance is part of what is measured; it is among the scores.
        warnings.simplefilter("ignore")
        model = fit(study, cell.method, progress=False, **options)
        _choose_by_raters(model, scored)
        evaluation, further_scores = evaluate(model, test)

    scores = _evaluation_scores(evaluation, model) | further_scores
    if "ged" not in scores:
        scores |= _spread_of_raters(model, test)
    last_epoch = model.history[-1] if model.history else {}
    return scores | {"epoch": model.best_epoch, "dominance": last_epoch.get("dominance")}


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


def _evaluation_scores(found: Evaluation, model: Model) -> Row:
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

"""`raters.prediction.evaluate_run`: how good a trained model is, on cases that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.errors import RatersError
from raters.evaluation.masks import ALL, case_rows, score_names
from raters.evaluation.result import REFERENCE, summarise
from raters.prediction import evaluate_tables as tables
from raters.prediction.evaluate_case import CaseSums
from raters.prediction.evaluate_checks import notes_of, refuse_unlike, shared_raters
from raters.prediction.evaluate_cut_table import cut_rows, score_vectors
from raters.prediction.evaluate_cuts import RunCuts, run_cuts
from raters.prediction.evaluate_result import CaseVectors, RunScores
from raters.prediction.evaluate_split import Seen, choose_split, held_out_notes, warnings_of
from raters.prediction.evaluate_sums import (
    MOST_PAIRS,
    RunSums,
    class_rows,
    main_scores,
    right_by_class,
)
from raters.progress import track
from raters.rows import Row
from raters.scores.bootstrap_sums import GroupBootstrap, OfSums, ratio
from raters.study.places import Inputs
from raters.study.study import Study
from raters.training.cuts import CutGiven

if TYPE_CHECKING:
    from raters.prediction.batches import Found
    from raters.training.model import Model

MAIN: dict[str, tuple[str, OfSums]] = {
    "score": ("score", ratio),
    "score_best": ("score_best", ratio),
    "score_area": ("score_area", ratio),
    "joint": ("joint", ratio),
    "marginal": ("marginal", ratio),
    "ece": ("calibration", tables.calibration_error),
    "as_rater": ("as rater", ratio),
    "as_rater_ece": ("as rater calibration", tables.calibration_error),
    "confusion_error": ("confusion error", lambda sums: np.sqrt(ratio(sums))),
}
"""The scores by which runs are compared: the sums that each is of, and how."""


def evaluate_run(
    run: Model | str | Path,
    study: Study,
    split: str | None = None,
    raters: Sequence[str] | None = None,
    surfaces: bool = True,
    progress: bool = False,
    cut: CutGiven = 0.5,
) -> RunScores:
    """Score a trained model against the references and the raters of a study.

    The truth is compared with the reference and with each rater, 'as rater X' with the labels of X
    and of every other rater. All in one pass, a case at a time; intervals (95 %) are bootstraps
    over groups.

    Args:
        run: A model, or the folder of a run.
        study: The study, with images.
        split: A split of the study; else, by what the run used its cases for: 'train', 'held-out'
            (or 'val'), 'test' (or 'new': seen by neither). None takes all cases.
        raters: Compare 'as rater' only for these; by default all that run and study share.
        surfaces: Whether to measure surface distances (masks).
        progress: Show a progress bar.
        cut: Where masks are cut in all tables, as for `Model.cut`. Dice at the model's own cuts is
            given whatever it is (`RunScores.cuts`).

    Raises:
        RatersError: For other classes than the run's, no images, or a split without cases.

    Example:
        >>> import raters
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(0, 2, 60)
        >>> labels = np.where(rng.random((60, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
        >>> features = truth[:, None] + rng.normal(0, 0.1, (60, 1))
        >>> splits = ["train"] * 40 + ["test"] * 20
        >>> study = Study.from_arrays(features, labels, truth, splits=splits)
        >>> model = raters.fit(study, "global-cm", epochs=5, progress=False)
        >>> evaluate_run(model, study, "test").main["score"]
        1.0
    """
    model, folder = opened(run)
    refuse_unlike(model.config, study)
    seen = Seen.by_run(folder)
    part = choose_split(study, split, [seen])
    found = score_model(model, part, raters, surfaces, progress, cut)
    found.run = found.method if folder is None else folder.name
    found.split = split or ""
    found.inputs = inputs_of(study, folder)
    found.warnings = warnings_of(part, seen)
    found.notes += held_out_notes(part, seen)
    for text in found.warnings:
        warnings.warn(text, stacklevel=2)
    return found


def inputs_of(study: Study, folder: Path | None) -> Inputs:
    """Return what is read: the study, and the run if it has a folder."""
    return Inputs.of(study).and_of(*([] if folder is None else [Inputs.run(folder)]))


def opened(run: Model | str | Path) -> tuple[Model, Path | None]:
    """Return a model, and the folder that it is from."""
    from raters import load  # says what to install if torch is not there

    if isinstance(run, str | Path):
        return load(run), Path(run).resolve()
    return run, None


def score_model(
    model: Model,
    part: Study,
    raters: Sequence[str] | None = None,
    surfaces: bool = True,
    progress: bool = False,
    cut: CutGiven = 0.5,
) -> RunScores:
    """Score a model on all cases of a study."""
    from raters.prediction.batches import predict_streams
    from raters.prediction.predict import Asked

    known = shared_raters(model.config.labelled, part, raters)
    asked = Asked(tuple(known), bool(known) and has_matrices(model))
    stream = predict_streams(model, part.iter_cases(), asked)
    columns = [model.config.raters.index(name) for name in known]
    cuts = run_cuts(model, cut)
    found = score_cases(stream, part, known, columns, surfaces, progress, cuts=cuts)
    found.method = model.config.method
    found.notes = notes_of(found, model.config, part, known)
    return found


def score_cases(
    stream: Iterable[Found],
    part: Study,
    known: dict[str, int],
    columns: list[int],
    surfaces: bool = True,
    progress: bool = False,
    most_pairs: int = MOST_PAIRS,
    cuts: RunCuts | None = None,
) -> RunScores:
    """Score what was said of cases; the stream gives it in bands of rows, or an error."""
    result = RunScores("", "")
    whole = len(part) * len(known) ** 2 <= most_pairs
    sums = RunSums(tuple(known), whole)
    for case, bands in track(stream, len(part), "scoring", progress):
        try:
            if isinstance(bands, RatersError):
                raise bands
            found = CaseSums(case, part, known, columns, whole, cuts)
            for band in bands:
                found.add(band)
            found.finish()
            _add(sums, found, part, surfaces)
        except RatersError as error:
            result.failures.append(error.at(case=case.id))
    if not sums.names and result.failures:
        raise result.failures[0]
    if not sums.rows:
        raise RatersError("found neither raters nor references, expected labels to compare with")
    _fill(result, sums, part, surfaces, cuts or RunCuts())
    return result


def _add(sums: RunSums, found: CaseSums, part: Study, surfaces: bool) -> None:
    from raters.prediction.evaluate_confusion import confusion_error

    error = confusion_error(found, part)
    more: dict[str, Any] = {} if error is None else {"confusion error": error}
    if part.kind == "segmentation":
        rows = list(case_rows(found.case, found.predicted, part, surfaces))
        several = len(part.classes) > 2
        more |= main_scores(rows, "dice", ALL if several else part.classes.names[1])
        more |= found.at_cuts.vectors() if found.at_cuts else {}
    else:
        rows = list(class_rows(found.case, found.truth, part))
        more |= main_scores(rows, "right", None)
        more["right by class"] = right_by_class(found.case, found.truth)
    sums.add(found, rows, more)


def _fill(result: RunScores, sums: RunSums, part: Study, surfaces: bool, cuts: RunCuts) -> None:
    """Make all tables."""
    bootstrap = GroupBootstrap(sums.groups)
    masks = part.kind == "segmentation"
    fit = "dice" if masks else "accuracy"
    result.cases = sums.rows
    if masks:
        order = (REFERENCE, *part.raters)
        result.summary = summarise(sums.rows, score_names(surfaces), order)
    else:
        result.summary = tables.class_summary(sums, bootstrap, part.classes.names)
    result.likelihood = tables.likelihood_rows(sums, bootstrap)
    result.calibration, result.reliability = tables.calibration_tables(sums, bootstrap)
    result.raters = tables.rater_rows(sums, bootstrap, fit)
    result.as_rater = tables.pair_rows(sums, bootstrap, fit)
    result.as_rater_cases = list(tables.pair_cases(sums, fit))
    referenced = any(row["against"] == REFERENCE for row in sums.rows)
    against = REFERENCE if referenced else "raters"
    sums.vectors["score"] = sums.vectors[against]
    sums.vectors |= score_vectors(sums, against)
    result.cuts = cut_rows(sums, bootstrap, against, part.classes.names, cuts)
    result.score = f"{fit}, {'reference' if referenced else 'mean over raters'}"
    result.sums = CaseVectors(sums.names, sums.groups, dict(_vectors(sums)))
    result.main = _main(result.sums, bootstrap)


def _vectors(sums: RunSums) -> Iterator[tuple[str, Any]]:
    for name, (source, _) in MAIN.items():
        found = sums.stacked(source)
        if found is not None and found[:, -1].any():
            yield name, found


def _main(sums: CaseVectors, bootstrap: GroupBootstrap) -> Row:
    main: Row = {}
    for name, parts in sums.vectors.items():
        main |= tables.entry(name, bootstrap.interval(parts, MAIN[name][1]))
    return main


def has_matrices(model: Model) -> bool:
    """Return whether the method has matrices at all; separate networks have none."""
    from raters.prediction.predict import same_confusion

    if model.method.varies:
        return True
    try:
        same_confusion(model)
    except RatersError:
        return False
    return True

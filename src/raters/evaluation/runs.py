"""Trained runs: one scored on cases that it has not seen, or several on the same cases."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.errors import RatersError
from raters.evaluation.case import Scoring
from raters.evaluation.evaluate import SAMPLES, UnionsGiven, inputs_of, score_cases, unions_of
from raters.evaluation.result import Comparison, Evaluation
from raters.evaluation.split import (
    MOST_PAIRS,
    Seen,
    choose_split,
    held_out_notes,
    notes_of,
    refuse_unlike,
    shared_raters,
    warnings_of,
)
from raters.evaluation.tables import HALF, MAIN, entry
from raters.rows import Row
from raters.scores.bootstrap import GroupBootstrap
from raters.study.whole_numbers import at_least

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.cuts import CutGiven
    from raters.training.model import Model


def compare_runs(
    runs: Sequence[Model | str | Path],
    study: Study,
    split: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Comparison:
    """Score several runs on the same cases, and compare each with the first.

    'test' are the cases that none of the runs has seen. 'As rater' and likelihoods are of the
    raters that all runs know. All runs are scored on the same draws of groups, so that differences
    are paired: what makes a case hard cancels.

    Args:
        runs: Models, or folders of runs; they must have the same classes.
        study: The study, with images.
        split: As in `raters.evaluate`.
        **options: As in `raters.evaluate`: `surfaces`, `cut`, `unions`, `samples`, `seed` and
            `progress`.
    """
    found = Comparison(runs=score_runs(runs, study, split, **options))
    _compare(found)
    return found


def score_runs(
    runs: Sequence[Model | str | Path],
    study: Study,
    split: str | None = None,
    raters: Sequence[str] | None = None,
    **options: Any,  # noqa: ANN401
) -> list[Evaluation]:
    """Score runs on the same cases; `raters.evaluate` says what the tables hold."""
    if not runs:
        raise RatersError("found no runs, expected at least one")
    models = [_opened(run) for run in runs]
    for model, folder in models:
        try:
            refuse_unlike(model.config, study)
        except RatersError as error:
            raise error.at(file=folder) from None
    seen = [Seen.by_run(folder) for _, folder in models]
    part, several = choose_split(study, split, seen), len(runs) > 1
    if several:
        raters = [r for r in study.raters if all(r in model.config.labelled for model, _ in models)]
    found = []
    for (model, folder), name, used in zip(models, _names(models), seen, strict=True):
        scores = score_model(model, part, raters, **options)
        scores.run, by = name, name if several else ""
        scores.warnings = warnings_of(part, used, by)
        scores.notes += held_out_notes(part, used, by)
        scores.split, scores.inputs = split or "", inputs_of(folder, study)
        found.append(scores)
    for text in (text for scores in found for text in scores.warnings):
        warnings.warn(text, stacklevel=3)
    return found


def _opened(run: Model | str | Path) -> tuple[Model, Path | None]:
    """Return a model, and the folder that it is from."""
    from raters import load  # says what to install if torch is not there

    return (load(run), Path(run).resolve()) if isinstance(run, str | Path) else (run, None)


def _names(models: Sequence[tuple[Model, Path | None]]) -> list[str]:
    """Name runs by their folders (the whole path where two have the same), or their methods."""
    names = [model.config.method if path is None else path.name for model, path in models]
    if len(set(names)) < len(names):
        paths = [path for _, path in models]
        names = [n if path is None else str(path) for n, path in zip(names, paths, strict=True)]
    return [n if names.count(n) == 1 else f"{n} ({k})" for k, n in enumerate(names, start=1)]


def score_model(
    model: Model,
    part: Study,
    raters: Sequence[str] | None = None,
    *,
    surfaces: bool = True,
    cut: CutGiven = 0.5,
    samples: int = SAMPLES,
    seed: int = 0,
    unions: UnionsGiven = (),
    progress: bool = False,
    watch: Callable[[Any], Any] = lambda stream: stream,
) -> Evaluation:
    """Score a model on all cases of a study; `watch` may look at what it says on the way."""
    from raters.methods.base import Asked
    from raters.prediction.predict import predict_streams

    answers, merged = model.method.answers, unions_of(unions, part)
    known = shared_raters(model.config.labelled, part, raters) if "as_rater" in answers else {}
    samples = at_least(0, samples, "samples")
    drawn = samples if "samples" in answers and part.kind == "segmentation" else 0
    asked = Asked(tuple(known), bool(known) and "confusion" in answers, drawn, seed)
    labels, cuts = model.cut(cut), _cuts(model)
    scoring = Scoring(
        part,
        known,
        [model.config.raters.index(name) for name in known],
        pairs=len(part) * len(known) ** 2 <= MOST_PAIRS,
        cut=labels if cuts else None,
        cuts=cuts,
        surfaces=surfaces,
        unions=merged,
    )
    stream = watch(predict_streams(model, part.iter_cases(), asked))
    found = score_cases(stream, scoring, progress)
    found.method = model.config.method
    found.notes = notes_of(found, model.config, part, known) + found.notes
    return found


def _cuts(model: Model) -> dict[str, Any]:
    """Return the cuts at which Dice of a model is given: 0.5 and those that it knows."""
    if model.config.kind != "segmentation":
        return {}
    known = {} if model.cuts is None else {"best": model.cuts.best, "area": model.cuts.area}
    half = {HALF: np.full(len(model.config.classes) - 1, 0.5)}
    return half | {name: cut for name, cut in known.items() if cut is not None}


def _compare(found: Comparison) -> None:
    """Fill the tables; differences are of cases that all runs were scored on."""
    sums = [run.sums for run in found.runs if run.sums is not None]
    everywhere = set.intersection(*(set(one.names) for one in sums))
    shared = [name for name in sums[0].names if name in everywhere]
    group_of = dict(zip(sums[0].names, sums[0].groups, strict=True))
    bootstrap = GroupBootstrap([group_of[name] for name in shared])
    for run in found.runs:
        found.rows.append({"run": run.run, "method": run.method, "cases": run.scored} | run.main)
        found.cases += list(_case_rows(run))
    for run, one in zip(found.runs[1:], sums[1:], strict=True):
        for name, (_, score) in MAIN.items():
            if name in sums[0].vectors and name in one.vectors:
                pair = sums[0].of(name, shared), one.of(name, shared)
                cells = entry("difference", bootstrap.difference(*pair, score))
                place = {"run": run.run, "against": found.runs[0].run, "score": name}
                found.differences.append(place | cells)


def _case_rows(run: Evaluation) -> Iterator[Row]:
    """Return the main scores of each case; a calibration error of one case says little."""
    assert run.sums is not None
    for k, (case, group) in enumerate(zip(run.sums.names, run.sums.groups, strict=True)):
        row: Row = {"run": run.run, "case": case, "group": group}
        for name, parts in run.sums.vectors.items():
            value = float(MAIN[name][1](parts[k]))
            row[name] = None if value != value else value
        yield row

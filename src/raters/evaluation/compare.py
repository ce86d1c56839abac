"""Trained runs: one scored on cases that it has not seen, or several on the same cases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError
from raters.evaluation.evaluate import inputs_of, score_model
from raters.evaluation.result import Comparison, Evaluation
from raters.evaluation.split import (
    Seen,
    choose_split,
    held_out_notes,
    refuse_unlike,
    shared_raters,
    warnings_of,
)
from raters.evaluation.tables import MAIN, entry
from raters.rows import Row
from raters.scores.bootstrap import GroupBootstrap

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model


def evaluate_run(
    run: Model | str | Path,
    study: Study,
    split: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Evaluation:
    """Score a run; `raters.evaluate` says what the tables hold."""
    model, folder = opened(run)
    refuse_unlike(model.config, study)
    seen = Seen.by_run(folder)
    part = choose_split(study, split, [seen])
    found = score_model(model, part, **options)
    _say(found, part, seen, model.config.method if folder is None else folder.name)
    found.split, found.inputs = split or "", inputs_of(folder, study)
    for text in found.warnings:
        warnings.warn(text, stacklevel=3)
    return found


def _say(found: Evaluation, part: Study, seen: Seen, run: str, name: str = "") -> None:
    """Name a run, and say which of the cases it has seen."""
    found.run, found.warnings = run, warnings_of(part, seen, name)
    found.notes += held_out_notes(part, seen, name)


def opened(run: Model | str | Path) -> tuple[Model, Path | None]:
    """Return a model, and the folder that it is from."""
    from raters import load  # says what to install if torch is not there

    if isinstance(run, str | Path):
        return load(run), Path(run).resolve()
    return run, None


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
    if not runs:
        raise RatersError("found no runs, expected at least one")
    models = [opened(run) for run in runs]
    for model, folder in models:
        try:
            refuse_unlike(model.config, study)
        except RatersError as error:
            raise error.at(file=folder) from None
    seen = [Seen.by_run(folder) for _, folder in models]
    part = choose_split(study, split, seen)
    common = [r for r in study.raters if all(r in model.config.labelled for model, _ in models)]
    found = Comparison()
    for (model, folder), name, used in zip(models, _names(models), seen, strict=True):
        known = list(shared_raters(model.config.labelled, part, common))
        scores = score_model(model, part, known, **options)
        _say(scores, part, used, name, name)
        scores.split, scores.inputs = split or "", inputs_of(folder, study)
        found.runs.append(scores)
    for text in found.warnings:
        warnings.warn(text, stacklevel=2)
    _compare(found)
    return found


def _names(models: Sequence[tuple[Model, Path | None]]) -> list[str]:
    """Name runs by their folders (the whole path where two have the same), or their methods."""
    names = [model.config.method if path is None else path.name for model, path in models]
    if len(set(names)) < len(names):
        paths = [path for _, path in models]
        names = [n if path is None else str(path) for n, path in zip(names, paths, strict=True)]
    return [n if names.count(n) == 1 else f"{n} ({k})" for k, n in enumerate(names, start=1)]


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

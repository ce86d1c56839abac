"""`raters.prediction.compare_runs`: several trained models on the same cases, with differences."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError
from raters.prediction.evaluate_checks import refuse_unlike, shared_raters
from raters.prediction.evaluate_result import RunScores
from raters.prediction.evaluate_run import MAIN, inputs_of, opened, score_model
from raters.prediction.evaluate_split import Seen, choose_split, held_out_notes, warnings_of
from raters.prediction.evaluate_tables import entry
from raters.rows import Row, write_csv, write_json
from raters.scores.bootstrap_sums import GroupBootstrap

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.cuts import CutGiven
    from raters.training.model import Model


FILES = ("comparison.csv", "differences.csv", "case_scores.csv", "comparison.json")
"""What is written, beside a folder of tables for each run."""


@dataclass(repr=False)
class Comparison:
    """Several runs on the same cases.

    Attributes:
        rows: One row per run: its method, and each main score with its interval.
        differences: One row per run (but the first) and score: how much higher it is than the first
            run's, with the interval of a paired bootstrap over groups.
        cases: The main scores of each run and case.
        runs: All tables of each run.
    """

    rows: list[Row] = field(default_factory=list)
    differences: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    runs: list[RunScores] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(run.run for run in self.runs)})"

    @property
    def warnings(self) -> list[str]:
        """What makes the scores worth less."""
        return [text for run in self.runs for text in run.warnings]

    @property
    def notes(self) -> list[str]:
        """What a reader must know, each once."""
        return list(dict.fromkeys(text for run in self.runs for text in run.notes))

    @property
    def failures(self) -> list[RatersError]:
        """Cases that a run could not be scored on; they are in no difference."""
        return [error for run in self.runs for error in run.failures]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        tables = {"rows": self.rows, "differences": self.differences, "cases": self.cases}
        return tables | {"runs": [run.to_dict() for run in self.runs]}

    def write(self, folder: str | Path) -> None:
        """Write `comparison`, `differences` and `case_scores` as CSV, all as JSON, each run."""
        path = Path(folder)
        for run in self.runs:
            run.inputs.refuse(path, FILES)
        write_csv(path / "comparison.csv", self.rows)
        write_csv(path / "differences.csv", self.differences)
        write_csv(path / "case_scores.csv", self.cases)
        write_json(path / "comparison.json", self.to_dict())
        for number, run in enumerate(self.runs, start=1):
            run.write(path / f"{number}-{Path(run.run).name}")


def compare_runs(
    runs: Sequence[Model | str | Path],
    study: Study,
    split: str | None = None,
    surfaces: bool = True,
    progress: bool = False,
    cut: CutGiven = 0.5,
) -> Comparison:
    """Score several runs on the same cases, and compare each with the first.

    'test' are the cases that none of the runs has seen. 'As rater' and likelihoods are of the
    raters that all runs know. All runs are scored on the same draws of groups, so that differences
    are paired: what makes a case hard cancels.

    Args:
        runs: Models, or folders of runs; they must have the same classes.
        study: The study, with images.
        split: As in `evaluate_run`.
        surfaces: Whether to measure surface distances (masks).
        progress: Show a progress bar for each run.
        cut: As in `evaluate_run`.
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
        scores = score_model(model, part, known, surfaces, progress, cut)
        scores.run, scores.split = name, split or ""
        scores.inputs = inputs_of(study, folder)
        scores.warnings = warnings_of(part, used, name)
        scores.notes += held_out_notes(part, used, name)
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


def _case_rows(run: RunScores) -> Iterator[Row]:
    """Return the main scores of each case; a calibration error of one case says little."""
    assert run.sums is not None
    for k, (case, group) in enumerate(zip(run.sums.names, run.sums.groups, strict=True)):
        row: Row = {"run": run.run, "case": case, "group": group}
        for name, parts in run.sums.vectors.items():
            value = float(MAIN[name][1](parts[k]))
            row[name] = None if value != value else value
        yield row

"""Writes what fusion found: consensus masks with the inputs' geometry and values, and tables.

<case>.*        the consensus mask
soft/<case>.*   the probability of each class, as channels (on request)
raters.csv      how far each rater can be trusted, by case or (pooled) for all
raters.json     the same with matrices, prior, steps, log-likelihoods, starts and notes
labels.csv      tables: the label of each task (with probabilities on request)
tasks.csv       tables: how hard each task is, where the method says it
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from raters.consensus.consensus import Consensus
from raters.consensus.notes import case_remarks
from raters.core.classes import MISSING
from raters.core.cluster import Tell, on_cluster
from raters.core.errors import RatersError, enough_memory
from raters.core.progress import ordered_map, track
from raters.core.wording import many
from raters.fusion.result import Fusion
from raters.io import formats
from raters.io.claim import Owner, check_folder
from raters.io.paths import FUSE_JOURNAL, SOFT_FOLDER, case_path
from raters.io.results import Journal, only_one
from raters.io.rows import (
    Row,
    read_cells,
    to_json,
    write_csv,
    write_json,
    write_long_csv,
    write_long_json,
)
from raters.study.case import Case
from raters.study.fingerprint import source_of
from raters.study.places import Inputs, relative_path
from raters.study.study import Study
from raters.study.write import ImportResult

LABELS_FILE = "labels.csv"
_APART = ("rows", "remarks")
_OWNER = Owner("fuse", "one of an earlier fusion", journals=(FUSE_JOURNAL,))


@dataclass(frozen=True)
class Outcome:
    """What became of one case; small enough to be sent between machines."""

    position: int
    facts: dict[str, Any] | None = None
    error: RatersError | None = None


def write_consensus(
    consensus: Consensus,
    folder: str | Path,
    soft: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    scheduler: str | None = None,
    tell: Tell | None = None,
) -> ImportResult:
    """Fuse all cases and write them; a second call skips what is finished and unchanged.

    Args:
        consensus: What `raters.fuse` gave.
        folder: Where to write.
        soft: Also write the probabilities.
        overwrite: Fuse all cases again.
        progress: Show a progress bar.
        scheduler: The address of a Dask scheduler whose workers do the work and see the same
            files; None works on this machine.
        tell: Whom to tell that the scheduler has no worker.
    """
    folder = Path(folder)
    refuse_place(consensus.study, folder, soft)
    with only_one(folder) as notes:
        if consensus.study.kind == "classification":
            plan = _table_plan(consensus, folder, soft)
            with closing(Journal(folder, plan, FUSE_JOURNAL, anew=overwrite)):
                _refuse_lost_tasks(consensus.study, folder, overwrite)
                result = _write_table(consensus, folder, soft)
        else:
            consensus.prepare()
            plan = _plan(consensus, soft)
            with closing(Journal(folder, plan, FUSE_JOURNAL, anew=overwrite)) as journal:
                work = partial(fuse_one, consensus, folder, soft)
                result = _write_masks(
                    consensus.study, folder, work, journal, progress, scheduler, tell
                )
                result.notes += _write_raters(consensus, folder, journal)
                result.notes += _lost_cases(consensus.study, folder, journal)
    result.notes += notes
    return result


def refuse_place(study: Study, folder: str | Path, soft: bool = False) -> None:
    """Reject a folder where inputs would be replaced, or that is not of an earlier fusion."""
    parts = ("", f"{SOFT_FOLDER}/") if soft else ("",)
    stems = (f"{part}{case_path(case)}" for part in parts for case in study.index.ids)
    Inputs.of(study).refuse(folder, stems=stems)
    check_folder(folder, _OWNER)


def _plan(consensus: Consensus, soft: bool, fitted: bool = True) -> dict[str, Any]:
    """Report all that the masks depend on beside their files; with shared matrices, those too."""
    is_fitted = fitted and consensus.pooled
    study = consensus.study
    plan = {
        "fusion": consensus.description,
        "soft": soft,
        "raters": study.raters,
        "classes": [[c.name, c.value, c.also] for c in study.classes],
        "rules": vars(study.rules),
        "fitted": consensus.fitted()["confusion"] if is_fitted else None,
    }
    if study.drawn:
        plan["annotations"] = {"unmarked": study.unmarked, **study.annotations}
    found: dict[str, Any] = json.loads(to_json(plan))
    return found


def _table_plan(consensus: Consensus, folder: Path, soft: bool) -> dict[str, Any]:
    """Report what the labels of a table depend on: whose table it is, and how it is fused."""
    home = os.path.realpath(folder)
    sources = [relative_path(str(source), home) for source in consensus.study.sources]
    return {"table": sources, **_plan(consensus, soft, fitted=False)}


def _refuse_lost_tasks(study: Study, folder: Path, overwrite: bool) -> None:
    """Reject a folder with labels of tasks that the table does not have: they would be lost."""
    labels = folder / LABELS_FILE
    if overwrite or not labels.exists():
        return
    columns, rows = read_cells(labels)
    position = columns.index("task")
    lost = {row[position] for row in rows} - {str(task) for task in study.index.ids}
    if lost:
        message = (
            f"holds the task {min(lost)!r}, which is not in this table: "
            "choose another folder, or --overwrite to replace it"
        )
        raise RatersError(message, kind="folder-taken", file=folder)


def _write_masks(
    study: Study,
    folder: Path,
    work: Callable[[int], Outcome],
    journal: Journal,
    progress: bool,
    scheduler: str | None,
    tell: Tell | None,
) -> ImportResult:
    result = ImportResult(folder)
    sources = [source_of(study, k) for k in range(len(study))]
    left = [k for k, s in enumerate(sources) if not journal.has(study.index.ids[k], s)]
    result.skipped = len(study) - len(left)

    def failed(position: int, error: RatersError) -> Outcome:
        return Outcome(position, error=error.at(case=study.index.ids[position]))

    local = ordered_map(work, left)
    done = on_cluster(work, left, scheduler, failed, tell) if scheduler else local
    for outcome in track(done, len(left), "fusing", progress):
        if outcome.error is not None:
            result.failures.append(outcome.error)
            continue
        case = study.index.ids[outcome.position]
        journal.finish(case, sources[outcome.position], outcome.facts)
        result.written += 1
    return result


def fuse_one(consensus: Consensus, folder: Path, soft: bool, position: int) -> Outcome:
    """Fuse one case and write its files; an error is part of the outcome."""
    case = consensus.study[position]
    try:
        with enough_memory(case.id):
            fusion = consensus.fuse_case(case)
            _write_case(consensus, case, fusion, folder, soft)
            return Outcome(position, _facts(consensus, case, fusion))
    except RatersError as error:
        return Outcome(position, error=error.at(case=case.id))


def _write_case(consensus: Consensus, case: Case, fusion: Fusion, folder: Path, soft: bool) -> None:
    classes = consensus.study.classes
    affine = case.geometry.affine
    missing = (consensus.study.ignored or (consensus.study.all_classes.free_value(),))[0]
    values = classes.decode(fusion.labels, missing)
    name = case_path(case.id)
    suffix = formats.label_suffix(values, affine)
    formats.write_labels(folder / f"{name}{suffix}", values, affine)
    if soft:
        truth = fusion.truth.astype(np.float32)
        suffix = formats.image_suffix(truth, affine)
        formats.write_image(folder / SOFT_FOLDER / f"{name}{suffix}", truth, affine)


def _facts(consensus: Consensus, case: Case, fusion: Fusion) -> dict[str, Any]:
    """Keep what the tables need of a case."""
    facts: dict[str, Any] = {
        "iterations": fusion.iterations,
        "converged": fusion.converged,
        "undecided": int((fusion.labels == MISSING).sum()),
        "remarks": case_remarks(case.labels, fusion),
    }
    if fusion.starts:
        facts["starts"] = fusion.starts
    if fusion.skills is not None:
        facts["skills"] = fusion.skills.tolist()
    if consensus.pooled or fusion.confusion is None or fusion.prior is None:
        return facts
    facts["prior"] = fusion.prior.tolist()
    facts["log_likelihoods"] = fusion.log_likelihoods
    if fusion.confusion.ndim == 3:
        facts["confusion"] = fusion.confusion.tolist()
        facts["rows"] = consensus.case_rows(case, fusion)
    return facts


def _write_raters(consensus: Consensus, folder: Path, journal: Journal) -> list[str]:
    """Write the tables of raters from what was kept of each case, finished now or before.

    Cases are read from the journal one by one, as often as needed: memory does not grow with them.
    """
    study = consensus.study

    def facts() -> Iterator[tuple[str, Row]]:
        for case in study.cases:
            case_facts = journal.facts(case)
            if case_facts:
                yield case, case_facts

    def rows() -> Iterator[Row]:
        if consensus.pooled:
            yield from consensus.rows
        for case, found in facts():
            yield from ({"case": case, **row} for row in found.get("rows", []))

    notes = consensus.notes_from(found.get("remarks", {}) for _, found in facts())
    content: Row = {"fusion": consensus.description, "raters": rows(), "notes": notes}
    content["cases"] = ((c, {k: f[k] for k in f if k not in _APART}) for c, f in facts())
    if next(facts(), None) is None:
        content["cases"] = {}
    if consensus.pooled:
        content |= consensus.fitted()
    columns = dict.fromkeys(column for row in rows() for column in row)
    write_long_csv(folder / "raters.csv", rows(), list(columns))
    write_long_json(folder / "raters.json", content)
    return notes


def _lost_cases(study: Study, folder: Path, journal: Journal) -> list[str]:
    """Say that masks of cases are left which the study does not have any more."""
    lost = sorted(journal.cases - set(study.index.ids))
    if not lost:
        return []
    more = f" and {many(len(lost) - 1, 'other case')}" if len(lost) > 1 else ""
    return [
        f"{folder} still holds the consensus of case {lost[0]!r}{more}, not in this study; "
        "no table counts it"
    ]


def _write_table(consensus: Consensus, folder: Path, soft: bool) -> ImportResult:
    study = consensus.study
    fusion = consensus.table
    values = (*(str(v) for v in study.classes.values), "")
    rows: list[Row] = []
    for task, label, truth in zip(study.index.ids, fusion.labels, fusion.truth, strict=True):
        row: Row = {"task": task, "label": values[label]}
        if soft:
            row |= dict(zip(study.classes.names, map(float, truth), strict=True))
        rows.append(row)
    write_csv(folder / LABELS_FILE, rows, exact=True)
    write_csv(folder / "raters.csv", consensus.rows)
    if fusion.difficulty is not None:
        hard = (
            {"task": task, "difficulty": None if np.isnan(d) else float(d)}
            for task, d in zip(study.index.ids, fusion.difficulty, strict=True)
        )
        write_csv(folder / "tasks.csv", list(hard))
    content = {"fusion": consensus.description, "raters": consensus.rows, **consensus.fitted()}
    content["notes"] = consensus.notes
    write_json(folder / "raters.json", content)
    return ImportResult(folder, written=len(rows), notes=list(consensus.notes))

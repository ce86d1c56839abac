"""Writes what fusion found: consensus masks with the inputs' geometry and values, and tables.

<case>.*        the consensus mask
soft/<case>.*   the probability of each class, as channels (on request)
raters.csv      how far each rater can be trusted, by case or (pooled) for all
raters.json     the same with matrices, prior, steps and log-likelihoods
labels.csv      tables: the label of each task (with probabilities on request)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.errors import RatersError, enough_memory
from raters.evaluation.predictions import FUSE_JOURNAL, SOFT_FOLDER
from raters.fusion.consensus import Consensus, case_performance
from raters.fusion.result import Fusion
from raters.progress import track
from raters.rows import Row, to_json, write_csv, write_json
from raters.study import formats
from raters.study.classes import MISSING
from raters.study.journal import Journal, source_of
from raters.study.parallel import ordered_map
from raters.study.paths import case_path
from raters.study.write import ImportResult

if TYPE_CHECKING:
    from raters.study.case import Case

JOURNAL = FUSE_JOURNAL


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
) -> ImportResult:
    """Fuse all cases and write them; a second call skips what is finished and unchanged.

    Args:
        consensus: What `raters.fuse` gave.
        folder: Where to write.
        soft: Also write the probabilities.
        overwrite: Fuse everything anew.
        progress: Show a progress bar.
        scheduler: The address of a Dask scheduler whose workers do the work and see the same
            files; None works on this machine.
    """
    folder = Path(folder)
    if overwrite:
        (folder / JOURNAL).unlink(missing_ok=True)
    elif folder.exists() and not (folder / JOURNAL).exists() and any(folder.iterdir()):
        raise RatersError(
            "found a folder that is not empty, expected a new one or one of an earlier fusion",
            kind="folder-taken",
            file=folder,
        )
    if consensus.study.kind == "classification":
        return _write_table(consensus, folder, soft)
    consensus.prepare()
    journal = Journal(folder, _plan(consensus, soft), JOURNAL)
    try:
        result = _write_masks(consensus, folder, soft, progress, scheduler, journal)
        _write_raters(consensus, folder, journal)
    finally:
        journal.close()
    return result


def _plan(consensus: Consensus, soft: bool) -> dict[str, Any]:
    """Say all that the masks depend on beside their files; with shared matrices, those too."""
    study = consensus.study
    plan = {
        "fusion": consensus.description,
        "soft": soft,
        "raters": study.raters,
        "classes": [[c.name, c.value, c.also] for c in study.classes],
        "rules": vars(study.rules),
        "fitted": consensus.fitted()["confusion"] if consensus.pooled else None,
    }
    found: dict[str, Any] = json.loads(to_json(plan))
    return found


def _write_masks(
    consensus: Consensus,
    folder: Path,
    soft: bool,
    progress: bool,
    scheduler: str | None,
    journal: Journal,
) -> ImportResult:
    study, result = consensus.study, ImportResult(folder)
    sources = [source_of(study, k) for k in range(len(study))]
    left = [k for k, s in enumerate(sources) if not journal.has(study.index.ids[k], s)]
    result.skipped = len(study) - len(left)
    work = partial(fuse_one, consensus, folder, soft)
    done = _on_cluster(work, left, scheduler) if scheduler else ordered_map(work, left)
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


def _on_cluster(work: Any, positions: Iterable[int], scheduler: str) -> Iterator[Outcome]:  # noqa: ANN401
    """Do the work on a Dask cluster; what a lost worker had is done again by another."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise RatersError(
            "the engine 'dask' needs: pip install 'raters[dask]'", kind="missing-package"
        ) from None
    try:
        client = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise RatersError(f"no scheduler answers at {scheduler}: {error}") from None
    with client:
        futures = client.map(work, list(positions), retries=3, pure=False)
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            yield future.result()


def _write_case(consensus: Consensus, case: Case, fusion: Fusion, folder: Path, soft: bool) -> None:
    classes, affine = consensus.study.classes, case.geometry.affine
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
    }
    if consensus.pooled or fusion.confusion is None or fusion.prior is None:
        return facts
    facts["prior"] = fusion.prior.tolist()
    facts["log_likelihoods"] = fusion.log_likelihoods
    if fusion.confusion.ndim == 3:
        facts["confusion"] = fusion.confusion.tolist()
        facts["rows"] = case_performance(consensus.study, case, fusion)
    return facts


def _write_raters(consensus: Consensus, folder: Path, journal: Journal) -> None:
    """Write the tables of raters from what was kept of each case, finished now or before."""
    kept = {case: journal.facts(case) for case in consensus.study.cases}
    facts = {case: found for case, found in kept.items() if found}
    if consensus.pooled:
        rows = consensus.rows
    else:
        rows = [{"case": c, **row} for c, found in facts.items() for row in found.get("rows", [])]
    write_csv(folder / "raters.csv", rows)
    content: Row = {"fusion": consensus.description, "raters": rows}
    content["cases"] = {c: {k: v for k, v in f.items() if k != "rows"} for c, f in facts.items()}
    if consensus.pooled:
        content |= consensus.fitted()
    write_json(folder / "raters.json", content)


def _write_table(consensus: Consensus, folder: Path, soft: bool) -> ImportResult:
    study, fusion = consensus.study, consensus.table
    values = (*(str(v) for v in study.classes.values), "")
    rows: list[Row] = []
    for task, label, truth in zip(study.index.ids, fusion.labels, fusion.truth, strict=True):
        row: Row = {"task": task, "label": values[label]}
        if soft:
            row |= dict(zip(study.classes.names, map(float, truth), strict=True))
        rows.append(row)
    write_csv(folder / "labels.csv", rows, exact=True)
    write_csv(folder / "raters.csv", consensus.rows)
    content = {"fusion": consensus.description, "raters": consensus.rows, **consensus.fitted()}
    write_json(folder / "raters.json", content)
    (folder / JOURNAL).touch()
    return ImportResult(folder, written=len(rows))

"""Writes a study as a folder that `raters` opens at once: the canonical or the packed form.

study.yaml            what it is: raters, classes with their values, channels
cases.csv             case, group, split, any diagnosis, and further columns of the folder read
canonical:            images/<case>.*, labels/<rater>/<case>.*, reference/<case>.*
packed:               images.npy, labels.npy, reference.npy, affines.npy
tables, both forms:   labels.parquet (task, worker, label), features.npy
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from raters.core.errors import RatersError, check_choice, enough_memory
from raters.core.progress import ordered_map, track
from raters.io.claim import Owner, check_folder
from raters.io.paths import case_path
from raters.io.results import JOURNAL_FILE, Journal, only_one
from raters.study import study_file
from raters.study.case import Case
from raters.study.fingerprint import source_of
from raters.study.places import Inputs
from raters.study.study import Study
from raters.study.study_file import (
    CASES_FILE,
    PART,
    STUDY_FILE,
    SUMS_FILE,
    CaseArrays,
    Form,
    StudyFile,
    Writer,
    write_sums,
)

_OWN_COLUMNS = ("row", "reference")  # of the form that is written: these are found anew
_OWNER = Owner("import", "a study", journals=(JOURNAL_FILE, STUDY_FILE))
_TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{12}-")

OWN_FOLDERS = ("images", "labels", "reference")
OWN_FILES = (
    STUDY_FILE,
    CASES_FILE,
    JOURNAL_FILE,
    "images.npy",
    "labels.npy",
    "reference.npy",
    "affines.npy",
    "features.npy",
    "has_image.npy",
    "labels.parquet",
    SUMS_FILE,
)


@dataclass
class ImportResult:
    """What was done case by case: cases written, cases found finished, what failed; and notes."""

    folder: Path
    written: int = 0
    skipped: int = 0
    failures: list[RatersError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def write_study(study: Study, folder: str | Path, form: str = "canonical", **options: Any) -> Study:  # noqa: ANN401
    """Write a study and open it from its folder.

    Raises:
        RatersError: for the first case that could not be written.
    """
    from raters.study.read import read

    result = import_study(study, folder, form, **options)
    if result.failures:
        raise result.failures[0]
    return read(folder)


def import_study(
    study: Study,
    folder: str | Path,
    form: str = "canonical",
    *,
    overwrite: bool = False,
    progress: bool = False,
) -> ImportResult:
    """Write a study case by case; a second call skips what is finished and unchanged.

    Args:
        study: The study.
        folder: Where to write; a folder that holds something else is rejected.
        form: 'canonical' (files) or 'packed' (arrays, for many small images of one shape).
        overwrite: Write all cases again.
        progress: Show a progress bar.
    """
    folder = Path(folder)
    check_choice("form", form, get_args(Form))
    if not len(study):
        raise RatersError("found no cases, expected at least one", kind="empty")
    refuse_taken(study, folder)
    with only_one(folder) as notes:
        result = _import(study, folder, cast(Form, form), overwrite, progress)
    result.notes += notes
    return result


def _import(
    study: Study, folder: Path, form: Form, overwrite: bool, progress: bool
) -> ImportResult:
    content = _study_file(study, form)
    if overwrite:
        _clear(folder)
    journal = Journal(folder, _plan(study, content))
    writer = _writer(study, folder, content)
    try:
        _refuse_lost_cases(journal, study, folder)
        if not (folder / STUDY_FILE).exists():
            _remove_litter(folder)
        (folder / STUDY_FILE).unlink(missing_ok=True)  # it is there again when the study is whole
        return _write_cases(study, ImportResult(folder), writer, journal, progress)
    finally:
        writer.close()
        journal.close()


def _further_columns(study: Study, cases: Iterable[str]) -> dict[str, list[str]]:
    """Return what `cases.csv` of the folder that was read says of cases beyond what we know of."""
    if study.folder is None:
        return {}
    index, columns = study_file.read_cases_file(study.folder)
    rows = {case: k for k, case in enumerate(index.ids)}
    kept = {name: values for name, values in columns.items() if name not in _OWN_COLUMNS}
    return {name: [values[rows[case]] for case in cases] for name, values in kept.items()}


def _write_cases(
    study: Study, result: ImportResult, writer: Writer, journal: Journal, progress: bool
) -> ImportResult:
    def work(position: int) -> tuple[int, str, RatersError | None]:
        case = study[position]
        source = source_of(study, position)
        if journal.has(case.id, source):
            return position, source, None
        try:
            with enough_memory(case.id):
                writer.write(position, load(case, study))
        except RatersError as error:
            if error.kind == "one-shape":  # no other case can be written either
                raise
            return position, source, error.at(case=case.id)
        return position, source, None

    kept = [] if writer.by_case else list(range(len(study)))
    done = ordered_map(work, range(len(study)) if writer.by_case else ())
    for position, source, error in track(done, len(study), "importing", progress):
        if error is not None:
            result.failures.append(error)
            if study.index.ids[position] in journal.cases:
                journal.finish(study.index.ids[position], "")
                writer.discard(study.index.ids[position])
            continue
        kept.append(position)
        finished = journal.has(study.index.ids[position], source)
        result.skipped += finished
        if not finished:
            journal.finish(study.index.ids[position], source)
    if not kept:
        raise result.failures[0]
    result.written = len(kept) - result.skipped
    index = study.index.take(np.array(kept, np.intp))
    columns = _further_columns(study, index.ids) | writer.finish(kept)
    study_file.write_cases_file(result.folder, index, columns)
    write_sums(result.folder, [n for n in OWN_FILES if n.endswith((".npy", ".parquet"))])
    study_file.write_study_file(result.folder, writer.content)
    return result


def load(case: Case, study: Study) -> CaseArrays:
    """Read all of one case."""
    segmentation = study.kind == "segmentation"
    labels = case.drawings if segmentation and study.raters else None
    reference = case.reference if segmentation else None
    return CaseArrays(case.id, labels, case.image, reference, case.geometry)


def refuse_taken(study: Study, folder: Path) -> None:
    """Refuse to write a study into a folder that holds something else, or what is to be read.

    Raises:
        RatersError: that names what was found.
    """
    parts = ("images", "reference", "labels/rater")
    stems = (f"{part}/{case_path(case)}" for case in study.index.ids for part in parts)
    Inputs.of(study).refuse(folder, stems=stems)
    check_folder(folder, _OWNER)


def _clear(folder: Path) -> None:
    """Remove what an earlier import wrote, and nothing else."""
    for name in OWN_FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in OWN_FILES:
        (folder / name).unlink(missing_ok=True)
        (folder / f"{name}{PART}").unlink(missing_ok=True)


def _remove_litter(folder: Path) -> None:
    """Remove the temporary files of an import that was killed."""
    for place in (folder, *(folder / name for name in OWN_FOLDERS)):
        for path in place.glob(".*") if place == folder else place.rglob(".*"):
            if _TEMPORARY.match(path.name):
                path.unlink(missing_ok=True)


def _refuse_lost_cases(journal: Journal, study: Study, folder: Path) -> None:
    """Reject a folder with cases that the study does not have: their files would remain."""
    lost = journal.cases - set(study.index.ids)
    if lost:
        message = (
            f"holds the case {min(lost)!r}, which is not in this study: "
            "choose another folder, or --overwrite to replace it"
        )
        raise RatersError(message, kind="folder-taken", file=folder)


def _study_file(study: Study, form: Form) -> StudyFile:
    classes = study.classes
    # What stands for MISSING in masks: the value of the source, if no class has it.
    used = {value for c in classes for value in (c.value, *c.also)}
    free = (value for value in study.rules.ignore if value not in used)
    masks = study.kind == "segmentation" and form == "canonical"
    return StudyFile(
        format="raters-study/1",
        form=form,
        kind=study.kind,
        raters=list(study.raters),
        classes=[
            study_file.ClassEntry(name=c.name, value=c.value, also=list(c.also)) for c in classes
        ],
        ignore=next(free, classes.free_value()) if masks else None,
        channels=list(study.channels),
        about=dict(study.about),
        annotations={r: kind for r, kind in study.annotations.items() if kind != "mask"},
        unmarked=study.unmarked if study.drawn else None,
    )


def _plan(study: Study, content: StudyFile) -> dict[str, Any]:
    unsaid = None if study.drawn else {"annotations", "unmarked"}  # as in journals of masks
    plan = content.model_dump(exclude=unsaid) | {"rules": asdict(study.rules)}
    plan |= study.backend.holds()
    if content.form == "packed":
        plan["cases"] = list(study.index.ids)  # rows of arrays have fixed places
    return plan


def _writer(study: Study, folder: Path, content: StudyFile) -> Writer:
    from raters.study.packed import PackedWriter
    from raters.study.table_folder import TableWriter

    packed = content.form == "packed"
    writer: Writer = (PackedWriter if packed else study_file.CanonicalWriter)(
        study, folder, content
    )
    return TableWriter(study, folder, writer) if study.kind == "classification" else writer

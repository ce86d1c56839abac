"""Opens a study from whatever holds it: a pattern, a folder, a manifest or a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.io.paths import refuse_special
from raters.io.table_files import Missing
from raters.study import files_index, study_file
from raters.study.annotations import usual_unmarked
from raters.study.backend import Absent, LabelRules, Overlap, Resample
from raters.study.backend_files import FilesBackend
from raters.study.data import ANONYMOUS
from raters.study.exports import known_export
from raters.study.foreign import library_class
from raters.study.pattern import Pattern, is_pattern
from raters.study.plain_folder import TABLE_SUFFIXES, guess_source, no_layout
from raters.study.study import Study
from raters.study.study_file import CASES_FILE, STUDY_FILE

if TYPE_CHECKING:
    import pandas as pd


def read(
    source: str | Path | pd.DataFrame,
    *,
    images: Any = None,  # noqa: ANN401
    reference: str | Path | None = None,
    values: Any = None,  # noqa: ANN401
    ignore: int | Sequence[int] = (),
    absent: Absent = "missing",
    threshold: float | None = None,
    overlap: Overlap = "error",
    resample: Resample | None = None,
    raters: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    diagnosis: str | None = None,
    task: str = "task",
    worker: str = "worker",
    label: str = "label",
    wide: bool = False,
    missing: Missing = None,
    header: bool | None = None,
    anonymous: bool = False,
    annotations: Mapping[str, str] | None = None,
    unmarked: str | None = None,
    strict: bool = True,
    truth: bool = False,
) -> Study:
    r"""Open a study; masks and images are read when they are asked for.

    Args:
        source: A pattern (`"masks/{rater}/{case}.nii.gz"`), a folder (a plain one: its layout is
            guessed, and said in `notes`), a manifest (CSV with the columns case, rater, mask, ...),
            what `raters check --save` wrote, or a table of class labels: a file, or a pandas frame
            (`Study.from_frame` says how it is understood).
        images: A pattern for images (`"images/{case}_{modality}.nii.gz"`); for tables also a
            `.npy` array of features or images, one row per task in the order of the table's tasks.
        reference: A pattern for true or adjudicated masks; for tables a file with one label per
            task (two columns task and label, or one label per line in the order of the tasks), for
            frames a column.
        values: What label values mean: `"0=background,1=tumour"`, `{0: "background"}`, or a list.
        ignore: Values in masks that mean 'not labelled' (MISSING).
        absent: What an absent mask means: 'missing' (not labelled) or 'empty' (drew nothing).
        threshold: Where to cut grey masks.
        overlap: With one file per class: 'error', 'priority' (last class wins) or 'combine'.
        resample: 'nearest' puts masks on the grid of the image; None makes other grids an error.
        raters: Keep only these raters.
        cases: Keep only these cases (names or wildcards).
        classes: Keep only these classes; in masks the others become background.
        split: Keep only the cases of this split.
        diagnosis: Keep only the cases of this diagnosis.
        task: The column of a table that names the task.
        worker: The column of a table that names the rater.
        label: The column of a table that holds the label.
        wide: The table has one column per rater.
        missing: The value in a table that means 'not labelled', or several of them.
        header: Whether a wide table has a header; None looks.
        anonymous: A rater of one case and of the next may be different people, though their name is
            the same: raters are not ranked or named then.
        annotations: What the labels of raters mean, by rater: 'mask', 'positive', 'negative',
            'scribble' or 'box'; by default what the study says, else 'mask'.
        unmarked: What pixels say that a positive or negative drawing leaves unmarked: 'rest' or
            'unknown'; by default what the study says, else 'unknown' if both kinds were drawn.
        strict: Raise what is wrong with the files' names; `raters check` lists it instead.
        truth: A pattern without `{rater}` is one of true masks: the study has no raters.

    Example:
        >>> import tempfile
        >>> table = Path(tempfile.mkdtemp(), "answers.csv")
        >>> _ = table.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\n")
        >>> read(table)
        Study(classification, 1 case, 2 raters, 2 classes)
    """
    given = dict(locals())
    rules = LabelRules(_numbers(ignore), absent, threshold, overlap, resample)
    columns = {name: given[name] for name in (*_COLUMNS, "wide", "missing", "header")}
    if isinstance(source, library_class("pandas", "DataFrame")):
        told: dict[str, Any] = {n: None if columns[n] == n else columns[n] for n in _COLUMNS}
        told |= {"reference": reference, "images": images, "classes": values}
        study = Study.from_frame(source, wide=wide or None, missing=missing, **told)
        study = study.annotate(annotations, unmarked)
        study = study.select(raters, cases, classes, split, diagnosis)
        return replace(study, about={"raters": ANONYMOUS}) if anonymous else study
    for path, expected in ((source, _STUDIES), (images, _FILES), (reference, _FILES)):
        if not isinstance(path, str | os.PathLike) and (path is not None or path is source):
            raise RatersError(f"found {type(path).__name__}, expected {expected}")
    text = os.fspath(cast("str | Path", source))
    guess = None if truth else guess_source(given)
    if guess is not None:
        study = read(**{**given, **guess.arguments})
        return replace(study, notes=(*study.notes, guess.line))
    if is_pattern(text) or Path(text).is_dir():
        _refuse_for_tables(columns, text)
    if is_pattern(text) and truth and "{rater}" not in text:
        beside = None if images is None else Pattern(os.fspath(images))
        study = _of_files(files_index.index_truth(Pattern(text), beside), values, rules)
    elif is_pattern(text):
        others = [None if p is None else Pattern(os.fspath(p)) for p in (images, reference)]
        study = _of_files(files_index.index_patterns(Pattern(text), *others), values, rules)
    elif Path(text).is_dir():
        study = open_folder(Path(text))
    elif _is_manifest(Path(text)):
        _refuse_for_tables(columns, text)
        study = _of_files(files_index.index_manifest(Path(text)), values, rules)
    else:
        from raters.study.table_study import read_table_study

        study = read_table_study(Path(text), columns, images, reference, values)
    if strict and study.problems:
        raise _all_of(study.problems)
    study = replace(study, sources=_sources(text, images, reference))
    study = study.annotate(annotations, unmarked)
    if anonymous:
        study = replace(study, about={**study.about, "raters": ANONYMOUS})
    chosen = study.select(raters, cases, classes, split, diagnosis)
    chosen = chosen if raters is None else _without_empty(chosen)
    return replace(chosen, opened=_plain(given))


_STUDIES = "a pattern, a folder, a manifest, a table, or a pandas frame"
_FILES = "a pattern or a file: arrays go with a pandas frame, or into Study.from_arrays"


def study_of(given: Any) -> Study:  # noqa: ANN401
    """Return a study of whatever holds one: what `read` takes, or labels as an array.

    Raises:
        RatersError: for what holds none; it says what to pass.

    Example:
        >>> study_of(np.zeros((2, 3, 4, 4), int))
        Study(segmentation, 2 cases, 3 raters, 2 classes)
        >>> study_of(3)
        Traceback (most recent call last):
        raters.core.errors.RatersError: found int, expected a study, a pattern, a folder, ...
    """
    if isinstance(given, Study):
        return given
    if isinstance(given, (str, os.PathLike, *library_class("pandas", "DataFrame"))):
        return read(cast("str | Path", given))
    if isinstance(given, list | tuple | np.ndarray) or hasattr(given, "__array__"):
        if axes_of(given) == 3:  # as (cases, raters, signal) the masks of one case would vanish
            raise RatersError(
                f"found labels of 3 axes ({len(given)} masks of 2 axes?), expected (cases, raters, "
                f"*space): labels[np.newaxis], or [labels] of a list, for one case by {len(given)} "
                "raters; Study.from_arrays(labels=labels) for signals of one axis"
            )
        return Study.from_arrays(labels=given)
    raise RatersError(
        f"found {type(given).__name__}, expected a study, {_STUDIES}, or labels as an array "
        "(cases, raters, *space)"
    )


def axes_of(given: Any) -> int:  # noqa: ANN401
    """Return the number of axes of an array, or of lists of them by what comes first.

    Example:
        >>> axes_of([np.zeros((4, 4)), np.zeros((4, 4))])
        3
    """
    if isinstance(given, list | tuple):
        return 1 + (axes_of(given[0]) if given else 0)
    return int(getattr(given, "ndim", 0))


def _plain(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `read` as a folder of results remembers them; None if it cannot."""
    if not isinstance(given["values"], str | None) or given["truth"]:
        return None
    missing = given["missing"]
    ignore = given["ignore"]
    if missing is not None:
        missing = map(str, missing if isinstance(missing, list | tuple) else [missing])
    lists = {k: given[k] for k in ("raters", "cases", "classes")} | {"missing": missing}
    lists = {k: None if v is None else list(v) for k, v in lists.items()}
    arguments = {k: v for k, v in given.items() if k not in ("strict", "truth")}
    for name in ("source", "images", "reference"):
        if given[name]:
            arguments[name] = os.fspath(given[name])
    if given["annotations"]:
        arguments["annotations"] = dict(given["annotations"])
    return {**arguments, **lists, "ignore": list(_numbers(ignore))}


def _sources(*given: str | Path | None) -> tuple[str, ...]:
    """Return what was read as whole paths; the name of a column is none."""
    texts = [os.fspath(one) for one in given if one is not None]
    return tuple(os.path.abspath(t) for t in texts if is_pattern(t) or Path(t).exists())  # noqa: PTH100


_COLUMNS = ("task", "worker", "label")  # each called as what it holds, unless told


def _refuse_for_tables(columns: Mapping[str, Any], source: str) -> None:
    """Reject options that say how to read a table where there is none to read."""
    given = [
        name
        for name, value in columns.items()
        if value not in (None, False, [], ()) and not (name in _COLUMNS and value == name)
    ]
    given += ["header"] if columns["header"] is False else []
    if given:
        what = "a pattern" if is_pattern(source) else "a folder or a manifest"
        raise RatersError(
            f"found {', '.join(f'--{name}' for name in given)} with {what}, expected a table of "
            "class labels: these options say how to read one",
            file=source,
        )


def _without_empty(study: Study) -> Study:
    """Leave out cases of which the chosen raters, images and references say nothing at all."""
    if not isinstance(study.backend, FilesBackend):
        return study
    files = [study.backend.cases[study.row(k)] for k in range(len(study))]
    kept = [
        k
        for k, case in enumerate(files)
        if case.images or case.reference or any(case.masks.get(r) for r in study.raters)
    ]
    left = len(files) - len(kept)
    if not left:
        return study
    if not kept:
        message = f"found nothing by {', '.join(study.raters)} in these cases, expected some masks"
        raise RatersError(message, kind="empty")
    if left == 1:
        has = "has"
        was = "was"
    else:
        has = "have"
        was = "were"
    note = f"{many(left, 'case')} {has} nothing by these raters and {was} left out"
    return replace(study.take(np.array(kept, np.intp)), notes=(*study.notes, note))


def _numbers(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


def _all_of(problems: Sequence[RatersError]) -> RatersError:
    """Put several errors into one."""
    first = problems[0]
    if len(problems) == 1:
        return first
    more = "\n".join(str(p) for p in problems[:10])
    left = f"\nand {len(problems) - 10} more" if len(problems) > 10 else ""
    return RatersError(f"found {len(problems)} problems:\n{more}{left}", kind=first.kind)


def _is_manifest(path: Path) -> bool:
    """Look whether a CSV lists mask files; reject what cannot be a table at all."""
    if not path.exists():
        message = (
            "no such file or folder; expected a folder, a manifest, a table, or a pattern "
            "such as 'masks/{rater}/{case}.nii.gz'"
        )
        raise RatersError(message, kind="missing-file", file=path)
    if not path.name.lower().endswith(TABLE_SUFFIXES):
        export = known_export(path)
        if export is not None:
            raise export
        message = (
            f"found a file that is not a table ({', '.join(TABLE_SUFFIXES)}), expected a table, "
            "a folder, or a pattern such as 'masks/{rater}/{case}.nii.gz'"
        )
        raise RatersError(message, kind="pattern", file=path)
    refuse_special(path)
    if path.suffix.lower() != ".csv":
        return False
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        first = file.readline(1 << 16)
    return files_index.is_manifest([cell.strip().strip('"') for cell in first.split(",")])


def _of_files(found: files_index.FilesIndex, values: Any, rules: LabelRules) -> Study:  # noqa: ANN401
    """Make a study of files that were matched."""
    names = found.class_names
    classes = None if values is None else Classes.of(values)
    if names and classes is not None:
        # With one file per class, the values given say in which order the classes come.
        names = [n for n in classes.names if n in names] + [
            n for n in names if n not in classes.names
        ]
        classes = None
    two = classes is not None and sorted(classes.values, key=str) == [0, 1]
    white = two and 255 not in rules.ignore
    backend = FilesBackend(found.files, rules, names, found.modalities, white=white)
    return Study(
        backend,
        found.cases(),
        tuple(found.raters),
        rules=rules,
        channels=tuple(found.modalities),
        problems=tuple(found.problems),
        _classes=classes,
        _annotations=found.annotations,
        unmarked=usual_unmarked(found.annotations),
    )


def open_folder(folder: Path) -> Study:
    """Open a folder that `raters` wrote."""
    if not (folder / STUDY_FILE).exists():
        raise no_layout(folder)
    from raters.study.packed import lost_images, open_packed

    content = study_file.read_study_file(folder)
    index, columns = study_file.read_cases_file(folder)
    if not len(index):
        raise RatersError("found no cases, expected at least one", kind="empty", file=folder)
    rows = _rows(columns.get("row"), len(index), folder)
    problems: list[RatersError] = []
    backend: Any
    if content.kind == "classification":
        from raters.study.table_folder import open_table

        backend, problems = open_table(folder, content, index, rows, columns.get("reference"))
    elif content.form == "canonical":
        backend, problems = study_file.open_canonical(folder, content, index)
    else:
        backend = open_packed(folder, content, dict(zip(rows.tolist(), index.ids, strict=True)))
    if content.form == "packed" or content.kind == "classification":
        problems += lost_images(folder)
    return Study(
        backend,
        index,
        tuple(content.raters),
        content.kind,
        rules=getattr(backend, "rules", LabelRules()),
        channels=tuple(content.channels),
        about=content.about,
        problems=tuple(problems),
        rows=rows if "row" in columns else None,
        folder=folder,
        unmarked=content.unmarked or usual_unmarked(content.annotations),
        _classes=content.label_classes(),
        _annotations=content.annotations,
    )


def _rows(given: list[str] | None, cases: int, folder: Path) -> NDArray[np.intp]:
    """Read where the cases are in the arrays; by default one after the other."""
    bad = next((text for text in given or () if not (text.isascii() and text.isdecimal())), None)
    if bad is not None:
        raise RatersError(
            f"found row {bad!r}, expected numbers from 0", kind="columns", file=folder / CASES_FILE
        )
    return np.array(range(cases) if given is None else given, np.intp)

"""Opens a table of class labels with the images, features and true labels beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.arrays import Array
from raters.errors import RatersError
from raters.study.backend import ArraysBackend, Backend, LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.classes import MISSING, Classes, LabelClass
from raters.study.packed import open_array
from raters.study.paths import refuse_special
from raters.study.pattern import Pattern, is_pattern
from raters.study.study import CaseIndex, Study
from raters.study.tables import read_table
from raters.study.triplets import TableBackend, Triplets

if TYPE_CHECKING:
    import pandas as pd


def read_table_study(
    path: Path,
    columns: Mapping[str, Any],
    images: str | Path | None,
    reference: str | Path | None,
    values: Any,  # noqa: ANN401
) -> Study:
    """Open a table; `raters.read` says what each argument is."""
    triplets = read_table(path, **columns)
    tasks = [str(task) for task in triplets.tasks]
    truth = None if reference is None else _read_truth(Path(reference), triplets, columns)

    def files(column: str) -> dict[str, Path]:
        hint = "name an array (.npy), a pattern or a column"
        found = read_column(path, columns["task"], column, hint)
        return {task: path.parent / name for task, name in found.items() if name}

    inputs = None if images is None else inputs_of(os.fspath(images), tasks, files)
    return table_study(triplets, truth, values, inputs, path)


def table_study(
    triplets: Triplets,
    truth: list[int | str | None] | None,
    values: Any,  # noqa: ANN401
    inputs: Backend | None,
    path: Path | None,
    groups: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    diagnoses: Sequence[str] | None = None,
) -> Study:
    """Make the study of a table, with what is beside it: true labels, images, groups and so on."""
    classes = _classes(triplets, truth, values, path)
    position = {v: k for k, c in enumerate(classes) for v in (c.value, *c.also)}
    table = np.array([position[v] for v in triplets.values] or [0], np.int16)
    coded = replace(triplets, label=table[triplets.label], values=classes.values)
    known = (
        None
        if truth is None
        else np.array([MISSING if v is None else position[v] for v in truth], np.int16)
    )
    backend = TableBackend(coded, inputs, known)
    index = CaseIndex.of(list(triplets.tasks), groups, splits, diagnoses)
    return Study(backend, index, triplets.raters, "classification", _classes=classes)


def _classes(triplets: Triplets, truth: Any, given: Any, path: Path | None) -> Classes:  # noqa: ANN401
    found = set(triplets.values) | {v for v in truth or () if v is not None}
    if given is None:
        whole = all(isinstance(v, int) for v in found)
        ordered = sorted(found) if whole else sorted(found, key=str)
        return Classes(tuple(LabelClass(str(v), v) for v in ordered))
    classes = Classes.of(given)
    unknown = found - {v for c in classes for v in (c.value, *c.also)}
    if unknown:
        message = (
            f"found the label {sorted(map(str, unknown))[0]!r}, "
            f"expected one of {', '.join(map(str, classes.values))}"
        )
        raise RatersError(message, kind="unknown-value", file=path)
    return classes


def inputs_of(given: str, tasks: list[str], column: Callable[[str], Mapping[str, Path]]) -> Backend:
    """Take an array of features or images, image files by a pattern, or a column of paths."""
    if is_pattern(given):
        files: Mapping[str, Path] = _matched(Pattern(given))
    elif given.endswith(".npy"):
        return ArraysBackend([], None, _array(Path(given), len(tasks)))
    else:
        files = column(given)
    cases = [CaseFiles(images={"": files[t]} if t in files else {}) for t in tasks]
    return FilesBackend(cases, LabelRules())


def _array(path: Path, tasks: int) -> Array:
    array = open_array(path, tasks)
    if array is None:
        raise RatersError("no such file", kind="missing-file", file=path)
    if len(array) != tasks:
        message = f"found {len(array)} rows, expected {tasks}: one for each task, in their order"
        raise RatersError(message, kind="unreadable", file=path)
    return array


def _matched(pattern: Pattern) -> dict[str, Path]:
    if "case" not in pattern.fields:
        message = f"found no {{case}} in the pattern of images {pattern.text!r}, expected it"
        raise RatersError(message, kind="pattern")
    problems: list[RatersError] = []
    files = {match.fields["case"]: match.path for match in pattern.walk(problems)}
    if not files:
        raise pattern.nothing_found()
    return files


def _read_truth(
    path: Path, triplets: Triplets, columns: Mapping[str, Any]
) -> list[int | str | None]:
    """Read one true label per task."""
    found = labels_of_tasks(path, list(triplets.tasks), columns["task"], columns["label"])
    return as_values([found.get(str(task)) for task in triplets.tasks], path)


def labels_of_tasks(path: Path, tasks: list[str], task: str, label: str) -> dict[str, str]:
    """Read one label per task: by the columns of task and label, or one per line, in order."""
    lines = _lines(path)
    if lines and len(lines) == len(tasks) and not any(c in lines[0] for c in ",;\t"):
        return dict(zip(tasks, lines, strict=True))
    hint = f"or {len(tasks)} lines with one label each"
    return read_column(path, task, label, hint)


def _lines(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return []
    refuse_special(path)
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise RatersError("no such file", kind="missing-file", file=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RatersError(f"not a text file: {error}", kind="unreadable", file=path) from None


def read_column(path: Path, task: str, column: str, hint: str) -> dict[str, str]:
    """Read one column of a table by task; a repeated task must have the same value."""
    frame = read_texts(path)
    for name in (task, column):
        if name not in frame.columns:
            listed = ", ".join(map(str, frame.columns[:20]))
            message = f"found columns {listed}, expected a column {name!r}; {hint}"
            raise RatersError(message, kind="columns", file=path)
    return one_per_task(frame[task].tolist(), frame[column].tolist(), column, path)


def read_texts(path: Path) -> pd.DataFrame:
    """Read a table as texts, all of its columns."""
    import pandas as pd

    refuse_special(path)
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path).astype(str)
        return pd.read_csv(path, dtype=str, sep=None, engine="python", keep_default_na=False)
    except FileNotFoundError:
        raise RatersError("no such file", kind="missing-file", file=path) from None
    except (ValueError, OSError) as error:
        raise RatersError(f"not a table: {error}", kind="unreadable", file=path) from None


def one_per_task(
    tasks: Sequence[str], values: Sequence[str], column: str, path: Path | None
) -> dict[str, str]:
    """Return the value of each task; a repeated task must repeat it."""
    found: dict[str, str] = {}
    for task, value in zip(tasks, values, strict=True):
        if found.setdefault(task, value) != value:
            both = f"{found[task]!r}, {value!r}"
            message = f"found {both} for task {task!r} in column {column!r}, expected one value"
            raise RatersError(message, kind="value", file=path)
    return found


def as_values(texts: list[str | None], path: Path | None) -> list[int | str | None]:
    """Read labels as whole numbers where all are, as `read_table` does; empty ones are unknown."""
    known = [None if text is None or not text.strip() else text.strip() for text in texts]
    if not any(known):
        raise RatersError("found no label of any task of the table", kind="value", file=path)
    try:
        numbers = [None if text is None else float(text) for text in known]
    except ValueError:
        return list(known)
    if not all(n is None or n.is_integer() for n in numbers):
        bad = next(n for n in numbers if n is not None and not n.is_integer())
        raise RatersError(f"found label {bad:g}, expected whole numbers", kind="value", file=path)
    return [None if n is None else int(n) for n in numbers]

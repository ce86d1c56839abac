"""Studies of class labels from files and pandas frames, with images, features and true labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raters.core.arrays import Array
from raters.core.classes import MISSING, Classes, LabelClass
from raters.core.errors import RatersError
from raters.core.wording import listing
from raters.io.paths import refuse_special
from raters.io.table_files import CellRules, Missing, as_text, open_table, reading
from raters.study.backend import ArraysBackend, Backend, LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.foreign import Given, array_of, library_class
from raters.study.packed import open_array
from raters.study.pattern import Pattern, is_pattern
from raters.study.study import Study
from raters.study.table_columns import guess_columns
from raters.study.tables import read_table, triplets_of
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
    truth = None
    if reference is not None:
        own = Path(reference).exists() and Path(reference).samefile(path)
        found = labels_of_tasks(Path(reference), tasks, columns["task"], columns["label"], own)
        truth = as_values([found.get(task) for task in tasks], Path(reference))

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
        return ArraysBackend([], None, _array(Path(given), len(tasks)), names=tasks)
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


def labels_of_tasks(
    path: Path, tasks: list[str], task: str, label: str, is_own: bool = False
) -> dict[str, str]:
    """Read one label per task: by the columns of task and label, or one per line, in order.

    Args:
        path: The file.
        tasks: The tasks, in their order.
        task: The column of tasks; without it the one whose name says so.
        label: The column of labels; without it the one whose name says 'truth', or 'label'.
        is_own: The file is the table of the raters' labels, where `label` is what they said.
    """
    lines = _lines(path)
    if lines and len(lines) == len(tasks) and not any(c in lines[0] for c in ",;\t"):
        return dict(zip(tasks, lines, strict=True))
    hint = f"or {len(tasks)} lines with one label each"
    task, label = _columns_of_truth(path, task, label, is_own)
    return read_column(path, task, label, hint)


def _columns_of_truth(path: Path, task: str, label: str, is_own: bool) -> tuple[str, str]:
    """Return the columns of task and truth: the given ones if they are there, else by name."""
    with reading(path):
        names = open_table(path, wide=False, header=True, rules=CellRules()).names
    if task not in names:
        task = guess_columns(names, {}).only("task") or task
    columns = guess_columns(names, {"task": task})
    if label not in names or is_own:
        others = [name for name in names if name != task]
        last = others[0] if len(names) == 2 and task in names else label
        label = columns.only("truth") or columns.only("label") or last
    return task, label


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

    def choose(names: Sequence[str]) -> Sequence[str]:
        for name in (task, column):
            if name not in names:
                message = f"found columns {listing(names)}, expected a column {name!r}; {hint}"
                raise RatersError(message, kind="columns")
        return task, column

    tasks, values = read_texts(path, choose)
    return one_per_task(tasks, values, column, path)


def read_texts(
    path: Path, choose: Callable[[Sequence[str]], Sequence[str]]
) -> tuple[list[str], ...]:
    """Read columns of a table as texts.

    Args:
        path: The table.
        choose: Returns which columns, of all their names.
    """
    with reading(path):
        source = open_table(path, wide=False, header=True, rules=CellRules())
        places = [source.names.index(name) for name in choose(source.names)]
        cells: tuple[list[str], ...] = tuple([] for _ in places)
        for batch in source.batches(places):
            for own, part in zip(cells, batch, strict=True):
                own += part.to_pylist()
    return cells


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


USUAL = {
    "task": ("task", "case", "item", "task_id", "case_id", "item_id", "image", "image_id"),
    "worker": ("worker", "rater", "annotator", "reader", "worker_id", "rater_id", "annotator_id"),
    "label": ("label", "answer", "response", "annotation", "class", "rating"),
    "reference": ("reference", "truth", "gold"),
    "group": ("group", "patient"),
    "split": ("split",),
    "diagnosis": ("diagnosis",),
}
"""Names of columns that are known without being told; the first one that a frame has is taken."""


def frame_study(
    frame: pd.DataFrame,
    wide: bool | None = None,
    missing: Missing = None,
    features: Sequence[str] | None = None,
    images: Any = None,  # noqa: ANN401
    values: Any = None,  # noqa: ANN401
    **columns: str | None,
) -> Study:
    """Make the study of `Study.from_frame`, which says what the arguments mean."""
    if not isinstance(frame, library_class("pandas", "DataFrame")):
        raise RatersError(
            f"found {type(frame).__name__}, expected a pandas frame: raters.read opens files, "
            "Study.from_arrays takes arrays"
        )
    table, kept, wide = _tables(frame, wide, features or (), columns)
    names = [table.found[what] or what for what in ("task", "worker", "label")]
    triplets = triplets_of(kept, wide, (names[0], names[1], names[2]), CellRules(missing))
    tasks = [str(task) for task in triplets.tasks]

    def column(what: str) -> list[str | None] | None:
        name = table.found[what]
        return None if name is None else table.by_task(name, tasks)

    truth, groups, splits, diagnoses = map(column, ("reference", "group", "split", "diagnosis"))
    return table_study(
        triplets,
        None if truth is None else as_values(truth, None),
        values,
        _inputs(table, tasks, features, images),
        None,
        None if groups is None else [g or t for g, t in zip(groups, tasks, strict=True)],
        None if splits is None else [split or "" for split in splits],
        None if diagnoses is None else [diagnosis or "" for diagnosis in diagnoses],
    )


class _Frame:
    """The columns of a frame as texts, as `read_table` takes them from files."""

    header = True

    def __init__(self, frame: pd.DataFrame, found: dict[str, str | None] | None = None) -> None:
        self.frame = frame
        self.names = [str(name) for name in frame.columns]
        self.found = found or {}

    def texts(self, position: int) -> pa.Array:
        series = self.frame.iloc[:, position]
        try:
            if str(series.dtype) in ("bool", "boolean"):
                raise pa.ArrowInvalid  # Arrow writes 'true', pandas 'True'
            return pc.ascii_trim_whitespace(pc.fill_null(as_text(pa.array(series)), ""))
        except pa.ArrowException:  # a column of this and that
            empty = series.isna()
            said = ["" if no else str(x).strip() for x, no in zip(series, empty, strict=True)]
            return pa.array(said, pa.string())

    def batches(self, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
        yield [self.texts(position) for position in columns]

    def by_task(self, name: str, tasks: Sequence[str]) -> list[str | None]:
        """Return what a column says of each task, None for nothing."""
        own = self.found["task"]
        rows = range(len(self.frame)) if own is None else self._column(own)
        said = one_per_task(list(map(str, rows)), self._column(name), name, None)
        return [said.get(task) or None for task in tasks]

    def _column(self, name: str) -> list[str]:
        _known(self.names, name, "")
        texts: list[str] = self.texts(self.names.index(name)).to_pylist()
        return texts


def _tables(
    frame: pd.DataFrame, wide: bool | None, features: Sequence[str], named: dict[str, str | None]
) -> tuple[_Frame, _Frame, bool]:
    """Return the whole frame, the part that holds labels, and whether it is wide."""
    levels = [str(name) for name in frame.index.names if name is not None]
    frame = frame.reset_index() if levels else frame
    names = [str(name) for name in frame.columns]
    found = {what: _known(names, named.get(what), what) for what in USUAL}
    if named.get("diagnosis") is None and found["diagnosis"] in (named.get("label"), *features):
        found["diagnosis"] = None  # it is what the raters say, or what is learnt from
    if wide is None:  # columns are raters where none names the raters and none holds labels
        wide = found["worker"] is None and found["label"] is None
    if not wide:
        long = [found[what] or USUAL[what][0] for what in ("task", "worker", "label")]
        kept = [names.index(str(_known(names, name, ""))) for name in long]
        return _Frame(frame, found), _Frame(frame.iloc[:, kept]), False
    own = found["task"] or (levels[0] if len(levels) == 1 else None)
    if own is None and len(frame):
        if frame.index.dtype == bool:
            raise RatersError("found an index of True and False, expected the names of tasks")
        frame = frame.reset_index(names="task")
        own = "task"
    found["task"] = own
    facts = ("reference", "group", "split", "diagnosis")
    beside = {*(found[what] for what in facts), *levels, *features}
    columns = enumerate(map(str, frame.columns))
    kept = [k for k, name in columns if name == own or name not in beside]
    return _Frame(frame, found), _Frame(frame.iloc[:, kept]), True


def _known(names: Sequence[str], given: str | None, what: str) -> str | None:
    """Return the name of a column: the given one, else a usual one."""
    if given is not None and given not in names:
        listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise RatersError(
            f"found the columns {listed}, expected {given!r}: raters.read(frame, task=, worker=, "
            "label=) names the columns of a long table; wide=True says that each is a rater",
            kind="columns",
        )
    return given or next((name for name in USUAL[what] if name in names), None)


def _inputs(
    table: _Frame, tasks: list[str], features: Sequence[str] | None, images: Given
) -> Backend | None:
    """Return the store of features or images: columns of numbers, an array, or files."""
    if features is not None:
        said = [table.by_task(name, tasks) for name in features]
        try:
            numbers = [[np.nan if x is None else float(x) for x in column] for column in said]
        except ValueError as error:
            raise RatersError(f"features: {error}, expected numbers", kind="value") from None
        return ArraysBackend([], None, np.array(numbers, np.float32).T, names=tasks)
    if isinstance(images, str | os.PathLike):

        def files(name: str) -> dict[str, Path]:
            said = zip(tasks, table.by_task(name, tasks), strict=True)
            return {task: Path(file) for task, file in said if file}

        return inputs_of(os.fspath(images), tasks, files)
    if images is None:
        return None
    array = array_of(images)
    if len(array) != len(tasks):
        raise RatersError(
            f"found {len(array)} images, expected {len(tasks)}: one per task, in the natural order "
            "of their names"
        )
    return ArraysBackend([], None, array, names=tasks)

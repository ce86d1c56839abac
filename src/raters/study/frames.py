"""Studies from pandas: tables of class labels in long form, or wide with one column per rater."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raters.errors import RatersError
from raters.study.backend import ArraysBackend
from raters.study.foreign import Given, array_of, library_class
from raters.study.read_table import as_values, inputs_of, one_per_task, table_study
from raters.study.study import Study
from raters.study.table_files import CellRules, Missing, as_text
from raters.study.tables import triplets_of

if TYPE_CHECKING:
    import pandas as pd

    from raters.study.backend import Backend

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
        self.frame, self.names = frame, [str(name) for name in frame.columns]
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
        frame, own = frame.reset_index(names="task"), "task"
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
            f"found the columns {listed}, expected {given!r}: name the columns of a long table by "
            "task=, worker= and label=; wide=True says that each column is a rater",
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
        return ArraysBackend([], None, np.array(numbers, np.float32).T)
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
    return ArraysBackend([], None, array)

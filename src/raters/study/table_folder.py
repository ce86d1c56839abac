"""The folder of a table: answers in Parquet (triplets), images or features beside them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raters.core.arrays import Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io.paths import refuse_special, written_whole
from raters.study.backend import ArraysBackend, Backend
from raters.study.cases import CaseIndex
from raters.study.packed import PackedWriter, open_array, open_packed, with_gaps
from raters.study.study import Study
from raters.study.study_file import CASES_FILE, CaseArrays, StudyFile, Writer, open_canonical
from raters.study.triplets import TableBackend, Triplets

_NAMES = b"raters.names"
_ROW_GROUP = 1 << 26  # one dictionary of names for all rows, unless there are very many
_LARGE = 2**31 - 1


def write_triplets(path: Path, triplets: Triplets) -> None:
    """Write triplets to one Parquet file; `read_triplets` gives them back exactly.

    Any reader of Parquet sees the plain columns task, worker and label. The lists of names, in
    order and with those that have no row, are in the file's metadata.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> triplets = Triplets([1], [0], [0], ["1", "2"], ("ann",), ("cat", "dog"))
        >>> with TemporaryDirectory() as folder:
        ...     write_triplets(Path(folder, "labels.parquet"), triplets)
        ...     read_triplets(Path(folder, "labels.parquet")) == triplets
        True
    """
    column = pa.DictionaryArray.from_arrays
    columns = {
        "task": column(triplets.task, pa.array(triplets.tasks, pa.string())),
        "worker": column(triplets.rater, pa.array(triplets.raters, pa.string())),
        "label": column(triplets.label, _values(triplets.values)),
    }
    names = json.dumps([list(triplets.tasks), triplets.raters, triplets.values]).encode()
    # Compressed: the names of millions of tasks would make a footer too large for some readers.
    packed = base64.b64encode(zlib.compress(names, level=1))
    table = pa.table(columns)
    with (
        written_whole(path, "wb") as file,
        # Without Arrow's own schema every reader sees plain columns, not categories.
        pq.ParquetWriter(
            file, table.schema, store_schema=False, dictionary_pagesize_limit=_LARGE
        ) as writer,
    ):
        writer.write_table(table, row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata({_NAMES: packed})


def read_triplets(path: Path) -> Triplets:
    """Read what `write_triplets` wrote; refuse any other file."""
    refuse_special(path)
    try:
        return _read(path)
    except (OSError, pa.ArrowException, zlib.error, ValueError, KeyError) as error:
        raise RatersError(
            f"cannot be read as labels that raters wrote ({error})", kind="unreadable", file=path
        ) from error


def _read(path: Path) -> Triplets:
    with pq.ParquetFile(path, thrift_string_size_limit=_LARGE) as file:
        metadata = file.metadata
    if _NAMES not in (metadata.metadata or {}):
        raise ValueError("its metadata has no lists of names")
    packed = metadata.metadata[_NAMES]
    tasks, raters, values = json.loads(zlib.decompress(base64.b64decode(packed)))
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=["task", "worker"]) as file:
        table = file.read(["task", "worker", "label"])
    return Triplets(
        _positions(table["task"], tasks).astype(np.int32),
        _positions(table["worker"], raters).astype(np.int32),
        _positions(table["label"], values).astype(np.int16),
        np.array(tasks, dtype=object),
        tuple(raters),
        tuple(values),
    )


def _positions(column: pa.ChunkedArray, names: list[Any]) -> Ints:
    """Find each cell of a column in the list of names.

    Numbers leave Arrow by DLPack: its other ways import pandas, which takes longer than the rest.
    """
    if not len(column):
        return np.zeros(0, np.int64)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    cells = column.unify_dictionaries().combine_chunks()
    if cells.null_count:
        raise ValueError("a column has an empty cell")
    position = {name: k for k, name in enumerate(names)}
    found = np.array([position[name] for name in cells.dictionary.to_pylist()], np.int64)
    return np.asarray(found[np.from_dlpack(cells.indices)])


def _values(values: Sequence[int | str]) -> pa.Array:
    whole = bool(values) and isinstance(values[0], int)
    return pa.array(values, type=pa.int64() if whole else pa.string())


LABELS_FILE = "labels.parquet"


class TableWriter(Writer):
    """Writes images by another writer, features as one array, and all answers at the end."""

    def __init__(self, study: Study, folder: Path, images: Writer) -> None:
        assert isinstance(study.backend, TableBackend)
        super().__init__(study, folder, images.content)
        self.by_case = study.backend.has_inputs
        self._images = images
        self._features = PackedWriter(study, folder, images.content)

    def write(self, position: int, arrays: CaseArrays) -> None:
        """Write the image or the features of one task."""
        if arrays.image is not None and arrays.image.ndim == 1:
            self._features.put_features(position, arrays.image, arrays.id)
        else:
            self._images.write(position, arrays)

    def discard(self, case: str) -> None:
        """Remove the image of a task."""
        self._images.discard(case)

    def close(self) -> None:
        """Close the arrays."""
        self._images.close()
        self._features.close()

    def finish(self, positions: list[int]) -> dict[str, list[str]]:
        """Write the answers; the true labels become a column of `cases.csv`."""
        columns = self._images.finish(positions)
        rows = self._features.finish(positions)
        if (self._folder / "features.npy").exists():  # image files need no row
            columns |= rows
        kept = self._study
        if len(positions) < len(kept):
            kept = kept.select(cases=[kept.index.ids[p] for p in positions])
        # Where arrays keep a row for each case, the answers keep their places too.
        answers = self._study if "row" in columns else kept
        write_triplets(self._folder / LABELS_FILE, answers.triplets)
        truth = kept.reference_labels
        if truth is None:
            return columns
        values = [str(v) for v in kept.classes.values] + [""]
        return columns | {"reference": [values[label] for label in truth]}


def open_table(
    folder: Path,
    content: StudyFile,
    index: CaseIndex,
    rows: NDArray[np.intp],
    truth: list[str] | None,
) -> tuple[TableBackend, list[RatersError]]:
    """Open the answers with what lies beside them.

    `rows` are the places of the cases among all tasks, `truth` is the column of references.
    """
    triplets = _with_class_numbers(read_triplets(folder / LABELS_FILE), content, folder)
    size = len(triplets.tasks)
    fits = len(rows) == 0 or int(rows.max()) < size
    if not fits or list(triplets.tasks[rows]) != list(index.ids):
        message = f"found {size} tasks, expected the {len(index)} cases of cases.csv in order"
        raise RatersError(message, kind="study-file", file=folder / LABELS_FILE)
    inputs, problems = _inputs(folder, content, index, dict(enumerate(triplets.tasks)))
    return TableBackend(triplets, inputs, _truth(folder, content, truth, rows, size)), problems


def _with_class_numbers(triplets: Triplets, content: StudyFile, folder: Path) -> Triplets:
    """Number the labels as `study.yaml` lists the classes."""
    classes = content.label_classes()
    unknown = [v for v in triplets.values if v not in classes.values]
    if unknown or triplets.raters != tuple(content.raters):
        found = f"the label {unknown[0]!r}" if unknown else f"raters {triplets.raters[:5]}"
        message = f"found {found}, expected the classes and raters of study.yaml"
        raise RatersError(message, kind="study-file", file=folder / LABELS_FILE)
    position = {value: k for k, value in enumerate(classes.values)}
    table = np.array([position[v] for v in triplets.values] or [0], np.int16)
    return replace(triplets, label=table[triplets.label], values=classes.values)


def _inputs(
    folder: Path, content: StudyFile, index: CaseIndex, tasks: dict[int, str]
) -> tuple[Backend | None, list[RatersError]]:
    features = open_array(folder / "features.npy", len(tasks))
    if features is not None:
        there = open_array(folder / "has_image.npy", len(tasks))
        return ArraysBackend([], None, with_gaps(features, there), names=tasks), []
    if (folder / "images.npy").exists():
        return open_packed(folder, content, tasks), []
    if (folder / "images").is_dir():
        return open_canonical(folder, content, index)
    return None, []


def _truth(
    folder: Path, content: StudyFile, values: list[str] | None, rows: NDArray[np.intp], size: int
) -> Labels | None:
    if values is None:
        return None
    known = {str(c.value): k for k, c in enumerate(content.classes)} | {"": MISSING}
    unknown = next((v for v in values if v not in known), None)
    if unknown is not None:
        message = f"found the reference {unknown!r}, expected a class of study.yaml"
        raise RatersError(message, kind="unknown-value", file=folder / CASES_FILE)
    truth = np.full(size, MISSING, np.int16)
    truth[rows] = [known[value] for value in values]
    return truth

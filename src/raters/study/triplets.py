"""Class labels by raters as triplets (task, rater, label), and their own Parquet file."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.study.paths import written_whole

MOST_VALUES = 32767
"""Labels are stored as int16."""

_NAMES = b"raters.names"
_ROW_GROUP = 1 << 26  # one dictionary of names for all rows, unless there are very many
_LARGE = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Triplets:
    """Labels in long form: rater `rater[i]` gave task `task[i]` the label `label[i]`.

    A rater may label a task several times. A task, rater or value may have no row at all.

    Attributes:
        task: `(n,)` positions in `tasks`, int32.
        rater: `(n,)` positions in `raters`, int32.
        label: `(n,)` positions in `values`, int16.
        tasks: Names of the tasks, strings, in natural order ("2" before "10").
        raters: Names of the raters, in natural order.
        values: The labels as the file has them, all whole numbers or all strings, sorted.

    Example:
        >>> tasks = np.array(["2", "10"], dtype=object)
        >>> triplets = Triplets([0, 0, 1], [0, 1, 1], [0, 1, 1], tasks, ("ann", "bob"), (0, 7))
        >>> triplets
        Triplets(3 labels, 2 tasks, 2 raters, 2 values)
        >>> triplets.select(raters=[1]).frame()
          task worker  label
        0    2    bob      7
        1   10    bob      7
    """

    task: NDArray[np.int32]
    rater: NDArray[np.int32]
    label: NDArray[np.int16]
    tasks: NDArray[np.object_]
    raters: tuple[str, ...]
    values: tuple[int | str, ...]

    def __post_init__(self) -> None:
        for field, dtype in (("task", np.int32), ("rater", np.int32), ("label", np.int16)):
            object.__setattr__(self, field, np.asarray(getattr(self, field), dtype=dtype))
        object.__setattr__(self, "tasks", np.asarray(self.tasks, dtype=object))
        if not self.task.shape == self.rater.shape == self.label.shape == (len(self),):
            raise ValueError("task, rater and label must be vectors of one length")

    def __len__(self) -> int:
        return self.task.size

    def __repr__(self) -> str:
        return (
            f"Triplets({len(self)} labels, {len(self.tasks)} tasks, "
            f"{len(self.raters)} raters, {len(self.values)} values)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Triplets):
            return NotImplemented
        return (
            self.raters == other.raters
            and self.values == other.values
            and np.array_equal(self.tasks, other.tasks)
            and np.array_equal(self.task, other.task)
            and np.array_equal(self.rater, other.rater)
            and np.array_equal(self.label, other.label)
        )

    def select(
        self,
        *,
        tasks: ArrayLike | None = None,
        raters: ArrayLike | None = None,
        values: ArrayLike | None = None,
    ) -> Triplets:
        """Keep some tasks, raters or values, and the labels that belong to all that is kept.

        Each argument is a boolean mask or positions; positions are a set: their order does not
        matter. Only names of what is selected are dropped: selecting raters leaves all tasks.

        Example:
            >>> triplets = Triplets([0, 1], [0, 1], [0, 0], ["1", "2"], ("ann", "bob"), ("yes",))
            >>> chosen = triplets.select(raters=[True, False])
            >>> chosen.raters, list(chosen.tasks), len(chosen)
            (('ann',), ['1', '2'], 1)
        """
        task = _renumbering(tasks, len(self.tasks))[self.task]
        rater = _renumbering(raters, len(self.raters))[self.rater]
        label = _renumbering(values, len(self.values))[self.label]
        kept = (task >= 0) & (rater >= 0) & (label >= 0)
        return Triplets(
            task[kept],
            rater[kept],
            label[kept].astype(np.int16),
            self.tasks[_mask(tasks, len(self.tasks))],
            tuple(np.array(self.raters, dtype=object)[_mask(raters, len(self.raters))]),
            tuple(np.array(self.values, dtype=object)[_mask(values, len(self.values))]),
        )

    def frame(self) -> pd.DataFrame:
        """Give a data frame with columns task, worker and label, as crowd-kit takes it."""
        return pd.DataFrame(
            {
                "task": self.tasks[self.task],
                "worker": np.array(self.raters, dtype=object)[self.rater],
                "label": np.array(self.values)[self.label] if self.values else [],
            }
        )


def _mask(chosen: ArrayLike | None, size: int) -> NDArray[np.bool_]:
    if chosen is None:
        return np.ones(size, dtype=bool)
    mask = np.zeros(size, dtype=bool)
    positions = np.asarray(chosen)
    mask[positions if positions.size else []] = True
    return mask


def _renumbering(chosen: ArrayLike | None, size: int) -> NDArray[np.int32]:
    """Map old positions to new ones, and those that are not chosen to -1."""
    mask = _mask(chosen, size)
    return np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32)


def write_triplets(path: str | Path, triplets: Triplets) -> None:
    """Write triplets to one Parquet file; `read_triplets` gives them back exactly.

    Any reader of Parquet sees the plain columns task, worker and label. The lists of names, in
    order and with those that have no row, are in the file's metadata.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> triplets = Triplets([1], [0], [0], ["1", "2"], ("ann",), ("cat", "dog"))
        >>> with TemporaryDirectory() as folder:
        ...     write_triplets(f"{folder}/labels.parquet", triplets)
        ...     read_triplets(f"{folder}/labels.parquet") == triplets
        True
    """
    columns = {
        "task": pa.DictionaryArray.from_arrays(triplets.task, _texts(triplets.tasks)),
        "worker": pa.DictionaryArray.from_arrays(triplets.rater, _texts(triplets.raters)),
        "label": pa.DictionaryArray.from_arrays(triplets.label, _values(triplets.values)),
    }
    names = [list(triplets.tasks), triplets.raters, triplets.values]
    table = pa.table(columns)
    with (
        written_whole(Path(path), "wb") as file,
        # Without Arrow's own schema every reader sees plain columns, not categories.
        pq.ParquetWriter(
            file, table.schema, store_schema=False, dictionary_pagesize_limit=_LARGE
        ) as writer,
    ):
        writer.write_table(table, row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata({_NAMES: _pack(names)})


def read_triplets(path: str | Path) -> Triplets:
    """Read what `write_triplets` wrote.

    Raises:
        RatersError: The file is not one that `write_triplets` wrote (kind `"unreadable"`).
    """
    try:
        return _read(Path(path))
    except (OSError, pa.ArrowException, zlib.error, ValueError, KeyError) as error:
        raise RatersError(
            f"cannot be read as labels that raters wrote ({error})", kind="unreadable", file=path
        ) from error


def _read(path: Path) -> Triplets:
    with pq.ParquetFile(path, thrift_string_size_limit=_LARGE) as file:
        metadata = file.metadata
    if _NAMES not in (metadata.metadata or {}):
        raise ValueError("its metadata has no lists of names")
    tasks, raters, values = _unpack(metadata.metadata[_NAMES])
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=["task", "worker"]) as file:
        table = file.read(["task", "worker", "label"])
    return Triplets(
        _positions(table["task"], _texts(tasks)).astype(np.int32),
        _positions(table["worker"], _texts(raters)).astype(np.int32),
        _positions(table["label"], _values(values)).astype(np.int16),
        np.array(tasks, dtype=object),
        tuple(raters),
        tuple(values),
    )


def _positions(column: pa.ChunkedArray, names: pa.Array) -> NDArray[np.int32]:
    """Find each cell of a column in the list of names."""
    if pa.types.is_dictionary(column.type):
        cells = column.unify_dictionaries().combine_chunks()
        found = pc.index_in(cells.dictionary, value_set=names).take(cells.indices)
    else:
        found = pc.index_in(column, value_set=names)
    if found.null_count:
        raise ValueError("a column has a name that is not in the lists of names")
    return np.asarray(found, dtype=np.int32)


def _texts(names: Sequence[str] | NDArray[np.object_]) -> pa.Array:
    return pa.array(names, type=pa.string())


def _values(values: Sequence[int | str]) -> pa.Array:
    whole = bool(values) and isinstance(values[0], int)
    return pa.array(values, type=pa.int64() if whole else pa.string())


def _pack(names: list[Any]) -> bytes:
    """Compress: the names of millions of tasks would make a footer too large for some readers."""
    return base64.b64encode(zlib.compress(json.dumps(names).encode(), level=1))


def _unpack(packed: bytes) -> list[Any]:
    names: list[Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return names

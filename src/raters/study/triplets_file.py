"""The Parquet file of triplets: plain columns, and the lists of names in its metadata."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.paths import written_whole
from raters.study.regular import refuse_special
from raters.study.triplets import Triplets

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
    columns = {
        "task": pa.DictionaryArray.from_arrays(triplets.task, _texts(triplets.tasks)),
        "worker": pa.DictionaryArray.from_arrays(triplets.rater, _texts(triplets.raters)),
        "label": pa.DictionaryArray.from_arrays(triplets.label, _values(triplets.values)),
    }
    names = [list(triplets.tasks), triplets.raters, triplets.values]
    table = pa.table(columns)
    with (
        written_whole(path, "wb") as file,
        # Without Arrow's own schema every reader sees plain columns, not categories.
        pq.ParquetWriter(
            file, table.schema, store_schema=False, dictionary_pagesize_limit=_LARGE
        ) as writer,
    ):
        writer.write_table(table, row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata({_NAMES: _pack(names)})


def read_triplets(path: Path) -> Triplets:
    """Read what `write_triplets` wrote.

    Raises:
        RatersError: The file is not one that `write_triplets` wrote (kind `"unreadable"`).
    """
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
    tasks, raters, values = _unpack(metadata.metadata[_NAMES])
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


def _positions(column: pa.ChunkedArray, names: list[Any]) -> NDArray[np.int64]:
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

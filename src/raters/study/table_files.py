"""Tables in files, text or Parquet: columns of text, read in blocks of rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from raters.errors import RatersError
from raters.study import table_text
from raters.study.regular import refuse_special
from raters.study.table_cells import CellRules

BLOCK_BYTES = 1 << 23
"""How much of a text file is read at once."""

BATCH_CELLS = 1 << 20
"""How many cells of a Parquet file are read at once."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]")


class TableFile(Protocol):
    """A table in a file."""

    @property
    def names(self) -> list[str]:
        """The names of the columns; without header "0", "1", ..."""

    @property
    def header(self) -> bool:
        """Whether the file names its columns."""

    def batches(self, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Return the chosen columns as trimmed strings, a block of rows at a time."""


def open_table(path: Path, wide: bool, header: bool | None, rules: CellRules) -> TableFile:
    """Find out what a file is; `header` and `rules` are as in `read_table`."""
    if path.is_dir():
        raise RatersError("is a folder, expected a table", kind="unreadable")
    refuse_special(path)
    with table_text.open_bytes(path) as stream:
        head = stream.read(table_text.HEAD_BYTES)
    if head.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return _Parquet(path, pq.read_schema(path).names)
    text = table_text.decoded(head)
    separator = table_text.separator(path, text)
    first = table_text.first_row(text, separator)
    if header is None:
        header = not wide or _numbered_by_pandas(first) or not rules.all_numbers(first)
    return _Text(path, separator, first, header)


def _numbered_by_pandas(first: list[str]) -> bool:
    """Know a header of numbers, where pandas left its index without a name."""
    return len(first) > 2 and first == ["", *map(str, range(len(first) - 1))]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever reading a file raises into a `RatersError` that names the file."""
    try:
        yield
    except RatersError as error:
        raise error.at(file=path) from error.__cause__
    except FileNotFoundError as error:
        raise RatersError("no such file", kind="unreadable", file=path) from error
    except (OSError, pa.ArrowException, UnicodeError, csv.Error) as error:
        reason = " ".join(str(error).split())
        raise RatersError(
            f"cannot be read as a table ({reason})", kind="unreadable", file=path
        ) from error


def refuse_no_rows(source: TableFile) -> NoReturn:
    """Report that there is nothing below the header."""
    found = "has a header but no rows" if source.header else "has no rows"
    raise RatersError(f"{found}, expected labels", kind="table")


@dataclass(frozen=True)
class _Parquet:
    path: Path
    names: list[str]
    header: bool = True

    def batches(self, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
        chosen = [self.names[k] for k in columns]
        rows = max(1, BATCH_CELLS // len(chosen))
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=rows, columns=chosen):
                yield [self._text(batch, name) for name in chosen]

    def _text(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        array = batch.column(batch.schema.get_field_index(name))
        try:
            return _trimmed(pc.fill_null(as_text(array), ""))
        except pa.ArrowException as error:
            raise RatersError(
                f"column {name!r} holds {array.type}, expected text or numbers",
                kind="columns",
            ) from error


def _trimmed(texts: pa.Array) -> pa.Array:
    data = texts.buffers()[2]
    if data is None or not (np.frombuffer(data, dtype=np.uint8) <= ord(" ")).any():
        return texts  # looking is much faster than copying
    return pc.ascii_trim_whitespace(texts)


def as_text(array: pa.Array) -> pa.Array:
    """Return a column of any type as texts."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not pa.types.is_floating(array.type):
        return array.cast(pa.string())
    # Whole numbers are floats where a column had gaps: task 1.0 is "1", and 1e7 is no name.
    array = pc.if_else(pc.is_nan(array), None, array.cast(pa.float64()))
    whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), 2.0**53))
    digits = pc.if_else(whole, array, 0.0).cast(pa.int64()).cast(pa.string())
    return pc.if_else(whole, digits, array.cast(pa.string()))


@dataclass(frozen=True)
class _Text:
    path: Path
    separator: str
    first: list[str]
    header: bool

    @property
    def names(self) -> list[str]:
        return self.first if self.header else [str(k) for k in range(len(self.first))]

    def batches(self, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
        # Columns go by number here, so that names may be anything, even repeated.
        numbers = [str(k) for k in range(len(self.first))]
        chosen = [numbers[k] for k in columns]
        try:
            with self._stream() as stream:
                reader = pa_csv.open_csv(
                    stream,
                    pa_csv.ReadOptions(
                        block_size=BLOCK_BYTES,
                        column_names=numbers,
                        skip_rows_after_names=int(self.header),
                    ),
                    pa_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                    pa_csv.ConvertOptions(
                        include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string())
                    ),
                )
                for batch in reader:
                    yield [_trimmed(column) for column in batch.columns]
        except pa.ArrowException:
            self._refuse_faulty_row()
            raise

    @contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        with table_text.open_bytes(self.path) as stream:
            blanks = self.separator == " "
            yield io.BufferedReader(table_text.SingleBlanks(stream)) if blanks else stream

    def _refuse_faulty_row(self) -> None:
        """Look for the row that pyarrow stumbled over, as it gives no line number."""
        with self._stream() as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            rows = csv.reader(text, delimiter=self.separator)
            seen = 0
            for row in rows:
                seen += bool(row)
                if _NOT_UTF8.search("".join(row)):
                    table_text.refuse_encoding(rows.line_num)
                if row and len(row) != len(self.first):
                    raise RatersError(
                        f"found {len(row)} cells in line {rows.line_num}, "
                        f"expected {len(self.first)} as in the first line",
                        kind="table",
                    )
        if seen <= self.header:  # pyarrow stumbles over a header without a line end
            refuse_no_rows(self)

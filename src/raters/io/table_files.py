"""Tables in files, text or Parquet: which columns to read, what cells may hold; in blocks."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import IO, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from raters.core.errors import RatersError
from raters.core.wording import first_repeated, listing
from raters.io import table_text
from raters.io.paths import refuse_special

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_NO_LABEL = {"", "nan"}

Missing = str | float | Sequence[str | float] | None
"""A value that means 'no label', several of them, or none."""


@dataclass(frozen=True)
class CellRules:
    """Tells labels from cells without one: those that are empty, NaN or among `missing`.

    Example:
        >>> rules = CellRules(missing=-1)
        >>> [rules.is_missing(text) for text in ("", "NaN", "-1.0", "1", "no")]
        [True, True, True, False, False]
    """

    missing: Missing = None

    def is_missing(self, text: str) -> bool:
        """Return whether a cell holds no label."""
        if text.lower() in _NO_LABEL:
            return True
        texts, numbers = self._named
        return text in texts or (bool(numbers) and number(text) in numbers)

    @cached_property
    def _named(self) -> tuple[set[str], set[Decimal]]:
        """The missing values as texts, and those of them that are numbers."""
        one = self.missing is None or isinstance(self.missing, str | float | int)
        given = [self.missing] if one else list(self.missing)  # type: ignore[arg-type]
        texts = {str(value).strip() for value in given if value is not None}
        numbers = [number(text) for text in texts]
        return texts, {value for value in numbers if value is not None}


def number(text: str) -> Decimal | None:
    """Read a number; those that int64 cannot hold are left as texts.

    Example:
        >>> number("1e1"), number("cat"), number("99999999999999999999")
        (Decimal('1E+1'), None, None)
    """
    value = Decimal(text) if _NUMBER.fullmatch(text) else None
    return value if value is None or abs(value) < 2**63 else None


_PANDAS_INDEX = ("", "__index_level_0__")


def position(source: TableFile, name: str) -> int:
    """Find a column by its name."""
    found = [k for k, other in enumerate(source.names) if other == name]
    if len(found) == 1:
        return found[0]
    if found:
        _refuse_repeated_column(source, name)
    raise RatersError(
        f"has no column {name!r}; found {listing(source.names, 6, repr)}. "
        "Columns of labels are set by --task NAME --worker NAME --label NAME "
        "(a table with one column per rater needs --wide); "
        "a manifest of mask files needs the columns case, rater, mask",
        kind="columns",
    )


def identity_column(source: TableFile, task: str) -> int | None:
    """Find the column that names the tasks of a wide table, if it has one."""
    if source.header and task not in source.names:
        for index in _PANDAS_INDEX:
            if source.names.count(index) == 1:
                return source.names.index(index)
    # The default name is no demand: a table need not name its tasks.
    if task == "task" and (not source.header or task not in source.names):
        return None
    return position(source, task)


def refuse_bad_raters(source: TableFile, raters: list[str]) -> None:
    """Reject columns of a wide table that do not name different raters."""
    if not raters:
        raise RatersError("has no column of a rater", kind="columns")
    if "" in raters:
        column = source.names.index("") + 1
        raise RatersError(
            f"column {column} has no name, expected the name of a rater "
            "(if the first row is data, say that there is no header)",
            kind="columns",
        )
    repeated = first_repeated(raters)
    if repeated is not None:
        _refuse_repeated_column(source, repeated)


def refuse_bad_ids(source: TableFile, task: str, ids: list[str]) -> None:
    """Reject rows of a wide table that do not name different tasks."""
    if "" in ids:
        refuse_empty_name(source, task, ids.index("") + 1)
    repeated = first_repeated(ids)
    if repeated is not None:
        first = ids.index(repeated)
        again = ids.index(repeated, first + 1)
        raise RatersError(
            f"found task {repeated!r} in rows {first + 1} and {again + 1}, "
            "expected one row per task in a wide table",
            kind="table",
        )


def _refuse_repeated_column(source: TableFile, name: str) -> NoReturn:
    raise RatersError(
        f"found {source.names.count(name)} columns named {name!r}, expected one", kind="columns"
    )


def refuse_empty_name(source: TableFile, column: str, row: int) -> NoReturn:
    """Report that a task or a rater has no name; rows count from 1."""
    counted = " (the header not counted)" if source.header else ""
    raise RatersError(
        f"found nothing in column {column!r} of row {row}{counted}, expected a name", kind="value"
    )


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
    if path.suffix.lower() == ".xlsx":
        return sheet(path, wide, header, rules)
    with table_text.open_bytes(path) as stream:
        head = stream.read(table_text.HEAD_BYTES)
    if head.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return _Parquet(path, pq.read_schema(path).names)
    text = table_text.decoded(head)
    separator = table_text.separator(path, text)
    first = table_text.first_row(text, separator)
    if header is None:
        header = _has_header(first, wide, rules)
    return _Text(path, separator, first, header)


def _has_header(first: Sequence[str], wide: bool, rules: CellRules) -> bool:
    """Return whether the first row of a table names its columns."""
    # A header of numbers, where pandas left its index without a name.
    numbered = len(first) > 2 and first == ["", *map(str, range(len(first) - 1))]
    data = all(rules.is_missing(cell) or number(cell) is not None for cell in first)
    return not wide or numbered or not data


def sheet(path: Path, wide: bool, header: bool | None, rules: CellRules) -> TableFile:
    """Read the first sheet of an Excel file."""
    try:
        import openpyxl
    except ImportError as error:
        message = (
            "found an Excel file, expected the extra that reads it (pip install 'raters[excel]'), "
            "or the sheet saved as CSV (UTF-8)"
        )
        raise RatersError(message, kind="missing-package", file=path) from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise RatersError(f"is no Excel file ({error})", kind="unreadable") from error
    try:
        rows = [_cells(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    finally:
        book.close()
    rows = [row for row in rows if any(row)]
    if not rows:
        raise RatersError("is empty, expected a table with a row per label or task", kind="table")
    if header is None:
        header = _has_header(rows[0], wide, rules)
    return _Sheet(path, tuple(rows), header)


def _cells(row: Sequence[object]) -> list[str]:
    """Return the cells of a row as texts; whole numbers have no fraction."""
    texts = []
    for value in row:
        whole = isinstance(value, float) and value.is_integer()
        texts.append("" if value is None else str(int(value) if whole else value).strip())  # type: ignore[call-overload]
    return texts


@dataclass(frozen=True)
class _Sheet:
    path: Path
    rows: tuple[list[str], ...]
    header: bool

    @property
    def names(self) -> list[str]:
        return self.rows[0] if self.header else [str(k) for k in range(len(self.rows[0]))]

    def batches(self, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
        rows = self.rows[int(self.header) :]
        yield [pa.array([row[k] for row in rows], pa.string()) for k in columns]


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
                f"column {name!r} holds {array.type}, expected text or numbers", kind="columns"
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

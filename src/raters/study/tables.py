"""Reading tables of class labels (CSV, TSV, whitespace, Parquet; long or wide) as triplets.

Files are read in blocks, and names are replaced by numbers block by block: memory follows the
number of labels and of distinct names, not the size of the file.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.names import natural_order
from raters.study.triplets import MOST_VALUES, Triplets

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 23
"""How much of a text file is read at once."""

BATCH_CELLS = 1 << 20
"""How many cells of a Parquet file are read at once."""

_HEAD_BYTES = 1 << 22
_SNIFFED_CHARACTERS = 1 << 16
_SHOWN = 20
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_NO_LABEL = {"", "nan"}
_PANDAS_INDEX = ("", "__index_level_0__")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


def read_table(
    path: str | Path,
    *,
    task: str = "task",
    worker: str = "worker",
    label: str = "label",
    wide: bool = False,
    missing: str | float | None = None,
    header: bool | None = None,
) -> Triplets:
    r"""Read a table of class labels.

    In long form each row is one label; other columns are ignored and rows that repeat a task and
    worker are kept. In wide form each row is a task and each column a rater; a column named as
    `task` says (or pandas' unnamed index) names the tasks, otherwise they are numbered from 0.

    Separators are found out: tab for `.tsv`; comma, semicolon or tab for `.csv`; these or blanks
    for other suffixes. Text is UTF-8. Compressed text (`.csv.gz`) is read as it is. Blanks around
    names and labels do not count. Labels are whole numbers if all of them are ("1.0" is 1), and
    otherwise strings. A cell that is empty or NaN or equal to `missing` is not a label, but its
    task and rater are kept.

    Args:
        path: The file.
        task: The column of tasks.
        worker: The column of raters, in long form.
        label: The column of labels, in long form.
        wide: Whether each column is a rater.
        missing: A value that means 'no label'; "-1", -1 and -1.0 are the same.
        header: Whether the first row holds the names of the columns. By default it does in long
            form; in wide form it does unless all of its cells are numbers or missing (an unnamed
            first column followed by 0, 1, 2, ... is a header that pandas wrote). Without header
            columns are named "0", "1", ...

    Raises:
        RatersError: The file cannot be read (kind `"unreadable"`), is no sound table (`"table"`),
            lacks a column (`"columns"`) or has labels that are no classes (`"value"`).

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "labels.csv")
        ...     _ = file.write_text("task,worker,label\n10,ann,cat\n2,bob,dog\n2,ann,\n")
        ...     read_table(file).frame()
          task worker label
        0   10    ann   cat
        1    2    bob   dog
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "labels.txt")
        ...     _ = file.write_text("1 -1 0\n1 1 -1\n")
        ...     read_table(file, wide=True, missing=-1)
        Triplets(4 labels, 2 tasks, 3 raters, 2 values)
    """
    path = Path(path)
    rules = _Rules(path, missing)
    with _arrow_errors(path):
        source = _open(path, wide, header, rules)
        if wide:
            return _read_wide(source, task, rules)
        return _read_long(source, (task, worker, label), rules)


# What a file offers: named columns, read as text in batches.


class _Source(Protocol):
    """A table in a file."""

    @property
    def path(self) -> Path: ...

    @property
    def names(self) -> list[str]:
        """The names of the columns; without header "0", "1", ..."""

    @property
    def header(self) -> bool: ...

    def batches(self, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Give the chosen columns as strings, a batch of rows at a time."""


def _open(path: Path, wide: bool, header: bool | None, rules: _Rules) -> _Source:
    if path.is_dir():
        raise RatersError("is a folder, expected a table", kind="unreadable", file=path)
    with _stream(path) as stream:
        head = stream.read(_HEAD_BYTES)
    if head.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return _Parquet(path, pq.read_schema(path).names)
    text = _decoded(path, head)
    separator = _separator(path, text)
    first = _first_row(path, text, separator)
    if header is None:
        header = not (wide and _looks_like_data(first, rules))
    return _Text(path, separator, first, header)


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
            return pc.ascii_trim_whitespace(pc.fill_null(_as_text(array), ""))
        except pa.ArrowException as error:
            raise RatersError(
                f"column {name!r} holds {array.type}, expected text or numbers",
                kind="columns",
                file=self.path,
            ) from error


def _as_text(array: pa.Array) -> pa.Array:
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
                    yield [pc.ascii_trim_whitespace(column) for column in batch.columns]
        except pa.ArrowException:
            self._refuse_faulty_row()
            raise

    @contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        with _stream(self.path) as stream:
            yield io.BufferedReader(_SingleBlanks(stream)) if self.separator == " " else stream

    def _refuse_faulty_row(self) -> None:
        """Look for the row that pyarrow stumbled over, as it gives no line number."""
        with self._stream() as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            rows = csv.reader(text, delimiter=self.separator)
            seen = 0
            for row in rows:
                seen += bool(row)
                if _NOT_UTF8.search("".join(row)):
                    _refuse_encoding(self.path, f"bytes that are not UTF-8 in line {rows.line_num}")
                if row and len(row) != len(self.first):
                    raise RatersError(
                        f"found {len(row)} cells in line {rows.line_num}, "
                        f"expected {len(self.first)} as in the first line",
                        kind="table",
                        file=self.path,
                    )
        if seen <= self.header:  # pyarrow stumbles over a header without a line end
            _refuse_no_rows(self)


# Text files: decompression, encoding, separator, header.


def _stream(path: Path) -> pa.NativeFile:
    return pa.input_stream(path, compression="detect")


class _SingleBlanks(io.RawIOBase):
    """A stream in which runs of blanks and tabs are one blank, and none is at a line's ends."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._unfinished = b""
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._ready:
            block = self._raw.read(BLOCK_BYTES)
            data = self._unfinished + block
            if not data:
                return 0
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 if block else len(data)
            self._ready, self._unfinished = _single_blanks(data[:end]), data[end:]
            if not block:
                break
        view = memoryview(buffer)
        size = min(len(view), len(self._ready))
        view[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


def _single_blanks(lines: bytes) -> bytes:
    if b'"' in lines:
        lines = re.sub(rb'("[^"]*")|[ \t]+', lambda match: match[1] or b" ", lines)
    else:
        lines = re.sub(rb"[ \t]+", b" ", lines)
    return re.sub(rb"(^|[\r\n]) ", rb"\1", re.sub(rb" (?=[\r\n]|\Z)", b"", lines))


def _decoded(path: Path, head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        _refuse_encoding(path, "text in UTF-16")
    if b"\0" in head:
        raise RatersError(
            "is not a text file; expected CSV, TSV, whitespace-separated text or Parquet",
            kind="unreadable",
            file=path,
        )
    try:
        # The last character may be cut in two, which an incremental decoder does not mind.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", head[: error.start])) + 1
        _refuse_encoding(path, f"bytes that are not UTF-8 in line {line}")
    if not text.strip():
        raise RatersError(
            "is empty, expected a table with a row a label (or a task)", kind="table", file=path
        )
    return text


def _refuse_encoding(path: Path, found: str) -> NoReturn:
    raise RatersError(
        f'found {found}, expected UTF-8 (save it again as "CSV UTF-8")',
        kind="unreadable",
        file=path,
    )


def _separator(path: Path, text: str) -> str:
    """Tell the separator from the suffix and the first lines; a blank means any whitespace."""
    suffix = _suffix(path)
    if suffix == ".tsv":
        return "\t"
    unquoted = re.sub(r'"[^"]*"', "", text[:_SNIFFED_CHARACTERS])
    lines = [line for line in re.split(r"[\r\n]+", unquoted)[:_SHOWN] if line.strip()]
    # The last line may be cut.
    lines = lines[:-1] if len(text) > _SNIFFED_CHARACTERS and len(lines) > 1 else lines

    def regular(separator: str) -> bool:
        counts = {line.count(separator) for line in lines}
        return len(counts) == 1 and counts != {0}

    best = max(",;\t", key=lambda separator: (regular(separator), lines[0].count(separator)))
    if suffix == ".csv" or regular(best) or not re.search(r"\S[ \t]+\S", lines[0]):
        return best
    return " "


def _suffix(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2", ".zst") else path
    return plain.suffix.lower()


def _first_row(path: Path, text: str, separator: str) -> list[str]:
    if separator == " ":
        text = _single_blanks(text.encode()).decode()
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return [cell.strip() for cell in next(row for row in rows if row)]
    except csv.Error as error:
        raise RatersError(
            f"its first line cannot be read ({error})", kind="unreadable", file=path
        ) from error


def _looks_like_data(first: list[str], rules: _Rules) -> bool:
    if len(first) > 2 and first == ["", *map(str, range(len(first) - 1))]:
        return False  # pandas numbered the columns and left its index without a name
    return all(rules.is_missing(cell) or _number(cell) is not None for cell in first)


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """Turn whatever reading a file raises into an error that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise RatersError("no such file", kind="unreadable", file=path) from error
    except (OSError, pa.ArrowException, UnicodeError, csv.Error) as error:
        reason = " ".join(str(error).split())
        raise RatersError(
            f"cannot be read as a table ({reason})", kind="unreadable", file=path
        ) from error


# From columns of text to triplets.


class _Names:
    """Numbers for texts, given batch by batch; what is held follows the distinct texts."""

    def __init__(self) -> None:
        self._chunks: list[pa.DictionaryArray] = []
        self._held = 0
        self._most = BATCH_CELLS

    def add(self, texts: pa.Array) -> None:
        chunk = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        self._chunks.append(chunk)
        self._held += len(chunk.dictionary)
        if self._held > self._most:
            self._merge()

    def _merge(self) -> pa.DictionaryArray:
        """Give all chunks one list of names; the next time is when four times as many are held."""
        merged = pa.chunked_array(self._chunks).unify_dictionaries().combine_chunks()
        self._chunks = [merged]
        self._held = len(merged.dictionary)
        self._most = 4 * self._held + BATCH_CELLS
        return merged

    def finish(self) -> _Column:
        """Give the numbers and the texts they stand for, and let go of them."""
        if not self._chunks:
            return _Column(np.empty(0, dtype=np.int32), [])
        merged = self._merge()
        self._chunks = []
        return _Column(merged.indices.to_numpy(), merged.dictionary.to_pylist())


@dataclass(frozen=True)
class _Column:
    """Cells as positions in a list of names."""

    cells: NDArray[np.int32]
    names: list[str]

    def sorted(self) -> _Column:
        """Put the names in natural order."""
        order = natural_order(self.names)
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        return _Column(ranks[self.cells], [self.names[k] for k in order])


def _read_long(source: _Source, columns: tuple[str, str, str], rules: _Rules) -> Triplets:
    chosen = [_position(source, name) for name in columns]
    if len(set(chosen)) < len(chosen):
        raise RatersError(
            f"task, worker and label are given as {', '.join(columns)}, expected three columns",
            kind="columns",
            file=source.path,
        )
    names = _Names(), _Names(), _Names()
    for batch in source.batches(chosen):
        for seen, column in zip(names, batch, strict=True):
            seen.add(column)
    task = _named_column(source, columns[0], names[0])
    rater = _named_column(source, columns[1], names[1])
    return _triplets(task, rater, names[2].finish(), rules)


def _named_column(source: _Source, name: str, names: _Names) -> _Column:
    column = names.finish()
    if not column.cells.size:
        _refuse_no_rows(source)
    if "" in column.names:
        row = int(np.argmax(column.cells == column.names.index(""))) + 1
        _refuse_empty_name(source, name, row)
    return column.sorted()


def _read_wide(source: _Source, task: str, rules: _Rules) -> Triplets:
    identity = _identity_column(source, task)
    columns = [k for k in range(len(source.names)) if k != identity]
    raters = [source.names[k] for k in columns]
    _refuse_bad_raters(source, raters)
    ids: list[str] = []
    found: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
    labels = _Names()
    for batch in source.batches(columns if identity is None else [identity, *columns]):
        names = range(len(ids), len(ids) + len(batch[0])) if identity is None else batch[0]
        rows, cells, texts = _labelled(batch[-len(columns) :], rules)
        found.append((rows + np.int32(len(ids)), cells))
        ids.extend(map(str, names))
        labels.add(texts)
    if not ids:
        _refuse_no_rows(source)
    _refuse_bad_ids(source, task, ids)
    rows, cells = (np.concatenate(part) for part in zip(*found, strict=True))
    return _triplets(
        _Column(rows, ids).sorted(), _Column(cells, raters).sorted(), labels.finish(), rules
    )


def _labelled(
    columns: list[pa.Array], rules: _Rules
) -> tuple[NDArray[np.int32], NDArray[np.int32], pa.Array]:
    """Give the rows, columns and texts of those cells that hold a label, row by row."""
    texts = pa.concat_arrays(columns).dictionary_encode()
    empty = np.array([rules.is_missing(text) for text in texts.dictionary.to_pylist()], dtype=bool)
    numbers = texts.indices.to_numpy().reshape(len(columns), -1).T
    held = ~empty[numbers]
    rows, cells = (axis.astype(np.int32) for axis in np.nonzero(held))
    return rows, cells, pa.DictionaryArray.from_arrays(numbers[held], texts.dictionary)


def _triplets(task: _Column, rater: _Column, label: _Column, rules: _Rules) -> Triplets:
    values, renumbered = _label_values(task, rater, label, rules)
    labels = renumbered[label.cells]
    held = labels >= 0
    if not held.any():
        raise RatersError(
            "has no label: all cells are empty or hold the missing value",
            kind="table",
            file=rules.path,
        )
    kept = slice(None) if held.all() else held
    return Triplets(
        task.cells[kept],
        rater.cells[kept],
        labels[kept],
        np.array(task.names, dtype=object),
        tuple(rater.names),
        values,
    )


# Labels: what counts as missing, as a number, as a class.


@dataclass(frozen=True)
class _Rules:
    """What a cell may hold, and the file to name if it does not."""

    path: Path
    missing: str | float | None

    def is_missing(self, text: str) -> bool:
        if text.lower() in _NO_LABEL:
            return True
        if self.missing is None:
            return False
        missing = str(self.missing).strip()
        number = _number(text)
        return text == missing or (number is not None and number == _number(missing))


def _number(text: str) -> Decimal | None:
    """Read a number; those that int64 cannot hold are left as texts."""
    number = Decimal(text) if _NUMBER.fullmatch(text) else None
    return number if number is None or abs(number) < 2**63 else None


def _label_values(
    task: _Column, rater: _Column, label: _Column, rules: _Rules
) -> tuple[tuple[int | str, ...], NDArray[np.int16]]:
    """Sort the distinct labels, and map positions in `label.names` to them (missing: -1)."""
    if len(label.names) > MOST_VALUES:
        raise RatersError(
            f"found {len(label.names)} different labels such as {label.names[0]!r}, "
            f"expected at most {MOST_VALUES}: the label column looks like something else",
            kind="value",
            file=rules.path,
        )
    texts = {k: text for k, text in enumerate(label.names) if not rules.is_missing(text)}
    numbers = {k: number for k, text in texts.items() if (number := _number(text)) is not None}
    renumbered = np.full(len(label.names), -1, dtype=np.int16)
    if len(numbers) < len(texts):
        positions = list(texts)
        order = [positions[k] for k in natural_order(list(texts.values()))]
        renumbered[order] = np.arange(len(order))
        return tuple(texts[k] for k in order), renumbered
    for k, number in numbers.items():
        if number != number.to_integral_value():
            _refuse_fraction(k, task, rater, label, rules)
    values = tuple(sorted({int(number) for number in numbers.values()}))
    ranks = {value: rank for rank, value in enumerate(values)}
    for k, number in numbers.items():
        renumbered[k] = ranks[int(number)]
    return values, renumbered


# Which columns to read, and what is wrong with them.


def _position(source: _Source, name: str) -> int:
    found = [k for k, other in enumerate(source.names) if other == name]
    if len(found) == 1:
        return found[0]
    if found:
        _refuse_repeated_column(source, name)
    columns = ", ".join(map(repr, source.names[:_SHOWN]))
    more = ", ..." if len(source.names) > _SHOWN else ""
    raise RatersError(
        f"has no column {name!r}; found {columns}{more}. "
        "Columns of labels are set by --task NAME --worker NAME --label NAME "
        "(wide tables have a column a rater instead); "
        "a manifest of mask files needs the columns case, rater, mask",
        kind="columns",
        file=source.path,
    )


def _identity_column(source: _Source, task: str) -> int | None:
    """Find the column that names the tasks of a wide table, if it has one."""
    if source.header and task not in source.names:
        for index in _PANDAS_INDEX:
            if source.names.count(index) == 1:
                return source.names.index(index)
    # The default name is no demand: a table need not name its tasks.
    if task == "task" and (not source.header or task not in source.names):
        return None
    return _position(source, task)


def _refuse_bad_raters(source: _Source, raters: list[str]) -> None:
    if not raters:
        raise RatersError("has no column of a rater", kind="columns", file=source.path)
    if "" in raters:
        column = source.names.index("") + 1
        raise RatersError(
            f"column {column} has no name, expected the name of a rater "
            "(if the first row is data, say that there is no header)",
            kind="columns",
            file=source.path,
        )
    repeated = _first_repeated(raters)
    if repeated is not None:
        _refuse_repeated_column(source, repeated)


def _refuse_bad_ids(source: _Source, task: str, ids: list[str]) -> None:
    if "" in ids:
        _refuse_empty_name(source, task, ids.index("") + 1)
    repeated = _first_repeated(ids)
    if repeated is not None:
        first = ids.index(repeated)
        again = ids.index(repeated, first + 1)
        raise RatersError(
            f"found task {repeated!r} in rows {first + 1} and {again + 1}, "
            "expected one row a task in a wide table",
            kind="table",
            file=source.path,
        )


def _first_repeated(names: list[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _refuse_repeated_column(source: _Source, name: str) -> NoReturn:
    raise RatersError(
        f"found {source.names.count(name)} columns named {name!r}, expected one",
        kind="columns",
        file=source.path,
    )


def _refuse_no_rows(source: _Source) -> NoReturn:
    found = "has a header but no rows" if source.header else "has no rows"
    raise RatersError(f"{found}, expected labels", kind="table", file=source.path)


def _refuse_empty_name(source: _Source, column: str, row: int) -> NoReturn:
    counted = " (the header not counted)" if source.header else ""
    raise RatersError(
        f"found nothing in column {column!r} of row {row}{counted}, expected a name",
        kind="value",
        file=source.path,
    )


def _refuse_fraction(
    name: int, task: _Column, rater: _Column, label: _Column, rules: _Rules
) -> NoReturn:
    at = int(np.argmax(label.cells == name))
    where, who = task.names[task.cells[at]], rater.names[rater.cells[at]]
    raise RatersError(
        f"found label {label.names[name]} by rater {who!r} for task {where!r}, "
        "expected classes: whole numbers or names",
        kind="value",
        file=rules.path,
        case=where,
        rater=who,
    )

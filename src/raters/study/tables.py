"""Reading tables of class labels (CSV, TSV, whitespace, Parquet; long or wide) as triplets.

Files are read in blocks, and names are replaced by numbers: memory follows the number of labels
and of distinct names, not the size of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raters.core.arrays import Ints, Labels
from raters.core.errors import RatersError
from raters.io import table_files
from raters.io.table_files import CellRules, Missing, TableFile
from raters.study.pattern import natural_order
from raters.study.triplets import MOST_VALUES, Triplets

WAITING_BYTES = 1 << 26
"""How many bytes of names wait for their numbers, at least."""

_SAMPLE = 1 << 14
_MOST_DIGITS = 18  # that int64 surely holds


@dataclass(frozen=True)
class Column:
    """Cells as positions in a list of different names."""

    cells: NDArray[np.int32]
    names: list[str]

    def sorted(self) -> Column:
        """Put the names in natural order.

        Example:
            >>> Column(np.array([0, 1, 0], dtype=np.int32), ["x10", "x9"]).sorted()
            Column(cells=array([1, 0, 1], dtype=int32), names=['x9', 'x10'])
        """
        order = self._order()
        if order is None:
            return self
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        return Column(ranks[self.cells], [self.names[k] for k in order])

    def _order(self) -> NDArray[np.intp] | None:
        """Find the natural order; None is the order as it is."""
        numbered = _prefix_and_numbers(pa.chunked_array([self.names], pa.string()), exact=False)
        if numbered is None:
            return natural_order(self.names)
        if (np.diff(numbered[1]) > 0).all():
            return None
        order = np.argsort(numbered[1])
        # "7" and "07" are told apart by how they are written.
        return order if (np.diff(numbered[1][order]) > 0).all() else natural_order(self.names)


class Names:
    """Collects the cells of a column, block by block.

    Texts wait until there are many; memory follows the cells and the different names.

    Example:
        >>> names = Names()
        >>> names.add(pa.array(["ann", "bob"]))
        >>> names.add(pa.array(["bob"]))
        >>> names.finish()
        Column(cells=array([0, 1, 1], dtype=int32), names=['ann', 'bob'])
    """

    def __init__(self) -> None:
        self._cells = np.empty(0, dtype=np.int32)
        self._names = pa.array([], pa.string())
        self._waiting: list[pa.Array] = []
        self._waiting_bytes = 0

    def add(self, texts: pa.Array) -> None:
        """Take the next block of cells."""
        self._waiting.append(texts)
        self._waiting_bytes += texts.nbytes if len(texts) else 0
        # Renumbering all cells now and then takes as long as the cells are many.
        if self._waiting_bytes > max(WAITING_BYTES, self._cells.nbytes):
            self._number()

    def _number(self) -> None:
        """Number the texts that wait, and renumber the cells that have numbers."""
        if not self._waiting_bytes:
            return
        cells, names = _numbered(pa.chunked_array([*self._waiting, self._names], pa.string()))
        new = cells.size - len(self._names)
        self._cells = np.concatenate([cells[new:][self._cells], cells[:new]])
        self._names = names
        self._waiting = []
        self._waiting_bytes = 0

    def finish(self) -> Column:
        """Return all cells and their names, in no special order."""
        self._number()
        return Column(self._cells, self._names.to_pylist())


def _numbered(texts: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    """Return each text its position in an array of the different ones, and that array."""
    sample = texts[:_SAMPLE]
    few = 2 * int(pc.count_distinct(sample).as_py()) <= len(sample)  # a look-up is fastest then
    numbered = None if few else _prefix_and_numbers(texts)
    if numbered is None:
        return _encoded(texts)
    prefix, numbers = numbered
    if numbers.max() < 4 * numbers.size:
        cells, values = _ranks(numbers)
    else:
        cells, values = _encoded(pa.chunked_array([numbers]))
    return cells, pc.binary_join_element_wise(prefix, values.cast(pa.string()), "")


def _encoded(values: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    chunks = values.dictionary_encode().chunks
    return np.concatenate([chunk.indices.to_numpy() for chunk in chunks]), chunks[-1].dictionary


def _ranks(numbers: Ints) -> tuple[NDArray[np.int32], pa.Array]:
    """Number the different numbers in their order, by a table of all up to the largest."""
    seen = np.zeros(numbers.max() + 1, dtype=bool)
    seen[numbers] = True
    ranks = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return ranks[numbers], pa.array(np.flatnonzero(seen))


def _prefix_and_numbers(texts: pa.ChunkedArray, exact: bool = True) -> tuple[str, Ints] | None:
    """Read names such as "task-12": counting is several times as fast as looking up texts.

    If `exact`, names that a number would not give back ("task-012") are left alone.
    """
    if not len(texts):
        return None
    prefix = texts[0].as_py().rstrip("0123456789")
    if prefix and not pc.all(pc.starts_with(texts, prefix)).as_py():
        return None
    digits = pc.utf8_slice_codeunits(texts, len(prefix)) if prefix else texts
    lengths = pc.binary_length(digits)
    longest = pc.max(lengths).as_py()
    if longest > _MOST_DIGITS or not pc.all(pc.ascii_is_decimal(digits)).as_py():
        return None
    numbers = digits.cast(pa.int64()).to_numpy()
    if not exact:
        return prefix, numbers
    needed = numbers.size + sum(np.count_nonzero(numbers >= 10**k) for k in range(1, longest))
    return (prefix, numbers) if needed == pc.sum(lengths).as_py() else None


def read_table(
    path: str | Path,
    *,
    task: str = "task",
    worker: str = "worker",
    label: str = "label",
    wide: bool = False,
    missing: Missing = None,
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
        missing: A value that means 'no label', or several; "-1", -1 and -1.0 are the same.
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
    rules = CellRules(missing)
    with table_files.reading(path):
        source = table_files.open_table(path, wide, header, rules)
        return triplets_of(source, wide, (task, worker, label), rules)


def triplets_of(
    source: TableFile, wide: bool, columns: tuple[str, str, str], rules: CellRules
) -> Triplets:
    """Read a table that is open; `columns` are those of task, worker and label."""
    return _read_wide(source, columns[0], rules) if wide else _read_long(source, columns, rules)


def _read_long(source: TableFile, columns: tuple[str, str, str], rules: CellRules) -> Triplets:
    chosen = [table_files.position(source, name) for name in columns]
    if len(set(chosen)) < len(chosen):
        raise RatersError(
            f"task, worker and label are given as {', '.join(columns)}, expected three columns",
            kind="columns",
        )
    names = Names(), Names(), Names()
    for batch in source.batches(chosen):
        for seen, column in zip(names, batch, strict=True):
            seen.add(column)
    task = _named_column(source, columns[0], names[0])
    rater = _named_column(source, columns[1], names[1])
    return _triplets(task, rater, names[2].finish(), rules)


def _named_column(source: TableFile, name: str, names: Names) -> Column:
    column = names.finish()
    if not column.cells.size:
        table_files.refuse_no_rows(source)
    if "" in column.names:
        row = int(np.argmax(column.cells == column.names.index(""))) + 1
        table_files.refuse_empty_name(source, name, row)
    return column.sorted()


def _read_wide(source: TableFile, task: str, rules: CellRules) -> Triplets:
    identity = table_files.identity_column(source, task)
    columns = [k for k in range(len(source.names)) if k != identity]
    raters = [source.names[k] for k in columns]
    table_files.refuse_bad_raters(source, raters)
    ids: list[str] = []
    found: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
    labels = Names()
    for batch in source.batches(columns if identity is None else [identity, *columns]):
        rows, cells, texts = _labelled(batch[-len(columns) :], rules)
        found.append((rows + np.int32(len(ids)), cells))
        numbers = range(len(ids), len(ids) + len(batch[0]))
        ids.extend(map(str, numbers) if identity is None else batch[0].to_pylist())
        labels.add(texts)
    if not ids:
        table_files.refuse_no_rows(source)
    table_files.refuse_bad_ids(source, task, ids)
    rows, cells = (np.concatenate(part) for part in zip(*found, strict=True))
    return _triplets(
        Column(rows, ids).sorted(), Column(cells, raters).sorted(), labels.finish(), rules
    )


def _labelled(
    columns: list[pa.Array], rules: CellRules
) -> tuple[NDArray[np.int32], NDArray[np.int32], pa.Array]:
    """Return the rows, columns and texts of those cells that hold a label, row by row."""
    texts = pa.concat_arrays(columns).dictionary_encode()
    empty = np.array([rules.is_missing(text) for text in texts.dictionary.to_pylist()], dtype=bool)
    numbers = texts.indices.to_numpy().reshape(len(columns), -1).T
    held = ~empty[numbers]
    rows, cells = (axis.astype(np.int32) for axis in np.nonzero(held))
    return rows, cells, texts.dictionary.take(pa.array(numbers[held]))


def _triplets(task: Column, rater: Column, label: Column, rules: CellRules) -> Triplets:
    values, renumbered = _label_values(task, rater, label, rules)
    labels = renumbered[label.cells]
    held = labels >= 0
    if not held.any():
        raise RatersError(
            "has no label: all cells are empty or hold the missing value", kind="table"
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


def _label_values(
    task: Column, rater: Column, label: Column, rules: CellRules
) -> tuple[tuple[int | str, ...], Labels]:
    """Sort the distinct labels, and map positions in `label.names` to them (missing: -1)."""
    if len(label.names) > MOST_VALUES:
        raise RatersError(
            f"found {len(label.names)} different labels such as {label.names[0]!r}, "
            f"expected at most {MOST_VALUES}: the label column looks like something else",
            kind="value",
        )
    texts = {k: text for k, text in enumerate(label.names) if not rules.is_missing(text)}
    numbers = {}
    for position, text in texts.items():
        decimal = table_files.number(text)
        if decimal is not None:
            numbers[position] = decimal

    renumbered = np.full(len(label.names), -1, dtype=np.int16)
    if len(numbers) < len(texts):
        positions = list(texts)
        order = [positions[k] for k in natural_order(list(texts.values()))]
        renumbered[order] = np.arange(len(order))
        return tuple(texts[k] for k in order), renumbered
    for k, value in numbers.items():
        if value != value.to_integral_value():
            at = int(np.argmax(label.cells == k))
            where = task.names[task.cells[at]]
            who = rater.names[rater.cells[at]]
            message = (
                f"found label {label.names[k]} by rater {who!r} for task {where!r}, "
                "expected classes: whole numbers or names"
            )
            raise RatersError(message, kind="value", case=where, rater=who)
    values = tuple(sorted(set(map(int, numbers.values()))))
    renumbered[list(numbers)] = np.searchsorted(values, [int(n) for n in numbers.values()])
    return values, renumbered

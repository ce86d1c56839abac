"""Numbers in place of names: the columns of a table that comes in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raters.study.names import natural_order

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
        numbered = _prefix_and_numbers(pa.chunked_array([self.names], pa.string()))
        if numbered is None:
            return natural_order(self.names)
        return None if (np.diff(numbered[1]) > 0).all() else np.argsort(numbered[1])


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
        """Return numbers to the texts that wait, and new ones to the cells that have some."""
        if not self._waiting_bytes:
            return
        cells, names = _numbered(pa.chunked_array([*self._waiting, self._names], pa.string()))
        new = cells.size - len(self._names)
        self._cells = np.concatenate([cells[new:][self._cells], cells[:new]])
        self._names, self._waiting, self._waiting_bytes = names, [], 0

    def finish(self) -> Column:
        """Return all cells and their names, in no special order."""
        self._number()
        return Column(self._cells, self._names.to_pylist())


def _numbered(texts: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    """Return each text its position in an array of the different ones, and that array."""
    if _repeats(texts[:_SAMPLE]):
        return _encoded(texts)
    numbered = _prefix_and_numbers(texts)
    if numbered is None:
        return _encoded(texts)
    prefix, numbers = numbered
    if numbers.max() < 4 * numbers.size:
        cells, values = _ranks(numbers)
    else:
        cells, values = _encoded(pa.chunked_array([numbers]))
    return cells, pc.binary_join_element_wise(prefix, values.cast(pa.string()), "")


def _repeats(sample: pa.ChunkedArray) -> bool:
    """Return whether names are few, when looking them up is the fastest way."""
    return 2 * int(pc.count_distinct(sample).as_py()) <= len(sample)


def _encoded(values: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    chunks = values.dictionary_encode().chunks
    return np.concatenate([chunk.indices.to_numpy() for chunk in chunks]), chunks[-1].dictionary


def _ranks(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int32], pa.Array]:
    """Number the different numbers in their order, by a table of all up to the largest."""
    seen = np.zeros(numbers.max() + 1, dtype=bool)
    seen[numbers] = True
    ranks = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return ranks[numbers], pa.array(np.flatnonzero(seen))


def _prefix_and_numbers(texts: pa.ChunkedArray) -> tuple[str, NDArray[np.int64]] | None:
    """Read names such as "task-12": counting is several times as fast as looking up texts.

    Names that a number would not give back ("task-012") are left alone.
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
    needed = numbers.size + sum(np.count_nonzero(numbers >= 10**k) for k in range(1, longest))
    return (prefix, numbers) if needed == pc.sum(lengths).as_py() else None

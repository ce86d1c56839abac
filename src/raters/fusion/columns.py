"""Labels as EM takes them: masks as columns, tables task by task.

A column is a voxel, or a pattern of labels where patterns are few: fusion depends only on which
pattern a voxel has. With `R` raters and `L` classes there are `(L + 1)^R` (one more for MISSING),
of which mostly few occur. They are counted in one pass, EM runs on the counts, and the result is
mapped back in one pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Flags, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.whole_numbers import at_least
from raters.fusion.kernels import collect, encode, expand
from raters.metrics.conventions import label_array
from raters.study.triplets import Triplets, in_task_order

_BLOCK = 1 << 16
_HASH = 0x100000001B3  # a prime, as in FNV

MOST_PATTERNS = 1 << 16
"""Where more patterns are possible, those that occur are collected."""

MOST_COLLECTED = 1 << 17
"""Where more patterns occur (in the stretch of a core), voxels are taken one by one."""


@dataclass(frozen=True)
class Columns:
    """Labels as columns with weights.

    Attributes:
        labels: Class numbers with MISSING, `(raters, n)`.
        weights: How often each column occurs, `(n,)`, or `(1,)` where all do once.
        codes: The column of each voxel, where columns are patterns; else None.
    """

    labels: Array
    weights: Floats
    codes: Array | None = None

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.labels.shape[1])

    def agreed(self) -> Labels:
        """Return the label of each column that all its raters agree on; MISSING where they differ.

        Also where nobody labelled.
        """
        top = np.iinfo(np.int16).max
        lowest = np.where(self.labels == MISSING, top, self.labels).min(axis=0)
        highest = self.labels.max(axis=0)
        return np.where(lowest == highest, highest, MISSING).astype(np.int16)

    def to_voxels(self, values: Array) -> Array:
        """Return values `(k, columns)` to the voxels, `(k, voxels)`."""
        if self.codes is None:
            return values
        out = np.empty((len(values), len(self.codes)), values.dtype)
        for row, table in zip(out, values, strict=True):
            in_stretches(partial(expand, self.codes, table, row), len(self.codes))
        return out

    def on_grid(self, values: Array, space: tuple[int, ...], rows: slice = slice(None)) -> Array:
        """Return some rows of values `(k, columns)` to the voxels, `(rows, *space)`."""
        chosen = values[rows]
        return np.asarray(self.to_voxels(chosen).reshape(len(chosen), *space))


def blocks(size: int) -> Iterator[slice]:
    """Return stretches of a range, so that work on many voxels needs little memory beside them."""
    return (slice(k, k + _BLOCK) for k in range(0, size, _BLOCK))


def columns_of(labels: Array, num_classes: int, patterns: bool = True) -> Columns:
    """Take labels `(raters, *space)` as columns: patterns where they are few (and wanted).

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        patterns: Whether to count patterns; False takes voxels one by one.

    Example:
        >>> columns = columns_of(np.array([[0, 1, 1], [0, 1, 1]], np.int8), num_classes=2)
        >>> columns.labels[:, columns.weights > 0].tolist(), columns.weights.max().item()
        ([[0, 1], [0, 1]], 2.0)
    """
    # Compiled code would write outside its tables where numbers are out of range.
    array = label_array(labels, at_least(1, num_classes, "classes"))
    if not array.ndim or not len(array):
        raise RatersError(f"found labels of shape {array.shape}, expected some (raters, *space)")
    flat = array.reshape(len(array), -1)
    possible = (num_classes + 1) ** len(flat)
    if patterns and possible <= min(MOST_PATTERNS, max(flat.shape[1], 256)):
        return _counted(flat, num_classes, possible)
    found = _collected(flat, num_classes) if patterns else None
    return found or Columns(flat, np.ones(1))


def _counted(flat: Array, num_classes: int, possible: int) -> Columns:
    """Count all patterns that are possible in a table."""
    codes = np.empty(flat.shape[1], np.uint8 if possible < 256 else np.uint16)

    def count(start: int, stop: int) -> Ints:
        counts = np.zeros((4, possible), np.int64)
        encode(flat, codes.dtype.type(num_classes + 1), start, stop, codes, counts)
        return np.asarray(counts.sum(axis=0))

    weights = np.sum(in_stretches(count, flat.shape[1]), axis=0)
    powers = (num_classes + 1) ** np.arange(len(flat) - 1, -1, -1)
    digits = np.arange(possible) // powers[:, np.newaxis] % (num_classes + 1) - 1
    return Columns(digits.astype(np.int16), weights.astype(np.float64), codes)


def _collected(flat: Array, num_classes: int) -> Columns | None:
    """Count the patterns that occur; None if there are too many."""
    exact = (num_classes + 1) ** len(flat) < 1 << 64
    base = np.uint64(num_classes + 1 if exact else _HASH)
    codes = np.empty(flat.shape[1], np.uint32)

    def work(start: int, stop: int) -> tuple[int, int, Columns] | None:
        most = min(MOST_COLLECTED, stop - start)
        slots = np.full(1 << (2 * most - 1).bit_length(), -1, np.int32)
        keys = np.empty(most, np.uint64)
        firsts = np.empty(most, np.int64)
        counts = np.zeros(most, np.int64)
        found = collect(flat, base, exact, start, stop, codes, slots, keys, firsts, counts)
        if found < 0:
            return None
        return start, stop, Columns(flat[:, firsts[:found]], counts[:found].astype(np.float64))

    parts = [part for part in in_stretches(work, flat.shape[1]) if part is not None]
    if sum(stop - start for start, stop, _ in parts) < flat.shape[1]:
        return None
    merged, numbers = merge([columns for _, _, columns in parts])
    for (start, stop, _), table in zip(parts, numbers, strict=True):
        expand(codes, table.astype(np.uint32), codes, start, stop)
    return Columns(merged.labels, merged.weights, codes)


def merge(parts: list[Columns]) -> tuple[Columns, list[NDArray[np.intp]]]:
    """Add patterns that were counted apart; also give the number of each part's patterns.

    Example:
        >>> one = Columns(np.array([[0, 1], [0, 1]], np.int8), np.array([5.0, 2.0]))
        >>> two = Columns(np.array([[1, 1], [1, 0]], np.int8), np.array([4.0, 3.0]))
        >>> whole, numbers = merge([one, two])
        >>> whole.labels.tolist(), whole.weights.tolist(), [n.tolist() for n in numbers]
        ([[0, 1, 1], [0, 0, 1]], [5.0, 3.0, 6.0], [[0, 2], [2, 1]])
    """
    labels = np.concatenate([part.labels.T for part in parts])
    weights = np.concatenate([np.broadcast_to(part.weights, part.size) for part in parts])
    # Bytes in big-endian order, MISSING first: their order is that of the labels.
    keys = np.ascontiguousarray((labels.astype(np.int32) + 1).astype(">u2"))
    _, first, number = np.unique(
        keys.view(np.dtype((np.void, keys.itemsize * keys.shape[1]))).ravel(),
        return_index=True,
        return_inverse=True,
    )
    total = np.bincount(number, weights, len(first)).astype(np.float64)
    ends = np.cumsum([part.size for part in parts])
    return Columns(np.ascontiguousarray(labels[first].T), total), np.split(number, ends[:-1])


T = TypeVar("T")

_SMALL = 1 << 14


def in_stretches(work: Callable[[int, int], T], size: int) -> list[T]:
    """Call `work(start, stop)` for stretches that cover `0 .. size`, one per core; few for small.

    Example:
        >>> in_stretches(lambda start, stop: stop - start, 10)
        [10]
    """
    num_workers = os.cpu_count() or 1
    if size < _SMALL or num_workers == 1:
        return [work(0, size)]
    edges = [size * k // num_workers for k in range(num_workers + 1)]
    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


class Answers(NamedTuple):
    """A table with the answers to each task in a row; compiled code takes it as it is.

    Attributes:
        starts: Where the answers to each task begin, `(tasks + 1,)`.
        rater: The rater of each answer.
        label: The class number of each answer.
        raters: The number of raters R.
        classes: The number of classes L.
        used: How often each rater gave each label, `(R, L)`.
        most: The largest number of answers to a task.
    """

    starts: Ints
    rater: NDArray[np.int32]
    label: Labels
    raters: int
    classes: int
    used: Ints
    most: int

    @property
    def tasks(self) -> int:
        """The number of tasks, those without answers too."""
        return len(self.starts) - 1

    @property
    def answered(self) -> Flags:
        """Which tasks have an answer, `(tasks,)`."""
        return np.asarray(self.starts[1:] > self.starts[:-1])

    def task_stretch(self, start: int, stop: int) -> tuple[int, int]:
        """Turn a stretch of answers into the stretch of tasks that begin in it."""
        first, last = np.searchsorted(self.starts[:-1], [start, stop])
        return int(first), self.tasks if stop == len(self.label) else int(last)


def answers_of(triplets: Triplets, num_classes: int) -> Answers:
    """Lay out a table task by task; answers that are MISSING are left out.

    Example:
        >>> table = Triplets([1, 0, 1], [0, 0, 1], [1, 0, 0], ["a", "b"], ("ann", "bob"), (0, 1))
        >>> answers = answers_of(table, num_classes=2)
        >>> answers.starts.tolist(), answers.rater.tolist(), answers.label.tolist()
        ([0, 1, 3], [0, 0, 1], [0, 1, 0])
    """
    _refuse_triplets(triplets, num_classes)
    given = in_task_order(triplets)
    there = given.label != MISSING
    task = given.task[there]
    rater = given.rater[there]
    label = given.label[there]
    tasks = len(triplets.tasks)
    raters = len(triplets.raters)
    starts = np.zeros(tasks + 1, np.int64)
    sizes = np.bincount(task, minlength=tasks)
    np.cumsum(sizes, out=starts[1:])
    cells = np.bincount(rater * np.int64(num_classes) + label, minlength=raters * num_classes)
    used = cells.reshape(raters, num_classes)
    most = int(sizes.max(initial=0))
    return Answers(starts, rater, label, raters, num_classes, used, most)


def vote_shares(answers: Answers) -> Floats:
    """Return the share of each class among the answers to a task, `(tasks, L)`; 1 / L without any.

    Example:
        >>> table = Triplets([0, 0, 0], [0, 1, 2], [1, 0, 1], ["a", "b"], ("x", "y", "z"), (0, 1))
        >>> vote_shares(answers_of(table, 2)).round(2).tolist()
        [[0.33, 0.67], [0.5, 0.5]]
    """
    return shares_of(votes_of(answers))


def shares_of(votes: Floats) -> Floats:
    """Make the votes of each row `(n, L)` sum to one; 1 / L where there are none."""
    total = votes.sum(axis=1, keepdims=True)
    even = np.full(votes.shape, 1 / votes.shape[1])
    return np.asarray(np.divide(votes, total, out=even, where=total > 0))


def votes_of(answers: Answers, chosen: Flags | None = None) -> Floats:
    """Count the answers (or some of them) to each task by class, `(tasks, L)`."""
    number = np.diff(answers.starts)
    cell = np.repeat(np.arange(answers.tasks) * answers.classes, number) + answers.label
    if chosen is not None:
        cell = cell[chosen]
    votes = np.bincount(cell, minlength=answers.tasks * answers.classes).astype(np.float64)
    return votes.reshape(answers.tasks, answers.classes)


def _refuse_triplets(triplets: Triplets, num_classes: int) -> None:
    """Reject numbers that are out of range: compiled code would read memory that is not its own."""
    if num_classes < 1:
        raise RatersError(f"found {num_classes} classes, expected at least 1")
    for what, numbers, size, lowest in (
        ("class", triplets.label, num_classes, MISSING),
        ("task", triplets.task, len(triplets.tasks), 0),
        ("rater", triplets.rater, len(triplets.raters), 0),
    ):
        if numbers.size and not (numbers.min() >= lowest and numbers.max() < size):
            raise RatersError(
                f"found {what} numbers from {numbers.min()} to {numbers.max()}, "
                f"expected {lowest} to {size - 1}",
                kind="unknown-value",
            )

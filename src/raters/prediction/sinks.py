"""Where bands of rows go: into an array file row by row, or into memory and then into a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from raters.study import formats
from raters.study.paths import naming, temporary_beside

Array = NDArray[Any]


class Sink(Protocol):
    """Takes the rows of one map, in order, and becomes a file when all are there."""

    def put(self, rows: Array, start: int, total: int) -> None:
        """Take some rows: `(*front, rows, *rest)`; there are `total` in all."""

    def finish(self) -> Path:
        """Make the file, whole; give its path."""

    def discard(self) -> None:
        """Leave nothing behind."""


class RowsFile:
    """A .npy file that is written a band at a time and never held in memory.

    It is not mapped: mapped pages count as memory of the process, however large the file is.

    Args:
        path: The file; it gets its name when it is whole.
        front: How many axes come before the rows.
    """

    def __init__(self, path: Path, front: int) -> None:
        self._path, self._front = path, front
        self._temporary = temporary_beside(path)
        self._file = open(self._temporary, "wb")  # noqa: SIM115
        self._offset = 0

    def put(self, rows: Array, start: int, total: int) -> None:
        """Write some rows where they belong, for each of the maps in front."""
        rows = np.ascontiguousarray(rows)
        leading, rest = rows.shape[: self._front], rows.shape[self._front + 1 :]
        if not self._offset:
            descr = np.lib.format.dtype_to_descr(rows.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": (*leading, total, *rest)}
            np.lib.format.write_array_header_1_0(self._file, header)
            self._offset = self._file.tell()
        row = int(np.prod(rest, dtype=np.int64)) * rows.itemsize
        for k, part in enumerate(rows.reshape(-1, *rows.shape[self._front :])):
            with naming(self._path):
                self._file.seek(self._offset + (k * total + start) * row)
                self._file.write(part.data)

    def finish(self) -> Path:
        """Return the file its name."""
        with naming(self._path):
            self._file.close()
            self._temporary.replace(self._path)
        return self._path

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


class Gathered:
    """Rows that are gathered in memory; formats other than .npy are written at once.

    Args:
        front: How many axes come before the rows.
        write: Writes the whole array and gives the file's path.
    """

    def __init__(self, front: int, write: Callable[[Array], Path]) -> None:
        self._front, self._write = front, write
        self._whole: Array | None = None

    def put(self, rows: Array, start: int, total: int) -> None:
        """Keep a copy of some rows: whoever gives them uses their memory again."""
        number = rows.shape[self._front]
        if self._whole is None:
            shape = (*rows.shape[: self._front], total, *rows.shape[self._front + 1 :])
            self._whole = np.empty(shape, rows.dtype)
        self._whole[(slice(None),) * self._front + (slice(start, start + number),)] = rows

    def finish(self) -> Path:
        """Write the file."""
        assert self._whole is not None  # there were rows
        return self._write(self._whole)

    def discard(self) -> None:
        """Nothing was written."""
        self._whole = None


def image_sink(place: Path, name: str, shape: tuple[int, ...], affine: Array | None) -> Sink:
    """Make a sink for maps of floats `(channels, *space)`, in the format that keeps them."""
    like = np.broadcast_to(np.float32(0), shape)  # takes no memory
    path = place / f"{name}{formats.image_suffix(like, affine)}"
    if path.name.endswith(".npy"):
        return RowsFile(path, 1)

    def write(whole: Array) -> Path:
        formats.write_image(path, whole, affine)
        return path

    return Gathered(1, write)


def label_sink(place: Path, name: str, affine: Array | None) -> Sink:
    """Make a sink for the values of labels `(*space)`, in the format that keeps them."""

    def write(values: Array) -> Path:
        path = place / f"{name}{formats.label_suffix(values, affine)}"
        formats.write_labels(path, values, affine)
        return path

    return Gathered(0, write)

"""The packed form: all cases in a few memory-mapped arrays, for many small images of one shape."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from raters.core.arrays import Array
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io.formats.npy import write_header
from raters.io.paths import naming, refuse_special, written_whole
from raters.study.backend import ArraysBackend
from raters.study.study import Study
from raters.study.study_file import PART, CaseArrays, StudyFile, Writer


class PackedWriter(Writer):
    """Writes cases into rows of arrays; the first case says which shape and type they have.

    Rows of a case that is discarded stay; `cases.csv` does not name them.
    """

    def __init__(self, study: Study, folder: Path, content: StudyFile) -> None:
        super().__init__(study, folder, content)
        self._label_type = np.dtype(np.int8 if len(study.classes) <= 127 else np.int16)
        self._files: dict[str, RowFile] = {}
        self._left = {name for name in EMPTY if any(folder.glob(f"{name}.npy*"))}
        self._first: dict[str, str] = {}
        self._lock = Lock()

    def write(self, position: int, arrays: CaseArrays) -> None:
        """Write one case into its row; what the case has not (any more) is cleared."""
        affine = arrays.geometry.affine
        has_image = None if arrays.image is None else np.ones((), bool)
        for name, values, dtype in (
            ("images", arrays.image, None),
            ("has_image", has_image, None),
            ("labels", arrays.labels, self._label_type),
            ("reference", arrays.reference, self._label_type),
            ("affines", affine, np.dtype(np.float64)),
        ):
            if values is None:
                self._clear(name, position)
            else:
                self._put(name, position, values, dtype or values.dtype, arrays.id)

    def put_features(self, position: int, features: Array, case: str) -> None:
        """Write the features of one task into its row."""
        self._put("features", position, features, features.dtype, case)
        self._put("has_image", position, np.ones((), bool), np.dtype(bool), case)

    def _put(
        self, name: str, position: int, values: Array, dtype: np.dtype[Any], case: str
    ) -> None:
        with self._lock:
            if name not in self._files:
                shape = (len(self._study), *values.shape)
                file = self._found(name)
                if file is None:
                    file = self._make(name, shape, dtype)
                self._files[name] = file
                self._first.setdefault(name, f"case {case!r}")
            file = self._files[name]
        if file.shape[1:] != values.shape or not np.can_cast(dtype, file.dtype):
            message = (
                f"found {name} of shape {values.shape} and type {dtype} in case {case!r}, expected "
                f"{file.shape[1:]} and {file.dtype} as in {self._first[name]}: "
                "the packed form needs one shape and type, the canonical form takes any"
            )
            raise RatersError(message, kind="one-shape", case=case)
        file.put(position, values)

    def _clear(self, name: str, position: int) -> None:
        with self._lock:
            left = self._found(name) if name in self._left and name not in self._files else None
            file = self._files.get(name) or left
            if file is None:
                return
            self._files[name] = file
        file.put(position, np.full(file.shape[1:], EMPTY[name], file.dtype))

    def _found(self, name: str) -> RowFile | None:
        """Go on with the array that an interrupted or finished import left."""
        final = self._folder / f"{name}.npy"
        part = self._folder / f"{name}.npy{PART}"
        if final.exists():
            final.replace(part)
        array = open_array(part, len(self._study))
        if array is None:
            return None
        self._first[name] = "an earlier import (--overwrite replaces it)"
        return RowFile(part, array.shape, array.dtype, array.offset)  # type: ignore[attr-defined]

    def _make(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> RowFile:
        """Make an array of rows that say nothing yet."""
        part = self._folder / f"{name}.npy{PART}"
        empty = np.full(shape[1:], EMPTY[name], dtype).tobytes()
        with written_whole(part, "wb") as file:
            offset = write_header(file, shape, dtype)
            if EMPTY[name] != 0:
                for _ in range(shape[0]):
                    file.write(empty)
            else:
                file.truncate(offset + shape[0] * len(empty))
        return RowFile(part, shape, dtype, offset)

    def finish(self, positions: list[int]) -> dict[str, list[str]]:
        """Return the arrays their names; where cases failed, say in which row the others are."""
        self.close()
        for part in sorted(self._folder.glob(f"*.npy{PART}")):
            part.replace(part.with_suffix(""))
        return {} if len(positions) == len(self._study) else {"row": [str(p) for p in positions]}

    def close(self) -> None:
        """Close the arrays."""
        for file in self._files.values():
            file.close()
        self._files.clear()


class RowFile:
    """An array file whose rows are written one by one.

    Not memory-mapped: what was written does not count as memory of the process, and a full disk
    is an error instead of a signal that kills it.
    """

    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._offset = offset
        self._row_bytes = math.prod(shape[1:]) * dtype.itemsize
        self._path = path
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115

    def put(self, row: int, values: Array) -> None:
        """Write one row; several threads may do so at once."""
        whole = np.ascontiguousarray(values, self.dtype)
        data = memoryview(whole.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        place = self._offset + row * self._row_bytes
        while data:
            with naming(self._path):
                done = os.pwrite(self._file.fileno(), data, place)
            data = data[done:]
            place = place + done

    def close(self) -> None:
        """Close the file."""
        self._file.close()


EMPTY = {
    "images": 0,
    "has_image": False,
    "labels": MISSING,
    "reference": MISSING,
    "affines": np.nan,
    "features": 0,
}
"""The arrays of the packed form, and what a row without a value holds."""


def open_packed(folder: Path, content: StudyFile, names: Mapping[int, str]) -> ArraysBackend:
    """Open the arrays of a packed folder, with the rows of these cases, without reading them."""
    cases = max(names, default=-1) + 1
    arrays = {name: open_array(folder / f"{name}.npy", cases) for name in EMPTY}
    labels = arrays["labels"]
    affines = arrays["affines"]
    reference = arrays["reference"]
    if labels is None and content.kind == "segmentation" and content.raters:
        message = f"no such file, expected the labels by {len(content.raters)} raters"
        raise RatersError(message, kind="missing-file", file=folder / "labels.npy")
    for name in ("labels", "reference"):
        _refuse_fractions(folder / f"{name}.npy", arrays[name])
    if labels is not None and labels.shape[1] != len(content.raters):
        message = f"found {labels.shape[1]} raters, expected {len(content.raters)} as in study.yaml"
        raise RatersError(message, kind="study-file", file=folder / "labels.npy")
    return ArraysBackend(
        content.raters,
        None if labels is None else Rows(labels, lambda *_: True),
        with_gaps(arrays["images"], arrays["has_image"]),
        None if reference is None else Rows(reference, lambda _, m: bool((m != MISSING).any())),
        None if affines is None else Rows(affines, lambda _, a: not bool(np.isnan(a).any())),
        names,
    )


def _refuse_fractions(path: Path, array: Array | None) -> None:
    """Reject class numbers that are no whole numbers by their type: NaN has no class."""
    if array is not None and array.dtype.kind not in "biu":
        message = f"found numbers of type {array.dtype}, expected whole numbers, as classes have"
        raise RatersError(message, kind="unreadable", file=path)


def lost_images(folder: Path) -> Iterator[RatersError]:
    """Find out whether images or features are gone: the array that says who has them is not."""
    there = open_array(folder / "has_image.npy", 0)
    if there is None or (folder / "features.npy").exists():
        return
    if not (folder / "images.npy").exists() and bool(np.asarray(there).any()):
        message = f"no such file, expected the images of {int(np.sum(there)):,} cases"
        yield RatersError(message, kind="missing-file", file=folder / "images.npy")


def open_array(path: Path, cases: int) -> Array | None:
    """Open one array with at least so many rows; None if it is not there."""
    if not path.exists():
        return None
    refuse_special(path)
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RatersError(f"not a whole array: {error}", kind="unreadable", file=path) from None
    if array.ndim == 0 or len(array) < cases:
        found = len(array) if array.ndim else 0
        raise RatersError(
            f"found {found} rows, expected {cases} as in cases.csv", kind="unreadable", file=path
        )
    return array


def with_gaps(inputs: Array | None, there: Array | None) -> Rows | None:
    """Return images or features by row, None for cases that have none."""
    return None if inputs is None else Rows(inputs, lambda row, _: there is None or there[row])


class Rows:
    """Rows of an array, with None for those that say nothing."""

    def __init__(self, array: Array, known: Callable[[int, Array], bool]) -> None:
        self._array = array
        self._known = known

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, row: int) -> Array | None:
        values = read_row(self._array, row)
        return values if self._known(row, values) else None

    def look(self, row: int) -> Array:
        """Return a view of a row: of a file, only what is looked at is read."""
        found: Array = self._array[row]
        return found


def read_row(array: Array, row: int) -> Array:
    """Read one row; pages of a mapped file would stay with the process and look like its memory."""
    if not (isinstance(array, np.memmap) and array.flags.c_contiguous and array.filename):
        return np.asarray(array[row])
    shape = array.shape[1:]
    count = math.prod(shape)
    place = array.offset + range(len(array))[row] * count * array.itemsize
    return np.fromfile(array.filename, array.dtype, count, offset=place).reshape(shape)

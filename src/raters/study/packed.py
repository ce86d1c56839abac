"""The packed form: all cases in a few memory-mapped arrays, for many small images of one shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.backend_arrays import ArraysBackend
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.study.study_file import StudyFile
from raters.study.write import CaseArrays

PART = ".part"


class PackedWriter:
    """Writes cases into rows of arrays; the first case says which shape and type they have."""

    by_case = True

    def __init__(self, study: Study, folder: Path, content: StudyFile) -> None:
        self.content = content
        self._folder, self._study = folder, study
        self._label_type = np.dtype(np.int8 if len(study.classes) <= 127 else np.int16)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._first: dict[str, str] = {}
        self._lock = Lock()

    def write(self, position: int, arrays: CaseArrays) -> None:
        """Write one case into its row."""
        if arrays.image is not None:
            self._put("images", position, arrays.image, arrays.image.dtype, arrays.id)
            self._put("has_image", position, np.ones((), bool), np.dtype(bool), arrays.id)
        if arrays.labels is not None:
            self._put("labels", position, arrays.labels, self._label_type, arrays.id)
        if arrays.reference is not None:
            self._put("reference", position, arrays.reference, self._label_type, arrays.id)
        if arrays.geometry.affine is not None:
            affine = arrays.geometry.affine
            self._put("affines", position, affine, np.dtype(np.float64), arrays.id)

    def put_features(self, position: int, features: NDArray[Any], case: str) -> None:
        """Write the features of one task into its row."""
        self._put("features", position, features, features.dtype, case)
        self._put("has_image", position, np.ones((), bool), np.dtype(bool), case)

    def _put(
        self, name: str, position: int, values: NDArray[Any], dtype: np.dtype[Any], case: str
    ) -> None:
        with self._lock:
            if name not in self._arrays:
                shape = (len(self._study), *values.shape)
                self._arrays[name] = self._open(name, shape, dtype)
                self._first[name] = case
            array = self._arrays[name]
        if array.shape[1:] != values.shape or not np.can_cast(dtype, array.dtype):
            raise RatersError(
                f"found {name} of shape {values.shape} and type {dtype}, expected "
                f"{array.shape[1:]} and {array.dtype} as in case {self._first[name]!r}: "
                "the packed form needs one shape and type, the canonical form takes any",
                kind="one-shape",
                case=case,
            )
        array[position] = values

    def _open(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Make the array, or go on with the one that an interrupted or finished import left."""
        final, part = self._folder / f"{name}.npy", self._folder / f"{name}.npy{PART}"
        if final.exists():
            final.replace(part)
        if part.exists():
            found = np.lib.format.open_memmap(part, mode="r+")
            if found.shape != shape or found.dtype != dtype:
                raise RatersError(
                    f"found shape {found.shape} and type {found.dtype} from an earlier import, "
                    f"expected {shape} and {dtype}: --overwrite writes it anew",
                    kind="one-shape",
                    file=part,
                )
            return found
        array = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
        if EMPTY[name] != 0:
            array[...] = EMPTY[name]
        return array

    def finish(self, positions: list[int]) -> dict[str, list[str]]:
        """Give the arrays their names; where cases failed, say in which row the others are."""
        for array in self._arrays.values():
            array.flush()  # type: ignore[attr-defined]
        self._arrays.clear()
        for part in sorted(self._folder.glob(f"*.npy{PART}")):
            part.replace(part.with_suffix(""))
        return {} if len(positions) == len(self._study) else {"row": [str(p) for p in positions]}


EMPTY = {
    "images": 0,
    "has_image": False,
    "labels": MISSING,
    "reference": MISSING,
    "affines": np.nan,
    "features": 0,
}
"""The arrays of the packed form, and what a row without a value holds."""


def open_packed(folder: Path, content: StudyFile, cases: int) -> ArraysBackend:
    """Open the arrays of a packed folder, with at least so many rows, without reading them."""
    arrays = {name: open_array(folder / f"{name}.npy", cases) for name in EMPTY}
    labels, affines = arrays["labels"], arrays["affines"]
    if labels is not None and labels.shape[1] != len(content.raters):
        raise RatersError(
            f"found {labels.shape[1]} raters, expected {len(content.raters)} as in study.yaml",
            kind="study-file",
            file=folder / "labels.npy",
        )
    return ArraysBackend(
        content.raters,
        labels,
        with_gaps(arrays["images"], arrays["has_image"]),
        None if arrays["reference"] is None else Rows(arrays["reference"], _known_mask),
        None if affines is None else Rows(affines, _known_affine),
    )


def open_array(path: Path, cases: int) -> NDArray[Any] | None:
    """Open one array with at least so many rows; None if it is not there."""
    if not path.exists():
        return None
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RatersError(f"not a whole array: {error}", kind="unreadable", file=path) from None
    if array.ndim == 0 or len(array) < cases:
        found = len(array) if array.ndim else 0
        raise RatersError(
            f"found {found} rows, expected {cases} as in cases.csv", kind="unreadable", file=path
        )
    return array


def with_gaps(inputs: NDArray[Any] | None, there: NDArray[Any] | None) -> Rows | None:
    """Give images or features by row, None for cases that have none."""
    return None if inputs is None else Rows(inputs, lambda row, _: there is None or there[row])


class Rows:
    """Rows of an array, with None for those that say nothing."""

    def __init__(self, array: NDArray[Any], known: Callable[[int, NDArray[Any]], bool]) -> None:
        self._array, self._known = array, known

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, row: int) -> NDArray[Any] | None:
        values = np.asarray(self._array[row])
        return values if self._known(row, values) else None


def _known_mask(row: int, values: NDArray[Any]) -> bool:  # noqa: ARG001
    return bool((values != MISSING).any())


def _known_affine(row: int, values: NDArray[Any]) -> bool:  # noqa: ARG001
    return not bool(np.isnan(values).any())

"""Decoded cases on disk, memory-mapped: a patch reads its own pages only, and all processes share.

One file per case, written whole when the case is first read: a mark, a JSON header that says where
each array lies, and the arrays. What is not there or not whole is decoded and written again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.study.paths import written_whole
from raters.study.study import Study

MARK = b"raters-1"
ALIGNED = 64
RESERVE = 0.1  # the share of a disk's free space that is left to others
TEMPORARY = "raters-cache-"
KEY = 16  # letters of the name of a store


class CaseStore:
    """Arrays of cases by position in a folder.

    Example:
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = CaseStore(Path(folder.name))
        >>> store.read(3) is None, store.write(3, {"labels": np.array([[1, 2]], np.int8)})
        (True, True)
        >>> store.read(3)
        {'labels': array([[1, 2]], dtype=int8)}
        >>> folder.cleanup()
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.full = folder, False

    def read(self, position: int) -> dict[str, NDArray[Any]] | None:
        """Map the arrays of a case; None if they are not there, or not whole."""
        try:
            whole = np.asarray(np.memmap(self._path(position), np.uint8, "r"))
            start = len(MARK) + 4
            size = int(whole[len(MARK) : start].view("<u4")[0])
            header = json.loads(whole[start : start + size].tobytes())
            if whole[: len(MARK)].tobytes() != MARK or header["bytes"] != len(whole):
                return None
            return {name: _array(whole, *place) for name, place in header["arrays"].items()}
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return None

    def write(self, position: int, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Write the arrays of a case; False where the disk is full."""
        if self.full:
            return False
        try:
            with written_whole(self._path(position), "wb") as file:
                file.writelines(_content(arrays))
        except OSError as error:
            self.full = True
            warnings.warn(
                f"the cache cannot be written ({error.strerror}): cases that are not in it are "
                "read from their files each time",
                stacklevel=2,
            )
            return False
        return True

    def has_room(self, needed: int) -> bool:
        """Return whether the disk can take so many bytes; warn if it cannot."""
        self.folder.mkdir(parents=True, exist_ok=True)
        there = sum(file.stat().st_size for file in self.folder.glob("*.case"))
        free = shutil.disk_usage(self.folder).free * (1 - RESERVE) + there
        if needed > free:
            warnings.warn(
                f"found {free / 1e9:.1f} GB of free space at {self.folder}, expected "
                f"{needed / 1e9:.1f} GB to keep decoded cases: files are read each time. A larger "
                "`cache` keeps more of them in memory",
                stacklevel=2,
            )
        return needed <= free

    def _path(self, position: int) -> Path:
        return self.folder / f"{position}.case"


def _content(arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """Return the parts of a file; the header is padded, as its length decides where arrays lie."""
    sizes = [array.nbytes for array in arrays.values()]
    begin = _aligned(len(MARK) + 4 + 200 * (len(arrays) + 1))
    places = np.cumsum([begin, *(_aligned(size) for size in sizes)]).tolist()
    described = {
        name: [array.dtype.str, list(array.shape), place]
        for (name, array), place in zip(arrays.items(), places[:-1], strict=True)
    }
    header = json.dumps({"bytes": places[-1], "arrays": described}).encode()
    header = header.ljust(begin - len(MARK) - 4)
    yield MARK + np.array(len(header), "<u4").tobytes() + header
    for array, size in zip(arrays.values(), sizes, strict=True):
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield bytes(_aligned(size) - size)


def _array(whole: NDArray[np.uint8], dtype: str, shape: list[int], place: int) -> NDArray[Any]:
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    return whole[place : place + size].view(kind).reshape(shape)


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def key_of(study: Study, *facts: Any) -> str:  # noqa: ANN401
    """Name what a store is of: the cases, how they are read, and the state of all their files.

    Args:
        study: The cases.
        facts: Whatever else decides what is stored.
    """
    parts = hashlib.sha256(repr((study.raters, study.rules, study.classes, facts)).encode())
    for position, name in enumerate(study.index.ids):
        stamps = [_stamp(file) for file in study.backend.files(study.row(position))]
        parts.update(repr((name, stamps)).encode())
    return parts.hexdigest()[:KEY]


def _stamp(file: Path) -> tuple[str, int, int]:
    try:
        state = file.stat()
    except (OSError, ValueError):
        return str(file), -1, -1
    return str(file), state.st_size, state.st_mtime_ns


@contextmanager
def cache_folder(run: Path | None = None) -> Iterator[Path]:
    """Return a folder for stores, which is removed at the end.

    With a run folder it is `cache` in there, and an error leaves it: who resumes finds it again.
    Else it is a temporary folder; those of processes that were killed are removed on the way.
    """
    if run is not None:
        folder = run / "cache"
        yield folder
        _remove_stores(folder)
        return
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY))
    lock = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_stores(folder: Path) -> None:
    """Remove the stores of a run, and nothing else that somebody may have put there."""
    for store in folder.glob("[0-9a-f]" * KEY):
        shutil.rmtree(store, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _remove_abandoned(place: Path) -> None:
    """Remove temporary caches that no process holds: their owners died without a last word."""
    for folder in place.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            lock = _locked(folder) if (folder / "lock").exists() else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """Lock a folder for as long as this process (or a worker of it) lives; None if it is taken."""
    try:
        import fcntl
    except ImportError:  # Windows: nobody locks, and nothing is ever taken for abandoned
        return None
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle

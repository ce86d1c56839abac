"""A store on disk of decoded cases that do not fit into memory, and the folder that it is in."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from raters.core.errors import RatersError
from raters.io.paths import written_whole
from raters.io.results import LOCK_FILE, only_one, refuse_locked
from raters.study.fingerprint import source_of
from raters.study.study import Study

ALIGNED = 64  # bytes, as numpy aligns its own files
RESERVE = 0.1  # the share of a disk's free space that is left to others
TEMPORARY = "raters-cache-"
KEY = 16  # letters of the name of a store


class CaseStore:
    """Arrays of cases by position in a folder: files of one .npy after the other, names first.

    (An .npz cannot be mapped, safetensors and torch copy all arrays or do not see damage.)

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
        self.folder = folder
        self.full = False

    def read(self, position: int) -> dict[str, NDArray[Any]] | None:
        """Map the arrays of a case; None if they are not there, or not whole."""
        try:
            whole = np.asarray(np.memmap(self._path(position), np.uint8, "r"))
            with open(self._path(position), "rb") as file:
                names = _next_array(file, whole).tolist()
                found = {name: _next_array(file, whole) for name in names}
                return found if file.tell() == len(whole) else None
        except (OSError, ValueError, TypeError, TokenError):
            return None

    def write(self, position: int, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Write the arrays of a case; False where the disk is full."""
        if self.full:
            return False
        try:
            with written_whole(self._path(position), "wb") as file:
                for array in (np.array(list(arrays)), *arrays.values()):
                    npy.write_array(file, np.asarray(array, order="C"), version=(1, 0))
                    file.write(bytes(-file.tell() % ALIGNED))
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


def _next_array(file: IO[bytes], whole: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the array whose header comes next in a file, as a view of the whole."""
    npy.read_magic(file)
    shape, _, dtype = npy.read_array_header_1_0(file)
    start = file.tell()
    end = start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    file.seek(end + -end % ALIGNED)
    return whole[start:end].view(dtype).reshape(shape)


def key_of(study: Study, *facts: Any) -> str:  # noqa: ANN401
    """Name what a store is of: the cases, how they are read, and the state of all their files.

    Args:
        study: The cases.
        facts: Whatever else decides what is stored.
    """
    kinds = (study.annotations, study.unmarked) if study.drawn else ()
    known = (study.raters, study.rules, study.classes, facts, *kinds)
    parts = hashlib.sha256(repr(known).encode())
    for position, name in enumerate(study.index.ids):
        parts.update(repr((name, source_of(study, position))).encode())
    return parts.hexdigest()[:KEY]


@contextmanager
def cache_folder(run: Path | None = None) -> Iterator[Path]:
    """Return a folder for stores, which is removed at the end.

    With a run folder it is `cache` in there, and an error leaves it: who resumes finds it again.
    Else it is a temporary folder; those of processes that were killed are removed on the way.
    """
    if run is not None:
        yield run / "cache"
        for store in (run / "cache").glob("[0-9a-f]" * KEY):  # nothing that others put there
            shutil.rmtree(store, ignore_errors=True)
        with suppress(OSError):
            (run / "cache").rmdir()
        return
    _remove_abandoned(Path(tempfile.gettempdir()))
    temporary = tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True)
    with temporary as folder, only_one(folder):
        yield Path(folder)


def _remove_abandoned(place: Path) -> None:
    """Remove temporary caches that no process holds: their owners died without a last word."""
    for folder in place.glob(f"{TEMPORARY}*"):
        with suppress(OSError, RatersError):  # of others, or held
            # A lock that names nobody is about to be taken; on Windows nobody locks.
            if (folder / LOCK_FILE).stat().st_size and sys.platform != "win32":
                refuse_locked(folder)
                shutil.rmtree(folder, ignore_errors=True)

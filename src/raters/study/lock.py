"""One process at a time in a folder of results, by a lock that does not outlive its process.

The lock is one of the system on the file `.lock`, which says whose it is. The system drops it when
the process ends, however it ends: a file that is left by a process that was killed locks nothing.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock

from raters.errors import RatersError

LOCK_FILE = ".lock"

_TAKEN = (errno.EACCES, errno.EAGAIN)
_LACKING = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_LOOKS = 3
_TRIES = 20  # looks for the name of the owner, who may be about to write it

_own: set[Path] = set()
_own_lock = Lock()


@contextmanager
def only_one(folder: str | Path) -> Iterator[list[str]]:
    """Keep others out of a folder while it is written to; it is made if it is not there.

    A lock that a killed process left is taken over: the list that is given then holds a sentence
    that names the process. A folder that was made here and that nothing was written to is removed
    again.

    Raises:
        RatersError: Another process uses it; the error names its process, machine and start.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp(), "run")
        >>> with only_one(folder):
        ...     with only_one(folder):
        ...         pass
        Traceback (most recent call last):
        raters.errors.RatersError: ...: is in use by process ...
        >>> folder.exists()
        False
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise RatersError("found a file, expected a folder to write to", file=path)
    made = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    handle = None
    try:
        handle, notes = _locked(path)
        yield notes
    finally:
        if handle is not None:
            _release(path, handle)
        for place in made:
            with suppress(OSError):
                place.rmdir()  # only if it is empty


def refuse_locked(folder: str | Path) -> None:
    """Reject a folder that another process uses; nothing is changed.

    Raises:
        RatersError: that names their process, machine and start.
    """
    path = Path(folder)
    if path.resolve() in _own:
        raise _taken(path, _ourselves())
    with suppress(OSError):
        handle = os.open(path / LOCK_FILE, os.O_RDWR)
        try:
            _try(path, handle)
        finally:
            os.close(handle)


def is_empty(folder: Path) -> bool:
    """Return whether a folder holds nothing; a lock, of whomever, is nothing."""
    return all(entry.name == LOCK_FILE for entry in folder.iterdir())


def _locked(folder: Path) -> tuple[int, list[str]]:
    """Lock a folder for this process; say whose lock it was, if they are gone."""
    whole = folder.resolve()
    with _own_lock:  # the system does not keep a process from locking twice
        if whole in _own:
            raise _taken(folder, _ourselves())
        _own.add(whole)
    try:
        handle = _opened(folder)
    except BaseException:
        _own.discard(whole)
        raise
    left = _said(handle)
    notes = [f"{folder}: {_named(left)} is gone; its lock was taken over"] if left else []
    with suppress(OSError):  # on a full disk a lock has no name; it locks all the same
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(_ourselves()).encode() + b"\n", 0)
    return handle, notes


def _opened(folder: Path) -> int:
    path = folder / LOCK_FILE
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _try(folder, handle)
            with suppress(FileNotFoundError):
                # Whoever had it before removes the file: then another one has this name by now.
                if os.path.samestat(os.stat(path), os.fstat(handle)):  # noqa: PTH116
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _try(folder: Path, handle: int) -> None:
    """Lock an open file; a process that is made by this one does not inherit the lock."""
    try:
        import fcntl
    except ImportError:  # Windows: nobody locks
        return
    for left in reversed(range(_LOOKS)):
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in _LACKING:  # some network drives have no locks
                return
            if error.errno not in _TAKEN:
                raise
            if not left:
                raise _taken(folder, _owner(handle)) from None
        time.sleep(0.05)  # somebody may just look whether it is taken


def _release(folder: Path, handle: int) -> None:
    with suppress(OSError):
        (folder / LOCK_FILE).unlink()  # while it is locked: nobody else can have it
    os.close(handle)
    _own.discard(folder.resolve())


def _ourselves() -> dict[str, object]:
    started = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started}


def _owner(handle: int) -> dict[str, object]:
    for _ in range(_TRIES):
        found = _said(handle)
        if found:
            return found
        time.sleep(0.05)
    return {}


def _said(handle: int) -> dict[str, object]:
    """Read whose lock it is; nothing if it does not say so."""
    try:
        found = json.loads(os.pread(handle, 4096, 0))
    except (ValueError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _named(owner: dict[str, object]) -> str:
    if not owner:
        return "another process"
    pid, host, started = (owner.get(name, "?") for name in ("pid", "host", "started"))
    return f"process {pid} on {host}, started {started},"


def _taken(folder: Path, owner: dict[str, object]) -> RatersError:
    message = (
        f"is in use by {_named(owner).removesuffix(',')}: expected a folder that nothing else "
        "writes to; wait until that process ends, or choose another folder"
    )
    return RatersError(message, kind="locked", file=folder)

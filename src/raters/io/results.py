"""A folder of results: one process at a time, and which cases are finished, so that work resumes.

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
from typing import TYPE_CHECKING, Any

from raters.core.errors import RatersError
from raters.core.wording import first_difference
from raters.io.paths import naming, read_text, refuse_file

if TYPE_CHECKING:
    pass

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
        raters.core.errors.RatersError: ...: is in use by process ...
        >>> folder.exists()
        False
    """
    path = Path(folder)
    refuse_file(path)
    made = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    handle = None
    try:
        handle, notes = _locked(path)
        yield notes
    finally:
        if handle is not None:
            with suppress(OSError):
                (path / LOCK_FILE).unlink()  # while it is locked: nobody else can have it
            os.close(handle)
            _own.discard(path.resolve())
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


JOURNAL_FILE = ".import.jsonl"


class Journal:
    """A file with one line per finished case, behind a line that says what is being written.

    Args:
        folder: Where the study is written.
        plan: What is being written; resuming with another plan is an error.
        name: The name of the file.
        anew: Forget what was written before.
    """

    def __init__(
        self, folder: Path, plan: dict[str, Any], name: str = JOURNAL_FILE, anew: bool = False
    ) -> None:
        self._path = folder / name
        self._plan = json.loads(json.dumps(plan))
        self._done: dict[str, str] = {}
        self._places: dict[str, int] = {}  # of facts in the file: memory does not grow with them
        self._end = 0
        folder.mkdir(parents=True, exist_ok=True)
        known = self._path.exists() and not anew
        text = read_text(self._path) if known else ""
        if "\n" in text:
            # Not splitlines(), which also splits at characters that JSON leaves in names.
            self._read(text.split("\n"))
            self._file = open(self._path, "a", encoding="utf-8", newline="")  # noqa: SIM115
            if not text.endswith("\n"):
                self._file.write("\n")  # the last line was cut where the import was stopped
        else:
            self._file = open(self._path, "w", encoding="utf-8", newline="")  # noqa: SIM115
            try:
                self._line(self._plan)
            except OSError:
                self.close()
                raise

    def _read(self, lines: list[str]) -> None:
        plan = _parsed(lines[0])
        if plan != self._plan:
            message = (
                f"holds other work ({first_difference(plan or {}, self._plan)}): "
                "choose another folder, or --overwrite to replace it"
            )
            raise RatersError(message, kind="folder-taken", file=self._path.parent)
        self._end = _length(lines[0])
        for line in lines[1:]:
            entry = _parsed(line)  # the last line may be cut where the import was stopped
            if entry is not None:
                self._done[entry["case"]] = entry["source"]
                self._places[entry["case"]] = self._end
            self._end += _length(line)
        if not lines[-1]:
            self._end -= 1  # behind the last line there is no other

    def has(self, case: str, source: str) -> bool:
        """Return whether a case was written from the same source files."""
        return self._done.get(case) == source

    @property
    def cases(self) -> set[str]:
        """The cases that were written."""
        return {case for case, source in self._done.items() if source}

    def finish(self, case: str, source: str, facts: Any = None) -> None:  # noqa: ANN401
        """Note that a case is written whole (or, without a source, that it is not there any more).

        `facts` are what is worth to be kept of it.
        """
        self._done[case] = source
        self._places[case] = self._end
        kept = {} if facts is None else {"facts": facts}
        self._line({"case": case, "source": source, **kept})

    def facts(self, case: str) -> Any:  # noqa: ANN401
        """Return what was kept of a case."""
        if case not in self._places:
            return None
        with open(self._path, "rb") as file:
            file.seek(self._places[case])
            entry = _parsed(file.readline().decode("utf-8"))
        return None if entry is None else entry.get("facts")

    def _line(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False)
        with naming(self._path):
            self._file.write(line + "\n")
            self._file.flush()
        self._end += _length(line)

    def close(self) -> None:
        """Close the file; it stays, so that a later call finds nothing left to do."""
        with suppress(OSError):  # of a line that the disk had no space for, which was reported
            self._file.close()


def _length(line: str) -> int:
    """Return the bytes of a line with its end."""
    return len(line.encode("utf-8")) + 1


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None

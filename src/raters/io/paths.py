"""File names for any name, regular files only, and writing that is whole or not at all.

A name may hold anything (`../x`, `a/b`, `<script>`): what is unsafe in a file name is
percent-coded, so different names never share a file and no name leaves its folder.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote
from uuid import uuid4

from raters.core.errors import RatersError

SOFT_FOLDER = "soft"
ENTROPY_FOLDER = "entropy"
CONFUSION_FOLDER = "confusion"
CONFIDENCE_FOLDER = "confidence"
"""Where `raters fuse` and `raters predict` write probabilities, uncertainty and matrices."""
PREDICT_JOURNAL = ".predict.jsonl"
FUSE_JOURNAL = ".fuse.jsonl"
"""The files that say which cases `raters predict` and `raters fuse` have finished in a folder."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def refuse_special(path: Path) -> None:
    """Reject a pipe, a device or a socket (or a link to one) before it is opened.

    Reading one may wait for ever, or give bytes without end. Folders and what is not there are
    left to whoever opens them.

    Raises:
        RatersError: that names the file and what it is.

    Example:
        >>> refuse_special(Path("/dev/null"))
        Traceback (most recent call last):
        raters.core.errors.RatersError: /dev/null: found a device, expected a regular file
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return
    if kind in _KINDS:
        message = f"found {_KINDS[kind]}, expected a regular file"
        raise RatersError(message, kind="unreadable", file=path)


def refuse_file(path: Path) -> None:
    """Reject a file where a folder is to be written to."""
    if path.exists() and not path.is_dir():
        raise RatersError("found a file, expected a folder to write to", file=path)


def read_text(path: Path) -> str:
    """Read a text file (UTF-8); what `Path.read_text` raises is left as it is.

    Raises:
        RatersError: for what is no regular file.
    """
    refuse_special(path)
    return path.read_text(encoding="utf-8")


_UNSAFE = set('%/\\:*?"<>|')
_TEMPORARY = ".tmp-"
_EMPTY = "%"  # for no name at all; no other name is coded so


def file_name(name: str) -> str:
    """Turn a rater's name into one that is safe as a file or folder; `from_file_name` inverts it.

    Example:
        >>> file_name("../x"), file_name("Jürgen K."), file_name("..")
        ('%2E.%2Fx', 'Jürgen K%2E', '%2E%2E')
    """
    if not name:
        return _EMPTY
    unsafe = [c in _UNSAFE or ord(c) < 32 for c in name]
    # A leading dot hides a file; dots and blanks at the end vanish on some systems.
    for position in (0, -1):
        if name[position] in ". ":
            unsafe[position] = True
    # All that is unsafe is ASCII.
    return "".join(f"%{ord(c):02X}" if bad else c for c, bad in zip(name, unsafe, strict=True))


def from_file_name(coded: str) -> str:
    """Return back the name that `file_name` was given.

    Example:
        >>> from_file_name("%2E.%2Fx")
        '../x'
    """
    return "" if coded == _EMPTY else unquote(coded)


def case_path(case: str) -> str:
    """Return the relative path of a case without its suffix: parts of its identity become folders.

    Example:
        >>> case_path("LIDC-IDRI-0001/0/slice 3"), case_path("../x")
        ('LIDC-IDRI-0001/0/slice 3', '%2E%2E/x')
    """
    # An empty part ('/x', 'x/', 'x//y') gets a name too, which no other part has.
    return "/".join(file_name(part) or "%" for part in case.split("/"))


def map_folder(name: str) -> str:
    """Return the folder in which `raters predict` writes a map: a rater's labels, a sample.

    Example:
        >>> map_folder("as:ann"), map_folder("as:../x"), map_folder("sample:0")
        ('as-ann', 'as-%2E.%2Fx', 'sample-0')
    """
    kind, _, which = name.partition(":")
    return f"{kind}-{file_name(which)}"


def temporary_beside(path: Path) -> Path:
    """Return a hidden name with the same suffix beside `path`, to write to before a rename."""
    # Not tempfile: its files are private to the user, whatever the umask says.
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f"{_TEMPORARY}{uuid4().hex[:12]}-{path.name[-40:]}")  # may be long


@contextmanager
def written_whole(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file that takes the place of `path` only if the block ends well."""
    temporary = temporary_beside(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with naming(path):
            with open(temporary, mode, **text) as file:  # type: ignore[call-overload]
                yield file
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let what the system refuses name the file: a full disk alone names none.

    Example:
        >>> with naming(Path("a.csv")):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: 'a.csv'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(error.filename).name.startswith(_TEMPORARY):
            error.filename = str(path)
        raise

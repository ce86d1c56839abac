"""Files of a study or a model are regular files: a pipe or a device may never end."""

from __future__ import annotations

import stat
from pathlib import Path

from raters.errors import RatersError

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
        raters.errors.RatersError: /dev/null: found a device, expected a regular file
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return
    if kind in _KINDS:
        message = f"found {_KINDS[kind]}, expected a regular file"
        raise RatersError(message, kind="unreadable", file=path)


def read_text(path: Path) -> str:
    """Read a text file (UTF-8); what `Path.read_text` raises is left as it is.

    Raises:
        RatersError: for what is no regular file.
    """
    refuse_special(path)
    return path.read_text(encoding="utf-8")

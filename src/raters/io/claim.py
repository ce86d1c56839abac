"""Whose a folder of results is: a verb writes into new folders and its own, and nowhere else.

A verb knows a folder as its own by a journal that it keeps there, or by `.raters.json`, which says
which verbs wrote which files there. Its own files it may replace; any other file stays as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raters.core.errors import RatersError
from raters.io.paths import read_text, refuse_file
from raters.io.results import LOCK_FILE
from raters.io.rows import write_json

MARK_FILE = ".raters.json"
MARK_FORMAT = "raters-folder/1"


@dataclass(frozen=True)
class Owner:
    """A verb that writes into a folder.

    Attributes:
        verb: Its name, as `.raters.json` has it.
        earlier: What an earlier call left, for messages: 'one of an earlier fusion'.
        journals: Files of which an earlier call left some; one of them is enough.
        left: What may be there of a call that was stopped before it wrote anything else.
    """

    verb: str
    earlier: str
    journals: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def check_folder(folder: str | Path, owner: Owner, files: Iterable[str] = ()) -> None:
    """Reject a folder where a verb would replace or join what it did not write.

    Args:
        folder: Where to write; it need not be there.
        owner: The verb.
        files: The files that are to be written, as paths in the folder. Verbs with a journal,
            which know what they wrote, give none.

    Raises:
        RatersError: that names the folder, and a file in it. Nothing is changed.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> claim_folder(folder, Owner("agree", "one of raters agree"), ["pairs.csv"])
        >>> check_folder(folder, Owner("report", "one of raters report"), ["report.html"])
        Traceback (most recent call last):
        raters.core.errors.RatersError: ...: found a folder with other files (.raters.json), ...
    """
    path = Path(folder)
    refuse_file(path)
    names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    known = _files_by_verb(path)
    foreign = [name for name in names if name not in (LOCK_FILE, *owner.left)]
    has_journal = any((path / journal).exists() for journal in owner.journals)

    if foreign and not has_journal and owner.verb not in known:
        # Hidden files tell a user little.
        shown = min(foreign, key=lambda name: (name.startswith("."), name))
        why = f"found a folder with other files ({shown}), expected a new one or {owner.earlier}"
        raise RatersError(why, kind="folder-taken", file=path)

    own = known.get(owner.verb, [])
    for name in files:
        if name not in own and os.path.lexists(path / name):
            why = (
                f"found {name}, which raters {owner.verb} did not write; "
                "expected another folder, or none of that name"
            )
            raise RatersError(why, kind="folder-taken", file=path)


def claim_folder(folder: str | Path, owner: Owner, files: Sequence[str]) -> None:
    """Make a folder a verb's own, and note the files that it is about to write there.

    Raises:
        RatersError: as `check_folder`.
    """
    check_folder(folder, owner, files)
    path = Path(folder)
    known = _files_by_verb(path)
    own = known.get(owner.verb)
    noted = list(dict.fromkeys([*(own or []), *files]))
    if noted != own:
        known[owner.verb] = noted
        write_json(path / MARK_FILE, {"format": MARK_FORMAT, "files": known})


def _files_by_verb(folder: Path) -> dict[str, list[str]]:
    """Return the files that verbs wrote in a folder; a mark that is none of ours says nothing."""
    try:
        content: Any = json.loads(read_text(folder / MARK_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("format") != MARK_FORMAT:
        return {}
    files = content.get("files")
    if not isinstance(files, dict) or not all(isinstance(own, list) for own in files.values()):
        return {}
    return files

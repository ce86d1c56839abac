"""Patterns such as `masks/{rater}/{case}.nii.gz`: which files a study is made of.

A name in braces stands for one or more characters within a folder level. `{case}` takes as much as
it can and other names as little, so that `{rater}_{case}` and `{case}_{rater}` both do what one
means when cases have underscores in their names. `*` stands for anything within a level.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.core.errors import RatersError
from raters.core.wording import listing

_FIELD = re.compile(r"\{([^{}]*)\}")
_NOT_UTF8 = re.compile("[\ud800-\udfff]")


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern: it has a brace, and nothing of that very name is there.

    Example:
        >>> is_pattern("masks/{rater}.png"), is_pattern("masks")
        (True, False)
    """
    # Not Path.exists: it fails where a name is longer than a name of a file can be.
    return "{" in text and not os.path.exists(text)  # noqa: PTH110


@dataclass(frozen=True)
class Match:
    """A file that a pattern found, and what the names in braces stand for."""

    path: Path
    fields: dict[str, str]


@dataclass(frozen=True)
class Pattern:
    """A path with names in braces.

    Example:
        >>> pattern = Pattern("masks/{rater}/{case}.nii.gz")
        >>> pattern.fields
        ('rater', 'case')
        >>> pattern.match("alice/scan_1.nii.gz")
        {'rater': 'alice', 'case': 'scan_1'}
    """

    text: str
    root: Path = field(init=False)
    levels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        for name in _FIELD.findall(self.text):
            if not name.isidentifier():
                raise RatersError(
                    f"found {{{name}}} in the pattern {self.text!r}, "
                    "expected a name of letters and digits, as in {rater} or {case}"
                )
        parts = Path(self.text.rstrip("/")).parts
        fixed = next((k for k, p in enumerate(parts) if "{" in p or "*" in p), len(parts) - 1)
        object.__setattr__(self, "root", Path(*parts[:fixed]) if fixed else Path())
        object.__setattr__(self, "levels", parts[fixed:])

    @property
    def fields(self) -> tuple[str, ...]:
        """The names in braces, each once, in order."""
        return tuple(dict.fromkeys(_FIELD.findall(self.text)))

    def match(self, relative: str) -> dict[str, str] | None:
        """Return what the names stand for in a path below the root; None if it does not fit."""
        found = self._regex().fullmatch(relative)
        return None if found is None else found.groupdict()

    def _regex(self) -> re.Pattern[str]:
        return re.compile(_expression("/".join(self.levels), named=True))

    def walk(self, problems: list[RatersError]) -> Iterator[Match]:
        """Find all files (or folders, for DICOM series) that fit, in a stable order.

        Folders that cannot be read and links to folders that lead nowhere are added to `problems`.
        """
        regex = self._regex()
        levels = [re.compile(_expression(level, named=False)) for level in self.levels]
        for relative in _descend(self.root, "", levels, problems):
            found = regex.fullmatch(relative)
            if found is not None:
                yield Match(self.root / relative, found.groupdict())

    def nothing_found(self) -> RatersError:
        """Return where the pattern stops to fit and what is there instead."""
        folder = self.root
        missed = 0
        while True:
            level = re.compile(_expression(self.levels[missed], named=False))
            names = _listed(folder)
            folders = [n for n in names if level.fullmatch(n) and (folder / n).is_dir()]
            if missed + 1 >= len(self.levels) or not folders:
                break
            folder = folder / folders[0]
            missed = missed + 1
        if not self.root.exists():
            missing = next(p for p in (*reversed(self.root.parents), self.root) if not p.exists())
            message = f"no such folder (looking for {self.text!r}); {there(missing.parent)}"
            return RatersError(message, kind="missing-folder", file=missing)
        return RatersError(
            f"nothing matches {self.text!r}: expected names like {self.levels[missed]!r} "
            f"in {folder}, {there(folder)}",
            kind="empty",
        )


def _expression(text: str, named: bool) -> str:
    """Write a regular expression for a pattern; a repeated name must match the same text."""
    seen: set[str] = set()
    parts = []
    for piece in re.split(r"(\{[^{}]*\}|\*)", text):
        name = piece[1:-1] if piece.startswith("{") else None
        if piece == "*":
            parts.append("[^/]*")
        elif name is None:
            parts.append(re.escape(piece))
        elif named and name in seen:
            parts.append(f"(?P={name})")
        else:
            seen.add(name)
            some = "[^/]+" if name == "case" else "[^/]+?"
            parts.append(f"(?P<{name}>{some})" if named else some)
    return "".join(parts)


def _descend(
    root: Path, relative: str, levels: list[re.Pattern[str]], problems: list[RatersError]
) -> Iterator[str]:
    folder = root / relative
    for name in _listed(folder, problems):
        if not levels[0].fullmatch(name):
            continue
        if _NOT_UTF8.search(name):  # older systems wrote such names
            found = os.fsencode(name)
            message = f"found the name {found!r}, expected one in UTF-8: please rename it"
            problems.append(RatersError(message, kind="file-name", file=folder))
            continue
        below = f"{relative}/{name}" if relative else name
        if len(levels) == 1:
            yield below  # a dead link too: its case cannot be read, and says so
        elif _kind(folder / name, problems) == "folder":
            yield from _descend(root, below, levels[1:], problems)


def _listed(folder: Path, problems: list[RatersError] | None = None) -> list[str]:
    """List the names in a folder, hidden ones left out, sorted."""
    try:
        return sorted(n for n in os.listdir(folder) if not n.startswith("."))
    except OSError as error:
        if problems is not None and folder.exists():
            reason = error.strerror or str(error)
            problems.append(RatersError(f"cannot list: {reason}", kind="unreadable", file=folder))
        return []


def _kind(path: Path, problems: list[RatersError]) -> str | None:
    """Return whether a path is a file or a folder; a link that leads nowhere is a problem."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        reason = error.strerror or str(error)
        what = "a link that leads nowhere" if path.is_symlink() else "cannot be read"
        problems.append(RatersError(f"{what}: {reason}", kind="unreadable", file=path))
        return None
    return "folder" if stat.S_ISDIR(mode) else "file"


def there(folder: Path) -> str:
    """Report in a few words what is in a folder."""
    names = _listed(folder)
    if not names:
        return f"{folder} is empty" if folder.exists() else f"{folder} is not there"
    return f"there {'are' if len(names) > 1 else 'is'} {listing(names, 6, repr)}"


_DIGITS = re.compile("[0-9]+")


def natural_key(name: str) -> str:
    """Return a key that sorts names as people count: digits within a name compare as a number.

    Numbers of equal value ("7", "007") are told apart by the name as it is written, so the order
    never depends on the order in which names come. (natsort leaves such names in that order.)

    Example:
        >>> sorted(["scan 10", "scan 9", "scan 009", "Scan 1"], key=natural_key)
        ['Scan 1', 'scan 009', 'scan 9', 'scan 10']
    """
    return f"{_DIGITS.sub(_with_length, name)}\0{name}"


def _with_length(digits: re.Match[str]) -> str:
    """Put the number of digits in front, so that comparing texts compares numbers."""
    number = digits[0].lstrip("0") or "0"
    nines, rest = divmod(len(number), 9)
    return f"{'9' * nines}{rest}{number}"


def natural_order(names: Sequence[str]) -> NDArray[np.intp]:
    """Return the positions that sort `names` naturally (as `numpy.argsort` does).

    Example:
        >>> natural_order(["b", "a10", "a9"])
        array([2, 1, 0])
    """
    keys = [natural_key(name) for name in names]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)

"""Remembers which cases were written, with checksums, so that interrupted work resumes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from raters.arrays import Array
from raters.errors import RatersError
from raters.study.paths import naming, read_text, refuse_special, written_whole
from raters.study.study import Study
from raters.wording import first_difference

SUMS_FILE = "sums.json"
_BLOCK = 1 << 20  # bytes


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write size and CRC-32 of those files that are there; no file if none is."""
    there = [name for name in sorted(names) if (folder / name).is_file()]
    if not there:
        (folder / SUMS_FILE).unlink(missing_ok=True)
        return
    sums = {name: _sum(folder / name) for name in there}
    with written_whole(folder / SUMS_FILE) as file:
        file.write(json.dumps(sums, indent=2) + "\n")


def _sum(path: Path) -> dict[str, int]:
    check = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            check = zlib.crc32(block, check)
        return {"bytes": file.tell(), "crc32": check}


def sum_errors(folder: Path) -> Iterator[RatersError]:
    """Compare files with what was written; a folder without sums says nothing."""
    path = folder / SUMS_FILE
    if not path.exists():
        return
    try:
        expected = _expected(path)
    except RatersError as error:
        yield error
        return
    for name, known in expected.items():
        file = folder / name
        try:
            refuse_special(file)
            found = _sum(file)
        except OSError as error:
            message = f"{error.strerror or error}, expected {known['bytes']:,} bytes as written"
            yield RatersError(message, kind="missing-file", file=file)
            continue
        except RatersError as error:
            yield error
            continue
        if found["bytes"] != known["bytes"]:
            message = f"found {found['bytes']:,} bytes, expected {known['bytes']:,} as written"
            yield RatersError(message, kind="damaged", file=file)
        elif found["crc32"] != known["crc32"]:
            message = "found other content than was written, expected the same checksum"
            yield RatersError(message, kind="damaged", file=file)


def _expected(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
        return {
            # A stranger's file may name anything: only what lies in the folder is read.
            Path(name).name: {key: int(known[key]) for key in ("bytes", "crc32")}
            for name, known in content.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"cannot be read ({type(error).__name__}), expected sizes and checksums by file"
        raise RatersError(message, kind="unreadable", file=path) from None


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

    def forget(self, case: str) -> None:
        """Note that a case is not there any more."""
        self.finish(case, "")

    def finish(self, case: str, source: str, facts: Any = None) -> None:  # noqa: ANN401
        """Note that a case is written whole, with what is worth to be kept of it."""
        self._done[case], self._places[case] = source, self._end
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


def _arrays(study: Study, row: int) -> Iterator[Array]:
    masks = [study.backend.mask(row, rater) for rater in (*study.raters, None)]
    parts = [mask and (mask.values, mask.geometry) for mask in masks]
    image = study.backend.image(row, None)
    for part in (*parts, image and (image.array, image.geometry)):
        array, geometry = part or (np.zeros(0), None)
        yield array
        yield np.zeros(0) if geometry is None or geometry.affine is None else geometry.affine


def source_of(study: Study, position: int) -> str:
    """Return a fingerprint of what a case is read from.

    Files are identified by their names, sizes and times; arrays only by what they hold.
    """
    digest = blake2b(digest_size=12)
    files = study.backend.files(study.row(position))
    for array in () if files else _arrays(study, study.row(position)):
        digest.update(f"{array.shape} {array.dtype.str}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    for path in files:
        try:
            facts = path.stat()
            digest.update(f"{path}|{facts.st_size}|{facts.st_mtime_ns}\n".encode())
        except (OSError, ValueError):  # a name that no file can have
            digest.update(f"{path}|unreadable\n".encode())
    return digest.hexdigest()

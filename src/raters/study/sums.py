"""Sizes and checksums of the arrays and tables of a study folder, so that damage is noticed.

Masks and images in files are checked by their formats; raw arrays would not show a flipped bit.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from raters.errors import RatersError
from raters.study.paths import written_whole
from raters.study.regular import read_text, refuse_special

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

"""Text files of tables: decompression, encoding, separator, first row; runs of blanks."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import pyarrow as pa

from raters.core.errors import RatersError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD_BYTES = 1 << 22
"""How much of a file is looked at to tell what it is."""

_BLANKS_BYTES = 1 << 23
_SNIFFED_CHARACTERS = 1 << 16
_SNIFFED_LINES = 20


def open_bytes(path: Path) -> pa.NativeFile:
    """Open a file, and decompress it if its suffix says so."""
    return pa.input_stream(path, compression="detect")


def decoded(head: bytes) -> str:
    """Read the head of a file as UTF-8, and reject what is no text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        refuse_encoding()
    if b"\0" in head:
        message = "is not a text file; expected CSV, TSV, whitespace-separated text or Parquet"
        raise RatersError(message, kind="unreadable")
    try:
        # The last character may be cut in two, which an incremental decoder does not mind.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError as error:
        refuse_encoding(len(re.findall(rb"\r\n|\r|\n", head[: error.start])) + 1)
    if not text.strip():
        raise RatersError("is empty, expected a table with a row per label or task", kind="table")
    return text


def refuse_encoding(line: int | None = None) -> NoReturn:
    """Report that text must be UTF-8; without a line it is UTF-16."""
    found = "text in UTF-16" if line is None else f"bytes that are not UTF-8 in line {line}"
    raise RatersError(
        f'found {found}, expected UTF-8 (save it again as "CSV UTF-8")', kind="unreadable"
    )


def separator(path: Path, text: str) -> str:
    """Tell the separator from the suffix and the first lines; a blank means any whitespace."""
    suffix = _suffix(path)
    if suffix == ".tsv":
        return "\t"
    unquoted = re.sub(r'"[^"]*"', "", text[:_SNIFFED_CHARACTERS])
    lines = [line for line in re.split(r"[\r\n]+", unquoted)[:_SNIFFED_LINES] if line.strip()]
    # The last line may be cut.
    lines = lines[:-1] if len(text) > _SNIFFED_CHARACTERS and len(lines) > 1 else lines

    def regular(separator: str) -> bool:
        counts = {line.count(separator) for line in lines}
        return len(counts) == 1 and counts != {0}

    best = max(",;\t", key=lambda separator: (regular(separator), lines[0].count(separator)))
    if suffix == ".csv" or regular(best) or not re.search(r"\S[ \t]+\S", lines[0]):
        return best
    return " "


def _suffix(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2", ".zst") else path
    return plain.suffix.lower()


def first_row(text: str, separator: str) -> list[str]:
    """Split the first line that is not empty."""
    if separator == " ":
        text = _single_blanks(text.encode()).decode()
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return [cell.strip() for cell in next(row for row in rows if row)]
    except csv.Error as error:
        raise RatersError(f"its first line cannot be read ({error})", kind="unreadable") from error


class SingleBlanks(io.RawIOBase):
    """A stream in which runs of blanks and tabs are one blank, and none is at a line's ends."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._unfinished = b""
        self._ready = b""

    def readable(self) -> bool:
        """Report that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer; whole lines are treated at a time."""
        while not self._ready:
            block = self._raw.read(_BLANKS_BYTES)
            data = self._unfinished + block
            if not data:
                return 0
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 if block else len(data)
            self._ready = _single_blanks(data[:end])
            self._unfinished = data[end:]
            if not block:
                break
        view = memoryview(buffer)
        size = min(len(view), len(self._ready))
        view[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def _single_blanks(lines: bytes) -> bytes:
    if b'"' in lines:
        lines = re.sub(rb'("[^"]*")|[ \t]+', lambda match: match[1] or b" ", lines)
    else:
        lines = re.sub(rb"[ \t]+", b" ", lines)
    return re.sub(rb"(^|[\r\n]) ", rb"\1", re.sub(rb" (?=[\r\n]|\Z)", b"", lines))

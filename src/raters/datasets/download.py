"""Fetches files of public data sets: resumes where it stopped, and checks before it names them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raters.errors import RatersError
from raters.progress import track

if TYPE_CHECKING:
    from http.client import HTTPResponse

PART = ".part"
BLOCK = 1 << 18
TIMEOUT = 30.0
"""Seconds without a byte until a try is given up."""

TRIES = 3


@dataclass(frozen=True)
class Download:
    """A file to fetch.

    Attributes:
        url: Its address.
        file: Its name in the folder of the data set.
        checksum: `"md5:..."` or `"sha256:..."`.
        bytes: Its size.
    """

    url: str
    file: str
    checksum: str
    bytes: int


def fetch(download: Download, folder: Path, progress: bool = False, tries: int = TRIES) -> Path:
    """Fetch a file; one that is there already is left as it is.

    What has come is kept in `<file>.part`, so that a later call resumes from there. The file gets
    its name only when size and checksum are right.

    Args:
        download: What to fetch.
        folder: Where to put it.
        progress: Show a progress bar.
        tries: How often to try before giving up.

    Raises:
        RatersError: that says what to fetch by hand, from where, and where to put it.
    """
    final = folder / download.file
    if final.exists():
        return final
    folder.mkdir(parents=True, exist_ok=True)
    part = final.with_name(final.name + PART)
    reason = "not tried"
    for _ in range(tries):
        reason = _try(download, part, progress)
        if not reason:
            _check(download, part)
            return part.replace(final)
    raise _by_hand(download, final, reason)


def _try(download: Download, part: Path, progress: bool) -> str:
    """Fetch what is missing once; give the reason why it is not all there, '' if it is."""
    have = part.stat().st_size if part.exists() else 0
    if have > download.bytes:  # of another version of the file
        part.unlink()
        have = 0
    if have < download.bytes:
        from http.client import HTTPException

        try:
            _append(download, part, have, progress)
        except (OSError, ValueError, HTTPException) as error:  # time-outs are OSErrors
            return str(getattr(error, "reason", None) or error or type(error).__name__)
    have = part.stat().st_size
    return "" if have == download.bytes else f"{have:,} of {download.bytes:,} bytes came"


def _append(download: Download, part: Path, have: int, progress: bool) -> None:
    from urllib.request import Request, urlopen

    if not download.url.startswith(("http://", "https://")):
        raise ValueError(f"found the address {download.url!r}, expected http or https")
    headers = {"User-Agent": "raters"} | ({"Range": f"bytes={have}-"} if have else {})
    with urlopen(Request(download.url, headers=headers), timeout=TIMEOUT) as response:
        part_of = response.headers.get("Content-Range") or ""
        resumed = response.status == 206 and part_of.startswith(f"bytes {have}-")
        left = download.bytes - (have if resumed else 0)
        blocks = track(
            _blocks(response, left), -(-left // BLOCK), f"fetching {download.file}", progress
        )
        with open(part, "ab" if resumed else "wb") as file:
            for block in blocks:
                file.write(block)


def _blocks(response: HTTPResponse, wanted: int) -> Iterator[bytes]:
    """Return what comes, and at most a byte more than wanted: enough to see that it is too much."""
    left = wanted + 1
    while left > 0 and (block := response.read(min(BLOCK, left))):
        left -= len(block)
        yield block


def _check(download: Download, part: Path) -> None:
    """Reject a file with another checksum, and do not keep it."""
    kind, _, expected = download.checksum.partition(":")
    with open(part, "rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected:
        part.unlink()
        message = (
            f"found {kind} {found} in what came from {download.url}, expected {expected}; "
            "it was not kept"
        )
        raise RatersError(message, kind="checksum", file=part.with_name(download.file))


def _by_hand(download: Download, final: Path, reason: str) -> RatersError:
    message = (
        f"could not be fetched ({reason}); get {download.url} "
        f"({download.bytes:,} bytes, {download.checksum}) in another way and save it as {final}"
    )
    return RatersError(message, kind="download", file=final)

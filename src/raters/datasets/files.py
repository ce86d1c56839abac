"""Files of public data sets: fetched so that they resume and are checked; pickles that run nothing.

A pickle may name any function to be called. Only those that put numpy arrays together are known
here; any other name is rejected before it is looked up.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from raters.core.errors import RatersError
from raters.core.progress import track

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


def fetch(download: Download, folder: Path, *, progress: bool = False, tries: int = TRIES) -> Path:
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
    message = (
        f"could not be fetched ({reason}); get {download.url} "
        f"({download.bytes:,} bytes, {download.checksum}) in another way and save it as {final}"
    )
    raise RatersError(message, kind="download", file=final)


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


_HEADS = 3  # torch wrote a magic number, a version and facts of the system in front, before zip


def _reconstruct(kind: type, shape: tuple[int, ...], dtype: Any) -> Any:  # noqa: ANN401
    """Stand in for numpy's own function, for plain arrays only."""
    if kind is not np.ndarray:
        raise pickle.UnpicklingError(f"found an array of type {kind!r}, expected numpy.ndarray")
    return np.ndarray.__new__(np.ndarray, shape, dtype)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Stand in for codecs.encode, which pickles of protocol 2 call for bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"found text in {encoding!r}, expected latin1")
    return text.encode("latin1")


def _scalar(dtype: np.dtype[Any], content: bytes | str) -> Any:  # noqa: ANN401
    raw = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(raw, dtype, 1)[0]


def _frombuffer(buffer: Any, dtype: Any, shape: tuple[int, ...], order: str) -> Any:  # noqa: ANN401
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)  # type: ignore[call-overload]


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}
for _core in ("numpy.core", "numpy._core"):
    _KNOWN[f"{_core}.multiarray", "_reconstruct"] = _reconstruct
    _KNOWN[f"{_core}.multiarray", "scalar"] = _scalar
    _KNOWN[f"{_core}.numeric", "_frombuffer"] = _frombuffer


class _Unpickler(pickle.Unpickler):
    """Knows how to put arrays together, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(
                f"found a call of {module}.{name}, expected numpy arrays and plain values only"
            )
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:  # noqa: ANN401, ARG002
        raise pickle.UnpicklingError("found torch tensors, expected numpy arrays")


def load_pickle(file: IO[bytes], source: str | Path) -> Any:  # noqa: ANN401
    """Read one pickle from an open file.

    Args:
        file: The file, where the pickle begins.
        source: What to call it in errors.

    Raises:
        RatersError: It is no whole pickle, or one that wants to call something.

    Example:
        >>> load_pickle(io.BytesIO(pickle.dumps({"a": np.arange(3)})), "x")
        {'a': array([0, 1, 2])}
        >>> load_pickle(io.BytesIO(pickle.dumps(print)), "x")
        Traceback (most recent call last):
        raters.core.errors.RatersError: x: not read: found a call of builtins.print, ...
    """
    try:
        return _Unpickler(file, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise _refused(source, str(error)) from None
    except Exception as error:  # what a broken pickle raises can be anything
        raise _refused(source, f"not a whole pickle ({type(error).__name__}: {error})") from None


def load_torch_pickle(path: Path) -> Any:  # noqa: ANN401
    """Read what `torch.save` wrote of plain values and numpy arrays, without torch."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            for _ in range(_HEADS):
                load_pickle(file, path)
            return load_pickle(file, path)
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((n for n in archive.namelist() if n.split("/")[-1] == "data.pkl"), None)
            if name is None:
                raise _refused(path, "found no data.pkl in it, expected a file by torch.save")
            return load_pickle(io.BytesIO(archive.read(name)), path)
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise _refused(path, f"not a whole archive: {error}") from None


def _refused(source: str | Path, reason: str) -> RatersError:
    return RatersError(f"not read: {reason}", kind="unreadable", file=source)

"""Reads pickles that hold numpy arrays and plain values, and runs nothing that is in them.

A pickle may name any function to be called. Only those that put numpy arrays together are known
here; any other name is rejected before it is looked up.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np

from raters.errors import RatersError

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
        raters.errors.RatersError: x: not read: found a call of builtins.print, expected numpy ...
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

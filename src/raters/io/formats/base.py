"""What all formats share: their table entry, guarded reading, honest headers, whole writes."""

from __future__ import annotations

import importlib
import math
import os
import re
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from raters.core.arrays import Array, Floats
from raters.core.errors import RatersError
from raters.core.geometry import Header, Volume
from raters.io.paths import refuse_special, temporary_beside

Affine = Floats | None
Write = Callable[[Path, Array, Affine], None]

# The most bytes that one stored byte can become. Deflate's limit is a matter of its format
# (258 bytes from 2 bits); LZW's longest entry is 4096 bytes from 12 bits; a JPEG block of
# 64 samples takes at least 1 bit. Other codecs (zstd, bzip2) have no useful limit.
RAW = 1.0
DEFLATE = 1032.0
LZW = 4096.0
JPEG = 4096.0
UNLIMITED = math.inf
_SLACK = 4096


@dataclass(frozen=True)
class Format:
    """One family of files and how to read and write it.

    The functions may raise whatever their library raises; the public functions of
    `raters.io.formats` turn that into a `RatersError` that names the file.

    Attributes:
        name: What people call it.
        suffixes: Lower-case endings of file names, with the dot.
        probe: Reads the header and never the voxels.
        read_image: Reads `(*space)` or `(channels, *space)`.
        read_labels: Reads `(*space)`, in the type that the file has.
        write_image: Writes `(channels, *space)`; None if the package does not write it.
        write_labels: Writes integers `(*space)`; None if the package does not write it.
    """

    name: str
    suffixes: tuple[str, ...]
    probe: Callable[[Path], Header]
    read_image: Callable[[Path], Volume]
    read_labels: Callable[[Path], Volume]
    write_image: Write | None = None
    write_labels: Write | None = None


class SharedContext:
    """A context around global state that several threads may be in at once.

    The first to come in sets it up, the last to leave undoes it. (Two threads inside
    `warnings.catch_warnings` would otherwise restore each other's filters.)
    """

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0
        self._context: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._context = self._make()
                self._context.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._context is not None:
                self._context.__exit__(None, None, None)


@contextmanager
def _ignore_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_quiet = SharedContext(_ignore_warnings)


def unreadable(message: str, file: Path | None = None) -> RatersError:
    """Report that a file is not what it should be; `reading` names it, unless it is another one."""
    return RatersError(message, kind="unreadable", file=file)


@contextmanager
def reading(path: Path, name: str) -> Iterator[None]:
    """Turn whatever goes wrong while reading `path` into a `RatersError` that names it.

    Args:
        path: The file or folder.
        name: What the file should be, for the message.
    """
    if not path.exists():
        dead = f"a link to {os.readlink(path)}, but " if path.is_symlink() else ""  # noqa: PTH115
        raise RatersError(f"{dead}there is no such file", kind="missing-file", file=path)
    refuse_special(path)
    if path.is_file() and path.stat().st_size == 0:
        raise unreadable("file is empty (0 bytes)", path)
    try:
        with _quiet:
            yield
    except RatersError as error:
        raise error.at(file=path) from error.__cause__
    except MemoryError as error:
        message = f"needs more memory than there is ({error or 'MemoryError'})"
        raise RatersError(message, kind="memory", file=path) from error
    except Exception as error:
        raise unreadable(_describe(error, name), path) from error


def _describe(error: Exception, name: str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The last line of a SimpleITK or nrrd message is the innermost, and says what happened.
    reason = lines[-1] if lines else type(error).__name__
    reason = re.sub(r"^(sitk::|ITK )ERROR: (\w+\(0x[0-9a-f]+\): )?", "", reason)
    if isinstance(error, EOFError | zlib.error):
        return f"truncated or corrupt gzip: {reason}"
    return f"not a readable {name} file: {reason}"


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that becomes `path` if nothing goes wrong; its folder is made.

    Unlike `written_whole` it is not open, for libraries that open files themselves; its ending, in
    lower case, tells them the format.
    """
    temporary = None
    try:
        temporary = temporary_beside(path.with_name(path.name.lower()))
        yield temporary
        temporary.replace(path)
    except RatersError as error:  # of a writer, which knows the temporary file only
        raise RatersError(error.message, kind=error.kind, file=path) from error.__cause__
    except (OSError, RuntimeError) as error:
        message = f"cannot be written: {str(error).splitlines()[-1]}"
        raise RatersError(message, kind="unwritable", file=path) from error
    finally:
        with suppress(OSError):
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def usable_memory() -> int:
    """The memory that this process may use, in bytes: the machine's, or less by a limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(ImportError):  # not on Windows
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [soft] if soft != resource.RLIM_INFINITY else []
    with suppress(OSError, ValueError):  # of a container
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)


def check_claim(
    path: Path,
    shape: tuple[int, ...],
    bits: int,
    *,
    stored: float | None = None,
    factor: float = RAW,
) -> None:
    """Reject a header that claims more than the file can hold, before anything is allocated.

    Args:
        path: The file.
        shape: The shape that the header claims, with channels.
        bits: The bits of one value in the file.
        stored: The bytes in which the values are stored; the file's size by default.
        factor: The most bytes that one stored byte can become.

    Raises:
        RatersError: If the shape is not positive, or too much for the file or the memory.
    """
    stored = path.stat().st_size if stored is None else stored
    claimed = math.prod(shape) * bits // 8
    claim = f"header claims shape {shape} = {claimed:,} bytes"
    if min(shape, default=0) < 1:
        message = f"header claims shape {shape}, expected at least one voxel along every axis"
    elif factor == RAW and claimed > stored:
        message = f"truncated: {claim}, file has {stored:,}"
    elif factor != RAW and claimed > stored * factor + _SLACK:
        message = f"{claim}, but {stored:,} compressed bytes cannot hold them"
    elif claimed > usable_memory():
        message = f"{claim}, but there are {usable_memory():,} bytes of memory"
    else:
        return
    raise unreadable(message)


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Reject values that are not plain numbers or truth values."""
    if dtype.kind not in "buif":
        raise unreadable(f"found values of type {dtype}, expected real numbers")


def one_channel(channels: int | None) -> None:
    """Reject labels with several channels."""
    if channels is not None and channels > 1:
        raise RatersError(
            f"found {channels} channels, expected one label per voxel", kind="channels"
        )


def refuse_jpeg() -> NoReturn:
    """Reject labels that were stored by a lossy method."""
    message = "JPEG changes values while storing them, so that labels are lost; expected PNG"
    raise RatersError(message, kind="lossy")


def library(name: str) -> Any:  # noqa: ANN401
    """Import a library when it is needed; those that have no types of their own count as Any."""
    return importlib.import_module(name)


def native(array: Array) -> Array:
    """The array in this machine's byte order, without a copy if it already is."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class Pixels:
    """Pixels as a file stores them.

    Attributes:
        values: `(*space)`, or `(*space, samples)` if `sampled`.
        sampled: Whether the last axis holds the samples of a colour.
        palette: `(entries, 3)` if `values` are indices into it.
        alpha: `(*space)`, the largest value of its type where opaque.
    """

    values: Array
    sampled: bool = False
    palette: Array | None = None
    alpha: Array | None = None


def image_of(pixels: Pixels) -> Volume:
    """What a viewer shows: `(*space)` or `(channels, *space)`.

    1-bit pictures become 0 and 255; palettes are looked up (one channel if all their entries
    are grey); alpha is dropped if everything is opaque and is the last channel otherwise.
    """
    values = pixels.values
    sampled = pixels.sampled
    if pixels.palette is not None:
        sampled = not is_grey(pixels.palette)
        values = padded(pixels.palette, values)[values]
        values = values if sampled else values[..., 0]
    if values.dtype == bool:
        values = values.astype(np.uint8) * 255
    if _transparent(pixels):
        values = values if sampled else values[..., None]
        values = np.concatenate([values, np.asarray(pixels.alpha)[..., None]], axis=-1)
        sampled = True
    return Volume(np.moveaxis(values, -1, 0) if sampled else values, None, sampled)


def labels_of(pixels: Pixels) -> Array:
    """One label per pixel, `(*space)`.

    The label of a palette picture is the grey value if all used entries are grey and differ,
    else the index (as Pascal VOC has it; what is transparent then does not matter).

    Raises:
        RatersError: If the picture is coloured, or partly transparent.
    """
    if pixels.palette is not None:
        used = np.unique(pixels.values)
        shades = padded(pixels.palette, used)[used]
        if not is_grey(shades) or len(np.unique(shades[:, 0])) < len(used):
            return pixels.values
        _check_opaque(pixels)
        return padded(pixels.palette, used)[..., 0][pixels.values]
    _check_opaque(pixels)
    if not pixels.sampled:
        return pixels.values
    first = pixels.values[..., 0]
    if (pixels.values == first[..., None]).all():
        return first
    if pixels.values.shape[-1] != 3:
        one_channel(pixels.values.shape[-1])
    raise RatersError(_describe_colours(pixels.values), kind="colours")


def is_grey(palette: Array) -> bool:
    """Whether red, green and blue are equal in all entries."""
    return bool((palette == palette[:, :1]).all())


def padded(palette: Array, indices: Array) -> Array:
    """The palette with black entries up to the largest index, as decoders fill them."""
    missing = int(indices.max()) + 1 - len(palette)
    return np.pad(palette, ((0, max(missing, 0)), (0, 0)))


def _transparent(pixels: Pixels) -> int:
    """The number of pixels that are not opaque."""
    if pixels.alpha is None:
        return 0
    return int(np.count_nonzero(pixels.alpha != np.iinfo(pixels.alpha.dtype).max))


def _check_opaque(pixels: Pixels) -> None:
    count = _transparent(pixels)
    if count:
        message = f"found {count:,} transparent pixels, expected an opaque mask"
        raise RatersError(message, kind="transparent")


def _describe_colours(values: Array) -> str:
    wide = values.reshape(-1, 3).astype(np.uint64)
    codes = np.unique((wide[:, 0] << 32) | (wide[:, 1] << 16) | wide[:, 2])
    first = ", ".join(str((c >> 32, c >> 16 & 0xFFFF, c & 0xFFFF)) for c in codes[:4].tolist())
    return (
        f"found {len(codes):,} colours, e.g. {first}; "
        "expected one channel, or a palette whose indices are the labels"
    )

"""NIfTI (.nii, .nii.gz), by nibabel: the affine is the file's best one, in RAS millimetres."""

from __future__ import annotations

import gzip
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from raters.core import geometry
from raters.core.arrays import Array
from raters.core.geometry import Header, Volume
from raters.io.formats import base

_CHUNK = 1 << 24
_SILENT = logging.Logger("raters.nifti")  # not in the logging tree: nibabel's notes go nowhere
_SILENT.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class _Layout:
    """What the header says, in the terms of this package."""

    shape: tuple[int, ...]  # on disk
    dtype: np.dtype[Any]  # on disk; has fields if the voxels are colours
    offset: int
    slope: float
    inter: float
    header: Header


def probe(path: Path) -> Header:
    """The header of a NIfTI file."""
    with _open(path) as file:
        return _layout(path, file).header


def read_image(path: Path) -> Volume:
    """Read an image; a fourth axis (or the fifth of five) becomes the channels, first."""
    with _open(path) as file:
        layout = _layout(path, file)
        array = _voxels(path, file, layout)
    has_channels = layout.header.channels is not None
    array = np.moveaxis(array, -1, 0) if has_channels else array
    return Volume(array, layout.header.affine, has_channels)


def read_labels(path: Path) -> Volume:
    """Read labels; a fourth axis of length 1 is dropped."""
    with _open(path) as file:
        layout = _layout(path, file)
        base.one_channel(layout.header.channels)
        array = _voxels(path, file, layout)
    return Volume(array.reshape(layout.header.shape, order="F"), layout.header.affine)


def write_image(path: Path, array: Array, affine: base.Affine) -> None:
    """Write `(channels, *space)`, channels last on disk; a single channel has no axis there."""
    if len(array) > 1:  # the fourth axis, after a third of length 1 for pictures
        volumes = array if array.ndim == 4 else array[..., None]
        _write(path, np.moveaxis(volumes, 0, -1), affine)
    else:
        _write(path, array[0], affine)


def write_labels(path: Path, array: Array, affine: base.Affine) -> None:
    """Write `(*space)`."""
    _write(path, array, affine)


FORMAT = base.Format(
    "NIfTI", (".nii", ".nii.gz"), probe, read_image, read_labels, write_image, write_labels
)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    opener = gzip.open if _zipped(path) else open
    with opener(path, "rb") as file:
        yield cast(BinaryIO, file)


def _zipped(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _layout(path: Path, file: BinaryIO) -> _Layout:
    """Read and check the header; nothing is believed that the file's size contradicts."""
    header = _header(file)
    shape = tuple(int(length) for length in header.get_data_shape())
    dtype = header.get_data_dtype()
    offset = int(header.get_data_offset())
    stored = path.stat().st_size
    if _zipped(path):
        base.check_claim(path, shape, dtype.itemsize * 8, factor=base.DEFLATE)
    else:
        base.check_claim(path, shape, dtype.itemsize * 8, stored=stored - offset, factor=base.RAW)
    slope, inter = header.get_slope_inter()
    if slope is None:
        slope = 1.0
        inter = 0.0
    else:
        slope = float(slope)
        inter = float(inter or 0.0)

    space, channels = _axes(shape, dtype)
    affine = np.asarray(header.get_best_affine(), dtype=np.float64)
    affine = geometry.plane(affine) if len(space) == 2 else affine
    scaled = (slope, inter) != (1.0, 0.0)
    one = dtype if dtype.fields is None else np.dtype(np.uint8)  # colours are records of bytes
    kind = np.dtype(np.float64) if scaled else one.newbyteorder("=")
    base.check_dtype(kind)
    return _Layout(shape, dtype, offset, slope, inter, Header(space, kind, affine, channels))


def _header(file: BinaryIO) -> Any:  # noqa: ANN401
    nibabel = base.library("nibabel")

    size = file.read(4)
    file.seek(0)
    sizes = {int.from_bytes(size, "little"), int.from_bytes(size, "big")}
    kinds = {348: nibabel.Nifti1Header, 540: nibabel.Nifti2Header}
    found = [kind for length, kind in kinds.items() if length in sizes]
    if not found:
        message = f"not a NIfTI file: its first bytes are {size!r}, expected the number 348 or 540"
        raise base.unreadable(message)
    header = found[0].from_fileobj(file, check=False)
    header.check_fix(logger=_SILENT)
    return header


def _axes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[tuple[int, ...], int | None]:
    """The spatial shape and the number of channels of a shape on disk."""
    colours = len(dtype.fields) if dtype.fields else None
    rest = math.prod(shape[3:])
    several = sum(length > 1 for length in shape[3:])
    if len(shape) < 2 or several > 1 or (several and colours):
        message = f"found shape {shape}, expected two or three spatial axes and one of channels"
        raise base.unreadable(message)
    return shape[:3], colours or (rest if len(shape) > 3 else None)


def _voxels(path: Path, file: BinaryIO, layout: _Layout) -> Array:
    """The scaled voxels: `(*space)`, or `(*space, channels)`."""
    count = math.prod(layout.shape) * layout.dtype.itemsize
    file.seek(layout.offset)
    flat = _read_exactly(file, count)
    if _zipped(path):
        file.read(_CHUNK)  # reaches the end, where gzip compares its checksum
    channels = layout.header.channels
    if layout.dtype.fields:
        array = flat.reshape(channels, *layout.header.shape, order="F")
        return np.moveaxis(array, 0, -1)
    shape = layout.header.shape + (() if channels is None else (channels,))
    array = base.native(flat.view(layout.dtype)).reshape(shape, order="F")
    return array if layout.header.dtype == array.dtype else array * layout.slope + layout.inter


def _read_exactly(file: BinaryIO, count: int) -> NDArray[np.uint8]:
    array = np.empty(count, np.uint8)
    view = memoryview(cast(Any, array))
    done = 0
    while done < count:
        got = cast(Any, file).readinto(view[done : done + _CHUNK])
        if not got:
            raise base.unreadable(f"truncated: expected {count:,} bytes of voxels, found {done:,}")
        done += got
    return array


def _write(path: Path, array: Array, affine: base.Affine) -> None:
    nibabel = base.library("nibabel")

    array = array.astype(np.float32) if array.dtype == np.float16 else base.native(array)
    if affine is not None and len(affine) == 3:
        affine = geometry.unplane(affine)
    image = nibabel.Nifti1Image(array, affine, dtype=array.dtype)
    image.header.set_xyzt_units("mm")
    with open(path, "wb") as file:
        if not _zipped(path):
            image.to_stream(file)
            return
        # No name and no time in the gzip header: the same voxels give the same bytes.
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as zipped:
            image.to_stream(zipped)

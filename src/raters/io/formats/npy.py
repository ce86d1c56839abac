"""NumPy arrays (.npy): no geometry, and never any pickled objects."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np

from raters.core.arrays import Array
from raters.core.geometry import Header, Volume
from raters.io.formats.base import RAW, Affine, Format, check_claim, check_dtype, native, unreadable


def probe(path: Path) -> Header:
    """The header; all axes count as space, as the file cannot say which one holds channels."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        stored = path.stat().st_size - file.tell()
    _check(shape, dtype)
    check_claim(path, shape, dtype.itemsize * 8, stored=stored, factor=RAW)
    return Header(shape, dtype.newbyteorder("="))


def read_image(path: Path) -> Volume:
    """Read an array as it is; whoever knows the shape of the labels knows if it has channels."""
    probe(path)
    return Volume(native(np.load(path, allow_pickle=False)))


def read_labels(path: Path) -> Volume:
    """Read an array of two or three axes."""
    volume = read_image(path)
    if volume.array.ndim > 3:
        raise unreadable(f"found shape {volume.array.shape}, expected two or three axes")
    return volume


def write_image(path: Path, array: Array, affine: Affine) -> None:
    """Write `(channels, *space)`; an affine is not kept."""
    write_labels(path, array, affine)


def write_labels(path: Path, array: Array, affine: Affine) -> None:  # noqa: ARG001
    """Write `(*space)`; an affine is not kept."""
    np.save(path, array, allow_pickle=False)


def write_header(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Write the header of an array whose rows come later; return where they begin."""
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell()


FORMAT = Format("NPY", (".npy",), probe, read_image, read_labels, write_image, write_labels)


def _check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise unreadable("found Python objects, which are not read for safety; expected numbers")
    check_dtype(dtype)
    if not 2 <= len(shape) <= 4:
        raise unreadable(f"found shape {shape}, expected two or three axes, and one of channels")

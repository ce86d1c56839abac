"""Image and mask files: every format is read and written here, and nowhere else.

All of them come out in the package's conventions: `(channels, *space)` or `(*space)`, affines
in RAS millimetres. A new format is one module with a `FORMAT` and one entry in `FORMATS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array
from raters.core.errors import RatersError
from raters.core.geometry import Header, Volume
from raters.core.geometry import embed as embed
from raters.io.formats import dicom, itk, nifti, npy, picture, tiff
from raters.io.formats.base import Format, Write, reading, whole

FORMATS: dict[str, Format] = {
    "nifti": nifti.FORMAT,
    "itk": itk.FORMAT,
    "picture": picture.FORMAT,
    "tiff": tiff.FORMAT,
    "npy": npy.FORMAT,
    "dicom": dicom.FORMAT,
}
BY_SUFFIX = {suffix: entry for entry in FORMATS.values() for suffix in entry.suffixes}

_MAT = (
    "found a MATLAB file, which may hold many masks under any names; expected one file per rater: "
    "scipy.io.loadmat reads it, numpy.save writes each mask as masks/RATER/CASE.npy"
)
_NIFTI_LONGEST = 32767  # an axis length is a 16-bit number there


def suffix_of(path: str | Path) -> str:
    """The supported ending of a file name, in lower case; "" if there is none.

    Example:
        >>> suffix_of("scans/a.1.NII.GZ"), suffix_of("notes.txt")
        ('.nii.gz', '')
    """
    name = (path if isinstance(path, Path) else Path(path)).name.lower()
    return max((suffix for suffix in BY_SUFFIX if name.endswith(suffix)), key=len, default="")


def format_of(path: str | Path) -> Format:
    """The format of a file, by its name; a folder is a DICOM series.

    Raises:
        RatersError: If the ending is not supported.

    Example:
        >>> format_of("a.nii.gz").name
        'NIfTI'
    """
    suffix = suffix_of(path)
    if suffix:
        return BY_SUFFIX[suffix]
    path = Path(path)
    if path.is_dir():
        return dicom.FORMAT
    if path.suffix.lower() == ".mat":
        raise RatersError(_MAT, kind="unsupported", file=path)
    message = f"suffix {path.suffix!r} is not supported; expected one of {', '.join(BY_SUFFIX)}"
    raise RatersError(message, kind="unsupported", file=path)


def is_supported(path: str | Path) -> bool:
    """Whether a file's ending is supported, or a folder holds DICOM files.

    Example:
        >>> is_supported("a.png"), is_supported("a.docx")
        (True, False)
    """
    path = Path(path)
    return dicom.holds_dicom(path) if path.is_dir() else bool(suffix_of(path))


def probe(path: str | Path) -> Header:
    """Read what a file says of itself, without its voxels.

    Raises:
        RatersError: If the file is missing, not what its name says, or claims the impossible.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_labels(f"{folder}/a.png", np.eye(3, dtype=int))
        ...     probe(f"{folder}/a.png").shape
        (3, 3)
    """
    path = Path(path)
    entry = format_of(path)
    with reading(path, entry.name):
        return entry.probe(path)


def read_image(path: str | Path) -> Volume:
    """Read an image: `(*space)`, or `(channels, *space)` if `has_channels`.

    Raises:
        RatersError: If the file is missing, corrupt, or claims more than it can hold.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_image(f"{folder}/a.nii", np.zeros((2, 5, 6, 7)), np.eye(4))
        ...     image = read_image(f"{folder}/a.nii")
        >>> image.array.shape, image.has_channels
        ((2, 5, 6, 7), True)
    """
    path = Path(path)
    entry = format_of(path)
    with reading(path, entry.name):
        return entry.read_image(path)


def read_labels(path: str | Path) -> Volume:
    """Read labels, `(*space)`, in the type that the file has (bool, integers or floats).

    Raises:
        RatersError: If the file is missing, corrupt, coloured, or has several channels.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_labels(f"{folder}/a.nrrd", np.eye(3, dtype=np.int16), np.eye(3))
        ...     read_labels(f"{folder}/a.nrrd").array.tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    path = Path(path)
    entry = format_of(path)
    with reading(path, entry.name):
        return entry.read_labels(path)


def write_image(path: str | Path, array: ArrayLike, affine: ArrayLike | None = None) -> None:
    """Write an image whole or not at all; its folder is made.

    Truth values are written as 0 and 1 in 8 bits; where a format lacks 16-bit floats, they are
    written in 32 bits. Pictures, TIFF and NPY do not keep an affine.

    Args:
        path: The file; its ending says the format.
        array: `(channels, *space)`.
        affine: Voxel indices to millimetres (RAS), `(d + 1, d + 1)`.

    Raises:
        RatersError: If the format cannot hold the array, or the file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_image(f"{folder}/new/a.png", np.full((3, 4, 5), 7, np.uint8))
        ...     read_image(f"{folder}/new/a.png").array.shape
        (3, 4, 5)
    """
    values = np.asarray(array)
    path = Path(path)
    _write(path, format_of(path).write_image, values, affine, values.ndim - 1)


def write_labels(path: str | Path, array: ArrayLike, affine: ArrayLike | None = None) -> None:
    """Write labels whole or not at all; its folder is made.

    Args:
        path: The file; its ending says the format.
        array: Integers, `(*space)`.
        affine: Voxel indices to millimetres (RAS), `(d + 1, d + 1)`.

    Raises:
        RatersError: If the format cannot hold the labels, or the file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_labels(f"{folder}/a.png", [[0, 300]])
        ...     read_labels(f"{folder}/a.png").array.tolist()
        [[0, 300]]
    """
    values = np.asarray(array)
    if values.dtype.kind not in "bui":
        raise ValueError(f"labels are integers, found {values.dtype}")
    path = Path(path)
    _write(path, format_of(path).write_labels, values, affine, values.ndim)


def image_suffix(array: Array, affine: ArrayLike | None) -> str:
    """The ending of the format that keeps an image `(channels, *space)` exactly.

    Args:
        array: `(channels, *space)`.
        affine: Its affine, or None.

    Example:
        >>> image_suffix(np.zeros((3, 8, 8), np.uint8), None)
        '.png'
        >>> image_suffix(np.zeros((1, 8, 8, 8)), np.eye(4))
        '.nii.gz'
    """
    array = np.asarray(array)
    if affine is not None:
        return _suffix_with(array.shape[1:], array.shape[0], affine)
    kinds: dict[np.dtype[Any], tuple[int, ...]] = {
        np.dtype(bool): (1, 3),
        np.dtype(np.uint8): (1, 3),
        np.dtype(np.uint16): (1,),
    }
    fits = array.ndim == 3 and array.size > 0 and len(array) in kinds.get(array.dtype, ())
    return ".png" if fits else ".npy"


def label_suffix(array: Array, affine: ArrayLike | None) -> str:
    """The ending of the format that keeps labels `(*space)` exactly.

    Pictures keep the values, in 8 or 16 bits; the others keep the type too.

    Args:
        array: `(*space)`.
        affine: Its affine, or None.

    Example:
        >>> label_suffix(np.eye(3, dtype=int), None), label_suffix(-np.eye(3, dtype=int), None)
        ('.png', '.npy')
        >>> label_suffix(np.zeros((4, 4, 4), int), np.diag([0.1, 0.1, 0.1, 1]))
        '.nrrd'
    """
    array = np.asarray(array)
    if affine is not None:
        return _suffix_with(array.shape, 1, affine)
    fits = array.ndim == 2 and array.size > 0 and array.min() >= 0 and array.max() <= 0xFFFF
    return ".png" if fits else ".npy"


def _suffix_with(space: tuple[int, ...], channels: int, affine: ArrayLike) -> str:
    """NIfTI if it holds the geometry exactly, else NRRD."""
    matrix = np.asarray(affine, dtype=np.float64)
    exact = bool((matrix.astype(np.float32) == matrix).all())
    fits = len(space) == 3 and max(*space, channels) <= _NIFTI_LONGEST
    return ".nii.gz" if exact and fits else ".nrrd"


def _write(
    path: Path, write: Write | None, array: Array, affine: ArrayLike | None, spatial_dims: int
) -> None:
    matrix = None if affine is None else np.asarray(affine, dtype=np.float64)
    if spatial_dims not in (2, 3):
        raise ValueError(f"found shape {array.shape}, expected two or three spatial axes")
    if matrix is not None and matrix.shape != (spatial_dims + 1, spatial_dims + 1):
        raise ValueError(
            f"found an affine of shape {matrix.shape}, expected {(spatial_dims + 1,) * 2}"
        )
    if write is None:
        message = f"{format_of(path).name} is read but not written"
        raise RatersError(message, kind="unwritable", file=path)
    array = array.astype(np.uint8) if array.dtype == bool else array
    with whole(path) as temporary:
        write(temporary, array, matrix)

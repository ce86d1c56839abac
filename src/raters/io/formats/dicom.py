"""DICOM: a folder with one series, or one file, as image; a segmentation file as labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from raters.core import geometry
from raters.core.arrays import Array, Floats
from raters.core.errors import RatersError
from raters.core.geometry import Header, Volume
from raters.io.formats import itk
from raters.io.formats.base import UNLIMITED, Format, check_claim, library, reading, unreadable
from raters.io.paths import refuse_special

_SEGMENTATIONS = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
_IO = "GDCMImageIO"
_UNEVEN = 0.1  # of a slice's distance; positions are often rounded to 0.01 mm
_SAME_GRID = 1e-3  # of a pixel, and of an axis: headers round; half a pixel over 512 of them
_PIXEL_SPACING = "0028|0030"


def probe(path: Path) -> Header:
    """The header of a series, an image file or a segmentation (with the names of segments)."""
    if path.is_dir():
        return _probe_series(path)[0]
    if _class(path) in _SEGMENTATIONS:
        return _probe_segmentation(path)
    return _probe_single(path, itk.open_reader(path, _IO))


def read_image(path: Path) -> Volume:
    """Read a folder that holds one series, or a single image file.

    A single file with one frame is a picture of rows and columns, several frames are a volume.
    The distance of a series' slices comes from their positions, also if the gantry is tilted.
    Slices of different types (each may have a slope of its own) are read as the widest of them.
    """
    sitk = library("SimpleITK")

    if path.is_dir():
        header, files, one_type = _probe_series(path)
    else:
        header = probe(path)
        files = [str(path)]
        one_type = True
    if not one_type:
        return Volume(_mixed_slices(files, header), header.affine, header.channels is not None)
    try:
        with itk.quiet:
            image = sitk.ReadImage(files if path.is_dir() else files[0], imageIO=_IO)
    except RuntimeError:
        for file in files if path.is_dir() else ():  # so that the error names the bad slice
            with reading(Path(file), "DICOM"), itk.quiet:
                sitk.ReadImage(file, imageIO=_IO)
        raise
    image = image[:, :, 0] if len(header.shape) == 2 else image
    return Volume(itk.array_of(image), header.affine, header.channels is not None)


def _mixed_slices(files: list[str], header: Header) -> Array:
    """Read each slice in its own type: ITK would cast all of a series to that of the first."""
    sitk = library("SimpleITK")

    slices = []
    for file in files:
        with reading(Path(file), "DICOM"), itk.quiet:
            image = sitk.ReadImage(file, imageIO=_IO)
        slices.append(itk.array_of(image).astype(header.dtype))
    return np.concatenate(slices, axis=-1)


def read_labels(path: Path) -> Volume:
    """Read a segmentation: numbers of segments, on the smallest grid that holds its frames.

    See `geometry.embed` for the way from there to the image's grid.
    """
    if path.is_dir():
        raise unreadable("found a folder, expected a DICOM segmentation file as labels")
    header = probe(path)
    if not header.names:
        raise unreadable("found a DICOM image, expected a DICOM segmentation as labels")
    try:
        volume = _highdicom(path).seg.segread(str(path)).get_volume(combine_segments=True)
    except RuntimeError as error:
        raise RatersError(_overlap(path, header), kind="overlap", file=path) from error
    return Volume(np.ascontiguousarray(volume.array.transpose(2, 1, 0)), header.affine)


FORMAT = Format("DICOM", (".dcm",), probe, read_image, read_labels)


def holds_dicom(folder: Path) -> bool:
    """Whether one of the first files of a folder is DICOM, by its name or its preamble."""
    files = (file for file in sorted(folder.iterdir()) if file.is_file())
    return any(file.suffix.lower() == ".dcm" or _has_preamble(file) for file in islice(files, 20))


def series_uid(file: Path) -> str:
    """Return which series a slice belongs to, '' if it does not say."""
    with reading(file, "DICOM"):
        reader = itk.open_reader(file, _IO)
    return (
        reader.GetMetaData("0020|000e").rstrip(" \0") if reader.HasMetaDataKey("0020|000e") else ""
    )


def slice_heights(folder: Path) -> list[tuple[float, Path]]:
    """List the slices of the only series in a folder: where each lies along z, and its file.

    Unlike `read_image`, it takes series whose slices are not evenly spaced.
    """
    with reading(folder, "DICOM"):
        files = [Path(file) for file in _series_files(folder)]
        return [(float(itk.open_reader(file, _IO).GetOrigin()[2]), file) for file in files]


def _has_preamble(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def _series_files(folder: Path) -> list[str]:
    """The files of the only series in a folder, from one end to the other."""
    sitk = library("SimpleITK")

    for file in folder.iterdir():  # GDCM opens all of them
        refuse_special(file)
        if file.is_symlink() and not file.exists():
            raise unreadable("found a link to a file that is not there, expected a slice", file)
    with itk.quiet:
        names = sitk.ImageSeriesReader.GetGDCMSeriesFileNames
        found = sitk.ImageSeriesReader.GetGDCMSeriesIDs(str(folder))
        series = {uid: list(names(str(folder), uid)) for uid in found}
    if len(series) == 1:
        (files,) = series.values()
        _refuse_left_out(folder, files)
        return files
    if not series:
        raise unreadable("found no DICOM series in this folder, expected one")
    counts = ", ".join(f"{uid} ({len(files)} files)" for uid, files in series.items())
    raise unreadable(f"found {len(series)} DICOM series, expected one: {counts}")


def _refuse_left_out(folder: Path, files: list[str]) -> None:
    """Reject a folder with a slice that GDCM cannot read: it would leave it out without a word.

    What looks like a slice is named '.dcm', starts as DICOM files do, or differs from the slices'
    names in digits only. Reports, structures and indices of another class are no slices.
    """
    known = {Path(file).name for file in files}
    shapes = {_without_digits(name) for name in known}
    image_class = _class(Path(files[0]))
    for file in sorted(folder.iterdir()):
        if file.name in known or file.name.startswith(".") or file.is_dir():
            continue
        alike = file.suffix.lower() == ".dcm" or _without_digits(file.name) in shapes
        if not (alike or _has_preamble(file)) or _class(file) not in ("", image_class):
            continue
        message = "not a readable DICOM slice, though it lies among those of the series"
        raise unreadable(message, file)


def _without_digits(name: str) -> str:
    return re.sub("[0-9]+", "0", name)


def _probe_series(folder: Path) -> tuple[Header, list[str], bool]:
    """Return the header of a series, its files in order, and whether all are of one type."""
    files = _series_files(folder)
    readers = [itk.open_reader(Path(file), _IO) for file in files]
    for file, reader in zip(files, readers, strict=True):
        _refuse_no_spacing(Path(file), reader)
    first = itk.header_of(readers[0])
    if len(files) == 1:
        return first, files, True
    if len({reader.GetSize() for reader in readers}) > 1:
        sizes = sorted({reader.GetSize()[:2] for reader in readers})
        raise unreadable(f"found slices of different sizes {sizes}, expected one size")
    _refuse_other_grids(readers, files)
    dtypes = {itk.dtype_of(reader) for reader in readers}
    dtype = np.result_type(*dtypes)
    shape = (*first.shape[:2], len(files))
    affine = _stack(folder, np.asarray(first.affine), readers, files)
    bits = dtype.itemsize * 8 * (first.channels or 1)
    check_claim(folder, shape, bits, factor=UNLIMITED)
    header = replace(first, shape=shape, affine=affine, dtype=dtype)
    return header, files, len(dtypes) == 1


def _refuse_no_spacing(file: Path, reader: Any) -> None:  # noqa: ANN401
    """Reject a spacing of 0 or less, which GDCM reads as 1."""
    if not reader.HasMetaDataKey(_PIXEL_SPACING):
        return
    text = reader.GetMetaData(_PIXEL_SPACING).strip(" \0")
    try:
        spacing = [float(part) for part in text.split("\\")]
    except ValueError:  # nothing is said
        return
    if min(spacing) <= 0:
        message = f"found the pixel spacing {_listed(spacing)} mm, expected more than 0"
        raise RatersError(message, kind="geometry", file=file)


def _refuse_other_grids(readers: list[Any], files: list[str]) -> None:
    """Reject a slice whose pixels or axes are not those of the others; the rarer kind is named."""
    channels = np.array([[reader.GetNumberOfComponents()] for reader in readers], float)
    spacings = np.array([reader.GetSpacing()[:2] for reader in readers])
    axes = np.array([np.reshape(reader.GetDirection(), (3, 3))[:, :2].T for reader in readers])
    axes = axes.reshape(len(readers), 6)
    for what, values, tolerance in (
        ("channels", channels, np.zeros(1)),
        ("the pixel size", spacings, _SAME_GRID * spacings[0]),
        ("the orientation", axes, np.full(6, _SAME_GRID)),
    ):
        differs = (np.abs(values - values[0]) > tolerance).any(axis=1)
        if not differs.any():
            continue
        is_first_odd = differs.sum() > len(files) / 2
        odd = 0 if is_first_odd else int(differs.argmax())
        usual = int(differs.argmax()) if is_first_odd else 0
        message = (
            f"found a slice with {what} {_listed(values[odd])}, expected {_listed(values[usual])} "
            f"as in {Path(files[usual]).name}"
        )
        raise RatersError(message, kind="geometry", file=files[odd])


def _listed(values: Iterable[float]) -> str:
    return " x ".join(f"{value:.6g}" for value in values)


def _stack(folder: Path, affine: Floats, readers: list[Any], files: list[str]) -> Floats:
    """The affine of a stack: its third column is the step from slice to slice."""
    positions = np.array([reader.GetOrigin() for reader in readers])
    steps = np.diff(positions, axis=0)
    step = np.median(steps, axis=0)
    errors = np.linalg.norm(steps - step, axis=1)
    if errors.max() > _UNEVEN * np.linalg.norm(step):
        worst = int(errors.argmax())
        distances = np.linalg.norm(steps, axis=1)
        message = (
            f"slices {Path(files[worst]).name} and {Path(files[worst + 1]).name} are "
            f"{distances[worst]:.4g} mm apart, others {np.median(distances):.4g} mm; "
            "is a slice missing or doubled?"
        )
        raise RatersError(message, kind="geometry", file=folder)
    lps = geometry.flip_lps(affine)
    lps[:3, 2] = (positions[-1] - positions[0]) / len(steps)
    return geometry.flip_lps(lps)


def _probe_single(path: Path, reader: Any) -> Header:  # noqa: ANN401
    _refuse_no_spacing(path, reader)
    header = itk.header_of(reader)
    bits = header.dtype.itemsize * 8 * (header.channels or 1)
    check_claim(path, header.shape, bits, factor=UNLIMITED)
    if len(header.shape) < 3 or header.shape[2] > 1:
        return header
    columns, rows, _ = header.shape
    affine = geometry.plane(np.asarray(header.affine))[:, [1, 0, 2]]
    return replace(header, shape=(rows, columns), affine=affine)


def _class(path: Path) -> str:
    """The class of the object, from the file's preface (GDCM knows not all segmentations)."""
    with open(path, "rb") as file:
        preface = file.read(1024)
    _, found, rest = preface.partition(b"\x02\x00\x02\x00UI")  # element (0002, 0002)
    length = int.from_bytes(rest[:2], "little") if found else 0
    return rest[2 : 2 + length].rstrip(b"\0 ").decode("ascii", "replace")


def _highdicom(path: Path) -> Any:  # noqa: ANN401
    try:
        import highdicom
        import highdicom.seg
    except ImportError as error:
        message = "DICOM segmentations need another package: pip install 'raters[dicom]'"
        raise RatersError(message, kind="missing-package", file=path) from error
    return highdicom


def _probe_segmentation(path: Path) -> Header:
    highdicom = _highdicom(path)
    import pydicom

    data = pydicom.dcmread(path, stop_before_pixels=True)
    names = {int(item.SegmentNumber): str(item.SegmentLabel) for item in data.SegmentSequence}
    grid = highdicom.seg.Segmentation.from_dataset(data, copy=False).get_volume_geometry()
    if grid is None:
        message = "the frames of this segmentation lie on no regular grid"
        raise RatersError(message, kind="geometry", file=path)
    shape = tuple(int(length) for length in grid.spatial_shape[::-1])
    check_claim(path, shape, 8, factor=UNLIMITED)
    affine = geometry.flip_lps(np.asarray(grid.affine)[:, [2, 1, 0, 3]])
    dtype = np.dtype(np.uint8 if max(names) < 256 else np.uint16)
    return Header(shape, dtype, affine, names={**names, 0: "background"})


def _overlap(path: Path, header: Header) -> str:
    """Name two segments that overlap."""
    segmentation = _highdicom(path).seg.segread(str(path))
    parts = segmentation.get_volume(combine_segments=False).array.reshape(-1, len(header.names) - 1)
    shared = np.flatnonzero((parts > 0).sum(axis=1) > 1)
    if len(shared) == 0:
        return "segments cannot be combined to one label per voxel"
    numbers = np.array(segmentation.segment_numbers)[parts[shared[0]] > 0][:2].tolist()
    both = " and ".join(f"{number} ({header.names[number]})" for number in numbers)
    return f"segments {both} overlap, expected one label per voxel"

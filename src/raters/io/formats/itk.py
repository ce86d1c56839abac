"""NRRD (.nrrd, .nhdr) and MetaImage (.mha, .mhd), by SimpleITK: LPS is turned into RAS."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from raters.core import geometry
from raters.core.arrays import Array, Floats
from raters.core.errors import RatersError
from raters.core.geometry import Header, Volume
from raters.io.formats import base
from raters.io.paths import refuse_special

_AFFINE = "raters_affine"  # see write_image
_LONGEST_HEADER = 100_000  # lines
_TYPES = (
    *(f"{sign}Int{bits}" for sign in ("U", "") for bits in (8, 16, 32, 64)),
    "Float32",
    "Float64",
)
_FACTORS = {
    "raw": base.RAW,
    "gzip": base.DEFLATE,
    "gz": base.DEFLATE,
    "ascii": 8.0,
    "text": 8.0,
    "hex": 1.01,
}


def probe(path: Path) -> Header:
    """The header of an NRRD or MetaImage file; Slicer's segment names are its names."""
    stored = _stored(path)
    reader = open_reader(path, _io(path))
    header = header_of(reader)
    _check_size(path, stored, header, reader)
    return header


def read_image(path: Path) -> Volume:
    """Read an image; vector pixels (or a fourth axis) become the channels, first."""
    header = probe(path)
    array = _voxels(path)
    return Volume(array, header.affine, header.channels is not None)


def read_labels(path: Path) -> Volume:
    """Read labels: scalars."""
    header = probe(path)
    base.one_channel(header.channels)
    return Volume(_voxels(path).reshape(header.shape), header.affine)


def write_image(path: Path, array: Array, affine: base.Affine) -> None:
    """Write `(channels, *space)`.

    ITK keeps direction and spacing apart, so that an affine comes back rounded in its last bit.
    The exact one goes along as the field `raters_affine`; reading prefers it if both agree.
    """
    vector = len(array) > 1
    ordered = np.moveaxis(_reversed(array, 1), 0, -1) if vector else _reversed(array[0], 0)
    _write(path, ordered, affine, vector=vector)


def write_labels(path: Path, array: Array, affine: base.Affine) -> None:
    """Write `(*space)`."""
    _write(path, _reversed(array, 0), affine, vector=False)


FORMAT = base.Format(
    "NRRD or MetaImage",
    (".nrrd", ".nhdr", ".mha", ".mhd"),
    probe,
    read_image,
    read_labels,
    write_image,
    write_labels,
)


@contextmanager
def _no_warnings() -> Iterator[None]:
    sitk = base.library("SimpleITK")

    before = sitk.ProcessObject.GetGlobalWarningDisplay()
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        yield
    finally:
        sitk.ProcessObject.SetGlobalWarningDisplay(before)


quiet = base.SharedContext(_no_warnings)


def open_reader(path: Path, io: str) -> Any:  # noqa: ANN401
    """A SimpleITK reader that has read the header.

    Args:
        path: The file.
        io: ITK's name of the format; by itself ITK would go by the suffix, in lower case only.
    """
    sitk = base.library("SimpleITK")

    with quiet:
        reader = sitk.ImageFileReader()
        reader.SetImageIO(io)
        reader.SetFileName(str(path))
        reader.ReadImageInformation()
    return reader


def _io(path: Path) -> str:
    return "MetaImageIO" if path.suffix.lower() in (".mha", ".mhd") else "NrrdImageIO"


def header_of(reader: Any) -> Header:  # noqa: ANN401
    """What a SimpleITK reader knows, in the terms of this package."""
    size = tuple(int(length) for length in reader.GetSize())
    if not 2 <= len(size) <= 4:
        raise base.unreadable(f"found {len(size)} axes, expected 2 to 4")
    dims = min(len(size), 3)
    affine = geometry.from_itk(reader.GetDirection(), reader.GetSpacing(), reader.GetOrigin(), dims)
    components = int(reader.GetNumberOfComponents())
    if len(size) == 4 and components > 1 and size[3] > 1:
        message = f"found shape {size} with {components} components, expected one of both"
        raise base.unreadable(message)
    channels: int | None = None
    if components > 1:
        channels = components
    elif len(size) == 4:
        channels = size[3]

    space = size[:3] if dims == 3 else size[::-1]
    fields = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
    affine = _exact_affine(fields.get(_AFFINE, ""), affine)
    return Header(space, dtype_of(reader), affine, channels, _slicer_names(fields))


def dtype_of(reader: Any) -> np.dtype[Any]:  # noqa: ANN401
    """The type of the voxels that a SimpleITK reader will give."""
    sitk = base.library("SimpleITK")

    for name in _TYPES:
        kinds = [getattr(sitk, f"sitk{name}"), getattr(sitk, f"sitkVector{name}")]
        if reader.GetPixelID() in kinds:
            return np.dtype(name.lower())
    found = sitk.GetPixelIDValueAsString(reader.GetPixelID())
    raise base.unreadable(f"found voxels of type {found}, expected real numbers")


def _exact_affine(text: str, affine: Floats) -> Floats:
    """The affine that we wrote, unless the file has been given another geometry since."""
    try:
        exact = np.array([float(word) for word in text.split()]).reshape(affine.shape)
    except ValueError:
        return affine
    return exact if np.allclose(exact, affine, rtol=1e-9, atol=1e-9) else affine


def _slicer_names(fields: dict[str, str]) -> dict[int, str]:
    """Names of segments in a `.seg.nrrd` of 3D Slicer."""
    names = {}
    for key, value in fields.items():
        match = re.fullmatch(r"(Segment\d+_)LabelValue", key)
        if match and value.isdigit():
            names[int(value)] = fields.get(f"{match[1]}Name", value)
    return {0: "background", **names} if names else {}


@dataclass(frozen=True)
class _Stored:
    """Where and how the voxels lie."""

    file: Path | None  # None: in several files
    offset: int
    encoding: str
    is_meta: bool


def _check_size(path: Path, stored: _Stored, header: Header, reader: Any) -> None:  # noqa: ANN401
    """Compare the claim of the header with what is there."""
    shape = tuple(int(length) for length in reader.GetSize())
    shape = (*shape, int(reader.GetNumberOfComponents()))
    factor = base.UNLIMITED
    size = None
    if stored.file is not None:
        if not stored.file.exists():
            message = f"its data file {stored.file.name} is not there"
            raise RatersError(message, kind="missing-file")
        factor = _FACTORS.get(stored.encoding, base.UNLIMITED)
        size = stored.file.stat().st_size - stored.offset
    base.check_claim(path, shape, header.dtype.itemsize * 8, stored=size, factor=factor)


def _stored(path: Path) -> _Stored:
    """Where the voxels lie, which SimpleITK does not tell; checks that the header is one."""
    is_meta = _io(path) == "MetaImageIO"
    fields, end = _text_header(path, is_meta)
    needed = ("ndims", "dimsize", "elementtype", "elementdatafile") if is_meta else ("nrrd",)
    if not set(needed) <= set(fields):
        kind = "MetaImage" if is_meta else "NRRD"
        raise base.unreadable(f"not a {kind} file: its header is incomplete")
    encoding = fields.get("encoding", "raw").lower()
    if is_meta:
        text = fields.get("binarydata", "true").lower() == "false"
        zipped = fields.get("compresseddata", "").lower() == "true"
        if zipped:
            encoding = "gzip"
        elif text:
            encoding = "ascii"
        else:
            encoding = "raw"
    name = fields.get("elementdatafile" if is_meta else "datafile", "LOCAL")
    if name.upper() == "LOCAL":
        return _Stored(path, end, encoding, is_meta)
    several = name.upper().startswith("LIST") or "%" in name
    for file in _listed(path, name, end) if several else [path.parent / name]:
        refuse_special(file)
    return _Stored(None if several else path.parent / name, 0, encoding, is_meta)


def _listed(path: Path, name: str, end: int) -> Iterator[Path]:
    """The data files of a header: in the lines that follow it, or numbered ('%03d.raw 1 9 1')."""
    if name.upper().startswith("LIST"):
        with open(path, "rb") as file:
            file.seek(end)
            lines = file.read(1 << 20).decode("utf-8", "replace").splitlines()
        yield from (path.parent / line.strip() for line in lines if line.strip())
        return
    form, *numbers = name.split()
    with suppress(ValueError, TypeError):  # ITK says what is wrong with it
        first, last, step = (int(number) for number in (*numbers, "1")[:3])
        for number in islice(range(first, last + 1, step), _LONGEST_HEADER):
            yield path.parent / (form % number)


def _text_header(path: Path, is_meta: bool) -> tuple[dict[str, str], int]:
    """The fields of a header by their names (lower case, no spaces), and where it ends."""
    fields: dict[str, str] = {}
    with open(path, "rb") as file:
        for line in islice(iter(lambda: file.readline(1 << 20), b""), _LONGEST_HEADER):
            key, _, value = line.decode("utf-8", "replace").partition("=" if is_meta else ":")
            name = key.strip().lower().replace(" ", "")
            fields["nrrd" if name.startswith("nrrd000") else name] = value.strip()
            last = "elementdatafile" if is_meta else "datafile"
            listed = is_meta or value.strip().upper().startswith("LIST")
            if not line.strip() or (name == last and listed):
                break
        return fields, file.tell()


def _voxels(path: Path) -> Array:
    """`(*space)`, or `(channels, *space)`."""
    sitk = base.library("SimpleITK")

    stored = _stored(path)
    if stored.is_meta and stored.encoding == "gzip" and stored.file is not None:
        _check_zlib(stored.file, stored.offset)
    with quiet:
        return array_of(sitk.ReadImage(str(path), imageIO=_io(path)))


def array_of(image: Any) -> Array:  # noqa: ANN401
    """The voxels of a SimpleITK image: `(*space)`, or `(channels, *space)`."""
    sitk = base.library("SimpleITK")

    array = sitk.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        array = np.moveaxis(array, -1, 0)
        array = array[:, 0] if image.GetDimension() == 4 else array
    return _reversed(array, array.ndim - min(image.GetDimension(), 3))


def _check_zlib(file: Path, offset: int) -> None:
    """MetaIO takes a corrupt stream for voxels and reports it nowhere but on the terminal."""
    decoder = zlib.decompressobj()
    with open(file, "rb") as stream:
        stream.seek(offset)
        while not decoder.eof and (chunk := stream.read(1 << 16)):
            decoder.decompress(chunk)
    if not decoder.eof:
        raise base.unreadable("truncated: its zlib stream has no end")


def _reversed(array: Array, first: int) -> Array:
    """Three spatial axes, from `first` on, are reversed; two are rows and columns anyway."""
    if array.ndim - first == 2:
        return array
    return array.transpose([*range(first), *reversed(range(first, array.ndim))])


def _write(path: Path, ordered: Array, affine: base.Affine, *, vector: bool) -> None:
    sitk = base.library("SimpleITK")

    if path.suffix.lower() in (".nhdr", ".mhd"):
        message = "two files cannot be written whole or not at all; write .nrrd or .mha instead"
        raise RatersError(message, kind="unwritable", file=path)
    ordered = ordered.astype(np.float32) if ordered.dtype == np.float16 else base.native(ordered)
    image = sitk.GetImageFromArray(np.ascontiguousarray(ordered), isVector=vector)
    if affine is not None:
        direction, spacing, origin = geometry.to_itk(affine)
        image.SetDirection(direction)
        image.SetSpacing(spacing)
        image.SetOrigin(origin)
        image.SetMetaData(_AFFINE, " ".join(map(repr, affine.ravel().tolist())))
    with quiet:
        sitk.WriteImage(
            image, str(path), useCompression=True, compressionLevel=1, imageIO=_io(path)
        )

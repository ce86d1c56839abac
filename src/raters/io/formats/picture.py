"""PNG, BMP, GIF and JPEG: rows and columns, without geometry."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array
from raters.core.errors import RatersError
from raters.core.geometry import Header, Volume
from raters.io.formats import base

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile


SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by the colour type in the header
_PALETTE = 3
_NOT_PLAIN = {b"tRNS", b"acTL"}  # a transparent colour, and several frames


class PngHeader(NamedTuple):
    """What the header of a PNG says.

    Attributes:
        rows: Of pixels.
        columns: Of pixels.
        depth: Bits of a sample.
        samples: Of a pixel, alpha among them.
        plain: Whether the samples are all that there is: whole bytes, without palette, transparent
            colour or further frames.
    """

    rows: int
    columns: int
    depth: int
    samples: int
    plain: bool


def png_header(path: Path) -> PngHeader:
    """Read the header, if all chunks up to the last are there.

    Raises:
        RatersError: that says that the file is truncated.
    """
    with open(path, "rb") as file:
        return _header(file, path.stat().st_size)


def _header(file: IO[bytes], size: int) -> PngHeader:
    start = file.read(33)
    columns, rows, depth, colour = struct.unpack(">IIBB", start[16:26].ljust(10, b"\0"))
    plain = depth >= 8 and colour != _PALETTE
    file.seek(8)
    kind = b""
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
        end = file.seek(length + 4, 1)
        if not kind.strip(b"\0") or end > size:
            message = f"truncated: the file ends after {size:,} bytes, before its last part"
            raise base.unreadable(message)
        plain = plain and kind not in _NOT_PLAIN
    return PngHeader(rows, columns, depth, _SAMPLES.get(colour, 1), plain)


def read_plain_png(path: Path) -> base.Pixels | None:
    """Read a PNG whose samples are all that there is; None for any other file.

    Pillow takes several times as long for small masks, and reduces 16-bit colours to 8 bits.
    """
    import imagecodecs

    with open(path, "rb") as file:
        start = file.read(len(SIGNATURE))
        if start != SIGNATURE:
            return None
        data = start + file.read()
    header = _header(io.BytesIO(data), len(data))
    if not header.plain:
        return None
    bits = header.depth * header.samples
    base.check_claim(
        path, (header.rows, header.columns), bits, stored=len(data), factor=base.DEFLATE
    )
    return split_alpha(imagecodecs.png_decode(data))


def split_alpha(values: Array) -> base.Pixels:
    """Put the samples of pixels, `(rows, columns)` or `(rows, columns, samples)`, in their places.

    Example:
        >>> import numpy as np
        >>> grey_and_alpha = split_alpha(np.zeros((4, 5, 2), np.uint8))
        >>> grey_and_alpha.values.shape, grey_and_alpha.sampled
        ((4, 5), False)
    """
    if values.ndim == 2:
        return base.Pixels(values)
    if values.shape[-1] in (2, 4):
        alpha = values[..., -1]
        values = values[..., :-1]
        grey = values.shape[-1] == 1
        return base.Pixels(values[..., 0] if grey else values, not grey, alpha=alpha)
    return base.Pixels(values, True)


_KINDS = ("PNG", "BMP", "GIF", "JPEG")
_FACTORS = {
    "PNG": base.DEFLATE,
    "BMP": base.LZW,
    "GIF": base.LZW,
    "JPEG": base.JPEG,
    "MPO": base.JPEG,
}
_CHANNELS = {"1": None, "L": None, "I": None, "I;16": None, "LA": 2, "RGBA": 4}


def probe(path: Path) -> Header:
    """The header of a picture; alpha counts as a channel, though it is dropped if opaque."""
    with _open(path) as picture:
        depth = 8
        samples = 3
        if picture.format == "PNG":
            depth, samples = png_header(path)[2:4]
        dtype: np.dtype[Any] = np.dtype(np.uint8)
        if depth == 16:
            dtype = np.dtype(np.uint16)
        elif picture.mode == "1":
            dtype = np.dtype(bool)

        channels = _CHANNELS.get(picture.mode, 3)
        if depth == 16:
            channels = samples if samples > 1 else None
        if picture.mode == "P" and base.is_grey(_palette(picture)):
            channels = None
        return Header((picture.height, picture.width), dtype, channels=channels)


def read_image(path: Path) -> Volume:
    """Read what a viewer shows: 1-bit pictures are 0 and 255, palettes are looked up.

    One channel if all entries of the palette are grey. Alpha is dropped if everything is
    opaque; otherwise it is the last channel.
    """
    return base.image_of(_read(path))


def read_labels(path: Path) -> Volume:
    """Read one label per pixel: 1-bit pictures are bool, palettes as `base.labels_of` says."""
    if path.suffix.lower() in (".jpg", ".jpeg"):
        base.refuse_jpeg()
    return Volume(base.labels_of(_read(path, lossless=True)))


def write_image(path: Path, array: Array, affine: base.Affine) -> None:  # noqa: ARG001
    """Write 8 bits with 1, 3 or 4 channels, or 16 bits with one; an affine is not kept."""
    rows = np.moveaxis(array, 0, -1)
    _save(path, rows[..., 0] if rows.shape[-1] == 1 else rows)


def write_labels(path: Path, array: Array, affine: base.Affine) -> None:  # noqa: ARG001
    """Write labels from 0 to 65535, in 8 bits if they fit; an affine is not kept."""
    low = int(array.min())
    high = int(array.max())
    if low < 0 or high > 0xFFFF:
        message = f"found labels from {low} to {high}, pictures hold 0 to 65535"
        raise RatersError(message, kind="unwritable", file=path)
    _save(path, array.astype(np.uint8 if high <= 0xFF else np.uint16))


FORMAT = base.Format(
    "picture",
    (".png", ".bmp", ".gif", ".jpg", ".jpeg"),
    probe,
    read_image,
    read_labels,
    write_image,
    write_labels,
)


@contextmanager
def _open(path: Path) -> Iterator[ImageFile]:
    """Open by content, checked, with no pixel decoded.

    `Image.open` would refuse large pictures by a limit that is global to the process. Asking
    its plug-ins directly leaves that limit alone; `check_claim` stands in for it.
    """
    from PIL import Image

    Image.preinit()
    with open(path, "rb") as file:
        start = file.read(16)
        kinds = []
        for kind in _KINDS:
            accepts = Image.OPEN[kind][1]
            if accepts and accepts(start):
                kinds.append(kind)
        if not kinds:
            kind = path.suffix[1:].upper()
            raise base.unreadable(f"not a {kind} file: its first bytes are {start[:8]!r}")
        file.seek(0)
        factory, _ = Image.OPEN[kinds[0]]
        picture: ImageFile = factory(file, str(path))  # type: ignore[assignment, unused-ignore]
        _check(path, picture)
        yield picture


def _check(path: Path, picture: ImageFile) -> None:
    kind = str(picture.format)
    shape = (picture.height, picture.width)
    bits = 8 * len(picture.getbands())
    if kind == "PNG":
        rows, columns, depth, samples, _ = png_header(path)
        shape = (rows, columns)
        bits = depth * samples
    base.check_claim(path, shape, bits, factor=_FACTORS[kind])
    # MPO is a JPEG with previews, which are no frames.
    if kind != "MPO":
        frames = getattr(picture, "n_frames", 1)
        if frames > 1:
            raise base.unreadable(f"found {frames} frames, expected a single one")


def _read(path: Path, *, lossless: bool = False) -> base.Pixels:
    plain = read_plain_png(path)
    if plain is not None:
        return plain
    with _open(path) as picture:
        if lossless and picture.format in ("JPEG", "MPO"):
            base.refuse_jpeg()
        picture.load()
        return _pixels(picture)


def _pixels(picture: Image) -> base.Pixels:
    mode = picture.mode
    key = picture.info.get("transparency")
    if mode == "P":
        indices = np.array(picture)
        return base.Pixels(indices, palette=_palette(picture), alpha=_palette_alpha(indices, key))
    if mode in ("LA", "RGBA"):
        return split_alpha(np.array(picture))
    if mode not in ("1", "L", "I", "I;16", "RGB"):  # CMYK and the like
        return base.Pixels(np.array(picture.convert("RGB")), True)
    values = np.array(picture)
    values = values.astype(np.uint16) if mode == "I" else values
    return base.Pixels(values, mode == "RGB", alpha=_key_alpha(values, key))


def _palette(picture: Image) -> NDArray[np.uint8]:
    return np.array(picture.getpalette("RGB") or [0, 0, 0], np.uint8).reshape(-1, 3)


def _palette_alpha(indices: Array, key: Any) -> Array | None:  # noqa: ANN401
    """Transparency of palette entries: a byte for each of the first ones, or one index."""
    if key is None:
        return None
    table = np.full(256, 255, np.uint8)
    if isinstance(key, bytes):
        table[: len(key)] = np.frombuffer(key, np.uint8)
    else:
        table[key] = 0
    return table[indices]


def _key_alpha(values: Array, key: Any) -> Array | None:  # noqa: ANN401
    """Transparency of the one value or colour that the file names."""
    if key is None:
        return None
    same = values == np.array(key)
    hidden = same.all(axis=-1) if values.ndim == 3 else same
    dtype = np.uint16 if values.dtype == np.uint16 else np.uint8
    return np.where(hidden, 0, np.iinfo(dtype).max).astype(dtype)


def _save(path: Path, rows: Array) -> None:
    from PIL import Image

    suffix = path.suffix.lower()
    deep = rows.dtype == np.uint16 and rows.ndim == 2 and suffix == ".png"
    samples = 1 if rows.ndim == 2 else rows.shape[-1]
    plain = rows.dtype == np.uint8 and samples in (1, 3, 4)
    if suffix not in (".png", ".bmp") or not (deep or plain) or not math.prod(rows.shape):
        message = f"shape {rows.shape} of {rows.dtype} does not fit; write .npy instead"
        raise RatersError(message, kind="unwritable", file=path)
    Image.fromarray(np.ascontiguousarray(rows)).save(path, compress_level=1)

"""PNG, BMP, GIF and JPEG: rows and columns, without geometry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.formats.base import (
    DEFLATE,
    JPEG,
    LZW,
    Affine,
    Array,
    Format,
    check_claim,
    refuse_jpeg,
)
from raters.study.formats.colour import Pixels, image_of, is_grey, labels_of
from raters.study.formats.png import png_header, read_plain_png, split_alpha
from raters.study.volume import Header, Volume

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

_KINDS = ("PNG", "BMP", "GIF", "JPEG")
_FACTORS = {"PNG": DEFLATE, "BMP": LZW, "GIF": LZW, "JPEG": JPEG, "MPO": JPEG}
_CHANNELS = {"1": None, "L": None, "I": None, "I;16": None, "LA": 2, "RGBA": 4}


def probe(path: Path) -> Header:
    """The header of a picture; alpha counts as a channel, though it is dropped if opaque."""
    with _open(path) as picture:
        depth, samples = png_header(path)[2:4] if picture.format == "PNG" else (8, 3)
        dtype = np.dtype(np.uint16 if depth == 16 else bool if picture.mode == "1" else np.uint8)
        channels = _CHANNELS.get(picture.mode, 3)
        if depth == 16:
            channels = samples if samples > 1 else None
        if picture.mode == "P" and is_grey(_palette(picture)):
            channels = None
        return Header((picture.height, picture.width), dtype, channels=channels)


def read_image(path: Path) -> Volume:
    """Read what a viewer shows: 1-bit pictures are 0 and 255, palettes are looked up.

    One channel if all entries of the palette are grey. Alpha is dropped if everything is
    opaque; otherwise it is the last channel.
    """
    array, has_channels = image_of(_read(path))
    return Volume(array, None, has_channels)


def read_labels(path: Path) -> Volume:
    """Read one label per pixel: 1-bit pictures are bool, palettes as `colour.labels_of` says."""
    if path.suffix.lower() in (".jpg", ".jpeg"):
        refuse_jpeg(path)
    return Volume(labels_of(_read(path, lossless=True), path))


def write_image(path: Path, array: Array, affine: Affine) -> None:  # noqa: ARG001
    """Write 8 bits with 1, 3 or 4 channels, or 16 bits with one; an affine is not kept."""
    rows = np.moveaxis(array, 0, -1)
    _save(path, rows[..., 0] if rows.shape[-1] == 1 else rows)


def write_labels(path: Path, array: Array, affine: Affine) -> None:  # noqa: ARG001
    """Write labels from 0 to 65535, in 8 bits if they fit; an affine is not kept."""
    low, high = int(array.min()), int(array.max())
    if low < 0 or high > 0xFFFF:
        message = f"found labels from {low} to {high}, pictures hold 0 to 65535"
        raise RatersError(message, kind="unwritable", file=path)
    _save(path, array.astype(np.uint8 if high <= 0xFF else np.uint16))


FORMAT = Format(
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
        kinds = [kind for kind in _KINDS if _accepts(kind, start)]
        if not kinds:
            message = f"not a {path.suffix[1:].upper()} file: its first bytes are {start[:8]!r}"
            raise RatersError(message, kind="unreadable", file=path)
        file.seek(0)
        factory, _ = Image.OPEN[kinds[0]]
        picture: ImageFile = factory(file, str(path))  # type: ignore[assignment, unused-ignore]
        _check(path, picture)
        yield picture


def _accepts(kind: str, start: bytes) -> bool:
    from PIL import Image

    accept = Image.OPEN[kind][1]
    return accept is not None and bool(accept(start))


def _check(path: Path, picture: ImageFile) -> None:
    kind = str(picture.format)
    shape, bits = (picture.height, picture.width), 8 * len(picture.getbands())
    if kind == "PNG":
        rows, columns, depth, samples, _ = png_header(path)
        shape, bits = (rows, columns), depth * samples
    check_claim(path, shape, bits, factor=_FACTORS[kind])
    # MPO is a JPEG with previews, which are no frames.
    if kind != "MPO" and (frames := getattr(picture, "n_frames", 1)) > 1:
        message = f"found {frames} frames, expected a single one"
        raise RatersError(message, kind="unreadable", file=path)


def _read(path: Path, *, lossless: bool = False) -> Pixels:
    plain = read_plain_png(path)
    if plain is not None:
        return plain
    with _open(path) as picture:
        if lossless and picture.format in ("JPEG", "MPO"):
            refuse_jpeg(path)
        picture.load()
        return _pixels(picture)


def _pixels(picture: Image) -> Pixels:
    mode, key = picture.mode, picture.info.get("transparency")
    if mode == "P":
        indices = np.array(picture)
        return Pixels(indices, palette=_palette(picture), alpha=_palette_alpha(indices, key))
    if mode in ("LA", "RGBA"):
        return split_alpha(np.array(picture))
    if mode not in ("1", "L", "I", "I;16", "RGB"):  # CMYK and the like
        return Pixels(np.array(picture.convert("RGB")), True)
    values = np.array(picture)
    values = values.astype(np.uint16) if mode == "I" else values
    return Pixels(values, mode == "RGB", alpha=_key_alpha(values, key))


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

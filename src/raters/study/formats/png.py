"""PNG beside Pillow: its header, and plain samples read by libpng, fast and in all their bits."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import IO, NamedTuple

from raters.errors import RatersError
from raters.study.formats.base import DEFLATE, Array, check_claim
from raters.study.formats.colour import Pixels

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
        return _header(path, file, path.stat().st_size)


def _header(path: Path, file: IO[bytes], size: int) -> PngHeader:
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
            raise RatersError(message, kind="unreadable", file=path)
        plain = plain and kind not in _NOT_PLAIN
    return PngHeader(rows, columns, depth, _SAMPLES.get(colour, 1), plain)


def read_plain_png(path: Path) -> Pixels | None:
    """Read a PNG whose samples are all that there is; None for any other file.

    Pillow takes several times as long for small masks, and reduces 16-bit colours to 8 bits.
    """
    import imagecodecs

    with open(path, "rb") as file:
        start = file.read(len(SIGNATURE))
        if start != SIGNATURE:
            return None
        data = start + file.read()
    header = _header(path, io.BytesIO(data), len(data))
    if not header.plain:
        return None
    bits = header.depth * header.samples
    check_claim(path, (header.rows, header.columns), bits, stored=len(data), factor=DEFLATE)
    return split_alpha(imagecodecs.png_decode(data))


def split_alpha(values: Array) -> Pixels:
    """Put the samples of pixels, `(rows, columns)` or `(rows, columns, samples)`, in their places.

    Example:
        >>> import numpy as np
        >>> grey_and_alpha = split_alpha(np.zeros((4, 5, 2), np.uint8))
        >>> grey_and_alpha.values.shape, grey_and_alpha.sampled
        ((4, 5), False)
    """
    if values.ndim == 2:
        return Pixels(values)
    if values.shape[-1] in (2, 4):
        values, alpha = values[..., :-1], values[..., -1]
        grey = values.shape[-1] == 1
        return Pixels(values[..., 0] if grey else values, not grey, alpha=alpha)
    return Pixels(values, True)

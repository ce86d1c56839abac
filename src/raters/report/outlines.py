"""Masks as SVG paths, and arrays as small pictures inside the page (data URIs)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Literal

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from raters.errors import RatersError
from raters.plots.borders import border_lines

_BLOCK = 1 << 18  # values

SIDE = 512
"""The longest side of a picture in pixels."""


def outline_path(mask: ArrayLike) -> str:
    """Return the outline of a 2D mask along the borders of its pixels, as the `d` of an SVG path.

    The first pixel reaches from (0, 0) to (1, 1); x counts columns, y counts rows.

    Example:
        >>> outline_path([[0, 1, 1], [0, 1, 0]])
        'M1 0h2v1h-1v1h-1z'
    """
    return "".join(_closed(line) for line in border_lines(mask))


def _closed(line: NDArray[np.float64]) -> str:
    points = np.rint(line + 0.5).astype(int)
    steps = np.diff(points, axis=0)[:-1]  # the last one is 'z'
    parts = [f"h{dx}" if dx else f"v{dy}" for dx, dy in steps.tolist()]
    return f"M{points[0, 0]} {points[0, 1]}{''.join(parts)}z"


def picture(array: ArrayLike, side: int = SIDE, window: tuple[float, float] | None = None) -> str:
    """Return a grey `(rows, columns)` or colour `(rows, columns, 3)` picture as a data URI.

    Colours of 8 bits stay as they are; other values are cut at a window.

    Args:
        array: The values.
        side: The longest side in pixels that it may have; larger ones are made smaller.
        window: The values that are black and white; by default the 1st and 99th percentile.

    Example:
        >>> picture(np.arange(12.0).reshape(3, 4))[:15]
        'data:image/webp'
    """
    values = np.asarray(array)
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3) or not values.size:
        raise RatersError(
            f"found a picture of shape {values.shape}, expected (rows, columns) or "
            "(rows, columns, 3)"
        )
    if values.ndim == 3 and values.dtype == np.uint8 and window is None:
        eight = values
    else:
        low, high = robust_window(values) if window is None else window
        eight = np.empty(values.shape, np.uint8)
        for rows in _rows(values):
            scaled = (values[rows].astype(np.float64) - low) / ((high - low) or 1.0)
            eight[rows] = (np.nan_to_num(scaled).clip(0, 1) * 255).round()
    return _data_uri(_smaller(Image.fromarray(eight), side), lossy=True)


def robust_window(values: NDArray[Any]) -> tuple[float, float]:
    """Return the 1st and 99th percentile, or lowest and highest value where these are equal.

    Example:
        >>> robust_window(np.array([0.0, 0.0, np.nan]))
        (0.0, 0.0)
    """
    known = values[np.isfinite(values)].astype(np.float64)
    if not known.size:
        return 0.0, 1.0
    low, high = np.percentile(known, [1, 99])
    return (float(low), float(high)) if high > low else (float(known.min()), float(known.max()))


def map_picture(values: ArrayLike, colour: str = "#e040fb", side: int = SIDE) -> str:
    """Return values from 0 (clear) to 1 (the colour) as a picture to lay over another.

    Example:
        >>> map_picture([[0.0, 1.0]], "#ff0000")[:11]
        'data:image/'
    """
    array = np.asarray(values)
    coloured = np.empty((*array.shape, 4), np.uint8)
    coloured[..., :3] = np.rint(np.array(to_rgb(colour)) * 255)
    for rows in _rows(array):
        strength = np.nan_to_num(array[rows].astype(np.float64)).clip(0, 1)
        # Few steps: they cannot be told apart, and the file is much smaller.
        coloured[rows, ..., 3] = np.rint(strength * 31) * 255 // 31
        coloured[rows, ..., :3] *= coloured[rows, ..., 3:] > 0
    return _data_uri(_smaller(Image.fromarray(coloured), side), lossy=False)


def colours_picture(colours: ArrayLike, side: int = SIDE) -> str:
    """Return colours `(rows, columns, 3)` from 0 to 1 as a picture without losses.

    `raters.plots.error_colours` gives such colours.
    """
    array = np.asarray(colours, np.float64)
    if array.ndim != 3 or array.shape[2] != 3:
        raise RatersError(f"found colours of shape {array.shape}, expected (rows, columns, 3)")
    eight = (np.nan_to_num(array).clip(0, 1) * 255).round().astype(np.uint8)
    return _data_uri(_smaller(Image.fromarray(eight), side, sharp=True), lossy=False)


def _rows(array: NDArray[Any]) -> Iterator[slice]:
    """Return stretches of rows, so that work on a large picture needs little memory beside it."""
    step = max(1, _BLOCK * len(array) // max(array.size, 1))
    return (slice(start, start + step) for start in range(0, len(array), step))


def _smaller(image: Image.Image, side: int, sharp: bool = False) -> Image.Image:
    if max(image.size) <= side:
        return image
    scale = side / max(image.size)
    width, height = (max(1, round(n * scale)) for n in image.size)
    way = Image.Resampling.NEAREST if sharp else Image.Resampling.BOX
    return image.resize((width, height), way)


def _data_uri(image: Image.Image, lossy: bool) -> str:
    """Return the smaller one of WebP and PNG."""
    webp = _encoded(image, "WEBP", quality=80, method=2, lossless=not lossy, exact=False)
    png = _encoded(image, "PNG", optimize=False, compress_level=6)
    kind, content = ("webp", webp) if len(webp) <= len(png) else ("png", png)
    return f"data:image/{kind};base64,{b64encode(content).decode('ascii')}"


def _encoded(image: Image.Image, kind: Literal["WEBP", "PNG"], **options: Any) -> bytes:  # noqa: ANN401
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()

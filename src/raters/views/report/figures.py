"""Figures, outlines and pictures inside the page: SVG in the colour of its text, and data URIs."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Container, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from PIL import Image

from raters.core.arrays import Array
from raters.core.errors import RatersError
from raters.io.paths import written_whole
from raters.views.plots.pictures import border_lines, value_window
from raters.views.plots.style import look

LARGE = 400_000
"""Figures of more bytes than this are drawn again with their marks as pictures."""
_DPI = 200
_PAGE_COLOURS = {look("light").ink: "currentColor", look("light").gap: "var(--gap)"}
_REFERENCES = re.compile(r"url\(#([^)]+)\)")


def figure_svg(figure: Figure, dense: bool = False) -> str:
    """Draw a figure as an SVG file; thousands of marks become one picture, texts stay text."""
    text = _saved(figure) if not dense else ""
    if dense or len(text) > LARGE:
        with _rasterized(figure):
            text = _saved(figure)
    return text


def inline_svg(svg: str, prefix: str, raters: Container[str] = ()) -> str:
    """Turn an SVG file of matplotlib into a piece of HTML.

    Ink becomes `currentColor`, so that one drawing serves light and dark pages. Ids get a prefix of
    letters and digits, so that figures do not share them. What could act or leave the page is taken
    out. Names of cases and of `raters` become links that open them.

    Example:
        >>> inline_svg('<svg><path id="a" style="fill: #1a1a1a"/></svg>', "f1-")
        '<svg role="img"><path id="f1-a" style="fill: currentColor" /></svg>'
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain(child.tag) in ("metadata", "style", "script", "foreignObject"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _plain(element.tag)
        own = [_own(_plain(name), value, prefix) for name, value in element.attrib.items()]
        element.attrib.clear()
        element.attrib.update(pair for pair in own if pair is not None)
        kind, _, name = element.get("id", "").removeprefix(prefix).partition("=")
        if kind in ("case", "rater"):
            linked = kind == "case" or unquote(name) in raters
            element.tag = "a" if linked else "g"
            element.attrib = {"href": f"#{kind}={name}"} if linked else {}
    root.set("role", "img")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def write_figure(figure: Figure, svg: str, path: Path) -> None:
    """Write `path` with .svg (already drawn) and .png (on white, for slides and papers)."""
    with written_whole(path.with_name(path.name + ".svg")) as file:
        file.write(svg)
    figure.set_layout_engine(None)  # the SVG was laid out, and once is enough
    with written_whole(path.with_name(path.name + ".png"), "wb") as binary:
        figure.savefig(binary, format="png", dpi=_DPI, facecolor="white")


def _saved(figure: Figure) -> str:
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "raters"}):
        figure.savefig(buffer, format="svg", dpi=_DPI, metadata={"Date": None})
    return buffer.getvalue().decode("utf-8")


@contextmanager
def _rasterized(figure: Figure) -> Iterator[None]:
    """Draw the marks of all axes as pictures for a while."""
    marks: list[Artist] = []
    for axes in figure.axes:
        artists = (*axes.collections, *axes.lines, *axes.patches, *axes.images)
        marks += [mark for mark in artists if not mark.get_rasterized()]
    for mark in marks:
        mark.set_rasterized(True)
    try:
        yield
    finally:
        for mark in marks:
            mark.set_rasterized(False)


def _plain(name: object) -> str:
    """Take the namespace off: inside HTML there is none."""
    return str(name).rpartition("}")[2]


def _own(name: str, value: str, prefix: str) -> tuple[str, str] | None:
    """Return an attribute with the ids and colours of the page; None for what could act."""
    if name.lower().startswith("on"):
        return None
    if name == "href":
        inside = f"#{prefix}{value[1:]}" if value.startswith("#") else value
        return (name, inside) if value.startswith(("#", "data:image/")) else None
    if name in ("style", "fill", "stroke"):
        for colour, own in _PAGE_COLOURS.items():
            value = re.sub(re.escape(colour), own, value, flags=re.IGNORECASE)
    return name, prefix + value if name == "id" else _REFERENCES.sub(rf"url(#{prefix}\1)", value)


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
    path = ""
    for line in border_lines(mask):
        points = np.rint(line + 0.5).astype(int)
        steps = np.diff(points, axis=0)[:-1].tolist()  # the last one is 'z'
        parts = "".join(f"h{dx}" if dx else f"v{dy}" for dx, dy in steps)
        path += f"M{points[0, 0]} {points[0, 1]}{parts}z"
    return path


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
        low, high = value_window(values, volume=False) if window is None else window
        eight = np.empty(values.shape, np.uint8)
        for rows in _rows(values):
            scaled = (values[rows].astype(np.float64) - low) / ((high - low) or 1.0)
            eight[rows] = (np.nan_to_num(scaled).clip(0, 1) * 255).round()
    return _data_uri(eight, side, lossy=True)


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
    return _data_uri(coloured, side, lossy=False)


def colours_picture(colours: ArrayLike, side: int = SIDE) -> str:
    """Return colours `(rows, columns, 3)` from 0 to 1 as a picture without losses.

    `raters.views.plots.error_colours` gives such colours.
    """
    array = np.asarray(colours, np.float64)
    if array.ndim != 3 or array.shape[2] != 3:
        raise RatersError(f"found colours of shape {array.shape}, expected (rows, columns, 3)")
    eight = (np.nan_to_num(array).clip(0, 1) * 255).round().astype(np.uint8)
    return _data_uri(eight, side, lossy=False, sharp=True)


def _rows(array: Array) -> Iterator[slice]:
    """Return stretches of rows, so that work on a large picture needs little memory beside it."""
    step = max(1, _BLOCK * len(array) // max(array.size, 1))
    return (slice(start, start + step) for start in range(0, len(array), step))


def _data_uri(array: Array, side: int, lossy: bool, sharp: bool = False) -> str:
    """Return a picture, made smaller if it is larger, as the shorter one of WebP and PNG."""
    image = Image.fromarray(array)
    if max(image.size) > side:
        width, height = (max(1, round(n * side / max(image.size))) for n in image.size)
        way = Image.Resampling.NEAREST if sharp else Image.Resampling.BOX
        image = image.resize((width, height), way)
    webp = BytesIO()
    png = BytesIO()
    image.save(webp, "WEBP", quality=80, method=2, lossless=not lossy, exact=False)
    image.save(png, "PNG", optimize=False, compress_level=6)
    kind, content = min(("webp", webp), ("png", png), key=lambda pair: pair[1].getbuffer().nbytes)
    return f"data:image/{kind};base64,{b64encode(content.getvalue()).decode('ascii')}"

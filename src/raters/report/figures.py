"""Figures as SVG inside the page: ink in the colour of the page's text, ids of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import matplotlib

from raters.plots.style import look
from raters.study.paths import written_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

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


def inline_svg(svg: str, prefix: str) -> str:
    """Turn an SVG file of matplotlib into a piece of HTML.

    Ink becomes `currentColor`, so that one drawing serves light and dark pages. Ids get a prefix,
    so that figures do not share them. What could act or leave the page is taken out.

    Args:
        svg: The file.
        prefix: Letters and digits, another one for each figure.

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
        kept = {_plain(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        for name, value in kept.items():
            if _harmless(name, value):
                element.set(name, _own(name, value, prefix))
    root.set("role", "img")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def write_figure(figure: Figure, svg: str, path: Path) -> None:
    """Write `path` with .svg (already drawn) and .png (on white, for slides and papers)."""
    with written_whole(path.with_name(path.name + ".svg")) as file:
        file.write(svg)
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
    marks: list[Artist] = [
        mark
        for axes in figure.axes
        for mark in (*axes.collections, *axes.lines, *axes.patches, *axes.images)
        if not mark.get_rasterized()
    ]
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


def _harmless(name: str, value: str) -> bool:
    if name == "href":
        return value.startswith(("#", "data:image/"))
    return not name.lower().startswith("on")


def _own(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == "href":
        return f"#{prefix}{value[1:]}" if value.startswith("#") else value
    if name in ("style", "fill", "stroke"):
        for colour, own in _PAGE_COLOURS.items():
            value = re.sub(re.escape(colour), own, value, flags=re.IGNORECASE)
    return _REFERENCES.sub(rf"url(#{prefix}\1)", value)

"""Where more drawing would gain most: images under a map of bits, with the best patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from raters.arrays import Array, Floats
from raters.plots import style
from raters.plots.matrices import colour_bar
from raters.plots.pictures import picture
from raters.plots.style import Theme
from raters.plots.views import Letters, draw_letters, view_of
from raters.study.geometry import Geometry

_FRAME = "#56b4e9"  # light blue stands out from grey and from the map, also to the colour-blind


class Suggested(NamedTuple):
    """An image with its map of bits and patches.

    Attributes:
        title: What stands above it.
        image: `(channels, *space)`; None if there is none.
        bits: `(*space)`.
        patches: Where patches are, as indices.
        geometry: The grid of the image; None where it does not matter.
    """

    title: str
    image: Array | None
    bits: Array
    patches: Sequence[tuple[slice, ...]] = ()
    geometry: Geometry | None = None


def suggestions(shown: Sequence[Suggested], theme: Theme = "light") -> Figure:
    """Draw images under their maps of bits, patches as frames; of volumes the fullest slice.

    Args:
        shown: What to draw, best first.
        theme: The page.

    Example:
        >>> bits = np.eye(8, dtype=np.float32)
        >>> one = Suggested("1. scan3", np.ones((1, 8, 8)), bits, [(slice(0, 4), slice(0, 4))])
        >>> figure = suggestions([one, one])
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['1. scan3', '1. scan3']
    """
    rows, columns = style.grid_shape(len(shown), 4)
    figure = style.new_figure(columns * 2.6 + 0.6, rows * 2.9, pictures=True)
    panels = np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel()
    top = max((float(one.bits.max(initial=0)) for one in shown), default=0) or 1.0
    for panel in panels:
        style.plain_axes(panel, theme)
        style.no_frame(panel)
        panel.set_visible(False)
    for panel, one in zip(panels, shown, strict=False):
        panel.set_visible(True)
        _draw(panel, one, top)
    last = panels[0].images[-1]
    colour_bar(figure, last, list(panels[: len(shown)]), theme, "what a label would tell (bits)")
    return figure


def _draw(panel: Axes, one: Suggested, top: float) -> None:
    space, grid = one.bits.shape, one.geometry or Geometry(one.bits.shape)
    image = None if one.image is None else picture(one.image, space, None)
    bits, aspect, title, letters = one.bits, 1.0, one.title, None
    frames = [(p[0].start, p[1].start, p[0].stop, p[1].stop) for p in one.patches]
    if len(space) == 2:
        aspect = grid.spacing[0] / grid.spacing[1]
    else:
        view = view_of(space, grid.affine)
        turned = view.turn(bits)
        at = int(turned.sum(axis=(1, 2)).argmax())
        image = None if image is None else view.turn(image)[at]
        frames = [f for f in (_frame(view.turn(_inside(space, p))[at]) for p in one.patches) if f]
        bits, aspect, letters = turned[at], view.aspect(grid.spacing), view.letters
        title = f"{title}\n{view.name(at, space)}"
    _show(panel, image, bits, aspect, top, letters)
    panel.set_title(title)
    for row, column, bottom, right in frames:
        corner, size = (column - 0.5, row - 0.5), (right - column, bottom - row)
        panel.add_patch(Rectangle(corner, *size, fill=False, ec=_FRAME, lw=1.6))


def _show(
    panel: Axes,
    image: Floats | None,
    bits: Array,
    aspect: float,
    top: float,
    letters: Letters | None,
) -> None:
    if image is not None:
        panel.imshow(image, cmap="gray", vmin=0, vmax=1, aspect=aspect, interpolation="nearest")
    opacity = np.clip(np.asarray(bits, np.float64) / top, 0, 1) * 0.75
    panel.imshow(bits, cmap="inferno", vmin=0, vmax=top, alpha=opacity, aspect=aspect)
    draw_letters(panel, letters)


def _inside(space: tuple[int, ...], place: tuple[slice, ...]) -> Array:
    inside = np.zeros(space, bool)
    inside[place] = True
    return inside


def _frame(inside: Array) -> tuple[int, int, int, int] | None:
    """Return the first and one past the last row and column of what is inside."""
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    if not len(rows):
        return None
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1

"""One heat map with named rows and columns, and numbers in its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from raters.plots.names import all_shown, families
from raters.plots.style import LARGE, MEDIUM, SMALL, Theme, look, ramp, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


def heat_map(
    axes: Axes,
    values: NDArray[np.float64],
    scale: tuple[float, float],
    theme: Theme,
    write: Callable[[float], str] | None = None,
    size: float = MEDIUM,
) -> AxesImage:
    """Draw values `(rows, columns)`; NaN is a gap, `write` gives the text in a cell."""
    colours, norm = ramp(theme), Normalize(*scale)
    image = axes.imshow(values, cmap=colours, norm=norm, aspect="equal", interpolation="nearest")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        if write is not None and np.isfinite(value):
            ink = text_on(colours(norm(value)))
            axes.text(
                column, row, write(float(value)), ha="center", va="center", color=ink, fontsize=size
            )
    return image


def name_sides(
    axes: Axes,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    size: float = MEDIUM,
    most: int = 16,
) -> None:
    """Name rows and columns (None for no names); long names of columns stand upright."""
    words: dict[str, Any] = {"fontsize": size, "family": list(families())}
    texts = all_shown(rows or (), most)
    axes.set_yticks(range(len(texts)), texts, **words)
    texts = all_shown(columns or (), most)
    axes.set_xticks(range(len(texts)), texts, rotation=90 if upright(texts) else 0, **words)


def upright(names: Sequence[str]) -> bool:
    """Return whether names of columns have to stand upright.

    Example:
        >>> upright(["a", "b"]), upright(["background", "lesion"]), upright(["benign"] * 3)
        (False, False, True)
    """
    longest = max(map(len, names), default=0)
    return longest > 10 or (longest > 3 and len(names) > 2)


def colour_bar(
    figure: Figure, image: AxesImage, axes: Sequence[Axes], theme: Theme, what: str
) -> None:
    """Put one narrow colour bar beside axes."""
    height = figure.get_figheight()
    bar = figure.colorbar(image, ax=list(axes), shrink=0.8, aspect=max(15, 7 * height), pad=0.02)
    dress_bar(bar, theme, what)


def dress_bar(bar: Colorbar, theme: Theme, what: str) -> None:
    """Colour a bar for a page, and say what it shows."""
    bar.outline.set_visible(False)
    ink = look(theme).ink
    bar.ax.tick_params(
        colors=ink, labelcolor=ink, labelsize=SMALL, labelfontfamily=list(families())
    )
    bar.set_label(what, color=ink, fontsize=MEDIUM, family=list(families()))


def cell_size(columns: int) -> float:
    """Return a font size for numbers in cells of a map with so many columns.

    Example:
        >>> cell_size(2), cell_size(10)
        (9.8, 6.6)
    """
    return min(LARGE, round(10.6 - 0.4 * columns, 1)) if columns <= 12 else 5.5

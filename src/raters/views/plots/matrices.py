"""Heat maps with named rows and columns, and confusion matrices: estimated beside true ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike

from raters.core.arrays import Floats
from raters.core.errors import RatersError
from raters.views.plots import style
from raters.views.plots.style import Theme


def heat_map(
    axes: Axes,
    values: Floats,
    scale: tuple[float, float],
    theme: Theme,
    write: Callable[[float], str] | None = None,
    size: float = style.MEDIUM,
) -> AxesImage:
    """Draw values `(rows, columns)`; NaN is a gap, `write` gives the text in a cell."""
    colours = style.ramp(theme)
    norm = Normalize(*scale)
    image = axes.imshow(values, cmap=colours, norm=norm, aspect="equal", interpolation="nearest")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        if write is not None and np.isfinite(value):
            ink = style.text_on(colours(norm(value)))
            axes.text(
                column, row, write(float(value)), ha="center", va="center", color=ink, fontsize=size
            )
    return image


def name_sides(
    axes: Axes,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    size: float = style.MEDIUM,
    most: int = 16,
) -> None:
    """Name rows and columns (None for no names); long names of columns stand upright."""
    texts = style.all_shown(rows or (), most)
    axes.set_yticks(range(len(texts)), texts, **style.font(size))
    texts = style.all_shown(columns or (), most)
    axes.set_xticks(
        range(len(texts)), texts, rotation=90 if upright(texts) else 0, **style.font(size)
    )


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
    ink = style.look(theme).ink
    bar.ax.tick_params(
        colors=ink, labelcolor=ink, labelsize=style.SMALL, labelfontfamily=list(style.families())
    )
    bar.set_label(what, color=ink, **style.font(style.MEDIUM))


def cell_size(columns: int) -> float:
    """Return a font size for numbers in cells of a map with so many columns.

    Example:
        >>> cell_size(2), cell_size(10)
        (9.8, 6.6)
    """
    return min(style.LARGE, round(10.6 - 0.4 * columns, 1)) if columns <= 12 else 5.5


_MOST_CLASSES_WRITTEN = 10
_MOST_NUMBERS = 1500


def confusion(
    matrices: ArrayLike,
    classes: Sequence[str] | None = None,
    raters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    theme: Theme = "light",
    *,
    numbers: bool | None = None,
    rows: str = "true class",
    columns: str = "observed class",
) -> Figure:
    """Draw the matrices `C[t, o]` of raters: rows are true, columns observed classes.

    Args:
        matrices: `(raters, L, L)`, or one `(L, L)`; probabilities, or counts.
        classes: Names of the classes.
        raters: Names of the raters, the titles.
        truth: The true matrices, drawn beside the estimated ones.
        theme: The page.
        numbers: Write the numbers into the cells; by default with up to 10 classes and 1,500
            numbers in all.
        rows: What rows are.
        columns: What columns are.

    Example:
        >>> matrix = [[0.9, 0.1], [0.2, 0.8]]
        >>> figure = confusion([matrix, matrix], ["healthy", "lesion"], ["ann", "bob"])
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['ann', 'bob']
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0.90', '0.10', '0.20', '0.80']
    """
    found = _stack(matrices, "matrices")
    pairs = found[:, np.newaxis]
    if truth is not None:
        true = _stack(truth, "true matrices")
        if true.shape != found.shape:
            raise RatersError(f"found true matrices of shape {true.shape}, expected {found.shape}")
        pairs = np.stack([found, true], axis=1)
    names = [""] if raters is None and len(found) == 1 else style.names_of(raters, len(found))
    labels = style.names_of(classes, found.shape[1], "classes")
    return _draw(pairs, labels, names, theme, numbers, (rows, columns))


def _stack(matrices: ArrayLike, what: str) -> Floats:
    array = np.asarray(matrices, np.float64)
    array = array[np.newaxis] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1] != array.shape[2] or not array.size:
        raise RatersError(
            f"found {what} of shape {np.shape(matrices)}, "
            "expected (raters, L, L) or (L, L) with at least one rater and class"
        )
    return array


def _draw(
    pairs: Floats,
    classes: list[str],
    raters: list[str],
    theme: Theme,
    numbers: bool | None,
    sides: tuple[str, str],
) -> Figure:
    count, beside, size = pairs.shape[:3]
    if numbers is None:
        numbers = size <= _MOST_CLASSES_WRITTEN and pairs.size <= _MOST_NUMBERS
    side = max(1.5, (0.36 if numbers else 0.09) * size)
    layout = _Layout.of(count, beside, side, classes)
    figure = style.new_figure(*layout.inches)
    figure.set_layout_engine("none")  # places are known here, and finding them is slow for many
    write = _writer(pairs) if numbers else None
    high = 1.0
    if not _shares(pairs):
        high = float(np.nanmax(pairs))
    if size <= 6:
        small = style.MEDIUM
    elif size <= 12:
        small = style.SMALL
    else:
        small = 5.5

    image = None
    for k in range(count * beside):
        panel = style.plain_axes(figure.add_axes(layout.place(k)), theme)
        image = heat_map(
            panel, pairs[k // beside, k % beside], (0, high), theme, write, cell_size(size)
        )
        _title(panel, raters[k // beside], k % beside if beside > 1 else None, side)
        left = k % layout.columns == 0
        below = k + layout.columns >= count * beside
        name_sides(panel, classes if left else None, classes if below else None, small)
    assert image is not None
    bar = figure.colorbar(image, cax=figure.add_axes(layout.bar()))
    dress_bar(bar, theme, "share" if high == 1 else "count")
    words = {"color": style.look(theme).ink, **style.font(style.MEDIUM)}
    middle = layout.middle()
    figure.text(0.06 / layout.inches[0], middle[1], sides[0], rotation=90, va="center", **words)
    figure.text(middle[0], 0.06 / layout.inches[1], sides[1], ha="center", **words)
    return figure


@dataclass(frozen=True)
class _Layout:
    """Where panels are, in inches: `rows` x `columns` squares of a side, with margins."""

    rows: int
    columns: int
    side: float
    left: float
    bottom: float
    top: float = 0.32
    gap: float = 0.12

    @classmethod
    def of(cls, count: int, beside: int, side: float, classes: Sequence[str]) -> _Layout:
        """Put up to 4 raters in a row, else as many as a page holds; pairs stay together."""
        fitting = max(1, int(11 / (side * beside)))
        rows, columns = style.grid_shape(count, min(fitting, count) if beside == 1 else fitting)
        texts = style.all_shown(classes, 16)
        letters = 0.07 * max(map(len, texts))
        bottom = 0.35 + (letters if upright(texts) else 0.15)
        return cls(rows, columns * beside, side, letters + 0.4, bottom)

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height of the figure."""
        wide = self.left + self.columns * (self.side + self.gap) + 0.75
        return wide, self.bottom + self.rows * (self.side + self.top)

    def place(self, k: int) -> tuple[float, float, float, float]:
        """Return left, bottom, width and height of a panel as shares of the figure."""
        wide, high = self.inches
        row, column = divmod(k, self.columns)
        x = self.left + column * (self.side + self.gap)
        y = self.bottom + (self.rows - 1 - row) * (self.side + self.top)
        return x / wide, y / high, self.side / wide, self.side / high

    def bar(self) -> tuple[float, float, float, float]:
        """Return the place of the colour bar: to the right of the upper rows."""
        wide, high = self.inches
        tall = min(4.0, self.rows * (self.side + self.top) - self.top)
        x = self.left + self.columns * (self.side + self.gap) + 0.02
        return x / wide, (high - self.top - tall) / high, 0.12 / wide, tall / high

    def middle(self) -> tuple[float, float]:
        """Return the middle of all panels."""
        wide, high = self.inches
        x = self.left + self.columns * (self.side + self.gap) / 2
        return x / wide, (self.bottom + (high - self.bottom) / 2) / high


def _shares(pairs: Floats) -> bool:
    known = pairs[np.isfinite(pairs)]
    return not known.size or bool(known.max() <= 1 + 1e-6)


def _writer(pairs: Floats) -> Callable[[float], str]:
    if _shares(pairs):
        return "{:.2f}".format
    whole = bool((np.nan_to_num(pairs) % 1 == 0).all())
    return (lambda value: f"{value:,.0f}") if whole else "{:.1f}".format


def _title(panel: Axes, rater: str, which: int | None, side: float) -> None:
    beside = "" if which is None else (" estimated", " true")[which]
    room = max(8, int(side * 11) - len(beside))
    title = panel.set_title(
        f"{style.shown(rater, room)}{beside}".strip(),
        fontsize=style.MEDIUM if beside else style.LARGE,
    )
    style.say_whose([title], [rater])

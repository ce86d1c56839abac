"""Confusion matrices as heat maps, a panel per rater; estimated beside true ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.plots.heat import cell_size, dress_bar, heat_map, name_sides, upright
from raters.plots.names import all_shown, families, shown
from raters.plots.style import (
    LARGE,
    MEDIUM,
    SMALL,
    Theme,
    grid_shape,
    look,
    new_figure,
    plain_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_CLASSES_WRITTEN = 10
_MOST_NUMBERS = 1500


def confusion(
    matrices: ArrayLike,
    classes: Sequence[str] | None = None,
    raters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    theme: Theme = "light",
    numbers: bool | None = None,
    rows: str = "true class",
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
        pairs = np.stack([found, _like(_stack(truth, "true matrices"), found)], axis=1)
    names = _names(raters, len(found), "raters", [""] if len(found) == 1 else None)
    labels = _names(classes, found.shape[1], "classes", None)
    return _draw(pairs, labels, names, theme, numbers, rows)


def _stack(matrices: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(matrices, np.float64)
    array = array[np.newaxis] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1] != array.shape[2] or not array.size:
        raise RatersError(
            f"found {what} of shape {np.shape(matrices)}, "
            "expected (raters, L, L) or (L, L) with at least one rater and class"
        )
    return array


def _like(truth: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    if truth.shape != found.shape:
        raise RatersError(f"found true matrices of shape {truth.shape}, expected {found.shape}")
    return truth


def _names(
    given: Sequence[str] | None, number: int, what: str, default: list[str] | None
) -> list[str]:
    if given is None:
        return default or [str(k) for k in range(number)]
    if len(given) != number:
        raise RatersError(f"found {len(given)} names of {what}, expected {number}")
    return list(given)


def _draw(
    pairs: NDArray[np.float64],
    classes: list[str],
    raters: list[str],
    theme: Theme,
    numbers: bool | None,
    rows: str,
) -> Figure:
    count, beside, size = pairs.shape[:3]
    if numbers is None:
        numbers = size <= _MOST_CLASSES_WRITTEN and pairs.size <= _MOST_NUMBERS
    side = max(1.5, (0.36 if numbers else 0.09) * size)
    layout = _Layout.of(count, beside, side, classes)
    figure = new_figure(*layout.inches)
    figure.set_layout_engine("none")  # places are known here, and finding them is slow for many
    write, high = _writer(pairs) if numbers else None, 1.0
    if not _shares(pairs):
        high = float(np.nanmax(pairs))
    small = MEDIUM if size <= 6 else SMALL if size <= 12 else 5.5
    image = None
    for k in range(count * beside):
        panel = plain_axes(figure.add_axes(layout.place(k)), theme)
        image = heat_map(panel, pairs[k // beside, k % beside], (0, high), theme, write, cell_size(size))  # fmt: skip  # noqa: E501
        _title(panel, raters[k // beside], k % beside if beside > 1 else None, side)
        left, below = layout.at_left(k), k + layout.columns >= count * beside
        name_sides(panel, classes if left else None, classes if below else None, small)
    assert image is not None
    bar = figure.colorbar(image, cax=figure.add_axes(layout.bar()))
    dress_bar(bar, theme, "share" if high == 1 else "count")
    words: dict[str, Any] = {
        "color": look(theme).ink,
        "fontsize": MEDIUM,
        "family": list(families()),
    }
    middle = layout.middle()
    figure.text(0.06 / layout.inches[0], middle[1], rows, rotation=90, va="center", **words)
    figure.text(middle[0], 0.06 / layout.inches[1], "observed class", ha="center", **words)
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
        rows, columns = grid_shape(count, min(fitting, count) if beside == 1 else fitting)
        texts = all_shown(classes, 16)
        letters = 0.07 * max(map(len, texts))
        bottom = 0.35 + (letters if upright(texts) else 0.15)
        return cls(rows, columns * beside, side, letters + 0.4, bottom)

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height of the figure."""
        wide = self.left + self.columns * (self.side + self.gap) + 0.75
        return wide, self.bottom + self.rows * (self.side + self.top)

    def at_left(self, k: int) -> bool:
        """Return whether a panel is the first of its row."""
        return k % self.columns == 0

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


def _shares(pairs: NDArray[np.float64]) -> bool:
    known = pairs[np.isfinite(pairs)]
    return not known.size or bool(known.max() <= 1 + 1e-6)


def _writer(pairs: NDArray[np.float64]) -> Callable[[float], str]:
    if _shares(pairs):
        return "{:.2f}".format
    whole = bool((np.nan_to_num(pairs) % 1 == 0).all())
    return (lambda value: f"{value:,.0f}") if whole else "{:.1f}".format


def _title(panel: Axes, rater: str, which: int | None, side: float) -> None:
    beside = "" if which is None else (" estimated", " true")[which]
    room = max(8, int(side * 11) - len(beside))
    panel.set_title(f"{shown(rater, room)}{beside}".strip(), fontsize=MEDIUM if beside else LARGE)

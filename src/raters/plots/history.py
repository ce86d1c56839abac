"""How training went: a small panel for each number that was written down by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from raters.arrays import Floats
from raters.errors import RatersError
from raters.plots import style
from raters.plots.style import Theme
from raters.rows import Row

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {
    "loss": "loss",
    "held_out": "held-out loss",
    "reference": "score on the reference",
    "trace": "trace term",
    "dominance": "dominance margin",
    "prior": "prior term",
}
_NOT_DRAWN = ("epoch", "seconds")


def curves(
    history: Sequence[Row] | pd.DataFrame,
    warm_up: int = 0,
    best_epoch: int | None = None,
    columns: Sequence[str] | None = None,
    theme: Theme = "light",
) -> Figure:
    """Draw the history of a training, a panel per column; epochs without a value are gaps.

    Args:
        history: `model.history`, a row per epoch.
        warm_up: How many epochs held the matrices: they are shaded.
        best_epoch: The epoch that was kept: it is marked.
        columns: What to draw; by default all numbers but the epoch and its seconds.
        theme: The page.

    Example:
        >>> history = [{"epoch": 1, "loss": 0.9}, {"epoch": 2, "loss": 0.4, "held_out": 0.5}]
        >>> figure = curves(history, warm_up=1, best_epoch=2)
        >>> [axes.get_title() for axes in figure.axes]
        ['loss', 'held-out loss']
    """
    rows = style.rows_of(history, "found a history without epochs, expected at least one")
    names = list(columns) if columns is not None else _numbers(rows)
    for name in names:
        if all(name not in row for row in rows):
            raise RatersError(f"found no {name!r} in the history, expected one of: "
                              f"{', '.join(_numbers(rows))}")  # fmt: skip
    if not names:
        raise RatersError("found a history without numbers, expected 'loss' or the like")
    epochs = np.array([_number(row.get("epoch", k + 1)) for k, row in enumerate(rows)])
    lines, width = style.grid_shape(len(names), 3)
    figure = style.new_figure(width * 2.9 + 0.2, lines * 1.9 + 0.3)
    panels = np.asarray(figure.subplots(lines, width, sharex=True, squeeze=False)).ravel()
    for k, panel in enumerate(panels):
        if k >= len(names):
            panel.set_visible(False)
            continue
        last = k + width >= len(names)
        style.plain_axes(panel, theme, x="epoch" if last else "")
        panel.set_title(_TITLES.get(names[k], style.shown(names[k])), fontsize=style.MEDIUM)
        panel.tick_params(labelsize=style.SMALL, labelbottom=last)
        values = np.array([_number(row.get(names[k])) for row in rows])
        _line(panel, epochs, values, warm_up, best_epoch, theme)
        if k == 0 and warm_up > 0:
            ink = style.look(theme).ink
            at = panel.transAxes
            panel.text(
                0.02, 1.0, "warm-up", color=ink, fontsize=style.SMALL, va="top", transform=at
            )
    return figure


def _numbers(rows: list[Row]) -> list[str]:
    """Return the columns with numbers, the well-known ones first."""
    found = dict.fromkeys(
        name
        for row in rows
        for name, value in row.items()
        if name not in _NOT_DRAWN and np.isfinite(_number(value))
    )
    return [name for name in _TITLES if name in found] + [n for n in found if n not in _TITLES]


def _number(value: Any) -> float:  # noqa: ANN401
    return float(value) if isinstance(value, Real) else float("nan")


def _line(
    panel: Axes, epochs: Floats, values: Floats, warm_up: int, best: int | None, theme: Theme
) -> None:
    colours = style.look(theme)
    alone = "o" if np.isfinite(values).sum() <= 2 else None  # a line needs more than a point
    panel.plot(epochs, values, color=colours.line, lw=1.4, marker=alone, ms=3)
    first = float(np.nanmin(epochs))
    if warm_up > 0:
        panel.axvspan(first - 0.5, first + warm_up - 0.5, color=colours.muted, alpha=0.2, lw=0)
    at = np.flatnonzero(epochs == best) if best is not None else np.zeros(0, int)
    if at.size and np.isfinite(values[at[0]]):
        panel.axvline(float(epochs[at[0]]), color=colours.muted, lw=0.8, ls=(0, (2, 2)))
        panel.plot(epochs[at[:1]], values[at[:1]], "o", color="#D55E00", ms=5, zorder=4)
        panel.annotate(
            f"{values[at[0]]:.3g}", (epochs[at[0]], values[at[0]]), (0, 5),
            textcoords="offset points", color=colours.ink, fontsize=style.SMALL, ha="center",
        )  # fmt: skip
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    panel.margins(y=0.15)
    panel.ticklabel_format(axis="y", useOffset=False)
    panel.set_xlim(first - 0.5, float(np.nanmax(epochs)) + 0.5)

"""Which cases are hard: agreement of raters by case, against size or entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.plots.names import families, shown
from raters.plots.style import SMALL, Theme, look, new_figure, plain_axes
from raters.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from raters.agreement.result import Agreement

_TITLES = {
    "entropy": "mean entropy of the labels (bits)",
    "differing": "share of pixels that raters differ on",
    "disagreement": "1 - mean pairwise Dice",
    "raters": "raters of the case",
}
_NAMED = 3


def difficulty(
    agreement: Agreement,
    against: str | Mapping[str, float] = "entropy",
    x: str = "mean size",
    theme: Theme = "light",
) -> Figure:
    """Draw how far raters agree on each case.

    Masks: the mean pairwise Dice of a case against a column of `agreement.cases`, or against
    numbers of your own by case, such as sizes of objects; a line is the running median, and the
    three most disputed cases are named. Tables: the share of the majority label of all tasks, the
    most disputed first.

    Args:
        agreement: What `raters.agree` gives.
        against: A column ('entropy', 'differing', 'raters') or `{case: number}`.
        x: What numbers of your own are.
        theme: The page.

    Example:
        >>> import raters
        >>> labels = np.array([[[0, 1, 1, 1], [0, 0, 1, 1]], [[0, 1, 1, 0], [0, 1, 1, 0]]])
        >>> figure = difficulty(raters.agree(raters.Study.from_arrays(labels=labels)))
        >>> figure.axes[0].collections[0].get_offsets().tolist()
        [[0.25, 0.8], [0.0, 1.0]]
    """
    if not agreement.cases:
        raise RatersError("found no cases, expected some to compare")
    if agreement.kind == "classification":
        return _ranked(agreement.cases, theme)
    rows = [row for row in agreement.cases if row["dice"] is not None]
    if isinstance(against, str):
        _check_column(agreement.cases, against)
        values = [row[against] for row in rows]
        x = _TITLES.get(against, shown(against))
    else:
        values = [against.get(row["case"]) for row in rows]
    places = np.array([np.nan if v is None else float(v) for v in values])
    if not np.isfinite(places).any():
        raise RatersError("found no case with both values, expected some to compare")
    dice = np.array([float(row["dice"]) for row in rows])
    figure = new_figure(4.6, 3.4)
    axes = plain_axes(figure.subplots(), theme, x=x, y="mean pairwise Dice")
    _scatter(axes, places, dice, [str(row["case"]) for row in rows], theme)
    return figure


def _check_column(rows: Sequence[Row], name: str) -> None:
    if all(name not in row for row in rows):
        known = ", ".join(k for k, v in rows[0].items() if isinstance(v, int | float))
        raise RatersError(f"found no column {name!r} of cases, expected one of: {known}")


def _scatter(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], names: list[str], theme: Theme
) -> None:
    colours, known = look(theme), np.isfinite(x)
    axes.scatter(
        x[known], y[known], s=12 if known.sum() < 500 else 5, color=colours.line, alpha=0.5,
        linewidths=0, rasterized=bool(known.sum() > 1000),
    )  # fmt: skip
    wide = x[known & (x > 0)]
    if wide.size and x[known].min() > 0 and wide.max() > 50 * wide.min():
        axes.set_xscale("log")
    centres, medians = running_median(x[known], y[known])
    axes.plot(centres, medians, color=colours.ink, lw=1.4)
    axes.set_ylim(-0.03, 1.03)
    _name(axes, x, y, np.flatnonzero(known)[:_NAMED], names, theme)  # the most disputed come first


def _name(
    axes: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    chosen: NDArray[np.intp],
    names: list[str],
    theme: Theme,
) -> None:
    """Name some dots; names that would touch move up."""
    height, middle = -1.0, np.nanmedian(x)
    for k in sorted(chosen.tolist(), key=lambda k: float(y[k])):
        height = max(float(y[k]), height + 0.055)
        axes.annotate(
            f"  {shown(names[k])}  ", (x[k], y[k]), (x[k], height), fontsize=SMALL, va="center",
            ha="left" if x[k] <= middle else "right", color=look(theme).ink,
            family=list(families()),
        )  # fmt: skip


def running_median(
    x: NDArray[np.float64], y: NDArray[np.float64], parts: int = 12, least: int = 8
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return medians of x and y over parts of equal number along x; nothing for few points.

    Example:
        >>> centres, medians = running_median(np.arange(32.0), np.arange(32.0) ** 2, parts=2)
        >>> centres.tolist(), medians.tolist()
        ([7.5, 23.5], [56.5, 552.5])
    """
    parts = min(parts, len(x) // least)
    if parts < 2:
        return np.zeros(0), np.zeros(0)
    order = np.array_split(np.argsort(x, kind="stable"), parts)
    return (
        np.array([np.median(x[part]) for part in order]),
        np.array([np.median(y[part]) for part in order]),
    )


def _ranked(rows: Sequence[Row], theme: Theme) -> Figure:
    shares = sorted(float(row["share"]) for row in rows if (row["labels"] or 0) >= 2)
    if not shares:
        raise RatersError("found no case with two labels, expected some to compare")
    figure = new_figure(4.6, 3.0)
    axes = plain_axes(figure.subplots(), theme, x="tasks, the most disputed first")
    axes.set_ylabel("majority share")
    places: NDArray[Any] = np.arange(len(shares) + 1) / len(shares) * 100
    axes.fill_between(places, [*shares, shares[-1]], step="post", color=look(theme).line, alpha=0.6)
    whole = sum(share == 1 for share in shares) / len(shares)
    axes.set_title(f"unanimous on {100 * whole:.0f} % of {len(shares):,} tasks")
    axes.title.set_fontsize(SMALL + 2)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1.02)
    axes.xaxis.set_major_formatter("{x:.0f} %")
    return figure

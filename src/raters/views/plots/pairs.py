"""Who agrees with whom, as a heat map of pairs; and which cases are hard, by size or entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from raters.assessment.agree import ALL, Agreement
from raters.core.arrays import Array, Floats
from raters.core.errors import RatersError, one_of
from raters.core.wording import expected_one_of
from raters.io.rows import Row
from raters.views.plots import style
from raters.views.plots.matrices import colour_bar, heat_map, name_sides
from raters.views.plots.style import Theme

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Order = Literal["given", "clustered"]

_TITLES = {
    "dice": "Dice",
    "iou": "IoU",
    "kappa": "Cohen's kappa",
    "agreement": "share of equal labels",
    "hd95": "HD95 (mm)",
    "surface_distance": "average surface distance (mm)",
}
_MOST_WRITTEN = 20


def agreement(
    table: Agreement | Sequence[Row] | pd.DataFrame,
    raters: Sequence[str] | None = None,
    score: str | None = None,
    class_name: str = ALL,
    order: Order = "given",
    theme: Theme = "light",
    *,
    numbers: bool | None = None,
) -> Figure:
    """Draw the agreement of each pair of raters; a pair with nothing in common is a gap.

    Args:
        table: What `raters.agree` gives, or its table `pairs`.
        raters: Names in the order to draw; by default as they come in the table.
        score: A column of the table; by default Dice for masks and Cohen's kappa for tables.
        class_name: The class, for masks with several.
        order: 'clustered' puts raters who agree next to each other.
        theme: The page.
        numbers: Write the numbers into the cells; by default with up to 20 raters.

    Example:
        >>> import raters
        >>> labels = np.array([[[0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0]]])
        >>> study = raters.Study.from_arrays(labels=labels, raters=["ann", "bob", "cy"])
        >>> figure = agreement(raters.agree(study))
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0.80', '0.80', '0.80', '0.50', '0.80', '0.50']
    """
    rows = _rows(table, class_name)
    column = score or next((s for s in ("dice", "kappa", "agreement") if s in rows[0]), "dice")
    if column not in rows[0]:
        known = ", ".join(name for name in _TITLES if name in rows[0])
        raise RatersError(f"found no score {column!r}, expected one of: {known}")
    # A pair names the earlier rater first: all are in the order of the study.
    each = (row[side] for side in ("rater_a", "rater_b") for row in rows)
    names = list(raters) if raters is not None else list(dict.fromkeys(each))
    values = pair_matrix(rows, names, column)
    if order == "clustered":
        kept = clustered(values)
        values = values[np.ix_(kept, kept)]
        names = [names[k] for k in kept]
    return _draw(values, names, column, theme, numbers)


def _rows(table: Agreement | Sequence[Row] | pd.DataFrame, class_name: str) -> list[Row]:
    pairs = table.pairs if isinstance(table, Agreement) else table
    rows = style.rows_of(
        pairs, "found no pair of raters, expected at least two with labels in common"
    )
    chosen = [row for row in rows if row.get("class", class_name) == class_name]
    if not chosen:
        one_of(dict.fromkeys(str(row.get("class")) for row in rows), class_name, "no class")
    return chosen


def pair_matrix(rows: Sequence[Row], names: Sequence[str], score: str) -> Floats:
    """Return the scores of pairs as a symmetric matrix, NaN where there is none.

    Example:
        >>> pair_matrix([{"rater_a": "a", "rater_b": "b", "dice": 0.5}], ["b", "a"], "dice")
        array([[nan, 0.5],
               [0.5, nan]])
    """
    place = {name: k for k, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in rows:
        a = place.get(row["rater_a"])
        b = place.get(row["rater_b"])
        if a is not None and b is not None and row[score] is not None:
            matrix[a, b] = matrix[b, a] = row[score]
    return matrix


def clustered(similarity: Floats) -> Array:
    """Return an order in which similar ones are neighbours, by average linkage.

    Example:
        >>> order = clustered(np.array([[1, 0, 0.9], [0, 1, 0], [0.9, 0, 1.0]])).tolist()
        >>> abs(order.index(0) - order.index(2))
        1
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(similarity) < 3:
        return np.arange(len(similarity))
    upper = similarity[np.triu_indices(len(similarity), k=1)]
    known = np.isfinite(upper)
    if not known.any():
        return np.arange(len(similarity))
    filled = np.where(known, upper, upper[known].mean())
    return np.asarray(leaves_list(linkage(filled.max() - filled, "average", optimal_ordering=True)))


def _draw(
    values: Floats, names: list[str], score: str, theme: Theme, numbers: bool | None
) -> Figure:
    count = len(names)
    numbers = count <= _MOST_WRITTEN if numbers is None else numbers
    side = max(1.6, count * (0.42 if numbers else 0.16))
    letters = min(max(len(style.shown(name)) for name in names), 24) * 0.075
    figure = style.new_figure(side + letters + 1.0, side + letters + 0.2, pictures=True)
    axes = style.plain_axes(figure.subplots(), theme)
    known = values[np.isfinite(values)]
    low = min(0.0, float(known.min())) if known.size else 0.0
    high = max(1.0, float(known.max())) if known.size else 1.0
    write = "{:.2f}".format if numbers else None
    image = heat_map(
        axes, values, (low, high), theme, write, style.MEDIUM if count <= 8 else style.SMALL
    )
    size = style.MEDIUM if count <= _MOST_WRITTEN else style.SMALL
    name_sides(axes, names, names, size, most=24)
    style.say_whose([*axes.get_xticklabels(), *axes.get_yticklabels()], [*names, *names])
    colour_bar(figure, image, [axes], theme, _TITLES.get(score, style.shown(score)))
    return figure


_AGAINST = {
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
        if all(against not in row for row in agreement.cases):
            numbers = [k for k, v in agreement.cases[0].items() if isinstance(v, int | float)]
            listed = expected_one_of(numbers, against)
            raise RatersError(f"found no column {against!r} of cases, {listed}")
        values = [row[against] for row in rows]
        x = _AGAINST.get(against, style.shown(against))
    else:
        values = [against.get(row["case"]) for row in rows]
    places = np.array([np.nan if v is None else float(v) for v in values])
    if not np.isfinite(places).any():
        raise RatersError("found no case with both values, expected some to compare")
    dice = np.array([float(row["dice"]) for row in rows])
    figure = style.new_figure(4.6, 3.4)
    axes = style.plain_axes(figure.subplots(), theme, x=x, y="mean pairwise Dice")
    _scatter(axes, places, dice, [str(row["case"]) for row in rows], theme)
    return figure


def _scatter(axes: Axes, x: Floats, y: Floats, names: list[str], theme: Theme) -> None:
    colours = style.look(theme)
    known = np.isfinite(x)
    axes.scatter(
        x[known],
        y[known],
        s=12 if known.sum() < 500 else 5,
        color=colours.line,
        alpha=0.5,
        linewidths=0,
        rasterized=bool(known.sum() > 1000),
    )
    wide = x[known & (x > 0)]
    if wide.size and x[known].min() > 0 and wide.max() > 50 * wide.min():
        axes.set_xscale("log")
    centres, medians = running_median(x[known], y[known])
    axes.plot(centres, medians, color=colours.ink, lw=1.4)
    axes.set_ylim(-0.03, 1.03)
    _name(axes, x, y, np.flatnonzero(known)[:_NAMED], names, theme)  # the most disputed come first


def _name(
    axes: Axes, x: Floats, y: Floats, chosen: NDArray[np.intp], names: list[str], theme: Theme
) -> None:
    """Name some dots; names that would touch move up."""
    height = -1.0
    middle = np.nanmedian(x)
    for k in sorted(chosen.tolist(), key=lambda k: float(y[k])):
        height = max(float(y[k]), height + 0.055)
        side = "left" if x[k] <= middle else "right"
        look: dict[str, Any] = {"va": "center", "ha": side, "color": style.look(theme).ink}
        look |= style.font(style.SMALL)
        text = axes.annotate(f"  {style.shown(names[k])}  ", (x[k], y[k]), (x[k], height), **look)
        style.say_whose([text], [names[k]], "case")


def running_median(x: Floats, y: Floats, parts: int = 12, least: int = 8) -> tuple[Floats, Floats]:
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
    figure = style.new_figure(4.6, 3.0)
    axes = style.plain_axes(figure.subplots(), theme, x="tasks, the most disputed first")
    axes.set_ylabel("majority share")
    places: Array = np.arange(len(shares) + 1) / len(shares) * 100
    axes.fill_between(
        places, [*shares, shares[-1]], step="post", color=style.look(theme).line, alpha=0.6
    )
    whole = sum(share == 1 for share in shares) / len(shares)
    axes.set_title(f"unanimous on {100 * whole:.0f} % of {len(shares):,} tasks")
    axes.title.set_fontsize(style.SMALL + 2)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1.02)
    axes.xaxis.set_major_formatter("{x:.0f} %")
    return figure

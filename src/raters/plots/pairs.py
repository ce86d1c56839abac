"""Who agrees with whom: a heat map of the agreement of each pair of raters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from raters.agreement.result import ALL, Agreement
from raters.errors import RatersError
from raters.plots.heat import colour_bar, heat_map, name_sides
from raters.plots.names import shown
from raters.plots.style import MEDIUM, SMALL, Theme, new_figure, plain_axes
from raters.rows import Row

if TYPE_CHECKING:
    import pandas as pd
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
    names = list(raters) if raters is not None else _all_names(rows)
    values = pair_matrix(rows, names, column)
    if order == "clustered":
        kept = clustered(values)
        values, names = values[np.ix_(kept, kept)], [names[k] for k in kept]
    return _draw(values, names, column, theme, numbers)


def _rows(table: Agreement | Sequence[Row] | pd.DataFrame, class_name: str) -> list[Row]:
    if isinstance(table, Agreement):
        rows = list(table.pairs)
    elif isinstance(table, Sequence):
        rows = list(table)
    else:
        rows = [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
    if not rows:
        raise RatersError("found no pair of raters, expected at least two with labels in common")
    chosen = [row for row in rows if row.get("class", class_name) == class_name]
    if not chosen:
        known = ", ".join(dict.fromkeys(str(row.get("class")) for row in rows))
        raise RatersError(f"found no class {class_name!r}, expected one of: {known}")
    return chosen


def _all_names(rows: Sequence[Row]) -> list[str]:
    """Return the names in the order of the study: a pair names the earlier rater first."""
    first = dict.fromkeys(row["rater_a"] for row in rows)
    second = dict.fromkeys(row["rater_b"] for row in rows)
    return list(first | second)


def pair_matrix(rows: Sequence[Row], names: Sequence[str], score: str) -> NDArray[np.float64]:
    """Return the scores of pairs as a symmetric matrix, NaN where there is none.

    Example:
        >>> pair_matrix([{"rater_a": "a", "rater_b": "b", "dice": 0.5}], ["b", "a"], "dice")
        array([[nan, 0.5],
               [0.5, nan]])
    """
    place = {name: k for k, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in rows:
        a, b = place.get(row["rater_a"]), place.get(row["rater_b"])
        if a is not None and b is not None and row[score] is not None:
            matrix[a, b] = matrix[b, a] = row[score]
    return matrix


def clustered(similarity: NDArray[np.float64]) -> NDArray[Any]:
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
    values: NDArray[np.float64], names: list[str], score: str, theme: Theme, numbers: bool | None
) -> Figure:
    count = len(names)
    numbers = count <= _MOST_WRITTEN if numbers is None else numbers
    side = max(1.6, count * (0.42 if numbers else 0.16))
    letters = min(max(len(shown(name)) for name in names), 24) * 0.075
    figure = new_figure(side + letters + 1.0, side + letters + 0.2, pictures=True)
    axes = plain_axes(figure.subplots(), theme)
    known = values[np.isfinite(values)]
    low = min(0.0, float(known.min())) if known.size else 0.0
    high = max(1.0, float(known.max())) if known.size else 1.0
    write = "{:.2f}".format if numbers else None
    image = heat_map(axes, values, (low, high), theme, write, MEDIUM if count <= 8 else SMALL)
    size = MEDIUM if count <= _MOST_WRITTEN else SMALL
    name_sides(axes, names, names, size, most=24)
    colour_bar(figure, image, [axes], theme, _TITLES.get(score, shown(score)))
    return figure

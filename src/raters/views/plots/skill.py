"""How far each rater can be trusted, as dots with error bars; and estimated against true."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from raters.core.arrays import Floats
from raters.core.errors import RatersError, one_of
from raters.io.rows import Row
from raters.metrics.confusion import matrix_skills
from raters.views.plots import style
from raters.views.plots.style import Theme

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_NONE = "found no performance of raters, expected that of a method with matrices (staple, ...)"
_TITLES = {"ppv": "positive predictive value", "npv": "negative predictive value"}


class Skill(NamedTuple):
    """A measure of one rater and its standard error; NaN where it does not exist."""

    value: float
    error: float


def skills(
    performance: pd.DataFrame | Sequence[Row],
    measures: Sequence[str] = ("sensitivity", "specificity"),
    class_name: str | None = None,
    theme: Theme = "light",
    raters: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Figure:
    """Draw measures of each rater with their standard errors, the best first.

    Raters are sorted by their mean over the measures. A rater without a value leaves a gap.

    Args:
        performance: `consensus.performance`: rows by rater and class (and case).
        measures: Columns to draw, a panel each.
        class_name: The class; by default the second of two, else the mean over classes.
        theme: The page.
        raters: All raters in the order of the study, by which they have their colours; by default
            those of the rows, as they come.
        weights: How much each class counts in the mean, by its name; by default all count alike.

    Example:
        >>> rows = [{"rater": "ann", "class": "a", "sensitivity": 0.9, "sensitivity_se": 0.05},
        ...         {"rater": "bob", "class": "a", "sensitivity": 0.95, "sensitivity_se": None}]
        >>> figure = skills(rows, ["sensitivity"])
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['bob', 'ann']
    """
    rows = style.rows_of(performance, _NONE)
    found = {m: skill_of_raters(rows, m, class_name, weights) for m in measures}
    names = list(dict.fromkeys(str(row["rater"]) for row in rows))
    return _draw(names, found, theme, style.rater_colours(_order(names, raters)))


def skill_scatter(
    estimated: ArrayLike,
    true: ArrayLike,
    raters: Sequence[str] | None = None,
    theme: Theme = "light",
    all_raters: Sequence[str] | None = None,
) -> Figure:
    """Draw the estimated against the true skill of raters: the mean of the diagonal.

    As Figure 7b of R. Tanno et al., Learning from noisy labels by regularized estimation of
    annotator confusion, CVPR 2019: points on the diagonal are right.

    Args:
        estimated: Matrices `(raters, L, L)`, or skills `(raters,)`.
        true: The same of the true ones.
        raters: Names; with up to 12 they are in the legend.
        theme: The page.
        all_raters: All raters in the order of the study, by which they have their colours.

    Example:
        >>> figure = skill_scatter([0.5, 0.9], [0.6, 0.9], ["ann", "bob"])
        >>> figure.axes[0].collections[0].get_offsets().tolist()
        [[0.6, 0.5], [0.9, 0.9]]
    """
    x = _skill_array(true)
    y = _skill_array(estimated)
    if x.shape != y.shape or not x.size:
        raise RatersError(f"found {y.size} estimated and {x.size} true skills, expected the same")
    names = style.names_of(raters, len(x))
    height = 3.8
    if raters is not None and len(x) <= 12:
        height += 0.25
    figure = style.new_figure(3.8, height)
    error = float(np.nanmean(np.abs(x - y))) if np.isfinite(x - y).any() else math.nan
    title = f"mean difference {error:.3f}"
    what = "mean of the diagonal"
    axes = style.plain_axes(figure.subplots(), theme, title, f"true {what}", f"estimated {what}")
    known = style.rater_colours(_order(names, all_raters))
    colours = [known[name] for name in names]
    low = min(np.nanmin(x, initial=1.0), np.nanmin(y, initial=1.0))
    ends = (max(0.0, low - 0.05), 1.02)
    axes.plot(ends, ends, color=style.look(theme).muted, lw=0.8, zorder=0)
    axes.scatter(x, y, c=colours, s=34, edgecolors=style.look(theme).ink, linewidths=0.5)
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    if raters is not None and len(names) <= 12:
        dots = [axes.scatter([], [], color=c, edgecolors=style.look(theme).ink) for c in colours]
        legend = style.legend_below(figure, dots, style.all_shown(names), theme)
        style.say_whose(legend.get_texts(), names)
    return figure


def _skill_array(given: ArrayLike) -> Floats:
    array = np.asarray(given, np.float64)
    return matrix_skills(array) if array.ndim == 3 else array.ravel()


def _order(names: Sequence[str], everybody: Sequence[str] | None) -> list[str]:
    """Return all raters in the order of the study; any others follow."""
    return list(dict.fromkeys([*(everybody or ()), *names]))


def skill_of_raters(
    rows: Sequence[Row],
    measure: str,
    class_name: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> dict[str, Skill]:
    """Average a measure of each rater over classes and cases.

    The error of a mean with weights `w` is `sqrt(sum w² se²) / sum w` (rows taken as
    independent).

    Example:
        >>> rows = [{"rater": "ann", "case": "1", "ppv": 0.8, "ppv_se": 0.06},
        ...         {"rater": "ann", "case": "2", "ppv": 0.6, "ppv_se": 0.08}]
        >>> skill_of_raters(rows, "ppv")
        {'ann': Skill(value=0.7, error=0.05)}
    """
    if all(measure not in row for row in rows):
        one_of((c for c in rows[0] if f"{c}_se" in rows[0]), measure, "no measure")
    chosen = _class_rows(rows, class_name)
    found: dict[str, Skill] = {}
    for rater in dict.fromkeys(str(row["rater"]) for row in rows):
        own = [row for row in chosen if str(row["rater"]) == rater and _known(row.get(measure))]
        shares = [1.0 if weights is None else float(weights[row["class"]]) for row in own]
        total = math.fsum(shares)
        if not total:
            found[rater] = Skill(math.nan, math.nan)
            continue
        errors = [row.get(f"{measure}_se") for row in own]
        spread = math.nan
        if all(_known(error) for error in errors):
            squares = [(w * float(e or 0)) ** 2 for w, e in zip(shares, errors, strict=True)]
            spread = math.sqrt(math.fsum(squares)) / total
        values = [w * float(row[measure]) for w, row in zip(shares, own, strict=True)]
        found[rater] = Skill(math.fsum(values) / total, spread)
    return found


def _class_rows(rows: Sequence[Row], class_name: str | None) -> list[Row]:
    names = list(dict.fromkeys(row.get("class") for row in rows))
    if class_name is None and len(names) == 2:
        class_name = names[1]
    if class_name is None:
        return list(rows)
    if class_name not in names:
        one_of(map(str, names), class_name, "no class")
    return [row for row in rows if row.get("class") == class_name]


def _known(value: Any) -> bool:  # noqa: ANN401
    return value is not None and math.isfinite(value)


def _draw(
    names: list[str], found: dict[str, dict[str, Skill]], theme: Theme, colours: Mapping[str, str]
) -> Figure:
    def mean(name: str) -> float:
        values = [by_rater[name].value for by_rater in found.values()]
        known = [v for v in values if math.isfinite(v)]
        return sum(known) / len(known) if known else -math.inf

    ordered = sorted(names, key=mean, reverse=True)
    many = len(names) > 20
    height = max(1.4, len(names) * (0.15 if many else 0.26) + 0.7)
    letters = max(map(len, style.all_shown(names))) * 0.07
    figure = style.new_figure(letters + 2.6 * len(found) + 0.3, height)
    panels = np.asarray(figure.subplots(1, len(found), sharey=True, squeeze=False))[0]
    for panel, (measure, by_rater) in zip(panels, found.items(), strict=True):
        style.plain_axes(panel, theme, x=_TITLES.get(measure, measure.replace("_", " ")))
        _dots(panel, [by_rater[name] for name in ordered], [colours[n] for n in ordered], theme)
    size = style.font(style.SMALL if many else style.MEDIUM)
    panels[0].set_yticks(range(len(names)), style.all_shown(ordered), **size)
    style.say_whose(panels[0].get_yticklabels(), ordered)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def _dots(panel: Axes, values: list[Skill], colours: list[str], theme: Theme) -> None:
    places = np.arange(len(values))
    x = np.array([skill.value for skill in values])
    spread = np.nan_to_num([skill.error for skill in values])
    low = np.maximum(x - spread, 0)
    high = np.minimum(x + spread, 1)
    panel.hlines(places, low, high, colors=style.look(theme).ink, lw=1.0)
    size = 22 if len(values) > 20 else 40
    edge = style.look(theme).ink
    panel.scatter(
        x, places, c=colours, s=size, edgecolors=edge, linewidths=0.5, zorder=3, clip_on=False
    )
    panel.grid(axis="y", color=style.look(theme).muted, alpha=0.25, lw=0.6)
    panel.set_axisbelow(True)
    least = np.nanmin(low, initial=1.0)
    most = np.nanmax(high, initial=0.0)
    pad = max(0.08 * (most - least), 0.01)
    panel.set_xlim(max(0.0, least - pad), min(max(most + pad, 0.5), 1.0))
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.ticklabel_format(axis="x", style="plain", useOffset=False)
    panel.tick_params(axis="y", length=0)

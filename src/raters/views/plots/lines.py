"""Curves: how training went by epoch, and whether probabilities mean what they say."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from raters.core.arrays import Floats
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters.io.rows import Row
from raters.metrics.calibration import ReliabilityCurve, reliability_curve
from raters.views.plots import style
from raters.views.plots.style import Theme

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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
            listed = expected_one_of(_numbers(rows), name)
            raise RatersError(f"found no {name!r} in the history, {listed}")
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
    found: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            if name not in _NOT_DRAWN and np.isfinite(_number(value)):
                found[name] = None
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
            f"{values[at[0]]:.3g}",
            (epochs[at[0]], values[at[0]]),
            (0, 5),
            textcoords="offset points",
            color=colours.ink,
            fontsize=style.SMALL,
            ha="center",
        )
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    panel.margins(y=0.15)
    panel.ticklabel_format(axis="y", useOffset=False)
    panel.set_xlim(first - 0.5, float(np.nanmax(epochs)) + 0.5)


def reliability(
    probabilities: ReliabilityCurve | ArrayLike,
    labels: ArrayLike | None = None,
    hits: ArrayLike | None = None,
    bins: int = 15,
    theme: Theme = "light",
) -> Figure:
    """Draw how often a guess is right by how sure it was, with counts below.

    On the diagonal line, probabilities mean what they say; the title has the expected calibration
    error (`raters.metrics.calibration_error`). Empty bins are gaps.

    Args:
        probabilities: A `ReliabilityCurve`; or `(classes, ...)` with `labels`; or the confidence
            of each guess `(n,)` with `hits`.
        labels: True class numbers with MISSING.
        hits: Whether each guess was right.
        bins: How many bins of equal width.
        theme: The page.

    Example:
        >>> figure = reliability([0.9, 0.9, 0.6], hits=[True, False, True], bins=5)
        >>> figure.axes[0].get_title()
        'ECE 0.400'
    """
    curve = _curve(probabilities, labels, hits, bins)
    if not curve.counts.any():
        raise RatersError("found no labels, expected some to compare probabilities with")
    figure = style.new_figure(3.6, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    gap = np.nan_to_num(np.abs(curve.accuracy - curve.confidence))
    error = gap @ curve.counts / curve.counts.sum()
    style.plain_axes(upper, theme, f"ECE {error:.3f}", y="share that is right")
    style.plain_axes(lower, theme, x="confidence", y="count")
    colours = style.look(theme)
    width = 1 / len(curve.counts)
    places = (np.arange(len(curve.counts)) + 0.5) * width
    full = curve.counts > 0
    upper.bar(places[full], curve.accuracy[full], width * 0.92, color=colours.line, alpha=0.55)
    upper.plot([0, 1], [0, 1], color=colours.muted, lw=1)
    upper.plot(curve.confidence[full], curve.accuracy[full], "o", ms=4, color=colours.ink, zorder=3)
    lower.bar(places, curve.counts, width * 0.92, color=colours.muted)
    largest = curve.counts.max()
    smallest = curve.counts[full].min()
    if largest > 100 * smallest:
        lower.set_yscale("log", nonpositive="clip")
        lower.set_ylim(bottom=0.5)
        lower.minorticks_off()
    upper.set(xlim=(0, 1), ylim=(0, 1.02))
    lower.set_title(f"{curve.counts.sum():,} labels", fontsize=style.MEDIUM)
    return figure


def _curve(
    given: ReliabilityCurve | ArrayLike, labels: ArrayLike | None, hits: ArrayLike | None, bins: int
) -> ReliabilityCurve:
    if isinstance(given, ReliabilityCurve):
        return given
    if (labels is None) == (hits is None):
        raise RatersError("found probabilities alone, expected labels or hits with them (not both)")
    if hits is not None:
        return hit_curve(given, hits, bins)
    return reliability_curve(labels if labels is not None else [], given, bins)


def hit_curve(confidence: ArrayLike, hits: ArrayLike, bins: int = 15) -> ReliabilityCurve:
    """Count hits by confidence, in bins as those of `raters.metrics.reliability_curve`.

    Example:
        >>> hit_curve([0.2, 0.9, 0.8], [0, 1, 0], bins=2).accuracy
        array([0. , 0.5])
    """
    sure = np.asarray(confidence, np.float64).ravel()
    right = np.asarray(hits, bool).ravel()
    if sure.shape != right.shape:
        raise RatersError(
            f"found {sure.size} probabilities and {right.size} hits, expected as many"
        )
    known = np.isfinite(sure)
    sure = sure[known]
    right = right[known]
    if sure.size and (sure.min() < 0 or sure.max() > 1):
        raise RatersError(f"found probabilities {sure.min():g} to {sure.max():g}, expected 0 to 1")
    if bins < 1:
        raise RatersError(f"found {bins} bins, expected at least 1")
    place = np.clip(np.ceil(sure * bins).astype(np.intp) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)

    def mean(values: Floats) -> Floats:
        total = np.bincount(place, values, minlength=bins)
        return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)

    return ReliabilityCurve(mean(sure), mean(right.astype(np.float64)), counts)

"""Do probabilities mean what they say? The reliability diagram."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from raters.arrays import Floats
from raters.errors import RatersError
from raters.plots.style import MEDIUM, Theme, look, new_figure, plain_axes
from raters.scores.calibration import ReliabilityCurve, reliability_curve


def reliability(
    probabilities: ReliabilityCurve | ArrayLike,
    labels: ArrayLike | None = None,
    hits: ArrayLike | None = None,
    bins: int = 15,
    theme: Theme = "light",
) -> Figure:
    """Draw how often a guess is right by how sure it was, with counts below.

    On the diagonal line, probabilities mean what they say; the title has the expected calibration
    error (`raters.scores.calibration_error`). Empty bins are gaps.

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
    figure = new_figure(3.6, 4.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    gap = np.nan_to_num(np.abs(curve.accuracy - curve.confidence))
    error = gap @ curve.counts / curve.counts.sum()
    plain_axes(upper, theme, f"ECE {error:.3f}", y="share that is right")
    plain_axes(lower, theme, x="confidence", y="count")
    colours, width = look(theme), 1 / len(curve.counts)
    places = (np.arange(len(curve.counts)) + 0.5) * width
    full = curve.counts > 0
    upper.bar(places[full], curve.accuracy[full], width * 0.92, color=colours.line, alpha=0.55)
    upper.plot([0, 1], [0, 1], color=colours.muted, lw=1)
    upper.plot(curve.confidence[full], curve.accuracy[full], "o", ms=4, color=colours.ink, zorder=3)
    lower.bar(places, curve.counts, width * 0.92, color=colours.muted)
    largest, smallest = curve.counts.max(), curve.counts[full].min()
    if largest > 100 * smallest:
        lower.set_yscale("log", nonpositive="clip")
        lower.set_ylim(bottom=0.5)
        lower.minorticks_off()
    upper.set(xlim=(0, 1), ylim=(0, 1.02))
    lower.set_title(f"{curve.counts.sum():,} labels", fontsize=MEDIUM)
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
    """Count hits by confidence, in bins as those of `raters.scores.reliability_curve`.

    Example:
        >>> hit_curve([0.2, 0.9, 0.8], [0, 1, 0], bins=2).accuracy
        array([0. , 0.5])
    """
    sure, right = np.asarray(confidence, np.float64).ravel(), np.asarray(hits, bool).ravel()
    if sure.shape != right.shape:
        raise RatersError(
            f"found {sure.size} probabilities and {right.size} hits, expected as many"
        )
    known = np.isfinite(sure)
    sure, right = sure[known], right[known]
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

"""Who draws more and who less, and where: sizes, and foreground by distance to the consensus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from raters.assessment.agreement_findings import relative_volumes
from raters.core.arrays import Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError, one_of
from raters.core.progress import track
from raters.metrics.border import DEFAULT_BINS, DistanceCounts, signed_distance_counts
from raters.views.plots import style
from raters.views.plots.style import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from raters.consensus.consensus import Consensus
    from raters.study.study import Study


_MOST_DOTS = 400
_TICKS = {-1.0: "nothing", -1 / 3: "half", 0.0: "same", 1 / 3: "double", 1.0: "alone"}


def volumes(
    study: Study,
    class_name: str | None = None,
    *,
    relative: bool = True,
    progress: bool = False,
    theme: Theme = "light",
    measured: Floats | None = None,
    together: bool = False,
) -> Figure:
    """Draw how much each rater draws, a dot per case and a box for the middle half of the cases.

    Masks: with `relative`, the volume `v` is compared with the median `o` of the raters of the case
    (of two: with the other) as `(v - o) / (v + o)`: 0 is the same, 1/3 double, -1 nothing where
    others drew, 1 alone. Without it volumes are in mm³ (mm² in 2D), or pixels. Only masks without
    MISSING count. Tables: the shares of classes among the labels of each rater.

    Args:
        study: The study.
        class_name: The class of masks; by default all foreground together.
        relative: Compare with the other raters.
        progress: Show a progress bar.
        theme: The page.
        measured: What `case_volumes` gave, where it is known already.
        together: Draw all raters of masks in one row: where they are anonymous.

    Example:
        >>> from raters.study.study import Study
        >>> labels = np.array([[[0, 1, 1, 1], [0, 0, 1, 1]]])
        >>> figure = volumes(Study.from_arrays(labels=labels, raters=["ann", "bob"]))
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['ann', 'bob']
    """
    if not study.raters or not len(study):
        raise RatersError("found no cases or no raters, expected volumes to compare")
    if study.kind == "classification":
        return _shares(study, theme)
    found = case_volumes(study, class_name, progress=progress) if measured is None else measured
    size = "volume" if len(study[0].geometry.shape) == 3 else "area"
    unit = study[0].geometry.volume_unit
    ticks = _TICKS if relative else None
    title = f"{size} against the other raters" if relative else f"{size} ({unit})"
    values = relative_volumes(found) if relative else found
    names = ["all raters"] if together else study.raters
    return _strips(names, values.reshape(-1, len(names)), title, theme, ticks)


def case_volumes(study: Study, class_name: str | None = None, *, progress: bool = False) -> Floats:
    """Return the volume that each rater drew in each case, `(cases, raters)`; NaN where unknown.

    (`raters.assessment.agreement_findings.measured` has them too, beside all pairs, which takes
    longer.)

    Example:
        >>> from raters.study.study import Study
        >>> case_volumes(Study.from_arrays(labels=np.array([[[0, 1, 1], [1, -1, 0]]])))
        array([[ 2., nan]])
    """
    names = study.classes.names
    number = None if class_name is None else names.index(one_of(names, class_name, "no class"))
    found = np.full((len(study), len(study.raters)), np.nan)
    for row, case in zip(found, track(study, len(study), "measuring", progress), strict=True):
        labels = case.labels.reshape(len(case.labels), -1)
        drawn = labels > 0 if number is None else labels == number
        size = drawn.sum(axis=1) * float(np.prod(case.geometry.spacing))
        row[:] = np.where((labels != MISSING).all(axis=1), size, np.nan)
    return found


def _strips(
    raters: Sequence[str], values: Floats, title: str, theme: Theme, ticks: dict[float, str] | None
) -> Figure:
    figure, axes = _lying(raters, theme, title, 4.6)
    colours = style.rater_colours(raters)
    ink = style.look(theme).ink
    for k, (name, column) in enumerate(zip(raters, values.T, strict=True)):
        known = column[np.isfinite(column)]
        if not known.size:
            continue
        dots = known[:: -(-known.size // _MOST_DOTS)]
        spread = 0.3 * ((np.arange(dots.size) * 0.618034) % 1 - 0.5)  # even, and the same each time
        axes.scatter(
            dots, k + 2 * spread, s=5, color=colours[name], alpha=0.6, linewidths=0, rasterized=True
        )
        low, middle, high = np.percentile(known, [25, 50, 75])
        axes.barh(k, high - low, 0.62, left=low, fc="none", ec=ink, lw=0.9, zorder=3)
        axes.plot([middle, middle], [k - 0.31, k + 0.31], color=ink, lw=2, zorder=4)
    if ticks is not None:
        axes.set_xlim(-1.06, 1.06)
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.axvline(0, color=style.look(theme).muted, lw=0.8, zorder=0)
    else:
        known = values[np.isfinite(values) & (values > 0)]
        if known.size and known.max() > 100 * np.percentile(known, 5):
            axes.set_xscale("symlog", linthresh=float(np.percentile(known, 5)))
    return figure


def _shares(study: Study, theme: Theme) -> Figure:
    names = study.classes.names
    counts = study.triplets.by_class(len(names))
    total = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(total, 1)
    figure, axes = _lying(study.raters, theme, "share of labels", 5.0)
    colours = list(style.rater_colours(names).values())
    places = np.arange(len(study.raters))
    left = np.zeros(len(study.raters))
    bars = []
    for share, colour in zip(shares.T, colours, strict=True):
        bars.append(axes.barh(places, share, 0.8, left=left, color=colour, lw=0))
        left = left + share
    axes.set_xlim(0, 1)
    style.legend_below(figure, bars, style.all_shown(names), theme)
    return figure


def _lying(raters: Sequence[str], theme: Theme, x: str, width: float) -> tuple[Figure, Axes]:
    """Make axes with a line for each rater, the first on top."""
    many = len(raters) > 20
    texts = style.all_shown(raters)
    height = max(1.3, len(raters) * (0.16 if many else 0.4) + 0.9)
    figure = style.new_figure(width + max(map(len, texts)) * 0.07, height)
    axes = style.plain_axes(figure.subplots(), theme, x=x)
    axes.set_yticks(range(len(raters)), texts, **style.font(style.SMALL if many else style.MEDIUM))
    style.say_whose(axes.get_yticklabels(), raters)
    axes.set_ylim(len(raters) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def distance_counts(
    consensus: Consensus,
    bins: ArrayLike = DEFAULT_BINS,
    class_name: str | None = None,
    *,
    progress: bool = False,
) -> DistanceCounts:
    """Count over all cases of a consensus of masks (`raters.fuse`).

    Args:
        consensus: The fused study.
        bins: Edges of the distance, in mm (pixels where the spacing is unknown).
        class_name: The class; by default the first foreground class.
        progress: Show a progress bar.
    """
    study = consensus.study
    if study.kind == "classification":
        raise RatersError("found a table, expected masks: tables have no borders")
    names = study.classes.names
    number = 1 if class_name is None else names.index(one_of(names, class_name, "no class"))
    empty = np.zeros((len(study.raters), np.size(bins) - 1), np.int64)
    total = DistanceCounts(np.asarray(bins, np.float64), empty, empty)
    for case, fusion in track(consensus.iter_cases(), len(study), "measuring", progress):
        total += signed_distance_counts(
            fusion.labels, case.labels, case.geometry.spacing, bins, number
        )
    return total


def bias(
    counts: DistanceCounts,
    raters: Sequence[str] | None = None,
    unit: str = "pixels",
    theme: Theme = "light",
) -> Figure:
    """Draw the share of foreground by distance to the border of the consensus, a curve per rater.

    A rater whose curve lies above the grey step outside (to the right) draws too much, one below
    it inside (to the left) too little.

    Args:
        counts: Of one case, or a sum.
        raters: Names of the raters.
        unit: Of the distance.
        theme: The page.

    Example:
        >>> counts = signed_distance_counts([0, 0, 1, 1], [[0, 1, 1, 1]], bins=[-2, -1, 0, 1, 2])
        >>> bias(counts, ["ann"]).axes[0].lines[1].get_ydata().tolist()
        [1.0, 1.0, 1.0, 0.0]
    """
    shares = counts.shares
    if not counts.seen.any():
        raise RatersError("found no border of a consensus, expected some foreground to compare")
    names = style.names_of(raters, len(shares))
    height = 3.4
    if len(names) > 8:
        height += 0.12 * len(names) / 3
    figure = style.new_figure(5.0, height)
    where = f"inside  ←  distance to the border of the consensus ({unit})  →  outside"
    axes = style.plain_axes(figure.subplots(), theme, x=where, y="share called foreground")
    low = float(counts.edges[0])
    high = float(counts.edges[-1])
    step = axes.plot(
        [low, 0, 0, high], [1, 1, 0, 0], color=style.look(theme).muted, lw=3, alpha=0.6
    )
    colours = style.rater_colours(names)
    lines = style.rater_lines(names)
    centres = (counts.edges[1:] + counts.edges[:-1]) / 2
    handles = list(step)
    for name, share in zip(names, shares, strict=True):
        handles += axes.plot(
            centres, share, color=colours[name], ls=lines[name], lw=1.5, marker="o", ms=2.5
        )
    axes.set(xlim=(low, high), ylim=(-0.03, 1.03))
    legend = style.legend_below(figure, handles, ["consensus", *style.all_shown(names)], theme)
    style.say_whose(legend.get_texts()[1:], names)
    return figure

"""Who draws more and who less: volumes by rater, or the shares of classes in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.plots.names import all_shown, families
from raters.plots.style import (
    MEDIUM,
    SMALL,
    Theme,
    legend_below,
    look,
    new_figure,
    plain_axes,
    rater_colours,
)
from raters.progress import track
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from raters.study.study import Study

_MOST_DOTS = 400
_TICKS = {-1.0: "nothing", -1 / 3: "half", 0.0: "same", 1 / 3: "double", 1.0: "alone"}


def volumes(
    study: Study,
    class_name: str | None = None,
    relative: bool = True,
    progress: bool = False,
    theme: Theme = "light",
    measured: NDArray[np.float64] | None = None,
    together: bool = False,
) -> Figure:
    """Draw how much each rater draws, a dot per case and a box for the middle half of the cases.

    Masks: with `relative`, the volume `v` is compared with the mean `o` of the other raters of the
    case as `(v - o) / (v + o)`: 0 is the same, 1/3 double, -1 nothing where others drew, 1 alone.
    Without it volumes are in mm³ (mm² in 2D), or pixels. Only masks without MISSING count. Tables:
    the shares of classes among the labels of each rater.

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
    found = case_volumes(study, class_name, progress) if measured is None else measured
    size = "volume" if len(study[0].geometry.shape) == 3 else "area"
    title = f"{size} against the other raters"
    ticks: dict[float, str] | None = _TICKS
    values = relative_volumes(found) if relative else found
    if not relative:
        title, ticks = f"{size} ({study[0].geometry.volume_unit})", None
    if together:
        return _strips(["all raters"], values.reshape(-1, 1), title, theme, ticks)
    return _strips(study.raters, values, title, theme, ticks)


def case_volumes(
    study: Study, class_name: str | None = None, progress: bool = False
) -> NDArray[np.float64]:
    """Return the volume that each rater drew in each case, `(cases, raters)`; NaN where unknown.

    Example:
        >>> from raters.study.study import Study
        >>> case_volumes(Study.from_arrays(labels=np.array([[[0, 1, 1], [1, -1, 0]]])))
        array([[ 2., nan]])
    """
    names = study.classes.names
    if class_name is not None and class_name not in names:
        raise RatersError(f"found no class {class_name!r}, expected one of: {', '.join(names)}")
    number = None if class_name is None else names.index(class_name)
    found = np.full((len(study), len(study.raters)), np.nan)
    for row, case in zip(found, track(study, len(study), "measuring", progress), strict=True):
        labels = case.labels.reshape(len(case.labels), -1)
        drawn = labels > 0 if number is None else labels == number
        size = drawn.sum(axis=1) * float(np.prod(case.geometry.spacing))
        row[:] = np.where((labels != MISSING).all(axis=1), size, np.nan)
    return found


def relative_volumes(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compare each volume with the mean of the others of the case, `(v - o) / (v + o)`.

    Example:
        >>> relative_volumes(np.array([[2.0, 1.0], [0.0, 3.0], [0.0, 0.0]]).T[:, :2].T).round(3)
        array([[ 0.333, -0.333],
               [-1.   ,  1.   ]])
    """
    exist = np.isfinite(found)
    filled = np.where(exist, found, 0.0)
    others = filled.sum(axis=1, keepdims=True) - filled
    number = exist.sum(axis=1, keepdims=True) - exist
    mean = others / np.maximum(number, 1)
    both = filled + mean
    fits = exist & (number > 0) & (both > 0)
    return np.where(fits, (filled - mean) / np.where(both > 0, both, 1), np.nan)


def _strips(
    raters: Sequence[str],
    values: NDArray[np.float64],
    title: str,
    theme: Theme,
    ticks: dict[float, str] | None,
) -> Figure:
    figure, axes = _lying(raters, theme, title, 4.6)
    colours, ink = rater_colours(raters), look(theme).ink
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
        axes.axvline(0, color=look(theme).muted, lw=0.8, zorder=0)
    else:
        known = values[np.isfinite(values) & (values > 0)]
        if known.size and known.max() > 100 * np.percentile(known, 5):
            axes.set_xscale("symlog", linthresh=float(np.percentile(known, 5)))
    return figure


def _shares(study: Study, theme: Theme) -> Figure:
    triplets, names = study.triplets, study.classes.names
    counts = np.zeros((len(study.raters), len(names)))
    np.add.at(counts, (triplets.rater, triplets.label), 1)
    total = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(total, 1)
    figure, axes = _lying(study.raters, theme, "share of labels", 5.0)
    colours = list(rater_colours(names).values())
    places, left = np.arange(len(study.raters)), np.zeros(len(study.raters))
    bars = []
    for share, colour in zip(shares.T, colours, strict=True):
        bars.append(axes.barh(places, share, 0.8, left=left, color=colour, lw=0))
        left = left + share
    axes.set_xlim(0, 1)
    legend_below(figure, bars, all_shown(names), theme)
    return figure


def _lying(raters: Sequence[str], theme: Theme, x: str, width: float) -> tuple[Figure, Axes]:
    """Make axes with a line for each rater, the first on top."""
    many = len(raters) > 20
    texts = all_shown(raters)
    height = max(1.3, len(raters) * (0.16 if many else 0.4) + 0.9)
    figure = new_figure(width + max(map(len, texts)) * 0.07, height)
    axes = plain_axes(figure.subplots(), theme, x=x)
    words: dict[str, Any] = {"fontsize": SMALL if many else MEDIUM, "family": list(families())}
    axes.set_yticks(range(len(raters)), texts, **words)
    axes.set_ylim(len(raters) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    return figure, axes

"""Draws a benchmark: every seed, the mean, and what the paper printed; curves over an axis.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; lines differ by their
markers, too.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import LineStyleType

from raters.comparison.cell import checksum
from raters.comparison.scores import SCORES
from raters.core.errors import RatersError
from raters.io.paths import written_whole
from raters.views.plots import style
from raters.views.plots.style import Theme
from raters_bench.results import Collected, curves, long_rows
from raters_bench.table import flat_rows

SUFFIXES = (".png", ".svg", ".pdf")
_DPI = 130
_BLUE = style.OKABE_ITO[4]
_ORANGE = style.OKABE_ITO[3]
_GREEN = style.OKABE_ITO[2]
_LINES = (_BLUE, _ORANGE, _GREEN, *(style.OKABE_ITO[k] for k in (0, 1, 5, 7)))
_MARKERS = "osD^vPX*"
# Inches: names of rows, a panel, a row.
_NAME = 2.3
_PANEL = 2.7
_LINE = 0.3


def write_plot(found: Collected, path: Path) -> Path:
    """Draw a benchmark into a file; it says by a checksum of which results it is.

    Raises:
        RatersError: The file is to be of a kind that is not drawn, or there is nothing to draw.
    """
    if path.suffix.lower() not in SUFFIXES:
        expected = ", ".join(SUFFIXES)
        raise RatersError(f"found the ending {path.suffix!r}, expected {expected}", file=path)
    made = figure(found)
    form = path.suffix.lower()[1:]
    fixed: dict[str, dict[str, str | None]] = {
        "png": {"Software": None, "Description": drawn_digest(found)},
        "svg": {"Date": None, "Description": drawn_digest(found)},
        "pdf": {"CreationDate": None, "Subject": drawn_digest(found)},
    }
    with written_whole(path, "wb") as file:
        made.savefig(file, format=form, dpi=_DPI, facecolor="white", metadata=fixed[form])
    return path


def drawn_digest(found: Collected) -> str:
    """Return a checksum of all that a plot draws."""
    return checksum({"values": long_rows(found), "table": flat_rows(found)})


def digest_of_plot(path: Path) -> str | None:
    """Return the checksum that a PNG says it was drawn from; None if there is none."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return str(picture.info.get("Description"))
    except (OSError, UnidentifiedImageError):
        return None


def figure(found: Collected, theme: Theme = "light") -> Figure:
    """Draw a benchmark: curves if its settings are points on an axis, else dots.

    Raises:
        RatersError: There are neither results nor published values.
    """
    if not drawn_scores(found):
        raise RatersError(f"found nothing to draw of {found.spec.name} at {found.scale}")
    groups = curves(found)
    if groups:
        return _curves_figure(found, groups, theme)
    return _dots_figure(found, theme)


def drawn_scores(found: Collected) -> list[str]:
    """Return the scores of which something is known."""
    known = {score for _, _, score in found.values}
    for row in found.spec.rows.values():
        for setting in found.settings:
            known.update(row.published.get(setting, ()))
    return [score for score in found.scores if score in known]


# Dots.


def _dots_figure(found: Collected, theme: Theme) -> Figure:
    """Draw a panel for each setting and score; Dice at its three cuts shares one."""
    known = drawn_scores(found)
    panels = []
    for score in found.spec.scores:
        scores = [name for name in (score, *SCORES[score].cuts) if name in known]
        if scores:
            panels.append(scores)

    heights = [_LINE * len(found.rows_of(setting)) + 0.75 for setting in found.settings]
    made = style.new_figure(_NAME + _PANEL * len(panels), sum(heights) + 0.5)
    grid = made.subplots(
        len(heights), len(panels), squeeze=False, height_ratios=heights, sharex="col"
    )
    for setting, line in zip(found.settings, grid, strict=True):
        for k, (axes, group) in enumerate(zip(line, panels, strict=True)):
            title = style.shown(setting, 40) if k == 0 else ""
            one = SCORES[group[0]]
            name = one.title.split(",")[0] if len(group) > 1 else one.title
            better = f"({'higher' if one.higher else 'lower'} is better)"
            style.plain_axes(axes, theme, "", _folded(f"{name} {better}"))
            _title(axes, title, theme)
            _draw_dots(axes, found, setting, group, theme)
            axes.tick_params(labelbottom=True, labelleft=not k)
    _dots_legend(made, found, panels, theme)
    return made


def _title(axes: Axes, title: str, theme: Theme) -> None:
    axes.set_title(title, loc="left", color=style.look(theme).ink, **style.font(style.LARGE))


def _folded(text: str, width: int = 42) -> str:
    return "\n".join(textwrap.wrap(text, width))


def _draw_dots(axes: Axes, found: Collected, setting: str, scores: list[str], theme: Theme) -> None:
    rows = found.rows_of(setting)
    ink = style.look(theme)
    step = 0.26 if len(scores) > 1 else 0.0
    for y, row in enumerate(rows):
        for k, score in enumerate(scores):
            place = y + step * (k - (len(scores) - 1) / 2)
            colour = _LINES[k]
            values = list(found.by_seed(setting, row, score).values())
            height = [place] * len(values)
            axes.scatter(values, height, s=13, color=colour, alpha=0.5, linewidths=0, zorder=2)
            mean = found.summary(setting, row, score)
            if mean is not None:
                axes.plot(mean.mean, place, "|", color=colour, ms=8, mew=2.2, zorder=3)
            printed = found.published(setting, row, score)
            if printed is not None and not found.spec.order_only:
                axes.plot(printed, place, "D", mfc="none", mec=ink.ink, ms=5.5, mew=1.1, zorder=4)
        if not any(found.by_seed(setting, row, score) for score in scores):
            why = found.why.get((setting, row), "no such score")
            side = axes.get_yaxis_transform()
            small = style.font(style.SMALL)
            axes.text(0.02, y, why, transform=side, color=ink.muted, va="center", **small)
    axes.set_yticks(range(len(rows)), style.all_shown(rows, 36))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="both", color=ink.gap, lw=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.06)


def _dots_legend(made: Figure, found: Collected, panels: list[list[str]], theme: Theme) -> None:
    ink = style.look(theme).ink
    handles = []
    texts = []
    several = next((group for group in panels if len(group) > 1), [])
    for k, score in enumerate(several):
        handles.append(Line2D([], [], color=_LINES[k], lw=0, marker="|", ms=9, mew=2.5))
        texts.append(f"{SCORES[score].title.split(', ')[-1]}, mean")
    if not several:
        handles.append(Line2D([], [], color=_BLUE, lw=0, marker="|", ms=9, mew=2.5))
        texts.append("mean")
    if found.most_seeds > 1:
        grey = style.look(theme).muted
        handles.append(Line2D([], [], color=grey, lw=0, marker="o", ms=3.5))
        texts.append("each seed")
    if _prints(found) and not found.spec.order_only:
        handles.append(Line2D([], [], mfc="none", mec=ink, lw=0, marker="D", ms=5.5))
        texts.append("published")
    style.legend_below(made, handles, texts, theme)


def _prints(found: Collected) -> bool:
    return any(row.published.get(s) for row in found.spec.rows.values() for s in found.settings)


# Curves.


def _curves_figure(found: Collected, groups: dict[str, dict[float, str]], theme: Theme) -> Figure:
    scores = drawn_scores(found)
    below = 0.4 + 0.16 * len(found.spec.rows)  # the legend
    made = style.new_figure(0.6 + _PANEL * len(scores), 2.6 * len(groups) + below)
    grid = made.subplots(len(groups), len(scores), squeeze=False, sharey="col")
    rows = [row for row in found.spec.rows if any(key[1] == row for key in found.values)]
    for (name, points), line in zip(groups.items(), grid, strict=True):
        for k, (axes, score) in enumerate(zip(line, scores, strict=True)):
            axis = found.spec.axis if axes in grid[-1] else ""
            style.plain_axes(axes, theme, "", axis, _folded(SCORES[score].title, 26))
            title = style.shown(name, 40 * len(scores)) if k == 0 and len(groups) > 1 else ""
            _title(axes, title, theme)
            _draw_curves(axes, found, points, rows, score, theme)
    handles = [
        Line2D([], [], color=c, ls=ls, marker=m, ms=4.5)
        for c, ls, m in map(_look, range(len(rows)))
    ]
    texts = style.all_shown(rows, 36)
    if found.most_seeds > 1:
        handles.append(Line2D([], [], color=style.look(theme).muted, lw=6, alpha=0.3))
        texts.append("± standard deviation over seeds")
    for row, why in _absent(found, groups).items():
        handles.append(Line2D([], [], lw=0))
        texts.append(f"{style.shown(row, 36)}: {why}")
    style.legend_below(made, handles, texts, theme)
    return made


def _absent(found: Collected, groups: dict[str, dict[float, str]]) -> dict[str, str]:
    """Return why rows have no curve at all."""
    drawn = {row for _, row, _ in found.values}
    shown = {setting for points in groups.values() for setting in points.values()}
    return {row: why for (s, row), why in found.why.items() if s in shown and row not in drawn}


def _look(position: int) -> tuple[str, LineStyleType, str]:
    """Return colour, line and marker of a row by its position."""
    turn = position // len(_LINES)
    line = style.LINE_STYLES[turn % len(style.LINE_STYLES)]
    return _LINES[position % len(_LINES)], line, _MARKERS[position % len(_MARKERS)]


def _draw_curves(
    axes: Axes,
    found: Collected,
    points: dict[float, str],
    rows: list[str],
    score: str,
    theme: Theme,
) -> None:
    for position, row in enumerate(rows):
        colour, line, marker = _look(position)
        known = [(x, found.summary(setting, row, score)) for x, setting in points.items()]
        there = [(x, one) for x, one in known if one is not None]
        places = [x for x, _ in there]
        means = [one.mean for _, one in there]
        axes.plot(places, means, color=colour, ls=line, marker=marker, ms=4.5, lw=1.4, zorder=3)
        low = [one.mean - (one.sd or 0.0) for _, one in there]
        high = [one.mean + (one.sd or 0.0) for _, one in there]
        axes.fill_between(places, low, high, color=colour, alpha=0.15, lw=0, zorder=1)
        for x, setting in points.items():
            printed = found.published(setting, row, score)
            if printed is not None and not found.spec.order_only:
                axes.plot(x, printed, "D", mfc="none", mec=colour, ms=6, mew=1.1, zorder=4)
    axes.set_xticks(list(points), [f"{x:g}" for x in points])
    if not any(setting in points.values() for setting, _, _ in found.values):
        room = 0.05 * (max(points) - min(points)) or 0.5
        axes.set_xlim(min(points) - room, max(points) + room)
        muted = style.look(theme).muted
        axes.text(0.5, 0.5, "not run yet", transform=axes.transAxes, color=muted, ha="center")
    axes.grid(axis="y", color=style.look(theme).gap, lw=0.6)
    axes.set_axisbelow(True)

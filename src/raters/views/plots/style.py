"""The look of all figures: colours of raters, light and dark, sizes, and bare axes.

Figures are made without pyplot, so there is no global state and nothing to close. Their background
is transparent; `theme` says whether they are put on a light or a dark page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import Colormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.typing import LineStyleType

from raters.core.errors import RatersError
from raters.io.rows import Row

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from matplotlib.text import Text

    from raters.views.plots.pictures import Letters


_MOST = 24

_FIRST = "DejaVu Sans"  # comes along with matplotlib
_OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans Symbols2",
    "Noto Emoji",
    "Symbola",
)


def shown(name: object, most: int = _MOST) -> str:
    r"""Return a name as text for matplotlib that is drawn as it was written.

    Dollars would start a formula, so they are escaped. Breaks of lines become spaces, a letter
    that no font here has becomes its number, and long names lose their middle.

    Example:
        >>> shown("$x_1$ & <b>")
        '\\$x_1\\$ & <b>'
        >>> shown("reader of the second hospital, 2nd session", most=20)
        'reader of…nd session'
        >>> shown("no \U0001F9FF font")
        'no [U+1F9FF] font'
    """
    text = " ".join("".join(_drawable(c) for c in str(name)).split())
    if len(text) > most:
        head = (most - 1) // 2
        text = f"{text[:head].rstrip()}…{text[head + 1 - most :].lstrip()}"
    return text.replace("$", r"\$")


def all_shown(names: Iterable[object], most: int = _MOST) -> list[str]:
    """Return all names as `shown` does."""
    return [shown(name, most) for name in names]


def say_whose(texts: Iterable[Text], names: Iterable[object], kind: str = "rater") -> None:
    """Let texts carry the names that they show in full, as ids in SVG files; reports link them."""
    for text, name in zip(texts, names, strict=False):
        text.set_gid(f"{kind}={quote(str(name), safe='', errors='replace')}")


@cache
def families() -> tuple[str, ...]:
    """Return the fonts to draw with: that of matplotlib, then those installed for other scripts."""
    installed = set(font_manager.fontManager.get_font_names())
    return (_FIRST, *(name for name in _OTHERS if name in installed))


@cache
def _letters() -> frozenset[int]:
    """Return the letters that one of the fonts has."""
    files = [font_manager.findfont(name) for name in families()]
    return frozenset(c for file in files for c in font_manager.get_font(file).get_charmap())


def _drawable(character: str) -> str:
    if not character.isprintable():
        return " "
    return character if ord(character) in _letters() else f"[U+{ord(character):04X}]"


Theme = Literal["light", "dark"]

SMALL = 7.0
MEDIUM = 8.5
LARGE = 10.0
"""Font sizes in points: many labels, labels, titles."""

OKABE_ITO = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#D55E00",
    "#0072B2",
    "#CC79A7",
    "#F0E442",
    "#999999",
)
"""The colours of Okabe and Ito (2008), safe for colour-blind people; grey stands for black, which
cannot be seen on dark pages."""

LINE_STYLES: tuple[LineStyleType, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))

TRUE_POSITIVE = "#FFFFFF"
FALSE_NEGATIVE = "#0072B2"
FALSE_POSITIVE = "#E69F00"
TRUE_NEGATIVE = "#000000"
"""Colours of errors: too much is orange, missed is blue, of Okabe and Ito, which colour-blind
people can tell apart. (They cannot tell red from green, as Figures 2 and 5 of L. Zhang et al. have
them: Disentangling human error from the ground truth in segmentation of medical images, 2020.)"""
ERROR_LEGEND = {
    "true positive": TRUE_POSITIVE,
    "missed (false negative)": FALSE_NEGATIVE,
    "too much (false positive)": FALSE_POSITIVE,
    "true negative": TRUE_NEGATIVE,
}
"""What the colours of errors stand for."""
UNKNOWN = "#808080"


@dataclass(frozen=True)
class Look:
    """What differs between a light and a dark page.

    Attributes:
        ink: Text and axes.
        muted: Second in line: help lines, the consensus.
        page: The page that is assumed behind the transparent figure.
        ramp: The colour map of values from low to high.
        line: The colour of a single curve.
        gap: Cells without a value.
    """

    ink: str
    muted: str
    page: str
    ramp: str
    line: str
    gap: str


LOOKS: dict[str, Look] = {
    "light": Look("#1A1A1A", "#8A8A8A", "#FFFFFF", "Blues", "#0072B2", "#E2E2E2"),
    "dark": Look("#ECECEC", "#9A9A9A", "#111111", "cividis", "#56B4E9", "#333333"),
}


def look(theme: Theme) -> Look:
    """Return the look of a theme.

    Example:
        >>> look("dark").ink
        '#ECECEC'
    """
    if theme not in LOOKS:
        raise RatersError(f"found theme {theme!r}, expected {' or '.join(map(repr, LOOKS))}")
    return LOOKS[theme]


def rater_colours(names: Sequence[str]) -> dict[str, str]:
    """Return each rater a colour, by position in the study, so that it is the same in all figures.

    After the first eight come darker, then lighter ones, then those that are farthest from all
    before them; `rater_lines` changes with them. Only more than a thousand raters share colours.

    Example:
        >>> rater_colours(["ann", "bob"])
        {'ann': '#e69f00', 'bob': '#56b4e9'}
    """
    every = _colours(min(len(names), 1000))
    return {name: every[k % len(every)] for k, name in enumerate(names)}


def rater_lines(names: Sequence[str]) -> dict[str, LineStyleType]:
    """Return each rater a line style: the first eight have solid lines."""
    return {name: LINE_STYLES[k // 8 % len(LINE_STYLES)] for k, name in enumerate(names)}


@cache
def _colours(number: int) -> list[str]:
    found = [_colour(k) for k in range(min(number, 24))]
    grid = np.linspace(0.1, 0.9, 17)[np.indices((17, 17, 17)).reshape(3, -1).T]
    light = grid @ (0.3, 0.59, 0.11)
    grid = grid[(light > 0.3) & (light < 0.8)]  # seen on light and on dark pages
    far = np.full(len(grid), np.inf)
    for k in range(number):
        if k >= len(found):
            found.append(to_hex(tuple(grid[far.argmax()])))
        far = np.minimum(far, np.linalg.norm(grid - to_rgb(found[k]), axis=1))
    return found


def _colour(position: int) -> str:
    base = to_rgb(OKABE_ITO[position % 8])
    turn = position // 8 % 3
    if turn == 1:
        return str(to_hex((0.62 * base[0], 0.62 * base[1], 0.62 * base[2])))
    share = 0.0 if turn == 0 else 0.5
    mixed = [(1 - share) * part + share for part in base]
    return str(to_hex((mixed[0], mixed[1], mixed[2])))


def names_of(given: Sequence[str] | None, number: int, what: str = "raters") -> list[str]:
    """Return the names that were given, numbers if none were; reject too few and too many."""
    if given is not None and len(given) != number:
        raise RatersError(f"found {len(given)} names of {what}, expected {number}")
    return [str(k) for k in range(number)] if given is None else list(given)


def rows_of(table: Sequence[Row] | pd.DataFrame, none: str) -> list[Row]:
    """Return a table as rows; one without any is rejected with the message `none`."""
    if isinstance(table, Sequence):
        rows = list(table)
    else:
        rows = [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
    if not rows:
        raise RatersError(none)
    return rows


def font(size: float) -> dict[str, Any]:
    """Return size and fonts of a text, as matplotlib's functions take them."""
    return {"fontsize": size, "family": list(families())}


def new_figure(width: float, height: float, pictures: bool = False) -> Figure:
    """Make an empty figure of a size in inches, on a transparent background.

    Args:
        width: In inches.
        height: In inches.
        pictures: Whether it holds panels of a fixed shape, which then stand close together.
    """
    layout: Literal["compressed", "constrained"] = "compressed" if pictures else "constrained"
    return Figure(figsize=(width, height), layout=layout, facecolor="none")


def plain_axes(axes: Axes, theme: Theme, title: str = "", x: str = "", y: str = "") -> Axes:
    """Colour axes for a page, take off the upper and right line, and name them."""
    ink = look(theme).ink
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(ink)
    axes.tick_params(colors=ink, labelcolor=ink, labelsize=MEDIUM, labelfontfamily=list(families()))
    axes.set_title(title, color=ink, **font(LARGE))
    axes.set_xlabel(x, color=ink, **font(MEDIUM))
    axes.set_ylabel(y, color=ink, **font(MEDIUM))
    return axes


def no_frame(axes: Axes) -> None:
    """Take off lines and ticks, for pictures."""
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])


def picture_panels(figure: Figure, rows: int, columns: int, theme: Theme) -> Any:  # noqa: ANN401
    """Return an array of axes `(rows, columns)` for pictures, without lines and ticks."""
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.ravel():
        no_frame(plain_axes(panel, theme))
    return panels


def legend_below(
    figure: Figure, handles: Sequence[Any], texts: Sequence[str], theme: Theme
) -> Legend:
    """Put a legend below all axes, in as many columns as fit.

    Args:
        figure: The figure.
        handles: Lines or patches.
        texts: What they stand for, as `shown` gives it.
        theme: The page.
    """
    widest = max((len(text) for text in texts), default=1)
    columns = max(1, min(int(figure.get_figwidth() / (0.5 + 0.068 * widest)), len(texts)))
    rows = -(-len(texts) // columns)
    return figure.legend(
        handles,
        texts,
        loc="outside lower center",
        ncols=-(-len(texts) // rows),
        frameon=False,
        labelcolor=look(theme).ink,
        prop={"family": list(families()), "size": MEDIUM if len(texts) <= 16 else SMALL},
        handlelength=1.8,
        columnspacing=1.2,
    )


def ramp(theme: Theme) -> Colormap:
    """Return the colour map of a theme; values that do not exist are grey."""
    return matplotlib.colormaps[look(theme).ramp].with_extremes(bad=look(theme).gap)


def text_on(colour: Any) -> str:  # noqa: ANN401
    """Return black or white, whichever reads better on a colour.

    Example:
        >>> text_on("#ffff80"), text_on("#002060")
        ('#000000', '#FFFFFF')
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (light + 0.05) / 0.05 > 1.05 / (light + 0.05) else "#FFFFFF"


def grid_shape(panels: int, most_columns: int = 6) -> tuple[int, int]:
    """Return rows and columns for some panels: few in one row, many in a grid.

    Example:
        >>> grid_shape(4), grid_shape(8), grid_shape(60, 10)
        ((1, 4), (2, 4), (6, 10))
    """
    rows = -(-panels // most_columns)
    return rows, -(-panels // rows)


def draw_letters(panel: Axes, letters: Letters | None) -> None:
    """Write the sides of the patient at the edges of a panel."""
    from matplotlib.patheffects import Normal, Stroke

    if letters is None:
        return
    places = {"left": (0.02, 0.5), "right": (0.98, 0.5), "top": (0.5, 0.98), "bottom": (0.5, 0.02)}
    for edge, (x, y) in places.items():
        across = "ha" if edge in ("left", "right") else "va"
        look: dict[str, Any] = {"color": "white", "fontsize": 9, "fontweight": "bold"}
        look |= {"ha": "center", "va": "center", across: edge, "transform": panel.transAxes}
        text = panel.text(x, y, getattr(letters, edge), **look)
        text.set_path_effects([Stroke(linewidth=2, foreground="black"), Normal()])

"""How a report begins: headline numbers, disputed cases as pictures, and what was found in short.

Pictures are small copies with everyone's outline, cut to what was drawn; the viewer has the cases
in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Flags
from raters.core.progress import ordered_map
from raters.io.rows import known
from raters.metrics.bootstrap import LEAST_GROUPS, GroupBootstrap, ratio
from raters.study.case import Case
from raters.study.study import Study
from raters.views.plots.pictures import Slice, chosen_slice
from raters.views.plots.pictures import picture as scaled
from raters.views.plots.style import rater_colours
from raters.views.report.blocks import Card, Number, Section, TextBlock
from raters.views.report.figures import outline_path, picture
from raters.views.texts.say import joined, say, sentence

CARDS = 6
"""Cases on the first screen."""
_SIDE = 200  # pixels of a picture, and of the masks that are outlined on it
_MARGIN = 0.15
_FINE = 0.04  # of the pixels on a border, from which on only a part is shown: vessels
_PART = 4
_MOST_NOTES = 8


def short_section(findings: Sequence[str], notes: Sequence[str] = ()) -> Section:
    """Return the findings as one section, and notes below them.

    Example:
        >>> [block.text for block in short_section(["Ann draws less.", ""], ["two cases"]).blocks]
        [Markup('Ann draws less.'), Markup('Two cases.')]
    """
    kept = [sentence(note) for note in dict.fromkeys(notes)]
    if len(kept) > _MOST_NOTES:
        kept = [*kept[:_MOST_NOTES], say("more_notes", number=len(kept) - _MOST_NOTES)]
    said, noted = (joined(*texts, by="\n\n") for texts in (findings, kept))
    blocks = [TextBlock(said), TextBlock(noted, "note")]
    return Section("In short", "", [block for block in blocks if block.text])


def mean_number(name: str, sums: ArrayLike, groups: Sequence[str], about: str = "") -> Number:
    """Return a mean over cases with its interval, from the sums that `ratio` divides.

    Example:
        >>> found = mean_number("Dice", [[0.8, 1.0]] * 3 + [[0.6, 1.0]] * 3, list("abcdef"))
        >>> round(found.value, 2), found.low < 0.7 < found.high
        (0.7, True)
    """
    if not len(groups):
        return Number(name, None, about=about)
    found = GroupBootstrap(groups).interval(sums, ratio)
    if not found.exists:
        few = say("no_interval", groups=found.groups, least=LEAST_GROUPS)
        about = f"{about}; {few}" if about else few
    return Number(name, known(found.estimate), known(found.low), known(found.high), about)


Further = Mapping[str, ArrayLike] | Callable[[Case], Mapping[str, ArrayLike]]
"""More masks of a case by name, or what gives them."""


def picture_cards(study: Study, notes: Mapping[str, str], further: Further = {}) -> list[Card]:  # noqa: B006
    """Return the first cases as pictures, with what is noted of each; `further` are more masks."""

    def card(name: str) -> Card:
        case = study[name]
        more = further(case) if callable(further) else further
        empty = [f"{who} empty" for who, mask in more.items() if not (np.asarray(mask) > 0).any()]
        return Card(name, notes[name], _thumbnail(study, case, more), empty)

    return list(ordered_map(card, list(notes)[:CARDS])) if study.raters else []


def _thumbnail(study: Study, case: Case, further: Mapping[str, ArrayLike]) -> Markup:
    """Return a case as a small drawing: the image, and an outline of each rater and class.

    Volumes are shown at the slice that raters differ on most. Further masks (the consensus, the
    reference) are outlined in white; raters who are anonymous are not named.
    """
    shown = closeup(case, dict(zip(study.raters, case.labels, strict=True)), further)
    colours = rater_colours(study.raters)
    paths = []
    for place, (name, mask) in enumerate(shown.masks.items()):
        width = 1.2 + (len(shown.masks) - place) * 0.25
        look = {"colour": colours.get(name, "#fff"), "width": width}
        look["dash"] = "" if name in colours else "5 4"
        who = "" if study.anonymous and name in colours else f"{name}: "
        for number in np.unique(mask[mask > 0]).tolist():
            title = f"{who}{study.classes.names[number]}"
            path = outline_path(mask == number)
            paths.append(Markup(_PATH).format(d=path, title=title, **look))
    return drawing(shown, paths)


class Closeup(NamedTuple):
    """A case cut to what was drawn, small: the picture ('' for none) and the masks by name."""

    picture: str
    masks: dict[str, Array]
    aspect: float


def closeup(
    case: Case, drawn: Mapping[str, Array], further: Mapping[str, ArrayLike] = MappingProxyType({})
) -> Closeup:
    """Cut a case to what was drawn; volumes at the slice that `drawn` differ on most."""
    masks = {**drawn, **{name: np.asarray(mask) for name, mask in further.items()}}
    at = chosen_slice(case.geometry, np.stack(list(drawn.values())))
    masks = {name: at.of(mask) for name, mask in masks.items()}
    window = window_of(np.any([mask > 0 for mask in masks.values()], axis=0))
    seen = np.stack([masks[name][window] for name in drawn])
    coarse = max(1, max(seen.shape[1:]) // _SIDE)
    if (np.diff(seen[:, ::coarse, ::coarse], axis=1) != 0).mean() > _FINE:
        window = _closer(window, (seen != seen[0]).any(axis=0))
    cut = {name: mask[window] for name, mask in masks.items()}
    step = max(1, -(-max(next(iter(cut.values())).shape) // _SIDE))
    image = seen_image(case, at)
    href = "" if image is None else picture(image[window], _SIDE, (0.0, 1.0))
    return Closeup(href, {name: mask[::step, ::step] for name, mask in cut.items()}, at.aspect)


def seen_image(case: Case, at: Slice) -> Array | None:
    """Return a slice of the image in values from 0 to 1; None without an image."""
    return None if case.image is None else at.of(scaled(case.image, case.geometry.shape, None))


def drawing(shown: Closeup, paths: Sequence[Markup]) -> Markup:
    """Draw paths on a picture."""
    height, width = next(iter(shown.masks.values())).shape
    image = Markup(_IMAGE).format(href=shown.picture, width=width, height=height)
    inner = Markup("").join([image if shown.picture else "", *paths])
    high = f"{height * shown.aspect:g}"
    aspect = f"{shown.aspect:g}"
    return Markup(_DRAWING).format(inner=inner, wide=width, high=high, aspect=aspect)


_PATH = (
    '<path d="{d}" fill="none" stroke="{colour}" stroke-width="{width}" '
    'stroke-dasharray="{dash}" vector-effect="non-scaling-stroke"><title>{title}</title></path>'
)
_IMAGE = '<image href="{href}" width="{width}" height="{height}" preserveAspectRatio="none"/>'
_DRAWING = (
    '<svg viewBox="0 0 {wide} {high}" role="img"><g transform="scale(1 {aspect})">{inner}</g></svg>'
)


def _closer(window: tuple[slice, slice], differ: Flags) -> tuple[slice, slice]:
    """Return the quarter of a window in which raters differ most."""
    from scipy.ndimage import uniform_filter

    side = max(differ.shape) // _PART
    if side < 16:
        return window
    spread = uniform_filter(differ.astype(np.float32), side, mode="constant")
    middle = np.unravel_index(int(spread.argmax()), spread.shape)
    both = zip(middle, differ.shape, strict=True)
    starts = [min(max(0, int(at) - side // 2), max(0, length - side)) for at, length in both]
    rows, columns = ((part.start or 0) + s for part, s in zip(window, starts, strict=True))
    return slice(rows, rows + side), slice(columns, columns + side)


def window_of(there: Flags) -> tuple[slice, slice]:
    """Return the part of a picture around what was drawn; all of it where that is most of it."""
    if not there.any():
        return slice(None), slice(None)
    ends = [np.flatnonzero(there.any(axis=1 - axis))[[0, -1]] for axis in (0, 1)]
    sides = [int(last - first + 1) for first, last in ends]
    least = max(max(sides), max(there.shape) // 6)  # a lesion is seen with what is around it
    half = math.ceil(least * (0.5 + _MARGIN))
    window = []
    for (first, last), length in zip(ends, there.shape, strict=True):
        middle = int(first + last) // 2
        low = min(max(0, middle - half), max(0, length - 2 * half))
        window.append(slice(low, low + 2 * half))
    return window[0], window[1]

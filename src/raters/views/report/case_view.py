"""Cases of a study as `ViewerCase`: pictures by slice, what everyone said, maps."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from raters.assessment.agreement_case import entropy_map
from raters.core.arrays import Array, Flags
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.progress import ordered_map, track
from raters.study.case import Case
from raters.study.study import Study
from raters.views.plots.pictures import View, channels_of, most_disputed, value_window, view_of
from raters.views.report import viewer
from raters.views.report.blocks import ViewerBlock
from raters.views.report.figures import colours_picture, map_picture, picture
from raters.views.texts.say import text_of

_SIDES = {2: (1024, 768, 512, 384, 256), 3: (320, 256, 192, 144, 96)}
"""Longest sides of pictures by dimension: the first one that fits the budget is taken."""
_LEAST_WHOLE = 192  # rather than less, slices of a volume that nobody marked are left out
_AROUND = 2  # slices beyond the first and last mark
_MOST_LABELLED = {2: 1024, 3: 512}
_MOST_PATTERNS = 256
_HOUNSFIELD = {
    "lung": (-1350.0, 150.0),
    "soft tissue": (-160.0, 240.0),
    "brain": (0.0, 80.0),
    "bone": (-450.0, 1050.0),
}

_FLAT = View((0, 1, 2), (False, False, False))
_Draw = Callable[[int, int], str]
"""How a slice, with a longest side, becomes a data URI."""


def viewer_case(
    case: Case,
    raters: Sequence[str],
    classes: Sequence[str],
    layers: Mapping[str, ArrayLike] | None = None,
    maps: Mapping[str, ArrayLike] | None = None,
    facts: Mapping[str, object] | None = None,
    channels: Sequence[str] = (),
    axis: int | None = None,
    budget: int = 1_000_000,
) -> viewer.ViewerCase:
    """Make what the viewer shows of a case of masks, in 2D or 3D.

    Args:
        case: The case.
        raters: `study.raters`, in its order.
        classes: `study.classes.names`, with background.
        layers: Further class numbers `(*space)`, such as `{"consensus": ...}`; the reference of
            the case is there anyway.
        maps: `{name: picture}`: `(*space)` are values from 0 (clear) to 1 (strong), `(*space, 3)`
            are colours from 0 to 1.
        facts: Shown beside the case; the list shows the first one.
        channels: `study.channels`, the names of the image's channels.
        axis: The axis of space that slices are stacked on; by default axial slices or those that
            were acquired, turned as `raters.views.plots.pictures.view_of` says.
        budget: About how many bytes it may take: pictures of volumes become smaller, and slices
            that nobody marked are left out, until they fit.

    Example:
        >>> from raters.simulation import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=1, shape=(32, 32)), "good,over")
        >>> view = viewer_case(study[0], study.raters, study.classes.names)
        >>> view.layers, len(view.pictures[0].slices)
        (['good', 'over', 'reference'], 1)
    """
    labels = np.asarray(case.labels)
    space = labels.shape[1:]
    flat = labels.ndim == 3
    if len(space) not in (2, 3) or len(raters) != len(labels):
        raise RatersError(
            f"found labels of shape {labels.shape}, expected ({len(raters)}, rows, columns) or "
            f"({len(raters)}, i, j, k)",
            case=case.id,
        )
    view = _FLAT if flat else view_of(space, case.geometry.affine, axis)

    def turned(array: Array, lead: int = 0) -> Array:
        return view.turn(np.expand_dims(array, lead) if flat else array, lead)

    said = {k: turned(mask) for k, mask in _said(case, labels, raters, layers or {}).items()}
    stack = turned(labels, 1)
    start = most_disputed(stack)
    pictures, drawers = _channels(case, space, channels, turned)
    drawn = {k: turned(_fitting(np.asarray(v), space, k, case)) for k, v in (maps or {}).items()}
    drawers += [partial(_mapped, values) for values in drawn.values()]
    drawers = [lru_cache(1)(draw) for draw in drawers]  # the picture that was tried is kept
    step = -(-max(stack.shape[2:]) // _MOST_LABELLED[len(space)])
    coded = list(label_maps({k: mask[:, ::step, ::step] for k, mask in said.items()}))
    marked = np.zeros(stack.shape[1], bool)
    for mask in said.values():
        marked |= (mask > 0).any(axis=(1, 2))
    left = budget - sum(len(one.data) for one in coded)
    low, high, side = _fit(drawers, marked, start, left)
    if high - low < stack.shape[1]:
        coded = list(label_maps({k: m[low:high, ::step, ::step] for k, m in said.items()}))
    slices = [[draw(k, side) for k in range(low, high)] for draw in drawers]
    centre = (start - low, *(n // step for n in _centre(stack[:, start], len(classes))))
    shape = (high - low, *(-(-n // step) for n in stack.shape[2:]))
    steps = (1, step, step)
    spacing = case.geometry.spacing
    if flat:
        spacing = (1.0, *spacing)
    along = zip(stack.shape[1:], (low, 0, 0), steps, view.flipped, strict=True)
    numbers = [(n - 1 - first, -by) if back else (first, by) for n, first, by, back in along]
    return viewer.ViewerCase(
        case.id,
        facts or {},
        shape,
        tuple(by * spacing[axis] for by, axis in zip(steps, view.order, strict=True)),
        centre,
        _planes(case, view),
        numbers,
        stack.shape[1],
        classes,
        coded,
        [replace(one, slices=uris) for one, uris in zip(pictures, slices, strict=False)],
        dict(zip(drawn, slices[len(pictures) :], strict=True)),
        [name for name, mask in said.items() if not (mask > 0).any()],
    )


def _said(
    case: Case, labels: Array, raters: Sequence[str], layers: Mapping[str, ArrayLike]
) -> dict[str, Array]:
    """Return the class numbers of all who said something, with the reference."""
    said = {k: mask for k, mask in zip(raters, labels, strict=True) if (mask != MISSING).any()}
    further = {name: np.asarray(mask) for name, mask in layers.items()}
    if case.reference is not None:
        further.setdefault(viewer.free_name(viewer.REFERENCE, raters), case.reference)
    return said | {k: _fitting(mask, labels.shape[1:], k, case) for k, mask in further.items()}


def _fitting(array: Array, space: tuple[int, ...], name: str, case: Case) -> Array:
    if array.shape not in (space, (*space, 3)):
        raise RatersError(f"found {name!r} of shape {array.shape}, expected {space}", case=case.id)
    return array


def label_maps(said: Mapping[str, Array]) -> Iterator[viewer.Labels]:
    """Number the patterns of labels that occur, in groups of layers with few patterns each.

    Example:
        >>> masks = {"ann": np.array([[[0, 1, 1]]]), "bob": np.array([[[0, 0, -1]]])}
        >>> [one.patterns for one in label_maps(masks)]
        [[[0, 0], [1, -1], [1, 0]]]
    """
    names: list[str] = []
    patterns: list[list[int]] = [[]]
    index = np.zeros((), np.int32)
    for name, mask in said.items():
        joined, found = _joined(index, patterns, mask)
        if names and len(found) > _MOST_PATTERNS:
            yield viewer.Labels(names, patterns, _packed(index, len(patterns)))
            names = []
            joined, found = _joined(np.zeros((), np.int32), [[]], mask)
        names = [*names, name]
        patterns = found
        index = joined
    if names:
        yield viewer.Labels(names, patterns, _packed(index, len(patterns)))


def _joined(index: Array, patterns: list[list[int]], mask: Array) -> tuple[Array, list[list[int]]]:
    """Split patterns by one more layer; only those that occur are numbered."""
    several = int(mask.max()) - MISSING + 1
    codes = index * several + (mask.astype(np.int32) - MISSING)
    occurs = np.zeros(len(patterns) * several, bool)
    occurs[codes] = True
    found = [
        [*patterns[code // several], code % several + MISSING]
        for code in np.flatnonzero(occurs).tolist()
    ]
    return (np.cumsum(occurs, dtype=np.int32) - 1)[codes], found


def _packed(index: Array, patterns: int) -> str:
    kind = np.dtype(np.uint8 if patterns <= _MOST_PATTERNS else "<u2")
    return b64encode(zlib.compress(index.astype(kind).tobytes())).decode("ascii")


def _fit(drawers: Sequence[_Draw], marked: Flags, start: int, budget: int) -> tuple[int, int, int]:
    """Return the first slice, one past the last, and the longest side that fit the budget."""
    length = len(marked)
    sides = _SIDES[2 if length == 1 else 3]
    if marked.any():
        first, last = np.flatnonzero(marked)[[0, -1]].tolist()
    else:
        first = start
        last = start
    few = (max(0, first - _AROUND), min(length, last + 1 + _AROUND))
    tries = [(0, length, side) for side in sides if side >= _LEAST_WHOLE]
    tries += [(*few, side) for side in sides]
    for low, high, side in tries:
        if sum(len(draw(start, side)) for draw in drawers) * (high - low) <= budget:
            return low, high, side
    return tries[-1]


def _channels(
    case: Case, space: tuple[int, ...], names: Sequence[str], turned: Callable[[Array, int], Array]
) -> tuple[list[viewer.Picture], list[_Draw]]:
    """Return the channels of the image without their slices, and what draws these."""
    if case.image is None:
        return [], []
    array, coloured = channels_of(case.image, space)
    if coloured:
        stacks = {"colours": np.moveaxis(turned(array, 1), 0, -1)}
    else:
        if len(names) != len(array):
            names = [f"channel {k + 1}" for k in range(len(array))] if len(array) > 1 else ["image"]
        stacks = dict(zip(names, turned(array, 1), strict=True))
    pictures: list[viewer.Picture] = []
    drawers: list[_Draw] = []
    for name, stack in stacks.items():
        whole = coloured and array.dtype == np.uint8
        window = (0.0, 255.0) if whole else value_window(stack, len(space) == 3)
        knots, windows = _tones(stack, window)
        pictures.append(viewer.Picture(name, (), coloured, knots, windows))
        drawers.append(partial(_toned, stack, knots))
    return pictures, drawers


def _tones(
    stack: Array, window: tuple[float, float]
) -> tuple[list[tuple[float, int]], dict[str, tuple[float, float]]]:
    """Return which values have which codes, and the windows to choose from.

    Most of the 256 codes are for the usual window, a few for what is darker and brighter.
    """
    known = stack[np.isfinite(stack)]
    if known.size:
        lowest = float(known.min())
        highest = float(known.max())
    else:
        lowest = 0.0
        highest = 1.0

    low, high = window
    middle = (low + high) / 2
    windows = {"automatic": window, "all values": (lowest, highest)}
    windows |= {"dark parts": (low, middle), "bright parts": (middle, high)}
    inner = [(low, 16), (high, 239)]
    if lowest <= -900 and highest >= 200:  # nothing but CT has such values
        windows |= _HOUNSFIELD
        inner = [(-200.0, 75), (300.0, 235)]
    knots = [(lowest, 0), *((v, c) for v, c in inner if lowest < v < highest)]
    knots.append((highest if highest > lowest else lowest + 1, 255))
    return [(float(f"{v:.6g}"), code) for v, code in knots], windows


def _toned(stack: Array, knots: Sequence[tuple[float, int]], at: int, side: int) -> str:
    values, codes = zip(*knots, strict=True)
    return picture(np.interp(stack[at], values, codes), side, (0.0, 255.0))


def _mapped(stack: Array, at: int, side: int) -> str:
    shown = stack[at]
    return colours_picture(shown, side) if shown.ndim == 3 else map_picture(shown, side=side)


def _centre(labels: Array, num_classes: int) -> tuple[int, int]:
    """Return the row and the column of a slice that raters differ on most, else marked most."""
    differ = np.asarray(entropy_map(labels, num_classes) > 0)
    there = differ if differ.any() else np.asarray((labels > 0).any(axis=0))
    if not there.any():
        return there.shape[0] // 2, there.shape[1] // 2
    return int(there.sum(axis=1).argmax()), int(there.sum(axis=0).argmax())


def _planes(case: Case, view: View) -> list[viewer.Plane]:
    """Return the three ways to cut a stack, that of its slices first."""
    if view is _FLAT:
        return [viewer.Plane()]
    planes = []
    for axis in view.order:
        other = view_of(case.geometry.shape, case.geometry.affine, axis)
        order = [view.order.index(own) for own in other.order]
        flipped = [view.flipped[k] != back for k, back in zip(order, other.flipped, strict=True)]
        name = other.plane or f"axis {axis}"
        planes.append(viewer.Plane(name, order, flipped, other.letters or ()))
    return planes


SHOWN = 24
"""How many cases a report shows by default."""
BUDGET = 6_000_000
"""Bytes of the cases of a report; each may take as much of it as `_LEAST` and the number allow."""
_LEAST = 600_000
_MOST = 3_000_000


def cases_block(
    key: str,
    study: Study,
    facts: Mapping[str, Mapping[str, object]],
    extra: Mapping[str, Callable[[Case], ArrayLike]] = MappingProxyType({}),
    progress: bool = False,
    shown: int = SHOWN,
    named: Sequence[str] = (),
) -> ViewerBlock | None:
    """Make a viewer of the first cases, which can make the others too; None where none is shown.

    Args:
        key: The entry of `texts.yaml` whose caption says what to look for.
        study: The study of masks.
        facts: What is said beside each case, the most telling ones first.
        extra: What gives further labels of a case, by name.
        progress: Show a progress bar.
        shown: How many cases are made at most; as many as fit into the page.
        named: Cases that texts of the page name, which should open.
    """
    order = list(dict.fromkeys([*list(facts)[: max(1, min(shown, 6) - 1)], *named, *facts]))
    first = order[:shown]
    if not first:
        return None
    budget = min(_MOST, max(_LEAST, BUDGET // len(first)))
    names = study.classes.names

    def view(case: str) -> viewer.ViewerCase:
        one = study[case]
        layers = {name: read(one) for name, read in extra.items()}
        return viewer_case(
            one, study.raters, names, layers, None, facts[case], study.channels, budget=budget
        )

    views = track(ordered_map(view, first), len(first), "drawing cases", progress)
    made = viewer.within(views, BUDGET)
    reference = viewer.free_name(viewer.REFERENCE, study.raters)
    further = [*extra, *([reference] if any(reference in one.layers for one in made) else [])]
    excluding = [r for r, k in study.annotations.items() if k == "negative" and len(names) > 2]
    layers = viewer.rater_layers(study.raters, excluding=excluding) + viewer.extra_layers(further)
    rest = order[len(made) :]
    caption = text_of(key, "caption")
    return ViewerBlock("cases", made, caption, layers, (), rest, view)

"""Cases of a study as `ViewerCase`: slices, outlines of all raters, further layers and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.agreement.case import entropy_map
from raters.arrays import Array, Floats
from raters.errors import RatersError
from raters.plots.pictures import most_disputed
from raters.plots.pictures import picture as scaled
from raters.plots.views import View, view_of
from raters.progress import ordered_map, track
from raters.report import viewer
from raters.report.blocks import ViewerBlock
from raters.report.figures import SIDE, colours_picture, map_picture, outline_path, picture
from raters.study.case import Case
from raters.study.classes import MISSING
from raters.study.study import Study

_SIDES_OF_SLICES = (320, 256, 192, 144)
"""Longest sides of slices in pixels: the first one with which all slices fit the budget."""
_MOST_OUTLINED = 1024


@dataclass(frozen=True)
class _Volume:
    """All that is shown of a case, turned as it is shown: `(rows, columns)` or with slices first.

    Attributes:
        image: From 0 to 1, or None.
        outlined: Class numbers by layer.
        maps: By name.
        classes: Names of the classes.
        space: The shape of the case in its file.
        view: How it was turned; None in 2D.
    """

    image: Floats | None
    outlined: dict[str, Array]
    maps: dict[str, Array]
    classes: Sequence[str]
    space: tuple[int, ...]
    view: View | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as it is shown."""
        return self.maps[viewer.DISAGREEMENT].shape


def viewer_case(
    case: Case,
    raters: Sequence[str],
    classes: Sequence[str],
    layers: Mapping[str, ArrayLike] | None = None,
    maps: Mapping[str, ArrayLike] | None = None,
    facts: Mapping[str, object] | None = None,
    slices: int = 24,
    axis: int | None = None,
    budget: int = 300_000,
) -> viewer.ViewerCase:
    """Make what the viewer shows of a case of masks, in 2D or 3D.

    Args:
        case: The case.
        raters: `study.raters`, in its order.
        classes: `study.classes.names`, with background.
        layers: Further class numbers `(*space)` to outline, such as `{"consensus": ...}`; the
            reference of the case is there anyway.
        maps: `{name: picture}`: `(*space)` are values from 0 (clear) to 1 (strong), `(*space, 3)`
            are colours from 0 to 1. The disagreement of the raters is there anyway.
        facts: Shown beside the case; the list shows the first one.
        slices: How many slices of a volume at most, around the one raters differ on most.
        axis: The axis of space that slices are counted on; by default axial slices or those that
            were acquired, turned as `raters.plots.views.view_of` says.
        budget: About how many bytes it may take: fewer slices are shown where they are large.

    Example:
        >>> from raters.simulate import phantom_study, simulate
        >>> study = simulate(phantom_study("lesions", cases=1, shape=(32, 32)), "good,over")
        >>> view = viewer_case(study[0], study.raters, study.classes.names)
        >>> list(view.slices[0].outlines), list(view.slices[0].maps)
        (['good', 'over', 'reference'], ['disagreement'])
    """
    labels = np.asarray(case.labels)
    space = labels.shape[1:]
    if len(space) not in (2, 3) or len(raters) != len(labels):
        raise RatersError(
            f"found labels of shape {labels.shape}, expected ({len(raters)}, rows, columns) or "
            f"({len(raters)}, i, j, k)",
            case=case.id,
        )
    view = view_of(space, case.geometry.affine, axis) if len(space) == 3 else None
    volume = _volume(case, labels, raters, classes, layers or {}, maps or {}, view)
    spacing = case.geometry.spacing
    empty = [name for name, mask in volume.outlined.items() if not (mask > 0).any()]
    if view is None:
        aspect = spacing[0] / spacing[1]
        only = [_slice(volume, None)]
        return viewer.ViewerCase(case.id, only, facts or {}, _shape(space), aspect, empty=empty)
    spread = volume.maps[viewer.DISAGREEMENT].sum(axis=(1, 2))
    start = int(spread.argmax()) if spread.any() else most_disputed(view.turn(labels, 1))
    taken = _around(volume, start, min(slices, volume.shape[0]), budget)
    return viewer.ViewerCase(
        case.id,
        [taken[number] for number in sorted(taken)],
        facts or {},
        _shape(volume.shape[1:]),
        view.aspect(spacing),
        sorted(taken).index(start),
        view.letters or (),
        empty,
    )


def _volume(
    case: Case,
    labels: Array,
    raters: Sequence[str],
    classes: Sequence[str],
    layers: Mapping[str, ArrayLike],
    maps: Mapping[str, ArrayLike],
    view: View | None,
) -> _Volume:
    space = labels.shape[1:]
    outlined: dict[str, Array] = {}
    for name, mask in zip(raters, labels, strict=True):
        if (mask != MISSING).any():
            outlined[name] = mask
    further = {name: np.asarray(mask) for name, mask in layers.items()}
    if case.reference is not None:
        further.setdefault(viewer.free_name(viewer.REFERENCE, raters), case.reference)
    outlined |= further
    known = {viewer.DISAGREEMENT: _disagreement(labels, len(classes))}
    known |= {name: np.asarray(values) for name, values in maps.items()}
    for name, array in [*further.items(), *known.items()]:
        coloured = name not in further and array.shape == (*space, 3)
        if array.shape != space and not coloured:
            raise RatersError(
                f"found {name!r} of shape {array.shape}, expected {space}", case=case.id
            )

    def turned(array: Array) -> Array:
        return array if view is None else view.turn(array)

    image = None if case.image is None else turned(scaled(case.image, space, None))
    outlined = {name: turned(mask) for name, mask in outlined.items()}
    known = {name: turned(values) for name, values in known.items()}
    return _Volume(image, outlined, known, classes, space, view)


def _disagreement(labels: Array, num_classes: int) -> NDArray[np.float32]:
    """Return the entropy of the labels, as a share of what so many raters can reach."""
    most = np.log2(max(2, min(num_classes, len(labels))))
    bits = entropy_map(labels, num_classes)
    bits /= most
    return bits


def _around(volume: _Volume, start: int, number: int, budget: int) -> dict[int, viewer.Slice]:
    """Return slices by number, from the first one outwards, as many as the budget allows."""
    length = volume.shape[0]
    low = min(max(0, start - number // 2), length - number)
    taken: dict[int, viewer.Slice] = {}
    side = _side(volume, start, budget // number)
    for at in sorted(range(low, low + number), key=lambda k: abs(k - start)):
        taken[at] = _slice(volume, at, side)
        budget -= taken[at].size
        if budget < taken[at].size:
            break
    return taken


def _side(volume: _Volume, start: int, budget: int) -> int:
    """Return the longest side of pictures with which a slice fits the budget."""
    sides = volume.shape[1:]
    for side in _SIDES_OF_SLICES:
        smaller = side < max(sides) or side == _SIDES_OF_SLICES[0]
        if smaller and _slice(volume, start, side).size <= budget:
            return side
    return _SIDES_OF_SLICES[-1]


def _slice(volume: _Volume, at: int | None, side: int = SIDE) -> viewer.Slice:
    def flat(array: Array) -> Array:
        return array if at is None else array[at]

    image = "" if volume.image is None else picture(flat(volume.image), side, (0.0, 1.0))
    outlines = {
        name: _outlines(flat(mask), volume.classes) for name, mask in volume.outlined.items()
    }
    maps = {}
    for name, values in volume.maps.items():
        shown = flat(values)
        maps[name] = (
            colours_picture(shown, side) if shown.ndim == 3 else map_picture(shown, side=side)
        )
    name = "" if at is None or volume.view is None else volume.view.name(at, volume.space)
    return viewer.Slice(image, outlines, maps, name)


def _outlines(mask: Array, classes: Sequence[str]) -> dict[str, str]:
    """Return the paths of all foreground classes, and of what was not labelled."""
    step = _step(mask.shape)
    mask = mask[::step, ::step]
    paths = {}
    for number in np.unique(mask).tolist():
        if number:
            name = viewer.NOT_LABELLED if number == MISSING else classes[number]
            paths[name] = outline_path(mask == number)
    return paths


def _step(space: Sequence[int]) -> int:
    """Outlines of very large masks are traced on every second, third, ... pixel."""
    return -(-max(space) // _MOST_OUTLINED)


def _shape(space: Sequence[int]) -> tuple[int, int]:
    step = _step(space)
    return -(-space[0] // step), -(-space[1] // step)


SHOWN = 24
"""How many cases a report shows by default."""
_BUDGET = 6_000_000


def cases_block(
    study: Study,
    cases: Sequence[str],
    facts: Mapping[str, Mapping[str, object]],
    caption: str,
    found: Callable[[Case], Mapping[str, ArrayLike]] | None = None,
    extra: Sequence[str] = (),
    progress: bool = False,
    name: str = "cases",
) -> ViewerBlock:
    """Make a viewer of some cases.

    Args:
        study: The study of masks.
        cases: Names of cases, the most telling ones first.
        facts: What is said beside each case.
        caption: What to look for.
        found: Gives further outlines of a case, such as `{"consensus": labels}`.
        extra: The names of those outlines.
        progress: Show a progress bar.
        name: The name of the block.
    """
    budget = min(300_000, _BUDGET // max(1, len(cases)))

    def view(case: str) -> viewer.ViewerCase:
        one = study[case]
        layers = {} if found is None else found(one)
        names, own = study.classes.names, facts.get(case, {})
        return viewer_case(one, study.raters, names, layers, facts=own, budget=budget)

    made = list(track(ordered_map(view, cases), len(cases), "drawing cases", progress))
    reference = viewer.free_name(viewer.REFERENCE, study.raters)
    with_reference = any(reference in case.slices[0].outlines for case in made)
    names = [*extra, *([reference] if with_reference else [])]
    layers = [*viewer.rater_layers(study.raters), *viewer.extra_layers(names)]
    return ViewerBlock(name, made, caption, layers, [viewer.disagreement_map()])

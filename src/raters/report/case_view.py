"""Cases of a study as `ViewerCase`: slices, outlines of all raters, further layers and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.agreement.case import entropy_map
from raters.errors import RatersError
from raters.plots.pictures import most_disputed
from raters.plots.pictures import picture as scaled
from raters.plots.views import View, view_of
from raters.report.outlines import SIDE, colours_picture, map_picture, outline_path, picture
from raters.report.viewer import (
    DISAGREEMENT,
    NOT_LABELLED,
    REFERENCE,
    Slice,
    ViewerCase,
    free_name,
)
from raters.study.case import Case
from raters.study.classes import MISSING

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

    image: NDArray[np.float64] | None
    outlined: dict[str, NDArray[Any]]
    maps: dict[str, NDArray[Any]]
    classes: Sequence[str]
    space: tuple[int, ...]
    view: View | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as it is shown."""
        return self.maps[DISAGREEMENT].shape


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
) -> ViewerCase:
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
        return ViewerCase(case.id, only, facts or {}, _shape(space), aspect, empty=empty)
    start = _most_disputed(volume, view.turn(labels, 1))
    taken = _around(volume, start, min(slices, volume.shape[0]), budget)
    return ViewerCase(
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
    labels: NDArray[Any],
    raters: Sequence[str],
    classes: Sequence[str],
    layers: Mapping[str, ArrayLike],
    maps: Mapping[str, ArrayLike],
    view: View | None,
) -> _Volume:
    space = labels.shape[1:]
    outlined: dict[str, NDArray[Any]] = {}
    for name, mask in zip(raters, labels, strict=True):
        if (mask != MISSING).any():
            outlined[name] = mask
    further = {name: np.asarray(mask) for name, mask in layers.items()}
    if case.reference is not None:
        further.setdefault(free_name(REFERENCE, raters), case.reference)
    outlined |= further
    known = {DISAGREEMENT: _disagreement(labels, len(classes))}
    known |= {name: np.asarray(values) for name, values in maps.items()}
    for name, array in [*further.items(), *known.items()]:
        coloured = name not in further and array.shape == (*space, 3)
        if array.shape != space and not coloured:
            raise RatersError(
                f"found {name!r} of shape {array.shape}, expected {space}", case=case.id
            )

    def turned(array: NDArray[Any]) -> NDArray[Any]:
        return array if view is None else view.turn(array)

    image = None if case.image is None else turned(scaled(case.image, space, None))
    outlined = {name: turned(mask) for name, mask in outlined.items()}
    known = {name: turned(values) for name, values in known.items()}
    return _Volume(image, outlined, known, classes, space, view)


def _disagreement(labels: NDArray[Any], num_classes: int) -> NDArray[np.float32]:
    """Return the entropy of the labels, as a share of what so many raters can reach."""
    most = np.log2(max(2, min(num_classes, len(labels))))
    bits = entropy_map(labels, num_classes)
    bits /= most
    return bits


def _around(volume: _Volume, start: int, number: int, budget: int) -> dict[int, Slice]:
    """Return slices by number, from the first one outwards, as many as the budget allows."""
    length = volume.shape[0]
    low = min(max(0, start - number // 2), length - number)
    taken: dict[int, Slice] = {}
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


def _most_disputed(volume: _Volume, labels: NDArray[Any]) -> int:
    spread = volume.maps[DISAGREEMENT].sum(axis=(1, 2))
    return int(spread.argmax()) if spread.any() else most_disputed(labels)


def _slice(volume: _Volume, at: int | None, side: int = SIDE) -> Slice:
    def flat(array: NDArray[Any]) -> NDArray[Any]:
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
    return Slice(image, outlines, maps, name)


def _outlines(mask: NDArray[Any], classes: Sequence[str]) -> dict[str, str]:
    """Return the paths of all foreground classes, and of what was not labelled."""
    step = _step(mask.shape)
    mask = mask[::step, ::step]
    paths = {}
    for number in np.unique(mask).tolist():
        if number:
            name = NOT_LABELLED if number == MISSING else classes[number]
            paths[name] = outline_path(mask == number)
    return paths


def _step(space: Sequence[int]) -> int:
    """Outlines of very large masks are traced on every second, third, ... pixel."""
    return -(-max(space) // _MOST_OUTLINED)


def _shape(space: Sequence[int]) -> tuple[int, int]:
    step = _step(space)
    return -(-space[0] // step), -(-space[1] // step)

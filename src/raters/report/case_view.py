"""Cases of a study as `ViewerCase`: slices, outlines of all raters, further layers and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.agreement.case import entropy_map
from raters.errors import RatersError
from raters.plots.pictures import chosen_slice, cut
from raters.plots.pictures import picture as scaled
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
    """All that is shown of a case; 2D and 3D alike are `(..., *space)`."""

    image: NDArray[np.float64] | None
    outlined: dict[str, NDArray[Any]]
    maps: dict[str, NDArray[Any]]
    classes: Sequence[str]
    space: tuple[int, ...]
    axis: int


def viewer_case(
    case: Case,
    raters: Sequence[str],
    classes: Sequence[str],
    layers: Mapping[str, ArrayLike] | None = None,
    maps: Mapping[str, ArrayLike] | None = None,
    facts: Mapping[str, object] | None = None,
    slices: int = 24,
    axis: int = 2,
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
        axis: The axis of space that slices are counted on.
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
    volume = _volume(case, labels, raters, classes, layers or {}, maps or {}, axis)
    spacing = list(case.geometry.spacing) or [1.0] * len(space)
    if len(space) == 2:
        return ViewerCase(
            case.id, [_slice(volume, None)], facts or {}, _shape(space), spacing[0] / spacing[1]
        )
    start = _most_disputed(volume, labels)
    taken = _around(volume, start, min(slices, space[axis]), budget)
    sides = [n for k, n in enumerate(space) if k != axis][::-1]
    del spacing[axis]
    return ViewerCase(
        case.id,
        [taken[number] for number in sorted(taken)],
        facts or {},
        _shape(sides),
        spacing[1] / spacing[0],
        sorted(taken).index(start),
    )


def _volume(
    case: Case,
    labels: NDArray[Any],
    raters: Sequence[str],
    classes: Sequence[str],
    layers: Mapping[str, ArrayLike],
    maps: Mapping[str, ArrayLike],
    axis: int,
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
    image = None if case.image is None else scaled(case.image, space, None)
    return _Volume(image, outlined, known, classes, space, axis)


def _disagreement(labels: NDArray[Any], classes: int) -> NDArray[np.float32]:
    """Give the entropy of the labels, as a share of what so many raters can reach."""
    most = np.log2(max(2, min(classes, len(labels))))
    bits = entropy_map(labels, classes)
    bits /= most
    return bits


def _around(volume: _Volume, start: int, number: int, budget: int) -> dict[int, Slice]:
    """Give slices by number, from the first one outwards, as many as the budget allows."""
    length = volume.space[volume.axis]
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
    """Give the longest side of pictures with which a slice fits the budget."""
    sides = [n for k, n in enumerate(volume.space) if k != volume.axis]
    for side in _SIDES_OF_SLICES:
        smaller = side < max(sides) or side == _SIDES_OF_SLICES[0]
        if smaller and _slice(volume, start, side).size <= budget:
            return side
    return _SIDES_OF_SLICES[-1]


def _most_disputed(volume: _Volume, labels: NDArray[Any]) -> int:
    others = tuple(k for k in range(3) if k != volume.axis)
    spread = volume.maps[DISAGREEMENT].sum(axis=others)
    return int(spread.argmax()) if spread.any() else chosen_slice(labels, volume.axis, None)


def _slice(volume: _Volume, at: int | None, side: int = SIDE) -> Slice:
    def flat(array: NDArray[Any]) -> NDArray[Any]:
        return array if at is None else cut(array, volume.axis, at, 0)

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
    return Slice(image, outlines, maps, "" if at is None else f"slice {at}")


def _outlines(mask: NDArray[Any], classes: Sequence[str]) -> dict[str, str]:
    """Give the paths of all foreground classes, and of what was not labelled."""
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

"""Images and masks as pictures: grey values, outlines, and slices as radiologists look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.path import Path
from numpy.typing import ArrayLike, NDArray

from raters.assessment.agreement_case import entropy_map
from raters.core.arrays import Array, Flags, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.geometry import Geometry

_AIR = 0.1  # of the voxels, from which on the value of the corners is what is around a patient
_LARGE = 4_000_000  # values
_DRAWN = 1_000_000


def picture(image: ArrayLike, space: tuple[int, ...], channel: int | None) -> Floats:
    """Return an image as values from 0 to 1, `(*space)` for grey or `(*space, 3)` for colours.

    Colours are shown as such, unless `channel` chooses one; of other channels the first is shown.
    Grey values are cut at their `value_window`.

    Example:
        >>> picture(np.arange(3.0).reshape(1, 1, 3), (1, 3), None).round(2).tolist()
        [[0.0, 0.5, 1.0]]
    """
    array, coloured = channels_of(image, space)
    if channel is not None and not 0 <= channel < len(array):
        raise RatersError(f"found channel {channel}, expected 0 to {len(array) - 1}")
    volume = len(space) == 3
    if coloured and channel is None:
        return _scaled(np.moveaxis(array, 0, -1), volume=False, whole=array.dtype == np.uint8)
    return _scaled(array[channel or 0], volume)


def channels_of(image: ArrayLike, space: tuple[int, ...]) -> tuple[Array, bool]:
    """Return an image as `(channels, *space)`, and whether the channels are red, green and blue.

    Three channels are colours; those of a volume only if they have 8 bits: others are modalities.
    """
    array = np.asarray(image)
    array = array[np.newaxis] if array.shape == space else array
    if array.shape[1:] != space:
        raise RatersError(
            f"found an image of shape {np.shape(image)}, expected (channels, "
            f"{', '.join(map(str, space))}) as the masks have"
        )
    return array, len(array) == 3 and (len(space) == 2 or array.dtype == np.uint8)


def value_window(values: Array, volume: bool) -> tuple[float, float]:
    """Return the values to show as black and white: the 1st and the 99th percentile.

    Of a volume whose corners have a value that more than a tenth of its voxels share (the air
    around a head), only the others count, and the percentiles are the 0.5th and the 99.8th: a
    lesion of a hundredth of the brain would be plain white.
    """
    large = values.size > _LARGE
    known = _drawn(values) if large else values
    known = known[np.isfinite(known)]
    if not known.size:
        return 0.0, 1.0
    inside = _without_air(values) if volume else None
    if inside is not None:
        low, high = np.percentile(_drawn(inside) if large else inside, [0.5, 99.8])
    else:
        low, high = np.percentile(known, [1, 99])
    return (float(low), float(high)) if high > low else (float(known.min()), float(known.max()))


def _scaled(values: Array, volume: bool, whole: bool = False) -> Floats:
    small = values.size > _LARGE and values.dtype.itemsize < 8  # float64 of a slide: gigabytes
    values = np.asarray(values, np.float32 if small else np.float64)
    if whole:
        return np.asarray(values / 255)
    low, high = value_window(values, volume)
    scaled = values - values.dtype.type(low)
    scaled /= values.dtype.type(high - low or 1.0)
    return np.asarray(np.nan_to_num(scaled.clip(0, 1, out=scaled), copy=False))


def _drawn(values: Array) -> Array:
    """Draw so many values that percentiles are settled."""
    return values.ravel()[np.random.default_rng(0).integers(0, values.size, _DRAWN)]


def _without_air(values: Array) -> Array | None:
    """Leave out the value that most corners of a volume have; None if it is not that of air."""
    corners = values[np.ix_(*([0, length - 1] for length in values.shape))]
    found, times = np.unique(corners, return_counts=True)
    inside = values[np.isfinite(values) & (values != found[times.argmax()])]
    return inside if 0 < inside.size < (1 - _AIR) * values.size else None


def most_disputed(masks: Array) -> int:
    """Return where raters differ most among the slices of masks `(raters, slices, rows, columns)`.

    Where they do not differ, it is the slice with most foreground.

    Example:
        >>> masks = np.zeros((2, 3, 4, 4), int)
        >>> masks[0, 2, 1, 1] = 1
        >>> most_disputed(masks)
        2
    """
    spread = entropy_map(masks, int(masks.max(initial=1)) + 1).sum(axis=(1, 2))
    if not spread.any():
        spread = ((masks != 0) & (masks != MISSING)).any(axis=0).sum(axis=(1, 2))
    return int(spread.argmax())


Corner = tuple[int, int]


def border_lines(mask: ArrayLike) -> list[Floats]:
    """Trace a 2D mask along pixel borders.

    Pixels are squares around whole coordinates, as matplotlib's `imshow` draws them. Outer lines
    and holes turn in opposite ways, so that the signed areas add up to the number of pixels; where
    two pixels only touch at a corner, the lines keep them apart.

    Returns:
        Closed lines `(points, 2)` of x (column) and y (row), with the first point again at the end.

    Example:
        >>> [line.tolist() for line in border_lines([[0, 1]])]
        [[[0.5, -0.5], [1.5, -0.5], [1.5, 0.5], [0.5, 0.5], [0.5, -0.5]]]
    """
    inside = np.pad(np.asarray(mask, bool), 1)
    following = _edges(inside)
    lines = []
    while following:
        lines.append(_straightened(_walk(following)))
    return lines


def border_path(mask: ArrayLike) -> Path:
    """Return the outline as one path, with holes left open.

    Example:
        >>> path = border_path([[0, 1, 1], [0, 1, 0]])
        >>> path.contains_points([(1, 0), (2, 0), (1, 1), (2, 1)]).tolist()
        [True, True, True, False]
    """
    lines = border_lines(mask)
    if not lines:
        return Path(np.zeros((0, 2)))
    return Path.make_compound_path(*(Path(line, closed=True) for line in lines))


def _edges(inside: Flags) -> dict[Corner, list[Corner]]:
    """Return the borders as arrows from corner to corner (row, column), the mask to their right."""
    following: dict[Corner, list[Corner]] = {}

    def add(rows: NDArray[np.intp], columns: NDArray[np.intp], way: Corner) -> None:
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            following.setdefault((row, column), []).append((row + way[0], column + way[1]))

    core = inside[1:-1, 1:-1]
    for open_side, start, way in (
        (core & ~inside[:-2, 1:-1], (0, 0), (0, 1)),  # along the top, to the right
        (core & ~inside[1:-1, 2:], (0, 1), (1, 0)),  # down the right side
        (core & ~inside[2:, 1:-1], (1, 1), (0, -1)),  # along the bottom, to the left
        (core & ~inside[1:-1, :-2], (1, 0), (-1, 0)),  # up the left side
    ):
        rows, columns = np.nonzero(open_side)
        add(rows + start[0], columns + start[1], way)
    return following


def _walk(following: dict[Corner, list[Corner]]) -> list[Corner]:
    """Follow the arrows from any corner until it is reached again; used arrows are removed."""
    start = next(iter(following))
    line = [start]
    here = start
    came = (0, 0)
    while True:
        ways = following[here]
        there = ways[0] if len(ways) == 1 else _right_turn(here, came, ways)
        ways.remove(there)
        if not ways:
            del following[here]
        came = (there[0] - here[0], there[1] - here[1])
        line.append(there)
        here = there
        if here == start:
            return line


def _right_turn(here: Corner, came: Corner, ways: list[Corner]) -> Corner:
    """At a corner where two pixels touch, stay with the pixel on the right."""
    right = (here[0] + came[1], here[1] - came[0])
    return right if right in ways else ways[0]


def _straightened(line: list[Corner]) -> Floats:
    """Leave out corners on straight parts; give x and y."""
    points = np.array(line[:-1])
    turns = np.roll(points, -1, axis=0) - points
    kept = points[(turns != np.roll(turns, 1, axis=0)).any(axis=1)]
    return np.concatenate([kept, kept[:1]])[:, ::-1] - 0.5


THICKER = 1.5
"""How many times the next spacing the largest one must have to be the one between slices."""

_ENDS = (("L", "R"), ("P", "A"), ("I", "S"))
"""The letters of the world axes of RAS, where they are negative and where they are positive."""
_PLANES = ("sagittal", "coronal", "axial")
"""By the world axis that goes through the plane."""


class Letters(NamedTuple):
    """Which side of the patient is at which edge of a picture."""

    left: str
    right: str
    top: str
    bottom: str


@dataclass(frozen=True)
class View:
    """Turns volumes `(i, j, k)` into slices `(slices, rows, columns)`; nothing is copied.

    Attributes:
        order: The axes of the volume that become slices, rows and columns.
        flipped: Which of these three run backwards.
        plane: 'axial', 'coronal' or 'sagittal'; '' where the orientation is unknown.
        letters: The sides of the patient at the edges; None where unknown.
    """

    order: tuple[int, int, int]
    flipped: tuple[bool, bool, bool]
    plane: str = ""
    letters: Letters | None = None

    def turn(self, array: Array, lead: int = 0) -> Array:
        """Return `(..., slices, rows, columns, ...)` of a volume whose space begins at axis `lead`.

        Example:
            >>> view = view_of((2, 3, 1))
            >>> view.turn(np.arange(6).reshape(2, 3, 1))[0].tolist()
            [[2, 5], [1, 4], [0, 3]]
        """
        space = [lead + axis for axis in self.order]
        turned = np.transpose(array, [*range(lead), *space, *range(lead + 3, array.ndim)])
        backwards = tuple(lead + k for k, back in enumerate(self.flipped) if back)
        return np.asarray(np.flip(turned, backwards))

    def place(self, number: int, space: Sequence[int]) -> int:
        """Return where slice `number` of the file is among the slices, and back."""
        length = space[self.order[0]]
        if not 0 <= number < length:
            raise RatersError(f"found slice {number}, expected 0 to {length - 1}")
        return length - 1 - number if self.flipped[0] else number

    def name(self, place: int, space: Sequence[int]) -> str:
        """Name a slice by its number in the file: 'axial slice 12'."""
        return f"{self.plane} slice {self.place(place, space)}".strip()

    def aspect(self, spacing: Sequence[float]) -> float:
        """Return the height of a pixel over its width."""
        return spacing[self.order[1]] / spacing[self.order[2]]


def view_of(space: Sequence[int], affine: ArrayLike | None = None, axis: int | None = None) -> View:
    """Report how a volume is shown.

    With an affine, slices are axial, unless the spacing along one axis is at least `THICKER`
    times that along both others: then they are the planes that were acquired. They are drawn in
    the radiological convention: axial and coronal slices have the patient's right on the left of
    the picture, sagittal ones anterior; anterior (axial) or superior is at the top. In other
    words, pictures run to the left (L), to the back (P) and down (I) of the patient. Slices run
    to the right, to the front and up. An oblique volume is named by its nearest axes.

    Without an affine slices are counted on the last axis; the first one runs to the right, the
    second one upwards. A NIfTI file that says nothing of the patient (both form codes are 0)
    counts as one without.

    Args:
        space: The shape of the volume.
        affine: Voxel indices to millimetres (RAS), 4 x 4.
        axis: The axis that slices are counted on, if not as above.

    Example:
        >>> lps = view_of((4, 4, 4), np.diag([-1, -1, 1, 1]))
        >>> lps.plane, "".join(lps.letters), lps.flipped
        ('axial', 'RLAP', (False, False, False))
        >>> thick = view_of((4, 4, 4), np.diag([-1, 3, 1, 1]))
        >>> thick.plane, "".join(thick.letters)
        ('coronal', 'RLSI')
    """
    if axis not in (None, 0, 1, 2):
        raise RatersError(f"found axis {axis}, expected 0, 1 or 2")
    known = None if affine is None else np.asarray(affine, np.float64)
    nearest = None if known is None or _says_nothing(known, space) else _nearest_axes(known)
    if known is None or nearest is None:
        across = 2 if axis is None else axis
        columns, rows = (k for k in range(3) if k != across)
        return View((across, rows, columns), (False, True, False))
    world, ahead = nearest
    across = _across(known, world) if axis is None else axis
    columns, rows = sorted((k for k in range(3) if k != across), key=world.__getitem__)
    right, left = _ENDS[world[columns]]
    bottom, top = _ENDS[world[rows]]
    return View(
        (across, rows, columns),
        (not ahead[across], ahead[rows], ahead[columns]),
        _PLANES[world[across]],
        Letters(left, right, top, bottom),
    )


class Slice(NamedTuple):
    """A slice of a volume as it is drawn; of a flat picture all of it.

    Attributes:
        aspect: Height of a pixel over its width.
        letters: The sides of the patient at the edges; None where unknown.
        name: 'axial slice 12'; '' of a flat picture.
        view: How volumes are turned; None of a flat picture.
        at: Which slice of a turned volume it is.
    """

    aspect: float
    letters: Letters | None = None
    name: str = ""
    view: View | None = None
    at: int = 0

    def of(self, volume: Array) -> Array:
        """Return what is seen of a volume `(i, j, k, ...)`."""
        return volume if self.view is None else self.view.turn(volume)[self.at]


def chosen_slice(
    grid: Geometry,
    masks: Array,
    number: int | None = None,
    axis: int | None = None,
    spacing: Sequence[float] | None = None,
) -> Slice:
    """Return the slice that masks `(raters, *space)` differ on most, or that of a number.

    See `most_disputed` and `view_of`; `spacing` takes the place of that of the grid.
    """
    sizes = grid.spacing if spacing is None else spacing
    if len(grid.shape) == 2:
        return Slice(sizes[0] / sizes[1])
    view = view_of(grid.shape, grid.affine, axis)
    at = most_disputed(view.turn(masks, 1)) if number is None else view.place(number, grid.shape)
    return Slice(view.aspect(sizes), view.letters, view.name(at, grid.shape), view, at)


def _nearest_axes(affine: Floats) -> tuple[list[int], list[bool]] | None:
    """Return the world axis that each axis runs along, and whether it runs ahead (to R, A or S)."""
    import nibabel

    if affine.shape != (4, 4) or not np.isfinite(affine).all():
        return None
    nearest = nibabel.orientations.io_orientation(affine)  # type: ignore[no-untyped-call]
    if not np.isfinite(nearest).all():
        return None  # an axis without a direction: a broken header
    return nearest[:, 0].astype(int).tolist(), (nearest[:, 1] > 0).tolist()


def _across(affine: Floats, world: list[int]) -> int:
    """Return the axis to count slices on: the acquired one if thick, else up and down."""
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    *_, next_one, thickest = np.sort(spacing)
    return int(spacing.argmax()) if thickest >= THICKER * next_one else world.index(2)


def _says_nothing(affine: Floats, space: Sequence[int]) -> bool:
    """Return whether nibabel made it up for a file without any: x turned round, centred."""
    if affine.shape != (4, 4):
        return True
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    made_up = np.diag([-spacing[0], *spacing[1:], 1.0])
    made_up[:3, 3] = -made_up[:3, :3] @ ((np.array(space) - 1) / 2)
    return bool(np.allclose(affine, made_up, rtol=1e-6, atol=1e-6))

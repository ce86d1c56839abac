"""The raters who draw on a true mask, by name; a new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats, Labels
from raters.core.errors import RatersError, one_of
from raters.simulation.shape import Mask, Shape, smooth_noise


def blank(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Hand in nothing with probability `severity`; from 1 on always (pixel-cm's fifth rater)."""
    return np.zeros_like(shape.mask) if rng.random() < severity else shape.mask.copy()


def miss_small(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Miss small objects: one of radius `r` with probability `1 / (1 + (r / severity)^4)`.

    The radius is that of the disc (ball) of the same size: at `r = severity` half are missed,
    at twice that one in 17.
    """
    numbers, sizes = shape.objects
    radius = np.sqrt(sizes / np.pi) if shape.mask.ndim == 2 else np.cbrt(0.75 * sizes / np.pi)
    seen = rng.random(len(sizes)) >= 1 / (1 + (radius / severity) ** 4)
    return np.asarray(np.concatenate([[False], seen])[numbers])


def mix_up(
    drawn: Labels,
    truth: Labels,
    shape: Shape,
    target: int,
    num_classes: int,
    severity: float,
    rng: np.random.Generator,
) -> None:
    """Relabel a part of the target class as another foreground class, in patches.

    The part is `1 - exp(-severity / 2)` of its pixels: four tenths at 1, all in the limit. The
    other class is a random one of those that touch the target; else of those in the image; else
    of all others. Pixels of other classes are left as they are.

    Args:
        drawn: The labels to change, in place.
        truth: The true labels.
        shape: The region of the target.
        target: The class that is mistaken.
        num_classes: The number of classes.
        severity: How much to err.
        rng: Randomness.

    Example:
        >>> truth = np.repeat(np.array([[0, 1, 2, 3]], np.int16), 4, axis=0)
        >>> drawn = truth.copy()
        >>> rng = np.random.default_rng(0)
        >>> mix_up(drawn, truth, Shape(truth == 1), 1, 4, severity=20, rng=rng)
        >>> drawn[0]
        array([0, 2, 2, 3], dtype=int16)
    """
    others = _partners(truth, shape, target, num_classes)
    other = others[int(rng.integers(len(others)))]
    field = smooth_noise(shape.space, max(2.0, float(np.mean(shape.space)) / 12), rng)
    share = 1 - np.exp(-severity / 2)
    inside = np.sort(field[shape.mask])
    number = int(share * len(inside) + rng.random())
    if number:
        drawn[shape.mask & (field <= inside[number - 1])] = other


def _partners(truth: Labels, shape: Shape, target: int, num_classes: int) -> list[int]:
    touching = truth[(shape.distance < 0) & (shape.distance > -1.5)]
    for candidates in (touching, truth, np.arange(num_classes)):
        found = [int(k) for k in np.unique(candidates) if k > 0 and k != target]
        if found:
            return found
    return [0]


Field = NDArray[np.float32]


def over(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw too much: dilation by about `severity` pixels, more here and less there."""
    return _moved(shape, severity * _radius(shape, rng))


def under(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw too little: erosion by about `severity` pixels, more here and less there."""
    return _moved(shape, -severity * _radius(shape, rng))


def thicken(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Dilate by `severity` times the mean half thickness (Morpho-MNIST's thickening)."""
    return over(shape, severity * shape.half_thickness, rng)


def thin(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Erode by `severity` times the mean half thickness (Morpho-MNIST's thinning)."""
    return under(shape, severity * shape.half_thickness, rng)


def wobble(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw a shaky outline: off by `severity` pixels (standard deviation), in and out."""
    return _moved(shape, severity * _noise(shape, rng))


def smooth(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Cut corners: the mask blurred by about `severity` pixels; what is thin disappears."""
    from scipy.ndimage import gaussian_filter

    sigma = min(severity * rng.uniform(0.85, 1.15), max(shape.space))
    blurred = gaussian_filter(shape.mask.astype(np.float32), sigma, mode="nearest", truncate=3)
    return np.asarray(blurred > 0.5)


def shift(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw the right form in the wrong place: about `severity` pixels away in any direction.

    Whole pixels are moved, rounded up or down at random, so that thin strokes stay whole.
    """
    direction = rng.standard_normal(shape.mask.ndim)
    step = severity * rng.uniform(0.75, 1.25) * direction / np.linalg.norm(direction)
    offset = np.floor(step + rng.random(shape.mask.ndim)).astype(int)
    moved = np.zeros_like(shape.mask)
    pairs = [_overlap(o, n) for o, n in zip(offset.tolist(), shape.space, strict=True)]
    moved[tuple(to for to, _ in pairs)] = shape.mask[tuple(of for _, of in pairs)]
    return moved


def good_left(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw truly on the left, too much on the right."""
    return _moved(shape, severity * _radius(shape, rng) * _towards_right(shape.space))


def good_right(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw truly on the right, too much on the left."""
    return _moved(shape, severity * _radius(shape, rng) * (1 - _towards_right(shape.space)))


def _moved(shape: Shape, outwards: Field) -> Mask:
    return np.asarray(shape.distance + outwards > 0)


def _radius(shape: Shape, rng: np.random.Generator) -> Field:
    """Draw one radius per pixel, never negative, about 1 on average: hand and place vary."""
    hand = np.float32(rng.uniform(0.75, 1.25))
    return hand * (1 + np.float32(0.4) * _noise(shape, rng)).clip(0)


def _noise(shape: Shape, rng: np.random.Generator) -> Field:
    return smooth_noise(shape.space, max(2.0, float(np.mean(shape.space)) / 14), rng)


def _overlap(offset: int, length: int) -> tuple[slice, slice]:
    """Return where pixels go to and where they come from along one axis."""
    offset = max(-length, min(length, offset))
    to = slice(max(offset, 0), length + min(offset, 0))
    return to, slice(max(-offset, 0), length - max(offset, 0))


def _towards_right(space: tuple[int, ...]) -> Field:
    """Go from 0 to 1 in the middle: along the columns of a picture, along i of a volume."""
    axis = 1 if len(space) == 2 else 0
    place = np.linspace(-1, 1, space[axis], dtype=np.float32)
    ramp = (0.5 + 5 * place).clip(0, 1)
    return ramp.reshape([-1 if k == axis else 1 for k in range(len(space))])


_PIXELS_A_CUT = 24  # so that a digit (about 40 pixels of skeleton) has two or three
_PIXELS_A_SWELLING = 40
_MOST_CUTS = 400
_AT_ONCE = 1_000_000  # offsets of pixels to hold at a time

Point = Floats


def fracture(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Cut strokes through: gaps about `severity` pixels wide, across the skeleton."""
    return shape.mask & ~_cuts(shape, severity, 0.0, rng)


def wrong(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Draw too much by about `severity` pixels and leave small fractures (pixel-cm's 'wrong').

    The gaps grow with the severity but never beyond the thickness of the strokes.
    """
    thickness = 2 * shape.half_thickness
    width = severity * thickness / (severity + thickness / 2)
    return over(shape, severity, rng) & ~_cuts(shape, width, 2 * severity, rng)


def swell(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Blow the mask up at a place of the skeleton; long skeletons at several.

    A pixel at distance `d < R` of the place shows what is at `d (d / R)^severity`, where R is
    four times the half thickness there. (Morpho-MNIST: `severity = strength - 1`.)
    """
    number = min(max(1, len(shape.skeleton) // _PIXELS_A_SWELLING), _MOST_CUTS)
    swollen = shape.mask.copy()
    for centre in _centres(shape, number, rng):
        _swell_at(swollen, shape, centre, severity)
    return swollen


def _swell_at(swollen: Mask, shape: Shape, centre: Point, severity: float) -> None:
    from scipy.ndimage import map_coordinates

    radius = 4 * max(float(_half_thickness(shape, centre)), 0.5)
    box, offset = _box(shape, centre, radius)
    distance = np.sqrt((offset**2).sum(axis=0))
    pull = np.minimum(distance / radius, 1) ** severity
    places = centre.reshape(-1, *[1] * shape.mask.ndim) + offset * pull
    swollen[box] |= map_coordinates(shape.distance, places, order=1, mode="nearest") > 0


def _cuts(shape: Shape, width: float, further: float, rng: np.random.Generator) -> Mask:
    """Return the pixels in slabs across the skeleton that reach further than the outline."""
    number = min(1 + int(rng.poisson(len(shape.skeleton) / _PIXELS_A_CUT)), _MOST_CUTS)
    centres = _centres(shape, number, rng)
    widths = width * rng.uniform(0.75, 1.25, number)
    aside = rng.uniform(-0.5, 0.5, centres.shape)  # else the thinnest cut would meet its pixel
    spare = rng.standard_normal(centres.shape)
    reach = _half_thickness(shape, centres) + 1 + further + widths / 2
    around = _around(shape, float(reach.max()))
    step = max(1, _AT_ONCE // max(len(around), len(shape.skeleton)))
    cut = np.zeros_like(shape.mask)
    for k in range(0, number, step):
        some = slice(k, k + step)
        along = _directions(shape, centres[some], spare[some])
        slabs = along, widths[some, None] / 2, reach[some, None]
        _cut(cut, centres[some].astype(np.intp), aside[some], around, *slabs)
    return cut


def _cut(
    cut: Mask,
    centres: NDArray[np.intp],
    aside: Point,
    around: NDArray[np.intp],
    along: Point,
    half_width: Point,
    reach: Point,
) -> None:
    """Mark all pixels around the centres that lie in their slabs."""
    offsets = around - aside[:, None]
    forward = np.einsum("cpd,cd->cp", offsets, along)
    across = (offsets**2).sum(axis=-1) - forward**2
    pixels = (centres[:, None] + around)[(abs(forward) < half_width) & (across < reach**2)]
    inside = ((pixels >= 0) & (pixels < cut.shape)).all(axis=1)
    cut[tuple(pixels[inside].T)] = True


def _around(shape: Shape, reach: float) -> NDArray[np.intp]:
    """Return the offsets of all pixels that may lie so near to a point, `(pixels, dimensions)`."""
    sides = [min(int(reach) + 1, length) for length in shape.space]
    grid = np.meshgrid(*[np.arange(-side, side + 1) for side in sides], indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, len(sides))


def _centres(shape: Shape, number: int, rng: np.random.Generator) -> Point:
    points = shape.strokes
    return points[rng.integers(len(points), size=number)].astype(np.float64)


def _half_thickness(shape: Shape, centres: Point) -> NDArray[np.float32]:
    return np.asarray(shape.distance[tuple(centres.astype(np.intp).T)])


def _directions(shape: Shape, centres: Point, spare: Point) -> Point:
    """Return the direction of the skeleton at points: where their neighbours spread most."""
    window = np.maximum(2.5, _half_thickness(shape, centres))[:, None, None]
    offsets = shape.skeleton - centres[:, None]
    near = (abs(offsets) <= window).all(axis=-1)
    number = near.sum(axis=1)[:, None]
    offsets -= np.einsum("cs,csd->cd", near, offsets)[:, None] / number[:, None]
    spread = np.einsum("cs,csd,cse->cde", near, offsets, offsets)
    directions = np.linalg.eigh(spread)[1][..., -1]
    # A round object has no direction: its cut goes anywhere.
    anywhere = spare / np.linalg.norm(spare, axis=1, keepdims=True)
    return np.where(number > 1, directions, anywhere)


def _box(shape: Shape, centre: Point, reach: float) -> tuple[tuple[slice, ...], Point]:
    """Return the part of the image around a point and the offset of its pixels from the point."""
    low = np.maximum(np.ceil(centre - reach), 0).astype(int)
    high = np.minimum(np.floor(centre + reach) + 1, shape.space).astype(int)
    box = tuple(slice(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True))
    return box, np.mgrid[box] - centre.reshape(-1, *[1] * shape.mask.ndim)


@dataclass(frozen=True)
class Drawer:
    """A way to err on a mask; call it with a mask, a severity and randomness.

    Attributes:
        name: How the rater is asked for.
        about: What the rater does, in a few words.
        unit: What a severity of 1 is; pixels are voxels in 3D, whatever their spacing.
        usual: The mean Dice against the truth that it has by default.
        draw: The function.
        mixes_classes: Whether it mixes up classes where there are several (`draw_classes`).
        erases: Whether it leaves out whole objects; what is below shows (`draw_classes`).

    Example:
        >>> mask = np.zeros((9, 9), bool)
        >>> mask[3:6, 3:6] = True
        >>> drawn = DRAWERS["over"](mask, 1.5, np.random.default_rng(0))
        >>> bool((drawn & mask).sum() == 9 < drawn.sum())
        True
        >>> bool((DRAWERS["over"](mask, 0, np.random.default_rng(0)) == mask).all())
        True
    """

    name: str
    about: str
    unit: str
    usual: float
    draw: Callable[[Shape, float, np.random.Generator], Mask]
    mixes_classes: bool = False
    erases: bool = False

    def __call__(
        self, mask: NDArray[np.generic] | Shape, severity: float, rng: np.random.Generator
    ) -> Mask:
        """Draw; severity 0 and a mask without foreground give the mask itself.

        Args:
            mask: The true mask `(*space)`; a `Shape` shares its distances between calls.
            severity: How much to err, 0 or more.
            rng: Randomness.
        """
        if not 0 <= severity < np.inf:
            raise RatersError(
                f"found the severity {severity} for {self.name!r}, expected 0 or more"
            )
        shape = mask if isinstance(mask, Shape) else Shape(mask)
        if severity == 0 or shape.is_empty:
            return shape.mask.copy()
        return self.draw(shape, float(severity), rng)


_ALL = (
    Drawer("good", "faithful, a little shaky", "pixel", 0.95, wobble),
    Drawer("over", "draws too much", "pixel", 0.7, over),
    Drawer("under", "draws too little", "pixel", 0.7, under),
    Drawer("wrong", "too much, fractures", "pixel", 0.6, wrong, mixes_classes=True),
    Drawer("blank", "hands in nothing", "probability", 0.0, blank, erases=True),
    Drawer("thin", "strokes too thin", "half thickness", 0.7, thin),
    Drawer("thicken", "strokes too thick", "half thickness", 0.7, thicken),
    Drawer("swell", "swollen at one place", "power", 0.9, swell),
    Drawer("fracture", "strokes broken", "pixel", 0.85, fracture),
    Drawer("shift", "right form, wrong place", "pixel", 0.7, shift),
    Drawer("smooth", "cuts corners", "pixel", 0.85, smooth),
    Drawer("jitter", "shaky outline", "pixel", 0.8, wobble),
    Drawer("miss-small", "misses small objects", "pixel", 0.85, miss_small, erases=True),
    Drawer("left-right", "good on the left, too much right", "pixel", 0.8, good_left),
    Drawer("right-left", "good on the right, too much left", "pixel", 0.8, good_right),
)

DRAWERS: dict[str, Drawer] = {drawer.name: drawer for drawer in _ALL}
"""The first five are pixel-cm's (Appendix A.1); thin to fracture follow Morpho-MNIST."""


def drawer_of(name: str) -> Drawer:
    """Find a drawer by its name.

    Raises:
        RatersError: that lists the names.
    """
    return DRAWERS[one_of(DRAWERS, name, "the rater")]

"""Raters who break or swell strokes, in the manner of Morpho-MNIST (Castro et al., 2019).

D. C. Castro, J. Tan, B. Kainz, E. Konukoglu, B. Glocker: Morpho-MNIST: quantitative assessment
and diagnostics for representation learning. Journal of Machine Learning Research 20 (2019).
Theirs is for 28 x 28 digits; here places and sizes follow the skeleton of any mask, 2D or 3D.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.simulate.outlines import over
from raters.simulate.shape import Mask, Shape

_PIXELS_A_CUT = 24  # so that a digit (about 40 pixels of skeleton) has two or three
_PIXELS_A_SWELLING = 40
_MOST_CUTS = 400
_AT_ONCE = 1_000_000  # offsets of pixels to hold at a time

Point = NDArray[np.float64]


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

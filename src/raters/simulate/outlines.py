"""Raters who put the outline in the wrong place: too wide, too narrow, aside, or shaky.

All move the level of the signed distance, so a radius may be any real number. A drawer takes its
random numbers before it looks at the severity: with the same ones, more severity errs at the
same places and further.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.simulate.noise import smooth_noise
from raters.simulate.shape import Mask, Shape

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
    return slice(max(offset, 0), length + min(offset, 0)), slice(
        max(-offset, 0), length - max(offset, 0)
    )


def _towards_right(space: tuple[int, ...]) -> Field:
    """Go from 0 to 1 in the middle: along the columns of a picture, along i of a volume."""
    axis = 1 if len(space) == 2 else 0
    place = np.linspace(-1, 1, space[axis], dtype=np.float32)
    ramp = (0.5 + 5 * place).clip(0, 1)
    return ramp.reshape([-1 if k == axis else 1 for k in range(len(space))])

"""Raters who take one class for another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.simulate.noise import smooth_noise
from raters.simulate.shape import Shape


def mix_up(
    drawn: NDArray[np.int16],
    truth: NDArray[np.int16],
    shape: Shape,
    target: int,
    num_classes: int,
    severity: float,
    rng: np.random.Generator,
) -> None:
    """Return a part of the target class the label of another foreground class, in patches.

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


def _partners(truth: NDArray[np.int16], shape: Shape, target: int, num_classes: int) -> list[int]:
    touching = truth[(shape.distance < 0) & (shape.distance > -1.5)]
    for candidates in (touching, truth, np.arange(num_classes)):
        found = [int(k) for k in np.unique(candidates) if k > 0 and k != target]
        if found:
            return found
    return [0]

"""Smooth random fields: how outlines wobble and tissue looks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def smooth_noise(
    space: tuple[int, ...], width: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Draw a Gaussian field with mean 0 and variance 1 at every pixel.

    White noise on a coarse grid is spread by Gaussian bumps, axis by axis; each pixel's weights
    have unit length, so its variance is exactly one, at the border too.

    Args:
        space: The spatial shape.
        width: The correlation length in pixels.
        rng: Randomness.

    Example:
        >>> field = smooth_noise((64, 64), 8, np.random.default_rng(0))
        >>> bool(abs(np.diff(field, axis=0)).mean() < 0.2)
        True
    """
    bases = [_basis(length, float(width)) for length in space]
    field = rng.standard_normal([basis.shape[1] for basis in bases], np.float32)
    for basis in bases:  # each product takes the first axis away and puts its own last
        field = np.tensordot(field, basis, axes=(0, 1))
    return np.asarray(field, np.float32)


@lru_cache(maxsize=64)
def _basis(length: int, width: float) -> NDArray[np.float32]:
    """Return the weights `(length, knots)` of bumps along one axis, rows of unit length."""
    knots = np.arange(-2 * width, length + 2 * width, width)
    weights = np.exp(-0.5 * ((np.arange(length)[:, None] - knots) / (0.7 * width)) ** 2)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return weights.astype(np.float32)

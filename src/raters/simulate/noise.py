"""Smooth random fields: how outlines wobble and tissue looks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Floats


def seed_of(seed: int, *names: str) -> int:
    """Return a number that belongs to a seed and names.

    Example:
        >>> seed_of(0, "case 1", "ann") != seed_of(0, "case 1", "bob")
        True
    """
    # The lengths keep ("ab", "c") and ("a", "bc") apart.
    text = "".join(f"{len(part)}:{part}" for part in (str(seed), *names))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def generator(seed: int, *names: str) -> np.random.Generator:
    """Return randomness that belongs to a seed and names."""
    return np.random.default_rng(seed_of(seed, *names))


def uniforms(seed: int, who: str, cases: Iterable[str]) -> Floats:
    """Return one uniform number in [0, 1) per case: quicker than a generator for each."""
    # 53 bits are what a float holds, so that no number rounds up to 1.
    bits = np.fromiter((seed_of(seed, who, case) >> 11 for case in cases), np.uint64)
    return bits.astype(np.float64) * 2.0**-53


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

"""Randomness that belongs to a name: the same seed and names give the same numbers, anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


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


def uniforms(seed: int, who: str, cases: Iterable[str]) -> NDArray[np.float64]:
    """Return one uniform number in [0, 1) per case: quicker than a generator for each."""
    # 53 bits are what a float holds, so that no number rounds up to 1.
    bits = np.fromiter((seed_of(seed, who, case) >> 11 for case in cases), np.uint64)
    return bits.astype(np.float64) * 2.0**-53

"""What drawers need: smooth random fields, and a mask with its distances, each computed once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Flags, Floats, Ints


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


Mask = Flags


class Shape:
    """A mask `(*space)` in 2D or 3D with its signed distance, its skeleton and its objects.

    Example:
        >>> shape = Shape(np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]))
        >>> shape.distance[1]
        array([-0.5,  0.5,  0.5, -0.5], dtype=float32)
    """

    def __init__(self, mask: NDArray[np.generic]) -> None:
        self.mask: Mask = np.asarray(mask, bool)

    @property
    def space(self) -> tuple[int, ...]:
        """The spatial shape."""
        return self.mask.shape

    @cached_property
    def is_empty(self) -> bool:
        """Whether there is no foreground."""
        return not self.mask.any()

    @cached_property
    def distance(self) -> NDArray[np.float32]:
        """Signed distance to the outline in pixels, positive inside; it lies between pixels."""
        from scipy.ndimage import distance_transform_edt

        if self.is_empty or self.mask.all():  # there is no outline: it is far away
            far = float(max(self.space))
            return np.where(self.mask, far, -far).astype(np.float32)
        inside = distance_transform_edt(self.mask) - distance_transform_edt(~self.mask)
        return np.asarray(inside - np.where(self.mask, 0.5, -0.5), np.float32)

    @cached_property
    def skeleton(self) -> NDArray[np.intp]:
        """The pixels of the skeleton, `(n, dimensions)`; at least one where there is foreground."""
        from skimage.morphology import skeletonize

        points = np.argwhere(skeletonize(self.mask))  # type: ignore[no-untyped-call]
        if len(points) or self.is_empty:
            return points
        return np.array([np.unravel_index(int(self.distance.argmax()), self.space)])

    @cached_property
    def strokes(self) -> NDArray[np.intp]:
        """The skeleton without tips and forks, `(n, dimensions)`; all of it if nothing else is."""
        from scipy.ndimage import convolve

        lines = np.zeros(self.space, np.uint8)
        lines[tuple(self.skeleton.T)] = 1
        around = convolve(lines, np.ones((3,) * lines.ndim, np.uint8), mode="constant")
        inner = self.skeleton[around[tuple(self.skeleton.T)] == 3]
        return inner if len(inner) else self.skeleton

    @cached_property
    def half_thickness(self) -> float:
        """Mean distance of the skeleton to the outline: half of Morpho-MNIST's mean thickness."""
        return 0.0 if self.is_empty else float(self.distance[tuple(self.skeleton.T)].mean())

    @cached_property
    def objects(self) -> tuple[NDArray[np.int32], Ints]:
        """Connected objects as numbers from 1 `(*space)`, and their sizes in pixels."""
        from scipy.ndimage import label

        numbers, count = label(self.mask, np.ones((3,) * self.mask.ndim))
        return numbers, np.bincount(numbers.ravel(), minlength=count + 1)[1:]

"""A mask with what drawers need to know of it, each computed once and shared by all of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Flags, Ints

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

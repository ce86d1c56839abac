"""How far apart the surfaces of two masks lie, in millimetres, in 2D and 3D.

A *surface voxel* is a voxel of the mask with a face neighbour outside; the border of the image
counts as outside. Distances go between centres of surface voxels, with the spacing of each axis.

A mask is what is labelled above 0. Voxels that are MISSING in either mask are background in both,
so that no rater is blamed for what the other did not look at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Flags, Floats
from raters.core.classes import MISSING
from raters.core.errors import check_choice
from raters.metrics.conventions import (
    UNDEFINED,
    Spacing,
    check_classes,
    diagonal,
    label_pair,
    spacing_of,
)

# A tree of surface voxels beats a distance transform of the box where they are few: measured on
# 128^3 voxels, 6 times faster on two balls (5 % of the box), 3 times slower on noise (75 % of it).
_FEW = 1 / 4


class SurfaceDistances(NamedTuple):
    """From each surface voxel of one mask to the nearest of the other, in mm, both ways.

    Two empty masks have the distances `[0]` and `[0]`; where exactly one is empty, both are
    `[diagonal of the grid]`; without a voxel labelled in both, both are `[nan]`. So each statistic
    below follows the rules of `raters.metrics.conventions` by itself.
    """

    a_to_b: Floats
    b_to_a: Floats

    def percentile(self, percent: float) -> float:
        """Return the larger of the two directed percentiles (interpolated linearly)."""
        return float(max(np.percentile(way, percent) for way in self))

    @property
    def hausdorff(self) -> float:
        """The largest distance either way."""
        return float(max(way.max() for way in self))

    @property
    def hd95(self) -> float:
        """The larger of the two directed 95th percentiles."""
        return self.percentile(95)

    @property
    def assd(self) -> float:
        """The mean over both sets of distances pooled."""
        return float(np.concatenate(self).mean())


def surface_distances(
    a: ArrayLike, b: ArrayLike, spacing: Spacing | None = None
) -> SurfaceDistances:
    """Measure from each surface voxel of one mask to the nearest of the other, both ways.

    Several statistics come from one pass: take `.hausdorff`, `.hd95`, `.assd`, or the arrays.

    Example:
        >>> surface_distances([0, 1, 1, 1, 0], [0, 1, 1, 1, 1], spacing=[2])
        SurfaceDistances(a_to_b=array([0., 2.]), b_to_a=array([0., 2.]))
        >>> surface_distances([1, 0, 0, 0], [1, 0, 0, 1])
        SurfaceDistances(a_to_b=array([0.]), b_to_a=array([0., 3.]))
        >>> surface_distances([0, 1, 0], [0, 0, 0]).hd95
        3.0
    """
    first, second = label_pair(a, b)
    observed = (first != MISSING) & (second != MISSING)
    mm = spacing_of(first.ndim, spacing)
    return _distances((first > 0) & observed, (second > 0) & observed, observed, mm)


def hausdorff(a: ArrayLike, b: ArrayLike, spacing: Spacing | None = None) -> float:
    """Return Hausdorff's distance of two surfaces: the largest distance to the other, in mm.

    Two empty masks: 0. Exactly one empty: the diagonal of the grid. Nothing in common: NaN.
    SimpleITK's HausdorffDistance compares the filled masks; it agrees on convex shapes.

    Example:
        >>> hausdorff([[1, 1, 0, 0]], [[1, 1, 1, 1]], spacing=(1, 0.5))
        1.0
    """
    return surface_distances(a, b, spacing).hausdorff


def hd95(a: ArrayLike, b: ArrayLike, spacing: Spacing | None = None) -> float:
    """Return the 95 % Hausdorff distance: the maximum of the two directed 95th percentiles, in mm.

        max(percentile_95 { d(x, S_b) : x in S_a }, percentile_95 { d(y, S_a) : y in S_b })

    D. P. Huttenlocher et al., Comparing images using the Hausdorff distance, PAMI 15, 1993. As in
    MONAI. (medpy pools both sets before the percentile: another number, mostly smaller.)

    Two empty masks: 0. Exactly one empty: the diagonal of the grid. Nothing in common: NaN.

    Example:
        >>> mask = np.zeros((20, 20), int)
        >>> mask[5:15, 5:15] = 1
        >>> hd95(mask, np.roll(mask, 3, axis=0), spacing=(0.5, 0.5))
        1.5
    """
    return surface_distances(a, b, spacing).hd95


def average_surface_distance(
    a: ArrayLike, b: ArrayLike, spacing: Spacing | None = None, form: str = "symmetric"
) -> float:
    """Return the average distance between two surfaces, in mm.

        symmetric   (sum_{x in S_a} d(x, S_b) + sum_{y in S_b} d(y, S_a)) / (|S_a| + |S_b|)
        directed    sum_{x in S_a} d(x, S_b) / |S_a|

    The symmetric form pools both sets (T. Heimann et al., Comparison and evaluation of methods for
    liver segmentation, IEEE TMI 28, 2009). medpy and ITK take the mean of the two directed forms
    instead; they differ where one surface is larger.

    Two empty masks: 0. Exactly one empty: the diagonal of the grid. Nothing in common: NaN.

    Example:
        >>> average_surface_distance([1, 0, 0, 0], [1, 1, 1, 1])
        1.0
        >>> average_surface_distance([1, 0, 0, 0], [1, 1, 1, 1], form="directed")
        0.0
    """
    check_choice("form", form, ("symmetric", "directed"))
    distances = surface_distances(a, b, spacing)
    return distances.assd if form == "symmetric" else float(distances.a_to_b.mean())


def surface_distances_by_class(
    a: ArrayLike, b: ArrayLike, num_classes: int, spacing: Spacing | None = None
) -> list[SurfaceDistances]:
    """Measure the surfaces of each foreground class by itself; class c is at position c - 1.

    Example:
        >>> a, b = [0, 1, 1, 2, 2, 2], [0, 1, 1, 1, 2, 2]
        >>> [found.hausdorff for found in surface_distances_by_class(a, b, num_classes=4)]
        [1.0, 1.0, 0.0]
    """
    check_classes(num_classes)
    first, second = label_pair(a, b, num_classes)
    observed = (first != MISSING) & (second != MISSING)
    mm = spacing_of(first.ndim, spacing)
    return [
        _distances((first == k) & observed, (second == k) & observed, observed, mm)
        for k in range(1, num_classes)
    ]


def _distances(a: Flags, b: Flags, observed: Flags, spacing: Floats) -> SurfaceDistances:
    """Measure both ways, or give what `raters.metrics.conventions` states."""
    a_drawn = bool(a.any())
    b_drawn = bool(b.any())
    if a_drawn and b_drawn:
        box = bounding_box(a | b)
        on_a = surface(a[box])
        on_b = surface(b[box])
        return SurfaceDistances(_to_nearest(on_a, on_b, spacing), _to_nearest(on_b, on_a, spacing))
    if a_drawn or b_drawn:
        only = diagonal(a.shape, spacing)
    else:
        only = 0.0 if observed.any() else UNDEFINED
    return SurfaceDistances(np.array([only]), np.array([only]))


def surface(mask: Flags) -> Flags:
    """Mark voxels of the mask with a face neighbour outside; beyond the border is outside.

    Example:
        >>> surface(np.array([False, True, True, True, False, True]))
        array([False,  True, False,  True, False,  True])
    """
    inner = mask.copy()
    for axis in range(mask.ndim):
        own = np.moveaxis(mask, axis, 0)
        view = np.moveaxis(inner, axis, 0)
        view[:-1] &= own[1:]
        view[1:] &= own[:-1]
        view[:1] = view[-1:] = False
    return mask & ~inner


def bounding_box(mask: Flags) -> tuple[slice, ...]:
    """Return the smallest box around a mask that is not empty.

    Example:
        >>> bounding_box(np.array([[0, 1, 1, 0], [0, 0, 0, 0]], bool))
        (slice(0, 1, None), slice(1, 3, None))
    """
    box = []
    for axis in range(mask.ndim):
        others = tuple(k for k in range(mask.ndim) if k != axis)
        inside = np.flatnonzero(mask.any(axis=others))
        box.append(slice(int(inside[0]), int(inside[-1]) + 1))
    return tuple(box)


def _to_nearest(here: Flags, there: Flags, spacing: Floats) -> Floats:
    """Return the distance from each marked voxel here, in order, to the nearest marked there."""
    apart = here & ~there  # the rest lies on both surfaces, at distance 0
    distances = np.zeros(here.shape)
    few = np.count_nonzero(apart) + np.count_nonzero(there) < _FEW * here.size
    distances[apart] = (_by_tree if few else _by_transform)(apart, there, spacing)
    return np.asarray(distances[here])


def _by_tree(here: Flags, there: Flags, spacing: Floats) -> Floats:
    from scipy.spatial import cKDTree

    tree = cKDTree(_points(there, spacing))
    return np.asarray(tree.query(_points(here, spacing))[0])


def _points(mask: Flags, spacing: Floats) -> Floats:
    # Flat indices first: twice as fast as np.argwhere on a volume.
    places = np.unravel_index(np.flatnonzero(mask), mask.shape)
    return np.stack(places, axis=1) * spacing


def _by_transform(here: Flags, there: Flags, spacing: Floats) -> Floats:
    from scipy.ndimage import distance_transform_edt

    return np.asarray(distance_transform_edt(~there, sampling=spacing)[here])

"""The geometry under surface scores: which voxels are surface, and how far the nearest one is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A tree of surface voxels beats a distance transform of the box where they are few: measured on
# 128^3 voxels, 6 times faster on two balls (5 % of the box), 3 times slower on noise (75 % of it).
_FEW = 1 / 4


def surface(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark voxels of the mask with a face neighbour outside; beyond the border is outside.

    Example:
        >>> surface(np.array([False, True, True, True, False, True]))
        array([False,  True, False,  True, False,  True])
    """
    inner = mask.copy()
    for axis in range(mask.ndim):
        own, view = np.moveaxis(mask, axis, 0), np.moveaxis(inner, axis, 0)
        view[:-1] &= own[1:]
        view[1:] &= own[:-1]
        view[:1] = view[-1:] = False
    return mask & ~inner


def bounding_box(mask: NDArray[np.bool_]) -> tuple[slice, ...]:
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


def distances_between(
    a: NDArray[np.bool_], b: NDArray[np.bool_], spacing: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Measure from each surface voxel of a mask to the nearest of the other, both ways.

    Neither mask is empty. The distances are in the order of the voxels in memory.

    Example:
        >>> a, b = np.array([1, 0, 0, 0], bool), np.array([1, 0, 0, 1], bool)
        >>> distances_between(a, b, np.ones(1))
        (array([0.]), array([0., 3.]))
    """
    box = bounding_box(a | b)
    on_a, on_b = surface(a[box]), surface(b[box])
    return _to_nearest(on_a, on_b, spacing), _to_nearest(on_b, on_a, spacing)


def _to_nearest(
    here: NDArray[np.bool_], there: NDArray[np.bool_], spacing: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distance from each marked voxel here to the nearest one marked there."""
    apart = here & ~there  # the rest lies on both surfaces, at distance 0
    distances = np.zeros(here.shape)
    few = np.count_nonzero(apart) + np.count_nonzero(there) < _FEW * here.size
    distances[apart] = (_by_tree if few else _by_transform)(apart, there, spacing)
    return np.asarray(distances[here])


def _by_tree(
    here: NDArray[np.bool_], there: NDArray[np.bool_], spacing: NDArray[np.float64]
) -> NDArray[np.float64]:
    from scipy.spatial import cKDTree

    tree = cKDTree(_points(there, spacing))
    return np.asarray(tree.query(_points(here, spacing))[0])


def _points(mask: NDArray[np.bool_], spacing: NDArray[np.float64]) -> NDArray[np.float64]:
    # Flat indices first: twice as fast as np.argwhere on a volume.
    places = np.unravel_index(np.flatnonzero(mask), mask.shape)
    return np.stack(places, axis=1) * spacing


def _by_transform(
    here: NDArray[np.bool_], there: NDArray[np.bool_], spacing: NDArray[np.float64]
) -> NDArray[np.float64]:
    from scipy.ndimage import distance_transform_edt

    return np.asarray(distance_transform_edt(~there, sampling=spacing)[here])

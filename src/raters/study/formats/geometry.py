"""Affines: between the conventions of libraries, from volumes to planes, and sub-grids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from raters.arrays import Array, Floats
from raters.errors import RatersError
from raters.study.geometry import Volume

_TOLERANCE = 0.01  # voxels


def flip_lps(affine: Floats) -> Floats:
    """Left-posterior-superior (DICOM, ITK) to right-anterior-superior, or back.

    Example:
        >>> flip_lps(np.diag([2.0, 3.0, 4.0, 1.0])).diagonal().tolist()
        [-2.0, -3.0, 4.0, 1.0]
    """
    flipped = np.array(affine, dtype=np.float64)
    flipped[:2] *= -1
    return flipped + 0.0  # no negative zeros


def from_itk(
    direction: Sequence[float], spacing: Sequence[float], origin: Sequence[float], spatial_dims: int
) -> Floats:
    """The RAS affine of an ITK image, in the package's axis order.

    Args:
        direction: A square matrix, row by row.
        spacing: The spacing of `(x, y, ...)`.
        origin: The position of the first voxel, LPS.
        spatial_dims: The number of spatial axes, 2 or 3; ITK's further axes are left out.
    """
    size = len(spacing)
    affine = np.eye(spatial_dims + 1)
    linear = np.reshape(direction, (size, size)) * np.asarray(spacing)
    affine[:spatial_dims, :spatial_dims] = linear[:spatial_dims, :spatial_dims]
    affine[:spatial_dims, spatial_dims] = origin[:spatial_dims]
    return flip_lps(_swap_columns(affine) if spatial_dims == 2 else affine)


def to_itk(affine: Floats) -> tuple[list[float], list[float], list[float]]:
    """Direction, spacing and origin of an ITK image: the inverse of `from_itk`."""
    dims = len(affine) - 1
    lps = flip_lps(_swap_columns(affine) if dims == 2 else affine)
    linear = lps[:dims, :dims]
    spacing = np.linalg.norm(linear, axis=0)
    return (linear / spacing).ravel().tolist(), spacing.tolist(), lps[:dims, dims].tolist()


def _swap_columns(affine: Floats) -> Floats:
    """Columns (x, y) to (row, column) order or back."""
    return affine[:, [1, 0, 2]]


def plane(affine: Floats) -> Floats:
    """The 3 x 3 affine of a picture that lies in space with a 4 x 4 affine.

    The third voxel axis goes, and so does the world axis that the picture faces (z for an axial
    slice), so that the rest can always be inverted. For axial slices nothing but the position
    along z is lost.

    Example:
        >>> plane(np.diag([2.0, 3.0, 4.0, 1.0])).diagonal().tolist()
        [2.0, 3.0, 1.0]
    """
    normal = np.cross(affine[:3, 0], affine[:3, 1])
    kept = np.delete(np.arange(4), 2 if not normal.any() else np.abs(normal).argmax())
    return affine[kept][:, [0, 1, 3]]


def unplane(affine: Floats) -> Floats:
    """A 4 x 4 affine whose `plane` is the given one: the axial slice at z = 0."""
    full = np.eye(4)
    full[np.ix_([0, 1, 3], [0, 1, 3])] = affine
    return full


def fits_float32(affine: Floats) -> bool:
    """Whether NIfTI can hold the affine exactly.

    Example:
        >>> fits_float32(np.diag([0.5, 0.5, 2, 1])), fits_float32(np.diag([0.1, 0.1, 2, 1]))
        (True, False)
    """
    return bool((affine.astype(np.float32) == affine).all())


def embed(volume: Volume, shape: tuple[int, ...], affine: Floats) -> Volume:
    """Put labels that cover a part of an image's grid into the whole grid, zeros elsewhere.

    DICOM segmentations store only the slices that have something, often in another order. The
    grids may differ by a shift of whole voxels and by flipped or permuted axes.

    Args:
        volume: The labels, `(*space)`, with an affine.
        shape: The spatial shape of the image.
        affine: The affine of the image.

    Returns:
        The labels on the image's grid.

    Raises:
        RatersError: If the voxels do not coincide, or lie outside the image.

    Example:
        >>> slice_ = Volume(np.ones((2, 2, 1), int), np.diag([-1.0, 1, 1, 1]) + np.eye(4, k=3))
        >>> embed(slice_, (2, 2, 3), np.eye(4)).array.sum(axis=(0, 1)).tolist()
        [4, 0, 0]
    """
    if volume.affine is None or volume.affine.shape != affine.shape:
        raise RatersError("labels without a matching affine cannot be placed", kind="geometry")
    between = np.linalg.inv(affine) @ volume.affine
    linear = _signed_permutation(between[:-1, :-1], volume.array.shape)
    start = np.rint(between[:-1, -1])
    _check_corners(between, linear, start, volume.array.shape)
    order = [int(np.flatnonzero(row)[0]) for row in linear]
    low = np.minimum(start, start + linear @ (np.array(volume.array.shape) - 1)).astype(int)
    flips = tuple(slice(None, None, int(linear[i, j])) for i, j in enumerate(order))
    part = volume.array.transpose(order)[flips]
    high = low + part.shape
    if (low < 0).any() or (high > shape).any():
        message = f"labels span voxels {low.tolist()} to {(high - 1).tolist()} of the image"
        raise RatersError(f"{message}, whose shape is {tuple(shape)}", kind="geometry")
    array = np.zeros(shape, volume.array.dtype)
    array[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = part
    return Volume(array, affine)


def _signed_permutation(linear: Array, shape: tuple[int, ...]) -> Array:
    """The nearest matrix of whole-voxel steps; an axis of length 1 takes what axis is left."""
    steps = np.rint(linear)
    single = [axis for axis, length in enumerate(shape) if length == 1]
    steps[:, single] = 0
    left = np.flatnonzero(~steps.any(axis=1))
    for axis, target in zip(single, left, strict=False):
        steps[target, axis] = 1
    if not (np.abs(steps @ steps.T - np.eye(len(shape))) == 0).all():
        raise RatersError("labels have other voxel sizes or axes than the image", kind="geometry")
    return steps


def _check_corners(between: Array, linear: Array, start: Array, shape: Sequence[int]) -> None:
    corners = np.array(list(product(*[(0, length - 1) for length in shape]))).T
    exact = between[:-1, :-1] @ corners + between[:-1, -1:]
    offset = float(np.abs(exact - (linear @ corners + start[:, None])).max())
    if offset > _TOLERANCE:
        message = f"label voxels are {offset:.3g} voxels off the image's grid, expected a common"
        raise RatersError(f"{message} grid", kind="geometry")

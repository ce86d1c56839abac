"""Where voxels lie: affines of libraries; comparing grids, resampling, putting labels on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError


@dataclass(frozen=True)
class Header:
    """What a file says of itself before its voxels are read.

    Attributes:
        shape: The spatial shape.
        dtype: The type of the voxels, after scaling.
        affine: Voxel indices to millimetres (RAS), `(d + 1, d + 1)`; None if the file has none.
        channels: The number of channels; None if the file has no channel axis.
        names: Names that the file gives to label values (DICOM segmentations do).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    affine: Floats | None = None
    channels: int | None = None
    names: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Volume:
    """The voxels of a file with their geometry.

    Attributes:
        array: `(*space)`, or `(channels, *space)` if `has_channels`.
        affine: Voxel indices to millimetres (RAS), `(d + 1, d + 1)`; None if the file has none.
        has_channels: Whether the first axis of `array` is a channel axis.
    """

    array: Array
    affine: Floats | None = None
    has_channels: bool = False


_RELATIVE_SPACING = 1e-3
_DIRECTION = 1e-3
_ORIGIN_IN_VOXELS = 0.05
_SAME_RATIO = 0.02


@dataclass(frozen=True)
class Geometry:
    """The grid of a mask or an image.

    Attributes:
        shape: The spatial shape.
        affine: Voxel indices to millimetres (RAS), `(d + 1, d + 1)`; None if unknown.

    Example:
        >>> grid = Geometry((64, 64, 20), np.diag([0.5, 0.5, 3.0, 1.0]))
        >>> grid.spacing
        (0.5, 0.5, 3.0)
    """

    shape: tuple[int, ...]
    affine: Floats | None = None

    @property
    def spacing(self) -> tuple[float, ...]:
        """The size of a voxel in millimetres, by axis; 1 where the file does not say."""
        if self.affine is None:
            return (1.0,) * len(self.shape)
        return tuple(float(s) for s in np.linalg.norm(self.affine[:-1, :-1], axis=0))

    @property
    def volume_unit(self) -> str:
        """The unit of volumes: mm³ (mm² of flat grids); pixels or voxels where no file says it.

        Example:
            >>> Geometry((4, 4), np.diag([0.5, 0.5, 1.0])).volume_unit
            'mm²'
        """
        if self.affine is None:
            return "pixels" if len(self.shape) < 3 else "voxels"
        return {2: "mm²", 3: "mm³"}.get(len(self.shape), "mm")

    @property
    def direction(self) -> Floats:
        """The unit vectors of the axes, as columns."""
        if self.affine is None:
            return np.eye(len(self.shape))
        # A zero column is a broken header: keep it as it is, so that the difference shows.
        length = np.array(self.spacing)
        return np.asarray(self.affine[:-1, :-1] / np.where(length > 0, length, 1.0))

    @property
    def origin(self) -> Floats:
        """Where the first voxel lies, in millimetres."""
        if self.affine is None:
            return np.zeros(len(self.shape))
        return np.asarray(self.affine[:-1, -1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Geometry):
            return NotImplemented
        if self.shape != other.shape or (self.affine is None) != (other.affine is None):
            return False
        return self.affine is None or np.array_equal(self.affine, other.affine)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


def difference(a: Geometry, b: Geometry) -> tuple[str, str, str] | None:
    """Report in what two grids differ: the word for it and both values; None if they agree.

    A file without geometry (a PNG) agrees with any of its shape. Headers round: spacings may
    differ by a thousandth, directions by 0.001, origins by a twentieth of a voxel.

    Example:
        >>> difference(Geometry((4, 4)), Geometry((4, 5)))
        ('shape', '4 x 4', '4 x 5')
    """
    if a.shape != b.shape:
        return "shape", _shape(a.shape), _shape(b.shape)
    if a.affine is None or b.affine is None:
        return None
    if not np.allclose(a.spacing, b.spacing, rtol=_RELATIVE_SPACING, atol=0):
        return "spacing", _numbers(a.spacing), _numbers(b.spacing)
    if not np.allclose(a.direction, b.direction, rtol=0, atol=_DIRECTION):
        return "direction", _rows(a.direction), _rows(b.direction)
    if np.abs(a.origin - b.origin).max() > _ORIGIN_IN_VOXELS * max(min(a.spacing), 1e-6):
        return "origin", _numbers(a.origin), _numbers(b.origin)
    return None


def can_resample(own: Geometry, target: Geometry) -> bool:
    """Return whether labels can be put on another grid.

    Where one of the two does not know its place in space, they show the same thing only if all
    sides have the same ratio (to 2 %, as sizes are rounded), as pictures of two resolutions have.

    Example:
        >>> can_resample(Geometry((50, 40)), Geometry((100, 80)))
        True
        >>> can_resample(Geometry((50, 50)), Geometry((100, 80)))
        False
    """
    if len(own.shape) != len(target.shape) or 0 in (*own.shape, *target.shape):
        return False
    if own.affine is not None and target.affine is not None:
        return True
    ratios = np.divide(own.shape, target.shape)
    return bool(ratios.max() <= ratios.min() * (1 + _SAME_RATIO))


def resample_nearest(labels: Labels, own: Geometry, target: Geometry) -> Labels:
    """Return labels on another grid by the nearest voxel; MISSING where the labels do not reach.

    Without an affine on either side the labels are scaled to the whole of the other grid, as a
    picture is resized: the centre of voxel i lies at `(i + 0.5) * own / target - 0.5`.

    Example:
        >>> fine = Geometry((4,), np.diag([1.0, 1.0]))
        >>> coarse = Geometry((3,), np.array([[2.0, 0.5], [0.0, 1.0]]))
        >>> resample_nearest(np.array([0, 1, 2, 3], np.int16), fine, coarse)
        array([ 0,  2, -1], dtype=int16)
    """
    from scipy.ndimage import affine_transform

    if own.affine is None or target.affine is None:
        ratio = np.divide(own.shape, target.shape)
        to_own = np.diag([*ratio, 1.0])
        to_own[:-1, -1] = 0.5 * ratio - 0.5
    else:
        to_own = np.linalg.inv(own.affine) @ target.affine  # target voxel -> mm -> own voxel
    to_own[:-1, -1] -= 1e-9  # a hair is taken off so that 0.5 rounds down
    # 'grid-constant' lets a voxel reach half its size beyond its centre, at the edge as inside.
    resampled: Array = affine_transform(
        labels, to_own, output_shape=target.shape, order=0, mode="grid-constant", cval=MISSING
    )
    return resampled.astype(np.int16)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _numbers(values: Any) -> str:  # noqa: ANN401
    return "(" + ", ".join(f"{v:g}" for v in np.round(np.asarray(values, float), 4)) + ")"


def _rows(matrix: Floats) -> str:
    return "[" + " ".join(_numbers(row) for row in matrix) + "]"


_TOLERANCE = 0.01  # voxels
_ROWS_FIRST = [1, 0, 2]  # columns of an affine from (x, y) to (row, column) or back


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
    return flip_lps(affine[:, _ROWS_FIRST] if spatial_dims == 2 else affine)


def to_itk(affine: Floats) -> tuple[list[float], list[float], list[float]]:
    """Direction, spacing and origin of an ITK image: the inverse of `from_itk`."""
    dims = len(affine) - 1
    lps = flip_lps(affine[:, _ROWS_FIRST] if dims == 2 else affine)
    linear = lps[:dims, :dims]
    spacing = np.linalg.norm(linear, axis=0)
    return (linear / spacing).ravel().tolist(), spacing.tolist(), lps[:dims, dims].tolist()


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

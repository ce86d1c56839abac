"""Where voxels lie in space: comparing the grids of two files, and resampling one to the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.study.classes import MISSING

_RELATIVE_SPACING = 1e-3
_DIRECTION = 1e-3
_ORIGIN_IN_VOXELS = 0.05


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
    affine: NDArray[np.float64] | None = None

    @property
    def spacing(self) -> tuple[float, ...]:
        """The size of a voxel in millimetres, by axis; 1 where the file does not say."""
        if self.affine is None:
            return (1.0,) * len(self.shape)
        return tuple(float(s) for s in np.linalg.norm(self.affine[:-1, :-1], axis=0))

    @property
    def direction(self) -> NDArray[np.float64]:
        """The unit vectors of the axes, as columns."""
        if self.affine is None:
            return np.eye(len(self.shape))
        # A zero column is a broken header: keep it as it is, so that the difference shows.
        length = np.array(self.spacing)
        return np.asarray(self.affine[:-1, :-1] / np.where(length > 0, length, 1.0))

    @property
    def origin(self) -> NDArray[np.float64]:
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
    """Say in what two grids differ: the word for it and both values; None if they agree.

    A file without geometry (a PNG) agrees with any of its shape. Headers round: spacings may
    differ by a thousandth, directions by .001, origins by a twentieth of a voxel.

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


def resample_nearest(
    labels: NDArray[np.int16], own: Geometry, target: Geometry
) -> NDArray[np.int16]:
    """Give labels on another grid by the nearest voxel; MISSING where the labels do not reach.

    Example:
        >>> fine = Geometry((4,), np.diag([1.0, 1.0]))
        >>> coarse = Geometry((3,), np.array([[2.0, 0.5], [0.0, 1.0]]))
        >>> resample_nearest(np.array([0, 1, 2, 3], np.int16), fine, coarse)
        array([ 0,  2, -1], dtype=int16)
    """
    from scipy.ndimage import affine_transform

    if own.affine is None or target.affine is None:
        own_affine = target_affine = np.eye(len(own.shape) + 1)
    else:
        own_affine, target_affine = own.affine, target.affine
    # Target voxel -> millimetres -> own voxel; a hair is taken off so that .5 rounds down.
    to_own = np.linalg.inv(own_affine) @ target_affine
    to_own[:-1, -1] -= 1e-9
    # 'grid-constant' lets a voxel reach half its size beyond its centre, at the edge as inside.
    resampled: NDArray[Any] = affine_transform(
        labels, to_own, output_shape=target.shape, order=0, mode="grid-constant", cval=MISSING
    )
    return resampled.astype(np.int16)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _numbers(values: Any) -> str:  # noqa: ANN401
    return "(" + ", ".join(f"{v:g}" for v in np.round(np.asarray(values, float), 4)) + ")"


def _rows(matrix: NDArray[np.float64]) -> str:
    return "[" + " ".join(_numbers(row) for row in matrix) + "]"

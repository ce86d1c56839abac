"""What a file holds, in the axis order and coordinates that the whole package uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    affine: NDArray[np.float64] | None = None
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

    array: NDArray[Any]
    affine: NDArray[np.float64] | None = None
    has_channels: bool = False

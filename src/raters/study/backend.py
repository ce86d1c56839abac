"""What every store of a study answers: one rater's mask of one case, and the case's image."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from raters.arrays import Array
from raters.errors import RatersError
from raters.study.geometry import Geometry

Absent = Literal["missing", "empty"]
Overlap = Literal["error", "priority", "combine"]
Resample = Literal["nearest"]
Axes = int | Callable[[], int | None] | None
"""How many spatial axes masks have, where they tell; a function where a mask must be read to know.

Only images that are plain arrays need it, to find their channel axis.
"""


@dataclass(frozen=True)
class LabelRules:
    """How mask files are to be understood.

    Attributes:
        ignore: Values that mean 'not labelled here' (MISSING).
        absent: What an absent file means: 'missing' (not labelled) or 'empty' (drew nothing).
        threshold: Where to cut grey masks; masks of 0 and 1 stay as they are.
        overlap: With one file per class, what a pixel in several classes gets: 'error',
            'priority' (the class listed last wins), 'combine' (a class of its own, 'disc+cup').
        resample: 'nearest' puts masks on the grid of the image; None makes other grids an error.
    """

    ignore: tuple[int, ...] = ()
    absent: Absent = "missing"
    threshold: float | None = None
    overlap: Overlap = "error"
    resample: Resample | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise RatersError(f"found the threshold {self.threshold}, expected a finite number")


@dataclass(frozen=True)
class RawMask:
    """One rater's mask before its values are turned into classes.

    Attributes:
        values: Whole numbers as the file holds them, or class numbers if `coded`.
        geometry: The grid of the mask.
        source: The file, or words that say where the mask comes from.
        coded: Whether `values` are class numbers (and MISSING) already.
        names: Names that the file itself gives to values.
        covered: With one file per class, the classes that are drawn and wholly hidden by others.
    """

    values: Array
    geometry: Geometry
    source: str
    coded: bool = False
    names: Mapping[int, str] = field(default_factory=dict)
    covered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Image:
    """An image `(channels, *space)` with its grid and where it comes from."""

    array: Array
    geometry: Geometry
    source: str


class Backend(Protocol):
    """Reads one thing at a time; `case` counts from 0 in the order of the whole store."""

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Read the mask of a rater, or the reference for None; None if there is none."""
        ...

    def image(self, case: int, ndim: Axes) -> Image | None:
        """Read the image; `ndim` is the number of spatial axes where the masks tell."""
        ...

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image and its file without reading its voxels."""
        ...

    def files(self, case: int) -> list[Path]:
        """List the files that this case is read from."""
        ...

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        ...

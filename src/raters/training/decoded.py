"""A case as training needs it: checked, and small enough to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.training.normalise import scaled
from raters.training.patches import inside, pad_to

Labels = NDArray[Any]
"""int8 or int16."""


@dataclass(frozen=True)
class DecodedCase:
    """A case as training needs it; the arrays cannot be written to, as they are used again.

    Attributes:
        image: `(channels, *space)` or `(features,)`: normalised, or as in the file if that is
            smaller; see `pixels`.
        labels: `(raters, *space)`, or `(answers,)` for tables; int8 where that is enough.
        moments: Mean and standard deviation of each channel, `(2, channels)`, if the image is
            still to be normalised by them.
        raters: Who gave each answer, for tables only.
        reference: `(*space)`, MISSING where it is unknown; None if not asked for.
        foreground: Flat positions of some foreground pixels; None if not asked for.
        target: `(classes, *space)` floats or `(*space)` integers; None if not asked for.
    """

    image: NDArray[Any]
    labels: Labels
    moments: NDArray[np.float64] | None = None
    raters: NDArray[np.int64] | None = None
    reference: Labels | None = None
    foreground: NDArray[np.int32] | NDArray[np.int64] | None = None
    target: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for array in self.arrays.values():
            array.setflags(write=False)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that there are, by name."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in every.items() if array is not None}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> DecodedCase:
        """Make a case from what `arrays` gave."""
        return cls(**arrays)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def space(self) -> tuple[int, ...]:
        """The spatial shape of the image."""
        return self.image.shape[1:]

    def pixels(
        self, corner: Sequence[int] | None = None, patch_size: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Return the normalised image, or a patch of it; outside the image it is 0.

        Example:
            >>> raw, moments = np.array([[1, 3, 5]], np.uint8), np.array([[3.0], [2.0]])
            >>> case = DecodedCase(raw, np.zeros((1, 3), np.int8), moments)
            >>> case.pixels().tolist(), case.pixels((2,), (2,)).tolist()
            ([[-1.0, 0.0, 1.0]], [[1.0, 0.0]])
        """
        whole = corner is None or patch_size is None
        part = self.image if whole else inside(self.image, corner or (), patch_size or ())
        normal = part if self.moments is None else scaled(part, *self.moments)
        return normal if whole else pad_to(normal, patch_size or (), 0)

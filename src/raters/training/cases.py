"""Reads cases for training: checked, normalised, and kept in memory while there is room."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.case import Case
from raters.study.classes import MISSING
from raters.study.parallel import ordered_map
from raters.study.study import Study
from raters.training.normalise import Normalisation, image_of, in_case
from raters.training.patches import foreground_positions

Labels = NDArray[Any]
"""int8 or int16."""


@dataclass(frozen=True)
class DecodedCase:
    """A case as training needs it; the arrays cannot be written to, as they are used again.

    Attributes:
        image: `(channels, *space)` or `(features,)`, normalised.
        labels: `(raters, *space)`, or `(answers,)` for tables; int8 where that is enough.
        raters: Who gave each answer, for tables only.
        reference: `(*space)`, MISSING where nobody knows; None if not asked for.
        foreground: Flat positions of some foreground pixels; None if not asked for.
    """

    image: NDArray[np.float32]
    labels: Labels
    raters: NDArray[np.int64] | None = None
    reference: Labels | None = None
    foreground: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for array in self.arrays:
            array.setflags(write=False)

    @property
    def arrays(self) -> list[NDArray[np.generic]]:
        """All arrays that there are."""
        every = (self.image, self.labels, self.raters, self.reference, self.foreground)
        return [array for array in every if array is not None]

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(array.nbytes for array in self.arrays)


class CaseReader:
    """Gives cases by position, decoded; remembers them until `cache_bytes` are full.

    Args:
        study: Where the cases are.
        normalisation: What the images go through.
        reference: Whether to read references.
        foreground: Whether to look for foreground pixels.
        cache_bytes: How much memory to take; what does not fit is read each time.

    Example:
        >>> study = Study.from_arrays(np.ones((1, 1, 2, 2)), np.zeros((1, 3, 2, 2), int))
        >>> case = CaseReader(study, Normalisation("none"))(0)
        >>> case.image.shape, case.labels.shape, case.labels.dtype
        ((1, 2, 2), (3, 2, 2), dtype('int8'))
    """

    def __init__(
        self,
        study: Study,
        normalisation: Normalisation,
        *,
        reference: bool = False,
        foreground: bool = False,
        cache_bytes: int = 2**30,
    ) -> None:
        self.study, self.normalisation = study, normalisation
        self.cache_bytes = cache_bytes
        self._reference, self._foreground = reference, foreground
        self._kept: dict[int, DecodedCase] = {}
        self._bytes = 0

    def __call__(self, position: int, processes: int = 1) -> DecodedCase:
        """Give a case; `processes` that each have a memory of their own share the room."""
        found = self._kept.get(position)
        if found is not None:
            return found
        case = self._checked(position)
        self._keep(position, case, self.cache_bytes // max(processes, 1))
        return case

    def preload(self) -> None:
        """Read cases on all cores until the room is full."""
        _ = self.first, self.study.classes
        missing = (k for k in range(len(self.study)) if k not in self._kept)
        for position, case in ordered_map(lambda k: (k, self._checked(k)), missing):
            if not self._keep(position, case, self.cache_bytes):
                return

    @property
    def kept(self) -> int:
        """How many cases are in memory."""
        return len(self._kept)

    def shape(self, position: int, axes: int) -> tuple[int, ...]:
        """Give the spatial shape of a case, from the header of its image if nothing else."""
        if position in self._kept:
            return self._kept[position].image.shape[1:]
        row, name = self.study.row(position), self.study.index.ids[position]
        try:
            grid = self.study.backend.image_grid(row, axes)
        except RatersError as error:
            raise error.at(case=name) from None
        if grid is None:
            return image_of(self.study[position]).array.shape[1:]  # names the case without image
        if len(grid[0].shape) != axes:
            unlike = _other_axes(len(grid[0].shape), axes, self.study.index.ids[0])
            raise in_case(unlike, name, grid[1])
        return grid[0].shape

    @cached_property
    def first(self) -> DecodedCase:
        """The first case: the others must have as many channels and axes."""
        if not len(self.study):
            raise RatersError("found no cases, expected some to train on")
        return self._decode(self.study[0])

    def _keep(self, position: int, case: DecodedCase, room: int) -> bool:
        if self._bytes + case.nbytes > room:
            return False
        self._kept[position] = case
        self._bytes += case.nbytes
        return True

    def _checked(self, position: int) -> DecodedCase:
        return self.first if position == 0 else self._decode(self.study[position], self.first)

    def _decode(self, case: Case, first: DecodedCase | None = None) -> DecodedCase:
        image = image_of(case)
        try:
            if first is not None:
                self._refuse_unlike(image.array.shape, first.image.shape)
            pixels = self.normalisation(image.array)
        except RatersError as error:
            raise in_case(error, case.id, image.source) from None
        if self.study.kind == "classification":
            reference = np.asarray(MISSING if case.reference is None else case.reference, np.int16)
            answers, who = case.labels.copy(), case.raters.astype(np.int64)
            return DecodedCase(pixels, answers, who, reference if self._reference else None)
        labels = case.labels.astype(self._type)
        if labels.shape[1:] != pixels.shape[1:]:
            shapes = f"found {pixels.shape[1:]}, expected {labels.shape[1:]} as in the masks"
            raise in_case(RatersError(shapes, kind="geometry"), case.id, image.source)
        return DecodedCase(
            pixels,
            labels,
            reference=self._reference_of(case, pixels.shape[1:]),
            foreground=foreground_positions(labels) if self._foreground else None,
        )

    def _reference_of(self, case: Case, space: tuple[int, ...]) -> Labels | None:
        if not self._reference:
            return None
        found = case.reference
        return np.full(space, MISSING, self._type) if found is None else found.astype(self._type)

    @cached_property
    def _type(self) -> type[np.int8] | type[np.int16]:
        return np.int8 if len(self.study.classes) <= 127 else np.int16

    def _refuse_unlike(self, shape: tuple[int, ...], first: tuple[int, ...]) -> None:
        name = self.study.index.ids[0]
        if len(shape) != len(first):
            raise _other_axes(len(shape) - 1, len(first) - 1, name)
        if shape[0] != first[0]:
            what = "features" if len(shape) == 1 else "channels"
            raise RatersError(
                f"found {shape[0]} {what}, expected {first[0]} as in case {name!r}", kind="channels"
            )


def _other_axes(found: int, expected: int, first: str) -> RatersError:
    return RatersError(
        f"found an image with {found} spatial axes, expected {expected} as in case {first!r}",
        kind="geometry",
    )

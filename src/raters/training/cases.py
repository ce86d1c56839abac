"""Reads cases for training: checked, kept in memory while it suffices, else on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.backend import Image
from raters.study.case import Case
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.training.decoded import DecodedCase
from raters.training.normalise import Normalisation, image_of, in_case
from raters.training.patches import foreground_positions
from raters.training.store import CaseStore, key_of

Targets = Callable[[Case], NDArray[Any]]


class CaseReader:
    """Yields cases by position, decoded.

    They are remembered in memory until `cache_bytes` are full; the others go to a store in
    `folder`, if they come from files. What finds no place is read each time.

    Args:
        study: Where the cases are.
        normalisation: What the images go through.
        reference: Whether to read references.
        foreground: Whether to look for foreground pixels.
        targets: Gives what else is to be learned from a case.
        cache_bytes: How much memory to take.
        folder: Where a store may be made.

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
        targets: Targets | None = None,
        cache_bytes: int = 2**30,
        folder: Path | None = None,
    ) -> None:
        self.study, self.normalisation = study, normalisation
        self.cache_bytes, self.folder = cache_bytes, folder
        self._reference, self._foreground, self._targets = reference, foreground, targets
        self.store: CaseStore | None = None
        self._asked_for_store = False
        self._kept: dict[int, DecodedCase] = {}
        self._bytes = 0

    def __call__(self, position: int, num_workers: int = 0) -> DecodedCase:
        """Return a case; `num_workers` that each have a memory of their own share it.

        What a worker remembers dies with it at the end of the epoch: it takes the store first.
        """
        found = self._kept.get(position)
        if found is None and self.store is not None:
            stored = self.store.read(position)
            found = None if stored is None else DecodedCase.of(stored)
        if found is not None:
            return found
        case = self._checked(position)
        places = (self._put, self._keep) if num_workers else (self._keep, self._put)
        _ = any(place(position, case, max(num_workers, 1)) for place in places)
        return case

    @property
    def kept(self) -> int:
        """How many cases are in memory."""
        return len(self._kept)

    @property
    def fits(self) -> bool:
        """Whether all cases fit in memory, if they are like the first."""
        return self.first.nbytes * len(self.study) <= self.cache_bytes

    def open_store(self) -> None:
        """Open the store, before workers start: not for arrays, and not where there is no space.

        Packed arrays are mapped already, and a row of them is read at once.
        """
        if self._asked_for_store:
            return
        self._asked_for_store = True
        if self.folder is None or not self.study.backend.files(self.study.row(0)):
            return
        # Targets come from what was fitted to all cases: they are never taken from another run.
        fitted = "" if self._targets is None else uuid4().hex
        facts = self.normalisation, self._reference, self._foreground, fitted
        store = CaseStore(self.folder / key_of(self.study, *facts))
        if store.has_room(self.first.nbytes * len(self.study)):
            self.store = store

    def shape(self, position: int, axes: int) -> tuple[int, ...]:
        """Return the spatial shape of a case, from the header of its image if nothing else."""
        if position in self._kept:
            return self._kept[position].space
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

    def _keep(self, position: int, case: DecodedCase, sharers: int) -> bool:
        if self._bytes + case.nbytes > self.cache_bytes // sharers:
            return False
        self._kept[position] = case
        self._bytes += case.nbytes
        return True

    def _put(self, position: int, case: DecodedCase, sharers: int) -> bool:  # noqa: ARG002
        self.open_store()
        return self.store is not None and self.store.write(position, case.arrays)

    def _checked(self, position: int) -> DecodedCase:
        return self.first if position == 0 else self._decode(self.study[position], self.first)

    def _decode(self, case: Case, first: DecodedCase | None = None) -> DecodedCase:
        image = image_of(case)
        try:
            if first is not None:
                self._refuse_unlike(image.array.shape, first.image.shape)
            arrays = self._image(image)
        except RatersError as error:
            raise in_case(error, case.id, image.source) from None
        arrays |= self._answers(case) if self.study.kind == "classification" else self._masks(case)
        space = arrays["image"].shape[1:]
        if "raters" not in arrays and arrays["labels"].shape[1:] != space:
            shapes = f"found {space}, expected {arrays['labels'].shape[1:]} as in the masks"
            raise in_case(RatersError(shapes, kind="geometry"), case.id, image.source)
        if self._targets is not None:
            arrays["target"] = self._target(case, () if "raters" in arrays else space)
        return DecodedCase.of(arrays)

    def _image(self, image: Image) -> dict[str, NDArray[Any]]:
        """Normalise an image, or say how: as it is in the file it may be smaller."""
        if image.array.dtype.itemsize >= 4 or image.array.dtype.kind not in "iu":
            return {"image": self.normalisation(image.array)}
        moments = np.stack(self.normalisation.moments(image.array))
        return {"image": np.ascontiguousarray(image.array).view(), "moments": moments}

    def _answers(self, case: Case) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {"labels": case.answers.label.copy()}
        found["raters"] = case.answers.rater.astype(np.int64)
        if self._reference:
            reference = MISSING if case.reference is None else case.reference
            found["reference"] = np.asarray(reference, np.int16)
        return found

    def _masks(self, case: Case) -> dict[str, NDArray[Any]]:
        labels = case.labels.astype(self._type)
        found: dict[str, NDArray[Any]] = {"labels": labels}
        if self._reference:
            unknown = np.full(labels.shape[1:], MISSING, self._type)
            known = case.reference
            found["reference"] = unknown if known is None else known.astype(self._type)
        if self._foreground:
            places = foreground_positions(labels)
            found["foreground"] = places.astype(np.int32) if labels[0].size < 2**31 else places
        return found

    def _target(self, case: Case, space: tuple[int, ...]) -> NDArray[Any]:
        assert self._targets is not None
        target = np.asarray(self._targets(case))
        soft = target.dtype.kind == "f"
        expected = (len(self.study.classes), *space) if soft else space
        if target.shape != expected:
            kind = "soft" if soft else "hard"
            raise RatersError(
                f"found a {kind} target of shape {target.shape} for case {case.id!r}, "
                f"expected {expected}",
                case=case.id,
            )
        return target.astype(np.float32 if soft else self._type)

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

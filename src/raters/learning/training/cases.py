"""Cases for training: checked, decoded, kept in memory as far as they fit, and else on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.core.errors import RatersError, in_case, placed
from raters.learning.networks.normalise import Normalisation, refuse_other_channels, scaled
from raters.learning.training.patches import foreground_positions, inside, pad_to
from raters.learning.training.store import CaseStore, key_of
from raters.study.backend import Image
from raters.study.case import Case
from raters.study.study import Study

Targets = Callable[[Case], NDArray[Any]]

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
        regions: Numbers of regions, `(*space)`; None if not asked for.
    """

    image: NDArray[Any]
    labels: Labels
    moments: NDArray[np.float64] | None = None
    raters: NDArray[np.int64] | None = None
    reference: Labels | None = None
    foreground: NDArray[np.int32] | NDArray[np.int64] | None = None
    target: NDArray[Any] | None = None
    regions: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for array in self.arrays.values():
            array.setflags(write=False)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that there are, by name."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in every.items() if array is not None}

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
        regions: Gives the regions that a case is parted into.
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
        regions: Targets | None = None,
        cache_bytes: int = 2**30,
        folder: Path | None = None,
    ) -> None:
        self.study = study
        self.normalisation = normalisation
        self.cache_bytes = cache_bytes
        self.folder = folder
        self._reference = reference
        self._foreground = foreground
        self._targets = targets
        self._regions = regions
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
            found = None if stored is None else DecodedCase(**stored)
        if found is not None:
            return found
        case = self.first if position == 0 else self._decode(self.study[position], self.first)
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
        fitted = "" if self._targets is None and self._regions is None else uuid4().hex
        facts = self.normalisation, self._reference, self._foreground, fitted
        store = CaseStore(self.folder / key_of(self.study, *facts))
        if store.has_room(self.first.nbytes * len(self.study)):
            self.store = store

    def shape(self, position: int, axes: int) -> tuple[int, ...]:
        """Return the spatial shape of a case, from the header of its image if nothing else."""
        if position in self._kept:
            return self._kept[position].space
        row = self.study.row(position)
        name = self.study.index.ids[position]
        with placed(case=name):
            grid = self.study.backend.image_grid(row, axes)
        if grid is None:
            return self.study[position].needed_image().array.shape[1:]  # names one without image
        if len(grid[0].shape) != axes:
            with in_case(name, grid[1]):
                raise _other_axes(len(grid[0].shape), axes, self.study.index.ids[0])
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

    def _decode(self, case: Case, first: DecodedCase | None = None) -> DecodedCase:
        image = case.needed_image()
        with in_case(case.id, image.source):
            if first is not None:
                axes = image.array.ndim
                expected = first.image.ndim
                name = self.study.index.ids[0]
                if axes != expected:
                    raise _other_axes(axes - 1, expected - 1, name)
                refuse_other_channels(image.array.shape, len(first.image), f"case {name!r}")
            arrays = self._image(image)
        arrays |= self._answers(case) if self.study.kind == "classification" else self._masks(case)
        space = arrays["image"].shape[1:]
        if "raters" not in arrays and arrays["labels"].shape[1:] != space:
            shapes = f"found {space}, expected {arrays['labels'].shape[1:]} as in the masks"
            with in_case(case.id, image.source):
                raise RatersError(shapes, kind="geometry")
        if self._targets is not None:
            arrays["target"] = self._target(case, () if "raters" in arrays else space)
        if self._regions is not None:
            arrays["regions"] = np.asarray(self._regions(case), np.int32)
        return DecodedCase(**arrays)

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
            out = self.study.negatives  # what is not there is no foreground
            told = [k for k, rater in enumerate(self.study.raters) if rater not in out]
            places = foreground_positions(labels[told] if out else labels)
            found["foreground"] = places.astype(np.int32) if labels[0].size < 2**31 else places
        return found

    def _target(self, case: Case, space: tuple[int, ...]) -> NDArray[Any]:
        assert self._targets is not None
        target = np.asarray(self._targets(case))
        soft = target.dtype.kind == "f"
        expected = (len(self.study.classes), *space) if soft else space
        if target.shape != expected:
            kind = f"{'soft' if soft else 'hard'} target of shape {target.shape}"
            why = f"found a {kind} for case {case.id!r}, expected {expected}"
            raise RatersError(why, case=case.id)
        return target.astype(np.float32 if soft else self._type)

    @cached_property
    def _type(self) -> type[np.int8] | type[np.int16]:
        return np.int8 if len(self.study.classes) <= 127 else np.int16


def _other_axes(found: int, expected: int, first: str) -> RatersError:
    return RatersError(
        f"found an image with {found} spatial axes, expected {expected} as in case {first!r}",
        kind="geometry",
    )

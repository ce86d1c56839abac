"""One case of a study: its labels, image and reference, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from raters.core.arrays import Array, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError, enough_memory, placed
from raters.core.geometry import Geometry, can_resample, difference, resample_nearest
from raters.study.annotations import absent_is_empty, reading
from raters.study.backend import Image, RawMask
from raters.study.backend_files import refuse_other_grid
from raters.study.scan import MaskFacts, facts_of
from raters.study.triplets import CaseAnswers

if TYPE_CHECKING:
    from raters.study.data import Kind
    from raters.study.study import Study

_NOT_SCALED = "files without geometry are scaled only where all sides have the same ratio"


class Case:
    """What the raters of a study said of one case.

    Attributes:
        id: The name of the case.
        group: The patient (or the like) that the case belongs to.
        split: The split of the case; '' for none.
        diagnosis: What the case was found to be; '' where nobody knows.
    """

    def __init__(self, study: Study, position: int) -> None:
        self._study = study
        self._position = position
        self._row = study.row(position)
        self._read: dict[str | None, RawMask | None] = {}
        self.id: str = study.index.ids[position]
        self.group: str = study.index.groups[position]
        self.split: str = study.index.splits[position]
        self.diagnosis: str = study.index.diagnoses[position]

    def __repr__(self) -> str:
        raters = len(self._study.raters)
        return f"Case({self.id!r}, {raters} rater{'' if raters == 1 else 's'})"

    @property
    def kind(self) -> Kind:
        """Whether the case has masks ('segmentation') or answers ('classification')."""
        return self._study.kind

    @cached_property
    def labels(self) -> Labels:
        """Class numbers of masks with MISSING, `(raters, *space)`, in the order of `study.raters`.

        Drawings are read as what they say (`raters.study.annotations.reading`).

        Raises:
            RatersError: The case is one of a table: it has `answers`, and no axis of raters.
        """
        if self.kind == "classification":
            raise RatersError(
                f"found answers of a table in case {self.id!r}, expected masks: take case.answers, "
                "where entry k is not of rater k",
                case=self.id,
            )
        study = self._study
        labels = self._drawn()
        for row, (_, kind) in zip(labels, study.annotations.items(), strict=True):
            if kind != "mask":
                row[...] = reading(row, kind, study.unmarked, len(study.classes))
        return labels

    @property
    def drawings(self) -> Labels:
        """What raters drew, `(raters, *space)`, before it is read; of masks the `labels`."""
        return self._drawn() if self._study.drawn else self.labels

    def drawing(self, rater: str) -> Labels | None:
        """Return what one rater drew, `(*space)`, before it is read; None if there is no file."""
        mask = self.raw_mask(rater)
        return None if mask is None else self._aligned(mask, rater)

    def _drawn(self) -> Labels:
        study = self._study
        masks = [self.raw_mask(rater) for rater in study.raters]
        with enough_memory(self.id):
            labels = np.full((len(masks), *self.geometry.shape), MISSING, np.int16)
            for k, (rater, kind) in enumerate(study.annotations.items()):
                mask = masks[k]
                if mask is not None:
                    labels[k] = self._aligned(mask, rater)
                elif study.rules.absent == "empty" and absent_is_empty(kind):
                    labels[k] = 0
        return labels

    @cached_property
    def answers(self) -> CaseAnswers:
        """The answers to a task of a table: who said what.

        Raises:
            RatersError: The case has masks: take `labels`.
        """
        if self.kind == "segmentation":
            raise RatersError(
                f"found masks in case {self.id!r}, expected answers of a table: take case.labels",
                case=self.id,
            )
        triplets = self._study.triplets
        start, end = np.searchsorted(triplets.task, [self._position, self._position + 1])
        rater = triplets.rater[start:end]
        label = triplets.label[start:end]
        given = label != MISSING
        return CaseAnswers(rater[given], label[given], self._study.raters)

    @property
    def given(self) -> Labels:
        """All labels that anybody gave, whoever it was, in one flat array without MISSING."""
        if self.kind == "classification":
            return self.answers.label
        return np.asarray(self.labels[self.labels != MISSING])

    @cached_property
    def image(self) -> Array | None:
        """The image `(channels, *space)` or features `(channels,)`; None if there is none."""
        image = self.raw_image()
        return None if image is None else image.array

    @cached_property
    def reference(self) -> Labels | None:
        """True or adjudicated labels `(*space)`, with MISSING; None if there are none at all."""
        if self.kind == "classification":
            known = self._study.reference_labels
            label = MISSING if known is None else known[self._position]
            return None if label == MISSING else np.asarray(label)
        mask = self.raw_mask(None)
        labels = None if mask is None else self._aligned(mask, None)
        return None if labels is None or (labels == MISSING).all() else labels

    @cached_property
    def geometry(self) -> Geometry:
        """The grid of the case: that of the image, else of the first mask."""
        if self.kind == "classification":
            return Geometry(())
        if self._grid is None:
            message = f"found neither image nor mask of case {self.id!r}, expected one of them"
            raise RatersError(message, case=self.id)
        return self._grid[0]

    def raw_mask(self, rater: str | None) -> RawMask | None:
        """Read one rater's mask (the reference for None) before it is turned into classes."""
        if rater not in self._read:
            with placed(case=self.id, rater=rater), enough_memory(self.id, rater):
                self._read[rater] = self._study.backend.mask(self._row, rater)
        return self._read[rater]

    def mask_facts(self, rater: str | None) -> MaskFacts | None:
        """Return what one rater's mask holds; a file is read once for that, and then known."""
        known = getattr(self._study.backend, "known", {})
        if (self._row, rater) not in known:
            mask = self.raw_mask(rater)
            if mask is None:
                return None
            ignored = (MISSING,) if mask.coded else self._study.ignored
            known[self._row, rater] = facts_of(mask, ignored)
        facts: MaskFacts = known[self._row, rater]
        return facts

    def raw_image(self) -> Image | None:
        """Read the image with its grid and file."""
        with placed(case=self.id), enough_memory(self.id):
            return self._study.backend.image(self._row, self._axes)

    def needed_image(self) -> Image:
        """Read the image or the features, which training and prediction cannot do without.

        Raises:
            RatersError: that names the case without one.
        """
        image = self.raw_image()
        if image is None:
            raise RatersError(
                f"found no image of case {self.id!r}, expected one: a network needs images "
                '(--images "images/{case}.png") or features',
                kind="missing-image",
                case=self.id,
            )
        return image

    @cached_property
    def _first_mask(self) -> RawMask | None:
        """The first mask that can be read; those that cannot raise when they are asked for."""
        for rater in (*self._study.raters, None):
            with suppress(RatersError):
                mask = self.raw_mask(rater)
                if mask is not None:
                    return mask
        return None

    def _axes(self) -> int | None:
        """Return the spatial axes of the first mask that can be read; it need not be read again."""
        for rater in () if self.kind == "classification" else (*self._study.raters, None):
            with suppress(RatersError):
                facts = self.mask_facts(rater)
                if facts is not None:
                    return len(facts.geometry.shape)
        return None

    @cached_property
    def _grid(self) -> tuple[Geometry, str] | None:
        with placed(case=self.id):
            image = self._study.backend.image_grid(self._row, self._axes)
        mask = None if image else self._first_mask
        return image or (None if mask is None else (mask.geometry, mask.source))

    def _aligned(self, mask: RawMask, rater: str | None) -> Labels:
        """Turn a mask into class numbers on the grid of the case."""
        assert self._grid is not None  # there is a mask, so there is a grid
        grid, file = self._grid
        same = difference(mask.geometry, grid) is None
        with placed(file=mask.source, case=self.id, rater=rater):
            if rater is None:
                labels = self._study.encode(mask.values, mask.coded)
            else:
                labels = self._study.encode_drawing(mask.values, mask.coded, rater, not same)
            if same:
                return labels
            self._refuse_other_grid(mask, grid, file)
            return resample_nearest(labels, mask.geometry, grid)

    def _refuse_other_grid(self, mask: RawMask, grid: Geometry, file: str) -> None:
        """Reject a mask on another grid, unless it is to be resampled and can be."""
        if self._study.rules.resample is None:
            refuse_other_grid(mask.geometry, mask.source, grid, file)
        elif not can_resample(mask.geometry, grid):
            refuse_other_grid(mask.geometry, mask.source, grid, file, hint=_NOT_SCALED)

    def grid_errors(self) -> Iterator[RatersError]:
        """Compare all masks that could be read with the grid that they are to be put on."""
        grid = None
        masks = [(r, m) for r, m in self._read.items() if m is not None]
        try:
            grid = self._grid
        except RatersError:
            # Without the grid of the image, DICOM segmentations hold the slices with content only.
            masks = [(r, m) for r, m in masks if not m.source.endswith(".dcm")]
        if grid is None and self._first_mask is not None:
            grid = self._first_mask.geometry, self._first_mask.source
        for rater, mask in masks:
            if grid is not None:
                try:
                    self._refuse_other_grid(mask, *grid)
                except RatersError as error:
                    yield error.at(case=self.id, rater=rater)


def labelled_by(case: Case) -> int:
    """Return how many raters labelled a case, or a part of it."""
    if case.kind == "classification":
        return len(set(case.answers.rater.tolist()))
    return sum(bool((mask != MISSING).any()) for mask in case.labels)

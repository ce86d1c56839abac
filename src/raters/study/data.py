"""What a study holds: cases, raters and classes over a store, and what labels say in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Labels
from raters.core.classes import MISSING, Classes
from raters.core.errors import RatersError
from raters.study import annotations as kinds
from raters.study.annotations import UNMARKED, Annotation, Unmarked
from raters.study.backend import Backend, LabelRules
from raters.study.cases import CaseIndex

if TYPE_CHECKING:
    from raters.study.backend_files import FilesBackend
    from raters.study.triplets import Triplets

Kind = Literal["segmentation", "classification"]

ANONYMOUS = "anonymous"
"""What `about["raters"]` says where columns of labels are not people."""


@dataclass(frozen=True, eq=False)
class StudyData:
    """The data of a study, and what its labels say; `Study` tells what each attribute is."""

    backend: Backend
    index: CaseIndex
    raters: tuple[str, ...]
    kind: Kind = "segmentation"
    rules: LabelRules = field(default_factory=LabelRules)
    channels: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[RatersError, ...] = ()
    rows: NDArray[np.intp] | None = None
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    opened: Mapping[str, Any] | None = None
    unmarked: Unmarked = UNMARKED
    _classes: Classes | None = None
    _chosen: tuple[str, ...] | None = None
    _annotations: Mapping[str, Annotation] = field(default_factory=dict)

    @property
    def anonymous(self) -> bool:
        """Whether a rater's name in one case and in the next may be different people.

        Then no rater can be ranked or fitted: `about["raters"]` says 'anonymous'.
        """
        return self.about.get("raters") == ANONYMOUS

    @cached_property
    def annotations(self) -> Mapping[str, Annotation]:
        """What the labels of each rater mean (`raters.study.annotations`): 'mask' unless told."""
        return {rater: self._annotations.get(rater, "mask") for rater in self.raters}

    @property
    def drawn(self) -> bool:
        """Whether a rater gave anything else than masks."""
        return any(kind != "mask" for kind in self.annotations.values())

    @property
    def negatives(self) -> tuple[str, ...]:
        """The raters whose labels say what a pixel is not; none with two classes."""
        return kinds.complementary(self.annotations, len(self.classes)) if self.drawn else ()

    def readings(self) -> list[str]:
        """Return how drawings are read, a sentence for each kind; none where all gave masks."""
        if not self.drawn:
            return []
        return kinds.told(self.annotations, self.unmarked, self.classes.names)

    def all_notes(self) -> list[str]:
        """Return what has to be said of the study beside any result from it."""
        facts = [self.about["note"]] if "note" in self.about else []
        return [*self.notes, *self.readings(), *facts]

    @cached_property
    def all_classes(self) -> Classes:
        """The classes of the whole study, also those that were not chosen."""
        if self._classes is not None:
            return self._classes
        # Found over the whole store, so that a part of the study numbers its classes as the whole.
        return cast("FilesBackend", self.backend).classes

    @cached_property
    def _choice(self) -> tuple[Classes, Labels | None]:
        if self._chosen is None:
            return self.all_classes, None
        return self.all_classes.choose(self._chosen, keep_background=self.kind == "segmentation")

    @property
    def classes(self) -> Classes:
        """The classes; if they were not named, all masks are read once to find their values."""
        return self._choice[0]

    @property
    def classes_named(self) -> bool:
        """Whether the classes are known without reading the masks."""
        return self._classes is not None

    @property
    def ignored(self) -> tuple[int, ...]:
        """The values in raw masks that mean MISSING."""
        return getattr(self.backend, "ignored", self.rules.ignore)

    def row(self, position: int) -> int:
        """Where a case of this study is in the store."""
        return position if self.rows is None else int(self.rows[position])

    def encode(self, values: Array, coded: bool, ignore: Collection[int] | None = None) -> Labels:
        """Turn the values of a mask into class numbers of this study.

        Args:
            values: Values as files hold them, or class numbers of the whole study if `coded`.
            coded: Whether `values` are class numbers.
            ignore: Values that mean MISSING; by default those of the study's own files.
        """
        table = self._choice[1]
        numbers = self._numbers(values, coded, ignore)
        return numbers if table is None else table[numbers]

    def _numbers(self, values: Array, coded: bool, ignore: Collection[int] | None = None) -> Labels:
        """Turn the values of a mask into class numbers of the whole study."""
        size = len(self.all_classes)
        if coded and values.size and not MISSING <= int(values.min()) <= int(values.max()) < size:
            raise RatersError(
                f"found class numbers from {values.min()} to {values.max()}, "
                f"expected {MISSING} (missing) to {size - 1}",
                kind="unknown-value",
            )
        ignored = self.ignored if ignore is None else ignore
        labels = values if coded else self.all_classes.encode(values, ignored)
        return labels.astype(np.int16)

    def encode_drawing(
        self, values: Array, coded: bool, rater: str, settle: bool = False
    ) -> Labels:
        """Turn what a rater drew into class numbers of this study, not yet read as its kind.

        Args:
            values: Values as files hold them, or class numbers of the whole study if `coded`.
            coded: Whether `values` are class numbers.
            rater: Who drew it.
            settle: Say with MISSING where nothing is said, so that MISSING may be added.

        Raises:
            RatersError: for boxes that are none.
        """
        kind = self.annotations[rater]
        every = self.all_classes
        if kind == "mask":
            return self.encode(values, coded)
        labels = self._numbers(values, coded)
        table = self._choice[1]
        if kind == "box":
            kinds.refuse_no_box(labels, every.names)
        if table is None and not settle:
            return labels
        labels = kinds.explicit(labels, kind, self.unmarked, len(every))
        return labels if table is None else kinds.chosen(labels, kind, table, len(self.classes))

    @cached_property
    def triplets(self) -> Triplets:
        """All answers of a classification study in long form, as selected."""
        from raters.study.triplets import TableBackend

        if not isinstance(self.backend, TableBackend):
            raise RatersError("found masks, expected a table: triplets are for class labels")
        rows = np.arange(len(self.index)) if self.rows is None else self.rows
        return self.backend.selected(rows, self.raters, self.classes, self._choice[1])

    @cached_property
    def reference_labels(self) -> Labels | None:
        """The true class of each case of a classification study, MISSING where unknown."""
        whole = getattr(self.backend, "reference", None)
        if whole is None or self.kind != "classification":
            return None
        chosen = whole if self.rows is None else whole[self.rows]
        return self.encode(chosen, coded=True)

"""One pass over a study of masks: agreement, and what each rater drew in each case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raters.agreement.case import CaseAgreement
from raters.agreement.masks import mask_agreement
from raters.agreement.result import ALL, Agreement
from raters.rows import Row

if TYPE_CHECKING:
    from raters.study.study import Study


@dataclass(frozen=True)
class Measured:
    """What a report says of a study of masks.

    Attributes:
        agreement: What `raters.agree` gives.
        volumes: The foreground that each rater drew, `(cases, raters)`; NaN where unknown.
        labelled: Who labelled anything, `(cases, raters)`.
        unit: Of the volumes, as `Geometry.volume_unit`.
        by_class: What each rater drew of each class, `(cases, raters, L)`.
        flat: Whether cases have two axes.
    """

    agreement: Agreement
    volumes: NDArray[np.float64]
    labelled: NDArray[np.bool_]
    unit: str
    by_class: NDArray[np.float64]
    flat: bool = False

    @property
    def size_name(self) -> str:
        """What sizes are called: 'volume', or 'area' of flat cases."""
        return "area" if self.flat else "volume"

    @property
    def sizes(self) -> NDArray[np.float64]:
        """The mean over raters of what they drew, by case; NaN where unknown."""
        known = np.isfinite(self.volumes)
        total = np.where(known, self.volumes, 0.0).sum(axis=1)
        return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def measured(study: Study, progress: bool = False) -> Measured:
    """Read all cases once.

    Example:
        >>> from raters.study.study import Study
        >>> labels = np.array([[[0, 1, 1, 1], [0, 0, 1, 1]]])
        >>> found = measured(Study.from_arrays(labels=labels, raters=["ann", "bob"]))
        >>> found.volumes.tolist(), found.agreement.cases[0]["dice"], found.unit
        ([[3.0, 2.0]], 0.8, 'pixels')
    """
    volumes: list[NDArray[np.float64]] = []
    labelled: list[NDArray[np.bool_]] = []
    by_class: list[NDArray[np.float64]] = []

    def keep(case: CaseAgreement) -> None:
        drawn = case.volumes[:, 1:].sum(axis=1) * case.voxel
        volumes.append(np.where(case.complete, drawn, np.nan))
        labelled.append(case.labelled)
        by_class.append(np.asarray(case.volumes * case.voxel, np.float64))

    agreement = mask_agreement(study, progress=progress, seen=keep)
    unit = study[0].geometry.volume_unit if len(study) else "pixels"
    flat = len(study) > 0 and len(study[0].geometry.shape) == 2
    per_class = np.array(by_class)
    return Measured(agreement, np.array(volumes), np.array(labelled), unit, per_class, flat)


def of_all(rows: list[Row]) -> list[Row]:
    """Keep the rows over all classes."""
    return [row for row in rows if row.get("class", ALL) == ALL]

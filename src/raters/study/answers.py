"""The answers to one task of a table: a compact axis, which is no axis of raters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError


@dataclass(frozen=True, eq=False)
class CaseAnswers:
    """What was answered to one task, one entry per answer and in the order of the table.

    Entry k is *not* of rater k: some raters did not answer, others answered several times. Masks
    have one entry per rater of the study (`Case.labels`), so the two are different types;
    `by_rater` is the only way from answers to the axis of all raters.

    Attributes:
        rater: Who gave each answer, `(answers,)`, positions in `raters`.
        label: The class numbers, `(answers,)`; none of them is MISSING.
        raters: The names of all raters of the study.

    Example:
        >>> answers = CaseAnswers(np.array([2, 0, 2]), np.array([1, 0, 0]), ("ann", "bob", "cy"))
        >>> list(answers)
        [('cy', 1), ('ann', 0), ('cy', 0)]
        >>> [labels.tolist() for labels in answers.by_rater()]
        [[0], [], [1, 0]]
    """

    rater: NDArray[np.int32]
    label: NDArray[np.int16]
    raters: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.label)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Return who said what, by name."""
        for rater, label in zip(self.rater, self.label, strict=True):
            yield self.raters[rater], int(label)

    def of(self, rater: str) -> NDArray[np.int16]:
        """Return all answers of one rater, by name: none, one or several."""
        if rater not in self.raters:
            known = ", ".join(self.raters[:20])
            raise RatersError(f"found no rater {rater!r}, expected one of {known}", rater=rater)
        return np.asarray(self.label[self.rater == self.raters.index(rater)])

    def by_rater(self) -> list[NDArray[np.int16]]:
        """Return the answers of each rater, in the order of `raters`: the full axis."""
        order = np.argsort(self.rater, kind="stable")
        ends = np.searchsorted(self.rater[order], np.arange(1, len(self.raters)))
        return np.split(self.label[order], ends) if self.raters else []

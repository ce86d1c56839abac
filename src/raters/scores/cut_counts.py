"""Counts of voxels at every cut of a grid, of one case: what Dice and area are at each cut.

They add up over parts of a case, so that a large image may come in bands of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.scores.cut import winning_cut
from raters.scores.empty import overlap_ratio
from raters.scores.inputs import label_array
from raters.study.classes import MISSING

GRID: NDArray[np.float64] = np.arange(1, 100) / 100
"""The cuts to choose from: 0.01, 0.02, ... 0.99."""

Floats = NDArray[np.float64]


class CutCounts:
    """Counts of one case, by foreground class and cut.

    Args:
        num_classes: How many, with the background.
        reference: The mask to score against, `(*space)`, if there is one.
        labels: The raters' masks, `(raters, *space)`, if there are any.

    Attributes:
        areas: The predicted area on the voxels that raters labelled, `(classes - 1, cuts)`.
        drawn: The raters' mean area: at a voxel, the share of those who labelled it.
        areas_not_blank: As `areas`, on the voxels of masks that are not blank.
        drawn_not_blank: As `drawn`, of masks that are not blank; NaN where all are.
        labelled: How many voxels a rater labelled.
    """

    def __init__(
        self, num_classes: int, reference: ArrayLike | None = None, labels: ArrayLike | None = None
    ) -> None:
        self._classes = num_classes
        self._reference = None if reference is None else label_array(reference, num_classes)
        self._labels = None if labels is None else label_array(labels, num_classes)
        self._not_blank = [self._who_drew(c) for c in range(1, num_classes)]
        self._hit, self._predicted = np.zeros((2, num_classes - 1, len(GRID)))
        self.areas, self.areas_not_blank = np.zeros((2, num_classes - 1, len(GRID)))
        self._there, self.drawn = np.zeros((2, num_classes - 1))
        self.drawn_not_blank = np.array([0.0 if d.any() else np.nan for d in self._not_blank])
        self._common = self.labelled = 0

    def add(self, probabilities: ArrayLike, rows: Any = ...) -> None:  # noqa: ANN401
        """Add what is predicted of all voxels, or of some rows: `(classes, *space)`."""
        won = np.searchsorted(GRID, winning_cut(probabilities), side="left")  # at so many cuts
        if self._reference is not None:
            self._add_reference(won, self._reference[rows])
        if self._labels is not None and len(self._labels):
            space = (slice(None), *((rows,) if rows is not ... else ()))
            self._add_labels(won, self._labels[space])

    @property
    def dice(self) -> Floats:
        """Dice against the reference at each cut, `(classes - 1, cuts)`; NaN without voxels."""
        whole = self._predicted + self._there[:, np.newaxis]
        return overlap_ratio(2 * self._hit, whole, self._common)

    def _add_reference(self, won: NDArray[np.intp], reference: NDArray[Any]) -> None:
        seen = reference != MISSING
        self._common += int(seen.sum())
        for c, own in enumerate(won):
            drawn = reference == c + 1
            self._there[c] += drawn.sum()
            self._hit[c] += _at_each_cut(own[drawn])
            self._predicted[c] += _at_each_cut(own[seen])

    def _add_labels(self, won: NDArray[np.intp], labels: NDArray[Any]) -> None:
        given = labels != MISSING
        seen = given.any(axis=0)
        self.labelled += int(seen.sum())
        for c, own in enumerate(won):
            drawn, who = labels == c + 1, self._not_blank[c]
            self.areas[c] += _at_each_cut(own[seen])
            self.drawn[c] += _mean_area(drawn, given)
            if who.any():
                self.areas_not_blank[c] += _at_each_cut(own[given[who].any(axis=0)])
                self.drawn_not_blank[c] += _mean_area(drawn[who], given[who])

    def _who_drew(self, c: int) -> NDArray[np.bool_]:
        if self._labels is None:
            return np.zeros(0, bool)
        return np.array([bool((mask == c).any()) for mask in self._labels], bool)


def _at_each_cut(won: NDArray[np.intp]) -> Floats:
    """Count the voxels that a class wins at each cut, `(cuts,)`."""
    counts = np.bincount(won.ravel(), minlength=len(GRID) + 1)
    return counts[::-1].cumsum()[::-1][1:].astype(np.float64)


def _mean_area(drawn: NDArray[np.bool_], given: NDArray[np.bool_]) -> float:
    """Sum, over voxels, the share of the raters there who drew."""
    return float((drawn.sum(axis=0) / np.maximum(given.sum(axis=0), 1)).sum())

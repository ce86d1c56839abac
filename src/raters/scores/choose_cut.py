"""Where to cut: for the best Dice on cases with a reference, or for the raters' mean area.

A cut is chosen on validation cases and applied to others. Each foreground class is chosen by
itself, the others being cut at 0.5 (`raters.scores.winning_cut`); with two classes that is exact.

`best` is the cut of the largest mean Dice against reference masks. It is what a user has who keeps
some cases with a reference, and it takes the operating point out of a comparison of two networks.

`area` needs no reference: at this cut the predicted area, summed over cases, is the area that
raters draw. At a voxel it is the share of the raters who labelled it, summed over voxels. Blank
masks count as drawn (area 0), because 'there is nothing here' is an answer: that they were errors
only somebody knows who has a reference. Where every case is known to have the object, blank masks
can be left out (`blank=False`), and the area is then the mean of the masks that are not blank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from raters.errors import RatersError
from raters.scores.cut_counts import GRID, CutCounts, Floats


@dataclass
class CutTally:
    """What is kept of each case to choose cuts by.

    Attributes:
        classes: How many, with the background.
        dice: Of each reference mask, Dice `(classes - 1, cuts)`.
        areas: Of each case that raters labelled, the predicted area `(classes - 1, cuts)` on the
            voxels that they labelled.
        drawn: Of each such case, the raters' mean area, `(classes - 1,)`.
        areas_not_blank: As `areas`, on the voxels of masks that are not blank.
        drawn_not_blank: As `drawn`, of masks that are not blank; NaN where all are.

    Example:
        >>> tally = CutTally(2)
        >>> foreground = np.array([0.1, 0.2, 0.4, 0.45])  # two of five raters drew the last two
        >>> tally.add(np.stack([1 - foreground, foreground]), reference=[0, 0, 1, 1])
        >>> tally.best()
        array([0.39])
    """

    classes: int
    dice: list[Floats] = field(default_factory=list)
    areas: list[Floats] = field(default_factory=list)
    drawn: list[Floats] = field(default_factory=list)
    areas_not_blank: list[Floats] = field(default_factory=list)
    drawn_not_blank: list[Floats] = field(default_factory=list)

    def add(
        self,
        probabilities: ArrayLike,
        reference: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> None:
        """Add a case.

        Args:
            probabilities: `(classes, *space)`.
            reference: The mask to score against, `(*space)`.
            labels: The raters' masks, `(raters, *space)`.
        """
        counts = CutCounts(self.classes, reference, labels)
        counts.add(probabilities)
        self.take(counts)

    def take(self, counts: CutCounts) -> None:
        """Add the counts of a case."""
        dice = counts.dice
        if not np.isnan(dice).any():
            self.dice.append(dice)
        if counts.labelled:
            self.areas.append(counts.areas)
            self.drawn.append(counts.drawn)
            self.areas_not_blank.append(counts.areas_not_blank)
            self.drawn_not_blank.append(counts.drawn_not_blank)

    def best(self) -> Floats:
        """Return the cut with the largest mean Dice of each foreground class, `(classes - 1,)`.

        Of several that are equally good it is the one nearest to 0.5.
        """
        if not self.dice:
            raise RatersError("found no reference masks, expected some to choose the best cut by")
        return np.array([_highest(dice) for dice in np.mean(self.dice, axis=0)])

    def area(self, blank: bool = True) -> Floats:
        """Return the cut of each foreground class at which predicted and drawn areas are equal.

        Args:
            blank: Whether blank masks count as drawn.
        """
        if not self.areas:
            raise RatersError("found no masks of raters, expected some to choose the area cut by")
        drawn = np.stack(self.drawn if blank else self.drawn_not_blank)
        areas = np.stack(self.areas if blank else self.areas_not_blank)
        there = ~np.isnan(drawn)
        areas = np.where(there[..., np.newaxis], areas, 0.0).sum(axis=0)
        wanted = np.where(there, drawn, 0.0).sum(axis=0)
        return np.array([_highest(-np.abs(row - w)) for row, w in zip(areas, wanted, strict=True)])


def best_cut(probabilities: Iterable[ArrayLike], references: Iterable[ArrayLike]) -> Floats:
    """Return the cut of each foreground class with the largest mean Dice over cases.

    Args:
        probabilities: `(classes, *space)` of each case.
        references: `(*space)` of each case; MISSING voxels are left out.

    Returns:
        `(classes - 1,)`.

    Example:
        >>> foreground = np.array([0.1, 0.2, 0.4, 0.45])
        >>> best_cut([np.stack([1 - foreground, foreground])], [[0, 0, 1, 1]])
        array([0.39])
    """
    tally = None
    for found, reference in zip(probabilities, references, strict=True):
        tally = tally or CutTally(len(np.asarray(found)))
        tally.add(found, reference=reference)
    return (tally or CutTally(2)).best()


def area_cut(
    probabilities: Iterable[ArrayLike], labels: Iterable[ArrayLike], blank: bool = True
) -> Floats:
    """Return the cut of each foreground class at which the predicted area is the raters' mean area.

    Args:
        probabilities: `(classes, *space)` of each case.
        labels: `(raters, *space)` of each case, with MISSING.
        blank: Whether blank masks count as drawn.

    Returns:
        `(classes - 1,)`.

    Example:
        >>> foreground = np.array([0.1, 0.2, 0.4, 0.45])
        >>> drawn = [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]]
        >>> both = np.stack([1 - foreground, foreground])
        >>> area_cut([both], [drawn])  # 4 / 3 voxels: the nearest is 1
        array([0.44])
        >>> area_cut([both], [drawn], blank=False)  # 2 voxels
        array([0.39])
    """
    tally = None
    for found, masks in zip(probabilities, labels, strict=True):
        tally = tally or CutTally(len(np.asarray(found)))
        tally.add(found, labels=masks)
    return (tally or CutTally(2)).area(blank)


def _highest(values: Floats) -> float:
    """Return the cut of the highest value; of several the one nearest to 0.5."""
    equal = GRID[values >= values.max() - 1e-12]
    return float(equal[np.abs(equal - 0.5).argmin()])

"""Cuts that are chosen on cases: for the best Dice, or for the area that raters draw.

Where fewer than half of the raters mark an object, a network that learnt their vote or their mean
says 0.4 there and 0.5 erases the object, although the network has found it. Two networks are to be
compared at cuts that suit each of them: for the best Dice on cases with a reference, or for the
raters' mean area. Cuts are chosen on validation cases and applied to others. Several classes take
voxels from each other, so that cuts that are chosen for each class by itself can be far worse
together than 0.5 is. They are searched one after the other, in passes over the cases that look at
each class with the others cut as they were last (`search_cuts`); with two classes one is exact.

`best` is the cut of the largest mean Dice against reference masks; with several classes no other
cut of a single class is better, and 0.5 is not. It is what a user has who keeps
some cases with a reference, and it takes the operating point out of a comparison of two networks.

`area` needs no reference: at this cut the predicted area, summed over cases, is the area that
raters draw (of several classes as nearly as the search gets). At a voxel it is the share of the
raters who labelled it, summed over voxels. Blank masks count as drawn (area 0), because 'there is
nothing here' is an answer: that they were errors only somebody knows who has a reference. Where
every case is known to have the object, blank masks can be left out (`blank=False`), and the area is
then the mean of the masks that are not blank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.core.arrays import Array, Flags, Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics.conventions import label_array, overlap_ratio
from raters.metrics.cut import Cut, probability_array, won_and_rival

GRID: Floats = np.arange(1, 100) / 100
"""The cuts to choose from: 0.01, 0.02, ... 0.99."""


MOST_PASSES = 24
"""Passes over the cases in which cuts of several classes are searched."""

Goal = Literal["best", "area", "area-drawn"]
"""What a cut is chosen for: the best Dice, or the area of all masks or of those not blank."""


class CutCounts:
    """Counts of one case, by foreground class and cut; parts of it (bands of rows) add up.

    Args:
        num_classes: How many, with the background.
        reference: The mask to score against, `(*space)`, if there is one.
        labels: The raters' masks, `(raters, *space)`, if there are any.
        around: The cuts of the other classes, where there are several.

    Attributes:
        areas: The predicted area on the voxels that raters labelled, `(classes - 1, cuts)`.
        drawn: The raters' mean area: at a voxel, the share of those who labelled it.
        areas_not_blank: As `areas`, on the voxels of masks that are not blank.
        drawn_not_blank: As `drawn`, of masks that are not blank; NaN where all are.
        labelled: How many voxels a rater labelled.
    """

    def __init__(
        self,
        num_classes: int,
        reference: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        around: Cut = 0.5,
    ) -> None:
        self._classes = num_classes
        self._around = around
        self._reference = None if reference is None else label_array(reference, num_classes)
        self._labels = None if labels is None else label_array(labels, num_classes)
        drew = () if self._labels is None else self._labels
        self._not_blank = [
            np.array([(mask == c).any() for mask in drew], bool) for c in range(1, num_classes)
        ]
        # By the class that is cut, the class that is counted, and the cut.
        self._hit, self._predicted = np.zeros((2, num_classes - 1, num_classes - 1, len(GRID)))
        self.areas, self.areas_not_blank = np.zeros((2, num_classes - 1, len(GRID)))
        self._there, self.drawn = np.zeros((2, num_classes - 1))
        self.drawn_not_blank = np.array([0.0 if d.any() else np.nan for d in self._not_blank])
        self._common = self.labelled = 0

    def add(self, probabilities: ArrayLike, rows: Any = ...) -> None:  # noqa: ANN401
        """Add what is predicted of all voxels, or of some rows: `(classes, *space)`."""
        found = probability_array(probabilities)
        rival = None
        if self._classes > 2:
            found, rival = won_and_rival(found, self._around)
        else:
            found = found[1:]
        won = np.searchsorted(GRID, found, side="left")  # at so many cuts
        if self._reference is not None:
            self._add_reference(won, rival, self._reference[rows])
        if self._labels is not None and len(self._labels):
            space = (slice(None), *((rows,) if rows is not ... else ()))
            self._add_labels(won, self._labels[space])

    @property
    def dice(self) -> Floats:
        """Mean Dice of all classes if one is cut so, `(classes - 1, cuts)`; NaN without voxels."""
        whole = self._predicted + self._there[:, np.newaxis]
        return np.asarray(overlap_ratio(2 * self._hit, whole, self._common).mean(axis=1))

    def _add_reference(self, won: NDArray[np.intp], rival: Labels | None, reference: Array) -> None:
        seen = reference != MISSING
        self._common += int(seen.sum())
        for c, own in enumerate(won):
            drawn = reference == c + 1
            self._there[c] += drawn.sum()
            self._hit[c, c] += _at_each_cut(own[drawn])
            self._predicted[c, c] += _at_each_cut(own[seen])
            if rival is None:
                continue
            for j in range(self._classes - 1):  # what the others have where this class does not win
                if j != c:
                    left = rival[c] == j + 1
                    self._hit[c, j] += _above_each_cut(own[left & (reference == j + 1)])
                    self._predicted[c, j] += _above_each_cut(own[left & seen])

    def _add_labels(self, won: NDArray[np.intp], labels: Array) -> None:
        given = labels != MISSING
        seen = given.any(axis=0)
        self.labelled += int(seen.sum())
        for c, own in enumerate(won):
            drawn = labels == c + 1
            who = self._not_blank[c]
            self.areas[c] += _at_each_cut(own[seen])
            self.drawn[c] += _mean_area(drawn, given)
            if who.any():
                self.areas_not_blank[c] += _at_each_cut(own[given[who].any(axis=0)])
                self.drawn_not_blank[c] += _mean_area(drawn[who], given[who])


def _at_each_cut(won: NDArray[np.intp]) -> Floats:
    """Count the voxels that a class wins at each cut, `(cuts,)`."""
    counts = np.bincount(won.ravel(), minlength=len(GRID) + 1)
    return counts[::-1].cumsum()[::-1][1:].astype(np.float64)


def _above_each_cut(won: NDArray[np.intp]) -> Floats:
    """Count the voxels that a class does not win at each cut, `(cuts,)`."""
    return np.bincount(won.ravel(), minlength=len(GRID) + 1).cumsum()[:-1].astype(np.float64)


def _mean_area(drawn: Flags, given: Flags) -> float:
    """Sum, over voxels, the share of the raters there who drew."""
    return float((drawn.sum(axis=0) / np.maximum(given.sum(axis=0), 1)).sum())


@dataclass
class CutTally:
    """What is kept of each case to choose cuts by.

    Attributes:
        classes: How many, with the background.
        around: The cuts of the other classes, where there are several.
        dice: Of each reference mask, mean Dice `(classes - 1, cuts)`.
        areas, drawn, areas_not_blank, drawn_not_blank: Of each case that raters labelled, what
            `CutCounts` calls so.

    Example:
        >>> tally = CutTally(2)
        >>> foreground = np.array([0.1, 0.2, 0.4, 0.45])  # two of five raters drew the last two
        >>> tally.add(np.stack([1 - foreground, foreground]), reference=[0, 0, 1, 1])
        >>> tally.best()
        array([0.39])
    """

    classes: int
    around: Cut = 0.5
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
        counts = CutCounts(self.classes, reference, labels, self.around)
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
        """Return, for each foreground class, its cut with the largest mean Dice, `(classes - 1,)`.

        Of several that are equally good it is the one nearest to 0.5. The others are cut as they
        are around it: cuts of several classes that go together are found by `search_cuts`.
        """
        if not self.dice:
            raise RatersError("found no reference masks, expected some to choose the best cut by")
        return np.array([_highest(dice) for dice in self.values("best")])

    def area(self, *, blank: bool = True) -> Floats:
        """Return the cut of each foreground class at which predicted and drawn areas are equal.

        Args:
            blank: Whether blank masks count as drawn.
        """
        if not self.areas:
            raise RatersError("found no masks of raters, expected some to choose the area cut by")
        return np.array([_highest(row) for row in self.values("area" if blank else "area-drawn")])

    def values(self, goal: Goal) -> Floats:
        """Return how good each cut of a class is, `(classes - 1, cuts)`: Dice, or minus an area."""
        if goal == "best":
            return np.asarray(np.mean(self.dice, axis=0))
        blank = goal == "area"
        drawn = np.stack(self.drawn if blank else self.drawn_not_blank)
        areas = np.stack(self.areas if blank else self.areas_not_blank)
        there = ~np.isnan(drawn)
        areas = np.where(there[..., np.newaxis], areas, 0.0).sum(axis=0)
        wanted = np.where(there, drawn, 0.0).sum(axis=0)
        return np.asarray(-np.abs(areas - wanted[:, np.newaxis]))

    def holds(self, goal: Goal) -> bool:
        """Whether there is anything to choose the cut by."""
        return bool(self.dice if goal == "best" else self.areas)


def search_cuts(
    num_classes: int, goals: Sequence[Goal], look: Callable[[list[CutTally]], bool]
) -> list[Floats | None]:
    """Search cuts of all classes together; with two classes in one pass over the cases.

    Each pass looks at all cuts of each class, the others being cut as they were last, and moves
    the class that gains most: mean Dice of all classes, or the difference of its areas. The cuts
    of the best pass are returned: for the best Dice they are never worse than 0.5.

    Args:
        num_classes: How many, with the background.
        goals: What to search.
        look: Adds all cases to each of some tallies, and says whether it can do so again.

    Returns:
        For each goal `(classes - 1,)`, or None where there is nothing to choose it by.

    Example:
        >>> found = np.array([[0.4, 0.4], [0.3, 0.25], [0.3, 0.35]])  # of two voxels, 1 and 2
        >>> def look(tallies):
        ...     for tally in tallies:
        ...         tally.add(found, reference=[1, 2])
        ...     return True
        >>> [cuts] = search_cuts(3, ["best"], look)
        >>> from raters.metrics import cut_labels
        >>> cut_labels(found, cuts)
        array([1, 2], dtype=int16)
    """
    searches = [_Search(goal, np.full(num_classes - 1, 0.5)) for goal in goals]
    for _ in range(MOST_PASSES):
        left = [search for search in searches if not search.done]
        tallies = {tuple(search.cuts): CutTally(num_classes, search.cuts) for search in left}
        again = False
        if tallies:
            again = look(list(tallies.values()))
        for search in left:
            search.move(tallies[tuple(search.cuts)])
        if not again:
            break
    return [search.best for search in searches]


@dataclass
class _Search:
    """Cuts on their way: those of the next pass, and the best so far with what they are worth."""

    goal: Goal
    cuts: Floats
    best: Floats | None = None
    value: float = -np.inf
    done: bool = False

    def move(self, tally: CutTally) -> None:
        """Move the class that gains most in a pass around the present cuts."""
        self.done = not tally.holds(self.goal)
        if self.done:
            return
        values = tally.values(self.goal)
        each = range(len(self.cuts))
        chosen = np.array([_highest(row) for row in values])
        if len(self.cuts) == 1:
            self.best = chosen
            self.done = True
            return
        here, then = (values[each, np.rint(at * 100).astype(int) - 1] for at in (self.cuts, chosen))
        if here.mean() > self.value:
            self.best = self.cuts
            self.value = float(here.mean())
        c = int((then - here).argmax())
        self.done = bool(then[c] - here[c] <= 1e-9)
        self.cuts = np.where(np.arange(len(chosen)) == c, chosen, self.cuts)


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
    return _searched("best", probabilities, reference=references)


def area_cut(
    probabilities: Iterable[ArrayLike], labels: Iterable[ArrayLike], *, blank: bool = True
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
    return _searched("area" if blank else "area-drawn", probabilities, labels=labels)


def _searched(
    goal: Goal, probabilities: Iterable[ArrayLike], **given: Iterable[ArrayLike]
) -> Floats:
    """Search the cuts of cases with what is given of each, `reference` or `labels`."""
    [(name, values)] = given.items()
    maps = list(probabilities)
    drawn = list(values)
    if len(maps) != len(drawn):
        raise RatersError(f"found {len(maps)} maps and {len(drawn)} {name}, expected one per case")
    cases = [(np.asarray(p), own) for p, own in zip(maps, drawn, strict=True)]
    for shape, own in ((found.shape, np.shape(own)) for found, own in cases):
        if len(shape) < 2 or (own[1:] if name == "labels" else own) != shape[1:]:
            what = f"a map of shape {shape} and {name} of shape {own}"
            raise RatersError(f"found {what}, expected (classes, *space) and the same space")

    def look(tallies: list[CutTally]) -> bool:
        for tally, (found, own) in product(tallies, cases):
            tally.add(found, **{name: own})
        return True

    [chosen] = search_cuts(len(cases[0][0]) if cases else 2, [goal], look)
    if chosen is None:
        tally = CutTally(2)  # which says what is missing
        return tally.best() if goal == "best" else tally.area()
    return chosen


def _highest(values: Floats) -> float:
    """Return the cut of the highest value; of several the one nearest to 0.5."""
    equal = GRID[values >= values.max() - 1e-12]
    return float(equal[np.abs(equal - 0.5).argmin()])

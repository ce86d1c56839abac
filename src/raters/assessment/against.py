"""Raters against a consensus of masks: one pass over the cases, and the numbers that it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from raters.assessment.agreement_case import case_agreement
from raters.assessment.agreement_masks import with_mean
from raters.assessment.fusion_findings import KINDS, kinds_of, left_out_scores, mean_and_error
from raters.assessment.performance import MEASURES, measures
from raters.consensus.read import Refit
from raters.core.arrays import Flags, Floats, Ints, Labels, mean_known
from raters.core.progress import ordered_map, track
from raters.fusion import vote
from raters.io.rows import Row, known
from raters.metrics.border import DistanceCounts, bin_step, border_counts
from raters.metrics.conventions import defined_mean
from raters.metrics.overlap import drawn_dice, pair_counts
from raters.study.case import Case
from raters.study.study import Study

MOST_BORDERS = 200
"""Distances to the border are measured on so many cases at most, spread evenly."""
MOST_LEFT_OUT = 100
"""Raters are left out on so many cases at most, spread evenly."""


@dataclass(frozen=True)
class Compared:
    """Raters against the consensus.

    Attributes:
        cases: The cases that have a consensus.
        counts: Voxels by case, rater, class of the consensus and class of the rater,
            `(cases, raters, L, L)`.
        borders: Counts by distance to the border, by class; 'all' for all foreground.
        unit: Of the distances: 'mm', 'pixels' or 'voxels'.
        bordered: On how many cases distances were measured.
        left_dice: Dice of the consensus with and without a rater, `(cases, raters)`; of a sample.
        left_change: The relative change of volume without a rater.
        dice_given: The mean Dice, where it does not follow from the counts.
        flat: Whether cases have two axes: 'pixels', not 'voxels'.
        two: Of two raters, what the consensus is in all cases (one of `KINDS`), or ''.
        pairs: The mean Dice of each pair of raters over classes, `(cases, pairs)`.
        reference: The mean Dice of the consensus with the reference, `(cases,)`; NaN without one.
        vote: The same of a vote of the same labels.
    """

    cases: tuple[str, ...]
    counts: Ints
    borders: dict[str, DistanceCounts]
    unit: str
    bordered: int
    left_dice: Floats
    left_change: Floats
    flat: bool = True
    two: str = ""
    pairs: Floats | None = None
    reference: Floats | None = None
    dice_given: Floats | None = None
    vote: Floats | None = None

    @property
    def dice(self) -> Floats:
        """The mean Dice over drawn classes, `(cases, raters)`; NaN where nothing was drawn."""
        if self.dice_given is not None:
            return self.dice_given
        return mean_known(drawn_dice(self.counts), axis=-1)

    @property
    def labelled(self) -> Flags:
        """Which rater labelled which case."""
        return np.asarray(self.counts.sum(axis=(-1, -2)) > 0)


def compare(
    study: Study,
    cases: Sequence[str],
    read: Callable[[Case], Labels],
    refit: Refit,
    targets: dict[str, int | None],
    progress: bool = False,
) -> Compared:
    """Read all cases once and compare.

    Args:
        study: The study.
        cases: The cases with a consensus.
        read: Gives the consensus of a case.
        refit: Fuses labels again, to leave raters out; not used with fewer than three raters.
        targets: The classes to measure distances for, by name; None for all foreground.
        progress: Show a progress bar.
    """
    first = study[cases[0]].geometry
    raters = len(study.raters)
    classes = len(study.classes)
    step = bin_step(first.shape, first.spacing)
    borders = set(evenly(len(cases), MOST_BORDERS))
    leave = set(evenly(len(cases), MOST_LEFT_OUT)) if raters > 2 else set()

    def work(k: int) -> tuple[Any, ...]:
        case = study[cases[k]]
        labels = case.labels
        spacing = case.geometry.spacing
        consensus = read(case)
        near = None
        if k in borders:
            numbers = targets.values()
            near = [border_counts(consensus, labels, spacing, step, n) for n in numbers]
        left = left_out_scores(labels, classes, refit) if k in leave else None
        two = kinds_of(labels, consensus) if len(labels) == 2 else None
        agreed = case_agreement(case.id, labels, classes, spacing)
        counted = [pair_counts(consensus, own, classes) for own in labels]
        sized = case.geometry.affine is not None
        true = math.nan
        voted = math.nan
        if case.reference is not None:
            true = _dice(case.reference, consensus, classes)
            voted = _dice(case.reference, vote(labels, classes).labels, classes)
        return counted, near, left, sized, with_mean(agreed.dice)[:, -1], two, true, voted

    done = track(ordered_map(work, range(len(cases))), len(cases), "comparing", progress)
    counts, near, left, sized, pairs, two, true, voted = zip(*done, strict=True)
    measured = [counted for counted in near if counted is not None]
    by_target = zip(targets, zip(*measured, strict=True), strict=True)
    total = {name: reduce(add, counted) for name, counted in by_target}
    scores = np.array([one for one in left if one is not None]).reshape(-1, 2, raters)
    kinds = [one for one in two if one is not None]
    if any(sized):
        unit = "mm"
    elif len(first.shape) < 3:
        unit = "pixels"
    else:
        unit = "voxels"
    return Compared(
        tuple(cases),
        np.array(counts, np.int64).reshape(-1, raters, classes, classes),
        total,
        unit,
        len(measured),
        scores[:, 0],
        scores[:, 1],
        len(first.shape) < 3,
        next((k for k in KINDS if kinds and all(one[k] for one in kinds)), ""),
        np.array(pairs),
        np.array(true),
        vote=np.array(voted),
    )


def _dice(reference: Labels, labels: Labels, classes: int) -> float:
    """Return the mean Dice over drawn classes; NaN where nothing is drawn."""
    return defined_mean(drawn_dice(pair_counts(reference, labels, classes))).mean


def pooled(found: Compared) -> Compared:
    """Take all raters as one: for raters who are anonymous."""
    borders = {}
    for name, own in found.borders.items():
        seen, drawn = (part.sum(axis=0, keepdims=True) for part in (own.seen, own.drawn))
        borders[name] = DistanceCounts(own.edges, seen, drawn)
    counts = found.counts.sum(axis=1, keepdims=True)
    dice = mean_known(found.dice, axis=1, keepdims=True)
    return replace(found, counts=counts, borders=borders, dice_given=dice)


def evenly(number: int, most: int) -> list[int]:
    """Return at most so many positions, spread evenly.

    Example:
        >>> evenly(5, 2), evenly(2, 5)
        ([0, 2], [0, 1])
    """
    if number <= most:
        return list(range(number))
    return [k * number // most for k in range(most)]


def far_cases(found: Compared, raters: Sequence[str] = ()) -> list[Row]:
    """Return cases with a mean Dice of raters with the consensus, the lowest first.

    With the names of `raters` also the Dice of each, and cases without a Dice, which come last.
    """
    rows: list[Row] = []
    for case, own in zip(found.cases, found.dice, strict=True):
        row: Row = {"case": case, "dice": mean_and_error(own)[0]}
        rows.append(row | {f"dice {r}": known(own[k]) for k, r in enumerate(raters)})
    rows.sort(key=lambda row: (row["dice"] is None, row["dice"] or 0.0))
    return rows if raters else [row for row in rows if row["dice"] is not None]


def foreground_rows(counts: Ints, raters: Sequence[str]) -> list[Row]:
    """Return what each rater draws of the consensus: one set of numbers for text, figure and table.

    Over all cases and foreground classes together, so that what is large counts more than what is
    small and the background not at all. With `n[t, o]` pixels of class `t` in the consensus that
    the rater calls `o`, and `F = sum n[t, o]` over `t > 0`:

        sensitivity   sum_{t > 0} n[t, t] / F                    the same class
        other         sum_{t > 0, o > 0, o != t} n[t, o] / F     another foreground class
        missed        sum_{t > 0} n[t, 0] / F                    background: these three add up to 1
        beyond        sum_{o > 0} n[0, o] / F                    drawn where there is nothing
        ppv           sum_{t > 0} n[t, t] / sum_{o > 0} n[t, o]  of what is drawn, how much is right

    The error is that of a ratio of sums: `sqrt(n / (n - 1) sum (a - r b)²) / sum b` for `r = a / b`
    over n cases; None with one case. A number that does not exist is None.

    Args:
        counts: `(cases, raters, L, L)`: class of the consensus, then class of the rater.
        raters: Names.

    Example:
        >>> row = foreground_rows(np.array([[[[5, 2], [1, 3]]]]), ["ann"])[0]
        >>> [row[name] for name in ("sensitivity", "ppv", "beyond", "missed", "other")]
        [0.75, 0.6, 0.5, 0.25, 0.0]
    """
    same = np.einsum("krtt->kr", counts[..., 1:, 1:])
    drawn = counts[..., 1:].sum(axis=(2, 3))
    there = counts[..., 1:, :].sum(axis=(2, 3))
    missed = counts[..., 1:, 0].sum(axis=2)
    beyond = counts[..., 0, 1:].sum(axis=2)
    parts = {
        "sensitivity": (same, there),
        "ppv": (same, drawn),
        "beyond": (beyond, there),
        "missed": (missed, there),
        "other": (there - missed - same, there),
    }
    rows = []
    for k, rater in enumerate(raters):
        row: Row = {"rater": rater}
        for name, both in parts.items():
            above, below = (part[:, k].astype(np.float64) for part in both)
            row[name], row[f"{name}_se"] = _ratio(above, below)
        rows.append(row)
    return rows


def _ratio(above: Floats, below: Floats) -> tuple[float | None, ...]:
    total = float(below.sum())
    number = int((below > 0).sum())
    if not total:
        return None, None
    ratio = float(above.sum()) / total
    if number < 2:
        return ratio, None
    squares = float(((above - ratio * below) ** 2).sum())
    return ratio, math.sqrt(number / (number - 1) * squares) / total


def counted_rows(
    counts: Ints, raters: Sequence[str], classes: Sequence[str], cases: Sequence[str] = ()
) -> list[Row]:
    """Return the raters' measures against the consensus from counts, for methods without matrices.

    Args:
        counts: Class of the consensus, then class of the rater, `(raters, L, L)`; or of each case.
        raters: Names.
        classes: Names.
        cases: Names of the cases, for a row of each.
    """
    rows: list[Row] = []
    for k, by_rater in enumerate(counts if cases else counts[np.newaxis]):
        for rater, own in zip(raters, by_rater, strict=True):
            if own.sum():
                prior = own.sum(axis=1)
                matrix = own / np.maximum(prior, 1)[:, np.newaxis]
                values = measures(matrix, prior / prior.sum())
                for c, name in enumerate(classes):
                    row: Row = {"case": cases[k]} if cases else {}
                    row |= {"rater": rater, "class": name}
                    row |= {m: known(v) for m, v in zip(MEASURES, values[:, c], strict=True)}
                    rows.append(row)
    return rows


def summary_rows(rows: Sequence[Row]) -> list[Row]:
    """Average measures over cases, with the standard error of the mean between cases.

    Rows that are of all cases together stay as they are.

    Example:
        >>> rows = [{"case": c, "rater": "ann", "class": "a", "sensitivity": s, "specificity": 1.0,
        ...          "ppv": None, "npv": 1.0} for c, s in (("1", 0.8), ("2", 0.6))]
        >>> row = summary_rows(rows)[0]
        >>> row["cases"], round(row["sensitivity"], 2), round(row["sensitivity_se"], 2), row["ppv"]
        (2, 0.7, 0.1, None)
    """
    if not rows or "case" not in rows[0]:
        return [dict(row) for row in rows]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["rater"], row["class"]), []).append(row)
    found = []
    for (rater, name), own in groups.items():
        new: Row = {"rater": rater, "class": name, "cases": len(own)}
        for measure in MEASURES:
            values = np.array([r[measure] for r in own], np.float64)
            new[measure], spread = mean_and_error(values)
            alone = own[0].get(f"{measure}_se") if len(own) == 1 else None
            new[f"{measure}_se"] = spread if alone is None else known(alone)
        found.append(new)
    return found

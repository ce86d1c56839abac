"""One pass over a fused study of masks: each rater against the consensus."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.fusion.performance import MEASURES, measures
from raters.plots.boundary import DistanceCounts
from raters.progress import track
from raters.report.fusion_files import Refit
from raters.report.leave_out import left_out_scores
from raters.report.near_border import STEPS, bin_step, border_counts
from raters.report.two_raters import KINDS, kinds_of
from raters.rows import Row
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.parallel import ordered_map

if TYPE_CHECKING:
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
        unit: Of the distances: 'mm' or 'pixels'.
        bordered: On how many cases distances were measured.
        left_dice: Dice of the consensus with and without a rater, `(cases, raters)`; of a sample.
        left_change: The relative change of volume without a rater.
        dice_given: The mean Dice, where it does not follow from the counts.
        flat: Whether cases have two axes: 'pixels', not 'voxels'.
        two: Of two raters, what the consensus is in all cases (`two_raters.KINDS`), or ''.
    """

    cases: tuple[str, ...]
    counts: NDArray[np.int64]
    borders: dict[str, DistanceCounts]
    unit: str
    bordered: int
    left_dice: NDArray[np.float64]
    left_change: NDArray[np.float64]
    flat: bool = True
    two: str = ""
    dice_given: NDArray[np.float64] | None = None

    @property
    def dice(self) -> NDArray[np.float64]:
        """The mean Dice over drawn classes, `(cases, raters)`; NaN where nothing was drawn."""
        if self.dice_given is not None:
            return self.dice_given
        scores = dice_from_counts(self.counts)
        drawn = (self.counts.sum(axis=-1) + self.counts.sum(axis=-2))[..., 1:] > 0
        total = np.where(drawn, scores, 0.0).sum(axis=-1)
        return np.where(drawn.any(axis=-1), total / np.maximum(drawn.sum(axis=-1), 1), np.nan)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which rater labelled which case."""
        return np.asarray(self.counts.sum(axis=(-1, -2)) > 0)


@dataclass(frozen=True)
class _One:
    """What one case gives."""

    counts: NDArray[np.int64]
    borders: list[DistanceCounts] | None
    left: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    sized: bool
    two: dict[str, bool] | None = None


def compare(
    study: Study,
    cases: Sequence[str],
    read: Callable[[Case], NDArray[np.int16]],
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
    step = _step(study, cases)
    borders = set(evenly(len(cases), MOST_BORDERS))
    leave = set(evenly(len(cases), MOST_LEFT_OUT)) if len(study.raters) > 2 else set()

    def work(k: int) -> _One:
        case = study[cases[k]]
        labels, spacing = case.labels, case.geometry.spacing
        consensus, classes = read(case), len(study.classes)
        counted = [pair_counts(consensus, own, classes) for own in labels]
        near = None
        if k in borders:
            numbers = targets.values()
            near = [border_counts(consensus, labels, spacing, step, n) for n in numbers]
        left = left_out_scores(labels, classes, refit) if k in leave else None
        two = kinds_of(labels, consensus) if len(labels) == 2 else None
        return _One(np.array(counted), near, left, case.geometry.affine is not None, two)

    done = track(ordered_map(work, range(len(cases))), len(cases), "comparing", progress)
    return _together(study, tuple(cases), list(done), targets, step)


def _together(
    study: Study,
    cases: tuple[str, ...],
    found: list[_One],
    targets: dict[str, int | None],
    step: float,
) -> Compared:
    raters, classes = len(study.raters), len(study.classes)
    near = [one.borders for one in found if one.borders is not None]
    empty = np.zeros((raters, 2 * STEPS), np.int64)
    edges = np.arange(-STEPS, STEPS + 1, dtype=np.float64) * step
    total = {name: DistanceCounts(edges, empty, empty) for name in targets}
    for counted in near:
        for name, one in zip(targets, counted, strict=True):
            total[name] += one
    left = [one.left for one in found if one.left is not None]
    dice = np.array([one[0] for one in left]).reshape(-1, raters)
    change = np.array([one[1] for one in left]).reshape(-1, raters)
    counts = np.array([one.counts for one in found], np.int64).reshape(-1, raters, classes, classes)
    unit = "mm" if any(one.sized for one in found) else "pixels"
    kinds = [one.two for one in found if one.two is not None]
    two = next((k for k in KINDS if kinds and all(one[k] for one in kinds)), "")
    flat = len(study[cases[0]].geometry.shape) < 3 if cases else True
    return Compared(cases, counts, total, unit, len(near), dice, change, flat, two)


def _step(study: Study, cases: Sequence[str]) -> float:
    geometry = study[cases[0]].geometry
    return bin_step(geometry.shape, geometry.spacing)


def pooled(found: Compared) -> Compared:
    """Take all raters as one: for raters who are anonymous."""
    borders = {
        name: DistanceCounts(
            counts.edges,
            counts.seen.sum(axis=0, keepdims=True),
            counts.drawn.sum(axis=0, keepdims=True),
        )
        for name, counts in found.borders.items()
    }
    counts = found.counts.sum(axis=1, keepdims=True)
    there = np.isfinite(found.dice) & found.labelled
    number = there.sum(axis=1, keepdims=True)
    total = np.where(there, found.dice, 0.0).sum(axis=1, keepdims=True)
    dice = np.where(number > 0, total / np.maximum(number, 1), np.nan)
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


def counted_rows(compared: Compared, raters: Sequence[str], classes: Sequence[str]) -> list[Row]:
    """Return the raters' measures against the consensus, by case, from counts."""
    rows: list[Row] = []
    for case, by_rater in zip(compared.cases, compared.counts, strict=True):
        for rater, counts in zip(raters, by_rater, strict=True):
            if counts.sum():
                prior = counts.sum(axis=1)
                matrix = counts / np.maximum(prior, 1)[:, np.newaxis]
                values = measures(matrix, prior / prior.sum())
                for c, name in enumerate(classes):
                    row: Row = {"case": case, "rater": rater, "class": name}
                    for m, measure in enumerate(MEASURES):
                        row[measure] = known(values[m, c])
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
            values = np.array([float(r[measure]) for r in own if known(r[measure]) is not None])
            new[measure] = float(values.mean()) if values.size else None
            spread = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
            alone = own[0].get(f"{measure}_se") if len(own) == 1 else None
            new[f"{measure}_se"] = known(spread) if alone is None else known(alone)
        found.append(new)
    return found


def known(value: Any) -> float | None:  # noqa: ANN401
    """Return None for a number that does not exist."""
    return None if value is None or value != value else float(value)

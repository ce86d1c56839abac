"""One pass over a fused study of masks: each rater against the consensus, and left out of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from raters.agreement.case import case_agreement
from raters.agreement.masks import with_mean
from raters.arrays import Array, Flags, Floats, Ints, Labels, mean_known
from raters.fusion.performance import MEASURES, measures
from raters.plots.sizes import DistanceCounts, signed_distance_counts
from raters.progress import ordered_map, track
from raters.report.findings import KINDS, kinds_of
from raters.rows import Row, known
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.report.fusion_files import Refit
    from raters.study.case import Case
    from raters.study.study import Study


STEPS = 10
"""Bins on each side of the border."""
_FINEST = 1000  # bins are not finer than this part of the longest side


def bin_step(shape: Sequence[int], spacing: Sequence[float]) -> float:
    """Return the width of bins: about a pixel, more for large images, as 1, 2 or 5 times 10^k.

    Example:
        >>> bin_step((64, 64), (1.0, 1.0)), bin_step((512, 512, 90), (0.7, 0.7, 2.5))
        (1.0, 1.0)
        >>> bin_step((5000, 5000), (1.0, 1.0))
        5.0
    """
    longest = max((n * s for n, s in zip(shape, spacing, strict=True)), default=1.0)
    least = max(min(spacing, default=1.0), longest / _FINEST)
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= least * 0.999))


def border_counts(
    consensus: Array, labels: Array, spacing: Sequence[float], step: float, number: int | None
) -> DistanceCounts:
    """Count what raters call foreground by the distance to the consensus, near its border.

    The same as `signed_distance_counts`, but only around the consensus, and on every second,
    third, ... pixel where bins are that wide.

    Args:
        consensus: Class numbers with MISSING, `(*space)`.
        labels: Those of raters, `(raters, *space)`.
        spacing: The size of a voxel by axis.
        step: The width of a bin.
        number: The class; None for all foreground together.
    """
    edges = np.arange(-STEPS, STEPS + 1, dtype=np.float64) * step
    inside = consensus > 0 if number is None else consensus == number
    window = _around(inside, [math.ceil(STEPS * step / s) + 1 for s in spacing])
    thin = tuple(slice(None, None, max(1, int(step / s))) for s in spacing)
    truth = _foreground(consensus[window][thin], number)
    given = _foreground(labels[(slice(None), *window)][(slice(None), *thin)], number)
    wide = [s * part.step for s, part in zip(spacing, thin, strict=True)]
    return signed_distance_counts(truth, given, wide, edges)


def _foreground(labels: Array, number: int | None) -> Labels:
    drawn = labels > 0 if number is None else labels == number
    return np.where(labels == MISSING, MISSING, drawn).astype(np.int16)


def _around(inside: Flags, margin: Sequence[int]) -> tuple[slice, ...]:
    """Return the box around what is inside, with a margin; all of it where there is nothing."""
    window = []
    for axis, more in enumerate(margin):
        others = tuple(k for k in range(inside.ndim) if k != axis)
        found = np.flatnonzero(inside.any(axis=others))
        if not found.size:
            return (slice(None),) * inside.ndim
        window.append(slice(max(0, int(found[0]) - more), int(found[-1]) + more + 1))
    return tuple(window)


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
        two: Of two raters, what the consensus is in all cases (`findings.KINDS`), or ''.
        pairs: The mean Dice of each pair of raters over classes, `(cases, pairs)`.
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
    dice_given: Floats | None = None

    @property
    def dice(self) -> Floats:
        """The mean Dice over drawn classes, `(cases, raters)`; NaN where nothing was drawn."""
        if self.dice_given is not None:
            return self.dice_given
        scores = dice_from_counts(self.counts)
        drawn = (self.counts.sum(axis=-1) + self.counts.sum(axis=-2))[..., 1:] > 0
        return mean_known(scores, drawn, axis=-1)

    @property
    def labelled(self) -> Flags:
        """Which rater labelled which case."""
        return np.asarray(self.counts.sum(axis=(-1, -2)) > 0)


@dataclass(frozen=True)
class _One:
    """What one case gives."""

    counts: Ints
    borders: list[DistanceCounts] | None
    left: tuple[Floats, Floats] | None
    sized: bool
    pairs: Floats
    two: dict[str, bool] | None = None


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
    step = bin_step(first.shape, first.spacing)
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
        agreed = case_agreement(case.id, labels, classes, spacing)
        pairs = with_mean(agreed.dice)[:, -1]
        return _One(np.array(counted), near, left, case.geometry.affine is not None, pairs, two)

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
    pairs = np.array([one.pairs for one in found])
    return Compared(cases, counts, total, unit, len(near), dice, change, flat, two, pairs)


def pooled(found: Compared) -> Compared:
    """Take all raters as one: for raters who are anonymous."""
    borders = {}
    for name, own in found.borders.items():
        seen, drawn = (part.sum(axis=0, keepdims=True) for part in (own.seen, own.drawn))
        borders[name] = DistanceCounts(own.edges, seen, drawn)
    counts = found.counts.sum(axis=1, keepdims=True)
    there = np.isfinite(found.dice) & found.labelled
    dice = mean_known(found.dice, there, axis=1, keepdims=True)
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


_LARGE = 4_000_000  # pixels; larger planes are taken on every second, third, ... pixel


def left_out_scores(labels: Array, num_classes: int, refit: Refit) -> tuple[Floats, Floats]:
    """Compare the consensus of all raters with that of all but one.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        refit: Fuses labels.

    Returns:
        The mean Dice over classes, and the relative change of volume, both `(raters,)`; NaN for a
        rater who labelled nothing, or alone, and where nothing was drawn.

    Example:
        >>> from raters.fusion.vote import vote
        >>> labels = np.array([[0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]])
        >>> left_out_scores(labels, 2, vote)[0].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    thinned = _thin(labels)
    whole = refit(thinned, num_classes).labels
    dice, change = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    for k in range(len(labels)):
        others = np.delete(thinned, k, axis=0)
        if (thinned[k] != MISSING).any() and (others != MISSING).any():
            without = refit(others, num_classes).labels
            dice[k] = _mean_dice(whole, without, num_classes)
            drawn = int((whole > 0).sum())
            change[k] = (int((without > 0).sum()) - drawn) / drawn if drawn else np.nan
    return dice, change


def _mean_dice(a: Array, b: Array, num_classes: int) -> float:
    counts = pair_counts(a, b, num_classes)
    drawn = (counts.sum(axis=0) + counts.sum(axis=1))[1:] > 0
    return float(dice_from_counts(counts)[drawn].mean()) if drawn.any() else math.nan


def _thin(labels: Array) -> Array:
    size = math.prod(labels.shape[1:])
    step = math.ceil(math.sqrt(size / _LARGE)) if labels.ndim == 3 and size > _LARGE else 1
    return labels[(slice(None), *(slice(None, None, step),) * (labels.ndim - 1))]


def left_out_rows(raters: Sequence[str], dice: Floats, change: Floats) -> list[Row]:
    """Average over cases: `dice` and `change` are `(cases, raters)`."""
    rows = []
    for k, rater in enumerate(raters):
        known = dice[:, k][np.isfinite(dice[:, k])]
        sizes = change[:, k][np.isfinite(change[:, k])]
        n = int(known.size)
        row: Row = {"rater": rater, "cases": n, "dice": float(known.mean()) if n else None}
        row["dice_se"] = float(known.std(ddof=1) / math.sqrt(n)) if n > 1 else None
        rows.append({**row, "volume_change": float(sizes.mean()) if sizes.size else None})
    return rows

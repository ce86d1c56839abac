"""Raters against the consensus: what each draws of it, what few drew, what changes without each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raters.arrays import Array, Flags, Floats, Ints
from raters.report.words import begin, named, together
from raters.rows import Row
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.report.fusion_files import Refit


@dataclass(frozen=True)
class Minority:
    """A class that fewer than half of the raters of some cases drew.

    Attributes:
        number: The class.
        cases: Positions of these cases, the one with the largest region first.
        of: In how many cases anybody drew the class.
        who: Positions of the raters who drew it in the first case.
        labelled: How many raters labelled the first case.
        size: How much there is of it in the first case.
    """

    number: int
    cases: tuple[int, ...]
    of: int
    who: tuple[int, ...]
    labelled: int
    size: int


def minorities(drew: Flags, labelled: Flags, size: Array) -> list[Minority]:
    """Find foreground classes that a minority drew, those of most cases first.

    Args:
        drew: Who drew which class in which case, `(cases, raters, L)`.
        labelled: Who labelled the case, `(cases, raters)`.
        size: How much there is of each class, `(cases, L)`; cases with none are left out.

    Example:
        >>> drew = np.array([[[1, 1, 0], [1, 1, 0], [1, 1, 1]]], bool)
        >>> found = minorities(drew, np.ones((1, 3), bool), np.array([[90, 8, 2]]))
        >>> [(one.number, one.who, one.labelled, one.size) for one in found]
        [(2, (2,), 3, 2)]
    """
    raters = labelled.sum(axis=1)
    found = []
    for number in range(1, drew.shape[2]):
        own = drew[:, :, number].sum(axis=1)
        there = (own > 0) & (size[:, number] > 0)
        few = np.flatnonzero(there & (2 * own < raters))
        if few.size:
            few = few[np.argsort(-size[few, number], kind="stable")]
            first, cases = few[0], tuple(few.tolist())
            who = tuple(np.flatnonzero(drew[first, :, number]).tolist())
            of, most = int(there.sum()), int(size[first, number])
            found.append(Minority(number, cases, of, who, int(raters[first]), most))
    return sorted(found, key=lambda one: -len(one.cases) / one.of)


def minority_sentence(
    found: Sequence[Minority],
    cases: Sequence[str],
    raters: Sequence[str],
    classes: Sequence[str],
    unit: str,
    followed: str = "",
) -> str:
    """Return which class a minority drew, and who.

    Args:
        found: What `minorities` gives.
        cases: Names of the cases.
        raters: Names of the raters; none for raters without names.
        classes: Names of the classes.
        unit: Of the size: 'pixels', 'voxels', 'mm³'.
        followed: Who put it into the consensus all the same, such as 'staple'.

    Example:
        >>> one = Minority(2, (0,), 1, (0, 2), 5, 309)
        >>> minority_sentence([one], ["a7"], "ann bob cy dan eve".split(), "012", "voxels")
        'Class 2 was drawn by 2 of 5 raters only (ann and cy; 309 voxels in case a7): ask \
whether it is there before its border is discussed.'
    """
    if not found:
        return ""
    first = found[0]
    who = f"{together([named(raters[k]) for k in first.who])}; " if raters else ""
    case = f"case {cases[first.cases[0]]}"
    what = begin(named(classes[first.number], "class"))
    size = f"{first.size:,} {unit}"
    drew = f"{len(first.who)} of {first.labelled} raters"
    if len(cases) == 1:
        text = f"{what} was drawn by {drew} only ({who}{size} in {case})"
    else:
        all_ = len(first.cases) == first.of
        share = f"all {first.of:,}" if all_ else f"{len(first.cases):,} of the {first.of:,}"
        text = (
            f"{what} was drawn by fewer than half of the raters in {share} cases that have it, the "
            f"largest in {case} ({drew}: {who}{size})"
        )
    if followed:
        return f"{text}, and the consensus ({followed}) followed them: see whether you would."
    return f"{text}: ask whether it is there before its border is discussed."


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
    drawn, there = counts[..., 1:].sum(axis=(2, 3)), counts[..., 1:, :].sum(axis=(2, 3))
    missed, beyond = counts[..., 1:, 0].sum(axis=2), counts[..., 0, 1:].sum(axis=2)
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
    total, number = float(below.sum()), int((below > 0).sum())
    if not total:
        return None, None
    ratio = float(above.sum()) / total
    if number < 2:
        return ratio, None
    squares = float(((above - ratio * below) ** 2).sum())
    return ratio, math.sqrt(number / (number - 1) * squares) / total


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

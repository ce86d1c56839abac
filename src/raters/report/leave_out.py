"""Raters against the consensus: what each draws of it, and what changes without each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from raters.arrays import Array, Floats, Ints
from raters.report.fusion_files import Refit
from raters.rows import Row
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.classes import MISSING


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

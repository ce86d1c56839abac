"""What changes in the consensus without each rater."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raters.arrays import Array, Floats
from raters.rows import Row
from raters.scores.overlap import dice_from_counts, pair_counts
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from raters.report.fusion_files import Refit

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

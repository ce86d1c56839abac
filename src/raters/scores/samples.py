"""Do samples of a model cover the raters? Samples matched to raters, and the best for each rater.

Unlike the energy distance these are in units of overlap. Best Dice looks only for what samples
hit; matched Dice also sees how often they do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.scores.empty import UNDEFINED, defined_mean
from raters.scores.pairwise import overlap_matrix


def matched_dice(raters: ArrayLike, samples: ArrayLike, num_classes: int = 2) -> float:
    """Pair samples with raters one to one so that their mean Dice is largest, and give that.

    Sets of different sizes are repeated up to their least common multiple first, so that each
    rater weighs the same and so does each sample: S. A. A. Kohl et al., A hierarchical
    probabilistic U-Net for modeling multi-scale ambiguities, 2019 (their Hungarian-matched IoU is
    `matched_mean(overlap_matrix(raters, samples, classes, "iou"))`).

    Two empty masks match with 1. A mask that shares no voxel with any of the other set (a rater
    who skipped the case) is left out; nothing left, or still a pair without a voxel: NaN.

    Args:
        raters: Class numbers, `(n, *space)`.
        samples: Class numbers, `(m, *space)`.
        num_classes: How many classes there are, with background; Dice is the mean over foreground.

    Example:
        >>> raters = [[0, 1, 1], [0, 0, 1]]
        >>> matched_dice(raters, raters[::-1])
        1.0
        >>> round(matched_dice(raters, [raters[0]] * 4), 3)  # never as the second rater
        0.833
    """
    return matched_mean(overlap_matrix(raters, samples, num_classes))


def best_dice(raters: ArrayLike, samples: ArrayLike, num_classes: int = 2) -> float:
    """Return, averaged over raters, the Dice of the sample that fits the rater best.

    More samples never lower it: compare at equal numbers. A rater who shares no voxel with any
    sample is left out; if all are, NaN.

    Example:
        >>> best_dice([[0, 1, 1], [0, 0, 1]], [[0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]])
        1.0
    """
    return best_mean(overlap_matrix(raters, samples, num_classes))


def matched_mean(similarity: ArrayLike) -> float:
    """Return the largest mean of a one-to-one matching of rows and columns (Hungarian method).

    A similarity `(n, m)` is repeated to the least common multiple of n and m on both axes; time
    and memory grow with its square. Rows and columns of nothing but NaN are left out.

    Example:
        >>> matched_mean([[0.9, 0.8], [0.7, 0.1]])
        0.75
    """
    from scipy.optimize import linear_sum_assignment

    table = _without_blanks(np.asarray(similarity, np.float64))
    if not table.size or np.isnan(table).any():
        return UNDEFINED
    size = math.lcm(*table.shape)
    table = np.repeat(np.repeat(table, size // table.shape[0], 0), size // table.shape[1], 1)
    return float(table[linear_sum_assignment(table, maximize=True)].mean())


def best_mean(similarity: ArrayLike) -> float:
    """Return the mean over rows of the largest in each row; rows of nothing but NaN are left out.

    Example:
        >>> best_mean([[0.9, 0.8], [0.7, 0.1]])
        0.8
    """
    table = _without_blanks(np.asarray(similarity, np.float64))
    return defined_mean(np.nanmax(table, axis=1) if table.size else []).mean


def _without_blanks(table: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(table)
    return table[known.any(1)][:, known.any(0)]

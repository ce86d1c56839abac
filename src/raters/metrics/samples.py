"""Do samples of a model vary as the raters do? Energy distance, and samples matched to raters.

Unlike the energy distance, matched and best Dice are in units of overlap. Best Dice looks only for
what samples hit; matched Dice also sees how often they do.

Overlaps of every mask of one set with every mask of another come from matrix products: with `F` the
flattened foreground masks and `O` the observed voxels, as rows of 0 and 1,

    |A_i B_j| = F_a F_b'     |A_i| where j is observed = F_a O_b'     |B_j| ... = O_a F_b'

so that all pairs cost three products instead of a pass over the voxels for each pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.core.arrays import Array, Flags, Floats
from raters.core.classes import MISSING
from raters.core.errors import RatersError, check_choice
from raters.metrics.conventions import (
    UNDEFINED,
    check_classes,
    defined_mean,
    label_array,
    overlap_ratio,
)

Distance = str | Callable[[Array, Array], float]
_BLOCK = 1 << 16  # voxels at a time: sums of float32 are exact up to 2^24, and memory stays small


def energy_distance(
    raters: ArrayLike,
    samples: ArrayLike,
    num_classes: int = 2,
    distance: Distance = "iou",
    form: str = "v",
    *,
    root: bool = False,
) -> float:
    """Return the generalised energy distance of two sets of masks; 0 is best.

        2 E d(s, y) - E d(s, s') - E d(y, y')     s, s' from the samples, y, y' from the raters

    G. J. Székely, A. L. Rizzo, Energy statistics, J. Stat. Plan. Inference 143, 2013; for
    segmentation S. A. A. Kohl et al., A probabilistic U-Net, NeurIPS 2018, who call this number
    `D²_GED`. It is not squared any further; `root=True` gives its square root `D_GED` (of a
    negative number: 0).

    The V form averages over all pairs, a mask with itself as well. It is 0 for equal multisets
    and, with 1 - IoU or 1 - Dice of masks without MISSING, at least 0. The U form leaves out the
    pairs of a mask with itself: it is unbiased, so that numbers of samples can be compared, but it
    can be negative. Kohl et al. use V. Few samples raise V: say how many there were.

    Distances are `1 - IoU` or `1 - Dice`, averaged over foreground classes: of two empty masks 0,
    of an empty and another 1. A pair without a voxel labelled in both has no distance and is left
    out; a rater who skipped the case drops out by this. Where a term has no pair at all (nothing
    in common, or the U form with a single mask) the result is NaN.

    Args:
        raters: Class numbers, `(n, *space)`.
        samples: Class numbers, `(m, *space)`.
        num_classes: How many classes there are, with background.
        distance: `"iou"`, `"dice"`, or a symmetric function of two masks.
        form: `"v"` or `"u"`.
        root: Whether to take the square root.

    Example:
        >>> raters = np.array([[0, 1, 1, 0], [0, 0, 1, 1]])
        >>> energy_distance(raters, raters)
        0.0
        >>> round(energy_distance(raters, raters, form="u"), 3)  # V is 0, U below
        -0.667
        >>> energy_distance(raters, 1 - raters)  # the opposite masks
        1.0
        >>> energy_distance(np.zeros((2, 4), int), np.zeros((3, 4), int))  # all empty: all agree
        0.0

        A random predictor is far from 0, a good one is near it:

        >>> rng = np.random.default_rng(0)
        >>> disc = np.hypot(*np.ogrid[-16:16, -16:16])
        >>> raters = np.stack([disc < radius for radius in (8, 9, 10, 11)])
        >>> good = np.stack([disc < radius for radius in rng.uniform(8, 11, 16)])
        >>> noise = rng.random((16, 32, 32)) < 0.5
        >>> [round(energy_distance(raters, samples), 2) for samples in (good, noise)]
        [0.02, 0.72]
    """
    between, within_raters, within_samples = (
        _distances(first, second, num_classes, distance)
        for first, second in ((raters, samples), (raters, raters), (samples, samples))
    )
    return energy_from_distances(between, within_raters, within_samples, form, root=root)


def energy_from_distances(
    between: ArrayLike,
    within_a: ArrayLike,
    within_b: ArrayLike,
    form: str = "v",
    *,
    root: bool = False,
) -> float:
    """Return the energy distance from matrices of distances, where they are known already.

    Args:
        between: `(n, m)`, from each of the first set to each of the second.
        within_a: `(n, n)`, within the first set; the U form does not read its diagonal.
        within_b: `(m, m)`, within the second set.
        form: `"v"` or `"u"`.
        root: Whether to take the square root.

    Example:
        >>> energy_from_distances([[1.0, 1.0]], [[0.0]], [[0.0, 0.5], [0.5, 0.0]])
        1.75
    """
    check_choice("form", form, ("v", "u"))
    matrix, first, second = (np.asarray(m, np.float64) for m in (between, within_a, within_b))
    n, m = matrix.shape
    if first.shape != (n, n) or second.shape != (m, m):
        raise RatersError(
            f"found distances of shapes {first.shape} and {second.shape} within the sets, "
            f"expected {(n, n)} and {(m, m)} from those between"
        )
    energy = 2 * defined_mean(matrix).mean - _within(first, form) - _within(second, form)
    return float(np.sqrt(np.maximum(energy, 0.0))) if root else energy


def _within(matrix: Floats, form: str) -> float:
    """Average over pairs of one set: all of them (V), or those of different masks (U)."""
    pairs = matrix if form == "v" else matrix[~np.eye(len(matrix), dtype=bool)]
    return defined_mean(pairs).mean


def _distances(a: ArrayLike, b: ArrayLike, num_classes: int, distance: Distance) -> Floats:
    if callable(distance):
        return np.array([[distance(x, y) for y in np.asarray(b)] for x in np.asarray(a)])
    check_choice("distance", distance, ("iou", "dice"))
    return 1.0 - overlap_matrix(a, b, num_classes, distance)


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


def _without_blanks(table: Floats) -> Floats:
    known = ~np.isnan(table)
    return table[known.any(1)][:, known.any(0)]


def overlap_matrix(a: ArrayLike, b: ArrayLike, num_classes: int = 2, score: str = "dice") -> Floats:
    """Return the Dice or IoU of every pair of masks, averaged over foreground classes.

    Equal to `mean_dice(a[i], b[j], classes)` (or `mean_iou`), with the same rules: a class that
    both leave out counts as 1, and a pair without a voxel labelled in both is NaN.

    Args:
        a: Class numbers, `(n, *space)`.
        b: Class numbers, `(m, *space)`.
        num_classes: How many classes there are, with background.
        score: `"dice"` or `"iou"`.

    Returns:
        `(n, m)`, from 0 to 1.

    Example:
        >>> overlap_matrix([[0, 1, 1], [0, 0, 0]], [[0, 1, 0]]).round(3)
        array([[0.667],
               [0.   ]])
    """
    return np.asarray(overlap_from_sizes(overlap_sizes(a, b, num_classes), score).mean(axis=0))


def overlap_from_sizes(sizes: Floats, score: str = "dice") -> Floats:
    """Return Dice or IoU by class and pair, `(classes - 1, n, m)`, from `overlap_sizes`."""
    check_choice("score", score, ("dice", "iou"))
    both, first, second, common = sizes
    if score == "dice":
        return overlap_ratio(2 * both, first + second, common)
    return overlap_ratio(both, first + second - both, common)


def overlap_sizes(a: ArrayLike, b: ArrayLike, num_classes: int = 2) -> Floats:
    """Count what all overlaps are made of, `(4, classes - 1, n, m)`; parts of an image add up.

    By foreground class and pair: voxels in both, in the first, in the second; and those that are
    labelled in both.

    Example:
        >>> overlap_sizes([[0, 1, 1]], [[0, 1, -1]])[:, 0, 0, 0]
        array([1., 1., 1., 2.])
    """
    check_classes(num_classes)
    a = label_array(a, num_classes)
    b = label_array(b, num_classes)
    if a.ndim < 2 or a.shape[1:] != b.shape[1:]:
        raise RatersError(
            f"found sets of masks of shapes {a.shape} and {b.shape}, "
            "expected (n, *space) and (m, *space)"
        )
    a = a.reshape(len(a), -1)
    b = b.reshape(len(b), -1)
    sizes = np.zeros((4, num_classes - 1, len(a), len(b)))
    both, first, second, common = sizes
    for start in range(0, a.shape[1], _BLOCK):
        block_a = a[:, start : start + _BLOCK]
        block_b = b[:, start : start + _BLOCK]
        seen_a = block_a != MISSING
        seen_b = block_b != MISSING
        common += _counts_where(seen_a.astype(np.float32), seen_b)
        for k in range(1, num_classes):
            mask_a, mask_b = ((block == k).astype(np.float32) for block in (block_a, block_b))
            both[k - 1] += mask_a @ mask_b.T
            first[k - 1] += _counts_where(mask_a, seen_b)
            second[k - 1] += _counts_where(mask_b, seen_a).T
    return sizes


def _counts_where(masks: NDArray[np.float32], seen: Flags) -> NDArray[np.float32]:
    """Count the voxels of each mask that the others observed; no product where they saw all."""
    if seen.all():
        return np.broadcast_to(masks.sum(axis=1)[:, None], (len(masks), len(seen)))
    return np.asarray(masks @ seen.astype(np.float32).T)

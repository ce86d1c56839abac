"""Overlaps of every mask of one set with every mask of another, by matrix products.

With `F` the flattened foreground masks and `O` the observed voxels, as rows of 0 and 1,

    |A_i B_j| = F_a F_b'     |A_i| where j is observed = F_a O_b'     |B_j| ... = O_a F_b'

so that all pairs cost three products instead of a pass over the voxels for each pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.scores.empty import overlap_ratio
from raters.scores.inputs import check_choice, check_classes, label_array
from raters.study.classes import MISSING

_BLOCK = 1 << 16  # voxels at a time: sums of float32 are exact up to 2^24, and memory stays small


def overlap_matrix(
    a: ArrayLike, b: ArrayLike, num_classes: int = 2, score: str = "dice"
) -> NDArray[np.float64]:
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
    check_choice("score", score, ("dice", "iou"))
    both, first, second, common = _pair_sizes(*_flat(a, b, num_classes), num_classes)
    if score == "dice":
        by_class = overlap_ratio(2 * both, first + second, common)
    else:
        by_class = overlap_ratio(both, first + second - both, common)
    return np.asarray(by_class.mean(axis=0))


def _flat(a: ArrayLike, b: ArrayLike, num_classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    check_classes(num_classes)
    first, second = label_array(a, num_classes), label_array(b, num_classes)
    if first.ndim < 2 or first.shape[1:] != second.shape[1:]:
        raise RatersError(
            f"found sets of masks of shapes {first.shape} and {second.shape}, "
            "expected (n, *space) and (m, *space)"
        )
    return first.reshape(len(first), -1), second.reshape(len(second), -1)


def _pair_sizes(
    a: NDArray[Any], b: NDArray[Any], num_classes: int
) -> tuple[NDArray[np.float64], ...]:
    """Return, by class and pair, voxels in both, in the first, in the second; and those common."""
    both, first, second = np.zeros((3, num_classes - 1, len(a), len(b)))
    common = np.zeros((len(a), len(b)))
    for start in range(0, a.shape[1], _BLOCK):
        block_a, block_b = a[:, start : start + _BLOCK], b[:, start : start + _BLOCK]
        seen_a, seen_b = block_a != MISSING, block_b != MISSING
        common += _counts_where(_ones(seen_a), seen_b)
        for k in range(1, num_classes):
            mask_a, mask_b = _ones(block_a == k), _ones(block_b == k)
            both[k - 1] += mask_a @ mask_b.T
            first[k - 1] += _counts_where(mask_a, seen_b)
            second[k - 1] += _counts_where(mask_b, seen_a).T
    return both, first, second, common


def _counts_where(masks: NDArray[np.float32], seen: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Count the voxels of each mask that the others observed; no product where they saw all."""
    if seen.all():
        return np.broadcast_to(masks.sum(axis=1)[:, None], (len(masks), len(seen)))
    return np.asarray(masks @ _ones(seen).T)


def _ones(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    return mask.astype(np.float32)

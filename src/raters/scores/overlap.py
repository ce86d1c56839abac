"""How far two label maps overlap: Dice, IoU and the difference of volumes, by foreground class.

Everything comes from one table of joint counts, `counts[i, j]` = number of voxels that are class i
in the first map and class j in the second. Voxels MISSING in either map are left out. Counts may be
added over cases before they are scored; then large cases weigh more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from raters.arrays import Floats, Ints
from raters.scores.empty import UNDEFINED, overlap_ratio
from raters.scores.inputs import Spacing, check_classes, label_pair, spacing_of

_BLOCK = 1 << 16  # voxels at a time: the codes of a block stay in the cache


def pair_counts(a: ArrayLike, b: ArrayLike, num_classes: int) -> Ints:
    """Count how often each pair of labels occurs: `(classes, classes)`, rows by `a`.

    With the truth first these are scikit-learn's `confusion_matrix(truth, predicted)`.

    Example:
        >>> pair_counts([0, 1, 1, -1], [0, 0, 1, 1], num_classes=2)
        array([[1, 0],
               [1, 1]])
    """
    first, second = (labels.ravel() for labels in label_pair(a, b, num_classes))
    base = num_classes + 1  # MISSING is code 0, and its row and column are dropped
    counts = np.zeros(base * base, np.int64)
    for start in range(0, first.size, _BLOCK):
        codes = (first[start : start + _BLOCK].astype(np.intp) + 1) * base
        codes += second[start : start + _BLOCK].astype(np.intp) + 1
        counts += np.bincount(codes, minlength=base * base)
    return counts.reshape(base, base)[1:, 1:].copy()


def dice(a: ArrayLike, b: ArrayLike, num_classes: int = 2) -> Floats:
    """Return Dice's coefficient of each foreground class, `2 |A B| / (|A| + |B|)`.

    L. R. Dice, Measures of the amount of ecologic association between species, Ecology 26, 1945.

    Both empty: 1. Exactly one empty: 0. No voxel labelled in both: NaN.

    Returns:
        `(classes - 1,)`, from 0 to 1; class c is at position c - 1.

    Example:
        >>> dice([0, 1, 1, 2], [0, 1, 0, 2], num_classes=4).round(3)
        array([0.667, 1.   , 1.   ])
    """
    return dice_from_counts(pair_counts(a, b, num_classes))


def iou(a: ArrayLike, b: ArrayLike, num_classes: int = 2) -> Floats:
    """Return the intersection over the union of each foreground class, `|A B| / |A or B|`.

    Jaccard's index (P. Jaccard, 1901); `iou = dice / (2 - dice)`. Both empty: 1. Exactly one
    empty: 0. No voxel labelled in both: NaN.

    Returns:
        `(classes - 1,)`, from 0 to 1; class c is at position c - 1.

    Example:
        >>> iou([0, 1, 1, 2], [0, 1, 0, 2], num_classes=4)
        array([0.5, 1. , 1. ])
    """
    return iou_from_counts(pair_counts(a, b, num_classes))


def mean_dice(a: ArrayLike, b: ArrayLike, num_classes: int = 2) -> float:
    """Average `dice` over all foreground classes; one that both leave out counts as 1.

    Example:
        >>> round(mean_dice([0, 1, 1, 2], [0, 1, 0, 2], num_classes=4), 3)
        0.889
    """
    return float(dice(a, b, num_classes).mean())


def mean_iou(a: ArrayLike, b: ArrayLike, num_classes: int = 2) -> float:
    """Average `iou` over all foreground classes; one that both leave out counts as 1.

    Background does not take part: it is large, easy and would hide the rest. (The mean IoU of
    natural scenes does include it, and skips absent classes.)

    Example:
        >>> round(mean_iou([0, 1, 1, 2], [0, 1, 0, 2], num_classes=4), 3)
        0.833
    """
    return float(iou(a, b, num_classes).mean())


def dice_from_counts(counts: ArrayLike) -> Floats:
    """Return `dice` from joint counts `(..., classes, classes)`.

    Example:
        >>> dice_from_counts([[5, 1], [1, 3]])
        array([0.75])
    """
    both, first, second, common = _sizes(counts)
    return overlap_ratio(2 * both, first + second, common)


def iou_from_counts(counts: ArrayLike) -> Floats:
    """Return `iou` from joint counts `(..., classes, classes)`.

    Example:
        >>> iou_from_counts([[5, 1], [1, 3]])
        array([0.6])
    """
    both, first, second, common = _sizes(counts)
    return overlap_ratio(both, first + second - both, common)


class VolumeDifference(NamedTuple):
    """By foreground class, how much larger the second map is: in mm³ and relative."""

    mm3: Floats
    relative: Floats


def volume_difference(
    a: ArrayLike, b: ArrayLike, num_classes: int = 2, spacing: Spacing | None = None
) -> VolumeDifference:
    """Return the signed difference of volumes, `V_b - V_a`; positive where `b` is larger.

    With the truth first, a positive difference is a prediction that is too large; take `abs` for
    the absolute volume difference. The relative one is `2 (V_b - V_a) / (V_a + V_b)`, from -2 to
    2: unlike division by the truth's volume it exists where the truth is empty (then it is 2).
    Both empty: 0 and 0. No voxel labelled in both: NaN. In 2D mm3 is an area in mm².

    Example:
        >>> volume_difference([0, 1, 1, 1], [0, 0, 0, 1], spacing=[0.5])
        VolumeDifference(mm3=array([-1.]), relative=array([-1.]))
    """
    voxel = float(spacing_of(np.ndim(a), spacing).prod())
    return volume_from_counts(pair_counts(a, b, num_classes), voxel)


def volume_from_counts(counts: ArrayLike, voxel: float = 1.0) -> VolumeDifference:
    """Return `volume_difference` from joint counts, with the volume of a voxel in mm³.

    Example:
        >>> volume_from_counts([[5, 1], [3, 1]], voxel=0.5).mm3
        array([-1.])
    """
    _, first, second, common = _sizes(counts)
    more, total = second - first, first + second
    relative = 2 * np.divide(more, total, out=np.zeros(total.shape), where=total > 0)
    defined = common > 0
    return VolumeDifference(
        np.where(defined, more * voxel, UNDEFINED), np.where(defined, relative, UNDEFINED)
    )


def merged_counts(counts: ArrayLike, classes: Sequence[int]) -> Ints:
    """Return joint counts `(2, 2)` of the union of some classes and of all the rest.

    Example:
        >>> merged_counts([[5, 1, 0], [0, 2, 1], [0, 1, 4]], classes=[1, 2])  # 1 and 2 are one
        array([[5, 1],
               [0, 8]])
    """
    table = np.asarray(counts)
    inside = np.zeros(len(table), np.intp)
    inside[list(classes)] = 1
    merged = np.zeros((2, 2), np.int64)
    np.add.at(merged, (inside[:, None], inside), table)
    return merged


def _sizes(counts: ArrayLike) -> tuple[Ints, ...]:
    """Return, by foreground class, voxels in both, in the first, in the second; common ones."""
    table = np.asarray(counts)
    check_classes(table.shape[-1])
    both = np.diagonal(table, axis1=-2, axis2=-1)
    common = table.sum((-2, -1))[..., None]
    return both[..., 1:], table.sum(-1)[..., 1:], table.sum(-2)[..., 1:], common

"""How far two label maps agree: Dice, IoU, volumes, accuracy; and soft Dice of two maps.

All scores of labels come from one table of joint counts, `counts[i, j]` = number of voxels that are
class i in the first map and class j in the second. Voxels MISSING in either map are left out.
Counts may be added over cases before they are scored; then large cases weigh more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.core.arrays import Floats, Ints
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics.conventions import (
    UNDEFINED,
    Spacing,
    check_classes,
    defined_mean,
    label_pair,
    overlap_ratio,
    spacing_of,
)

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


def drawn_dice(counts: ArrayLike) -> Floats:
    """Return `dice_from_counts`, with NaN for classes that neither of the two maps has.

    Example:
        >>> drawn_dice([[5, 1, 0], [1, 3, 0], [0, 0, 0]])
        array([0.75,  nan])
    """
    table = np.asarray(counts)
    either = (table.sum(axis=-1) + table.sum(axis=-2))[..., 1:] > 0
    return np.where(either, dice_from_counts(table), UNDEFINED)


def iou_from_counts(counts: ArrayLike) -> Floats:
    """Return `iou` from joint counts `(..., classes, classes)`.

    Example:
        >>> iou_from_counts([[5, 1], [1, 3]])
        array([0.6])
    """
    both, first, second, common = _sizes(counts)
    return overlap_ratio(both, first + second - both, common)


def all_iou_from_counts(counts: ArrayLike) -> Floats:
    """Return the IoU of every class, background first, from joint counts `(classes, classes)`.

    As for natural scenes: of counts that were added over images, with background, and NaN for a
    class that is in neither map, so that a mean over the others skips it.

    Example:
        >>> all_iou_from_counts([[5, 1, 0], [1, 3, 0], [0, 0, 0]]).round(3)
        array([0.714, 0.6  ,   nan])
    """
    table = np.asarray(counts, np.float64)
    both = np.diagonal(table)
    union = table.sum(axis=0) + table.sum(axis=1) - both
    return np.asarray(np.divide(both, union, out=np.full(len(table), np.nan), where=union > 0))


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
    more = second - first
    total = first + second
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


THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The thresholds of the literature on several raters."""


def soft_dice(
    truth: ArrayLike, predicted: ArrayLike, thresholds: Sequence[float] = THRESHOLDS
) -> float:
    """Binarise both maps at each threshold, take Dice, and average over thresholds.

        mean_t  2 |A_t B_t| / (|A_t| + |B_t|)     with A_t = truth > t, B_t = predicted > t

    J. Wu et al., Multi-rater prism, section 5.2.2; W. Ji et al., Learning calibrated medical image
    segmentation via multi-rater agreement modeling, CVPR 2021. The comparison is strict (`>`): a
    truth of exactly 0.5, as from 2 of 4 raters, is background at 0.5.

    At a threshold where both maps are empty Dice is 1, where exactly one is, 0. Voxels that are
    NaN in either map (nobody labelled them) are left out; without any other the score is NaN.

    Args:
        truth: The probability of one class in each voxel, for example the mean of raters.
        predicted: The same as predicted.
        thresholds: Where to binarise.

    Example:
        >>> truth = [0.0, 0.25, 0.75, 1.0]
        >>> soft_dice(truth, truth)
        1.0
        >>> round(soft_dice(truth, [0.0, 0.0, 1.0, 1.0]), 3)  # sure where raters were not
        0.893
    """
    return float(soft_dice_from_counts(soft_counts(truth, predicted, thresholds)))


def soft_counts(
    truth: ArrayLike, predicted: ArrayLike, thresholds: Sequence[float] = THRESHOLDS
) -> Ints:
    """Return what `soft_dice` is made of, `(thresholds, 4)`; parts of an image add up.

    At each threshold: voxels above it in both maps, in the truth, in the prediction; and those
    that both maps know.

    Example:
        >>> soft_counts([0.0, 0.25, 0.75, float("nan")], [0.4, 0.4, 0.4, 0.4], [0.1, 0.5])
        array([[2, 2, 3, 3],
               [0, 1, 0, 3]])
    """
    first, second = _maps(truth, predicted)
    if not np.ndim(thresholds):
        raise RatersError(f"found the threshold {thresholds}, expected several: [{thresholds}]")
    known = ~(np.isnan(first) | np.isnan(second))
    if not known.all():
        first = first[known]
        second = second[known]
    above = ((first > float(t), second > float(t)) for t in thresholds)
    return np.array([[(a & b).sum(), a.sum(), b.sum(), first.size] for a, b in above], np.int64)


def soft_dice_from_counts(counts: ArrayLike) -> Floats:
    """Return `soft_dice` from counts `(..., thresholds, 4)`.

    Example:
        >>> soft_dice_from_counts([[2, 2, 3, 3], [0, 1, 0, 3]])
        array(0.4)
    """
    both, first, second, common = np.moveaxis(np.asarray(counts), -1, 0)
    return np.asarray(overlap_ratio(2 * both, first + second, common).mean(axis=-1))


def soft_dice_by_class(
    truth: ArrayLike, predicted: ArrayLike, thresholds: Sequence[float] = THRESHOLDS
) -> Floats:
    """Return `soft_dice` per foreground class of two maps `(classes, *space)`: `(classes - 1,)`.

    Example:
        >>> truth = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
        >>> soft_dice_by_class(truth, truth)
        array([1.])
    """
    first, second = _maps(truth, predicted)
    check_classes(len(first))
    pairs = zip(first[1:], second[1:], strict=True)
    return np.array([soft_dice(*pair, thresholds) for pair in pairs])


def _maps(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[np.floating], ...]:
    maps = tuple(np.asarray(given) for given in (truth, predicted))
    if maps[0].shape != maps[1].shape:
        raise RatersError(
            f"found maps of shapes {maps[0].shape} and {maps[1].shape}, expected the same shape"
        )
    # Floats keep their precision: a truth of 0.3 in single is not above 0.3, in double it would be.
    return tuple(m if m.dtype.kind == "f" else m.astype(np.float64) for m in maps)


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of labels that are right; those MISSING in either are left out.

    Nothing in common: NaN.

    Example:
        >>> accuracy([0, 1, 1, -1], [0, 1, 0, 0]).__round__(3)
        0.667
    """
    first, second = label_pair(truth, predicted)
    return defined_mean((first == second)[(first != MISSING) & (second != MISSING)]).mean


def balanced_accuracy(truth: ArrayLike, predicted: ArrayLike, num_classes: int) -> float:
    """Return the mean over true classes of the share that is right in each (mean recall).

    A class that the truth does not hold takes no part, as in scikit-learn. Labels MISSING in
    either are left out. Nothing in common: NaN. Guessing one of L true classes gives 1 / L.

    K. H. Brodersen et al., The balanced accuracy and its posterior distribution, ICPR 2010.

    Example:
        >>> balanced_accuracy([0, 0, 0, 1], [0, 0, 0, 0], num_classes=2)
        0.5
    """
    return balanced_accuracy_from_counts(pair_counts(truth, predicted, num_classes))


def balanced_accuracy_from_counts(counts: ArrayLike) -> float:
    """Return `balanced_accuracy` from joint counts `(classes, classes)`, rows by the truth.

    Example:
        >>> balanced_accuracy_from_counts([[3, 0], [1, 0]])
        0.5
    """
    table = np.asarray(counts)
    rows = table.sum(axis=1)
    held = rows > 0
    return defined_mean(np.diagonal(table)[held] / rows[held]).mean

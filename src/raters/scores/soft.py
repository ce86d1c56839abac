"""Soft Dice: how well a map of probabilities matches a soft truth, such as the raters' mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.arrays import Floats, Ints
from raters.errors import RatersError
from raters.scores.empty import overlap_ratio
from raters.scores.inputs import check_classes

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
    known = ~(np.isnan(first) | np.isnan(second))
    if not known.all():
        first, second = first[known], second[known]
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

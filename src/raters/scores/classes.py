"""How often class labels are right: accuracy, and accuracy with every class weighing the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from raters.scores.empty import defined_mean
from raters.scores.inputs import label_pair
from raters.scores.overlap import pair_counts
from raters.study.classes import MISSING


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

"""What methods that make masks from marks share: what is marked, and a mask as a fusion."""

from __future__ import annotations

import numpy as np

from raters.arrays import Array, Floats, Labels
from raters.fusion.result import Fusion
from raters.fusion.vote import vote
from raters.study.classes import MISSING


def marks_of(labels: Array, num_classes: int) -> Labels:
    """Return what raters marked: the class of most; MISSING where marks contradict, or are none.

    Example:
        >>> marks_of(np.array([[1, 1, 0, -1], [1, 0, 0, -1], [-1, -1, 1, -1]]), 2)
        array([ 1, -1,  0, -1], dtype=int16)
    """
    return vote(labels, num_classes, ties="undecided").labels


def as_fusion(mask: Array, num_classes: int) -> Fusion:
    """Return a mask as a fusion that is sure of it; all classes are alike where it is MISSING."""

    def soft(part: slice) -> Floats:
        numbers = np.arange(num_classes)[part].reshape(-1, *(1,) * mask.ndim)
        return np.where(mask == MISSING, 1 / num_classes, (mask == numbers).astype(np.float64))

    return Fusion(soft, mask.astype(np.int16), voxels=int((mask != MISSING).sum()))

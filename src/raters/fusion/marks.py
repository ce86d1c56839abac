"""What methods that make masks from marks share: what is marked, colours near it, a result."""

from __future__ import annotations

import warnings

import numpy as np

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import MISSING
from raters.fusion._vote import vote
from raters.fusion.result import Fusion


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


CLUSTERS = 64
_MOST = 5000


def centres_of(colours: Array, number: int = CLUSTERS) -> Floats:
    """Return the colours that k-means represents others by; all of them if they are few.

    Example:
        >>> centres_of(np.array([[1.0], [2.0], [1.0]]))
        array([[1.],
               [2.]])
    """
    from scipy.cluster.vq import kmeans2

    different = np.unique(colours, axis=0)
    if len(different) <= number:
        return np.asarray(different, np.float64)
    random = np.random.default_rng(0)
    chosen = colours[random.permutation(len(colours))[:_MOST]].astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster stays where it was
        centres, _ = kmeans2(chosen, number, minit="++", rng=random)
    return np.asarray(centres, np.float64)


def distances(colours: Array, marks: Array, num_classes: int, of: Array) -> Floats:
    """Return how far colours are from the nearest colour marked as each class.

    Args:
        colours: Colours of what is marked, `(n, channels)`.
        marks: The class of each of them, `(n,)`, or MISSING.
        num_classes: The number of classes.
        of: Other colours, `(m, channels)`.

    Returns:
        `(m, L)`; infinite for classes that nothing is marked as.

    Example:
        >>> colours, marks = np.array([[0.0], [1.0], [5.0]]), np.array([0, 1, 1])
        >>> distances(colours, marks, 3, np.array([[4.0]]))
        array([[ 4.,  1., inf]])
    """
    from scipy.spatial import cKDTree

    found = np.full((len(of), num_classes), np.inf)
    for number in range(num_classes):
        marked = colours[marks == number]
        if len(marked):
            found[:, number] = cKDTree(centres_of(marked)).query(of)[0]
    return found

"""Cuts: from class probabilities to labels, at operating points other than the largest.

With two classes the foreground is where `p > cut`, and 0.5 is the largest class. With several a
class `c` wins if its odds against the background, weighed by those of its cut, are the largest:

    label = argmax_c  w_c p_c     with  w_0 = 1  and  w_c = (1 - cut_c) / cut_c

For two classes this is `p > cut`; with 0.5 everywhere it is argmax, to the bit. A lower cut gives a
class more voxels. (It is Bayes' decision where missing a class costs w_c times as much as drawing
it wrongly.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Floats, Labels
from raters.core.errors import RatersError
from raters.metrics.conventions import check_classes

Cut = float | Sequence[float] | Floats
"""One cut for all foreground classes, or one for each."""


def cut_labels(probabilities: ArrayLike, cut: Cut = 0.5) -> Labels:
    """Return the label of each voxel at a cut, or at one cut for each foreground class.

    Equal scores go to the lower class, as in argmax: `p` has to be above the cut.

    Args:
        probabilities: `(classes, *space)`.
        cut: Above 0 and below 1; one number, or `(classes - 1,)`.

    Returns:
        `(*space)`.

    Example:
        >>> foreground = np.array([0.2, 0.4, 0.6])
        >>> both = np.stack([1 - foreground, foreground])
        >>> cut_labels(both)
        array([0, 0, 1], dtype=int16)
        >>> cut_labels(both, 0.35)
        array([0, 1, 1], dtype=int16)
    """
    found = probability_array(probabilities)
    cuts = cuts_of(cut, len(found))
    if (cuts == 0.5).all():
        return np.asarray(found.argmax(axis=0), np.int16)
    if len(found) == 2:
        return np.asarray(found[1] > cuts[0], np.int16)
    return np.asarray(_weighed(found, cuts).argmax(axis=0), np.int16)


def _weighed(found: Array, cuts: Floats) -> Array:
    """Return `w_c p_c`, of which the largest wins."""
    if (cuts == 0.5).all():
        return found
    weights = np.concatenate([[1.0], (1 - cuts) / cuts])
    if found.dtype.itemsize > 2:  # half floats cannot hold the weight of a small cut
        weights = weights.astype(found.dtype)
    return np.asarray(found * weights.reshape(-1, *(1,) * (found.ndim - 1)))


def winning_cut(probabilities: ArrayLike, around: Cut = 0.5) -> Array:
    """Return the cut below which each foreground class wins, the others being cut as given.

        r_c = p_c / (p_c + max of the other classes' w p)

    With two classes this is the foreground's probability.

    Args:
        probabilities: `(classes, *space)`.
        around: The cuts of the others, as in `cut_labels`.

    Returns:
        `(classes - 1, *space)`.

    Example:
        >>> winning_cut([0.5, 0.25, 0.25]).round(2)
        array([0.33, 0.33])
    """
    found = probability_array(probabilities)
    return found[1:] if len(found) == 2 else won_and_rival(found, around)[0]


def won_and_rival(found: Array, around: Cut) -> tuple[Array, Labels]:
    """Return `winning_cut`, and the class that wins above it: both `(classes - 1, *space)`."""
    weighed = _weighed(found, cuts_of(around, len(found)))
    rivals = []
    who = []
    for c in range(1, len(found)):
        others = np.delete(weighed, c, axis=0)
        first = others.argmax(axis=0)
        rivals.append(others.max(axis=0))
        who.append(first + (first >= c))
    own = found[1:]
    total = own + np.stack(rivals)
    won = np.divide(own, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(won), np.stack(who).astype(np.int16)


def cuts_of(cut: Cut, num_classes: int) -> Floats:
    """Return one cut for each foreground class; reject what is not above 0 and below 1.

    Example:
        >>> cuts_of(0.3, num_classes=3)
        array([0.3, 0.3])
        >>> cuts_of([0.3, 1.5], num_classes=3)
        Traceback (most recent call last):
        raters.core.errors.RatersError: found the cut 1.5, expected a number above 0 and below 1
    """
    check_classes(num_classes)
    given = np.asarray(cut, np.float64)
    if given.ndim and given.shape != (num_classes - 1,):
        raise RatersError(
            f"found {given.size} cuts, expected one, or {num_classes - 1}: one per foreground class"
        )
    bad = given[~((given > 0) & (given < 1))]
    if bad.size:
        raise RatersError(
            f"found the cut {float(bad.flat[0]):g}, expected a number above 0 and below 1"
        )
    return np.broadcast_to(given, (num_classes - 1,)).copy()


def probability_array(given: ArrayLike) -> Array:
    """Return probabilities as an array of floats, whose first axis must be two classes or more."""
    found = np.asarray(given)
    found = found if found.dtype.kind == "f" else found.astype(np.float64)
    check_classes(len(found))
    return found

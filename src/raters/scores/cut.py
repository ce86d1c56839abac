"""Cuts: from class probabilities to labels, at operating points other than the largest.

With two classes the foreground is where `p > cut`, and 0.5 is the largest class. With several a
class `c` wins if its odds against the background, weighed by those of its cut, are the largest:

    label = argmax_c  w_c p_c     with  w_0 = 1  and  w_c = (1 - cut_c) / cut_c

For two classes this is `p > cut`; with 0.5 everywhere it is argmax, to the bit. A lower cut gives a
class more voxels. (It is Bayes' decision where missing a class costs w_c times as much as drawing
it wrongly.)

Where fewer than half of the raters mark an object, a network that learnt their vote or their mean
says 0.4 there and 0.5 erases the object, although the network has found it. Two networks are to be
compared at cuts that suit each of them, see `raters.scores.choose_cut`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.scores.inputs import check_classes

Cut = float | Sequence[float] | NDArray[np.float64]
"""One cut for all foreground classes, or one for each."""


def cut_labels(probabilities: ArrayLike, cut: Cut = 0.5) -> NDArray[np.int16]:
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
    found = _probabilities(probabilities)
    cuts = cuts_of(cut, len(found))
    if (cuts == 0.5).all():
        return np.asarray(found.argmax(axis=0), np.int16)
    if len(found) == 2:
        return np.asarray(found[1] > cuts[0], np.int16)
    weights = np.concatenate([[1.0], (1 - cuts) / cuts])
    if found.dtype.itemsize > 2:  # half floats cannot hold the weight of a small cut
        weights = weights.astype(found.dtype)
    weighed = found * weights.reshape(-1, *(1,) * (found.ndim - 1))
    return np.asarray(weighed.argmax(axis=0), np.int16)


def winning_cut(probabilities: ArrayLike) -> NDArray[Any]:
    """Return the cut below which each foreground class wins, the others being cut at 0.5.

        r_c = p_c / (p_c + max of the other classes' p)

    With two classes this is the foreground's probability.

    Args:
        probabilities: `(classes, *space)`.

    Returns:
        `(classes - 1, *space)`.

    Example:
        >>> winning_cut([0.5, 0.25, 0.25]).round(2)
        array([0.33, 0.33])
    """
    found = _probabilities(probabilities)
    if len(found) == 2:
        return found[1:]
    others = [np.delete(found, c, axis=0).max(axis=0) for c in range(1, len(found))]
    own, rivals = found[1:], np.stack(others)
    total = own + rivals
    return np.asarray(np.divide(own, total, out=np.zeros_like(total), where=total > 0))


def cuts_of(cut: Cut, num_classes: int) -> NDArray[np.float64]:
    """Return one cut for each foreground class; reject what is not above 0 and below 1.

    Example:
        >>> cuts_of(0.3, num_classes=3)
        array([0.3, 0.3])
        >>> cuts_of([0.3, 1.5], num_classes=3)
        Traceback (most recent call last):
        raters.errors.RatersError: found the cut 1.5, expected a number above 0 and below 1
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


def _probabilities(given: ArrayLike) -> NDArray[Any]:
    found = np.asarray(given)
    found = found if found.dtype.kind == "f" else found.astype(np.float64)
    check_classes(len(found))
    return found

"""The generalised energy distance: do samples of a model vary as the raters do?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.scores.empty import defined_mean
from raters.scores.inputs import check_choice
from raters.scores.pairwise import overlap_matrix

Distance = str | Callable[[NDArray[Any], NDArray[Any]], float]


def energy_distance(
    raters: ArrayLike,
    samples: ArrayLike,
    num_classes: int = 2,
    distance: Distance = "iou",
    form: str = "v",
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
    return energy_from_distances(between, within_raters, within_samples, form, root)


def energy_from_distances(
    between: ArrayLike,
    within_a: ArrayLike,
    within_b: ArrayLike,
    form: str = "v",
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


def _within(matrix: NDArray[np.float64], form: str) -> float:
    """Average over pairs of one set: all of them (V), or those of different masks (U)."""
    pairs = matrix if form == "v" else matrix[~np.eye(len(matrix), dtype=bool)]
    return defined_mean(pairs).mean


def _distances(
    a: ArrayLike, b: ArrayLike, num_classes: int, distance: Distance
) -> NDArray[np.float64]:
    if callable(distance):
        return np.array([[distance(x, y) for y in np.asarray(b)] for x in np.asarray(a)])
    check_choice("distance", distance, ("iou", "dice"))
    return 1.0 - overlap_matrix(a, b, num_classes, distance)

"""How far estimated confusion is from the true one: rows of true classes, classes weighing alike.

Only rows of the true class are compared: what a rater would say of a class that is not there is
never observed. Joint matrices (counts over all labels) are not compared with conditional ones.
"""

from __future__ import annotations

import numpy as np

from raters.arrays import Array, Flags, Floats
from raters.errors import RatersError


def root_mean_square(estimated: Array, true: Array, truth: Array | None = None) -> float:
    """Return the root mean square error over entries, as pixel-cm's 'CM estimation'.

    `sqrt(mean_t mean_o (E[t, o] - C[t, o])^2)`, over all leading axes (raters). Rows that are NaN
    in `true` (a class that never occurred) are left out. Zhang et al. (2020, "Disentangling Human
    Error from the Ground Truth in Segmentation of Medical Images").

    Args:
        estimated: `(..., L, L)`, or `(..., L, L, *space)` with `truth`.
        true: The same shape, or axes of length 1 where it does not vary.
        truth: Class numbers `(*space)`: at each pixel the row of its true class is compared, and
            classes weigh alike however many pixels they have.

    Example:
        >>> root_mean_square(np.array([[0.8, 0.2], [0.5, 0.5]]), np.eye(2))
        0.380788...
    """
    return float(np.sqrt(_mean_over_rows(_squares(estimated, true, truth, "mean"))))


def squared_frobenius(estimated: Array, true: Array, truth: Array | None = None) -> float:
    """Return the squared Frobenius norm divided by the number of classes, as in global-cm.

    `1/L sum_t sum_o (E[t, o] - C[t, o])^2`, averaged over leading axes (raters); from 0 to 2.
    Tanno et al. (2019) report it in units of 10^-2. The arguments are those of `root_mean_square`.

    Example:
        >>> squared_frobenius(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2))
        2.0
    """
    return float(_mean_over_rows(_squares(estimated, true, truth, "sum")))


def _squares(estimated: Array, true: Array, truth: Array | None, over: str) -> Floats:
    """Return the squared error of each row `(..., L)`, NaN where the true class never occurred."""
    _refuse(estimated, true, truth)
    axis = -1 if truth is None else -truth.ndim - 1  # the observed class, before the spatial axes
    square = (np.asarray(estimated, np.float64) - true) ** 2
    rows = np.asarray(square.sum(axis=axis) if over == "sum" else square.mean(axis=axis))
    if truth is None:
        return rows
    by_class = [
        _mean_where(np.take(rows, t, axis=axis), truth == t) for t in range(rows.shape[axis])
    ]
    return np.stack(by_class, axis=-1)


def _refuse(estimated: Array, true: Array, truth: Array | None) -> None:
    """Reject shapes that do not fit, and estimates that are no numbers where the truth is one."""
    space = () if truth is None else truth.shape
    end = estimated.ndim - len(space)
    matrix, own = estimated.shape[end - 2 : end], estimated.shape[end:]
    fits = len(matrix) == 2 and matrix[0] == matrix[1] and true.ndim >= len(space) + 2
    fits = fits and true.shape[true.ndim - len(space) - 2 : true.ndim - len(space)] == matrix
    if not fits or not all(n in (1, m) for n, m in zip(own, space, strict=True)):
        raise RatersError(
            f"found matrices of shape {estimated.shape}, expected (..., L, L, *space) with "
            f"space {space} and matrices as in {true.shape}"
        )
    if (np.isnan(estimated) & ~np.isnan(true)).any():
        raise RatersError("found an estimate that is not a number, expected probabilities")


def _mean_where(values: Array, where: Flags) -> Array:
    space = tuple(range(-where.ndim, 0))
    full = np.broadcast_to(values, (*values.shape[: values.ndim - where.ndim], *where.shape))
    number = where.sum()
    total = np.where(where, full, 0).sum(axis=space)
    return np.asarray(total / number if number else np.full(total.shape, np.nan))


def _mean_over_rows(rows: Floats) -> np.float64:
    """Average over classes and then over raters, leaving out classes that never occurred."""
    seen = ~np.isnan(rows)
    if not seen.any():
        raise RatersError("found no class that occurs in the truth, expected at least one")
    number = seen.sum(axis=-1)
    means = np.where(seen, rows, 0).sum(axis=-1) / np.maximum(number, 1)
    return np.float64(means[number > 0].mean())

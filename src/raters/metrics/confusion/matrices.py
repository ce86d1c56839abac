"""Measures of matrices (error, column dominance), and orders of other libraries and the papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Flags, Floats, mean_known
from raters.core.errors import RatersError
from raters.metrics.confusion.counts import normalise

if TYPE_CHECKING:
    import pandas as pd


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
    matrix = estimated.shape[end - 2 : end]
    own = estimated.shape[end:]
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


def matrix_skills(matrices: ArrayLike) -> Floats:
    """Return the mean of the diagonal of matrices `(raters, L, L)`: the balanced accuracy.

    All classes that are known count alike, the background of masks too: a rater who draws far too
    much of a small object still scores high. NaN where no class is known.

    Example:
        >>> matrix_skills([[[0.9, 0.1], [0.3, 0.7]]])
        array([0.8])
    """
    array = np.asarray(matrices, np.float64)
    if array.ndim != 3 or array.shape[1] != array.shape[2] or not array.size:
        raise RatersError(f"found matrices of shape {array.shape}, expected (raters, L, L)")
    return mean_known(np.einsum("rll->rl", array), axis=1)


def dominance_margin(confusion: Array, labels: ArrayLike | None = None) -> float:
    """Return how far the mean matrix is from losing column dominance; positive if it has it.

    With `C*` the mean over raters, the margin is `min_{i != j} C*[i, i] - C*[j, i]`: among the
    labels `i`, those of true class `i` must be more frequent than those of any other true class
    `j` (classes weighing alike). This is a condition of Theorem 1 in Tanno et al. (2019,
    "Learning From Noisy Labels By Regularized Estimation Of Annotator Confusion") and in Zhang et
    al. (2020, "Disentangling Human Error from the Ground Truth in Segmentation of Medical
    Images"), who write it by rows of the transposed matrix. The former weigh raters alike, as each
    labels equally often there; the latter by how often each labels (their pi_r).

    It is asked of the true matrices and of the estimated ones, and does not suffice alone: the
    theorem also asks that a network on the images fits every rater, and for the smallest trace. An
    estimate in which truth and error are swapped for all raters alike can be dominant too.

    Args:
        confusion: `(raters, L, L)` or one matrix `(L, L)`, `C[t, o]`.
        labels: How many labels each rater gave, `(raters,)`: their weights; None weighs them
            alike. Raters without a label count nowhere.

    Example:
        >>> dominance_margin(np.array([[0.6, 0.4], [0.3, 0.7]]))
        0.3
        >>> flipper = np.array([[0.3, 0.7], [0.7, 0.3]])
        >>> dominance_margin(np.stack([flipper, np.eye(2)]), labels=[30, 10])
        -0.05
    """
    every = np.asarray(confusion, np.float64).reshape(-1, *confusion.shape[-2:])
    weights = np.ones(len(every)) if labels is None else np.asarray(labels, np.float64)
    there = weights > 0  # a rater who never labels may have no matrix at all (NaN)
    if not there.any():
        return float("nan")
    mean = np.average(every[there], axis=0, weights=weights[there])
    if len(mean) == 1:
        return float(mean[0, 0])
    others = np.where(np.eye(len(mean), dtype=bool), -np.inf, mean)
    return float(round((np.diag(mean) - others.max(axis=0)).min(), 12))


def is_dominant(confusion: Array) -> bool:
    """Return whether the raters' mean matrix is column-dominant.

    Example:
        >>> flipper = np.array([[0.3, 0.7], [0.7, 0.3]])
        >>> is_dominant(flipper), is_dominant(np.stack([flipper, np.eye(2)]))
        (False, True)
    """
    return dominance_margin(confusion) > 0


def from_transpose(matrices: Array) -> Array:
    """Turn the papers' `A[o, t]` into `C[t, o]`.

    Example:
        >>> from_transpose(np.array([[0.9, 0.2], [0.1, 0.8]]))
        array([[0.9, 0.1],
               [0.2, 0.8]])
    """
    return np.swapaxes(matrices, -1, -2)


to_transpose = from_transpose


def from_sklearn(counts: Array) -> Floats:
    """Turn `sklearn.metrics.confusion_matrix(truth, observed)` into `C[t, o]`.

    Example:
        >>> from_sklearn(np.array([[9, 1], [2, 8]]))
        array([[0.9, 0.1],
               [0.2, 0.8]])
    """
    return normalise(counts)


def from_crowdkit(errors: pd.DataFrame, workers: Sequence[Any], labels: Sequence[Any]) -> Floats:
    """Turn crowd-kit's `DawidSkene.errors_` into `(raters, L, L)`.

    A label that crowd-kit never saw of a worker has no row there; its probability is 0.

    Args:
        errors: Rows (worker, observed label), columns true label.
        workers: The workers, in the order wanted.
        labels: The labels, in the order wanted.
    """
    whole = errors.reindex(
        index=[(worker, label) for worker in workers for label in labels], columns=list(labels)
    )
    observed_by_true = whole.fillna(0.0).to_numpy(np.float64)
    return from_transpose(observed_by_true.reshape(len(workers), len(labels), len(labels)))


def to_crowdkit(confusion: Array, workers: Sequence[Any], labels: Sequence[Any]) -> pd.DataFrame:
    """Turn `(raters, L, L)` into a DataFrame as crowd-kit's `DawidSkene.errors_`."""
    import pandas as pd

    index = pd.MultiIndex.from_product([list(workers), list(labels)], names=["worker", "label"])
    rows = to_transpose(confusion).reshape(len(workers) * len(labels), len(labels))
    return pd.DataFrame(rows, index=index, columns=pd.Index(labels))


def from_itk(flat: Sequence[float] | Array, num_classes: int) -> Floats:
    """Turn one rater's matrix of ITK's multi-label STAPLE into `C[t, o]`.

    ITK keeps a row for 'undecided' after those of the labels; it is dropped and the rest made to
    sum to one again.

    Args:
        flat: `MultiLabelSTAPLEImageFilter.GetConfusionMatrix(rater)`, `(L + 1) * L` numbers.
        num_classes: The number of labels `L`.
    """
    values = np.asarray(flat, np.float64)
    if values.size != (num_classes + 1) * num_classes:
        raise RatersError(
            f"found {values.size} numbers, expected {(num_classes + 1) * num_classes} for "
            f"{num_classes} classes"
        )
    return normalise(from_transpose(values.reshape(num_classes + 1, num_classes)[:num_classes]))

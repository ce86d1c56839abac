"""Matrices of other libraries and of the papers, turned into ours and back.

| whose | shape and order |
| --- | --- |
| ours, scikit-learn | `C[t, o]`; scikit-learn's `confusion_matrix` counts |
| the papers (pixel-cm, global-cm) | `A[o, t]`, columns sum to one |
| crowd-kit's `DawidSkene.errors_` | a DataFrame: rows (worker, observed), columns true |
| ITK's multi-label STAPLE | `(L + 1) x L` by rater: observed (and 'undecided') by true |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.arrays import Array, Floats
from raters.confusion.counts import normalise
from raters.errors import RatersError

if TYPE_CHECKING:
    import pandas as pd


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

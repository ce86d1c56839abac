"""How far each rater can be trusted: sensitivity, specificity and predictive values, with errors.

Of a class `t`, with the matrices `C_r` and the prior `pi`:

    sensitivity   p(says t | is t)           C[t, t]
    specificity   p(says other | is other)   1 - sum_{s != t} pi_s C[s, t] / (1 - pi_t)
    ppv           p(is t | says t)           pi_t C[t, t] / sum_s pi_s C[s, t]
    npv           p(is other | says other)   likewise for all other classes together

Standard errors come from the observed information of the labels (Louis, 1982): the curvature of the
log-likelihood, in which the truth is summed out, and not that of counts with a known truth, which
would be too sure. Predictive values follow by the delta method. Voxels are taken as independent:
neighbours are not, so these errors are a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from raters.fusion.columns import Columns
from raters.fusion.em import EMState, posteriors
from raters.rows import Row
from raters.study.classes import MISSING

MEASURES = ("sensitivity", "specificity", "ppv", "npv")
_MOST_PARAMETERS = 400
_HALF_A_LABEL = 0.5
_SMALLEST = 1e-12
_STEP = 1e-6


def measures(confusion: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give sensitivity, specificity, PPV and NPV of each class, `(4, L)`, from one matrix.

    NaN where a value does not exist: nobody ever says the class, or the prior leaves it out.

    Example:
        >>> measures(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5]))[:, 1].round(3)
        array([0.8  , 0.9  , 0.889, 0.818])
    """
    joint = prior[:, np.newaxis] * confusion
    right, is_class, says = np.diag(joint), prior, joint.sum(axis=0)
    total = prior.sum()
    neither = total - is_class - says + right
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.stack(
            [
                np.where(is_class > 0, np.diag(confusion), np.nan),
                neither / (total - is_class),
                right / says,
                neither / (total - says),
            ]
        )
    return np.where(np.isfinite(values), values, np.nan)


def covariance(columns: Columns, state: EMState) -> NDArray[np.float64] | None:
    """Give the covariance of all entries of the matrices, `(K, K)` with `K = R L L`.

    The inverse of the observed information within the directions in which rows still sum to one
    and no entry moves that rests on less than half a label. None if there are too many
    parameters for it, or where the labels do not tell all matrices apart (two raters, say).
    """
    raters, classes = state.confusion.shape[:2]
    if raters * classes * classes > _MOST_PARAMETERS or state.prior.shape[1] > 1:
        return None
    kept = np.broadcast_to(columns.weights, columns.size) > 0
    labels = columns.labels[:, kept]
    weights = np.broadcast_to(columns.weights, columns.size)[kept]
    used = Columns(labels, weights)
    truth = posteriors(used, state).astype(np.float64)
    basis = _directions(state.confusion, row_counts(used, truth))
    if basis.shape[1] == 0:
        return None
    inside = basis.T @ _information(used, state, truth) @ basis
    strengths = np.linalg.eigvalsh(inside)
    if strengths[0] <= 1e-10 * strengths[-1]:  # the labels do not tell all matrices apart
        return None
    return np.asarray(basis @ np.linalg.inv(inside) @ basis.T)


def row_counts(columns: Columns, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give how many labels each rater gave of each true class, as expected, `(raters, L)`."""
    weights = np.broadcast_to(columns.weights, columns.size) * truth
    return np.stack([weights[:, row != MISSING].sum(axis=1) for row in columns.labels])


def _information(
    columns: Columns, state: EMState, truth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Give minus the second derivative of the log-likelihood by the entries `C_r[t, o]`.

    With `a = [o_r = o] / C_r[t, o]` and the score `s = w(t) a`: `I = sum_i n_i (s s' - cross)`,
    where `cross` is `w(t) a a'` for two raters of one true class and 0 within a rater.
    """
    raters, classes = state.confusion.shape[:2]
    size = raters * classes  # entries of one true class: rater and observed label
    total = np.zeros((classes, size, classes, size))
    for first in range(0, columns.size, 4096):
        part = slice(first, first + 4096)
        scores = []
        weight = columns.weights[part]
        for t in range(classes):
            ratio = _ratios(columns.labels[:, part], state.confusion[:, t])
            cross = (ratio * (weight * truth[t, part])) @ ratio.T
            for r in range(raters):
                block = slice(r * classes, (r + 1) * classes)
                cross[block, block] = 0
            total[t, :, t] -= cross
            scores.append(ratio * truth[t, part])
        every = np.concatenate(scores)
        total += ((every * weight) @ every.T).reshape(classes, size, classes, size)
    order = total.reshape(classes, raters, classes, classes, raters, classes)
    return np.asarray(order.transpose(1, 0, 2, 4, 3, 5).reshape((raters * classes**2,) * 2))


def _ratios(labels: NDArray[np.int16], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give `[o_r = o] / C_r[t, o]` of one true class, `(raters * L, columns)`."""
    raters, classes = rows.shape
    same = labels[:, np.newaxis] == np.arange(classes)[:, np.newaxis]
    ratios = same / np.maximum(rows, _SMALLEST)[..., np.newaxis]
    return np.asarray(ratios.reshape(raters * classes, -1))


def _directions(confusion: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give a basis of the directions in which all rows sum to one and zeros stay."""
    expected = (confusion * counts[..., np.newaxis]).reshape(-1, confusion.shape[2])
    raters, classes = confusion.shape[:2]
    columns = []
    for k in range(raters * classes):
        free = np.flatnonzero(expected[k] > _HALF_A_LABEL)
        for o in free[1:]:
            direction = np.zeros(raters * classes * classes)
            direction[k * classes + free[0]], direction[k * classes + o] = -1, 1
            columns.append(direction)
    size = raters * classes * classes
    return np.array(columns).T if columns else np.zeros((size, 0))


def standard_errors(
    confusion: NDArray[np.float64],
    prior: NDArray[np.float64],
    of_entries: NDArray[np.float64],
    function: Callable[..., NDArray[np.float64]] = measures,
) -> NDArray[np.float64]:
    """Give the standard errors of `measures` of one rater by the delta method.

    Args:
        confusion: The rater's matrix `(L, L)`.
        prior: The share of each class.
        of_entries: The covariance of the matrix's entries, `(L L, L L)`.
        function: What to give the errors of.
    """
    base = function(confusion, prior)
    gradient = []
    for k in range(confusion.size):
        moved = confusion.copy().ravel()
        moved[k] += _STEP
        gradient.append((function(moved.reshape(confusion.shape), prior) - base) / _STEP)
    slope = np.stack(gradient, axis=-1)
    variance = np.einsum("...i,ij,...j->...", slope, of_entries, slope)
    # An entry at 0 (or a rater who never gave it) has no error, which is not an error of 0.
    return np.asarray(np.sqrt(np.where(variance > 1e-18, variance, np.nan)))


def performance_rows(
    raters: tuple[str, ...],
    classes: tuple[str, ...],
    confusion: NDArray[np.float64],
    prior: NDArray[np.float64],
    of_entries: NDArray[np.float64] | None,
    counts: NDArray[np.float64] | None = None,
) -> list[Row]:
    """Give a row a rater and class with its measures and their standard errors.

    A rater without any label (by `counts`, `(raters, L)`) has no measures.
    """
    rows: list[Row] = []
    size = len(classes) ** 2
    for r, rater in enumerate(raters):
        silent = counts is not None and counts[r].sum() < _HALF_A_LABEL
        values = measures(np.full_like(confusion[r], np.nan) if silent else confusion[r], prior)
        errors = np.full_like(values, np.nan)
        if of_entries is not None and not silent:
            own = slice(r * size, (r + 1) * size)
            errors = standard_errors(confusion[r], prior, of_entries[own, own])
        for c, name in enumerate(classes):
            row: Row = {"rater": rater, "class": name}
            for m, measure in enumerate(MEASURES):
                row[measure], row[f"{measure}_se"] = float(values[m, c]), float(errors[m, c])
            rows.append({k: None if v != v else v for k, v in row.items()})
    return rows

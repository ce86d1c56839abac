"""Do probabilities mean what they say? Calibration error, Brier score and log-likelihood.

Probabilities are `(classes, *space)`, or `(classes, n)` for n tasks; labels are `(*space)`, and
those that are MISSING are left out. Without any label all scores here are undefined (NaN).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Array, Flags, Floats, Ints
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.io.rows import Row
from raters.metrics.conventions import UNDEFINED, defined_mean, label_array

LEAST = float(np.finfo(np.float32).eps)
"""Smaller probabilities of labels count as this: one certain error costs 16 nats, not infinity."""
_SUM_TOLERANCE = 1e-2  # half precision with many classes is about as far from 1


class ReliabilityCurve(NamedTuple):
    """By bin of confidence: the mean confidence, how often the guess was right, how many."""

    confidence: Floats
    accuracy: Floats
    counts: Ints


def reliability_curve(
    labels: ArrayLike, probabilities: ArrayLike, bins: int = 15
) -> ReliabilityCurve:
    """Compare how sure the most likely class is with how often it is right.

    The bins of the top probability are of equal width, `((k - 1) / bins, k / bins]`. The first of
    equally likely classes is the guess. Empty bins have count 0 and NaN.

    Example:
        >>> reliability_curve([0, 1, 1, 0], [[0.9, 0.9, 0.2, 0.6], [0.1, 0.1, 0.8, 0.4]], bins=2)
        ReliabilityCurve(confidence=array([nan, 0.8]), accuracy=array([ nan, 0.75]),
                         counts=array([0, 4]))
    """
    top, right, counts = reliability_sums(labels, probabilities, bins)
    confidence, accuracy = (
        np.divide(total, counts, out=np.full(bins, UNDEFINED), where=counts > 0)
        for total in (top, right)
    )
    return ReliabilityCurve(confidence, accuracy, counts.astype(np.int64))


def reliability_of(rows: Sequence[Row]) -> ReliabilityCurve:
    """Turn the bins of `Evaluation.reliability` into a curve.

    Example:
        >>> reliability_of([{"labels": 2, "confidence": 0.6, "accuracy": 0.5}]).counts.tolist()
        [2]
    """
    names = ("confidence", "accuracy", "labels")
    confidence, accuracy, counts = (np.array([r[n] for r in rows], np.float64) for n in names)
    return ReliabilityCurve(confidence, accuracy, counts.astype(np.int64))


def reliability_sums(labels: ArrayLike, probabilities: ArrayLike, bins: int = 15) -> Floats:
    """Return what `reliability_curve` divides, `(3, bins)`: summed confidence, right, how many.

    Sums of cases can be added, so that no more than one case has to be in memory.

    Example:
        >>> reliability_sums([0, 1, 1, 0], [[0.9, 0.9, 0.2, 0.6], [0.1, 0.1, 0.8, 0.4]], bins=2)
        array([[0. , 3.2],
               [0. , 3. ],
               [0. , 4. ]])
    """
    if bins < 1:
        raise RatersError(f"found {bins} bins, expected at least 1")
    truth, given = _observed(labels, probabilities)
    top = given.max(axis=0, initial=0.0)
    right = (given.argmax(axis=0) == truth).astype(np.float64)
    place = np.clip(np.ceil(top * bins).astype(np.intp) - 1, 0, bins - 1)
    parts = (top, right, np.ones(len(top)))
    return np.stack([np.bincount(place, part, minlength=bins) for part in parts])


def calibration_error_from_sums(sums: ArrayLike) -> Floats:
    """Return `calibration_error` from sums `(..., 3, bins)`; NaN where there is no label.

    Example:
        >>> sums = reliability_sums([0, 1], [[0.8, 0.8], [0.2, 0.2]])
        >>> float(calibration_error_from_sums(sums).round(3))
        0.3
    """
    table = np.asarray(sums, np.float64)
    gap = np.abs(table[..., 1, :] - table[..., 0, :]).sum(axis=-1)
    number = table[..., 2, :].sum(axis=-1)
    error = np.divide(gap, number, out=np.full(number.shape, UNDEFINED), where=number > 0)
    return np.asarray(error)


def calibration_error(labels: ArrayLike, probabilities: ArrayLike, bins: int = 15) -> float:
    """Return the expected calibration error (ECE) of the top label, over bins of equal width.

        sum_b  n_b / n  |accuracy_b - confidence_b|

    M. P. Naeini et al., Obtaining well calibrated probabilities using Bayesian binning, AAAI 2015;
    C. Guo et al., On calibration of modern neural networks, ICML 2017. From 0 (best) to 1. It is
    biased upwards where bins hold few labels.

    Example:
        >>> round(calibration_error([0, 1], [[0.8, 0.8], [0.2, 0.2]]), 3)  # half right, not 80 %
        0.3
    """
    return float(calibration_error_from_sums(reliability_sums(labels, probabilities, bins)))


def brier(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the Brier score: the squared error summed over classes, averaged over labels.

        mean_i  sum_c (p_ic - [y_i = c])²

    G. W. Brier, Verification of forecasts expressed in terms of probability, 1950; from 0 (best)
    to 2. For two classes the usual `mean (p_i1 - y_i)²` is half of this.

    Example:
        >>> round(brier([0, 1], [[0.8, 0.8], [0.2, 0.2]]), 3)
        0.68
    """
    truth, given = _observed(labels, probabilities)
    at_label = _at(truth, given)
    # sum_c (p_c - [y = c])² = sum_c p_c² - 2 p_y + 1, and no one-hot array is needed
    return defined_mean(np.einsum("cn,cn->n", given, given) - 2 * at_label + 1).mean


def negative_log_likelihood(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean of `-log p(label)` in nats; 0 is best.

    A probability below the precision of its type (2.2e-16 in double) counts as that, as in
    scikit-learn, so that one certain error costs 36 and not infinity.

    Example:
        >>> round(negative_log_likelihood([0, 1], [[0.8, 0.8], [0.2, 0.2]]), 3)
        0.916
    """
    least = np.finfo(np.result_type(np.asarray(probabilities).dtype, np.float16)).eps
    at_label = _at(*_observed(labels, probabilities))
    return defined_mean(-np.log(np.maximum(at_label, least))).mean


def _at(labels: Array, probabilities: Floats) -> Floats:
    return np.asarray(probabilities[labels, np.arange(labels.size)])


def _observed(labels: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Floats]:
    """Return the labels that are not MISSING, `(n,)`, and their probabilities, `(classes, n)`."""
    given = np.asarray(probabilities)
    classes = given.shape[0] if given.ndim else 0
    truth = label_array(labels, classes)
    if given.shape != (classes, *truth.shape):
        raise RatersError(
            f"found probabilities of shape {given.shape} for labels of shape {truth.shape}, "
            f"expected (classes, {', '.join(map(str, truth.shape))})"
        )
    kept = truth != MISSING
    chosen = given[:, kept].astype(np.float64)
    check_probabilities(chosen)
    return truth[kept], chosen


def check_probabilities(given: Floats) -> None:
    """Reject logits, percentages and the like."""
    total = given.sum(axis=0)
    wrong = ~(np.abs(total - 1) <= _SUM_TOLERANCE)
    if wrong.any():
        found = total[wrong][0]
        raise RatersError(f"found probabilities that sum to {found:g} over classes, expected 1")
    if given.size and given.min() < 0:
        raise RatersError(f"found probability {given.min():g}, expected 0 to 1")


def at_labels(probabilities: Array, labels: Array) -> tuple[float, int]:
    """Sum `log p(label)` over the labels that are not MISSING, and count these.

    Args:
        probabilities: `(classes, *space)`; `(classes,)` goes with any number of labels.
        labels: `(*space)`, or `(answers,)`.

    Example:
        >>> log, number = at_labels(np.array([[0.5, 0.25], [0.5, 0.75]]), np.array([1, -1]))
        >>> float(np.exp(log).round(3)), number
        (0.5, 1)
    """
    seen = labels != MISSING
    chosen = labels[seen].astype(np.intp)
    if probabilities.ndim == 1:
        found = probabilities[chosen]
    else:
        found = probabilities[:, seen][chosen, np.arange(chosen.size)]
    return float(np.log(np.maximum(found, LEAST), dtype=np.float64).sum()), int(chosen.size)


def joint_log_likelihood(truth: Array, matrices: Array, labels: Sequence[Array]) -> float:
    """Sum `log sum_t p(t | x) prod_r C_r[t, o_r]` over pixels: one truth explains all raters.

    Args:
        truth: `p(t | x)`, `(classes, *space)`.
        matrices: `C[t, o]`, `(raters, L, L, *space)`; axes of length 1 where they do not vary.
        labels: Of each rater, `(*space)` with MISSING; where there is no space `(answers,)`.

    Example:
        >>> truth, right = np.array([1.0, 0.0]), np.array([[[0.9, 0.1], [0.2, 0.8]]] * 2)
        >>> log = joint_log_likelihood(truth, right, [np.array([0]), np.array([0])])  # 0.9 * 0.9
        >>> float(np.exp(log).round(2))
        0.81
    """
    total, seen = _log_joint(truth, matrices, labels)
    return float(_log_sum(total[:, seen]).sum())


def left_out_log_likelihoods(truth: Array, matrices: Array, labels: Sequence[Array]) -> Floats:
    """Sum `log p(o_r | x, the others' labels)` over pixels, for each rater r.

    The posterior of the truth that the network and the other raters give predicts what the rater
    who was left out says:

        p(o_r | x, o_-r) = sum_t q_-r(t) C_r[t, o_r],   q_-r(t) ~ p(t | x) prod_{s != r} C_s[t, o_s]

    which is `Z / Z_-r`, the joint likelihood with and without the rater. Where nobody else labelled
    a pixel, `q` is `p(t | x)`. All answers of a rater to one task are left out together.

    Args:
        truth: As in `joint_log_likelihood`.
        matrices: As in `joint_log_likelihood`.
        labels: As in `joint_log_likelihood`.

    Returns:
        One sum per rater, `(raters,)`; 0 for one without labels.

    Example:
        >>> truth, right = np.array([0.5, 0.5]), np.array([[[0.9, 0.1], [0.2, 0.8]]] * 2)
        >>> logs = left_out_log_likelihoods(truth, right, [np.array([0]), np.array([0])])
        >>> np.exp(logs).round(3)                            # (0.9 * 0.9 + 0.2 * 0.2) / (0.9 + 0.2)
        array([0.773, 0.773])
    """
    total, _ = _log_joint(truth, matrices, labels)
    found = np.zeros(len(labels))
    for r, (there, own) in enumerate(_log_columns(truth, matrices, labels)):
        with_all = total[:, there]
        found[r] = (_log_sum(with_all) - _log_sum(with_all - own)).sum()
    return found


def _log_joint(truth: Array, matrices: Array, labels: Sequence[Array]) -> tuple[Floats, Flags]:
    """Return `log p(t | x) prod_r C_r[t, o_r]`, `(classes, pixels)`, and where labels are."""
    total = np.log(np.maximum(truth, LEAST), dtype=np.float64).reshape(len(truth), -1)
    seen = np.zeros(total.shape[1], bool)
    for there, own in _log_columns(truth, matrices, labels):
        total[:, there] += own
        seen[there] = True
    return total, seen


def _log_columns(
    truth: Array, matrices: Array, labels: Sequence[Array]
) -> Iterator[tuple[Ints, Floats]]:
    """Return where each rater labelled, `(n,)`, and `log C_r[t, o_r]` there, `(classes, n)`."""
    classes = len(truth)
    space = truth.shape[1:]
    for matrix, own in zip(matrices, labels, strict=True):
        log_matrix = np.log(np.maximum(matrix, LEAST), dtype=np.float64)
        log_matrix = log_matrix.reshape(classes, classes, -1)
        if not space:  # a class: all answers of the rater are of the same one
            chosen = own[own != MISSING].astype(np.intp)
            there = np.zeros(min(chosen.size, 1), np.int64)
            yield there, log_matrix[:, chosen, 0].sum(axis=1, keepdims=True)[:, there]
            continue
        flat = own.ravel()
        there = np.flatnonzero(flat != MISSING)
        place = there if log_matrix.shape[2] > 1 else 0
        yield there, log_matrix[:, flat[there].astype(np.intp), place]


def _log_sum(logs: Floats) -> Floats:
    """Return `log sum_t exp`, `(n,)`, of `(classes, n)`."""
    top = logs.max(axis=0, initial=-np.inf)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=0)) + top)

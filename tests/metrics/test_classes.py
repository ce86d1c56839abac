"""Class labels and probabilities: accuracy and calibration equal scikit-learn's and slow loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sklearn_metrics

from raters import metrics
from raters.core.classes import MISSING
from raters.core.errors import RatersError

quick = settings(max_examples=50, deadline=None)


def problem(
    seed: int, classes: int, shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels (some MISSING) and probabilities `(classes, *shape)`."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(MISSING, classes, shape)
    return labels, np.moveaxis(rng.dirichlet(np.full(classes, 0.4), shape), -1, 0)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("classes", [3, 6])
def test_accuracy_equals_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(classes)
    truth, guess = rng.integers(MISSING, classes, (2, 40))
    truth[truth == classes - 1] = 0  # a class that the truth does not hold
    kept = (truth != MISSING) & (guess != MISSING)
    expected = sklearn_metrics.accuracy_score(truth[kept], guess[kept])
    assert metrics.accuracy(truth, guess) == pytest.approx(expected)
    expected = sklearn_metrics.balanced_accuracy_score(truth[kept], guess[kept])
    assert metrics.balanced_accuracy(truth, guess, classes) == pytest.approx(expected)


def test_balanced_accuracy_goes_by_rows_of_the_truth() -> None:
    truth = np.array([0] * 90 + [1] * 10)
    guess = np.zeros(100, int)
    assert metrics.accuracy(truth, guess) == 0.9
    assert metrics.balanced_accuracy(truth, guess, 2) == 0.5
    assert metrics.balanced_accuracy(guess, truth, 2) == 0.9  # transposed would be another number
    # A predicted class that never is true takes no part, but its errors count.
    assert metrics.balanced_accuracy([0, 0, 1], [0, 2, 1], 3) == 0.75


def test_accuracy_of_nothing_is_undefined() -> None:
    blank = np.full(3, MISSING)
    assert np.isnan(metrics.accuracy(blank, [0, 1, 1]))
    assert np.isnan(metrics.balanced_accuracy(blank, [0, 1, 1], 2))
    assert np.isnan(metrics.accuracy([], []))


@pytest.mark.parametrize("shape", [(60,), (6, 7), (3, 4, 5)])
@pytest.mark.parametrize("classes", [2, 4])
def test_probability_scores_equal_scikit_learn(shape: tuple[int, ...], classes: int) -> None:
    labels, given_p = problem(0, classes, shape)
    kept = labels != MISSING
    truth = labels[kept]
    rows = given_p[:, kept].T
    every = range(classes)
    nll = sklearn_metrics.log_loss(truth, rows, labels=every)
    assert metrics.negative_log_likelihood(labels, given_p) == pytest.approx(nll)
    one_hot = np.eye(classes)[truth]
    assert metrics.brier(labels, given_p) == pytest.approx(((rows - one_hot) ** 2).sum(1).mean())
    if classes == 2:
        half = sklearn_metrics.brier_score_loss(truth, rows[:, 1])
        assert metrics.brier(labels, given_p) == pytest.approx(2 * half)
    else:
        whole = sklearn_metrics.brier_score_loss(truth, rows, labels=every, scale_by_half=False)
        assert metrics.brier(labels, given_p) == pytest.approx(whole)


def slow_calibration_error(
    labels: NDArray[np.int64], rows: NDArray[np.float64], bins: int
) -> float:
    """Go through bins (k / bins, (k + 1) / bins] and the labels in each, one by one."""
    total = 0.0
    for k in range(bins):
        inside = [
            (max(row), float(list(row).index(max(row)) == label))
            for label, row in zip(labels, rows, strict=True)
            if k < max(row) * bins <= k + 1
        ]
        if inside:
            confidence, right = (sum(column) / len(inside) for column in zip(*inside, strict=True))
            total += len(inside) / len(labels) * abs(right - confidence)
    return total


@quick
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 20))
def test_calibration_error_equals_a_slow_loop(seed: int, classes: int, bins: int) -> None:
    labels, given_p = problem(seed, classes, (5, 6))
    kept = labels != MISSING
    expected = slow_calibration_error(labels[kept], given_p[:, kept].T, bins)
    found = metrics.calibration_error(labels, given_p, bins)
    assert found == pytest.approx(expected)
    assert 0 <= found <= 1
    curve = metrics.reliability_curve(labels, given_p, bins)
    assert curve.counts.sum() == kept.sum()
    np.testing.assert_array_equal(np.isnan(curve.accuracy), curve.counts == 0)
    right = (given_p.argmax(0) == labels)[kept]
    assert np.nansum(curve.accuracy * curve.counts) == pytest.approx(right.sum())


def test_bins_are_closed_on_the_right() -> None:
    curve = metrics.reliability_curve([0, 0, 1], [[0.5, 0.75, 0.0], [0.5, 0.25, 1.0]], bins=4)
    np.testing.assert_array_equal(curve.counts, [0, 1, 1, 1])


def test_calibrated_probabilities_have_little_error() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(200_000)
    labels = (rng.random(200_000) < p).astype(int)
    assert metrics.calibration_error(labels, np.stack([1 - p, p])) < 0.005
    sharper = p**3 / (p**3 + (1 - p) ** 3)
    assert metrics.calibration_error(labels, np.stack([1 - sharper, sharper])) > 0.1


def test_perfect_and_certainly_wrong_predictions() -> None:
    labels = np.array([0, 1, 2, MISSING])
    sure = np.eye(3)[[0, 1, 2, 0]].T
    assert metrics.brier(labels, sure) == 0
    assert metrics.negative_log_likelihood(labels, sure) == 0
    assert metrics.calibration_error(labels, sure) == 0
    wrong = np.roll(sure, 1, axis=0)
    assert metrics.brier(labels, wrong) == 2
    assert metrics.calibration_error(labels, wrong) == 1
    assert metrics.negative_log_likelihood(labels, wrong) == pytest.approx(
        -math.log(np.finfo(float).eps)
    )
    single = metrics.negative_log_likelihood(labels, wrong.astype(np.float32))
    assert single == pytest.approx(-math.log(np.finfo(np.float32).eps))


def test_nothing_labelled_is_undefined() -> None:
    labels = np.full((2, 2), MISSING)
    given_p = np.full((2, 2, 2), 0.5)
    for score in (metrics.brier, metrics.negative_log_likelihood, metrics.calibration_error):
        assert np.isnan(score(labels, given_p))


@pytest.mark.parametrize(
    ("labels", "given_p", "message"),
    [
        ([0, 1], [[2.0, -1.0], [0.5, 3.0]], "found probabilities that sum to 2.5"),
        ([0, 1], [[1.5, 0.5], [-0.5, 0.5]], "found probability -0.5"),
        ([0, 1], [[math.nan, 0.5], [0.5, 0.5]], "sum to nan"),
        ([0, 1, 1], [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]], r"expected \(classes, 3\)"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "found label 2"),
    ],
)
def test_errors(labels: list[int], given_p: list[list[float]], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        metrics.brier(labels, given_p)


def test_bins_must_exist() -> None:
    with pytest.raises(RatersError, match="found 0 bins"):
        metrics.reliability_curve([0], [[1.0], [0.0]], bins=0)

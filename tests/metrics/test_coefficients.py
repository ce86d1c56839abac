"""Kappas and alpha against scikit-learn, krippendorff, and loops written from the formulas."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from raters.metrics.coefficients import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    one_against_rest,
)

SEEDS = st.integers(0, 10**6)


def random_answers(seed: int, raters: int, classes: int, items: int = 40) -> np.ndarray:
    """Correlated answers with gaps, so that agreement is neither 0 nor 1."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, items)
    answers = np.where(random.random((raters, items)) < 0.6, truth, -1)
    other = random.integers(0, classes, (raters, items))
    answers = np.where(answers < 0, other, answers)
    answers[random.random((raters, items)) < 0.25] = -1
    return answers


def votes_of(answers: np.ndarray, classes: int) -> np.ndarray:
    return np.stack([(answers == c).sum(axis=0) for c in range(classes)], axis=1)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 5))
def test_cohen_equals_scikit_learn(seed: int, classes: int) -> None:
    first, second = random_answers(seed, 2, classes)
    both = (first >= 0) & (second >= 0)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (first[both], second[both]), 1)
    expected = cohen_kappa_score(first[both], second[both])
    assert cohen_kappa(counts) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 6), st.integers(2, 5))
def test_alpha_equals_krippendorff(seed: int, raters: int, classes: int) -> None:
    answers = random_answers(seed, raters, classes)
    data = np.where(answers < 0, np.nan, answers)
    expected = krippendorff.alpha(data, level_of_measurement="nominal", value_domain=range(classes))
    assert krippendorff_alpha(votes_of(answers, classes)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 6), st.integers(2, 5))
def test_fleiss_by_a_slow_loop(seed: int, raters: int, classes: int) -> None:
    votes = votes_of(random_answers(seed, raters, classes), classes)
    agreeing = []
    shares = []
    for row in votes.tolist():
        n = sum(row)
        if n >= 2:
            shares.append([v / n for v in row])
            agreeing.append(sum(v * (v - 1) for v in row) / (n * (n - 1)))
    chance = sum(p * p for p in np.mean(shares, axis=0))
    expected = (np.mean(agreeing) - chance) / (1 - chance)
    assert fleiss_kappa(votes) == pytest.approx(expected, abs=1e-12)


def test_fleiss_of_the_table_in_his_paper() -> None:
    """The psychiatric diagnoses of Fleiss (1971), 30 patients and 6 raters: kappa = .430."""
    table = """0 0 0 6 0  0 3 0 0 3  0 1 4 0 1  0 0 0 0 6  0 3 0 3 0  2 0 4 0 0  0 0 4 0 2
    2 0 3 1 0  2 0 0 4 0  0 0 0 0 6  1 0 0 5 0  1 1 0 4 0  0 3 3 0 0  1 0 0 5 0  0 2 0 3 1
    0 0 5 0 1  3 0 0 1 2  5 1 0 0 0  0 2 0 4 0  1 0 2 0 3  0 0 0 0 6  0 1 0 5 0  0 2 0 1 3
    2 0 0 4 0  1 0 0 4 1  0 5 0 1 0  4 0 0 0 2  0 2 0 4 0  1 0 5 0 0  0 0 0 0 6"""
    votes = np.array(table.split(), int).reshape(30, 5)
    assert fleiss_kappa(votes) == pytest.approx(0.430, abs=5e-4)


def test_items_with_one_label_say_nothing() -> None:
    votes = np.array([[2, 0], [1, 1], [0, 2], [1, 1]])
    alone = np.tile([[1, 0]], (2000, 1))
    assert fleiss_kappa(np.concatenate([votes, alone])) == fleiss_kappa(votes)
    assert krippendorff_alpha(np.concatenate([votes, alone])) == krippendorff_alpha(votes)


def test_weights_are_repetitions() -> None:
    votes = np.array([[2, 0], [1, 1], [0, 3]])
    weights = np.array([3, 1, 2])
    again = np.repeat(votes, weights, axis=0)
    assert fleiss_kappa(votes, weights) == pytest.approx(fleiss_kappa(again), abs=1e-12)
    assert krippendorff_alpha(votes, weights) == pytest.approx(krippendorff_alpha(again), abs=1e-12)


def test_stated_values_of_degenerate_input() -> None:
    assert cohen_kappa(np.array([[7, 0], [0, 0]])) == 1.0
    assert fleiss_kappa(np.array([[2, 0], [3, 0]])) == 1.0
    assert krippendorff_alpha(np.array([[2, 0], [3, 0]])) == 1.0
    assert np.isnan(cohen_kappa(np.zeros((2, 2))))
    assert np.isnan(fleiss_kappa(np.array([[1, 0], [0, 1]])))
    assert np.isnan(krippendorff_alpha(np.array([[1, 0], [0, 0]])))


def test_perfect_and_opposite_raters() -> None:
    assert cohen_kappa(np.diag([3, 4, 5])) == 1.0
    assert cohen_kappa(np.array([[0, 5], [5, 0]])) == -1.0
    assert fleiss_kappa(np.array([[3, 0], [0, 3]])) == 1.0
    assert krippendorff_alpha(np.array([[3, 0], [0, 3]])) == 1.0


def test_one_class_against_the_rest() -> None:
    answers = random_answers(3, 4, 3)
    merged = np.where(answers < 0, -1, answers == 2)
    np.testing.assert_array_equal(one_against_rest(votes_of(answers, 3), 2), votes_of(merged, 2))

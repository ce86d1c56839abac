"""The trace tells truth from error under the conditions of its theorem, and not without them.

Tanno et al. (2019), Lemma 1 and Theorem 1, in our order: with Q the matrix of a network that
takes truth t for j, and C^ the estimated matrices, raters look the same when `C = Q C^`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from raters.learning.rater_models import SharedConfusion, log_likelihood, trace_term
from raters.metrics.confusion.matrices import is_dominant

Array = NDArray[np.float64]


def stochastic(random: np.random.Generator, *shape: int) -> Array:
    return random.dirichlet(np.ones(shape[-1]), shape[:-1])


def every_answer(matrices: Array, truth: Array) -> tuple[Tensor, float]:
    """Return the log-likelihood `(cases, raters, L)` of each possible label, and the mean trace."""
    classes = matrices.shape[-1]
    raters = len(matrices)
    confusion = SharedConfusion(torch.tensor(matrices).log()[None])
    log_truth = torch.tensor(truth).log()
    results = []
    for r in range(raters):
        for o in range(classes):
            labels = torch.full((len(truth), raters), -1)
            labels[:, r] = o
            column = confusion.see(labels).log_column
            results.append(log_likelihood(log_truth, column, "marginal", labels))
    everyone = torch.zeros(len(truth), raters, dtype=torch.long)
    diagonal = confusion.see(everyone).log_diagonal
    trace = trace_term(diagonal, everyone, log_truth.exp(), "all").item()
    return torch.stack(results, 1).view(len(truth), raters, classes), trace


@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 5),
    raters=st.integers(1, 4),
    wrong=st.floats(0.01, 1),
)
@settings(max_examples=50, deadline=None)
def test_the_truth_has_the_least_trace(seed: int, classes: int, raters: int, wrong: float) -> None:
    random = np.random.default_rng(seed)
    eye = np.eye(classes)
    weight = random.uniform(0, 1, (raters, 1, 1))  # some raters are not dominant, the mean is
    estimated = weight * eye + (1 - weight) * stochastic(random, raters, classes, classes)
    q = (1 - wrong) * eye + wrong * stochastic(random, classes, classes)
    true = q @ estimated
    assume(is_dominant(estimated) and is_dominant(true))
    # The network that is wrong and the true one predict each rater alike ...
    of_estimate, trace_of_estimate = every_answer(estimated, q)
    of_truth, trace_of_truth = every_answer(true, eye)
    torch.testing.assert_close(of_estimate, of_truth)
    torch.testing.assert_close(of_truth.exp(), torch.tensor(true).transpose(0, 1))
    # ... but every diagonal entry of the mean is larger where the network is wrong.
    larger = (estimated.mean(0) - true.mean(0)).diagonal()
    assert (larger > 0).all()
    assert trace_of_estimate > trace_of_truth
    assert trace_of_estimate == pytest.approx(np.trace(estimated.mean(0)))


def test_equal_trace_means_equal_matrices() -> None:
    """The excess is sum_ij Q[i,j] (C^[i,i] - C^[j,i]): zero at Q = I alone."""
    random = np.random.default_rng(0)
    estimated = 0.5 * np.eye(3) + 0.5 * stochastic(random, 4, 3, 3)
    assert is_dominant(estimated)
    excess = []
    for wrong in (0.0, 1e-6, 1e-3, 0.1, 1.0):
        q = (1 - wrong) * np.eye(3) + wrong * stochastic(random, 3, 3)
        mean = estimated.mean(0)
        gap = (q * (mean.diagonal()[:, None] - mean.T)).sum()
        excess.append(every_answer(estimated, q)[1] - every_answer(q @ estimated, np.eye(3))[1])
        assert excess[-1] == pytest.approx(gap, abs=1e-12)
    assert excess[0] == pytest.approx(0, abs=1e-15)
    assert all(value > 1e-8 for value in excess[1:])


def test_without_dominance_the_trace_prefers_the_wrong_truth() -> None:
    """Classes swapped, in truth and matrices: the same likelihood, and a smaller trace."""
    true = np.array([[[0.9, 0.1], [0.2, 0.8]]])
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    swapped = swap @ true
    assert is_dominant(true)
    assert not is_dominant(swapped)
    right, trace = every_answer(true, np.eye(2))
    wrong, smaller = every_answer(swapped, swap)
    torch.testing.assert_close(wrong, right)
    assert (trace, smaller) == (pytest.approx(1.7), pytest.approx(0.3))


def couplings(p: Array, q: Array, number: int) -> Array:
    """Draw matrices with `p C = q`, by scaling random ones to both margins."""
    random = np.random.default_rng(0)
    joint = np.exp(random.normal(size=(number, len(p), len(p))) + 2 * np.eye(len(p)))
    for _ in range(500):
        joint *= (p / joint.sum(2))[:, :, None]
        joint *= (q / joint.sum(1))[:, None, :]
    return joint / joint.sum(2, keepdims=True)


@pytest.mark.parametrize("p", [(0.6, 0.3, 0.1), (0.1, 0.1, 0.8), (1 / 3, 1 / 3, 1 / 3)])
def test_at_one_pixel_any_truth_reaches_the_least_trace(p: tuple[float, ...]) -> None:
    """Matrices that are free at a pixel: 'the rater ignores the truth' explains all labels."""
    q = np.array([0.7, 0.2, 0.1])
    truth = np.array(p)
    ignorant = np.tile(q, (1, 3, 1))
    seen, trace = every_answer(ignorant, truth[None])
    torch.testing.assert_close(seen[0, 0].exp(), torch.tensor(q))
    assert trace == pytest.approx(1)
    # No dominant matrix that explains the labels as well has less.
    others = couplings(truth, q, 200)
    dominant = [c for c in others if is_dominant(c)]
    assert len(dominant) > 20
    for matrix in dominant:
        also_seen, more = every_answer(matrix[None], truth[None])
        torch.testing.assert_close(also_seen, seen, atol=1e-6, rtol=0)
        assert more > 1
    # A network that is sure of the least likely class does as well.
    sure = np.eye(3)[[2]]
    assert every_answer(ignorant, sure)[1] == pytest.approx(1)
    torch.testing.assert_close(every_answer(ignorant, sure)[0], seen)

"""Hierarchical Dawid-Skene equals its formulas, climbs its bound, and is near the best rival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betaln, digamma, expit, gammaln

import raters
from raters.core.errors import RatersError
from raters.fusion._dawid_skene import _m_step, dawid_skene, one_coin
from raters.fusion._hierarchical import Hierarchy, difficulties, hierarchical, posterior_errors
from raters.fusion._vote import vote_table
from raters.fusion.answers import Options, Parameters, e_step, expected_counts, solve
from raters.fusion.columns import answers_of
from raters.fusion.result import Fusion
from raters.fusion.skill_levels import LEVELS, Counts, Prior, climb, first_prior, psi, rows_of
from raters.study.study import Study
from raters.study.triplets import Triplets
from tests.support.tables import make_triplets

Array = NDArray[Any]


def draw_answers(
    matrices: Array, tasks: int, each: int, seed: int = 0, shares: Any = None
) -> tuple[Triplets, Array]:
    """Draw answers of `each` workers to each task, and the truth."""
    rng = np.random.default_rng(seed)
    workers, classes = matrices.shape[:2]
    truth = rng.choice(classes, tasks, p=shares)
    rater = rng.random((tasks, workers)).argsort(axis=1)[:, :each].ravel()
    task = np.repeat(np.arange(tasks), each)
    below = np.cumsum(matrices[rater, truth[task]], axis=1)[:, :-1]
    label = (rng.random(len(task))[:, np.newaxis] > below).sum(axis=1)
    return make_triplets(task, rater, label, (tasks, workers, classes)), truth


def coins(accuracies: Any, classes: int) -> Array:
    right = np.asarray(accuracies)[:, np.newaxis, np.newaxis]
    return np.where(np.eye(classes, dtype=bool), right, (1 - right) / (classes - 1))


def about(rows: Any, strength: float, workers: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.array([[rng.dirichlet(strength * np.array(m)) for m in rows] for _ in range(workers)])


SHARED = [[0.8, 0.15, 0.05], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7]]


class Slow:
    """The method from its formulas, one number at a time."""

    def __init__(self, triplets: Triplets, classes: int) -> None:
        self.tasks = len(triplets.tasks)
        self.workers = len(triplets.raters)
        self.classes = classes
        self.answers = list(zip(triplets.task, triplets.rater, triplets.label, strict=True))
        weights = np.exp(-(LEVELS**2) / 8)
        self.weights = self.usual = weights / weights.sum()
        self.ease = np.full(classes, 1.5)
        self.kappa = 8.0
        self.lam = 4.0
        self.errors = (1 - np.eye(classes)) / (classes - 1)

    def beta(self, k: int, t: int) -> tuple[float, float]:
        share = expit(self.ease[t] + LEVELS[k])
        return self.kappa * share, self.kappa * (1 - share)

    def levels(self, n: Array) -> tuple[Array, float]:
        found = np.zeros((self.workers, 9))
        total = 0.0
        for r in range(self.workers):
            for k in range(9):
                found[r, k] = np.log(self.weights[k])
                for t in range(self.classes):
                    a, b = self.beta(k, t)
                    right = n[r, t, t]
                    wrong = n[r, t].sum() - n[r, t, t]
                    found[r, k] += betaln(right + a, wrong + b) - betaln(a, b)
            total += np.logaddexp.reduce(found[r])
            found[r] = np.exp(found[r] - np.logaddexp.reduce(found[r]))
        return found, total

    def prior_step(self, n: Array) -> None:
        q = self.levels(n)[0]
        classes = range(self.classes)
        up = np.zeros((9, self.classes))
        down = np.zeros((9, self.classes))
        rate = 0.0
        for r in range(self.workers):
            for t in classes:
                right = n[r, t, t]
                wrong = n[r, t].sum() - n[r, t, t]
                rate += digamma(right + wrong + self.kappa) - digamma(self.kappa)
                for k in range(9):
                    a, b = self.beta(k, t)
                    up[k, t] += q[r, k] * a * (digamma(right + a) - digamma(a))
                    down[k, t] += q[r, k] * b * (digamma(wrong + b) - digamma(b))
        for _ in range(5):
            mean = self.ease.mean()
            old = self.ease.copy()
            for t in classes:
                share = expit(old[t] + LEVELS)
                slope = (up[:, t] * (1 - share) - down[:, t] * share).sum()
                slope -= (old[t] - mean) / 0.25 + (mean - 1.5) / 4 / self.classes
                self.ease[t] += slope / ((up + down)[:, t].sum() / 4 + 4 + 0.25)
        self.kappa = (1 + (up + down).sum()) / (0.1 + rate)
        self.weights = q.sum(axis=0) + 3 * self.usual
        self.weights = self.weights / self.weights.sum()
        sums = np.zeros((self.classes, self.classes))
        rate = 0.0
        for r in range(self.workers):
            for t in classes:
                rate += digamma(n[r, t].sum() - n[r, t, t] + self.lam) - digamma(self.lam)
                for o in classes:
                    if o != t:
                        a = self.lam * self.errors[t, o]
                        sums[t, o] += a * (digamma(n[r, t, o] + a) - digamma(a))
        self.lam = (1 + sums.sum()) / (0.1 + rate)
        self.errors = sums + 10 * (1 - np.eye(self.classes)) / (self.classes - 1)
        self.errors /= self.errors.sum(axis=1, keepdims=True)

    def run(self, steps: int) -> Array:
        w = np.zeros((self.tasks, self.classes))
        for i, _, o in self.answers:
            w[i, o] += 1
        w /= w.sum(axis=1, keepdims=True)
        for _ in range(steps):
            n = np.zeros((self.workers, self.classes, self.classes))
            for i, r, o in self.answers:
                n[r, :, o] += w[i]
            for _ in range(3):
                self.prior_step(n)
            q = self.levels(n)[0]
            tasks = w.sum(axis=0) + 5
            logs = np.tile(digamma(tasks) - digamma(tasks.sum()), (self.tasks, 1))
            for i, r, o in self.answers:
                for t in range(self.classes):
                    right = n[r, t, t]
                    wrong = n[r, t].sum() - n[r, t, t]
                    for k in range(9):
                        part = self.beta(k, t)[int(o != t)] + (right if o == t else wrong)
                        logs[i, t] += q[r, k] * (
                            digamma(part) - digamma(right + wrong + self.kappa)
                        )
                    if o != t:
                        pull = self.lam * self.errors[t, o]
                        logs[i, t] += digamma(n[r, t, o] + pull) - digamma(wrong + self.lam)
            w = np.exp(logs - logs.max(axis=1, keepdims=True))
            w /= w.sum(axis=1, keepdims=True)
        return w


def test_it_equals_a_slow_loop() -> None:
    triplets, _ = draw_answers(about(SHARED, 6, 5), 14, 3, seed=1)
    fused = hierarchical(triplets, 3, max_iter=3, tol=0, starts="mean")
    slow = Slow(triplets, 3)
    np.testing.assert_allclose(fused.truth, slow.run(3), atol=1e-9)


def test_digamma_is_scipys() -> None:
    for x in (1e-6, 0.02, 0.7, 1.0, 5.99, 6.0, 33.3, 1e7):
        assert psi(x) == pytest.approx(digamma(x), rel=1e-10)


def test_the_evidence_of_a_rater_is_the_integral_over_the_matrix() -> None:
    counts = np.array([[[3.0, 1.5], [0.5, 2.0]]])  # (rater, o, t)
    named_ = np.array([True, True])
    prior = first_prior(np.array([True, True]))
    density = rows_of(prior, Counts.of(np.zeros((1, 2, 2))), named_).evidence
    total = 0.0
    for k, weight in enumerate(prior.weights):
        part = weight
        for t, (right, wrong) in enumerate(((3.0, 0.5), (2.0, 1.5))):
            a = prior.right * prior.shares[k, t]
            b = prior.right - a
            log_beta = gammaln(a) + gammaln(b) - gammaln(a + b)
            part *= quad(
                lambda p, x, y, z: np.exp(x * np.log(p) + y * np.log1p(-p) - z),
                0,
                1,
                (right + a - 1, wrong + b - 1, log_beta),
                epsabs=1e-12,
            )[0]
        total += part
    found = rows_of(prior, Counts.of(counts), named_).evidence - density
    assert found == pytest.approx(np.log(total), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_no_step_lowers_the_bound(seed: int) -> None:
    matrices = [about(SHARED, 3, 30, seed), coins(np.linspace(0.2, 0.95, 12), 4)][seed % 2]
    triplets, _ = draw_answers(matrices, 60, 4, seed)
    fused = hierarchical(triplets, matrices.shape[1], max_iter=40, tol=0, starts="vote")
    assert fused.iterations > 15
    assert all(new >= old - 1e-8 for old, new in pairwise(fused.log_likelihoods))


def test_every_part_of_the_prior_climbs() -> None:
    counts = Counts.of(np.random.default_rng(0).gamma(0.7, 3, (20, 4, 4)) + 6 * np.eye(4))
    named_ = np.ones(4, bool)
    prior = first_prior(named_)
    for _ in range(60):
        better = climb(prior, counts, named_)
        before, after = (rows_of(p, counts, named_).evidence for p in (prior, better))
        assert after >= before - 1e-9
        prior = better
    for part in ("right", "wrong"):  # at the top: no other strength is better
        for factor in (0.8, 1.25):
            moved = replace(prior, **{part: getattr(prior, part) * factor})
            assert rows_of(moved, counts, named_).evidence < after


def one_level(strength: float, wrong: float, right: float = 0.75, classes: int = 3) -> Prior:
    ease = np.full(classes, np.log(right / (1 - right)))
    errors = (1 - np.eye(classes)) / (classes - 1)
    return Prior(np.ones(1), ease, errors, strength, wrong)


def test_with_one_level_and_a_fixed_strength_rows_are_those_of_smoothing() -> None:
    triplets, _ = draw_answers(about(SHARED, 5, 6), 40, 4)
    answers = answers_of(triplets, 3)
    options = Options(30, 1e-9, 0.0, False)
    known = Hierarchy(one_level(4.0, 1.0))  # Dirichlet(4 B), as of smoothing=4
    found, _, _ = solve(answers, triplets.raters, known, options, None, None, "mean")
    counts, _ = expected_counts(answers, found.posteriors)
    np.testing.assert_allclose(
        found.parameters.confusion, _m_step(counts, answers.used, 4.0), atol=1e-12
    )


def test_raters_have_one_matrix_where_the_strength_is_without_limit() -> None:
    triplets, _ = draw_answers(about(SHARED, 5, 6), 40, 4)
    answers = answers_of(triplets, 3)
    options = Options(30, 0.0, 0.0, False)
    shares = np.array([0.5, 0.3, 0.2])
    known = Hierarchy(one_level(1e9, 1e9))
    found, _, _ = solve(answers, triplets.raters, known, options, shares, None, "mean")
    pooled = np.broadcast_to(coins([0.75], 3), (6, 3, 3))
    np.testing.assert_allclose(found.parameters.confusion, pooled, atol=1e-6)
    expected, _ = e_step(answers, Parameters(shares, pooled))
    np.testing.assert_allclose(found.posteriors, expected, atol=1e-6)


def test_it_finds_known_matrices_and_shares() -> None:
    matrices = about(SHARED, 8, 8, seed=2)
    triplets, _ = draw_answers(matrices, 4000, 8, shares=[0.5, 0.3, 0.2])
    fused = hierarchical(triplets, 3)
    assert fused.confusion is not None and fused.prior is not None
    np.testing.assert_allclose(fused.confusion, matrices, atol=0.06)
    np.testing.assert_allclose(fused.prior, [0.5, 0.3, 0.2], atol=0.03)


def test_the_strength_is_large_where_raters_are_alike_and_small_where_they_differ() -> None:
    found = []
    for strength in (2.0, 10.0, 500.0):
        triplets, _ = draw_answers(about(SHARED, strength, 60), 800, 8)
        common = hierarchical(triplets, 3, tol=1e-4, starts="mean").common
        assert common is not None
        found.append((common.right, common.wrong))
    for alike, unlike in pairwise(reversed(found)):
        assert alike[0] > 1.5 * unlike[0] and alike[1] > 1.5 * unlike[1]


def test_the_order_of_tasks_and_workers_does_not_matter() -> None:
    triplets, _ = draw_answers(about(SHARED, 5, 20), 80, 4)
    rng = np.random.default_rng(0)
    tasks = rng.permutation(80)
    workers = rng.permutation(20)
    order = rng.permutation(len(triplets))
    turned = make_triplets(
        tasks[triplets.task][order],
        workers[triplets.rater][order],
        triplets.label[order],
        (80, 20, 3),
    )
    one = hierarchical(triplets, 3)
    other = hierarchical(turned, 3)
    assert one.confusion is not None and other.confusion is not None
    assert one.difficulty is not None and other.difficulty is not None
    np.testing.assert_allclose(other.truth[tasks], one.truth, atol=1e-9)
    np.testing.assert_allclose(other.confusion[workers], one.confusion, atol=1e-9)
    np.testing.assert_allclose(other.difficulty[tasks], one.difficulty, atol=1e-9)


CROWDS = {
    "few answers each": (coins(np.random.default_rng(1).uniform(0.3, 0.95, 150), 5), 5, None),
    "all miss half": (about([[0.95, 0.05], [0.55, 0.45]], 10, 60), 10, (0.6, 0.4)),
    "shared errors": (about(SHARED, 20, 80), 6, None),
    "adversaries": (coins([0.1] * 8 + [0.85] * 32, 2), 5, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("crowd", CROWDS)
def test_it_is_within_a_point_of_the_best_rival(crowd: str) -> None:
    matrices, each, shares = CROWDS[crowd]
    methods: list[Callable[..., Fusion]] = [vote_table, one_coin, dawid_skene, hierarchical]
    right = np.zeros((5, 4))
    for k in range(5):
        triplets, truth = draw_answers(matrices, 400, each, 50 + k, shares)
        for m, method in enumerate(methods):
            right[k, m] = (method(triplets, matrices.shape[1]).labels == truth).mean()
    mean = right.mean(axis=0)
    assert mean[3] > mean[:3].max() - 0.01, mean


def test_intervals_hold_the_true_measures() -> None:
    inside = 0.0
    cells = 0
    for seed in range(4):
        matrices = about(SHARED, 8, 30, seed)
        triplets, _ = draw_answers(matrices, 400, 5, seed)
        errors = posterior_errors(triplets, hierarchical(triplets, 3))
        assert errors is not None and errors.low is not None and errors.high is not None
        right = np.einsum("rtt->rt", matrices)
        inside += ((errors.low[:, 0] <= right) & (right <= errors.high[:, 0])).sum()
        cells += right.size
        assert 0.1 < (errors.high - errors.low)[:, 0].mean() < 0.5
    assert 0.91 < inside / cells < 0.99


def test_rows_have_intervals_about_the_mean_and_silent_raters_none() -> None:
    triplets, _ = draw_answers(coins([0.9, 0.8, 0.7, 0.6], 2), 80, 4)
    dense = np.full((80, 5), -1)
    dense[triplets.task, triplets.rater] = triplets.label
    consensus = raters.fuse(Study.from_arrays(labels=dense), "hierarchical")
    for row in consensus.rows[:8]:
        assert 0 < row["sensitivity_low"] < row["sensitivity"] < row["sensitivity_high"] <= 1
        assert row["sensitivity_se"] > 0
    assert consensus.rows[8]["sensitivity"] is None
    assert consensus.rows[8]["sensitivity_low"] is None
    assert np.isnan(consensus.skills.to_numpy()).tolist() == [False] * 4 + [True]


def test_difficulty_is_its_formula_and_finds_hard_tasks() -> None:
    rng = np.random.default_rng(3)
    triplets, _ = draw_answers(coins(rng.uniform(0.8, 0.95, 40), 4), 300, 9)
    hard = triplets.task < 100
    guessed = np.where(
        hard & (rng.random(len(triplets)) < 0.6),
        rng.integers(4, size=len(triplets)),
        triplets.label,
    )
    triplets = make_triplets(
        triplets.task, triplets.rater, guessed, (301, 40, 4)
    )  # nobody saw the last
    fused = hierarchical(triplets, 4)
    found = fused.difficulty
    w = fused.truth
    matrices = fused.confusion
    assert found is not None and matrices is not None and np.isnan(found[300])
    for task in (0, 7, 250):
        wrong = likely = 1.0
        for i, r, o in zip(triplets.task, triplets.rater, triplets.label, strict=True):
            if i == task:
                wrong += 1 - w[i, o]
                likely += sum(w[i, t] * (1 - matrices[r, t, t]) for t in range(4))
        assert found[task] == pytest.approx(wrong / likely)
    ranks = found[:300].argsort().argsort()
    area = (ranks[:100].mean() - 49.5) / 200
    assert area > 0.85
    answers = answers_of(triplets, 4)
    sure = np.eye(4)[np.zeros(301, int)]
    assert np.nanmin(difficulties(answers, sure, matrices)) > 0


def test_classes_that_nobody_named_change_nothing() -> None:
    triplets, _ = draw_answers(about(SHARED, 5, 10), 60, 4)
    few = hierarchical(triplets, 3)
    many = hierarchical(triplets, 6)
    np.testing.assert_allclose(many.truth, few.truth @ np.eye(3, 6), atol=1e-12)
    assert many.confusion is not None
    np.testing.assert_allclose(many.confusion.sum(axis=2), 1)
    np.testing.assert_array_equal(many.confusion[:, :3, 3:], 0)


def test_odd_tables() -> None:
    nothing = hierarchical(make_triplets([], [], [], (3, 2, 2)), 2)
    np.testing.assert_array_equal(nothing.labels, -1)
    np.testing.assert_allclose(nothing.truth, 0.5)
    one = hierarchical(make_triplets([0, 1], [0, 0], [0, 0], (2, 1, 1)), 1)
    np.testing.assert_array_equal(one.labels, 0)
    same = hierarchical(make_triplets([0, 0, 1], [0, 1, 0], [2, 2, 2], (2, 2, 3)), 3)
    np.testing.assert_array_equal(same.labels, 2)
    assert np.isfinite(same.truth).all()


def test_the_prior_and_the_start_can_be_given() -> None:
    triplets, _ = draw_answers(about(SHARED, 5, 10), 60, 4)
    fused = hierarchical(triplets, 3, prior=[2, 1, 1])
    np.testing.assert_allclose(fused.prior, [0.5, 0.25, 0.25])  # type: ignore[arg-type]
    given = dawid_skene(triplets, 3).truth
    assert hierarchical(triplets, 3, start=given).starts == []


def test_ties_are_no_matter_of_rounding() -> None:
    """Raters in another order: the same labels, where sums differ in their last digits."""
    truth = [0, 2, 1, 1, 1, 0, 2]
    answers = []
    for task, rater in np.ndindex(7, 4):
        answers.append((task, rater, (truth[task] + rater % 2) % 3))
    frame = pd.DataFrame(answers, columns=["task", "worker", "label"])
    other = frame.assign(worker=frame.worker.map({0: 1, 1: 0, 2: 3, 3: 2}))
    for table in (frame, other):
        labels = raters.fuse(raters.read(table), "hierarchical").table.labels
        assert labels.tolist() == [0, 0, 1, 1, 1, 0, 0]  # the first of each two that tie


def test_bad_input_is_refused_with_words() -> None:
    triplets, _ = draw_answers(about(SHARED, 5, 10), 20, 4)
    with pytest.raises(RatersError, match="found a prior of shape"):
        hierarchical(triplets, 3, prior=[0.5, 0.5])
    with pytest.raises(RatersError, match="class numbers from 0 to 2, expected -1 to 1"):
        hierarchical(triplets, 2)
    study = Study.from_arrays(labels=np.zeros((2, 3, 4, 4), int))
    with pytest.raises(RatersError, match="found masks, and hierarchical does not take them"):
        raters.fuse(study, "hierarchical")
    with pytest.raises(RatersError, match="found starts=best"):
        hierarchical(triplets, 3, starts="best")


def test_an_interval_ends_at_one_where_nothing_speaks_against_it() -> None:
    matrices = coins([0.8] * 10, 2)
    matrices[0] = [[1.0, 0.0], [1.0, 0.0]]  # always says the first class
    triplets, _ = draw_answers(matrices, 300, 6)
    errors = posterior_errors(triplets, hierarchical(triplets, 2))
    assert errors is not None and errors.low is not None and errors.high is not None
    assert errors.high[0, 0, 0] == 1 and errors.low[0, 0, 1] == 0  # sensitivities
    assert 0.9 < errors.low[0, 0, 0] < 1 and 0 < errors.high[0, 0, 1] < 0.1
    assert (errors.high[1:, 0] < 1).all() and (errors.low[1:, 0] > 0).all()

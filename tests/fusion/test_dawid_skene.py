"""Dawid-Skene equals its formulas, the published estimates and crowd-kit; it never gives NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion._dawid_skene import dawid_skene
from raters.fusion._dawid_skene import one_coin as coin_of_classes_alike
from raters.fusion.columns import answers_of, vote_shares
from raters.fusion.result import Fusion
from raters.simulation.classes import draw_labels, hammer_spammer, pairwise_flipper
from raters.study.triplets import Triplets
from tests.support import peer_crowdkit
from tests.support.peer_crowdkit import Answer, Job
from tests.support.tables import make_triplets

Array = NDArray[Any]
Method = Callable[..., Fusion]
one_coin = partial(coin_of_classes_alike, estimate_prior=True)
METHODS = pytest.mark.parametrize("method", [dawid_skene, one_coin])

# Dawid and Skene (1979), Table 1: 45 patients; observer 1 on three occasions, then 2, 3, 4, 5.
ANAESTHETISTS = """
    1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223
    2322223 4444444 2223343 1111111 2223212 1211111 1112111 1111111 1111111
    2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222
    1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
    2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""
# The maximum likelihood estimates to two digits, one row a true class, observers 1 to 5.
ERROR_RATES = """
    .89 .11 .00 .00   .83 .17 .00 .00   1.0 .00 .00 .00   .94 .06 .00 .00   1.0 .00 .00 .00
    .07 .88 .05 .00   .05 .63 .31 .00   .11 .79 .11 .00   .05 .84 .10 .00   .16 .73 .11 .00
    .00 .34 .66 .00   .00 .00 1.0 .00   .00 .40 .20 .40   .00 .00 .80 .20   .00 .21 .79 .00
    .00 .00 .56 .44   .00 .00 .00 1.0   .00 .00 .67 .33   .00 .00 .33 .67   .00 .00 .33 .67
"""


def draw_table(seed: int, tasks: int = 30, raters: int = 6, classes: int = 3) -> Triplets:
    """Draw a table with tasks nobody saw, repeated readings, and raters who mostly are right."""
    rng = np.random.default_rng(seed)
    number = tasks * raters
    task = rng.integers(0, tasks, number)
    rater = rng.integers(0, raters, number)
    task[task == tasks // 2] = 0
    truth = rng.integers(0, classes, tasks)
    label = np.where(rng.random(number) < 0.6, truth[task], rng.integers(0, classes, number))
    return make_triplets(task, rater, label, (tasks, raters, classes))


def anaesthetists() -> Triplets:
    digits = np.array([[int(d) - 1 for d in row] for row in ANAESTHETISTS.split()])
    task = np.repeat(np.arange(45), 7)
    return make_triplets(task, np.tile([0, 0, 0, 1, 2, 3, 4], 45), digits.ravel())


def draw_full_table(tasks: int, matrices: Array, seed: int = 0) -> tuple[Triplets, Array]:
    """Draw the answers of all raters to all tasks."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, matrices.shape[1], tasks)
    labels = draw_labels(truth, matrices, rng)
    task, rater = np.indices(labels.shape).reshape(2, -1)
    return make_triplets(
        task, rater, labels.ravel(), (tasks, len(matrices), matrices.shape[1])
    ), truth


def slow_matrices(
    n: dict[tuple[int, int, int], float], given_: Array, smoothing: float, one: bool
) -> dict[tuple[int, int, int], float]:
    """Write down `C[r, t, o]` from `n[r, t, o]` and how often each rater gave each label."""
    raters, classes = given_.shape
    confusion = {}
    for r in range(raters):
        right = 0.75 * smoothing + sum(n[r, t, t] for t in range(classes))
        accuracy = right / (smoothing + given_[r].sum()) if given_[r].sum() + smoothing else 1 / 3
        for t in range(classes):
            row = []
            for o in range(classes):
                before = smoothing * (0.75 if o == t else 0.25 / (classes - 1))
                row.append(max(n[r, t, o] + before, 1e-10 if given_[r, o] else 0))
            for o in range(classes):
                free = row[o] / sum(row) if sum(row) else 1 / classes
                coin = accuracy if o == t else (1 - accuracy) / (classes - 1)
                confusion[r, t, o] = coin if one else free
    return confusion


def slow_em(
    triplets: Triplets, classes: int, iterations: int, smoothing: float, one: bool
) -> tuple[Array, list[float]]:
    """Do the same in plain loops and raw products."""
    answers = list(zip(triplets.task, triplets.rater, triplets.label, strict=True))
    tasks = len(triplets.tasks)
    raters = len(triplets.raters)
    of_task = {i: [(r, o) for j, r, o in answers if j == i] for i in range(tasks)}
    given_ = np.array(
        [
            [sum((r, o) == (s, c) for _, s, c in answers) for o in range(classes)]
            for r in range(raters)
        ]
    )
    w = {
        (i, t): sum(o == t for _, o in of_task[i]) / max(len(of_task[i]), 1)
        for i in range(tasks)
        for t in range(classes)
    }
    likelihoods = []
    for _ in range(iterations):
        seen = [i for i in range(tasks) if of_task[i]]
        prior = [sum(w[i, t] for i in seen) / len(seen) for t in range(classes)]
        n = dict.fromkeys(product(range(raters), range(classes), range(classes)), 0.0)
        for i, r, o in answers:
            for t in range(classes):
                n[r, t, o] += w[i, t]
        confusion = slow_matrices(n, given_, smoothing, one)
        likelihoods.append(0.0)
        for i in range(tasks):
            joint = [
                prior[t] * math.prod(confusion[r, t, o] for r, o in of_task[i])
                for t in range(classes)
            ]
            likelihoods[-1] += math.log(sum(joint))
            w |= {(i, t): joint[t] / sum(joint) for t in range(classes)}
    return np.array([[w[i, t] for t in range(classes)] for i in range(tasks)]), likelihoods


@METHODS
@pytest.mark.parametrize("smoothing", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_loops(method: Method, smoothing: float, seed: int) -> None:
    triplets = draw_table(seed)
    one = method is one_coin
    truth, likelihoods = slow_em(triplets, 3, 6, smoothing, one)
    fused = method(triplets, 3, max_iter=6, tol=-1, smoothing=smoothing)
    np.testing.assert_allclose(fused.truth, truth, atol=1e-9)
    np.testing.assert_allclose(fused.log_likelihoods, likelihoods, rtol=1e-9)
    assert fused.labels[15] == MISSING  # nobody saw it
    assert fused.voxels == (fused.labels != MISSING).sum() < 30


def test_the_anaesthetists_of_1979() -> None:
    fused = dawid_skene(anaesthetists(), 4, tol=1e-8)
    assert fused.converged
    assert fused.confusion is not None
    assert fused.prior is not None
    expected = np.array(ERROR_RATES.split(), float).reshape(4, 5, 4).swapaxes(0, 1)
    np.testing.assert_allclose(fused.confusion, expected, atol=0.00501)
    np.testing.assert_allclose(fused.prior, [0.40, 0.42, 0.11, 0.07], atol=0.00501)
    assert fused.log_likelihoods[-1] == pytest.approx(-192.89088, abs=1e-5)
    assert (fused.labels[[1, 6, 34, 37]] + 1).tolist() == [4, 1, 2, 3]
    assert fused.truth[[6, 34, 37], [0, 1, 2]].round(3).tolist() == [0.981, 0.948, 0.979]


def sparse_table(seed: int) -> Triplets:
    """Draw a table with few labels of each rater."""
    return draw_table(seed, tasks=40, raters=30, classes=5)


@pytest.fixture(scope="module")
def crowd_kit(pytestconfig: pytest.Config) -> dict[tuple[str, int, int], Answer]:
    """Ask crowd-kit once for all; answers by method, iterations (0: it has none) and seed."""
    jobs = {}
    for seed in range(3):
        frame = sparse_table(seed).frame()
        jobs["MajorityVote", 0, seed] = Job("MajorityVote", frame, {})
        for name in ("DawidSkene", "OneCoinDawidSkene"):
            for iterations in (1, 3, 20):
                options = {"n_iter": iterations, "tol": -math.inf}
                jobs[name, iterations, seed] = Job(name, frame, options)
    return dict(zip(jobs, peer_crowdkit.fit(pytestconfig.rootpath, [*jobs.values()]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_vote_equals_crowd_kit(
    seed: int, crowd_kit: dict[tuple[str, int, int], Answer]
) -> None:
    triplets = sparse_table(seed)
    answered = np.unique(triplets.task)
    shares = vote_shares(answers_of(triplets, 5))[answered]
    peer = crowd_kit["MajorityVote", 0, seed]
    np.testing.assert_allclose(shares, peer.truth(triplets.tasks[answered], 5), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 3, 20])
@pytest.mark.parametrize("name", ["DawidSkene", "OneCoinDawidSkene"])
def test_equals_crowd_kit(
    name: str, iterations: int, crowd_kit: dict[tuple[str, int, int], Answer]
) -> None:
    method = dawid_skene if name == "DawidSkene" else one_coin
    for seed in range(3):
        triplets = sparse_table(seed)
        peer = crowd_kit[name, iterations, seed]
        fused = method(triplets, 5, max_iter=iterations, tol=-1)
        there = fused.labels != MISSING
        names = triplets.tasks[there]
        np.testing.assert_allclose(fused.truth[there], peer.truth(names, 5), atol=1e-6)
        np.testing.assert_array_equal(fused.labels[there], peer.labels.loc[names])


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_never_falls(method: Method, seed: int) -> None:
    triplets = draw_table(seed, tasks=60, raters=12, classes=4)
    steps = np.diff(method(triplets, 4, max_iter=200, tol=-1).log_likelihoods)
    assert len(steps) == 199
    assert steps.min() > -1e-7
    assert steps[0] > 0.1


def test_with_smoothing_it_is_the_posterior_that_never_falls() -> None:
    triplets = draw_table(3, tasks=60, raters=12, classes=4)
    smoothing = 2.0
    before = np.where(np.eye(4, dtype=bool), 0.75, 0.25 / 3)
    values = []
    for k in range(25):
        past = dawid_skene(triplets, 4, max_iter=k, tol=-1, smoothing=smoothing)
        fused = dawid_skene(triplets, 4, max_iter=k + 1, tol=-1, smoothing=smoothing)
        assert past.confusion is not None
        penalty = smoothing * (before * np.log(past.confusion)).sum()
        values.append(fused.log_likelihoods[-1] + penalty)
    assert np.diff(values).min() > -1e-9


@METHODS
def test_order_does_not_matter(method: Method) -> None:
    triplets = draw_table(5, tasks=40, raters=7, classes=4)
    rng = np.random.default_rng(0)
    tasks = rng.permutation(40)
    raters = rng.permutation(7)
    classes = rng.permutation(4)
    rows = rng.permutation(len(triplets))
    moved = make_triplets(
        tasks[triplets.task][rows],
        raters[triplets.rater][rows],
        classes[triplets.label][rows],
        (40, 7, 4),
    )
    one, other = (method(t, 4, max_iter=10, tol=-1) for t in (triplets, moved))
    np.testing.assert_allclose(other.truth[tasks][:, classes], one.truth, atol=1e-9)
    np.testing.assert_allclose(
        other.confusion[raters][:, classes][:, :, classes], one.confusion, atol=1e-9
    )
    np.testing.assert_allclose(other.prior[classes], one.prior, atol=1e-9)
    np.testing.assert_allclose(other.log_likelihoods, one.log_likelihoods, rtol=1e-9)


def test_two_threads_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    matrices = np.stack([hammer_spammer(p, 3) for p in np.linspace(0.3, 0.9, 10)])
    triplets, _ = draw_full_table(5_000, matrices)  # 50,000 answers: in stretches
    triplets = triplets.select(tasks=np.arange(5_000), raters=[1, 2, 5, 6])
    together = dawid_skene(triplets, 3, max_iter=5, tol=-1)
    monkeypatch.setattr("raters.fusion.columns._SMALL", 10**9)
    alone = dawid_skene(triplets, 3, max_iter=5, tol=-1)
    np.testing.assert_allclose(together.truth, alone.truth, atol=1e-12)
    np.testing.assert_allclose(together.log_likelihoods, alone.log_likelihoods, rtol=1e-12)


def test_stretches_cover_every_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raters.fusion.columns._SMALL", 1)
    for seed in range(20):
        triplets = draw_table(seed, tasks=9, raters=2)
        answers = answers_of(triplets, 3)
        edges = [len(triplets) * k // 5 for k in range(6)]
        stretches = [answers.task_stretch(a, b) for a, b in pairwise(edges)]
        assert [t for a, b in stretches for t in range(a, b)] == list(range(9))


@pytest.mark.slow
def test_finds_the_matrices_of_simulated_raters() -> None:
    rng = np.random.default_rng(0)
    matrices = np.stack(
        [hammer_spammer(p, 4) for p in (0.9, 0.7, 0.5, 0.2)]
        + [pairwise_flipper(p, 4, rng) for p in (0.85, 0.7, 0.6)]
    )
    errors = []
    for tasks in (200, 2_000, 20_000):
        triplets, truth = draw_full_table(tasks, matrices)
        fused = dawid_skene(triplets, 4, max_iter=500)
        assert fused.converged
        assert (fused.labels == truth).mean() > 0.95
        errors.append(np.sqrt(np.mean((fused.confusion - matrices) ** 2)))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]  # about 1 / sqrt(tasks)
    assert errors[2] < 0.006


@pytest.mark.slow
def test_one_coin_finds_the_accuracies() -> None:
    skills = np.array([0.9, 0.7, 0.5, 0.3, 0.1])
    matrices = np.stack([hammer_spammer(p, 5, guess="other") for p in skills])
    triplets, _ = draw_full_table(20_000, matrices)
    fused = one_coin(triplets, 5)
    assert fused.confusion is not None
    np.testing.assert_allclose(fused.confusion[:, 2, 2], skills, atol=0.02)
    np.testing.assert_allclose(fused.confusion[:, 0, 3], (1 - skills) / 4, atol=0.005)


def draw_sparse_table(seed: int) -> tuple[Triplets, Array]:
    """Draw 3 answers per task by raters of unlike skill who gave about 4 labels per class."""
    rng = np.random.default_rng(seed)
    matrices = np.stack([hammer_spammer(p, 10) for p in rng.uniform(0.2, 0.95, 40)])
    full, truth = draw_full_table(500, matrices, seed)
    some = rng.random(len(full)) < 3 / 40
    kept = (column[some] for column in (full.task, full.rater, full.label))
    return make_triplets(*kept, (500, 40, 10)), truth


@pytest.mark.slow
def test_models_beat_votes_and_smoothing_helps_raters_with_few_labels() -> None:
    right: dict[str, list[float]] = {"votes": [], "plain": [], "smooth": [], "one coin": []}
    for seed in range(4):
        few, truth = draw_sparse_table(seed)
        labels = {
            "votes": vote_shares(answers_of(few, 10)).argmax(axis=1),
            "plain": dawid_skene(few, 10).labels,
            "smooth": dawid_skene(few, 10, smoothing=5).labels,
            "one coin": one_coin(few, 10).labels,
        }
        for name, found in labels.items():
            right[name].append(float((found == truth).mean()))
    mean = {name: np.mean(values) for name, values in right.items()}
    assert mean["smooth"] > mean["plain"] + 0.03
    assert mean["smooth"] > mean["votes"]
    assert mean["one coin"] > mean["votes"] + 0.02  # the fewest parameters


@METHODS
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_thousands_of_raters_on_a_task_do_not_underflow(method: Method, smoothing: float) -> None:
    rng = np.random.default_rng(0)
    label = np.where(rng.random(2_000) < 0.55, 1, rng.integers(0, 5, 2_000))
    label[0] = 4
    fused = method(make_triplets(np.zeros(2_000), np.arange(2_000), label), 5, smoothing=smoothing)
    assert np.isfinite(fused.log_likelihoods).all()
    np.testing.assert_allclose(fused.truth.sum(axis=1), 1)
    assert fused.labels.tolist() == [1]


@METHODS
def test_hard_gives_zeros_and_ones_and_comes_to_rest(method: Method) -> None:
    triplets = draw_table(2)
    fused = method(triplets, 3, hard=True, tol=0)
    assert fused.converged
    there = fused.labels != MISSING
    assert set(np.unique(fused.truth[there])) == {0.0, 1.0}
    soft = method(triplets, 3)
    assert (fused.labels == soft.labels).mean() > 0.8


def test_a_given_prior_is_kept_and_a_given_start_is_used() -> None:
    triplets = draw_table(1)
    prior = np.array([0.2, 0.3, 0.5])
    fused = dawid_skene(triplets, 3, prior=prior)
    np.testing.assert_allclose(fused.prior, prior)
    np.testing.assert_allclose(fused.truth[15], prior)
    turned = np.roll(vote_shares(answers_of(triplets, 3)), 1, axis=1)
    kept = turned.copy()
    other = dawid_skene(triplets, 3, start=turned)
    np.testing.assert_array_equal(turned, kept)  # what comes in is not written to
    plain = dawid_skene(triplets, 3)
    np.testing.assert_allclose(other.truth, np.roll(plain.truth, 1, axis=1), atol=1e-9)


def test_a_row_without_evidence_is_uniform_over_what_the_rater_says() -> None:
    triplets = make_triplets([0, 1, 2], [0, 0, 1], [0, 1, 2])
    fused = dawid_skene(triplets, 3, max_iter=0, start=np.eye(3))
    assert fused.confusion is not None
    expected = [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]
    np.testing.assert_allclose(fused.confusion[0], expected, atol=1e-9)
    np.testing.assert_allclose(fused.confusion[1], [[0, 0, 1]] * 3)


@METHODS
def test_a_prior_that_forbids_what_all_say_wins(method: Method) -> None:
    fused = method(make_triplets([0, 1], [0, 1], [1, 1]), 2, prior=[1, 0])
    np.testing.assert_allclose(fused.truth, [[1, 0], [1, 0]])
    assert np.isfinite(fused.log_likelihoods).all()


def test_classes_nobody_named_stay_empty() -> None:
    fused = dawid_skene(draw_table(0), 6)
    np.testing.assert_array_equal(fused.truth[:, 3:], 0)
    np.testing.assert_allclose(fused.truth, dawid_skene(draw_table(0), 3).truth @ np.eye(3, 6))


@METHODS
def test_a_rater_without_labels_and_a_table_without_answers(method: Method) -> None:
    fused = method(make_triplets([0, 1], [0, 0], [0, 1], (3, 2, 2)), 2)
    np.testing.assert_allclose(fused.confusion[1], 0.5)
    assert fused.labels.tolist() == [0, 1, MISSING]
    np.testing.assert_allclose(fused.truth[2], fused.prior)
    smooth = method(make_triplets([0, 1], [0, 0], [0, 1], (3, 2, 2)), 2, smoothing=1)
    np.testing.assert_allclose(smooth.confusion[1], [[0.75, 0.25], [0.25, 0.75]])
    empty = method(make_triplets([], [], [], (2, 1, 3)), 3)
    assert empty.labels.tolist() == [MISSING, MISSING]
    np.testing.assert_allclose(empty.truth, 1 / 3)
    assert (empty.voxels, empty.converged, empty.log_likelihoods[-1]) == (0, True, 0.0)


def test_missing_answers_count_for_nothing() -> None:
    triplets = draw_table(4)
    more = make_triplets(
        np.append(triplets.task, [0, 15]),
        np.append(triplets.rater, [1, 2]),
        np.append(triplets.label, [MISSING, MISSING]),
        (30, 6, 3),
    )
    np.testing.assert_array_equal(dawid_skene(more, 3).truth, dawid_skene(triplets, 3).truth)


@st.composite
def odd_tables(draw: st.DrawFn) -> tuple[Triplets, int]:
    tasks, raters, classes = (draw(st.integers(1, n)) for n in (6, 4, 4))
    answer = st.tuples(
        st.integers(0, tasks - 1), st.integers(0, raters - 1), st.integers(0, classes - 1)
    )
    rows = np.array(draw(st.lists(answer, max_size=25)), int).reshape(-1, 3)
    return make_triplets(*rows.T, (tasks, raters, classes)), classes


@pytest.mark.slow
@METHODS
@settings(max_examples=150, deadline=None)
@given(
    odd=odd_tables(),
    smoothing=st.sampled_from([0.0, 1e-300, 0.1, 5.0, 1e12]),
    hard=st.booleans(),
    max_iter=st.sampled_from([0, 1, 2, 40]),
)
def test_no_table_gives_nan(
    method: Method, odd: tuple[Triplets, int], smoothing: float, hard: bool, max_iter: int
) -> None:
    triplets, classes = odd
    fused = method(triplets, classes, smoothing=smoothing, hard=hard, max_iter=max_iter)
    for rows in (fused.truth, fused.confusion, fused.prior):
        assert rows is not None
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-9)
    assert np.isfinite(fused.log_likelihoods).all()
    answered = np.isin(np.arange(len(triplets.tasks)), triplets.task)
    np.testing.assert_array_equal(fused.labels != MISSING, answered)
    if not hard and not smoothing:
        assert np.diff(fused.log_likelihoods).min(initial=0) > -1e-6


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_classes": 2}, "found class numbers from 0 to 2, expected -1 to 1"),
        ({"num_classes": 0}, "found 0 classes"),
        ({"max_iter": -1}, "found max_iter=-1"),
        ({"smoothing": -0.5}, "found the smoothing -0.5"),
        ({"smoothing": np.nan}, "found the smoothing nan"),
        ({"prior": [0.5, 0.5]}, r"found a prior of shape \(2,\), expected \(3,\)"),
        ({"prior": [1, np.nan, 0]}, "found a prior that is no probability"),
        ({"prior": [0, 0, 0]}, "found a prior that is no probability"),
        ({"start": np.ones((2, 3))}, r"found a start of shape \(2, 3\), expected \(30, 3\)"),
        ({"start": -np.ones((30, 3))}, "found a start that is no probability"),
    ],
)
def test_refuses_what_cannot_be(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        dawid_skene(draw_table(0), **{"num_classes": 3} | changed)


@pytest.mark.parametrize(("task", "rater"), [([5], [0]), ([-1], [0]), ([0], [3])])
def test_refuses_numbers_without_a_name(task: list[int], rater: list[int]) -> None:
    with pytest.raises(RatersError, match="expected 0 to"):
        dawid_skene(make_triplets(task, rater, [0], (2, 2, 2)), 2)


@pytest.mark.slow
def test_standard_errors_of_a_table_are_the_spread_over_repeated_tables() -> None:
    import raters
    from raters.study.study import Study

    true = np.array(
        [[[0.9, 0.1], [0.2, 0.8]], [[0.85, 0.15], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]]]
    )
    random = np.random.default_rng(0)
    found = []
    errors = []
    for k in range(25):
        truth = (random.random(400) < 0.4).astype(int)
        labels = np.stack([random.random(400) < c[truth, 1] for c in true], axis=1).astype(int)
        study = Study.from_arrays(labels=labels)
        rows = raters.fuse(study, "dawid-skene").rows if k < 4 else []
        errors += [[row["sensitivity_se"] for row in rows]] if rows else []
        matrices = raters.fuse(study, "dawid-skene").table.confusion
        assert matrices is not None
        found.append(matrices[:, [0, 1], [0, 1]].ravel())
    ratio = np.mean(errors, axis=0) / np.std(found, axis=0, ddof=1)
    assert (ratio > 0.5).all() and (ratio < 2).all()

"""Fusion of masks: STAPLE, vote, mean and SIMPLE against loops from the formulas and SimpleITK."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
import SimpleITK
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import raters
from raters.assessment.performance import case_errors, measures
from raters.consensus.pooled import PooledStaple
from raters.core.errors import RatersError
from raters.fusion._simple import simple
from raters.fusion._staple import staple
from raters.fusion._vote import mean, vote
from raters.fusion.columns import columns_of
from raters.fusion.em import EMOptions, EMState, e_step, run_em, start_matrices
from raters.fusion.methods import METHODS as REGISTRY
from raters.study.study import Study

SEEDS = st.integers(0, 10**6)
METHODS = [
    *(
        partial(m.function("segmentation"), **(m.fixed or {}))
        for m in REGISTRY.values()
        if m.masks and not m.images
    ),
    partial(staple, restrict=True),
]


def draw_noisy_labels(
    seed: int, raters: int = 4, classes: int = 3, size: int = 200, missing: float = 0.1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw truth, labels by raters of differing skill, and their matrices."""
    random = np.random.default_rng(seed)
    truth = random.choice(classes, size, p=random.dirichlet(np.full(classes, 5.0)))
    right = random.uniform(0.6, 0.95, raters)
    confusion = np.stack([p * np.eye(classes) + (1 - p) / classes for p in right])
    steps = confusion[:, truth].cumsum(axis=2)
    labels = (random.random((raters, size, 1)) > steps).sum(axis=2).clip(0, classes - 1)
    labels[random.random(labels.shape) < missing] = -1
    return truth, labels, confusion


def slow_staple(
    labels: np.ndarray,
    classes: int,
    max_iter: int,
    prior: np.ndarray | None = None,
    smoothing: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """STAPLE as loops over voxels, raters and classes, written from the formulas."""
    seen = labels[labels >= 0]
    shares = np.array([(seen == t).mean() for t in range(classes)]) if prior is None else prior
    confusion = start_matrices(len(labels), classes, 0.99999)
    for step in range(max_iter + 1):
        weights = np.zeros((classes, labels.shape[1]))
        for i in range(labels.shape[1]):
            for t in range(classes):
                weights[t, i] = shares[t]
                for r in range(len(labels)):
                    if labels[r, i] >= 0:
                        weights[t, i] *= confusion[r, t, labels[r, i]]
            weights[:, i] /= weights[:, i].sum()
        if step == max_iter:
            return weights, confusion
        for r in range(len(labels)):
            for t in range(classes):
                there = labels[r] >= 0
                total = weights[t, there].sum() + smoothing * classes
                for o in range(classes):
                    confusion[r, t, o] = (weights[t, labels[r] == o].sum() + smoothing) / total
    raise AssertionError


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(2, 4), st.booleans())
def test_staple_equals_the_slow_loop(seed: int, classes: int, patterns: bool) -> None:
    _, labels, _ = draw_noisy_labels(seed, classes=classes, size=80)
    truth, confusion = slow_staple(labels, classes, max_iter=7)
    found = staple(labels, classes, max_iter=7, tol=0, patterns=patterns)
    np.testing.assert_allclose(found.truth, truth, atol=2e-6)
    assert found.confusion is not None
    np.testing.assert_allclose(found.confusion, confusion, atol=1e-9)
    np.testing.assert_array_equal(
        found.labels[(labels >= 0).any(axis=0)], truth.argmax(axis=0)[(labels >= 0).any(axis=0)]
    )


@pytest.mark.parametrize("smoothing", [0.25, 4.0])
def test_smoothing_adds_to_every_count(smoothing: float) -> None:
    """By patterns, voxel by voxel, and pooled over cases; a rater of few labels most of all."""
    _, labels, _ = draw_noisy_labels(3, classes=3, size=60)
    labels[0, 5:] = -1
    truth, confusion = slow_staple(labels, 3, max_iter=7, smoothing=smoothing)
    _, plain = slow_staple(labels[1:], 3, max_iter=7)
    assert np.abs(confusion[1:] - plain).max() > 0.01
    options: dict[str, Any] = {"smoothing": smoothing, "max_iter": 7, "tol": 0}
    for patterns in (True, False):
        found = staple(labels, 3, **options, patterns=patterns)
        assert found.confusion is not None
        np.testing.assert_allclose(found.confusion, confusion, atol=1e-9)
        np.testing.assert_allclose(found.truth, truth, atol=2e-6)
    study = Study.from_arrays(labels=labels.reshape(4, 3, 20, 1).swapaxes(0, 1))
    pooled = PooledStaple(study, **options, starts="vote")
    np.testing.assert_allclose(pooled.state.confusion, confusion, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.integers(3, 6))
def test_binary_staple_equals_simpleitk(seed: int, number: int) -> None:
    _, labels, _ = draw_noisy_labels(seed, raters=number, classes=2, size=900, missing=0)
    masks = labels.reshape(number, 30, 30).astype(np.uint8)
    images = [SimpleITK.GetImageFromArray(mask) for mask in masks]
    filter_ = SimpleITK.STAPLEImageFilter()
    filter_.SetForegroundValue(1)
    expected = SimpleITK.GetArrayFromImage(filter_.Execute(images))
    found = staple(masks.astype(np.int8), 2, max_iter=5000, tol=1e-12)
    np.testing.assert_allclose(found.truth[1], expected, atol=1e-4)
    assert found.confusion is not None
    np.testing.assert_allclose(found.confusion[:, 1, 1], filter_.GetSensitivity(), atol=1e-4)
    np.testing.assert_allclose(found.confusion[:, 0, 0], filter_.GetSpecificity(), atol=1e-4)


def test_two_raters_and_ties_equal_the_slow_loop() -> None:
    """Where SimpleITK's multi-label filter is wrong."""
    labels = np.array([[0, 1, 2, 2, 1, 0, 0, 2], [0, 1, 2, 1, 2, 0, 1, 2]])
    truth, confusion = slow_staple(labels, 3, max_iter=12)
    found = staple(labels, 3, max_iter=12, tol=0)
    np.testing.assert_allclose(found.truth, truth, atol=1e-6)
    np.testing.assert_allclose(found.confusion, confusion, atol=1e-9)  # type: ignore[arg-type]


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.booleans())
def test_log_likelihood_never_falls(seed: int, estimate: bool) -> None:
    _, labels, _ = draw_noisy_labels(seed)
    steps = staple(labels, 3, max_iter=60, estimate_prior=estimate).log_likelihoods
    assert (np.diff(steps) > -1e-8 * abs(steps[0])).all()


def test_patterns_and_voxels_give_the_same_with_many_classes() -> None:
    _, labels, _ = draw_noisy_labels(1, raters=3, classes=20, size=20_000)
    by_pattern = staple(labels, 20, max_iter=5)
    by_voxel = staple(labels, 20, max_iter=5, patterns=False)
    np.testing.assert_allclose(by_pattern.truth, by_voxel.truth, atol=1e-6)
    np.testing.assert_array_equal(by_pattern.labels, by_voxel.labels)


def test_two_thousand_raters_do_not_underflow() -> None:
    truth, labels, _ = draw_noisy_labels(0, raters=2000, classes=3, size=50, missing=0.5)
    found = staple(labels, 3)
    assert np.isfinite(found.truth).all()
    np.testing.assert_array_equal(found.labels, truth)


def test_a_prior_map_decides_where_labels_do_not() -> None:
    labels = np.full((2, 4), -1)
    labels[:, 2:] = [0, 1]
    prior = np.array([[0.9, 0.2, 0.5, 0.5], [0.1, 0.8, 0.5, 0.5]])
    found = staple(labels, 2, prior=prior)
    np.testing.assert_allclose(found.truth[1, :2], [0.1, 0.8], atol=1e-6)
    assert found.labels.tolist() == [-1, -1, 0, 1]
    varied = staple(np.array([[0, 1, 1, 0], [0, 1, 0, 1]]), 2, prior=prior)
    assert varied.labels[0] == 0 and varied.labels[1] == 1
    with pytest.raises(RatersError, match=r"shape \(3,\), expected \(2,\)"):
        staple(labels, 2, prior=np.ones(3))


def test_restricted_staple_looks_only_where_raters_differ() -> None:
    _, labels, _ = draw_noisy_labels(3, classes=2, size=300, missing=0)
    agreed = (labels == labels[0]).all(axis=0)
    found = staple(labels, 2, restrict=True, max_iter=30)
    np.testing.assert_array_equal(found.truth[1][agreed], labels[0][agreed])
    alone = staple(labels[:, ~agreed], 2, max_iter=30)
    np.testing.assert_allclose(found.confusion, alone.confusion, atol=1e-9)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.truth[:, ~agreed], alone.truth, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(["lowest", "highest", "undecided"]))
def test_vote_and_mean_by_a_loop(seed: int, ties: Any) -> None:
    _, labels, _ = draw_noisy_labels(seed, raters=4, size=60, missing=0.4)
    voted = vote(labels, 3, ties=ties)
    averaged = mean(labels, 3, ties=ties)
    for i, column in enumerate(labels.T.tolist()):
        given_labels = [o for o in column if o >= 0]
        counts = [given_labels.count(t) for t in range(3)]
        best = [t for t in range(3) if counts[t] == max(counts)]
        expected = {"lowest": best[0], "highest": best[-1]}.get(ties, best[0])
        if not given_labels or (ties == "undecided" and len(best) > 1):
            expected = -1
        assert voted.labels[i] == averaged.labels[i] == expected
        share = np.array(counts) / len(given_labels) if given_labels else np.full(3, 1 / 3)
        np.testing.assert_allclose(averaged.truth[:, i], share, atol=1e-6)


def test_simple_leaves_out_the_bad_rater() -> None:
    truth, labels, _ = draw_noisy_labels(5, raters=6, classes=2, size=2000, missing=0)
    labels[5] = 1 - truth
    assert (simple(labels, 2).labels == truth).mean() > (vote(labels, 2).labels == truth).mean()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    arrays(np.int8, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.integers(-1, 2)),
    st.sampled_from(METHODS),
)
def test_degenerate_input_never_gives_nan(labels: np.ndarray, method: Any) -> None:
    found = method(labels, 3)
    assert np.isfinite(found.truth).all()
    np.testing.assert_allclose(found.truth.sum(axis=0), 1, atol=1e-5)
    assert found.labels.shape == labels.shape[1:]
    assert (found.labels[(labels < 0).all(axis=0)] == -1).all()
    if found.confusion is not None:
        np.testing.assert_allclose(found.confusion.sum(axis=2), 1, atol=1e-9)


@pytest.mark.parametrize("value", [0, 1])
def test_all_empty_and_all_full(value: int) -> None:
    """Where SimpleITK's filter gives NaN."""
    found = staple(np.full((3, 4, 4), value), 2)
    assert (found.labels == value).all() and np.isfinite(found.truth).all()


def test_standard_errors_are_the_spread_over_repeated_studies() -> None:
    random = np.random.default_rng(0)
    true = np.array(
        [[[0.9, 0.1], [0.2, 0.8]], [[0.95, 0.05], [0.3, 0.7]], [[0.85, 0.15], [0.1, 0.9]]]
    )
    prior = np.array([0.6, 0.4])
    found = []
    errors = []
    for _ in range(150):
        truth = (random.random(2000) < prior[1]).astype(int)
        labels = np.stack([random.random(2000) < c[truth, 1] for c in true]).astype(np.int8)
        columns = columns_of(labels, 2)
        start = EMState(prior[:, np.newaxis], start_matrices(3, 2, 0.9))
        state = run_em(partial(e_step, columns), start, EMOptions(500, 1e-8))
        found.append(state.confusion[:, [0, 1], [0, 1]])
        spread = case_errors(columns, state, "given")
        assert spread is not None
        errors.append(spread.error[:, 0])
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(found, axis=0), rtol=0.25)


def test_measures_by_counting() -> None:
    random = np.random.default_rng(1)
    joint = random.integers(1, 50, (3, 3)).astype(float)
    prior = joint.sum(axis=1) / joint.sum()
    found = measures(joint / joint.sum(axis=1, keepdims=True), prior)
    for c in range(3):
        tp = joint[c, c]
        fn = joint[c].sum() - joint[c, c]
        fp = joint[:, c].sum() - tp
        tn = joint.sum() - tp - fn - fp
        expected = [tp / (tp + fn), tn / (tn + fp), tp / (tp + fp), tn / (tn + fn)]
        np.testing.assert_allclose(found[:, c], expected)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 12])
def test_pooled_matrices_are_those_of_all_cases_in_one(number: int) -> None:
    """3 raters by counting patterns, 12 by passes over the cases."""
    parts = [draw_noisy_labels(seed, raters=number, classes=3, size=64)[1] for seed in range(5)]
    study = Study.from_arrays(labels=[part.reshape(number, 8, 8) for part in parts])
    pooled = PooledStaple(study, max_iter=15, tol=0)
    whole = staple(np.concatenate(parts, axis=1), 3, max_iter=15, tol=0)
    np.testing.assert_allclose(pooled.state.confusion, whole.confusion, atol=1e-9)  # type: ignore[arg-type]
    together = np.concatenate(
        [pooled.fuse(case.labels).truth.reshape(3, -1) for case in study], axis=1
    )
    np.testing.assert_allclose(together, whole.truth, atol=1e-6)


def test_pooling_finds_matrices_from_raters_who_share_some_cases() -> None:
    random = np.random.default_rng(0)
    right = np.array([0.95, 0.9, 0.85, 0.7, 0.6])
    truth = np.zeros((20, 20), int)
    truth[5:15, 5:15] = 1
    labels = np.full((100, 5, 20, 20), -1)
    for k in range(100):
        for r in random.choice(5, 3, replace=False):
            labels[k, r] = np.where(random.random((20, 20)) < right[r], truth, 1 - truth)
    pooled = PooledStaple(Study.from_arrays(labels=labels), estimate_prior=True)
    diagonal = np.diagonal(pooled.state.confusion, axis1=1, axis2=2)
    np.testing.assert_allclose(diagonal, np.stack([right, right], axis=1), atol=0.03)


def test_consensus_of_a_study_and_its_performance() -> None:
    _, labels, confusion = draw_noisy_labels(2, raters=4, classes=2, size=40_000, missing=0)
    study = Study.from_arrays(labels=labels.reshape(1, 4, 200, 200), raters=list("abcd"))
    consensus = raters.fuse(study, "dawid-skene")
    assert consensus.confusion is not None and consensus.confusion.shape == (1, 4, 2, 2)
    np.testing.assert_allclose(consensus.confusion[0], confusion, atol=0.02)
    row = consensus.performance.iloc[1]
    assert row["rater"] == "a" and row["class"] == "foreground"
    assert abs(row["sensitivity"] - confusion[0, 1, 1]) < 5 * row["sensitivity_se"]
    with pytest.raises(RatersError, match="did you mean 'staple'"):
        raters.fuse(study, "stapel")
    with pytest.raises(RatersError, match="found the option 'window'"):
        raters.fuse(study, "vote", window=3)
    with pytest.raises(RatersError, match="found pool with 'vote'"):
        raters.fuse(study, "vote", pool=True)


@pytest.mark.parametrize(("number", "classes"), [(5, 2), (8, 6)])
def test_memory_beyond_input_and_output_is_small(number: int, classes: int) -> None:
    """At most 2 bytes per voxel and rater, by patterns (5 raters) and voxel by voxel (8)."""
    labels = np.random.default_rng(0).integers(0, classes, (number, 300_000), np.int8)
    staple(labels[:, :1000].copy(), classes, max_iter=1)  # compiles
    tracemalloc.start()
    found = staple(labels, classes, max_iter=2)
    size = found.truth.nbytes + found.labels.nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - size < 2 * labels.size


def test_one_map_equals_that_of_all() -> None:
    _, labels, _ = draw_noisy_labels(0)
    found = staple(labels, 3)
    np.testing.assert_array_equal(found.probability(2), found.truth[2])


def test_voxels_that_nobody_labelled_do_not_hold_back_the_prior() -> None:
    _, labels, _ = draw_noisy_labels(4, raters=3, classes=2, size=2000, missing=0)
    padded = np.concatenate([labels, np.full((3, 50_000), -1)], axis=1)
    alone = staple(labels, 2, estimate_prior=True)
    for patterns in (True, False):
        found = staple(padded, 2, estimate_prior=True, patterns=patterns)
        np.testing.assert_allclose(found.prior, alone.prior, atol=1e-9)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found.labels[:2000], alone.labels)


def test_what_labels_do_not_tell_has_no_standard_error() -> None:
    truth, labels, _ = draw_noisy_labels(6, raters=4, classes=2, size=3000, missing=0)
    labels[3] = 0  # a rater who hands in nothing
    whole = Study.from_arrays(labels=labels.reshape(1, 4, 50, 60), raters=list("abcd"))
    rows = {(r["rater"], r["class"]): r for r in raters.fuse(whole, "dawid-skene").rows}
    assert rows["d", "foreground"]["sensitivity"] == pytest.approx(0)
    assert rows["d", "foreground"]["sensitivity_se"] is None
    assert rows["a", "foreground"]["sensitivity_se"] > 0
    two = raters.fuse(whole.select(raters=["a", "b"]), "dawid-skene").rows
    assert {row["sensitivity_se"] for row in two} == {None}
    labels[3] = -1
    silent = Study.from_arrays(labels=labels.reshape(1, 4, 50, 60), raters=list("abcd"))
    row = raters.fuse(silent, "staple").rows[-1]
    assert row["rater"] == "d" and row["sensitivity"] is None and row["ppv"] is None
    assert truth.shape == (3000,)


def test_many_classes_of_one_rater_and_labels_out_of_range() -> None:
    labels = np.arange(255)[np.newaxis]
    assert (vote(labels, 255).labels == labels[0]).all()
    for patterns in (True, False):
        with pytest.raises(RatersError, match=r"found label 254, expected -1 .* from 0 to 1"):
            staple(labels, 2, patterns=patterns)


def test_simple_goes_on_until_the_raters_are_settled_too() -> None:
    for seed in range(20):
        _, labels, _ = draw_noisy_labels(seed, raters=6, classes=2, size=60, missing=0)
        found = simple(labels, 2, max_iter=50)
        assert found.converged
        np.testing.assert_array_equal(found.labels, simple(labels, 2, max_iter=500).labels)


def test_pooled_errors_are_those_of_studies_with_other_groups() -> None:
    """Prevalence differs between groups, so predictive values vary more than sensitivities."""
    random = np.random.default_rng(0)
    labels = []
    groups = []
    for k in range(24):
        truth = random.random((20, 20)) < 0.1 + 0.5 * (k % 6) / 5
        wrong = random.random((4, 20, 20)) < 0.15
        labels.append(np.where(wrong, ~truth, truth).astype(int))
        groups.append(f"g{k % 6}")
    for k, case in enumerate(labels):
        if k != 6:
            case[3] = -1  # rater 3 labelled one case only
    study = Study.from_arrays(labels=labels, groups=groups)
    rows = {(r["rater"], r["class"]): r for r in raters.fuse(study, "dawid-skene", pool=True).rows}
    own = rows["0", "foreground"]
    assert own["ppv_se"] > own["sensitivity_se"] > 0
    assert rows["3", "foreground"]["sensitivity_se"] is None


@pytest.mark.slow
@pytest.mark.parametrize("function", [vote, staple, simple, raters.fusion.spatial_staple])
def test_one_case_as_lists_and_what_is_none(function: Any) -> None:
    labels = np.array([[[0, 1, 1, 0]] * 4, [[0, 1, 0, 0]] * 4, [[0, 1, 1, 1]] * 4])
    expected = function(labels, 2).labels
    for same in (labels.tolist(), labels.astype(float), list(labels)):
        assert np.array_equal(function(same, 2).labels, expected)
    with pytest.raises(RatersError, match=r"expected .*raters"):
        function(labels[:0], 2)
    with pytest.raises(RatersError, match="found label 1, expected -1"):
        function(labels, 1)
    with pytest.raises(RatersError, match="found str, expected an array of numbers"):
        function("x", 2)


def test_a_number_of_classes_and_a_method_are_known() -> None:
    for number in (2.5, "2", 0):
        with pytest.raises(RatersError, match="classes, expected at least 1, a whole number"):
            staple(np.zeros((2, 3), int), number)  # type: ignore[arg-type]
    with pytest.raises(RatersError, match="found the method 3, expected one of vote"):
        raters.fuse(np.zeros((1, 2, 3, 3), int), 3)  # type: ignore[arg-type]

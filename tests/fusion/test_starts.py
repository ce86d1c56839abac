"""EM from several starts, sums that know no order, and the patterns that occur."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raters
from raters.consensus.pooled import PatternCounts, PooledStaple, occurring
from raters.core.errors import RatersError
from raters.fusion._dawid_skene import dawid_skene, one_coin
from raters.fusion._staple import staple
from raters.fusion.columns import columns_of
from raters.fusion.starts import Solution, choose
from raters.metrics.overlap import dice
from raters.study.study import Study
from raters.study.triplets import Triplets

SYMMETRIC = np.array(
    [[2, 0, 1, 0, 2, 2, 2, 1, 1, 0, 0, 1, 0, 2], [1, 2, 0, 2, 1, 1, 1, 0, 0, 2, 2, 0, 2, 1]] * 2
)


def draw_careless_raters(
    seed: int, cases: int = 30, size: int = 32
) -> tuple[np.ndarray, np.ndarray]:
    """Draw two raters who are right, and three who overlook faint lesions and draw streaks."""
    random = np.random.default_rng(seed)
    labels = np.zeros((cases, 5, size, size), bool)
    truth = np.zeros((cases, size, size), bool)
    for own, true in zip(labels, truth, strict=True):
        a, b = random.integers(1, size - 8, (2, 2))
        bright, faint, streak = np.zeros((3, size, size), bool)
        bright[a[0] : a[0] + 5, a[1] : a[1] + 5] = True
        faint[b[0] : b[0] + 7, b[1] : b[1] + 7] = True
        streak[random.integers(size - 2) :][:2, 4:20] = True
        true |= bright | faint
        own[:2] = true
        for mask in own[2:]:
            mask |= bright & ~faint
            mask |= streak & (random.random() < 0.8)
    labels ^= random.random(labels.shape) < 0.005
    return labels.astype(np.int16), truth.astype(np.int16)


def triplets_of_answers(answers: np.ndarray, classes: int) -> Triplets:
    """Make a table of answers `(raters, tasks)`, -1 where there is none."""
    task, rater = np.nonzero(answers.T >= 0)
    names = np.array([f"t{k}" for k in range(answers.shape[1])], object)
    workers = tuple(f"w{k}" for k in range(len(answers)))
    return Triplets(task, rater, answers.T[task, rater], names, workers, tuple(range(classes)))


def pooled_dice(pooled: PooledStaple, study: Study, truth: np.ndarray) -> float:
    """Return the Dice of all fused cases together."""
    fused = [pooled.fuse(case.labels).labels for case in study]
    return float(dice(np.stack(fused), truth)[0])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_vote_starts_in_the_wrong_optimum_and_several_starts_find_the_other(seed: int) -> None:
    labels, truth = draw_careless_raters(seed)
    study = Study.from_arrays(labels=labels, raters=["ann", "bob", "cy", "dee", "eve"])
    vote = PooledStaple(study, starts="vote")
    several = PooledStaple(study)
    assert vote.found.notes == [] and vote.found.rows == []
    assert pooled_dice(vote, study, truth) < 0.6 < 0.75 < pooled_dice(several, study, truth)
    found = {row["start"]: row for row in several.found.rows}
    assert list(found) == ["vote", "mean", "union", *(f"rater {name}" for name in study.raters)]
    assert several.found.kept.log_likelihood > found["vote"]["log_likelihood"] + 100
    assert found["rater cy"]["differs"] > 0.3 and found["union"]["differs"] == 0
    assert "ends elsewhere" in several.found.notes[0] and "rater cy" in several.found.notes[0]


@pytest.mark.slow
def test_a_table_of_few_raters_starts_several_times_too() -> None:
    labels, truth = draw_careless_raters(0, cases=12, size=24)
    answers = np.moveaxis(labels, 1, 0).reshape(5, -1)
    kept = dawid_skene(triplets_of_answers(answers, 2), 2)
    vote = dawid_skene(triplets_of_answers(answers, 2), 2, starts="vote")
    assert dice(kept.labels, truth.ravel())[0] > 0.7 > 0.6 > dice(vote.labels, truth.ravel())[0]
    assert [row["start"] for row in kept.starts][:2] == ["mean", "vote"] and kept.notes
    # With few answers for each number of the model the start is that of Dawid and Skene.
    assert dawid_skene(triplets_of_answers(answers[:, :12], 2), 2).starts == []


def test_raters_who_err_at_random_have_one_solution() -> None:
    random = np.random.default_rng(0)
    truth = (np.indices((6, 24, 24)).sum(axis=0) % 12 < 4).astype(np.int16)
    wrong = random.random((6, 4, 24, 24)) > np.array([0.97, 0.9, 0.85, 0.75])[:, None, None]
    study = Study.from_arrays(labels=np.where(wrong, 1 - truth[:, None], truth[:, None]))
    several = PooledStaple(study)
    vote = PooledStaple(study, starts="vote")
    assert several.found.kept.start == "vote" and several.found.notes == []
    np.testing.assert_array_equal(several.state.confusion, vote.state.confusion)
    likelihoods = [row["log_likelihood"] for row in several.found.rows]
    np.testing.assert_allclose(likelihoods, likelihoods[0], atol=0.1)


def test_a_likelier_solution_with_raters_mostly_wrong_is_left_out() -> None:
    right = np.array([[90.0, 10], [20, 80]])
    wrong = np.array([[10.0, 90], [80, 20]])
    labels = np.array([0, 1], np.int16)
    solutions = [
        Solution("vote", "vote", "right", -100.0, right, labels),
        Solution("mean", "mean", "wrong", -50.0, wrong, 1 - labels),
    ]
    found = choose(solutions, np.ones(2))
    assert found.kept.state == "right" and "left out" in found.notes[0]
    alone = choose(solutions[1:], np.ones(2))
    assert "from no start" in alone.notes[0] and alone.notes[0].endswith("class number 0, 1")


def test_equally_likely_solutions_are_named() -> None:
    found = staple(SYMMETRIC, 3, starts=["raters"])
    assert "do not decide" in found.notes[-1]
    likelihoods = [row["log_likelihood"] for row in found.starts]
    np.testing.assert_allclose(likelihoods, likelihoods[0], atol=1e-6)
    turned = staple(SYMMETRIC[::-1], 3, starts=["raters"])
    np.testing.assert_array_equal(found.labels, turned.labels)


def test_at_exact_symmetry_the_order_of_raters_does_not_decide() -> None:
    one = staple(SYMMETRIC, 3)
    other = staple(SYMMETRIC[::-1], 3)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.truth, other.truth)
    np.testing.assert_array_equal(one.confusion, other.confusion[::-1])  # type: ignore[index]


def draw_labels_of_raters(
    seed: int, symmetric: bool
) -> tuple[np.ndarray, int, np.random.Generator]:
    """Draw labels `(raters, n)`: at random, or of two kinds of raters who mirror each other."""
    random = np.random.default_rng(seed)
    number, classes, size = random.integers([2, 2, 2], [7, 5, 30])
    labels = random.integers(0, classes, (number, size))
    if symmetric:
        turned = random.permutation(classes)[labels[0]]
        labels[:] = np.where(np.arange(number)[:, np.newaxis] % 2, turned, labels[0])
    labels[random.random(labels.shape) < random.choice([0, 0.2])] = -1
    return labels, int(classes), random


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans())
def test_order_of_raters_and_voxels_does_not_matter(
    seed: int, symmetric: bool, estimate: bool, patterns: bool
) -> None:
    labels, classes, random = draw_labels_of_raters(seed, symmetric)
    raters_ = random.permutation(len(labels))
    voxels = random.permutation(labels.shape[1])
    options = {"estimate_prior": estimate, "patterns": patterns, "max_iter": 60}
    one = staple(labels, classes, **options)  # type: ignore[arg-type]
    other = staple(labels[raters_][:, voxels], classes, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.labels[voxels], other.labels)
    np.testing.assert_array_equal(one.truth[:, voxels], other.truth)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([dawid_skene, one_coin]))
def test_order_of_raters_and_tasks_does_not_matter(
    seed: int, symmetric: bool, method: object
) -> None:
    labels, classes, random = draw_labels_of_raters(seed, symmetric)
    raters_ = random.permutation(len(labels))
    tasks = random.permutation(labels.shape[1])
    one = method(triplets_of_answers(labels, classes), classes, max_iter=60)  # type: ignore[operator]
    other = method(triplets_of_answers(labels[raters_][:, tasks], classes), classes, max_iter=60)  # type: ignore[operator]
    np.testing.assert_array_equal(one.labels[tasks], other.labels)
    np.testing.assert_array_equal(one.truth[tasks], other.truth)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_names_of_classes_do_not_matter_where_nothing_is_tied(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 3, 400)
    right = np.array([0.9, 0.8, 0.7, 0.65])
    labels = np.where(
        random.random((4, 400)) < right[:, None], truth, random.integers(0, 3, (4, 400))
    )
    names = random.permutation(3)
    one = staple(labels, 3)
    other = staple(names[labels], 3)
    np.testing.assert_allclose(one.truth, other.truth[names], atol=1e-5)
    sure = one.truth.max(axis=0) > 0.51
    np.testing.assert_array_equal(names[one.labels][sure], other.labels[sure])


def test_order_of_cases_does_not_matter() -> None:
    labels, _ = draw_careless_raters(3, cases=6, size=24)
    one = PooledStaple(Study.from_arrays(labels=labels))
    other = PooledStaple(Study.from_arrays(labels=labels[::-1].copy()))
    np.testing.assert_array_equal(one.state.confusion, other.state.confusion)


def draw_many_patterns(seed: int, number: int, classes: int, cases: int) -> np.ndarray:
    """Draw raters of unlike skill with more possible patterns than can be counted in a table."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, (cases, 1, 20, 20))
    right = random.uniform(0.6, 0.95, (number, 1, 1))
    guess = random.integers(0, classes, (cases, number, 20, 20))
    labels = np.where(random.random(guess.shape) < right, truth, guess)
    labels[random.random(labels.shape) < 0.05] = -1
    return labels.astype(np.int16)


@pytest.mark.parametrize(("number", "classes"), [(7, 6), (12, 3), (30, 9)])
def test_patterns_that_occur_give_what_passes_over_the_cases_give(
    number: int, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last has more patterns than 64 bits can number."""
    study = Study.from_arrays(
        labels=draw_many_patterns(0, number, classes, cases=4), classes=range(classes)
    )
    options = {"max_iter": 12, "tol": 0.0, "starts": "vote"}
    counted = PooledStaple(study, **options)  # type: ignore[arg-type]
    assert counted.columns is not None and counted.columns.weights.sum() == 4 * 400
    monkeypatch.setattr("raters.consensus.pooled.MOST_KEPT", 100)
    passes = PooledStaple(study, **options)  # type: ignore[arg-type]
    assert passes.columns is None and passes.groups is None
    np.testing.assert_allclose(counted.state.confusion, passes.state.confusion, atol=1e-10)
    for case in study:
        one = counted.fuse(case.labels)
        other = passes.fuse(case.labels)
        np.testing.assert_allclose(one.truth, other.truth, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "classes"), [(6, 6), (40, 20)])
def test_collected_patterns_are_those_of_the_voxels(number: int, classes: int) -> None:
    """Big enough for two threads; the columns are voxels of a small image, many times."""
    random = np.random.default_rng(1)
    small = random.integers(-1, classes, (number, 700)).astype(np.int8)
    labels = small[:, random.integers(0, 700, 70_000)]
    found = columns_of(labels, classes)
    assert found.codes is not None and found.size <= 700 and found.weights.sum() == 70_000
    np.testing.assert_array_equal(found.labels[:, found.codes], labels)
    np.testing.assert_array_equal(np.bincount(found.codes, minlength=found.size), found.weights)


def test_patterns_nearly_as_many_as_voxels_are_left_as_voxels() -> None:
    labels = np.random.default_rng(0).integers(0, 20, (10, 40_000)).astype(np.int8)
    assert columns_of(labels, 20).codes is None


def test_groups_are_forgotten_before_patterns_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raters.consensus.pooled.MOST_KEPT", 100)
    counts = PatternCounts()
    whole = []
    for k in range(30):
        labels = np.random.default_rng(k).integers(0, 3, (3, 200))  # 27 patterns occur
        counts.add(str(k), occurring(columns_of(labels, 3)))
        whole.append(labels)
    columns, groups = counts.result()
    expected = occurring(columns_of(np.concatenate(whole, axis=1), 3))
    assert groups is None and not counts.full
    np.testing.assert_array_equal(columns.labels, expected.labels)
    np.testing.assert_array_equal(columns.weights, expected.weights)


def test_starts_that_are_refused() -> None:
    with pytest.raises(RatersError, match="found starts=median, expected several or: vote, mean"):
        staple(SYMMETRIC, 3, starts="median")
    with pytest.raises(RatersError, match="found no starts"):
        staple(SYMMETRIC, 3, starts=[])


def test_random_starts_and_the_result_that_says_where_they_ended() -> None:
    labels, _ = draw_careless_raters(0, cases=4, size=24)
    consensus = raters.fuse(Study.from_arrays(labels=labels), "staple", starts=["vote", "random"])
    fused = consensus["0"]
    assert [row["start"] for row in fused.starts] == ["vote", *(f"random {k}" for k in range(1, 6))]
    assert sum(row["kept"] for row in fused.starts) == 1


def test_starts_that_masks_do_not_have_are_refused() -> None:
    labels = np.random.default_rng(0).integers(0, 2, (17, 30))  # more than 16: none starts alone
    with pytest.raises(RatersError, match=r"found starts=\['raters'\], expected some"):
        staple(labels, 2, starts="raters")


def test_where_no_solution_is_sound_the_note_does_not_call_it_the_most_likely() -> None:
    wrong = np.array([[1.0, 9.0], [9.0, 1.0]])
    first, other = (
        Solution(kind, kind, None, likelihood, wrong, np.array([number] * 4, np.int16))
        for kind, likelihood, number in (("vote", -500.0, 0), ("mean", -100.0, 1))
    )
    choice = choose([first, other], np.ones(4))
    assert choice.kept is first
    assert "the most likely was kept" not in " ".join(choice.notes)
    assert "the usual start was kept" in choice.notes[-1]

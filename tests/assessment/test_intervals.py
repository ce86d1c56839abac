"""Standard errors equal derivatives of the likelihood; their intervals hold the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import raters
from raters.assessment import table_errors
from raters.assessment.information import Directions, information
from raters.assessment.performance import (
    MEASURES,
    group_errors,
    measures,
    share_interval,
    t_quantile,
)
from raters.fusion._dawid_skene import dawid_skene, one_coin
from raters.fusion.columns import columns_of
from raters.fusion.em import EMState
from raters.study.study import Study

Array = NDArray[Any]

RATERS = np.array(
    [
        [[0.95, 0.05], [0.15, 0.85]],
        [[0.9, 0.1], [0.1, 0.9]],
        [[0.97, 0.03], [0.3, 0.7]],
        [[0.85, 0.15], [0.2, 0.8]],
        [[0.92, 0.08], [0.25, 0.75]],
    ]
)


def draw_voxel_labels(random: np.random.Generator, voxels: int, share: float) -> Array:
    """Draw what the raters say of voxels that are foreground with some share, `(5, voxels)`."""
    truth = (random.random(voxels) < share).astype(int)
    return np.stack([random.random(voxels) < matrix[truth, 1] for matrix in RATERS]).astype(int)


def plain_log_likelihood(labels: Array, prior: Array, confusion: Array) -> float:
    """Write the formula down: sum_i log sum_t pi_t prod_r C_r[t, o_ir]."""
    total = 0.0
    for column in labels.T:
        joint = prior.copy()
        for r, o in enumerate(column):
            if o >= 0:
                joint = joint * confusion[r, :, o]
        total += float(np.log(joint.sum()))
    return total


def move_along(state: EMState, ways: Directions, steps: Array) -> tuple[Array, Array]:
    """Move prior and matrices along directions."""
    prior = state.prior[:, 0].copy()
    confusion = state.confusion.copy()
    for way, step in enumerate(steps):
        r, t, o, other = (x[way] for x in (ways.rater, ways.true, ways.grows, ways.falls))
        row = prior if r < 0 else confusion[r, t]
        row[o] += step
        row[other] -= step
    return prior, confusion


def test_information_is_the_curvature_of_the_likelihood() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(-1, 3, (3, 60))
    labels[:, :30] = random.integers(0, 3, 30)  # where all agree, so that classes are told apart
    confusion = random.dirichlet([2, 2, 2], (3, 3))
    state = EMState(np.array([[0.5], [0.3], [0.2]]), confusion)
    found = information(columns_of(labels, 3), state, True)
    assert found is not None and len(found.directions) == 3 * 3 * 2 + 2

    def value(steps: Array) -> float:
        prior, matrices = move_along(state, found.directions, steps)
        return plain_log_likelihood(labels, prior, matrices)

    chosen = [0, 1, 5, 9, 14, 18, 19]
    unit = np.eye(len(found.directions))
    h = 1e-4
    for i in chosen:
        slope = (value(h * unit[i]) - value(-h * unit[i])) / (2 * h)
        assert found.scores.sum(axis=0)[i] == pytest.approx(slope, rel=1e-3, abs=1e-3)
        for j in chosen:
            four = [value(h * (a * unit[i] + b * unit[j])) for a in (1, -1) for b in (1, -1)]
            bend = -(four[0] - four[1] - four[2] + four[3]) / (4 * h * h)
            assert found.matrix[i, j] == pytest.approx(bend, rel=1e-3, abs=0.05)


def test_errors_of_a_table_are_those_of_its_information(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws that are solved by conjugate gradients, against matrices that are inverted."""
    labels = draw_voxel_labels(np.random.default_rng(1), 400, 0.4)
    labels[np.random.default_rng(2).random(labels.shape) < 0.2] = -1
    study = Study.from_arrays(labels=labels.T.copy())
    fusion = dawid_skene(study.triplets, 2, max_iter=1000, tol=1e-9)
    monkeypatch.setattr(table_errors, "DRAWS", 1000)
    groups = np.arange(400) // 4
    found = table_errors.table_errors(study.triplets, groups, fusion, "rows", {})
    columns = columns_of(labels, 2, patterns=False)
    state = EMState(fusion.prior[:, np.newaxis], fusion.confusion)  # type: ignore[index, arg-type]
    by_group = np.equal.outer(np.arange(100), groups).astype(float)
    expected = group_errors(columns, state, by_group)
    assert found is not None and expected is not None
    np.testing.assert_allclose(found.error, expected.error, rtol=0.08)
    worth = 1 / (1 / found.freedom - 1 / 1000)
    np.testing.assert_allclose(worth, expected.freedom, rtol=1e-6)


@pytest.mark.slow
def test_errors_of_one_coin_are_those_of_a_plain_jackknife(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    truth = random.integers(0, 3, 150)
    right = random.random((150, 6)) < np.linspace(0.55, 0.9, 6)
    labels = np.where(right, truth[:, np.newaxis], (truth[:, np.newaxis] + 1) % 3)
    options = {"estimate_prior": True}
    how: dict[str, Any] = {"max_iter": 2000, "tol": 1e-9, **options}
    study = Study.from_arrays(labels=labels)
    fusion = one_coin(study.triplets, 3, **how)
    monkeypatch.setattr(table_errors, "DRAWS", 1000)
    groups = np.arange(150) // 3
    found = table_errors.table_errors(study.triplets, groups, fusion, "coin", options)
    assert found is not None
    left = []
    for group in range(50):
        part = study.triplets.select(tasks=np.flatnonzero(groups != group))
        left.append(one_coin(part, 3, **how).confusion[:, 0, 0])  # type: ignore[index]
    spread = np.sqrt(49 / 50 * np.square(np.array(left) - np.mean(left, axis=0)).sum(axis=0))
    np.testing.assert_allclose(found.error[:, 0, 0], spread, rtol=0.1)


def test_intervals_are_wilsons_with_students_quantiles() -> None:
    for right, total in ((45, 50), (3, 40), (499, 500)):
        p = right / total
        oracle = stats.binomtest(right, total).proportion_ci(method="wilson")
        found = share_interval(p, np.sqrt(p * (1 - p) / total))
        assert [float(x) for x in found] == pytest.approx([oracle.low, oracle.high], abs=1e-4)
    freedom = np.array([1, 1.1, 1.7, 2.2, 3.5, 7, 11.4, 25, 80, 1e4])
    np.testing.assert_allclose(t_quantile(freedom), stats.t.ppf(0.975, freedom), rtol=0.01)
    assert np.isnan(share_interval(0.9, 0.4)).all()  # surer by one label than by these
    assert np.isnan(share_interval(0.9, 0.1, 0.5)).all()


def interval_presence(study: Study, method: str, **options: Any) -> set[bool]:
    """Return whether rows have standard errors and intervals."""
    rows = raters.fuse(study, method, **options).rows
    columns = [f"{measure}{ending}" for measure in MEASURES for ending in ("_se", "_low")]
    return {row[column] is not None for row in rows for column in columns}


@pytest.mark.slow
def test_no_interval_comes_from_another_model() -> None:
    """Shares of labels, maps and disputed voxels are not the model whose information is known."""
    labels = draw_voxel_labels(np.random.default_rng(4), 1200, 0.1).reshape(1, 5, 30, 40)
    study = Study.from_arrays(labels=labels)
    even = np.full((2, 30, 40), 0.5)
    assert interval_presence(study, "staple") == {False}
    assert interval_presence(study, "staple", pool=True) == {False}
    assert interval_presence(study, "staple", prior=even) == {False}
    assert interval_presence(study, "dawid-skene", prior=even) == {False}
    assert interval_presence(study, "dawid-skene", restrict=True) == {False}
    assert interval_presence(study, "spatial-staple", window=9) == {False}
    assert interval_presence(study, "staple", prior=[0.9, 0.1]) == {True}
    assert interval_presence(study, "staple", estimate_prior=True) == {True}
    assert interval_presence(study, "dawid-skene") == {True}
    table = Study.from_arrays(labels=labels[0].reshape(5, -1).T.copy())
    assert interval_presence(table, "dawid-skene") == {True}
    assert interval_presence(table, "dawid-skene", hard=True) == {False}
    assert interval_presence(table, "dawid-skene", smoothing=2.0) == {False}
    assert interval_presence(study, "dawid-skene", smoothing=1.0) == {False}
    assert interval_presence(table, "one-coin") == {False}
    assert interval_presence(table, "one-coin", estimate_prior=True) == {True}


def test_no_interval_where_em_stopped_early_or_labels_do_not_tell() -> None:
    labels = draw_voxel_labels(np.random.default_rng(5), 1200, 0.3)
    masks = Study.from_arrays(labels=labels.reshape(1, 5, 30, 40))
    table = Study.from_arrays(labels=labels.T.copy())
    for study in (masks, table):
        assert False in interval_presence(study, "dawid-skene", max_iter=1)
        assert interval_presence(study.select(raters=["0", "1"]), "dawid-skene") == {False}
    alone = np.concatenate([labels.T, np.full((1200, 1), -1)], axis=1)
    alone = np.concatenate([alone, np.full((200, 6), -1)])
    alone[1200:, 5] = np.arange(200) % 2  # met by nobody
    rows = raters.fuse(Study.from_arrays(labels=alone), "dawid-skene").rows
    assert {row["sensitivity_low"] is None for row in rows[-2:]} == {True}
    assert {row["sensitivity_low"] is None for row in rows[:-2]} == {False}


def test_errors_are_those_of_groups_not_of_tasks() -> None:
    """Each answer five times over: groups know that nothing was learnt."""
    labels = draw_voxel_labels(np.random.default_rng(6), 200, 0.4).T
    once = raters.fuse(Study.from_arrays(labels=labels), "dawid-skene").rows
    names = [str(k) for k in range(200)] * 5
    five = Study.from_arrays(labels=np.tile(labels, (5, 1)), groups=names)
    again = raters.fuse(five, "dawid-skene").rows
    alone = raters.fuse(Study.from_arrays(labels=np.tile(labels, (5, 1))), "dawid-skene").rows
    width = [np.array([r["ppv_high"] - r["ppv_low"] for r in x]) for x in (once, again, alone)]
    np.testing.assert_allclose(width[1], width[0], rtol=0.5)
    assert width[2].mean() < 0.6 * width[0].mean()


def coverage_of(studies: list[list[dict[str, Any]]], share: float) -> dict[str, float]:
    """Return how often intervals of the foreground hold the truth, by measure."""
    truth = np.stack([measures(matrix, np.array([1 - share, share])) for matrix in RATERS])
    hits: dict[str, list[bool]] = {m: [] for m in MEASURES}
    for rows in studies:
        for row in rows[1::2]:
            for m, name in enumerate(MEASURES):
                low = row[f"{name}_low"]
                high = row[f"{name}_high"]
                if low is not None:
                    hits[name].append(low <= truth[int(row["rater"]), m, 1] <= high)
    assert all(len(found) > 0.7 * 5 * len(studies) for found in hits.values())
    return {name: float(np.mean(found)) for name, found in hits.items()}


@pytest.mark.slow
def test_intervals_of_a_table_hold_the_truth() -> None:
    """As benchmarks/interval_coverage.py measures for all methods, smaller."""
    studies = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        labels = draw_voxel_labels(random, 300, 0.1).T.copy()
        labels[random.random(labels.shape) < 0.4] = -1
        studies.append(raters.fuse(Study.from_arrays(labels=labels), "dawid-skene").rows)
    for name, share in coverage_of(studies, 0.1).items():
        assert 0.88 <= share <= 0.99, (name, share)


@pytest.mark.slow
def test_intervals_of_few_cases_hold_the_truth() -> None:
    """Prevalence differs by case; +- 1.96 standard errors held it in 86 to 89 %."""
    studies = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        cases = [
            draw_voxel_labels(random, 400, s).reshape(5, 20, 20)
            for s in random.beta(4, 4 * 7 / 3, 6)
        ]
        study = Study.from_arrays(labels=cases)
        studies.append(raters.fuse(study, "dawid-skene", pool=True).rows)
    for name, share in coverage_of(studies, 0.3).items():
        assert 0.90 <= share <= 0.99, (name, share)


def asymmetric(seed: int) -> tuple[Study, Array]:
    """Draw a table whose raters all miss one class: 0.4 of it found, of the other 0.9."""
    random = np.random.default_rng(seed)
    truth = (random.random(400) < 0.3).astype(int)
    right = np.where(truth == 0, 0.45, 0.95)[:, np.newaxis] * random.uniform(0.85, 1, 15)
    labels = np.where(random.random((400, 15)) < right, truth[:, np.newaxis], 1 - truth[:, None])
    labels[random.random(labels.shape) < 0.6] = -1
    return Study.from_arrays(labels=labels), truth


@pytest.mark.slow
def test_one_coin_does_not_follow_a_habit_that_all_raters_share() -> None:
    right: dict[str, list[float]] = {"vote": [], "alike": [], "estimated": []}
    for seed in range(4):
        study, truth = asymmetric(seed)
        for name, method, options in (
            ("vote", "vote", {}),
            ("alike", "one-coin", {}),
            ("estimated", "one-coin", {"estimate_prior": True}),
        ):
            labels = raters.fuse(study, method, **options).table.labels
            right[name].append(float((labels == truth).mean()))
    mean = {name: np.mean(found) for name, found in right.items()}
    assert mean["alike"] > mean["vote"] - 0.05
    assert mean["estimated"] < mean["vote"] - 0.1  # as crowd-kit's is


@pytest.mark.slow
def test_notes_say_where_no_method_is_safe() -> None:
    study, _ = asymmetric(0)
    (note,) = raters.fuse(study, "one-coin").notes
    assert "differ from vote on" in note and "dawid-skene on" in note
    few = study.select(cases=study.cases[:40])
    notes = raters.fuse(few, "dawid-skene").notes
    assert "half of the 15 raters have at most" in notes[0] and "smoothing=2" in notes[0]
    assert not any("half of" in n for n in raters.fuse(few, "dawid-skene", smoothing=2).notes)
    good = Study.from_arrays(labels=draw_voxel_labels(np.random.default_rng(0), 400, 0.4).T)
    assert raters.fuse(good, "dawid-skene").notes == []


@pytest.mark.parametrize("options", [{}, {"smoothing": 1.0}, {"hard": True}])
def test_one_coin_has_the_predictive_values_of_the_prior_that_was_given(
    options: dict[str, Any],
) -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random(80) < 0.1).astype(int)
    labels = np.where(rng.random((80, 3)) < 0.85, truth[:, None], 1 - truth[:, None])
    consensus = raters.fuse(
        Study.from_arrays(labels=labels), "one-coin", prior=[0.9, 0.1], **options
    )
    row = consensus.rows[0]
    right = row["sensitivity"]
    assert row["ppv"] == pytest.approx(0.9 * right / (0.9 * right + 0.1 * (1 - right)))

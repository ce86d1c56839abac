"""Agreement in tables against plain loops, repeated readings included."""

from __future__ import annotations

from itertools import combinations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

import raters
from raters.core.classes import Classes
from raters.study.cases import CaseIndex
from raters.study.study import Study
from raters.study.triplets import TableBackend, Triplets


def make_table_study(task: np.ndarray, rater: np.ndarray, label: np.ndarray, tasks: int) -> Study:
    names = np.array([f"t{k}" for k in range(tasks)], object)
    who = tuple(f"r{k}" for k in range(int(rater.max()) + 1))
    triplets = Triplets(task, rater, label, names, who, (0, 1, 2))
    index = CaseIndex.of(list(names))
    classes = Classes.of(["x", "y", "z"])
    return Study(TableBackend(triplets), index, who, "classification", _classes=classes)


def draw_answers(seed: int, repeats: bool) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    task = random.integers(0, 15, 120)
    rater = random.integers(0, 5, 120)
    if not repeats:
        task, rater = np.unique(np.stack([task, rater]), axis=1)
    label = np.where(random.random(len(task)) < 0.6, task % 3, random.integers(0, 3, len(task)))
    return task, rater, label


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_pairs_equal_scikit_learn(seed: int) -> None:
    task, rater, label = draw_answers(seed, repeats=False)
    dense = np.full((15, 5), -1)
    dense[task, rater] = label
    rows = {
        (r["rater_a"], r["rater_b"]): r
        for r in raters.agree(make_table_study(task, rater, label, 15)).pairs
    }
    for a, b in combinations(range(5), 2):
        both = (dense[:, a] >= 0) & (dense[:, b] >= 0)
        if not both.any():
            assert (f"r{a}", f"r{b}") not in rows
            continue
        row = rows[f"r{a}", f"r{b}"]
        assert row["cases"] == both.sum()
        assert row["agreement"] == pytest.approx((dense[both, a] == dense[both, b]).mean())
        if len(set(dense[both, a]) | set(dense[both, b])) > 1:
            kappa = cohen_kappa_score(dense[both, a], dense[both, b])
            assert row["kappa"] == pytest.approx(kappa, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_alpha_equals_krippendorff(seed: int) -> None:
    task, rater, label = draw_answers(seed, repeats=False)
    counts = np.zeros((15, 3))
    np.add.at(counts, (task, label), 1)
    expected = krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
    overall = raters.agree(make_table_study(task, rater, label, 15)).overall[-1]
    assert overall["krippendorff_alpha"] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_only_pairs_of_two_raters_make_coincidences(seed: int) -> None:
    """By a loop: each two raters of a task share one pair, spread over their readings."""
    task, rater, label = draw_answers(seed, repeats=True)
    coincidence = np.zeros((3, 3))
    agreeing = []
    shares = []
    for t in set(task.tolist()):
        own = {r: label[(task == t) & (rater == r)] for r in set(rater[task == t].tolist())}
        given_shares = [np.bincount(x, minlength=3) / len(x) for x in own.values()]
        if len(own) < 2:
            continue
        shares.append(np.mean(given_shares, axis=0))
        pairs = []
        for p in given_shares:
            pairs += [np.outer(p, q) for q in given_shares if p is not q]
        coincidence += np.sum(pairs, axis=0) / (len(own) - 1)
        agreeing.append(np.mean([np.trace(pair) for pair in pairs]))
    total = coincidence.sum()
    marginal = coincidence.sum(axis=0)
    differ = total - np.trace(coincidence)
    alpha = 1 - (total - 1) * differ / (total**2 - (marginal**2).sum())
    chance = (np.mean(shares, axis=0) ** 2).sum()
    fleiss = (np.mean(agreeing) - chance) / (1 - chance)
    overall = raters.agree(make_table_study(task, rater, label, 15)).overall[-1]
    assert overall["krippendorff_alpha"] == pytest.approx(alpha, abs=1e-9)
    assert overall["fleiss_kappa"] == pytest.approx(fleiss, abs=1e-9)


def test_repeating_oneself_is_no_agreement() -> None:
    random = np.random.default_rng(0)
    task = np.repeat(np.arange(400), 4)
    rater = np.tile([0, 0, 0, 1], 400)
    label = np.where(
        rater == 0, np.repeat(random.integers(0, 3, 400), 4), random.integers(0, 3, 1600)
    )
    overall = raters.agree(make_table_study(task, rater, label, 400)).overall[-1]
    assert abs(overall["fleiss_kappa"]) < 0.1 and abs(overall["krippendorff_alpha"]) < 0.1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_raters_against_the_rest_and_themselves_by_a_loop(seed: int, repeats: bool) -> None:
    task, rater, label = draw_answers(seed, repeats)
    answers = list(zip(task.tolist(), rater.tolist(), label.tolist(), strict=True))
    rows = {r["rater"]: r for r in raters.agree(make_table_study(task, rater, label, 15)).raters}
    for k in sorted(set(rater.tolist())):
        right = []
        own_pairs = []
        for t, r, o in answers:
            if r == k:
                others = [x for s, q, x in answers if s == t and q != k]
                best = [c for c in range(3) if others.count(c) == max(map(others.count, range(3)))]
                if others and len(best) == 1:
                    right.append(o == best[0])
        for t in range(15):
            own = [o for s, r, o in answers if s == t and r == k]
            own_pairs += [a == b for a, b in combinations(own, 2)]
        row = rows[f"r{k}"]
        assert row["compared"] == len(right)
        assert row["agreement_rest"] == (pytest.approx(np.mean(right)) if right else None)
        assert row["agreement_self"] == (pytest.approx(np.mean(own_pairs)) if own_pairs else None)


def test_cases_are_ranked_by_entropy_and_lonely_ones_come_last() -> None:
    task = np.array([0, 0, 1, 1, 2])
    study = make_table_study(task, np.array([0, 1, 0, 1, 0]), np.array([1, 1, 0, 2, 0]), 4)
    result = raters.agree(study)
    assert [row["case"] for row in result.cases] == ["t1", "t0", "t2", "t3"]
    assert [row["entropy"] for row in result.cases] == [1.0, 0.0, None, None]
    assert any(
        "fewer than two labels" in note and note.endswith("2 tasks") for note in result.notes
    )

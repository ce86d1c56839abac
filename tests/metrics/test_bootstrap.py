"""Intervals over groups: they cover as they say, where a bootstrap over cases would not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from raters import metrics
from raters.core.errors import RatersError
from raters.metrics import bootstrap
from raters.metrics.bootstrap import ratio


def draw_scores(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return scores of mean .8 in 40 patients of 1 to 9 slices, which are alike in a patient."""
    groups = np.repeat(np.arange(40), rng.integers(1, 10, 40))
    return 0.8 + rng.normal(0, 0.1, 40)[groups] + rng.normal(0, 0.05, groups.size), groups


def covers(found: metrics.Interval, value: float) -> bool:
    return found.low <= value <= found.high


@pytest.mark.slow
def test_coverage_with_groups_and_without() -> None:
    rng = np.random.default_rng(0)
    grouped = naive = 0
    for seed in range(800):
        values, groups = draw_scores(rng)
        grouped += covers(metrics.interval(values, groups, repeats=500, seed=seed), 0.8)
        naive += covers(metrics.interval(values, repeats=500, seed=seed), 0.8)
    assert 0.90 <= grouped / 800 <= 0.98
    assert naive / 800 < 0.75


def test_paired_difference_covers_and_is_narrower() -> None:
    rng = np.random.default_rng(1)
    hits = narrower = 0
    for seed in range(200):
        first, groups = draw_scores(rng)
        second = first + 0.02 + rng.normal(0, 0.03, first.size)
        found = metrics.difference_interval(first, second, groups, repeats=500, seed=seed)
        hits += covers(found, 0.02)
        single = metrics.interval(second, groups, repeats=500, seed=seed)
        narrower += found.high - found.low < single.high - single.low
    assert 0.90 <= hits / 200 <= 0.99
    assert narrower == 200


def test_cases_alone_equal_scipy() -> None:
    values = np.random.default_rng(2).random(50)
    wider = 1 - 2 * stats.norm.cdf(-np.sqrt(50 / 49) * stats.t.ppf(0.975, 49))
    oracle = stats.bootstrap(
        (values,),
        np.mean,
        method="percentile",
        confidence_level=wider,
        n_resamples=20_000,
        rng=np.random.default_rng(3),
    ).confidence_interval
    found = metrics.interval(values, repeats=20_000)
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=0.004)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 12))
def test_fast_mean_equals_any_statistic(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, 30))
    names = [f"p{k}" for k in rng.integers(groups, size=30)]
    about = {"groups": names, "repeats": 40, "seed": seed}
    fast = metrics.interval(a, **about)
    slow = metrics.interval(a, statistic=np.mean, **about)
    assert (fast.estimate, fast.low, fast.high) == pytest.approx(
        (slow.estimate, slow.low, slow.high), nan_ok=True
    )
    fast = metrics.difference_interval(a, b, **about)
    slow = metrics.difference_interval(a, b, statistic=np.mean, **about)
    assert (fast.estimate, fast.low, fast.high) == pytest.approx(
        (slow.estimate, slow.low, slow.high), nan_ok=True
    )
    assert not fast.exists or fast.low <= fast.high


def test_groups_are_drawn_whole() -> None:
    """Group k has k scores of k: a draw holds each as often as whole groups give it."""
    seen: set[tuple[float, ...]] = set()

    def note(drawn: NDArray[np.float64]) -> float:
        seen.add(tuple(sorted(drawn)))
        return float(drawn.mean())

    values = np.repeat(np.arange(1, 7), np.arange(1, 7))
    metrics.interval(values, values, note, repeats=50)
    assert len(seen) > 20
    for drawn in seen:
        assert all(drawn.count(k) % k == 0 for k in range(1, 7))
        assert sum(drawn.count(k) // k for k in range(1, 7)) == 6


def test_undefined_scores_are_left_out_and_counted() -> None:
    nan = float("nan")
    values = [nan, 0.5, nan, 0.7, 0.9, 0.4, 0.8, 0.6]
    found = metrics.interval(values, list("abbcdefg"))
    assert (found.groups, found.skipped) == (6, 2)
    kept = metrics.interval([0.5, 0.7, 0.9, 0.4, 0.8, 0.6], list("bcdefg"))
    assert (found.estimate, found.low, found.high) == (kept.estimate, kept.low, kept.high)
    pair = metrics.difference_interval([0.5, nan, 0.7], [0.6, 0.6, nan])
    assert (pair.estimate, pair.groups, pair.skipped) == (pytest.approx(0.1), 1, 2)


def test_few_groups_have_wide_intervals_and_very_few_none() -> None:
    """The plain percentile interval of 6 groups held the mean in 85 % of these studies."""
    rng = np.random.default_rng(6)
    hits = 0
    for seed in range(400):
        found = metrics.interval(rng.normal(0.8, 0.1, 6), repeats=400, seed=seed)
        hits += covers(found, 0.8)
    assert 0.90 <= hits / 400 <= 0.98
    assert not metrics.interval(rng.random(5)).exists
    assert not bootstrap.GroupBootstrap(range(5)).interval(np.ones((5, 2)), ratio).exists


def test_one_group_has_no_interval_and_says_so() -> None:
    found = metrics.interval([0.5, 0.7], ["a", "a"])
    assert not found.exists
    assert found.estimate == pytest.approx(0.6)
    assert np.isnan([found.low, found.high]).all()
    assert "no interval: found 1 group" in str(found)
    nothing = metrics.interval([float("nan")])
    assert "found 0 groups" in str(nothing)
    assert np.isnan(nothing.estimate)
    assert not metrics.interval([]).exists


def test_same_seed_same_interval_in_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).random(30)
    first = metrics.interval(values, seed=5)
    assert first == metrics.interval(values, seed=5)
    assert first != metrics.interval(values, seed=6)
    monkeypatch.setattr(bootstrap, "_CELLS", 100)
    assert first == metrics.interval(values, seed=5)


def test_wider_at_a_higher_level_and_where_groups_are_few() -> None:
    values = np.random.default_rng(5).random(60)
    width = {level: metrics.interval(values, level=level) for level in (0.5, 0.95)}
    assert width[0.5].high - width[0.5].low < width[0.95].high - width[0.95].low


def test_errors() -> None:
    for bad in (3.0, [[1.0, 2.0]]):
        with pytest.raises(RatersError, match="axes, expected one number per case"):
            metrics.interval(bad)
    with pytest.raises(RatersError, match="found 1 groups for 2 scores"):
        metrics.interval([0.1, 0.2], ["a"])
    with pytest.raises(RatersError, match="found 2 and 1 scores, expected pairs"):
        metrics.difference_interval([0.1, 0.2], [0.1])
    with pytest.raises(RatersError, match="found level 95"):
        metrics.interval([0.1, 0.2], level=95)
    with pytest.raises(RatersError, match="found 0 repeats"):
        metrics.interval([0.1, 0.2], repeats=0)

"""Spatial STAPLE against its definition, against plain STAPLE, and on raters who vary by place."""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion._spatial_staple import (
    _e_step,
    _m_step,
    _volume,
    _window,
    local_accuracy,
    reach_of,
    spatial_staple,
)
from raters.fusion._staple import staple
from raters.fusion.box_sums import box_row, rounder
from raters.fusion.columns import columns_of
from raters.fusion.em import EMOptions, EMState, e_step, posteriors, run_em, start_matrices


def slow_matrices(
    labels: NDArray[Any], truth: NDArray[Any], reach: tuple[int, ...], k: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Count whole-image `(R, L, L)` and local matrices `(R, L, L, *space)` from the formula."""
    raters = len(labels)
    classes = len(truth)
    space = labels.shape[1:]
    whole = np.zeros((raters, classes, classes))
    local = np.zeros((raters, classes, classes, *space))
    for r, t in itertools.product(range(raters), range(classes)):
        seen = labels[r] != MISSING
        for o in range(classes):
            whole[r, t, o] = truth[t][labels[r] == o].sum() / truth[t][seen].sum()
        for place in np.ndindex(*space):
            box = tuple(slice(max(0, x - h), x + h + 1) for x, h in zip(place, reach, strict=True))
            weights = truth[t][box]
            own = labels[r][box]
            m = weights[own != MISSING].sum()
            for o in range(classes):
                n = weights[own == o].sum()
                local[(r, t, o, *place)] = (n + k * whole[r, t, o]) / (m + k)
    return whole, local


def slow_posteriors(labels: NDArray[Any], local: NDArray[Any], prior: NDArray[Any]) -> Any:
    truth = np.zeros((len(prior), *labels.shape[1:]))
    for place in np.ndindex(*labels.shape[1:]):
        weights = prior.copy()
        for r in range(len(labels)):
            o = labels[(r, *place)]
            if o != MISSING:
                weights = weights * local[(r, slice(None), o, *place)]
        truth[(slice(None), *place)] = weights / weights.sum()
    return truth


def draw_noisy_labels(
    space: tuple[int, ...], classes: int, raters: int, missing: float, seed: int = 0
) -> NDArray[np.int16]:
    rng = np.random.default_rng(seed)
    truth = np.indices(space).sum(axis=0) // 2 % classes
    labels = np.repeat(truth[np.newaxis], raters, axis=0)
    wrong = rng.random(labels.shape) < 0.25
    labels = np.where(wrong, rng.integers(0, classes, labels.shape), labels)
    return np.where(rng.random(labels.shape) < missing, MISSING, labels).astype(np.int16)


@pytest.mark.parametrize(
    ("space", "classes", "window", "k", "missing"),
    [
        ((9, 11), 2, 3, 2.0, 0.0),
        ((9, 11), 2, (5, 3), 7.5, 0.2),
        ((8, 7), 3, 5, 1.0, 0.3),
        ((8, 7), 2, 7, 0.0, 0.2),
        ((5, 4, 6), 2, 3, 3.0, 0.2),
        ((4, 5, 6), 3, (3, 5, 1), 2.0, 0.1),
        ((17,), 2, 5, 1.0, 0.1),
    ],
)
def test_equals_the_slow_definition(
    space: tuple[int, ...], classes: int, window: Any, k: float, missing: float
) -> None:
    labels = draw_noisy_labels(space, classes, 3, missing)
    fused = spatial_staple(
        labels, classes, window=window, prior_weight=k, max_iter=4, tol=0, maps=True
    )
    truth = staple(labels, classes).truth.astype(np.float64)
    assert fused.prior is not None
    for _ in range(4):
        whole, local = slow_matrices(labels, truth, reach_of(window, None, space), k)
        truth = slow_posteriors(labels, local, fused.prior)
    np.testing.assert_allclose(fused.truth, truth, atol=1e-6)
    np.testing.assert_allclose(fused.confusion, local, atol=1e-6)
    plain = spatial_staple(labels, classes, window=window, prior_weight=k, max_iter=4, tol=0)
    np.testing.assert_allclose(plain.confusion, whole, atol=1e-6)
    assert fused.iterations == 4


@pytest.mark.parametrize("space", [(20, 23), (7, 9, 8)])
def test_a_window_over_everything_is_plain_staple_at_each_step(space: tuple[int, ...]) -> None:
    labels = draw_noisy_labels(space, 2, 4, 0.1)
    volume = _volume(labels, 2)
    window = _window(2 * max(space) + 1, None, 0.0, space)
    columns = columns_of(labels, 2, patterns=False)
    prior = np.array([[0.4], [0.6]])
    state = EMState(prior, start_matrices(4, 2, 0.7))
    truth = posteriors(columns, state).astype(np.float64)
    for _ in range(5):  # from a start that is far from where EM converges
        options = EMOptions(max_iter=1, tol=0)
        state = run_em(partial(e_step, columns), EMState(prior, state.confusion), options)
        whole = _m_step(volume, truth, state.confusion)
        out = np.empty_like(truth)
        _e_step(volume, window, np.log(prior), truth, whole, out)
        np.testing.assert_allclose(whole, state.confusion, atol=1e-6)
        np.testing.assert_allclose(out, posteriors(columns, state), atol=1e-6)
        truth = out


@pytest.mark.parametrize("classes", [2, 3])
def test_a_window_over_everything_ends_where_plain_staple_does(classes: int) -> None:
    labels = draw_noisy_labels((40, 37), classes, 4, 0.1)
    prior = np.arange(1.0, classes + 1)
    plain = staple(labels, classes, prior=prior, max_iter=500)
    local = spatial_staple(
        labels, classes, window=81, prior_weight=0, class_prior=prior, tol=1e-9, maps=True
    )
    np.testing.assert_allclose(local.truth, plain.truth, atol=1e-6)
    np.testing.assert_array_equal(local.labels, plain.labels)
    assert plain.confusion is not None and local.confusion is not None
    np.testing.assert_allclose(
        local.confusion,
        np.broadcast_to(plain.confusion[..., None, None], local.confusion.shape),
        atol=1e-6,
    )
    assert local.converged


def left_and_right(
    size: int = 128, bad: float = 0.35, good: float = 0.04
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Two raters good on the left, two on the right: truth, labels, rates of error by half."""
    rng = np.random.default_rng(3)
    rows, columns = np.mgrid[:size, :size]
    truth = (np.sin(rows / 4.0) + np.cos(columns / 5.0) > 0).astype(np.int16)
    right = columns >= size // 2
    rates = np.array([[good, bad], [good, bad], [bad, good], [bad, good]])
    flips = [rng.random(truth.shape) < np.where(right, *own[::-1]) for own in rates]
    return truth, np.array([truth ^ flip for flip in flips], np.int16), rates


def test_finds_both_matrices_of_a_rater_who_is_good_on_one_half() -> None:
    truth, labels, rates = left_and_right()
    local = spatial_staple(labels, 2, window=31, prior_weight=60, maps=True)
    plain = staple(labels, 2)
    assert local.confusion is not None and plain.confusion is not None
    for r, half in itertools.product(range(4), range(2)):
        part = slice(0, 64 - 15) if half == 0 else slice(64 + 15, None)
        expected = np.eye(2) + rates[r, half] * np.array([[-1, 1], [1, -1]])
        found = local.confusion[r, :, :, :, part].mean(axis=(2, 3))
        assert np.abs(found - expected).max() < 0.05
        assert np.abs(plain.confusion[r] - expected).max() > 0.1
    errors = (local.labels != truth).mean()
    plain_errors = (plain.labels != truth).mean()
    assert errors < 0.5 * plain_errors
    accuracy = local_accuracy(local)
    assert accuracy.shape == labels.shape
    assert accuracy[0, :, :40].mean() > 0.9 > 0.75 > accuracy[0, :, -40:].mean()
    # With the default weight the truth is better too, though the matrices are shrunk.
    assert (spatial_staple(labels, 2).labels != truth).mean() < 0.75 * plain_errors


def test_does_not_turn_large_regions_of_one_class_by_default() -> None:
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:160, :160]
    truth = np.hypot(rows - 80, columns - 80) < 50
    labels = np.array([truth ^ (rng.random(truth.shape) < 0.15) for _ in range(5)], np.int16)
    errors = (spatial_staple(labels, 2).labels != truth).mean()
    assert errors <= 1.1 * (staple(labels, 2).labels != truth).mean()


def test_stripes_and_threads_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = draw_noisy_labels((160, 140), 3, 3, 0.1)
    results = []
    for workers in (1, 7):
        monkeypatch.setattr("os.cpu_count", lambda workers=workers: workers)
        results.append(spatial_staple(labels, 3, window=9, max_iter=3, maps=True))
    np.testing.assert_allclose(results[0].truth, results[1].truth, atol=1e-7)
    np.testing.assert_allclose(results[0].confusion, results[1].confusion, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(0, 80), st.integers(0, 10**6))
def test_running_sums_are_exact(size: int, reach: int, seed: int) -> None:
    values = np.random.default_rng(seed).random(size) ** 8
    m = rounder((reach,), (size,))
    rounded = (values + m) - m
    assert np.abs(rounded - values).max() <= 2.0**-33
    found = np.empty(size)
    box_row(rounded, reach, found)
    expected = [math.fsum(rounded[max(0, x - reach) : x + reach + 1]) for x in range(size)]
    np.testing.assert_array_equal(found, expected)


def check_sound(labels: NDArray[Any], classes: int, **options: Any) -> None:
    for maps in (False, True):
        fused = spatial_staple(labels, classes, maps=maps, **options)
        space = labels.shape[1:]
        square = (len(labels), classes, classes)
        assert fused.truth.shape == (classes, *space) and fused.truth.dtype == np.float32
        assert fused.labels.shape == space and fused.labels.dtype == np.int16
        assert fused.confusion is not None
        assert fused.confusion.shape == (square + space if maps else square)
        for values in (fused.truth, fused.confusion, fused.log_likelihoods):
            assert np.isfinite(values).all()
        np.testing.assert_allclose(fused.truth.sum(axis=0), 1, atol=1e-6)
        np.testing.assert_allclose(fused.confusion.sum(axis=2), 1, atol=1e-5)
        nobody = (labels == MISSING).all(axis=0)
        np.testing.assert_array_equal(fused.labels == MISSING, nobody)
        assert fused.voxels == (~nobody).sum()


@pytest.mark.slow
@pytest.mark.parametrize("k", [0.0, 1.0, None])
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.zeros((3, 6, 5), int), 2),
        (np.ones((3, 6, 5), int), 2),
        (np.full((3, 6, 5), MISSING), 2),
        (np.eye(6, dtype=int)[np.newaxis], 2),
        (np.ones((1, 1, 1), int), 2),
        (np.zeros((2, 1), int), 1),
        (np.repeat(np.eye(6, dtype=int)[np.newaxis], 4, axis=0), 2),
        (np.stack([np.eye(6, dtype=int), np.full((6, 6), MISSING)]), 2),
        (np.stack([np.eye(6, dtype=int), 1 - np.eye(6, dtype=int)]), 2),
        (2 * np.eye(6, dtype=int)[np.newaxis].repeat(2, axis=0), 5),
        (np.zeros((2, 3, 3), bool), 2),
        (np.zeros((60, 2, 2, 2), np.uint8), 3),
    ],
    ids=range(12),
)
def test_degenerate_input(labels: NDArray[Any], classes: int, k: float | None) -> None:
    check_sound(labels, classes, window=3, prior_weight=k)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_input_gives_a_sound_result(data: st.DataObject) -> None:
    classes = data.draw(st.integers(1, 4))
    space = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    raters = data.draw(st.integers(1, 4))
    few = data.draw(st.lists(st.integers(MISSING, classes - 1), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    labels = rng.choice(np.array(few, np.int16), (raters, *space))
    check_sound(
        labels,
        classes,
        window=data.draw(st.sampled_from([1, 2, 3, 99])),
        prior_weight=data.draw(st.sampled_from([0.0, 1e-9, 1.0, 1e9, None])),
        max_iter=data.draw(st.sampled_from([0, 1, 30])),
    )


def test_hundreds_of_raters_do_not_underflow() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, (12, 12))
    labels = np.where(rng.random((600, 12, 12)) < 0.3, 1 - truth, truth)
    np.testing.assert_array_equal(spatial_staple(labels, 2, window=5).labels, truth)


def test_a_prior_map_decides_where_nobody_labels() -> None:
    labels = draw_noisy_labels((8, 8), 2, 2, 0.0)
    labels[:, :, 5] = MISSING
    prior = np.full((2, 8, 8), 0.5)
    prior[:, :, 5] = [[0.2], [0.8]]
    fused = spatial_staple(labels, 2, window=3, class_prior=prior)
    np.testing.assert_allclose(fused.truth[1, :, 5], 0.8, atol=1e-6)
    assert (fused.labels[:, 5] == MISSING).all()


def test_windows_in_millimetres_are_windows_in_voxels() -> None:
    labels = draw_noisy_labels((10, 9, 6), 2, 3, 0.1)
    voxels = spatial_staple(labels, 2, window=(5, 5, 3), max_iter=5)
    millimetres = spatial_staple(labels, 2, window=2.5, spacing=(0.5, 0.5, 1.0), max_iter=5)
    np.testing.assert_array_equal(voxels.truth, millimetres.truth)
    assert reach_of(0.3, (0.1,), (9,)) == (1,)
    assert reach_of(1, None, (9, 9)) == (0, 0)


def test_stops_at_the_tolerance_or_the_number_of_steps() -> None:
    _, labels, _ = left_and_right(64)
    loose = spatial_staple(labels, 2, tol=0.1)
    tight = spatial_staple(labels, 2, tol=1e-4)
    short = spatial_staple(labels, 2, tol=0, max_iter=2)
    assert loose.converged and tight.converged and not short.converged
    assert loose.iterations < tight.iterations and short.iterations == 2
    start = spatial_staple(labels, 2, max_iter=0)
    np.testing.assert_allclose(start.truth, staple(labels, 2).truth, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window 0, expected more than 0"),
        ({"window": (3, 3, 3)}, "3 values of window, expected 1 or 2"),
        ({"spacing": (1.0, float("nan"))}, "spacing"),
        ({"prior_weight": -1}, "prior weight -1"),
        ({"class_prior": np.ones(3)}, "prior of shape"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        spatial_staple(np.zeros((2, 4, 4), np.int16), 2, **options)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full((2, 4, 4), 0.5), "float64"),
        (np.full((2, 4, 4), 2), "label 2, expected -1 .* from 0 to 1"),
        (np.full((2, 4, 4), -2), "label -2"),
        (np.zeros((0, 4, 4), int), "shape"),
        (np.zeros((2, 2, 2, 2, 2), int), "shape"),
    ],
)
def test_bad_labels_are_named(labels: NDArray[Any], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        spatial_staple(labels, 2)


def test_local_accuracy_needs_matrices() -> None:
    from raters.fusion._vote import vote

    labels = draw_noisy_labels((4, 4), 2, 2, 0.0)
    assert local_accuracy(staple(labels, 2)).shape == (2, 4, 4)
    with pytest.raises(RatersError, match="without matrices"):
        local_accuracy(vote(labels, 2))


def test_the_code_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spatial-staple.md").read_text(encoding="utf-8")
    exec(page.split("```python\n")[1].split("```")[0], {})
    assert float(capsys.readouterr().out) < 0.05

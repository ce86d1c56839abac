"""Sets of masks and soft maps: energy distance, matching and soft Dice equal slow loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.optimize import linprog

from raters import metrics
from raters.core.classes import MISSING
from raters.core.errors import RatersError

quick = settings(max_examples=50, deadline=None)
Masks = NDArray[np.int64]


def draw_label_maps(rng: np.random.Generator, n: int, classes: int = 2, low: int = 0) -> Masks:
    return rng.integers(low, classes, (n, 5, 4))


def slow_distance(a: Masks, b: Masks, classes: int, score: str) -> float:
    """Return 1 - overlap from sets of voxels, averaged over foreground classes."""
    seen = [v for v in np.ndindex(a.shape) if a[v] != MISSING and b[v] != MISSING]
    total = 0.0
    for c in range(1, classes):
        in_a = {v for v in seen if a[v] == c}
        in_b = {v for v in seen if b[v] == c}
        both = len(in_a & in_b)
        either = len(in_a | in_b)
        if not either:
            total += 1
        else:
            total += both / either if score == "iou" else 2 * both / (both + either)
    return 1 - total / (classes - 1)


def slow_energy(y: Masks, s: Masks, classes: int, score: str, form: str) -> float:
    """Write the definition down as loops: 2 E d(s, y) - E d(s, s') - E d(y, y')."""

    def mean(a: Masks, b: Masks, same: bool) -> float:
        total = 0.0
        pairs = 0
        for i, j in itertools.product(range(len(a)), range(len(b))):
            if same and form == "u" and i == j:
                continue
            total += slow_distance(a[i], b[j], classes, score)
            pairs += 1
        return total / pairs

    return 2 * mean(s, y, False) - mean(s, s, True) - mean(y, y, True)


@pytest.mark.parametrize("form", ["u", "v"])
@pytest.mark.parametrize("score", ["iou", "dice"])
@pytest.mark.parametrize(("classes", "low"), [(2, 0), (2, MISSING), (4, MISSING)])
def test_energy_equals_a_slow_loop(form: str, score: str, classes: int, low: int) -> None:
    rng = np.random.default_rng(0)
    y = draw_label_maps(rng, 3, classes, low)
    s = draw_label_maps(rng, 4, classes, low)
    y[0] *= 0  # an empty mask, and two of them meet within s
    s[:2] *= 0
    expected = slow_energy(y, s, classes, score, form)
    found = metrics.energy_distance(y, s, classes, distance=score, form=form)
    assert found == pytest.approx(expected, abs=1e-12)
    by_function = metrics.energy_distance(
        y, s, classes, lambda a, b: slow_distance(a, b, classes, score), form
    )
    assert by_function == pytest.approx(expected, abs=1e-12)


@quick
@given(hnp.arrays(bool, (3, 6)), hnp.arrays(bool, (4, 6)), st.sampled_from(["iou", "dice"]))
def test_energy_invariants(y: Masks, s: Masks, score: str) -> None:
    value = metrics.energy_distance(y, s, distance=score)
    assert value >= -1e-12  # 1 - IoU and 1 - Dice are of negative type
    assert value <= 2
    assert value == pytest.approx(metrics.energy_distance(s, y, distance=score), abs=1e-12)
    assert value == pytest.approx(metrics.energy_distance(y[::-1], s[[2, 0, 3, 1]], distance=score))
    assert metrics.energy_distance(y, y, distance=score) == pytest.approx(0, abs=1e-12)
    # The V form sees the distribution only: each mask twice is the same.
    assert metrics.energy_distance(y, np.repeat(s, 2, 0), distance=score) == pytest.approx(value)
    assert metrics.energy_distance(y, s, distance=score, root=True) ** 2 == pytest.approx(
        value, abs=1e-9
    )
    assert metrics.energy_distance(y, y, distance=score, form="u") <= 1e-12


def test_energy_tells_perfect_from_random() -> None:
    """With plus signs, or similarities for distances, these would not be apart."""
    rng = np.random.default_rng(1)
    disc = np.hypot(*np.ogrid[-16:16, -16:16])
    y = np.stack([disc < radius for radius in (7, 8, 9, 10)])
    good = np.stack([disc < radius for radius in rng.uniform(7, 10, 16)])
    same = np.repeat((disc < 8.5)[None], 16, axis=0)
    noise = rng.random((16, 32, 32)) < 0.5
    empty = np.zeros((16, 32, 32), bool)
    perfect, near, one, random, nothing = (
        metrics.energy_distance(y, s) for s in (np.repeat(y, 4, 0), good, same, noise, empty)
    )
    assert perfect == pytest.approx(0, abs=1e-12)
    assert perfect < near < one < random < nothing
    assert random > 0.7


def test_energy_of_u_form_is_unbiased() -> None:
    """Of samples from the raters' own distribution U averages to 0, and V stays above."""
    rng = np.random.default_rng(2)
    pool = rng.random((40, 20)) < rng.random((40, 1))
    u = []
    v = []
    for _ in range(600):
        y = pool[rng.integers(40, size=4)]
        s = pool[rng.integers(40, size=3)]
        u.append(metrics.energy_distance(y, s, form="u"))
        v.append(metrics.energy_distance(y, s))
    error = np.std(u) / math.sqrt(len(u))
    assert abs(np.mean(u)) < 4 * error
    assert np.mean(v) > 10 * error
    assert min(u) < 0 <= min(v) + 1e-12


def test_energy_of_degenerate_sets() -> None:
    empty, full, blank = (np.full((2, 4), value) for value in (0, 1, MISSING))
    assert metrics.energy_distance(empty, empty) == 0
    assert metrics.energy_distance(empty, full) == 2
    assert np.isnan(metrics.energy_distance(blank, full))
    assert np.isnan(metrics.energy_distance(empty, full[:1], form="u"))
    assert metrics.energy_distance(empty, full[:1]) == 2
    rng = np.random.default_rng(3)
    y, s = rng.integers(0, 2, (2, 3, 4))
    assert metrics.energy_distance(np.concatenate([y, blank]), s) == metrics.energy_distance(y, s)


def test_energy_errors() -> None:
    with pytest.raises(RatersError, match="found form 'w', expected 'v' or 'u'"):
        metrics.energy_distance([[0]], [[1]], form="w")
    with pytest.raises(RatersError, match="found distance 'l2'"):
        metrics.energy_distance([[0]], [[1]], distance="l2")
    with pytest.raises(RatersError, match="within the sets"):
        metrics.energy_from_distances(np.ones((2, 3)), np.ones((3, 3)), np.ones((2, 2)))


def transport(similarity: NDArray[np.float64]) -> float:
    """Return the best mean as a transport problem: every row and every column weighs the same."""
    n, m = similarity.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    found = linprog(
        -similarity.ravel(),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.r_[np.full(n, 1 / n), np.full(m, 1 / m)],
    )
    return float(-found.fun)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 3), (4, 6), (3, 5), (1, 7)])
def test_matching_equals_transport(n: int, m: int) -> None:
    similarity = np.random.default_rng(4).random((n, m))
    assert metrics.matched_mean(similarity) == pytest.approx(transport(similarity))
    assert metrics.matched_mean(similarity.T) == pytest.approx(transport(similarity))
    assert metrics.matched_mean(similarity) <= metrics.best_mean(similarity) + 1e-12


def test_matching_equals_the_best_of_all_permutations() -> None:
    rng = np.random.default_rng(5)
    y = draw_label_maps(rng, 4, 3, MISSING)
    s = draw_label_maps(rng, 4, 3, MISSING)
    dice = [[1 - slow_distance(a, b, 3, "dice") for b in s] for a in y]
    best = max(
        np.mean([dice[i][j] for i, j in enumerate(order)])
        for order in itertools.permutations(range(4))
    )
    assert metrics.matched_dice(y, s, 3) == pytest.approx(best)
    assert metrics.best_dice(y, s, 3) == pytest.approx(np.max(dice, axis=1).mean())
    assert metrics.matched_dice(y, y[[2, 0, 3, 1]], 3) == 1
    assert metrics.best_dice(y, np.concatenate([s, y]), 3) == 1


def test_matching_of_degenerate_sets() -> None:
    empty = np.zeros((2, 4), int)
    blank = np.full((2, 4), MISSING)
    assert metrics.matched_dice(empty, empty) == metrics.best_dice(empty, empty) == 1
    assert np.isnan(metrics.matched_dice(blank, empty))
    assert np.isnan(metrics.best_dice(blank, empty))
    some = np.array([[0, 1, 1, 0], [0, 1, 0, 0]])
    with_blank = np.concatenate([some, blank])
    assert metrics.matched_dice(with_blank, some) == metrics.best_dice(with_blank, some) == 1
    assert np.isnan(metrics.matched_mean([[0.5, np.nan], [0.5, 0.5]]))
    assert metrics.best_mean([[0.5, np.nan], [np.nan, np.nan]]) == 0.5


def slow_soft_dice(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    total = 0.0
    for threshold in (0.1, 0.3, 0.5, 0.7, 0.9):
        both = size = 0
        for x, y in zip(a.ravel(), b.ravel(), strict=True):
            if math.isnan(x) or math.isnan(y):
                continue
            both += bool(x > threshold and y > threshold)
            size += bool(x > threshold) + bool(y > threshold)
        total += 2 * both / size if size else 1.0
    return total / 5


@quick
@given(hnp.arrays(float, (2, 3, 3), elements=st.one_of(st.floats(0, 1), st.just(math.nan))))
def test_soft_dice_equals_a_slow_loop(maps: NDArray[np.float64]) -> None:
    a, b = maps
    found = metrics.soft_dice(a, b)
    if np.isnan(a + b).all():
        assert np.isnan(found)
        return
    assert found == pytest.approx(slow_soft_dice(a, b))
    assert found == metrics.soft_dice(b, a)
    assert 0 <= found <= 1


def test_soft_dice_of_masks_is_dice_and_empty_maps_agree() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 2, (2, 6, 6))
    assert metrics.soft_dice(a, b) == pytest.approx(metrics.dice(a, b)[0])
    assert metrics.soft_dice(a * 0.0, b * 0.05) == 1  # below every threshold: both empty
    assert metrics.soft_dice(a * 0.0, np.full((6, 6), 0.4)) == 0.6  # empty against full at .1, .3
    both = metrics.soft_dice_by_class(np.stack([1 - a, a]), np.stack([1 - b, b]))
    np.testing.assert_allclose(both, metrics.dice(a, b))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_soft_dice_compares_strictly_in_any_precision(dtype: type) -> None:
    """3 of 10 raters is not above .3."""
    tie = np.full(4, 3 / 10, dtype)
    assert metrics.soft_dice(tie, np.zeros(4), thresholds=[0.3]) == 1
    assert metrics.soft_dice(tie, np.zeros(4), thresholds=[0.299]) == 0


def test_soft_dice_errors() -> None:
    with pytest.raises(RatersError, match="expected the same shape"):
        metrics.soft_dice([0.1], [0.1, 0.2])
    with pytest.raises(RatersError, match="found 1 classes"):
        metrics.soft_dice_by_class([[0.1]], [[0.1]])

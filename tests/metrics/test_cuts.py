"""Cuts against plain loops: labels at a cut, the best cut, and the cut of the raters' area."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from raters.core.errors import RatersError
from raters.metrics import CutCounts, CutTally, area_cut, best_cut, cut_labels, dice, winning_cut
from raters.metrics.choose_cut import GRID


def draw_probabilities(classes: int, *space: int, seed: int = 0) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(classes, *space))
    return np.exp(logits) / np.exp(logits).sum(axis=0)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_half_is_argmax_to_the_bit_also_on_ties(classes: int) -> None:
    found = draw_probabilities(classes, 7, 9).astype(np.float32)
    found[:, 0] = 1 / classes
    np.testing.assert_array_equal(cut_labels(found), found.argmax(0))
    np.testing.assert_array_equal(cut_labels(found, [0.5] * (classes - 1)), found.argmax(0))


@pytest.mark.parametrize("cut", [0.05, 0.31, 0.5, 0.77])
def test_two_classes_are_foreground_above_the_cut(cut: float) -> None:
    found = draw_probabilities(2, 300)
    np.testing.assert_array_equal(cut_labels(found, cut), found[1] > cut)


def test_several_classes_win_by_weighted_odds() -> None:
    found = draw_probabilities(4, 50)
    cuts = [0.2, 0.6, 0.5]
    for voxel, label in zip(found.T, cut_labels(found, cuts), strict=True):
        odds = [voxel[0], *(p * (1 - cut) / cut for p, cut in zip(voxel[1:], cuts, strict=True))]
        assert label == int(np.argmax(odds))


def test_winning_cut_is_where_the_class_begins_to_win() -> None:
    found = draw_probabilities(3, 40)
    for k, own in enumerate(winning_cut(found)):
        for add, wins in ((-1e-6, True), (1e-6, False)):
            for voxel, r in enumerate(own):
                cuts = np.full(2, 0.5)
                cuts[k] = r + add
                assert (cut_labels(found[:, voxel], cuts) == k + 1) == wins


def test_best_cut_has_the_largest_mean_dice_of_all_cuts() -> None:
    random = np.random.default_rng(3)
    cases = [draw_probabilities(2, 8, 8, seed=k) for k in range(4)]
    masks = [(found[1] > 0.3) ^ (random.random((8, 8)) < 0.1) for found in cases]
    masks = [np.where(random.random((8, 8)) < 0.2, -1, mask) for mask in masks]  # not all labelled
    found = best_cut(cases, masks)
    each = [
        np.mean([dice(mask, cut_labels(p, cut)) for p, mask in zip(cases, masks, strict=True)])
        for cut in GRID
    ]
    here = np.flatnonzero(np.isclose(GRID, found[0]))[0]
    assert each[here] == pytest.approx(max(each), abs=1e-12)
    assert found[0] == pytest.approx(0.3, abs=0.05)


def _mean_dice(cases: list, masks: list, cuts: np.ndarray) -> float:
    pairs = zip(cases, masks, strict=True)
    return float(np.mean([dice(m, cut_labels(p, cuts), len(p)).mean() for p, m in pairs]))


def _one_moved(cuts: np.ndarray) -> list[np.ndarray]:
    """All cuts that differ from some in one class."""
    moved = np.repeat(cuts[np.newaxis], len(cuts) * len(GRID), axis=0)
    for c in range(len(cuts)):
        moved[c * len(GRID) : (c + 1) * len(GRID), c] = GRID
    return list(moved)


@pytest.mark.parametrize("classes", [3, 5])
def test_best_cuts_of_several_classes_go_together(classes: int) -> None:
    random = np.random.default_rng(classes)
    masks = [random.integers(0, classes, 80) for _ in range(3)]
    masks[0][:9] = -1
    cases = []
    for k, mask in enumerate(masks):
        is_class = np.arange(classes)[:, None] == mask
        weights = draw_probabilities(classes, 80, seed=k) + 0.3 * is_class
        cases.append(weights / weights.sum(axis=0))
    chosen = best_cut(cases, masks)
    value = _mean_dice(cases, masks, chosen)
    assert value >= _mean_dice(cases, masks, np.full(classes - 1, 0.5))
    assert value >= max(_mean_dice(cases, masks, cuts) for cuts in _one_moved(chosen)) - 1e-9


def test_cuts_that_are_best_one_by_one_can_be_worse_together_than_half() -> None:
    worse = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        mask = random.choice(4, 200, p=(0.7, 0.1, 0.1, 0.1))
        logits = random.normal(0, 1, (4, 200)) + 1.0 * (np.arange(4)[:, None] == mask)
        logits[0] += 1
        found = np.exp(logits) / np.exp(logits).sum(axis=0)
        tally = CutTally(4)
        tally.add(found, reference=mask)
        half, alone, joint = (
            _mean_dice([found], [mask], cuts)
            for cuts in (np.full(3, 0.5), tally.best(), best_cut([found], [mask]))
        )
        assert joint >= max(half, alone) - 1e-9
        worse += alone < half
        for c, k in product(range(3), range(0, 99, 7)):
            cuts = np.full(3, 0.5)
            cuts[c] = GRID[k]
            assert tally.dice[0][c, k] == pytest.approx(_mean_dice([found], [mask], cuts))
    assert worse


def test_two_of_five_raters_mark_an_object_and_half_erases_it() -> None:
    disc = np.hypot(*np.mgrid[-8:8, -8:8]) < 5
    p = 0.4 * disc  # what a network says that learnt the mean of five raters, three of them blind
    found = np.stack([1 - p, p])
    masks = np.stack([disc, disc, *[np.zeros_like(disc)] * 3])
    assert not cut_labels(found).any()
    np.testing.assert_array_equal(cut_labels(found, best_cut([found], [disc])), disc)
    blind = area_cut([found], [masks.astype(int)], blank=False)
    np.testing.assert_array_equal(cut_labels(found, blind), disc)


def test_area_cut_predicts_the_area_that_raters_draw() -> None:
    cases = [draw_probabilities(3, 30, 30, seed=k) for k in range(3)]
    labels = [np.random.default_rng(k).choice(3, (4, 30, 30), p=(0.7, 0.2, 0.1)) for k in range(3)]
    labels[0][1] = -1  # one rater skipped a case
    labels[1][:, :10] = -1  # nobody saw some rows
    cuts = area_cut(cases, labels)
    drawn = [sum(_share(own, k + 1) for own in labels) for k in range(2)]

    def error(at: np.ndarray, k: int) -> float:
        seen = zip(cases, labels, strict=True)
        return abs(
            sum(((cut_labels(p, at) == k + 1) & (m >= 0).any(0)).sum() for p, m in seen) - drawn[k]
        )

    for moved in _one_moved(cuts):
        k = int((moved != cuts).argmax())
        assert error(cuts, k) <= error(moved, k)
    assert error(cuts, 0) + error(cuts, 1) < 0.05 * sum(drawn)


def _share(labels: np.ndarray, c: int) -> float:
    total = 0.0
    for voxel in labels.reshape(len(labels), -1).T:
        given = voxel[voxel >= 0]
        total += (given == c).mean() if given.size else 0.0
    return total


def test_bands_of_rows_add_up_to_the_case() -> None:
    random = np.random.default_rng(5)
    found = draw_probabilities(3, 12, 7)
    reference = random.integers(-1, 3, (12, 7))
    labels = random.integers(-1, 3, (3, 12, 7))
    labels[2] = 0  # blank; another one is blank in the first band only
    labels[1, :5] = 0
    whole, parts = (CutCounts(3, reference, labels) for _ in range(2))
    whole.add(found)
    for rows in (slice(0, 5), slice(5, 12)):
        parts.add(found[:, rows], rows)
    for name in ("dice", "areas", "drawn", "drawn_not_blank", "labelled"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))
    assert (whole.drawn < whole.drawn_not_blank).all()


def test_blank_masks_count_or_not() -> None:
    p = np.linspace(0.01, 0.99, 100)
    found = np.stack([1 - p, p])
    drawn = np.stack([p > 0.5, np.zeros(100)]).astype(int)
    assert area_cut([found], [drawn]) == pytest.approx([0.75], abs=0.011)
    assert area_cut([found], [drawn], blank=False) == pytest.approx([0.5], abs=0.011)
    # a case where all are blank tells nothing of the area of masks that are not
    both = area_cut([found, found], [drawn, 0 * drawn], blank=False)
    assert both == pytest.approx([0.5], abs=0.011)


def test_empty_cases_want_a_cut_that_leaves_them_empty() -> None:
    found = np.full((2, 10), 0.5)
    found[1] = 0.6
    found[0] = 0.4
    assert best_cut([found], [np.zeros(10, int)]) == pytest.approx([0.6])


@pytest.mark.parametrize("cut", [0, 1, -0.1, float("nan"), [0.5, 0.5]])
def test_bad_cuts_are_refused(cut: object) -> None:
    with pytest.raises(RatersError, match="cut"):
        cut_labels(draw_probabilities(2, 4), cut)  # type: ignore[arg-type]


def test_nothing_to_choose_by_is_an_error() -> None:
    with pytest.raises(RatersError, match="no reference masks"):
        CutTally(2).best()
    with pytest.raises(RatersError, match="no masks of raters"):
        CutTally(2).area()


def test_cases_that_do_not_fit_are_refused() -> None:
    maps = np.zeros((2, 4, 4))
    drawn = np.zeros((3, 4, 4), int)
    for labels, words in (
        ([drawn, drawn], "found 1 maps and 2 labels, expected one per case"),
        ([drawn[:, :3]], r"a map of shape \(2, 4, 4\) and labels of shape \(3, 3, 4\), expected"),
    ):
        with pytest.raises(RatersError, match=words):
            area_cut([maps], labels)
    with pytest.raises(RatersError, match=r"reference of shape \(3, 4\), expected"):
        best_cut([maps], [drawn[0, :3]])
    with pytest.raises(RatersError, match=r"found a map of shape \(4,\)"):
        area_cut(maps[0], drawn[0])


def test_without_blank_masks_their_voxels_do_not_count() -> None:
    """One rater drew on the left half only; a blank mask of the right half says nothing of it."""
    foreground = np.array([[0.6, 0.6, 0.3, 0.1, 0.9, 0.8, 0.7, 0.9]])
    left = np.array([[1, 1, 0, 0, -1, -1, -1, -1]])
    right = np.array([[-1, -1, -1, -1, 0, 0, 0, 0]])
    both = np.stack([1 - foreground, foreground])
    alone = area_cut([both], [left[None]], blank=False)
    assert area_cut([both], [np.stack([left, right])], blank=False) == alone


def test_small_cuts_of_half_floats() -> None:
    given = np.array([[0.5], [0.5], [0.0]])
    for cut in (1e-6, [0.5, 1e-6]):
        exact = cut_labels(given, cut)
        assert (cut_labels(given.astype(np.float16), cut) == exact).all()

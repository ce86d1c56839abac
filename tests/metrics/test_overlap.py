"""Overlap scores equal scikit-learn's, SimpleITK's and the definitions; empty masks as stated."""

from __future__ import annotations

import numpy as np
import pytest
import SimpleITK
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sklearn import metrics as sklearn_metrics

from raters import metrics
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.metrics import samples

quick = settings(max_examples=60, deadline=None)
SHAPES = [(7,), (6, 5), (4, 5, 3)]


def random_labels(shape: tuple[int, ...], classes: int, seed: int) -> NDArray[np.int16]:
    """Return labels of which some are MISSING."""
    return np.random.default_rng(seed).integers(MISSING, classes, shape).astype(np.int16)


def where_both(a: NDArray[np.int16], b: NDArray[np.int16]) -> tuple[NDArray[np.int16], ...]:
    kept = (a != MISSING) & (b != MISSING)
    return a[kept], b[kept]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[NDArray[np.int16], NDArray[np.int16], int]:
    classes = draw(st.integers(2, 5))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
    labels = hnp.arrays(np.int16, shape, elements=st.integers(MISSING, classes - 1))
    return draw(labels), draw(labels), classes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("classes", [2, 4])
def test_equal_to_scikit_learn(shape: tuple[int, ...], classes: int) -> None:
    a = random_labels(shape, classes, 1)
    b = random_labels(shape, classes, 2)
    seen_a, seen_b = where_both(a, b)
    every = range(classes)
    np.testing.assert_array_equal(
        metrics.pair_counts(a, b, classes),
        sklearn_metrics.confusion_matrix(seen_a, seen_b, labels=every),
    )
    about = {"labels": every, "average": None, "zero_division": 1.0}
    f1 = sklearn_metrics.f1_score(seen_a, seen_b, **about)
    jaccard = sklearn_metrics.jaccard_score(seen_a, seen_b, **about)
    np.testing.assert_allclose(metrics.dice(a, b, classes), f1[1:])
    np.testing.assert_allclose(metrics.iou(a, b, classes), jaccard[1:])
    assert metrics.mean_dice(a, b, classes) == pytest.approx(f1[1:].mean())
    assert metrics.mean_iou(a, b, classes) == pytest.approx(jaccard[1:].mean())


def test_equal_to_simpleitk() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 9, 8, 7), np.uint8)
    images = [SimpleITK.GetImageFromArray(labels) for labels in (a, b)]
    oracle = SimpleITK.LabelOverlapMeasuresImageFilter()
    oracle.Execute(*images)
    found = metrics.volume_difference(a, b, 4, spacing=(2, 1, 0.75))
    for c in range(1, 4):
        assert metrics.dice(a, b, 4)[c - 1] == pytest.approx(oracle.GetDiceCoefficient(c))
        assert metrics.iou(a, b, 4)[c - 1] == pytest.approx(oracle.GetJaccardCoefficient(c))
        # ITK's volume similarity is 2 (source - target) / (source + target).
        assert found.relative[c - 1] == pytest.approx(-oracle.GetVolumeSimilarity(c))
        assert found.mm3[c - 1] == 1.5 * ((b == c).sum() - int((a == c).sum()))


@quick
@given(pairs())
def test_invariants(given_pair: tuple[NDArray[np.int16], NDArray[np.int16], int]) -> None:
    a, b, classes = given_pair
    dice = metrics.dice(a, b, classes)
    iou = metrics.iou(a, b, classes)
    assert dice.shape == iou.shape == (classes - 1,)
    np.testing.assert_array_equal(dice, metrics.dice(b, a, classes))
    np.testing.assert_array_equal(iou, metrics.iou(b, a, classes))
    np.testing.assert_allclose(iou, dice / (2 - dice))
    seen_a, _ = where_both(a, b)
    assert np.isnan(dice).all() == np.isnan(dice).any() == (seen_a.size == 0)
    if seen_a.size:
        assert ((dice >= 0) & (dice <= 1)).all()
        np.testing.assert_array_equal(metrics.dice(seen_a, seen_a, classes), 1)
    order = np.random.default_rng(0).permutation(a.size)
    np.testing.assert_array_equal(dice, metrics.dice(a.ravel()[order], b.ravel()[order], classes))


@quick
@given(pairs())
def test_empty_masks_by_class(given_pair: tuple[NDArray[np.int16], NDArray[np.int16], int]) -> None:
    a, b, classes = given_pair
    seen_a, seen_b = where_both(a, b)
    found = metrics.dice(a, b, classes), metrics.iou(a, b, classes)
    volumes = metrics.volume_difference(a, b, classes)
    for c in range(1, classes):
        has_a = (seen_a == c).any()
        has_b = (seen_b == c).any()
        if not seen_a.size:
            assert np.isnan([volumes.mm3[c - 1], volumes.relative[c - 1]]).all()
        elif not has_a and not has_b:
            assert [score[c - 1] for score in found] == [1, 1]
            assert volumes.mm3[c - 1] == volumes.relative[c - 1] == 0
        elif has_a != has_b:
            assert [score[c - 1] for score in found] == [0, 0]
            assert volumes.relative[c - 1] == (2 if has_b else -2)


def test_counts_add_over_cases_and_keep_batches() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 3, (2, 4, 6, 6))
    counts = np.stack([metrics.pair_counts(x, y, 3) for x, y in zip(a, b, strict=True)])
    np.testing.assert_array_equal(counts.sum(0), metrics.pair_counts(a, b, 3))
    each = [metrics.dice(x, y, 3) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(metrics.dice_from_counts(counts), each)
    each = [metrics.iou(x, y, 3) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(metrics.iou_from_counts(counts), each)


def test_counts_of_more_than_a_block() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(-1, 3, (2, 200_001)).astype(np.int8)
    seen_a, seen_b = where_both(a, b)
    np.testing.assert_array_equal(
        metrics.pair_counts(a, b, 3), sklearn_metrics.confusion_matrix(seen_a, seen_b)
    )


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int16, np.uint64, np.int64])
def test_any_whole_type(dtype: type) -> None:
    a = np.array([0, 1, 1, 0], dtype)
    b = np.array([0, 1, 0, 1], dtype)
    assert metrics.dice(a, b) == [0.5]
    assert metrics.dice(a[::2], b[::2]) == [0]


@pytest.mark.parametrize(
    ("a", "b", "classes", "message"),
    [
        ([0, 2], [0, 1], 2, "found label 2, expected -1"),
        ([0, -2], [0, 1], 2, "found label -2, expected -1"),
        ([0, 1, 1], [0, 1], 2, r"found labels of shapes \(3,\) and \(2,\)"),
        ([0.0, 0.7], [0, 1], 2, "found labels of type float64"),
        ([0, 0], [0, 0], 1, "found 1 classes, expected at least 2"),
    ],
)
def test_errors(a: list[float], b: list[float], classes: int, message: str) -> None:
    with pytest.raises(RatersError, match=message):
        metrics.dice(a, b, classes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("missing", [True, False])
def test_matrix_equals_pairs(
    shape: tuple[int, ...], classes: int, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_BLOCK", 4)
    a = random_labels((3, *shape), classes, 5)
    b = random_labels((4, *shape), classes, 6)
    if not missing:
        a = abs(a)
        b = abs(b)
    for score, pair in (("dice", metrics.mean_dice), ("iou", metrics.mean_iou)):
        expected = [[pair(x, y, classes) for y in b] for x in a]
        np.testing.assert_allclose(metrics.overlap_matrix(a, b, classes, score), expected)


def test_matrix_of_blank_masks_is_undefined_there() -> None:
    found = metrics.overlap_matrix([[0, 1, 1], [-1, -1, -1]], [[-1, 1, 0], [0, -1, -1]])
    np.testing.assert_allclose(found, [[2 / 3, 1], [np.nan, np.nan]])


def test_matrix_errors() -> None:
    with pytest.raises(RatersError, match=r"expected \(n, \*space\)"):
        metrics.overlap_matrix(np.zeros((2, 3), int), np.zeros((2, 4), int))
    with pytest.raises(RatersError, match="found score 'f1', expected 'dice' or 'iou'"):
        metrics.overlap_matrix([[0]], [[0]], score="f1")


def test_one_threshold_is_none() -> None:
    with pytest.raises(RatersError, match=r"found the threshold 2, expected several: \[2\]"):
        metrics.soft_dice([0.0, 1.0], [0.0, 1.0], 2)  # type: ignore[arg-type]


def test_defined_mean_says_what_it_left_out() -> None:
    assert metrics.defined_mean([[0.0, np.nan], [1.0, np.nan]]) == (0.5, 2, 2)
    nothing = metrics.defined_mean([np.nan])
    assert np.isnan(nothing.mean)
    assert nothing[1:] == (0, 1)

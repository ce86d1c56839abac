"""Confusion matrices: counting, orders of other libraries, error and dominance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import SimpleITK
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from raters.core.errors import RatersError
from raters.metrics import confusion as cm
from raters.metrics.confusion import counts as patterns_module


def random_labels(seed: int, raters: int, classes: int, size: int = 60) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    labels = random.integers(-1, classes, (raters, size))
    return labels, random.integers(-1, classes, size)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 5))
def test_counts_equal_scikit_learn(seed: int, raters: int, classes: int) -> None:
    labels, truth = random_labels(seed, raters, classes)
    counts = cm.count(labels, truth, classes)
    for own, found in zip(labels, counts, strict=True):
        seen = (own >= 0) & (truth >= 0)
        expected = (
            confusion_matrix(truth[seen], own[seen], labels=range(classes)) if seen.any() else 0
        )
        np.testing.assert_array_equal(found, expected)


def test_counts_of_images_and_tables_agree() -> None:
    labels, truth = random_labels(0, 3, 4)
    rater, task = np.nonzero(labels >= 0)
    table = cm.count_triplets(task, rater, labels[rater, task], truth, 3, 4)
    np.testing.assert_array_equal(table, cm.count(labels, truth, 4))
    square = cm.count(labels.reshape(3, 6, 10), truth.reshape(6, 10), 4)
    np.testing.assert_array_equal(square, table)


def test_repeated_readings_count_each() -> None:
    task = np.array([0, 0, 0])
    rater = np.array([0, 0, 1])
    label = np.array([1, 0, 1])
    counts = cm.count_triplets(task, rater, label, np.array([1]), raters=2, num_classes=2)
    assert counts.tolist() == [[[0, 0], [1, 1]], [[0, 0], [0, 1]]]


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(RatersError, match=r"\(2, 3\).*\(3, 2\)"):
        cm.count(np.zeros((1, 2, 3), int), np.zeros((3, 2), int), 2)


@pytest.mark.parametrize(
    ("unseen", "row"), [("nan", [np.nan, np.nan]), ("identity", [0, 1]), ("uniform", [0.5, 0.5])]
)
def test_rows_sum_to_one_and_unseen_rows_are_as_asked(unseen: str, row: list[float]) -> None:
    matrix = cm.normalise(np.array([[3, 1], [0, 0]]), unseen=unseen)  # type: ignore[arg-type]
    np.testing.assert_allclose(matrix, [[0.75, 0.25], row])


def test_smoothing_is_the_mean_of_a_dirichlet_posterior() -> None:
    matrix = cm.normalise(np.array([[3, 0], [0, 0]]), smoothing=1)
    np.testing.assert_allclose(matrix, [[4 / 5, 1 / 5], [0.5, 0.5]])


def test_pooling_weighs_labels_not_cases() -> None:
    counts = np.array([[[90, 10], [0, 1]], [[0, 1], [0, 1]]])
    assert cm.normalise(cm.pool(counts))[0, 0] == pytest.approx(90 / 101)


def test_crowdkit_order_is_observed_by_true() -> None:
    matrices = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.6, 0.4], [0.0, 1.0]]])
    frame = cm.to_crowdkit(matrices, ["ann", "bob"], ["cat", "dog"])
    # crowd-kit: errors.loc[(worker, observed), true]
    assert frame.loc[("ann", "dog"), "cat"] == 0.1
    np.testing.assert_allclose(frame.groupby(level="worker").sum(), 1)
    np.testing.assert_array_equal(cm.from_crowdkit(frame, ["ann", "bob"], ["cat", "dog"]), matrices)


def test_crowdkit_frames_may_lack_labels() -> None:
    index = pd.MultiIndex.from_tuples([("ann", "cat")], names=["worker", "label"])
    frame = pd.DataFrame([[0.5, 1.0]], index=index, columns=["dog", "cat"])
    found = cm.from_crowdkit(frame, ["ann"], ["cat", "dog"])
    np.testing.assert_array_equal(found, [[[1, 0], [0.5, 0]]])


def test_itk_order_on_a_rater_with_a_known_confusion() -> None:
    """Three raters are right; the fourth says 1 for half of the true 0 and is right on 1 and 2."""
    truth = np.repeat([0, 1, 2], 400).reshape(30, 40).astype(np.uint8)
    wrong = truth.copy().ravel()
    wrong[:400:2] = 1
    images = [SimpleITK.GetImageFromArray(m) for m in (truth, truth, truth, wrong.reshape(30, 40))]
    staple = SimpleITK.MultiLabelSTAPLEImageFilter()
    staple.Execute(images)
    found = cm.from_itk(staple.GetConfusionMatrix(3), num_classes=3)
    expected = cm.normalise(cm.count(wrong[np.newaxis], truth.ravel(), 3))[0]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    with pytest.raises(RatersError, match="expected 12"):
        cm.from_itk([1.0, 2.0], num_classes=3)


def test_errors_by_a_slow_loop() -> None:
    random = np.random.default_rng(1)
    estimated, true = random.dirichlet(np.ones(3), (2, 4, 3))
    squares = []
    rows = []
    for r in range(4):
        for t in range(3):
            row = [(estimated[r, t, o] - true[r, t, o]) ** 2 for o in range(3)]
            squares.append(np.mean(row))
            rows.append(np.sum(row))
    assert cm.root_mean_square(estimated, true) == pytest.approx(np.sqrt(np.mean(squares)))
    assert cm.squared_frobenius(estimated, true) == pytest.approx(np.sum(rows) / 3 / 4)


def test_error_tells_a_transposed_matrix_and_a_joint_one_from_the_right_one() -> None:
    true = np.array([[0.9, 0.1], [0.4, 0.6]])
    joint = true * np.array([[0.95], [0.05]])
    assert cm.root_mean_square(true, true) == 0
    assert cm.root_mean_square(true.T, true) > 0.2
    assert cm.root_mean_square(joint, true) > 0.2


def test_classes_weigh_alike_and_unseen_ones_not_at_all() -> None:
    true = np.array([[1.0, 0.0], [np.nan, np.nan]])
    assert cm.squared_frobenius(np.array([[0.5, 0.5], [0.0, 1.0]]), true) == pytest.approx(0.5)
    with pytest.raises(RatersError, match="no class"):
        cm.root_mean_square(np.eye(2), np.full((2, 2), np.nan))


def test_pixelwise_error_compares_the_row_of_the_true_class() -> None:
    random = np.random.default_rng(2)
    truth = np.zeros((5, 6), int)
    truth[0, :2] = 1
    estimated = np.moveaxis(random.dirichlet(np.ones(2), (3, 2, 5, 6)), -1, 2)
    true = np.moveaxis(random.dirichlet(np.ones(2), (3, 2, 1, 1)), -1, 2)
    by_rater = []
    for r in range(3):
        by_class: dict[int, list[float]] = {0: [], 1: []}
        for i, j in np.ndindex(5, 6):
            t = truth[i, j]
            difference = estimated[r, t, :, i, j] - true[r, t, :, 0, 0]
            by_class[int(t)].append(float((difference**2).mean()))
        by_rater.append(np.mean([np.mean(v) for v in by_class.values()]))
    expected = np.sqrt(np.mean(by_rater))
    assert cm.root_mean_square(estimated, true, truth) == pytest.approx(expected)
    summed = 2 * np.mean(by_rater)  # two entries per row
    assert cm.squared_frobenius(estimated, true, truth) == pytest.approx(summed)
    alone = [cm.squared_frobenius(estimated[r], true[r], truth) for r in range(3)]  # no other axis
    assert alone == pytest.approx([2 * own for own in by_rater])


def test_dominance_is_by_column_of_the_mean() -> None:
    # Rows are dominated by the diagonal, the first column is not: C*[1, 0] > C*[0, 0].
    matrix = np.array([[0.4, 0.3, 0.3], [0.45, 0.55, 0.0], [0.0, 0.0, 1.0]])
    assert (np.diag(matrix) >= matrix.max(axis=1)).all()
    assert not cm.is_dominant(matrix)
    assert cm.dominance_margin(matrix) == pytest.approx(-0.05)
    assert cm.is_dominant(np.stack([matrix, np.eye(3)]))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 4))
def test_dominance_by_a_slow_loop(seed: int, classes: int, raters: int) -> None:
    matrices = np.random.default_rng(seed).dirichlet(np.ones(classes), (raters, classes))
    mean = matrices.mean(axis=0)
    margins = []
    for i in range(classes):
        margins += [mean[i, i] - mean[j, i] for j in range(classes) if i != j]
    assert cm.dominance_margin(matrices) == pytest.approx(min(margins), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 4))
def test_patterns_equal_a_counter(seed: int, raters: int, classes: int) -> None:
    labels = np.random.default_rng(seed).integers(-1, classes, (raters, 7, 5))
    patterns = cm.count_patterns(labels, classes)
    expected: dict[tuple[int, ...], int] = {}
    for column in labels.reshape(raters, -1).T.tolist():
        expected[tuple(column)] = expected.get(tuple(column), 0) + 1
    found = dict(zip(map(tuple, patterns.labels.tolist()), patterns.counts.tolist(), strict=True))
    assert found == expected
    votes = [[list(p).count(c) for c in range(classes)] for p in patterns.labels.tolist()]
    assert patterns.votes(classes).tolist() == votes


def test_an_estimate_that_is_no_number_is_not_perfect() -> None:
    with pytest.raises(RatersError, match="not a number"):
        cm.root_mean_square(np.array([[np.nan, np.nan], [0, 1]]), np.eye(2))


def test_pixelwise_shapes_that_do_not_fit_are_refused() -> None:
    truth = np.zeros((3, 4, 5), int)
    with pytest.raises(RatersError, match=r"space \(3, 4, 5\)"):
        cm.root_mean_square(np.zeros((3, 2, 3, 3, 4, 5)), np.zeros((1, 2, 3, 3, 1, 1)), truth)


def test_labels_out_of_range_are_refused() -> None:
    with pytest.raises(RatersError, match="from 0 to 2, expected -1 to 1"):
        cm.count(np.array([[0, 2]]), np.array([0, 1]), num_classes=2)


def test_patterns_of_no_raters() -> None:
    patterns = cm.count_patterns(np.zeros((0, 3, 4), int), num_classes=2)
    assert patterns.labels.shape == (1, 0) and patterns.counts.tolist() == [12]
    assert patterns.labels.dtype == np.int16 and patterns.counts.dtype == np.int64


def test_patterns_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later blocks may have larger and smaller codes than earlier ones."""
    labels = np.array([[0, 0, 1, 1, 1, 0, 0, -1], [0, 1, 1, 1, 0, 0, 0, 0]])
    whole = cm.count_patterns(labels, 2)
    assert whole.labels.dtype == np.int16
    monkeypatch.setattr(patterns_module, "_BLOCK", 3)
    parts = cm.count_patterns(labels, 2)
    np.testing.assert_array_equal(parts.labels, whole.labels)
    np.testing.assert_array_equal(parts.counts, whole.counts)
    assert whole.counts.tolist() == [1, 3, 1, 1, 2]


def test_patterns_of_many_raters_need_no_table() -> None:
    labels = np.tile([[0, 2, 2, -1]], (40, 1))
    patterns = cm.count_patterns(labels, num_classes=3)
    assert patterns.labels[:, 0].tolist() == [-1, 0, 2] and patterns.counts.tolist() == [1, 1, 2]


def test_counts_of_nothing_and_of_small_integers() -> None:
    assert cm.count(np.zeros((2, 0), int), np.zeros(0, int), 2).tolist() == [[[0, 0], [0, 0]]] * 2
    with pytest.raises(RatersError, match="from -2 to 1, expected -1 to 1"):
        cm.count(np.array([[-2, 1]]), np.array([0, 1]), num_classes=2)
    with pytest.raises(RatersError, match="reference labels from 0 to 2, expected -1 to 1"):
        cm.count(np.array([[0, 1]]), np.array([0, 2]), num_classes=2)
    many = np.arange(100, dtype=np.int8)  # their products with classes do not fit
    found = cm.count_triplets(many * 0, many, many % 5, np.array([3]), raters=100, num_classes=5)
    assert (found.argmax(2)[:, 3] == many % 5).all() and found.sum() == 100


def test_one_label_is_a_row() -> None:
    np.testing.assert_array_equal(
        cm.normalise(np.array([[0, 1], [0, 0]]), unseen="uniform"), [[0, 1], [0.5, 0.5]]
    )
    shares = cm.normalise(np.array([[0.125, 0.375], [0.25, 0.0]]))  # of soft labels
    np.testing.assert_array_equal(shares, [[0.25, 0.75], [1, 0]])


def test_errors_leave_out_rows_of_classes_that_never_occurred() -> None:
    true = np.array([[0.9, 0.1], [np.nan, np.nan]])
    estimated = np.array([[0.7, 0.3], [0.5, 0.5]])
    assert cm.squared_frobenius(estimated, true) == pytest.approx(0.08)
    assert cm.root_mean_square(estimated, true) == pytest.approx(0.2)


def test_dominance_of_one_class_and_of_nobody() -> None:
    assert cm.dominance_margin(np.array([[[0.7]]])) == 0.7
    assert np.isnan(cm.dominance_margin(np.eye(2), labels=[0]))
    unseen = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    assert cm.dominance_margin(unseen, labels=[3, 0]) == 1


@pytest.mark.parametrize(
    ("estimated", "true"),
    [((2, 2), (3, 3)), ((2, 3), (2, 3)), ((2,), (2,)), ((4, 2, 2), (4, 2, 3)), ((2, 2), (2,))],
)
def test_matrices_that_do_not_fit_are_refused(
    estimated: tuple[int, ...], true: tuple[int, ...]
) -> None:
    with pytest.raises(RatersError, match="found matrices of shape"):
        cm.squared_frobenius(np.zeros(estimated), np.zeros(true))


def test_a_rater_without_any_true_class_does_not_count_in_the_error() -> None:
    estimated = np.stack([np.full((2, 2), 0.5), np.eye(2)])
    true = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    assert cm.root_mean_square(estimated, true) == pytest.approx(0.5)
    assert cm.squared_frobenius(estimated, true) == pytest.approx(0.5)

"""What a mask file holds becomes whole numbers, or an error that says why not."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import raters
from raters.assessment.agreement_case import entropy_map
from raters.core.errors import RatersError
from raters.core.whole_numbers import MOST_VALUES, refuse_grey, value_counts, whole_numbers
from raters.metrics.confusion.counts import count_patterns
from tests.support.command_line import Run, draw_masks, pattern
from tests.support.makers import quick, save


@quick
@given(
    hnp.arrays(
        hnp.integer_dtypes(endianness="=") | hnp.unsigned_integer_dtypes(endianness="="),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0),
    )
)
def test_value_counts_are_those_of_unique(values: Any) -> None:
    found, times = np.unique(values, return_counts=True)
    expected = dict(zip(found.tolist(), times.tolist(), strict=True))
    assert value_counts(values) == expected
    assert list(value_counts(values)) == sorted(expected)


@quick
@given(st.lists(st.integers(-40, 70_000) | st.integers(2**31 - 9, 2**33), min_size=1))
def test_value_counts_of_narrow_and_wide_ranges(values: list[int]) -> None:
    assert value_counts(np.array(values)) == {v: values.count(v) for v in values}


def test_value_counts_far_from_zero_take_no_memory() -> None:
    assert value_counts(np.array([2**40, 2**40 + 3])) == {2**40: 1, 2**40 + 3: 1}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_that_are_whole_are_accepted(dtype: type) -> None:
    found = whole_numbers(np.array([0.0, 1.0, -0.0, 2.0, -3.0], dtype))
    assert found.dtype.kind == "i"
    assert found.tolist() == [0, 1, 0, 2, -3]


@pytest.mark.parametrize("value", [0.7, np.nan, np.inf, -np.inf, 1e300, 1 + 1e-12])
def test_floats_that_are_not_whole_are_refused(value: float) -> None:
    with pytest.raises(RatersError, match=r"found value .*--threshold") as caught:
        whole_numbers(np.array([0.0, value, 1.0]))
    assert caught.value.kind == "not-whole"


def test_integers_stay_as_they_are() -> None:
    array = np.array([0, 2**40, -1])
    assert whole_numbers(array) is array
    assert whole_numbers(np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize("array", [np.array([1j]), np.array(["a"])])
def test_other_types_are_refused(array: Any) -> None:
    with pytest.raises(RatersError, match="found values of type"):
        whole_numbers(array)


@quick
@given(hnp.arrays(np.float32, 6, elements=st.floats(0, 1, width=32)), st.floats(0, 0.999))
def test_the_threshold_rule(array: Any, threshold: float) -> None:
    """A mask of 0 and 1 stays as it is, even where the threshold is 127 or 0."""
    binary = all(v in (0.0, 1.0) for v in array.tolist())
    expected = [int(v) if binary else int(v > threshold) for v in array.astype(float).tolist()]
    assert whole_numbers(array, float(np.float32(threshold))).tolist() == (
        expected if binary else [int(v > np.float32(threshold)) for v in array]
    )


@pytest.mark.parametrize("values", [[0, 1, 1], [0, 0, 0], [1, 1, 1]])
def test_a_binary_mask_minds_no_threshold(values: list[int]) -> None:
    assert whole_numbers(np.array(values), threshold=127).tolist() == values


def test_grey_masks_are_refused_unless_cut_or_named(tmp_path: Path) -> None:
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    save(tmp_path / "ann/c1.png", grey)
    pattern = str(tmp_path / "{rater}/{case}.png")
    with pytest.raises(
        RatersError, match=r"c1.png: found 64 values from 0 to 63.*--threshold"
    ) as e:
        _ = raters.read(pattern).classes
    assert e.value.kind == "grey"
    assert (raters.read(pattern, threshold=31)["c1"].labels[0] == (grey > 31)).all()
    assert (raters.read(pattern, values=range(64))["c1"].labels[0] == grey).all()


def test_as_many_values_as_allowed_are_not_grey() -> None:
    refuse_grey(dict.fromkeys(range(MOST_VALUES), 1), "a.png")
    with pytest.raises(RatersError, match="grey"):
        refuse_grey(dict.fromkeys(range(MOST_VALUES + 1), 1), "a.png")


def test_a_probability_map_names_file_and_value(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.npy", np.array([[0.0, 0.7]]))
    pattern = str(tmp_path / "{rater}/{case}.npy")
    with pytest.raises(RatersError, match=r"c1.npy: found value 0.7, expected whole") as caught:
        _ = raters.read(pattern)["c1"].labels
    assert (caught.value.case, caught.value.rater) == ("c1", "ann")
    assert raters.read(pattern, threshold=0.5)["c1"].labels.tolist() == [[[0, 1]]]


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        (np.array([0, 255], np.uint8), 300),
        (np.array([0, 255], np.uint8), 255),
        (np.array([0, 255], np.int64), 300),
        (np.array([0, 255], np.uint8), -1),
        (np.array([0, 40, 90], np.uint8), 256),
        (np.array([0.0, 255.0]), 300),
        (np.array([0.1, 0.9]), 1.5),
        (np.array([0.1, 0.9]), -0.5),
    ],
)
def test_threshold_that_no_value_can_cross(values: Any, threshold: float) -> None:
    with pytest.raises(RatersError, match=rf"threshold {threshold:g}, expected a") as caught:
        whole_numbers(values, threshold)
    assert caught.value.kind == "threshold"


@pytest.mark.parametrize(
    ("values", "threshold", "expected"),
    [
        (np.array([0, 40, 90], np.uint8), 127, [0, 0, 0]),  # faint
        (np.array([200, 255], np.uint8), 127, [1, 1]),  # full
        (np.array([0.0, 0.3]), 0.5, [0, 0]),
        (np.array([0.6, 0.7]), 0.5, [1, 1]),
        (np.array([0.0, 40.0, 30.0]), 50, [0, 0, 0]),
        (np.array([-3.0, -1.0]), -2, [0, 1]),
        (np.array([0, 1], np.uint8), 300, [0, 1]),  # a mask of 0 and 1 stays as it is
    ],
)
def test_threshold_of_masks_that_lie_on_one_side(
    values: Any, threshold: float, expected: list[int]
) -> None:
    assert whole_numbers(values, threshold).tolist() == expected


@pytest.mark.parametrize("threshold", ["nan", "inf", "-inf", "300", "-1"])
def test_threshold_on_the_command_line(tmp_path: Path, run_raters: Run, threshold: str) -> None:
    draw_masks(tmp_path, value=255)
    masks = pattern(tmp_path)
    out = tmp_path / "out"
    arguments = ["fuse", masks, "-o", out, f"--threshold={threshold}"]
    outcome = run_raters(*arguments)
    assert outcome.code == 2 and f"threshold {threshold}" in outcome.err
    assert not list(out.rglob("*.png"))


def peak_of(work: Callable[[], object]) -> int:
    """Return the most bytes that some work holds at once beside what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
def test_counting_values_copies_no_mask(dtype: type, order: Any) -> None:
    mask = np.zeros((2000, 3000), dtype, order)
    mask[5:9, 7:11] = 3
    peak = peak_of(lambda: value_counts(mask))
    assert value_counts(mask) == {0: mask.size - 16, 3: 16}
    assert peak < mask.size  # int64 would take 8 times as many bytes


def test_checking_and_comparing_masks_copies_few_of_them() -> None:
    labels = np.zeros((1, 3, 2000, 3000), np.int16)
    labels[0, 0, 5:9, 7:11] = 1
    study = raters.Study.from_arrays(labels=labels)
    voxels = labels[0, 0].size
    assert peak_of(lambda: raters.check(study)) < 6 * voxels
    masks = labels[0]
    assert peak_of(lambda: count_patterns(masks, 2)) < 3 * voxels
    assert peak_of(lambda: entropy_map(masks, 2)) < 8 * voxels  # 4 bytes are the map itself


def test_blocks_give_what_the_whole_gives() -> None:
    rng = np.random.default_rng(0)
    masks = rng.integers(-1, 3, (3, 700, 800))  # more than two blocks
    found = count_patterns(masks, 3)
    rows, counts = np.unique(masks.reshape(3, -1).T, axis=0, return_counts=True)
    np.testing.assert_array_equal(found.labels, rows)
    np.testing.assert_array_equal(found.counts, counts)
    votes = np.stack([(masks == c).sum(axis=0) for c in range(3)])
    expected = scipy.stats.entropy(np.maximum(votes, 1e-300), base=2, axis=0)
    expected[votes.sum(axis=0) == 0] = 0
    np.testing.assert_allclose(entropy_map(masks, 3), expected, atol=1e-6)


@pytest.mark.parametrize("side", [700, 701])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_large_masks_of_bytes(side: int, order: Any) -> None:
    mask = np.random.default_rng(0).integers(0, 256, (side, 2 * side), np.uint8)
    mask = mask[:, ::2] if order == "strided" else np.array(mask[:, :side], order=order)
    found, times = np.unique(mask, return_counts=True)
    assert value_counts(mask) == dict(zip(found.tolist(), times.tolist(), strict=True))
    values = [*range(0, 200, 2), 255]
    classes = raters.Classes.from_values(values)
    numbers = {v: k for k, v in enumerate(values)}
    ignore = [v for v in range(256) if v not in numbers]
    expected = np.vectorize(lambda v: numbers.get(v, -1))(mask[:40])
    encoded = classes.encode(mask, ignore)
    np.testing.assert_array_equal(encoded[:40], expected)
    with pytest.raises(RatersError, match="found value 1"):
        classes.encode(mask, ignore[1:])

"""Classes: values in files and class numbers turn into each other without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raters
from raters.core.classes import MISSING, Classes, LabelClass
from raters.core.errors import RatersError
from tests.support.makers import quick, save, square

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]


@st.composite
def values_and_labels(draw: st.DrawFn) -> tuple[Classes, np.dtype[Any], np.ndarray[Any, Any], int]:
    """Draw a type of integers, classes with any values of that type, labels and a missing value."""
    dtype = draw(st.sampled_from(INTEGERS))
    info = np.iinfo(dtype)
    low = max(info.min, -(2**63))
    high = min(info.max, 2**63 - 1)
    near = st.integers(max(low, -3), min(high, 300)) | st.integers(low, high)
    values = draw(st.lists(near, min_size=2, max_size=8, unique=True))
    classes = Classes.from_values(values[:-1])
    numbers = draw(st.lists(st.integers(-1, len(classes) - 1), max_size=30))
    return classes, dtype, np.array(numbers, np.int16), values[-1]


@quick
@given(values_and_labels())
def test_decode_and_encode_are_inverse_for_every_integer_type(drawn: Any) -> None:
    classes, dtype, labels, missing = drawn
    stored = classes.decode(labels, missing)
    by_hand = [missing if k == MISSING else classes.values[k] for k in labels]
    assert [int(v) for v in stored] == by_hand
    assert stored.dtype == classes.file_dtype(missing)
    encoded = classes.encode(stored.astype(dtype), ignore=[missing])
    assert encoded.dtype == np.int16
    assert np.array_equal(encoded, labels)


@quick
@given(values_and_labels())
def test_the_file_type_is_the_smallest_that_holds_all_values(drawn: Any) -> None:
    classes, _, _, missing = drawn
    chosen = np.iinfo(classes.file_dtype(missing))
    values = [*classes.values, missing]
    assert chosen.min <= min(values) <= max(values) <= chosen.max
    for smaller in (np.uint8, np.uint16, np.int16, np.int32):
        info = np.iinfo(smaller)
        if info.bits < chosen.bits:
            assert not (info.min <= min(values) and max(values) <= info.max)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_unknown_values_are_named(dtype: np.dtype[Any]) -> None:
    classes = Classes.parse("0,1,4")
    values = np.array([0, 1, 4, 2, 3, 2], dtype)
    with pytest.raises(RatersError, match="found value 2, 3, expected one of 0, 1, 4 ") as caught:
        classes.encode(values)
    assert caught.value.kind == "unknown-value"
    assert classes.encode(values, ignore=[2, 3]).tolist() == [0, 1, 2, -1, -1, -1]


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_large_neighbours_are_not_confused(dtype: type) -> None:
    """2**53 + 1 is not a double: a search in floating point would take it for its neighbour."""
    classes = Classes.from_values([0, 2**53, 2**53 + 1, 2**53 + 2])
    values = np.array([2**53 + 1, 2**53, 2**53 + 2, 0], dtype)
    assert classes.encode(values).tolist() == [2, 1, 3, 0]
    with pytest.raises(RatersError, match=f"found value {2**53 + 3}"):
        classes.encode(np.array([2**53 + 3], dtype))


def test_a_value_of_minus_one_is_a_class_like_others() -> None:
    classes = Classes.parse("-1=unsure,0=no,1=yes")
    assert classes.encode(np.array([-1, 1, 0], np.int8)).tolist() == [0, 2, 1]
    assert classes.encode(np.array([255], np.uint8), ignore=[255]).tolist() == [MISSING]


def test_decoding_missing_labels_needs_a_value() -> None:
    with pytest.raises(RatersError, match="MISSING"):
        Classes.parse("0,1").decode(np.array([0, -1]))
    assert Classes.parse("0,1").decode(np.array([0, 1])).dtype == np.uint8


@quick
@given(st.sets(st.integers(-5, 300) | st.sampled_from([65535, 2**40]), min_size=1))
def test_the_free_value_is_no_class(values: set[int]) -> None:
    free = Classes.from_values(sorted(values)).free_value()
    assert free not in values
    assert free > 0
    assert (free == 255) == (255 not in values)
    assert free <= 255 or set(range(1, 256)) <= values


def test_the_free_value_minds_values_that_mean_the_same() -> None:
    classes = Classes((LabelClass("no", 0), LabelClass("yes", 1, also=(255,))))
    assert classes.free_value() == 254


@pytest.mark.parametrize(
    ("given_", "names", "values"),
    [
        ("0=background,1=core, 4 = enhancing", ("background", "core", "enhancing"), (0, 1, 4)),
        ("0,1", ("background", "foreground"), (0, 1)),
        ("0,255", ("background", "foreground"), (0, 255)),
        ("0,1,3", ("background", "1", "3"), (0, 1, 3)),
        ("1,2", ("1", "2"), (1, 2)),
        ({0: "a", 7: "b"}, ("a", "b"), (0, 7)),
        (["a", "b"], ("a", "b"), (0, 1)),
        ([0, np.int16(3)], ("background", "foreground"), (0, 3)),
    ],
)
def test_ways_to_give_classes(given_: Any, names: tuple[str, ...], values: tuple[int, ...]) -> None:
    classes = Classes.of(given_)
    assert (classes.names, classes.values) == (names, values)
    assert Classes.of(classes) is classes


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ("0=a,1=a", "class name 'a' twice"),
        ("0=a,x=b", "found 'x=b' among the values"),
        ("0=a,1.5=b", "expected whole numbers"),
        ("0=a,0=b", "0.* twice"),
        (["a", "a"], "class name 'a' twice"),
    ],
)
def test_classes_that_contradict_themselves(given_: Any, words: str) -> None:
    with pytest.raises(RatersError, match=words):
        Classes.of(given_)


def test_choosing_keeps_the_background_of_masks() -> None:
    classes = Classes.parse("0=background,1=core,2=oedema,4=enhancing")
    chosen, table = classes.choose(["enhancing", "1"], keep_background=True)
    assert (chosen.names, chosen.values) == (("background", "core", "enhancing"), (0, 1, 4))
    assert table[np.array([0, 1, 2, 3, MISSING])].tolist() == [0, 1, 0, 2, MISSING]


def test_choosing_makes_other_answers_of_tables_missing() -> None:
    classes = Classes.of(["cat", "dog", "eel"])
    chosen, table = classes.choose(["eel", "dog"], keep_background=False)
    assert chosen.names == ("dog", "eel")
    assert table[np.array([0, 1, 2, MISSING])].tolist() == [MISSING, 0, 1, MISSING]


def test_a_name_goes_before_a_value_that_looks_the_same() -> None:
    classes = Classes.of({0: "background", 1: "2", 2: "1"})
    assert classes.choose(["1"], keep_background=True)[0].values == (0, 2)


def test_choosing_what_is_not_there() -> None:
    with pytest.raises(RatersError, match="found no class 'x', expected one of a, b"):
        Classes.of(["a", "b"]).choose(["x"], keep_background=True)


def test_files_of_0_and_1_and_files_of_0_and_255_mean_the_same(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.png", square(value=255))
    save(tmp_path / "bob/c1.png", square(value=1))
    study = raters.read(str(tmp_path / "{rater}/{case}.png"))
    assert study.classes.names == ("background", "foreground")
    assert (study["c1"].labels == square()).all()
    again = study.write(tmp_path / "study")
    assert again.classes == study.classes
    assert (again["c1"].labels == square()).all()


def test_ignored_values_are_no_classes(tmp_path: Path) -> None:
    mask = square(value=3)
    mask[3] = 255
    save(tmp_path / "ann/c1.png", mask)
    pattern = str(tmp_path / "{rater}/{case}.png")
    study = raters.read(pattern, ignore=255)
    assert study.classes.values == (0, 3)
    assert (study["c1"].labels == np.select([mask == 255, mask == 3], [MISSING, 1], 0)).all()
    named = raters.read(pattern, values="0,3")
    with pytest.raises(RatersError, match=r"c1.png: found value 255, expected one of 0, 3"):
        _ = named["c1"].labels

"""Tables of class labels as studies, with references, features and images beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.study.study import Study
from tests.support.makers import quick, save, square

LONG = "task,worker,label\n10,ann,cat\n2,bob,dog\n2,ann,cat\n2,ann,dog\n"


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str = LONG, name: str = "answers.csv") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def answers_by_case(study: Study) -> list[tuple[str, str, Any]]:
    """Return all answers by way of the cases, which is not how they are stored."""
    values = study.classes.values
    return sorted(
        (case.id, rater, values[label]) for case in study for rater, label in case.answers
    )


def test_tasks_are_cases_and_repeated_readings_stay(write_table: Callable[..., Path]) -> None:
    study = raters.read(write_table())
    assert study.kind == "classification"
    assert study.cases == ("2", "10")
    assert study.classes.names == ("cat", "dog")
    assert answers_by_case(study) == [
        ("10", "ann", "cat"),
        ("2", "ann", "cat"),
        ("2", "ann", "dog"),
        ("2", "bob", "dog"),
    ]
    assert study["10"].answers.label.dtype == np.int16
    assert study["10"].reference is None
    assert study["10"].image is None


@quick
@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 4), st.randoms(use_true_random=False))
def test_dense_labels_equal_triplets(
    tasks: int, rater_count: int, classes: int, random: Any
) -> None:
    dense = np.array(
        [[random.randint(-1, classes - 1) for _ in range(rater_count)] for _ in range(tasks)]
    )
    study = Study.from_arrays(labels=dense, classes=[f"k{k}" for k in range(classes)])
    assert study.kind == "classification"
    expected = []
    for t in range(tasks):
        for r in range(rater_count):
            if dense[t, r] >= 0:
                expected.append((str(t), str(r), int(dense[t, r])))
    assert answers_by_case(study) == sorted(expected)
    frame = study.triplets.frame()
    assert sorted(zip(frame.task, frame.worker, frame.label, strict=True)) == sorted(expected)


def test_wide_tables_are_the_same_study(write_table: Callable[..., Path]) -> None:
    wide = raters.read(write_table("ann,bob\n1,\n0,1\n", "wide.csv"), wide=True)
    long = raters.read(write_table("task,worker,label\n0,ann,1\n1,ann,0\n1,bob,1\n"))
    assert answers_by_case(wide) == answers_by_case(long)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cat\neel\n", "truth.txt"),
        ("task,label\n10,eel\n2,cat\n", "truth.csv"),
        ("task\tlabel\n2\tcat\n10\teel\n", "truth.tsv"),
        ("label,x,task\neel,1,10\ncat,2,2\ncat,3,2\n", "truth.csv"),
    ],
)
def test_references_by_line_or_by_column(
    write_table: Callable[..., Path], text: str, name: str
) -> None:
    """Lines are in the order of the tasks; a class that only the reference has is a class."""
    study = raters.read(write_table(), reference=write_table(text, name))
    assert study.classes.names == ("cat", "dog", "eel")
    assert study.reference_labels is not None
    assert study.reference_labels.tolist() == [0, 2]
    assert [int(c.reference) for c in study if c.reference is not None] == [0, 2]


def test_references_for_some_tasks(write_table: Callable[..., Path]) -> None:
    study = raters.read(
        write_table(), reference=write_table("task,label\n10,dog\n99,cat\n", "truth.csv")
    )
    assert study.reference_labels is not None
    assert study.reference_labels.tolist() == [MISSING, 1]
    assert study["2"].reference is None


def test_references_of_numbers(write_table: Callable[..., Path]) -> None:
    text = "task,worker,label\na,ann,1\nb,ann,3\n"
    study = raters.read(write_table(text), reference=write_table("1.0\n2\n", "truth.txt"))
    assert study.classes.values == (1, 2, 3)
    assert study.reference_labels is not None
    assert study.reference_labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cat\n", "expected a column 'task'"),
        ("cat\ncat\ncat\n", "2 lines with one label each"),
        ("task,label\n2,cat\n2,dog\n", "found 'cat', 'dog' for task '2'"),
        ("task,label\n77,cat\n", "found no label of any task"),
    ],
)
def test_faults_of_references(write_table: Callable[..., Path], text: str, words: str) -> None:
    path = write_table(text, "truth.csv")
    with pytest.raises(RatersError, match=words) as caught:
        raters.read(write_table(), reference=path)
    assert caught.value.file == str(path)


def test_features_are_rows_in_the_order_of_tasks(
    write_table: Callable[..., Path], tmp_path: Path
) -> None:
    features = np.arange(6.0).reshape(2, 3)
    study = raters.read(write_table(), images=save(tmp_path / "x.npy", features))
    assert study["2"].image is not None
    assert [c.image.tolist() for c in study if c.image is not None] == features.tolist()


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_wrong_number_of_rows_is_refused(
    write_table: Callable[..., Path], tmp_path: Path, rows: int
) -> None:
    path = save(tmp_path / "x.npy", np.zeros((rows, 3)))
    with pytest.raises(RatersError, match=f"found {rows} rows, expected 2") as caught:
        raters.read(write_table(), images=path)
    assert caught.value.file == str(path)


def test_images_by_pattern_go_by_name(write_table: Callable[..., Path], tmp_path: Path) -> None:
    save(tmp_path / "pictures/10.png", square(value=10))
    save(tmp_path / "pictures/99.png", square(value=99))
    study = raters.read(write_table(), images=str(tmp_path / "pictures/{case}.png"))
    assert study["2"].image is None
    assert study["10"].image is not None
    assert study["10"].image.max() == 10
    assert study["10"].image.shape == (1, 4, 4)


def test_images_by_column(write_table: Callable[..., Path], tmp_path: Path) -> None:
    save(tmp_path / "deep/two.png", square(value=2))
    text = "task,worker,label,file\n10,ann,cat,\n2,bob,dog,deep/two.png\n2,ann,cat,deep/two.png\n"
    study = raters.read(write_table(text), images="file")
    assert study["2"].image is not None
    assert study["2"].image.max() == 2
    assert study["10"].image is None
    with pytest.raises(RatersError, match="expected a column 'picture'"):
        raters.read(write_table(text), images="picture")
    torn = "task,worker,label,file\n2,bob,dog,a.png\n2,ann,cat,b.png\n"
    with pytest.raises(RatersError, match=r"found 'a.png', 'b.png' for task '2'"):
        raters.read(write_table(torn), images="file")


def test_values_name_and_order_the_classes(write_table: Callable[..., Path]) -> None:
    text = "task,worker,label\na,ann,1\nb,ann,3\n"
    study = raters.read(write_table(text), values="3=yes,1=no,2=unsure")
    assert study.classes.names == ("yes", "no", "unsure")
    assert [c.answers.label.tolist() for c in study] == [[1], [0]]
    with pytest.raises(RatersError, match="found the label '3', expected one of 1, 2"):
        raters.read(write_table(text), values="1=no,2=unsure")


def test_values_name_classes_that_are_words(write_table: Callable[..., Path]) -> None:
    study = raters.read(write_table(), values={"dog": "Dog", "cat": "Cat"})
    assert study.classes.names == ("Dog", "Cat")
    assert study["10"].answers.label.tolist() == [1]


def test_columns_and_missing_values_have_names(write_table: Callable[..., Path]) -> None:
    text = "who,what,says\nann,a,1\nbob,a,-9\nbob,b,0\n"
    study = raters.read(write_table(text), task="what", worker="who", label="says", missing=-9)
    assert answers_by_case(study) == [("a", "ann", 1), ("b", "bob", 0)]


def test_selection_of_a_table(write_table: Callable[..., Path]) -> None:
    study = raters.read(write_table(), reference=write_table("dog\ncat\n", "truth.txt"))
    assert answers_by_case(study.select(raters=["bob"])) == [("2", "bob", "dog")]
    assert answers_by_case(study.select(cases=["1*"])) == [("10", "ann", "cat")]
    dogs = study.select(classes=["dog"])
    assert dogs.classes.names == ("dog",)
    assert answers_by_case(dogs) == [("2", "ann", "dog"), ("2", "bob", "dog")]
    assert dogs.reference_labels is not None
    assert dogs.reference_labels.tolist() == [0, MISSING]
    both = study.select(raters=["ann"]).select(cases=["2"]).select(classes=["cat"])
    assert answers_by_case(both) == [("2", "ann", "cat")]
    assert both.reference_labels is not None
    assert both.reference_labels.tolist() == [MISSING]


def test_tables_have_no_masks_and_masks_no_table() -> None:
    masks = Study.from_arrays(labels=np.zeros((1, 1, 2, 2), int))
    with pytest.raises(RatersError, match="expected a table"):
        _ = masks.triplets
    assert masks.reference_labels is None


def test_references_from_arrays_may_have_gaps() -> None:
    study = Study.from_arrays(labels=np.zeros((3, 2), int), reference=[1, None, MISSING])
    assert [c.reference is not None for c in study] == [True, False, False]


def test_one_bad_image_does_not_shift_the_others(
    write_table: Callable[..., Path], tmp_path: Path
) -> None:
    from raters.study.write import import_study

    text = "task,worker,label\n" + "".join(f"t{k},ann,{k % 2}\n" for k in range(5))
    for k in range(5):
        save(tmp_path / f"pictures/t{k}.png", square(value=10 + k))
    (tmp_path / "pictures/t1.png").write_bytes(b"no picture")
    study = raters.read(write_table(text), images=str(tmp_path / "pictures/{case}.png"))
    result = import_study(study, tmp_path / "study")
    assert [f.case for f in result.failures] == ["t1"]
    again = raters.read(tmp_path / "study")
    assert again.cases == ("t0", "t2", "t3", "t4")
    for case in again:
        assert case.image is not None
        assert case.image.max() == 10 + int(case.id[1:])
        assert case.answers.label.tolist() == [int(case.id[1:]) % 2]

"""Studies: selection, lazy reading, what cases give, and what arrays are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import raters
from raters.core.classes import MISSING, Classes
from raters.core.errors import RatersError
from raters.io import formats
from raters.study.study import Study
from tests.support.makers import quick, save, square

NAMES = ("background", "core", "oedema", "rim")


@pytest.fixture
def study() -> Study:
    """Six cases of three raters and four classes, with references for some."""
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 4, (6, 3, 4, 5))
    return Study.from_arrays(
        images=rng.normal(size=(6, 2, 4, 5)),
        labels=labels,
        reference=[rng.integers(0, 4, (4, 5)) if k % 2 else None for k in range(6)],
        raters=["ann", "bob", "cem"],
        classes={0: "background", 1: "core", 2: "oedema", 4: "rim"},
        groups=["P", "P", "Q", "Q", "R", "R"],
        cases=[f"s{k // 2}_{k % 2}" for k in range(6)],
        splits=["train"] * 4 + ["test", ""],
        channels=["T1", "T2"],
        about={"title": "a study"},
    )


def folder_study(root: Path, **options: Any) -> Study:
    """Write three cases of two raters; value 7 is in the last case only, and read them."""
    for k, value in enumerate([1, 4, 7]):
        save(root / f"masks/ann/c{k}.png", square(value=value))
        save(root / f"images/c{k}.png", np.full((4, 4), k, np.uint8))
    save(root / "masks/bob/c0.png", square(value=4, corner=1))
    save(root / "truth/c0.png", square(value=1, corner=2))
    return raters.read(
        str(root / "masks/{rater}/{case}.png"),
        images=str(root / "images/{case}.png"),
        reference=str(root / "truth/{case}.png"),
        **options,
    )


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each file that is opened."""
    opened: list[str] = []
    for name in ("read_labels", "read_image", "probe"):
        whole = getattr(formats, name)

        def note(path: Any, whole: Any = whole) -> Any:
            opened.append(f"{Path(path).parent.name}/{Path(path).name}")
            return whole(path)

        monkeypatch.setattr(formats, name, note)
    return opened


def test_a_case_gives_what_was_put_in(study: Study) -> None:
    case = study["s0_1"]
    assert (case.id, case.group, case.split) == ("s0_1", "P", "train")
    assert case.labels.shape == (3, 4, 5)
    assert case.labels.dtype == np.int16
    assert case.image is not None
    assert case.image.shape == (2, 4, 5)
    assert case.reference is not None
    assert case.reference.dtype == np.int16
    assert case.reference.shape == (4, 5)
    assert case.geometry.shape == (4, 5)
    assert case.geometry.affine is None
    assert study["s0_0"].reference is None
    assert len(study) == 6
    assert [c.id for c in study] == list(study.cases)
    assert study[0].id == study[-6].id == "s0_0"


def test_a_case_that_is_not_there(study: Study) -> None:
    with pytest.raises(RatersError, match="found no case 'x' among 6 cases"):
        study["x"]
    with pytest.raises(RatersError, match="found case number 6, expected 0 to 5"):
        study[6]


@quick
@given(
    st.sets(st.sampled_from(["ann", "bob", "cem"]), min_size=1),
    st.sets(st.integers(0, 5), min_size=1),
    st.sets(st.sampled_from(NAMES), min_size=1),
)
def test_selection_equals_indexing(rater_set: set[str], rows: set[int], names: set[str]) -> None:
    """Whatever is selected, in whatever steps, is what indexing of the arrays gives."""
    labels = np.random.default_rng(1).integers(-1, 4, (6, 3, 2, 3))
    whole = Study.from_arrays(labels=labels, raters=["ann", "bob", "cem"], classes=list(NAMES))
    kept = sorted({0} | {NAMES.index(n) for n in names})
    columns = [k for k, r in enumerate(whole.raters) if r in rater_set]
    expected = labels[np.ix_(sorted(rows), columns)].copy()
    for old in range(4):
        where = labels[np.ix_(sorted(rows), columns)] == old
        expected[where] = kept.index(old) if old in kept else 0
    chosen = {
        "raters": sorted(rater_set, reverse=True),
        "cases": [str(k) for k in rows],
        "classes": sorted(names),
    }
    at_once = whole.select(**chosen)
    steps = whole
    for key, value in chosen.items():
        steps = steps.select(**{key: value})
    for part in (at_once, steps):
        assert part.raters == tuple(whole.raters[k] for k in columns)
        assert part.cases == tuple(str(k) for k in sorted(rows))
        assert part.classes.names == tuple(NAMES[k] for k in kept)
        assert np.array_equal([case.labels for case in part], expected)


def test_cases_by_wildcard_and_split(study: Study) -> None:
    assert study.select(cases=["s0*"]).cases == ("s0_0", "s0_1")
    assert study.select(cases=["*_1", "s0_0"]).cases == ("s0_0", "s0_1", "s1_1", "s2_1")
    assert study.select(cases=["*_1"], split="train").cases == ("s0_1", "s1_1")
    assert study.select(split="train").select(cases=["*_1"]).select(raters=["cem"]).cases == (
        "s0_1",
        "s1_1",
    )


def test_a_name_with_brackets_is_a_name_before_it_is_a_wildcard() -> None:
    whole = Study.from_arrays(labels=np.zeros((2, 1, 2, 2), int), cases=["a[1]", "a1"])
    assert whole.select(cases=["a[1]"]).cases == ("a[1]",)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"raters": ["dan"]}, "found no rater 'dan', expected one of ann, bob, cem"),
        ({"cases": ["t*"]}, r"found no case 't\*', expected a name like 's0_0'"),
        ({"classes": ["liver"]}, "found no class 'liver', expected one of background, core"),
        ({"split": "val"}, "found no case in the split 'val', expected one of test, train"),
    ],
)
def test_selecting_what_is_not_there(study: Study, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(RatersError, match=words):
        study.select(**chosen)


def test_a_second_selection_chooses_from_the_first(study: Study) -> None:
    part = study.select(raters=["ann"], cases=["s0*"], classes=["core"], split="train")
    for again in (
        {"raters": ["bob"]},
        {"cases": ["s1_0"]},
        {"classes": ["rim"]},
        {"split": "test"},
    ):
        with pytest.raises(RatersError, match="found no"):
            part.select(**again)  # type: ignore[arg-type]
    assert part.select(classes=["core"]).classes.names == ("background", "core")


def test_selecting_classes_touches_the_reference_too(study: Study) -> None:
    part = study.select(classes=["4"])
    whole = study["s0_1"].reference
    chosen = part["s0_1"].reference
    assert part.classes.names == ("background", "rim")
    assert np.array_equal(np.asarray(chosen), np.asarray(whole) == 3)


def test_selecting_classes_of_truth_values() -> None:
    drawn = np.array([[[[True, False]], [[False, False]]]])
    part = Study.from_arrays(labels=drawn).select(classes=["foreground"])
    assert part[0].labels.tolist() == [[[1, 0]], [[0, 0]]]


def test_a_selection_copies_no_facts(study: Study) -> None:
    part = study.select(cases=["s2*"])
    assert (part.channels, dict(part.about)) == (("T1", "T2"), {"title": "a study"})
    assert [c.group for c in part] == ["R", "R"]
    assert len(study) == 6


def test_a_part_numbers_its_classes_as_the_whole(tmp_path: Path) -> None:
    """Values are found over all files: 7 is class 3 even where 1 and 4 do not occur."""
    study = folder_study(tmp_path)
    part = study.select(cases=["c2"])
    assert part["c2"].labels.max() == 3
    assert part.classes == study.classes
    assert part.classes.values == (0, 1, 4, 7)
    only = folder_study(tmp_path, cases=["c1"], raters=["bob"])
    assert only.classes.values == (0, 1, 4, 7)


def test_nothing_is_opened_before_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_study(tmp_path)
    opened = opened_files(monkeypatch)
    study = folder_study_again(tmp_path, values="0,1,4,7")
    part = study.select(raters=["ann"], cases=["c*"], classes=["4"])
    cases = list(part)
    assert repr(study) == "Study(segmentation, 3 cases, 2 raters, 4 classes)"
    assert opened == []
    _ = cases[1].labels
    assert set(opened) == {"ann/c1.png", "images/c1.png"}  # of the image the header alone
    opened.clear()
    assert cases[1].image is not None
    assert opened == ["images/c1.png"]
    _ = cases[1].labels, cases[1].image
    assert opened == ["images/c1.png"]


def folder_study_again(root: Path, **options: Any) -> Study:
    """Read what `folder_study` wrote."""
    return raters.read(
        str(root / "masks/{rater}/{case}.png"), images=str(root / "images/{case}.png"), **options
    )


def test_unnamed_classes_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_study(tmp_path)
    opened = opened_files(monkeypatch)
    study = folder_study_again(tmp_path)
    assert "classes not read yet" in repr(study)
    assert opened == []
    assert len(study.classes) == 4
    assert sorted(opened) == ["ann/c0.png", "ann/c1.png", "ann/c2.png", "bob/c0.png"]
    opened.clear()
    assert len(study.select(cases=["c0"]).classes) == 4
    assert opened == []


def test_an_absent_file_is_missing_or_empty(tmp_path: Path) -> None:
    missing = folder_study(tmp_path)
    assert (missing["c1"].labels[1] == MISSING).all()
    empty = folder_study(tmp_path, absent="empty")
    assert (empty["c1"].labels[1] == 0).all()
    assert np.array_equal(missing["c1"].labels[0], empty["c1"].labels[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("absent", "'missing' or 'empty'"),
        ("overlap", "'error' or 'priority' or 'combine'"),
        ("resample", "'nearest'"),
    ],
)
def test_a_word_that_no_rule_has_is_refused(tmp_path: Path, name: str, expected: str) -> None:
    with pytest.raises(RatersError, match=f"found {name}='none', expected {expected}"):
        folder_study(tmp_path, **{name: "none"})


def test_the_reference_is_no_rater(tmp_path: Path) -> None:
    study = folder_study(tmp_path)
    assert study.raters == ("ann", "bob")
    assert np.array_equal(np.asarray(study["c0"].reference), square(corner=2))
    assert study["c1"].reference is None
    assert study["c0"].labels.shape == (2, 4, 4)
    # A selection of raters leaves it where it is.
    assert study.select(raters=["bob"])["c0"].reference is not None


def test_an_unknown_value_names_file_rater_and_value(tmp_path: Path) -> None:
    study = folder_study(tmp_path, values="0=no,1=yes")
    with pytest.raises(RatersError, match=r"ann/c1.png: found value 4, expected one of 0, 1") as e:
        _ = study["c1"].labels
    assert (e.value.case, e.value.rater, e.value.kind) == ("c1", "ann", "unknown-value")


def test_one_bad_file_spoils_its_case_only(tmp_path: Path) -> None:
    folder_study(tmp_path)
    (tmp_path / "masks/ann/c1.png").write_bytes(b"no picture")
    study = folder_study_again(tmp_path)
    assert study["c0"].labels.shape == (2, 4, 4)
    with pytest.raises(RatersError, match=r"ann/c1.png"):
        _ = study["c1"].labels


def test_cases_may_differ_in_shape() -> None:
    shapes = [(2, 3), (5, 4)]
    study = Study.from_arrays(labels=[np.zeros((3, *s), int) for s in shapes])
    assert [c.labels.shape for c in study] == [(3, 2, 3), (3, 5, 4)]
    assert study.raters == ("0", "1", "2")
    assert study.classes.names == ("background", "foreground")


def test_names_that_are_no_texts_become_texts(tmp_path: Path) -> None:
    """People have their names in arrays and data frames, and number patients."""
    study = Study.from_arrays(
        labels=np.zeros((2, 2, 3, 3), int),
        raters=np.array(["ann", "bob"]),  # type: ignore[arg-type]
        cases=range(7, 9),  # type: ignore[arg-type]
        groups=np.array([1, 2]),  # type: ignore[arg-type]
        classes={np.int64(0): "no", np.int64(9): "yes"},
        about={"year": 2015},  # type: ignore[dict-item]
    )
    assert study["8"].group == "2"
    again = study.write(tmp_path / "study")
    assert (again.cases, again.raters) == (("7", "8"), ("ann", "bob"))
    assert again.about == {"year": "2015"}
    assert again.classes.values == (0, 9)


def test_images_alone_and_references_alone() -> None:
    images = Study.from_arrays(images=np.zeros((2, 1, 3, 3)))
    assert (images.raters, images[0].labels.shape) == ((), (0, 3, 3))
    truth = Study.from_arrays(reference=np.ones((2, 3, 3), int))
    assert truth.kind == "segmentation"
    assert truth[0].reference is not None
    assert Study.from_arrays(reference=[0, 1]).kind == "classification"


MASKS = np.zeros((2, 2, 3, 3), int)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "found no arrays"),
        (
            {"labels": MASKS + 0.7},
            "labels of case 0: found labels of type float64, expected whole numbers",
        ),
        ({"labels": MASKS - 2}, "found labels from -2 to -2 in case 0, expected -1"),
        ({"labels": MASKS + 2, "classes": ["a", "b"]}, "from 2 to 2 in case 0.*for 2 classes"),
        ({"labels": MASKS, "reference": MASKS[:, 0] + 0.5}, "reference of case 0: .* float64"),
        ({"labels": MASKS + 2**40}, "found the label 1099511627776, expected class numbers up to"),
        (
            {"labels": [[MASKS[0, 0]] * 2, [MASKS[0, 0], np.zeros((4, 3), int)]]},
            "labels of case 1: a mask: found shape 4 x 3, expected 3 x 3 as in the first one",
        ),
        ({"labels": [1, 0, 1]}, r"found one label of each case, expected labels \(cases, raters"),
        ({"labels": np.array(3)}, "found an array of int64 as labels, expected a sequence"),
        ({"images": MASKS.astype(str)}, "images of case 0: found an array of <U21, expected"),
        (
            {"labels": MASKS, "reference": MASKS[:, 0] + 3, "classes": ["a", "b"]},
            "reference labels from 3",
        ),
        ({"labels": MASKS, "raters": ["ann"]}, "expected 2 different ones"),
        ({"labels": MASKS, "raters": ["ann", "ann"]}, "expected 2 different ones"),
        ({"labels": MASKS, "raters": ["ann", ""]}, "expected 2 different ones"),
        ({"labels": MASKS, "cases": ["a", "a"]}, "'a' twice"),
        ({"labels": MASKS, "cases": ["a", ""]}, "empty"),
        ({"labels": MASKS, "cases": ["a"]}, "found 2 labels, 1 cases"),
        ({"labels": MASKS, "images": np.zeros((3, 1, 3, 3))}, "found 3 images, 2 labels"),
        ({"labels": MASKS, "groups": ["a"]}, "1 groups"),
        ({"labels": MASKS, "splits": ["a"]}, "1 splits"),
        ({"labels": MASKS, "affines": [None]}, "1 affines"),
        ({"labels": [MASKS[0], MASKS[0, :1]]}, "found labels by 1 raters in case 1, expected 2"),
        ({"labels": [[0, 1], [0]]}, "found labels by 1 raters in case 1, expected 2"),
        ({"labels": MASKS, "classes": ["a", "a"]}, "class name 'a' twice"),
    ],
)
def test_arrays_that_are_refused(arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(RatersError, match=words):
        Study.from_arrays(**arrays)


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float16, np.float64, bool])
def test_masked_labels_are_missing(kind: type) -> None:
    masked: Any = np.ma.masked_array(np.ones((2, 3, 2, 2), kind), mask=False)
    masked[0, :2] = np.ma.masked
    expected = np.ones((2, 3, 2, 2), int)
    expected[0, :2] = -1
    lists = [[masked[0, 0], None, masked[0, 2]], list(masked[1])]
    for arrays in (masked, list(masked), [list(case) for case in masked], lists):
        study = Study.from_arrays(labels=arrays, reference=masked[:, 0])
        assert np.array_equal([case.labels for case in study], expected)
        assert study[0].reference is None and np.all(study[1].reference == 1)
    table = Study.from_arrays(labels=masked[:, :, 0, 0])
    assert len(table.triplets) == 4
    assert (raters.fuse(masked, "vote")["0"].labels == 1).all()
    assert raters.check(masked).raters == {"0": 1, "1": 1, "2": 2}


def test_whole_floats_are_labels_and_nan_is_missing() -> None:
    labels = np.array([[[[0.0, 1.0]], [[np.nan, 2.0]]]])
    for arrays in (labels, labels.astype(np.float32), labels.tolist(), torch.tensor(labels)):
        study = Study.from_arrays(labels=arrays, reference=labels[:, 0])
        assert study[0].labels.tolist() == [[[0, 1]], [[-1, 2]]] and len(study.classes) == 3
    table = Study.from_arrays(labels=[[0.0, np.nan], [1.0, 1.0]], reference=[np.nan, 1.0])
    assert table.triplets.label.tolist() == [0, 1, 1]
    assert table[0].reference is None and table[1].reference == 1


@pytest.mark.parametrize(
    ("labels", "classes", "values", "expected"),
    [
        ([0, 255, -1], None, (0, 255), [0, 1, -1]),
        ([0, 128, 255], None, (0, 128, 255), [0, 1, 2]),
        ([0, 255, 1], None, (0, 1), [0, 1, 1]),
        ([0, 2, -1], None, (0, 1, 2), [0, 2, -1]),  # class numbers: the first did not occur
        ([0, 255, 255], {0: "bg", 255: "fg"}, (0, 255), [0, 1, 1]),
        ([4, 0, 4], {0: "bg", 4: "core", 1: "rest"}, (0, 4, 1), [1, 0, 1]),
        ([0, 1, 1], {0: "bg", 255: "fg"}, (0, 255), [0, 1, 1]),
    ],
)
def test_values_of_arrays_as_of_files(
    labels: list[int], classes: Any, values: tuple[int, ...], expected: list[int]
) -> None:
    masks = np.array([[labels] * 2])[:, :, np.newaxis]
    for arrays in (masks, masks.astype(float)):
        study = Study.from_arrays(labels=arrays, reference=masks[:, 0], classes=classes)
        assert study.classes.values == values
        assert study[0].labels[1, 0].tolist() == expected
    assert raters.check(study).counts["0"] == [expected.count(k) for k in range(len(values))]


def test_an_image_of_another_shape_is_refused() -> None:
    study = Study.from_arrays(labels=MASKS, images=np.zeros((2, 1, 3, 4)), raters=["ann", "bob"])
    with pytest.raises(RatersError, match="found shape 3 x 3, expected 3 x 4") as caught:
        _ = study[1].labels
    assert (caught.value.case, caught.value.rater) == ("1", "ann")


def test_classes_come_from_the_labels_or_are_given() -> None:
    labels = np.array([[[[0, 3]]]])
    assert Study.from_arrays(labels=labels).classes.values == (0, 1, 2, 3)
    assert Study.from_arrays(labels=labels * 0).classes.names == ("background", "foreground")
    given_ = Classes.of({0: "a", 5: "b", 9: "c", -4: "d"})
    assert Study.from_arrays(labels=labels, classes=given_).classes is given_


def test_what_users_see_of_a_study(study: Study) -> None:
    assert repr(study) == "Study(segmentation, 6 cases, 3 raters, 4 classes)"
    assert repr(study["s0_1"]) == "Case('s0_1', 3 raters)"
    assert repr(study.select(raters=["ann"], cases=["s0_1"])).startswith(
        "Study(segmentation, 1 case, 1 rater,"
    )


@pytest.mark.parametrize("order", [[3, 1, 0, 2], [3, 0], [2, 1, 0]])
def test_tasks_in_another_order_keep_their_own_answers(order: list[int]) -> None:
    labels = np.array([[0, 1], [1, 1], [2, 0], [0, MISSING]])
    study = Study.from_arrays(images=np.arange(4.0)[:, None], labels=labels)
    taken = study[order]
    for row, case in zip(order, taken.iter_cases(), strict=True):
        found = [list(said) for said in case.answers.by_rater()]
        assert (case.id, np.asarray(case.image).item()) == (str(row), row)
        assert found == [[o] if o != MISSING else [] for o in labels[row]]
    kept = labels[order]
    assert sorted(taken.triplets.label) == sorted(kept[kept != MISSING])

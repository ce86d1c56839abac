"""Files become cases by their names: one missing mask never shifts the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.study.files_index import index_patterns
from raters.study.pattern import Pattern
from raters.study.study import Study
from tests.support.makers import few, save, square


def read_below(root: Path, pattern: str, **options: Any) -> Study:
    """Read patterns below a folder."""
    beside = {k: str(root / v) for k, v in options.items() if k in ("images", "reference")}
    return raters.read(str(root / pattern), **options | beside)


def test_each_mask_and_image_goes_to_the_case_of_its_name(tmp_path: Path) -> None:
    """The value in each file tells which case it is of."""
    for k in range(1, 6):
        save(tmp_path / f"images/c{k}.png", np.full((4, 4), k, np.uint8))
        if k != 2:
            save(tmp_path / f"masks/ann/c{k}.png", square(value=k))
        if k != 4:
            save(tmp_path / f"masks/bob/c{k}.png", square(value=k))
        if k in (1, 5):
            save(tmp_path / f"truth/c{k}.png", square(value=k))
    study = read_below(
        tmp_path,
        "masks/{rater}/{case}.png",
        images="images/{case}.png",
        reference="truth/{case}.png",
    )
    assert study.cases == ("c1", "c2", "c3", "c4", "c5")
    for k, case in enumerate(study, start=1):
        assert case.image is not None
        assert (case.image == k).all()
        for rater, left_out in enumerate([2, 4]):
            expected = MISSING if k == left_out else np.where(square() > 0, k, 0)
            assert (case.labels[rater] == expected).all()
        assert (case.reference is not None) == (k in (1, 5))
        assert case.reference is None or case.reference.max() == k


@few
@given(st.sets(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12)), min_size=1))
def test_cases_and_raters_are_the_sets_of_their_names(
    tmp_path_factory: pytest.TempPathFactory, pairs: set[tuple[str, int]]
) -> None:
    root = tmp_path_factory.mktemp("index")
    for rater, case in pairs:
        path = root / f"{case}_{rater}.png"
        path.touch()
    index = index_patterns(Pattern(f"{root}/{{case}}_{{rater}}.png"), None, None)
    assert index.ids == [str(k) for k in sorted({case for _, case in pairs})]
    assert index.raters == sorted({rater for rater, _ in pairs})
    files = set()
    for case, files_of_case in zip(index.ids, index.files, strict=True):
        for rater, by_class in files_of_case.masks.items():
            if by_class[""] == root / f"{case}_{rater}.png":
                files.add((rater, int(case)))
    assert files == pairs


def test_raters_and_cases_are_in_natural_order(tmp_path: Path) -> None:
    for name in ("r10/c10.png", "r10/c2.png", "r9/c2.png"):
        save(tmp_path / name, square())
    study = read_below(tmp_path, "{rater}/{case}.png")
    assert study.raters == ("r9", "r10")
    assert study.cases == ("c2", "c10")


def test_all_names_but_rater_class_and_modality_tell_cases_apart(tmp_path: Path) -> None:
    pattern = "{group}/nodule-{nodule}/mask-{rater}/slice-{case}.png"
    for patient, nodule, rater, value in [("P1", 0, 0, 1), ("P1", 1, 0, 2), ("P2", 0, 1, 3)]:
        mask = tmp_path / f"{patient}/nodule-{nodule}/mask-{rater}/slice-0.png"
        save(mask, square(value=value))
        save(mask.parents[1] / "images/slice-0.png", np.full((4, 4), value, np.uint8))
    study = read_below(tmp_path, pattern, images="{group}/nodule-{nodule}/images/slice-{case}.png")
    assert study.cases == ("P1/0/0", "P1/1/0", "P2/0/0")
    assert [c.group for c in study] == ["P1", "P1", "P2"]
    assert [int(c.labels.max()) for c in study] == [1, 2, 3]
    assert [int(c.image.max()) for c in study if c.image is not None] == [1, 2, 3]


def test_masks_and_images_in_one_folder(tmp_path: Path) -> None:
    """`{case}/{rater}.png` also fits the images and references: they are no raters."""
    for case in ("c1", "c2"):
        for name in ("ann", "bob", "image", "truth"):
            save(tmp_path / case / f"{name}.png", square())
    study = read_below(
        tmp_path, "{case}/{rater}.png", images="{case}/image.png", reference="{case}/truth.png"
    )
    assert study.raters == ("ann", "bob")
    assert all(case.reference is not None for case in study)


def test_an_image_without_masks_is_a_case_without_labels(tmp_path: Path) -> None:
    save(tmp_path / "masks/ann/c1.png", square())
    for case in ("c0", "c1"):
        save(tmp_path / f"images/{case}.png", np.zeros((4, 4), np.uint8))
    study = read_below(tmp_path, "masks/{rater}/{case}.png", images="images/{case}.png")
    assert study.cases == ("c0", "c1")
    assert (study["c0"].labels == MISSING).all()


def test_one_image_for_several_cases(tmp_path: Path) -> None:
    """The image is named by less than the masks are: all cases that fit share it."""
    for time in ("t1", "t2"):
        save(tmp_path / f"masks/c1-{time}-ann.png", square())
    save(tmp_path / "images/c1.png", np.full((4, 4), 9, np.uint8))
    study = read_below(tmp_path, "masks/{case}-{time}-{rater}.png", images="images/{case}.png")
    assert study.cases == ("c1/t1", "c1/t2")
    assert all(case.image is not None and case.image.max() == 9 for case in study)


def test_modalities_become_channels_in_order(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.png", square())
    for value, modality in enumerate(["T2", "FLAIR", "T10"]):
        save(tmp_path / f"images/c1_{modality}.png", np.full((4, 4), value, np.uint8))
    study = read_below(tmp_path, "{rater}/{case}.png", images="images/{case}_{modality}.png")
    assert study.channels == ("FLAIR", "T2", "T10")
    image = study["c1"].image
    assert image is not None
    assert [int(channel.max()) for channel in image] == [1, 0, 2]


def test_a_missing_modality_is_named(tmp_path: Path) -> None:
    for case in ("c1", "c2"):
        save(tmp_path / f"ann/{case}.png", square())
    for name in ("c1_T1", "c1_T2", "c2_T1"):
        save(tmp_path / f"images/{name}.png", np.zeros((4, 4), np.uint8))
    study = read_below(tmp_path, "{rater}/{case}.png", images="images/{case}_{modality}.png")
    assert study["c1"].image is not None
    with pytest.raises(RatersError, match=r"c2_T1.png: found no 'T2' image") as caught:
        _ = study["c2"].image
    assert caught.value.case == "c2"


def test_modalities_on_different_grids_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.png", square())
    save(tmp_path / "images/c1_T1.png", np.zeros((4, 4), np.uint8))
    save(tmp_path / "images/c1_T2.png", np.zeros((4, 5), np.uint8))
    study = read_below(tmp_path, "{rater}/{case}.png", images="images/{case}_{modality}.png")
    with pytest.raises(RatersError, match=r"T2.png: found shape 4 x 5, expected 4 x 4.*T1.png"):
        _ = study["c1"].image


@pytest.fixture
def by_class(tmp_path: Path) -> Path:
    """Two raters with one file per class; the squares of disc and cup share a pixel."""
    save(tmp_path / "ann/c1_disc.png", square(value=255))
    save(tmp_path / "ann/c1_cup.png", square(value=1, corner=1))
    save(tmp_path / "bob/c1_disc.png", square(value=255))
    return tmp_path


def test_classes_that_overlap_are_refused(by_class: Path) -> None:
    study = read_below(by_class, "{rater}/{case}_{class}.png")
    with pytest.raises(RatersError, match="found 1 pixels in the classes cup and disc") as caught:
        _ = study["c1"].labels
    assert caught.value.kind == "overlap"
    assert (caught.value.case, caught.value.rater) == ("c1", "ann")


@pytest.mark.parametrize("order", [["cup", "disc"], ["disc", "cup"]])
def test_the_class_that_is_listed_last_wins(by_class: Path, order: list[str]) -> None:
    values = ["background", *order]
    study = read_below(by_class, "{rater}/{case}_{class}.png", overlap="priority", values=values)
    assert study.classes.names == ("background", *order)
    drawn = {"disc": square(), "cup": square(corner=1)}
    expected = np.zeros((4, 4), int)
    for number, name in enumerate(order, start=1):
        expected[drawn[name] > 0] = number
    ann, bob = study["c1"].labels
    assert (ann == expected).all()
    # Bob has no file of the cup: he drew none, and the disc is whole.
    assert (bob == np.where(drawn["disc"], values.index("disc"), 0)).all()


def test_classes_that_overlap_make_a_class_of_their_own(by_class: Path) -> None:
    study = read_below(by_class, "{rater}/{case}_{class}.png", overlap="combine")
    assert study.classes.names == ("background", "cup", "disc", "cup+disc")
    disc = square() > 0
    cup = square(corner=1) > 0
    expected = np.select([disc & cup, disc, cup], [3, 2, 1], 0)
    assert (study["c1"].labels[0] == expected).all()


def test_ignored_values_in_files_of_one_class(tmp_path: Path) -> None:
    disc = square(value=1)
    disc[3, 3] = 7
    cup = square(value=255, corner=2)
    cup[0, 3] = 7
    save(tmp_path / "ann/c1_disc.png", disc)
    save(tmp_path / "ann/c1_cup.png", cup)
    study = read_below(tmp_path, "{rater}/{case}_{class}.png", ignore=7)
    expected = np.select([disc == 7, cup == 7, disc == 1, cup == 255], [MISSING, MISSING, 2, 1], 0)
    assert (study["c1"].labels[0] == expected).all()


def test_a_file_of_one_class_with_two_values_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1_disc.png", square(value=1) + square(value=5, corner=2))
    study = read_below(tmp_path, "{rater}/{case}_{class}.png")
    with pytest.raises(RatersError, match="found values 1, 5, expected 0 and one other"):
        _ = study["c1"].labels


def test_a_rater_without_any_class_file_labelled_nothing(by_class: Path) -> None:
    save(by_class / "bob/c2_disc.png", square())
    study = read_below(by_class, "{rater}/{case}_{class}.png", overlap="priority")
    assert (study["c2"].labels[0] == MISSING).all()
    assert (study["c2"].labels[1] != MISSING).all()


def test_references_with_a_file_a_class(by_class: Path) -> None:
    save(by_class / "truth/c1_cup.png", square())
    study = read_below(
        by_class,
        "{rater}/{case}_{class}.png",
        reference="truth/{case}_{class}.png",
        overlap="priority",
    )
    assert study.raters == ("ann", "bob")
    assert np.array_equal(np.asarray(study["c1"].reference), square())


@pytest.mark.parametrize("of_images", [False, True])
def test_splits_come_from_folders(tmp_path: Path, of_images: bool) -> None:
    for split, case in [("train", "c1"), ("test", "c2")]:
        save(tmp_path / f"masks/ann/{split}/{case}.png", square())
        save(tmp_path / f"flat/ann/{case}.png", square())
        save(tmp_path / f"images/{split}/{case}.png", square())
    masks = "flat/{rater}/{case}.png" if of_images else "masks/{rater}/{split}/{case}.png"
    study = read_below(tmp_path, masks, images="images/{split}/{case}.png")
    test = study.select(split="test")
    assert [case.split for case in test] == ["test"]
    assert test.cases == (("c2",) if of_images else ("test/c2",))
    assert all(case.image is not None for case in study)
    with pytest.raises(RatersError, match="expected one of test, train"):
        study.select(split="val")


def test_groups_come_from_the_images_where_only_they_tell(tmp_path: Path) -> None:
    for case in ("c1", "c2"):
        save(tmp_path / f"masks/ann/{case}.png", square())
    save(tmp_path / "images/patient/c1.png", square())
    study = read_below(tmp_path, "masks/{rater}/{case}.png", images="images/{group}/{case}.png")
    assert [case.group for case in study] == ["patient", "c2"]


def test_two_cases_with_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("site1", "site2"):
        save(tmp_path / folder / "ann" / "c1.png", square())
    with pytest.raises(RatersError, match=r"site2.*found a second file for case 'c1'.*site1") as e:
        read_below(tmp_path, "*/{rater}/{case}.png")
    assert e.value.kind == "duplicate"
    study = read_below(tmp_path, "*/{rater}/{case}.png", strict=False)
    assert [p.kind for p in study.problems] == ["duplicate"]


@pytest.mark.parametrize("target", ["gone.png", "c2.png"])
def test_a_link_that_leads_nowhere_is_an_error_of_its_own_case(tmp_path: Path, target: str) -> None:
    for case in ("c1", "c3"):
        save(tmp_path / f"ann/{case}.png", square())
    (tmp_path / "ann/c2.png").symlink_to(target)
    study = read_below(tmp_path, "{rater}/{case}.png")
    assert study.cases == ("c1", "c2", "c3")
    assert [study[case].labels.max() for case in ("c1", "c3")] == [1, 1]
    with pytest.raises(RatersError, match=r"c2.png: ") as caught:
        _ = study["c2"].labels
    assert (caught.value.case, caught.value.rater) == ("c2", "ann")
    problems = raters.check(study).problems
    assert [(p.level, p.case) for p in problems if p.file and p.file.endswith("c2.png")] == [
        ("error", "c2")
    ]


def test_a_folder_that_leads_nowhere_is_an_error_that_hides_nothing(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.png", square())
    (tmp_path / "bob").symlink_to("gone")
    with pytest.raises(RatersError, match=r"bob: a link that leads nowhere"):
        read_below(tmp_path, "{rater}/{case}.png")
    study = read_below(tmp_path, "{rater}/{case}.png", strict=False)
    assert study.cases == ("c1",)
    assert len(study.problems) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pattern": "{case}.png"}, r"found no \{rater\}"),
        ({"pattern": "{rater}.png"}, r"found no \{case\}"),
        ({"pattern": "{rater}/{case}.png", "images": "images/{name}.png"}, "tells the case"),
        ({"pattern": "{rater}/{case}.png", "reference": "truth/{rater}.png"}, "tells the case"),
    ],
)
def test_patterns_that_cannot_tell_are_refused(
    tmp_path: Path, options: dict[str, str], words: str
) -> None:
    save(tmp_path / "ann/c1.png", square())
    with pytest.raises(RatersError, match=words) as caught:
        read_below(tmp_path, **options)
    assert caught.value.kind == "pattern"


@pytest.mark.parametrize("role", ["images", "reference"])
def test_a_pattern_beside_the_masks_that_finds_nothing_says_so(tmp_path: Path, role: str) -> None:
    save(tmp_path / "ann/c1.png", square())
    (tmp_path / "scans").mkdir()
    with pytest.raises(RatersError, match="scans is empty"):
        read_below(tmp_path, "{rater}/{case}.png", **{role: "scans/{case}.png"})


def test_a_folder_of_masks_is_answered_with_its_pattern(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.nii.gz", np.zeros((2, 2, 2), np.uint8))
    with pytest.raises(
        RatersError, match=r"did you mean the pattern '.*\{rater\}/\{case\}.nii.gz'"
    ):
        raters.read(tmp_path)

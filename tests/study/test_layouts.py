"""Layouts of plain folders, by names alone: what is meant is found, and nothing where none is."""

from __future__ import annotations

from itertools import product

import pytest

from raters.study.layouts import find_layouts, is_sure, left_out

RATERS = ("alice", "bob", "carol")
CASES = ("scan_01", "scan_02", "scan_03", "scan_04")


def named(template: str, **values: tuple[str, ...]) -> list[str]:
    """Return a path for each combination of values."""
    return [
        template.format(**dict(zip(values, combination, strict=True)))
        for combination in product(*values.values())
    ]


MASKS = named("{r}/{c}.png", r=RATERS, c=CASES)

KNOWN = [
    pytest.param(MASKS, "{rater}/{case}.png", 3, 4, id="rater folders"),
    pytest.param(
        named("{c}/{r}.nii.gz", c=CASES, r=RATERS), "{case}/{rater}.nii.gz", 3, 4, id="case folders"
    ),
    pytest.param(
        named("{c}_{r}.png", c=CASES, r=RATERS), "{case}_{rater}.png", 3, 4, id="rater at the end"
    ),
    pytest.param(
        named("{r}-{c}.png", c=CASES, r=RATERS), "{rater}-{case}.png", 3, 4, id="rater in front"
    ),
    pytest.param(
        named("{c}_seg_{r}_v2.png", c=CASES, r=RATERS),
        "{case}_seg_{rater}_v2.png",
        3,
        4,
        id="words around the rater",
    ),
    pytest.param(
        named("{c}_{r}.png", c=CASES, r=("1stHO", "2ndHO")),
        "{case}_{rater}.png",
        2,
        4,
        id="1st 2nd",
    ),
    pytest.param(
        named("{c}/{c2}.nii.gz", c=("p1", "p2"), c2=RATERS),
        "{case}/{rater}.nii.gz",
        3,
        2,
        id="more raters than cases",
    ),
    pytest.param(
        named("derivatives/{r}/sub-{c}/anat/sub-{c}_T1w_dseg.nii.gz", r=RATERS, c=("01", "02")),
        "derivatives/{rater}/{case}/anat/{case}_T1w_dseg.nii.gz",
        3,
        2,
        id="BIDS: a derivative per rater",
    ),
    pytest.param(
        named(
            "derivatives/labels/sub-{c}/anat/sub-{c}_T2w_seg-{r}.nii.gz", r=RATERS, c=("01", "02")
        ),
        "derivatives/labels/{case}/anat/{case}_T2w_seg-{rater}.nii.gz",
        3,
        2,
        id="BIDS: the rater in the name",
    ),
    pytest.param(
        named("labelsTr_{r}/{c}.nii.gz", r=RATERS, c=CASES),
        "labelsTr_{rater}/{case}.nii.gz",
        3,
        4,
        id="nnU-Net",
    ),
    pytest.param(
        named("{p}/nodule-{n}/mask-{r}/slice-{c}.png", p=("P1", "P2"), n="01", r="0123", c="012"),
        "{group}/{nodule}/mask-{rater}/{case}.png",
        4,
        12,
        id="LIDC",
    ),
    pytest.param(
        named("{s}/{r}/{c}.png", s=("train", "test"), r=RATERS, c=CASES),
        "{split}/{rater}/{case}.png",
        3,
        8,
        id="splits",
    ),
]


@pytest.mark.parametrize(("files", "pattern", "raters", "cases"), KNOWN)
def test_layouts_that_people_use(files: list[str], pattern: str, raters: int, cases: int) -> None:
    layouts = find_layouts(files)
    assert is_sure(layouts)
    assert (layouts[0].masks, len(layouts[0].raters), layouts[0].cases) == (pattern, raters, cases)
    assert left_out(layouts[0], files) == ""


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(named("{r}/{c}.png", r=("arteries", "veins"), c=CASES), id="structures"),
        pytest.param(named("{r}/{c}.png", r=("train", "test"), c=CASES), id="splits"),
        pytest.param(named("{c}/{r}.nii.gz", r=("t1", "t2", "flair"), c=CASES), id="modalities"),
        pytest.param(named("{r}/{c}.png", r=("fold1", "fold2"), c=CASES), id="folds"),
        pytest.param(named("{c}_slice{r}.png", r=("1", "2", "3"), c=CASES), id="slices"),
        pytest.param(named("{c}_{r}.png", r=("left", "right"), c=CASES), id="sides"),
        pytest.param(named("{c}.png", c=CASES), id="masks of one rater"),
        pytest.param(named("{r}/{c}.png", r=("images", "masks"), c=CASES), id="images and masks"),
        pytest.param([*named("{r}/{c}.png", r=("a", "b"), c=("1",)), "c/2.png"], id="too few"),
        pytest.param(["x/1.png", "x/2.png", "y/3.png", "y/4.png"], id="nothing is shared"),
        pytest.param([], id="nothing"),
    ],
)
def test_what_names_no_raters_is_never_taken(files: list[str]) -> None:
    assert not is_sure(find_layouts(files))


def test_numbered_slots_are_anonymous_and_numbered_raters_are_not() -> None:
    slots = find_layouts(named("{c}/annotation-{r}.png", c=CASES, r="123"))[0]
    people = find_layouts(named("{c}/rater{r}.png", c=CASES, r="123"))[0]
    assert (slots.masks, slots.anonymous) == ("{case}/annotation-{rater}.png", True)
    assert (people.raters, people.anonymous) == (("rater1", "rater2", "rater3"), False)


def test_names_that_say_nothing_are_a_choice_and_no_guess() -> None:
    layouts = find_layouts(named("a{x}/b{y}.png", x="123", y="123"))
    assert {layout.masks for layout in layouts} >= {
        "{rater}/{case}.png",
        "{case}/b{rater}.png",
    } or (len(layouts) > 1)
    assert not is_sure(layouts)


@pytest.mark.parametrize(
    ("images", "pattern"),
    [
        (named("images/{c}.jpg", c=CASES), "images/{case}.jpg"),
        (
            named("imagesTr/{c}_{m}.png", c=CASES, m=("0000", "0001")),
            "imagesTr/{case}_{modality}.png",
        ),
        (named("{c}.jpg", c=CASES), "{case}.jpg"),
        (
            named("raw/{c}/{c}_{m}.nii.gz", c=CASES, m=("t1", "t2")),
            "raw/{case}/{case}_{modality}.nii.gz",
        ),
    ],
)
def test_images_beside_the_masks(images: list[str], pattern: str) -> None:
    found = find_layouts(MASKS + images)[0]
    assert (found.masks, found.images) == ("{rater}/{case}.png", pattern)


@pytest.mark.parametrize("name", ["truth", "gt", "GT", "ground_truth", "reference"])
def test_references_beside_the_masks_by_name(name: str) -> None:
    files = MASKS + named("{f}/{c}.png", f=(name,), c=CASES[:1])
    found = find_layouts(files)[0]
    assert found.raters == RATERS
    assert found.reference == f"{name}/{{case}}.png"


def test_an_image_and_a_reference_in_each_case_folder() -> None:
    files = named("{c}/{f}.png", c=CASES, f=(*RATERS, "image", "gt"))
    found = find_layouts(files)[0]
    assert found.raters == RATERS
    assert (found.images, found.reference) == ("{case}/image.png", "{case}/gt.png")


def test_what_masks_share_in_their_names_is_left_out_where_images_lack_it() -> None:
    files = named("{r}/{c}_outline_x.png", r=RATERS, c=CASES) + named("images/{c}.jpg", c=CASES)
    found = find_layouts(files)[0]
    assert (found.masks, found.images) == ("{rater}/{case}_outline_x.png", "images/{case}.jpg")


@pytest.mark.parametrize("name", ["fusion", "consensus", "STAPLE", "majority"])
def test_what_was_made_from_the_raters_is_no_rater(name: str) -> None:
    files = MASKS + named("{f}/{c}.png", f=(name,), c=CASES)
    found = find_layouts(files)[0]
    assert found.raters == RATERS
    assert left_out(found, files) == f"{name}/ (4 files)"


def test_one_case_is_told_by_its_images() -> None:
    masks = named("P-7/segmentation/{r}-20.nii.gz", r=("nora", "olga"))
    assert not is_sure(find_layouts(masks))
    found = find_layouts(masks + named("P-7/raw/P-7_{m}_x.nii.gz", m=("t1", "t2")))[0]
    assert (found.masks, found.cases) == ("{case}/segmentation/{rater}-20.nii.gz", 1)
    assert found.images == "{case}/raw/{case}_{modality}_x.nii.gz"


def test_raters_who_skipped_many_cases_are_found() -> None:
    files = [
        f"{rater}/s{k}.png" for rater, n in (("ann", 20), ("ben", 12), ("cy", 9)) for k in range(n)
    ]
    found = find_layouts(files)[0]
    assert (found.raters, found.cases) == (("ann", "ben", "cy"), 20)


def test_layouts_do_not_depend_on_the_order_of_files() -> None:
    files = MASKS + named("images/{c}.jpg", c=CASES)
    assert find_layouts(files) == find_layouts(files[::-1])


def test_numbers_of_observers_in_folders_and_files() -> None:
    files = named("{c}_test.tif", c=CASES)
    files = [f"test/images/{name}" for name in files]
    files += named("test/1st_manual/{c}_manual1.gif", c=CASES)
    files += named("test/2nd_manual/{c}_manual2.gif", c=CASES)
    files += named("test/mask/{c}_test_mask.gif", c=CASES)
    found = find_layouts(files)[0]
    assert found.masks == "test/{rater}/{case}_*.gif"
    assert found.images == "test/images/{case}_test.tif"
    assert left_out(found, files) == "test/mask/ (4 files)"

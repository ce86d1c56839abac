"""Round trips: what is written and read again is exact, in both forms and through both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import raters
from raters.core.classes import MISSING, Classes, LabelClass
from raters.core.errors import RatersError
from raters.io.paths import case_path, file_name, from_file_name
from raters.study.study import Study
from raters.study.study_file import read_cases_file
from tests.support.makers import ODD_NAMES, oblique, quick, save, square

trips = settings(quick, max_examples=30, phases=[Phase.explicit, Phase.reuse, Phase.generate])

letters = st.text(st.sampled_from("ab/.% ü<>\\:*?\"|\n\t,;'{}[]-#&!漢\u2028\x85\x7f1"), min_size=1)
names = st.sampled_from(ODD_NAMES) | letters
IMAGE_TYPES = ["u1", "i1", "u2", "i2", "i4", "u4", "f4", "f8"]


def some(draw: st.DrawFn, size: int, of: st.SearchStrategy[Any]) -> list[Any]:
    return draw(st.lists(of, min_size=size, max_size=size, unique=True))


@st.composite
def label_classes(draw: st.DrawFn) -> Classes:
    """Draw two to four classes with any values, some with values that mean the same."""
    near = st.integers(-2, 6) | st.sampled_from([253, 254, 255, 256, 65535, -70000, 2**31, 2**40])
    count = draw(st.integers(2, 4))
    values = some(draw, count + 1, near)
    titles = some(draw, count, names)
    also = (values[-1],) if draw(st.booleans()) else ()
    first, *rest = zip(titles, values[:-1], strict=True)
    return Classes((LabelClass(*first, also=also), *(LabelClass(*item) for item in rest)))


@st.composite
def affines(draw: st.DrawFn, ndim: int) -> Any:
    """Draw a grid that float32 holds, one that it does not, an oblique one, or none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spacing = [*rng.choice([0.5, 1, 3], ndim), 1.0]
    which = draw(st.sampled_from(["none", "exact", "tenths", "oblique"]))
    if which == "none":
        return None
    affine = np.diag(spacing) if which == "exact" else np.diag([0.1, 0.7, 1 / 3, 1.0][-ndim - 1 :])
    affine[:-1, -1] = (
        rng.choice([0, -12.5, 1e4], ndim) if which == "exact" else rng.normal(size=ndim)
    )
    return oblique(rng, ndim) if which == "oblique" else affine


@st.composite
def mask_studies(draw: st.DrawFn, one_shape: bool = False) -> Study:
    """Draw any study of masks."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ndim = draw(st.sampled_from([2, 3]))
    count = draw(st.integers(1, 4))
    rater_count = draw(st.integers(1, 3))
    shape = tuple(rng.integers(1, 6, ndim))
    shapes = [shape if one_shape else tuple(rng.integers(1, 6, ndim)) for _ in range(count)]
    classes = draw(label_classes())
    low = draw(st.sampled_from([-1, 0]))
    labels = [rng.integers(low, len(classes), (rater_count, *s)) for s in shapes]
    for masks in labels:
        masks[rng.random(rater_count) < 0.3] = MISSING
    channels = draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from(IMAGE_TYPES)))
    images = [_image(rng, (channels, *s), dtype) for s in shapes]
    share = draw(st.sampled_from([0.0, 0.5, 1.0]))
    images = [image if rng.random() < share else None for image in images]
    truth = [rng.integers(-1, len(classes), s) if rng.random() < 0.5 else None for s in shapes]
    return Study.from_arrays(
        images=images,
        labels=labels,
        reference=truth if draw(st.booleans()) else None,
        raters=some(draw, rater_count, names),
        classes=classes,
        groups=[draw(names) for _ in shapes],
        cases=some(draw, count, names),
        splits=[draw(st.just("") | names) for _ in shapes],
        affines=[draw(affines(ndim)) for _ in shapes],
        channels=some(draw, channels, names) if draw(st.booleans()) else (),
        about=draw(
            st.dictionaries(
                names,
                st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"])),
                max_size=2,
            )
        ),
    )


def _image(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


@st.composite
def table_studies(draw: st.DrawFn) -> Study:
    """Draw any table: labels that are words or numbers, features, images or neither."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tasks, rater_count, count = (draw(st.integers(1, n)) for n in (5, 3, 3))
    words: Any = names if draw(st.booleans()) else st.integers(-5, 300)
    values = some(draw, count, words)
    titles = some(draw, count, names)
    dtype = np.dtype(draw(st.sampled_from(IMAGE_TYPES)))
    shape = {"features": (4,), "images": (draw(st.integers(1, 3)), 3, 4), "none": None}[
        draw(st.sampled_from(["features", "images", "none"]))
    ]
    images = None
    if shape is not None:
        images = [_image(rng, shape, dtype) if rng.random() < 0.8 else None for _ in range(tasks)]
    return Study.from_arrays(
        images=images,
        labels=rng.integers(-1, count, (tasks, rater_count)),
        reference=rng.integers(-1, count, tasks) if draw(st.booleans()) else None,
        raters=some(draw, rater_count, names),
        classes=Classes(tuple(map(LabelClass, titles, values))),
        groups=[draw(names) for _ in range(tasks)],
        cases=some(draw, tasks, names),
        splits=[draw(st.just("") | names) for _ in range(tasks)],
        about=draw(st.dictionaries(names, names, max_size=2)),
    )


def assert_same(found: Study, expected: Study) -> None:
    """Hold two studies to being the same in all that a user can ask for."""
    assert not found.problems
    for what in ("kind", "raters", "cases", "channels", "about", "classes"):
        assert getattr(found, what) == getattr(expected, what), what
    assert [(c.group, c.split) for c in found] == [(c.group, c.split) for c in expected]
    for one, other in zip(found, expected, strict=True):
        if found.kind == "classification":
            assert one.answers.label.dtype == other.answers.label.dtype == np.int16
            assert list(one.answers) == list(other.answers)
        else:
            assert one.labels.dtype == other.labels.dtype == np.int16
            assert np.array_equal(one.labels, other.labels)
        assert_same_array(one.image, other.image)
        assert_same_array(one.reference, other.reference)
        assert one.geometry == other.geometry
    if found.kind == "classification":
        assert found.triplets == expected.triplets


def assert_same_array(found: Any, expected: Any) -> None:
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


@pytest.mark.slow
@trips
@given(mask_studies())
def test_masks_through_the_canonical_form(
    tmp_path_factory: pytest.TempPathFactory, study: Study
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    assert_same(study.write(folder / "study"), study)
    assert_same(raters.read(folder / "study"), study)
    assert {p.name for p in folder.iterdir()} == {"study"}  # no name left its folder


@pytest.mark.slow
@trips
@given(mask_studies(one_shape=True))
def test_masks_through_packed_canonical_and_packed(
    tmp_path_factory: pytest.TempPathFactory, study: Study
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    packed = study.write(folder / "packed", "packed")
    assert_same(packed, study)
    canonical = packed.write(folder / "canonical")
    assert_same(canonical, study)
    assert_same(canonical.write(folder / "again", "packed"), study)


@pytest.mark.slow
@trips
@given(table_studies())
def test_tables_through_both_forms(tmp_path_factory: pytest.TempPathFactory, study: Study) -> None:
    folder = tmp_path_factory.mktemp("trip")
    canonical = study.write(folder / "canonical")
    assert_same(canonical, study)
    packed = canonical.write(folder / "packed", "packed")
    assert_same(packed, study)
    assert_same(packed.write(folder / "again"), study)


@pytest.mark.slow
@trips
@given(mask_studies(), st.data())
def test_a_selection_is_written_as_it_is_seen(
    tmp_path_factory: pytest.TempPathFactory, study: Study, data: st.DataObject
) -> None:
    chosen = study.select(
        raters=data.draw(st.lists(st.sampled_from(study.raters), min_size=1)),
        classes=data.draw(st.lists(st.sampled_from(study.classes.names), min_size=1)),
    )
    assert_same(chosen.write(tmp_path_factory.mktemp("trip") / "study"), chosen)


@quick
@given(st.lists(names, min_size=2, max_size=6, unique=True))
def test_names_never_share_a_file_nor_leave_their_folder(several: list[str]) -> None:
    assert [from_file_name(file_name(name)) for name in several] == several
    assert len({Path(case_path(name)) for name in several}) == len(several)
    for name in several:
        assert "/" not in file_name(name)
        assert not file_name(name).startswith(".")
        parts = case_path(name).split("/")
        assert all(parts)
        assert not {".", ".."} & set(parts)
        assert "/".join(map(from_file_name, parts)) == name


@pytest.mark.parametrize("suffix", [".nii.gz", ".nii", ".mha", ".nrrd", ".png", ".tif", ".npy"])
@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_files_of_every_kind_through_both_forms(tmp_path: Path, suffix: str, form: str) -> None:
    rng = np.random.default_rng(0)
    shape = (6, 5) if suffix in (".png", ".tif") else (6, 5, 4)
    affine = oblique(rng) if suffix in (".nii.gz", ".nii", ".mha", ".nrrd") else None
    for k in range(3):
        for rater in ("ann", "bob", "truth"):
            if (k, rater) not in ((1, "bob"), (2, "truth")):
                mask = rng.choice([0, 2, 9, 200], shape).astype(np.uint8)
                save(tmp_path / f"{rater}/c{k}{suffix}", mask, affine)
        image = rng.integers(0, 60000, shape).astype(np.uint16)
        save(tmp_path / f"images/c{k}{suffix}", image, affine)
    study = raters.read(
        str(tmp_path / f"{{rater}}/{{case}}{suffix}"),
        images=str(tmp_path / f"images/{{case}}{suffix}"),
        reference=str(tmp_path / f"truth/{{case}}{suffix}"),
        ignore=200,
    )
    assert study.raters == ("ann", "bob")
    assert study.classes.values == (0, 2, 9)
    assert (study["c0"].labels == MISSING).any()
    assert (study["c1"].labels[1] == MISSING).all()
    assert_same(study.write(tmp_path / "study", form), study)


def test_an_ignored_value_that_is_a_class_elsewhere(tmp_path: Path) -> None:
    """In files of one class 2 means 'not labelled'; in the study 2 is the second class."""
    for name, corner in (("cup", 0), ("disc", 2)):
        mask = square(corner=corner)
        mask[0, 3] = 2
        save(tmp_path / f"ann/c1_{name}.png", mask)
    study = raters.read(str(tmp_path / "{rater}/{case}_{class}.png"), ignore=2)
    assert sorted(np.unique(study["c1"].labels)) == [-1, 0, 1, 2]
    assert_same(study.write(tmp_path / "study"), study)


def test_a_case_of_which_nothing_is_known_keeps_its_grid(tmp_path: Path) -> None:
    labels = np.full((1, 2, 3, 4, 5), MISSING)
    study = Study.from_arrays(labels=labels, affines=[np.diag([0.1, 1, 1, 1])])
    again = study.write(tmp_path / "study")
    assert_same(again, study)
    assert again[0].geometry.shape == (3, 4, 5)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 2), (4, 3), (4, 3, 2), (3, 4, 5)])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_images_tell_their_channels_without_any_mask(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], channels: int
) -> None:
    image = np.arange(channels * np.prod(shape), dtype=dtype).reshape(1, channels, *shape)
    unlabelled = Study.from_arrays(images=image, labels=np.full((1, 2, *shape), MISSING))
    assert_same(unlabelled.write(tmp_path / "masks"), unlabelled)
    table = Study.from_arrays(images=image, labels=np.array([[0, 1]]))
    assert_same(table.write(tmp_path / "table"), table)


@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_writing_other_arrays_to_the_same_folder_is_seen(tmp_path: Path, form: str) -> None:
    """Arrays have no names and times: only what they hold tells that they changed."""
    labels = np.random.default_rng(0).integers(-1, 2, (3, 2, 4, 4))
    Study.from_arrays(labels=labels).write(tmp_path / "study", form)
    labels[1] = 1 - np.abs(labels[1])
    other = Study.from_arrays(labels=labels)
    assert_same(other.write(tmp_path / "study", form), other)


def test_a_mask_that_vanished_or_changed_vanishes_from_the_study(tmp_path: Path) -> None:
    """An import that is resumed after the source changed leaves nothing of the old source."""
    for rater in ("ann", "bob"):
        for case in ("c1", "c2"):
            save(tmp_path / f"masks/{rater}/{case}.png", square())
            save(tmp_path / f"images/{case}.npy", np.zeros((1, 4, 4), np.float32))
    pattern = str(tmp_path / "masks/{rater}/{case}.png")
    images = str(tmp_path / "images/{case}.npy")
    raters.read(pattern, images=images).write(tmp_path / "study")
    (tmp_path / "masks/bob/c2.png").unlink()
    save(tmp_path / "images/c2.npy", np.full((1, 4, 4), 9, np.uint8))  # now kept as a PNG
    study = raters.read(pattern, images=images)
    assert_same(study.write(tmp_path / "study"), study)
    assert (raters.read(tmp_path / "study")["c2"].labels[1] == MISSING).all()


def test_other_rules_for_the_same_files_are_another_import(tmp_path: Path) -> None:
    save(tmp_path / "ann/c1.npy", np.array([[0.2, 0.6, 0.9]]))
    pattern = str(tmp_path / "{rater}/{case}.npy")
    raters.read(pattern, threshold=0.5, values="0,1").write(tmp_path / "study")
    cut = raters.read(pattern, threshold=0.8, values="0,1")
    with pytest.raises(RatersError, match=r"holds other work.*--overwrite"):
        cut.write(tmp_path / "study")
    assert_same(cut.write(tmp_path / "study", overwrite=True), cut)


@pytest.mark.parametrize("kind", ["masks", "table"])
def test_further_columns_of_cases_stay(tmp_path: Path, kind: str) -> None:
    """Dates of readings, say; columns of the form itself are those of the new one."""
    labels = np.zeros((3, 2, 4, 5), int) if kind == "masks" else np.array([[0, 1], [1, 1], [0, 0]])
    reference = labels[:, 0]
    study = Study.from_arrays(labels=labels, reference=reference, cases=list("abc"))
    study.write(tmp_path / "one", form="packed")
    path = tmp_path / "one/cases.csv"
    head, *lines = path.read_text().splitlines()
    dates = ["2024-05-31", "2024-06-01", "2024-06-02"]
    dated = [f"{line},{date},{date[:7]}\n" for line, date in zip(lines, dates, strict=True)]
    path.write_text("".join([f"{head},date,folder\n", *dated]))
    again = raters.read(tmp_path / "one").select(cases=["c", "a"])
    again.write(tmp_path / "two", form="canonical")
    index, columns = read_cases_file(tmp_path / "two")
    assert dict(zip(index.ids, columns["date"], strict=True)) == {"a": dates[0], "c": dates[2]}
    assert set(columns["folder"]) == {"2024-05", "2024-06"}  # any name will do
    assert set(columns) <= {"date", "folder", "row", "reference"}
    assert raters.read(tmp_path / "two").cases == again.cases


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    from raters.study.write import import_study

    labels = np.zeros((3, 1, 4, 4), int)
    study = Study.from_arrays(labels=labels, raters=["line\u2028separator"])
    import_study(study, tmp_path / "study")
    result = import_study(study, tmp_path / "study")
    assert (result.written, result.skipped) == (0, 3)
    assert_same(raters.read(tmp_path / "study"), study)


def test_the_packed_form_refuses_two_shapes(tmp_path: Path) -> None:
    study = Study.from_arrays(labels=[np.zeros((1, 2, 2), int), np.zeros((1, 3, 2), int)])
    with pytest.raises(RatersError, match="the packed form needs one shape") as caught:
        study.write(tmp_path / "study", "packed")
    assert caught.value.case in ("0", "1")


def test_more_classes_than_a_byte_counts(tmp_path: Path) -> None:
    labels = np.arange(300).reshape(1, 1, 15, 20)
    study = Study.from_arrays(labels=labels)
    for form in ("canonical", "packed"):
        assert_same(study.write(tmp_path / form, form), study)


@pytest.mark.parametrize("name", ["labels", "reference"])
@pytest.mark.parametrize("value", [np.nan, 1.5])
def test_packed_classes_are_whole_numbers(tmp_path: Path, name: str, value: float) -> None:
    study = Study.from_arrays(labels=np.ones((2, 2, 4, 4), int), reference=np.ones((2, 4, 4), int))
    study.write(tmp_path / "packed", "packed")
    path = tmp_path / "packed" / f"{name}.npy"
    np.save(path, np.full(np.load(path).shape, value))
    with pytest.raises(RatersError, match=r"type float64, expected whole numbers") as caught:
        raters.read(tmp_path / "packed")
    assert caught.value.file == str(path)

"""Training data: statistics, patches, augmentation, items and batches against plain numpy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from raters import read
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.learning.networks import normalise
from raters.learning.networks.normalise import Normalisation, fit_normalisation
from raters.learning.training.dataset import CaseDataset, Item, collate
from raters.learning.training.loader import EpochSampler, loader, set_epoch
from raters.learning.training.patches import (
    AUGMENTATIONS,
    augmentation_of,
    cut,
    flip,
    foreground_positions,
    full,
    random_corner,
    tile_corners,
)
from raters.study.backend import ArraysBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study
from raters.study.triplets import TableBackend, Triplets
from tests.support.learning import equal_items
from tests.support.makers import few, quick, save

RAW = Normalisation("none")
SEEDS = st.integers(0, 10**6)
SIDES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3)


def make_position_study(shape: tuple[int, ...] = (12, 10), cases: int = 6, **more: Any) -> Study:
    """Make images whose pixels say where they are, and labels by 3 raters that follow them."""
    size = int(np.prod(shape))
    pixels = np.arange(cases * size, dtype=np.float64).reshape(cases, 1, *shape)
    labels = np.concatenate([(pixels % 7 == r).astype(int) for r in range(3)], axis=1)
    labels[0, 1] = -1
    return Study.from_arrays(np.concatenate([pixels, -pixels], axis=1), labels, **more)


def make_table_study(images: Any, reference: Any = None) -> Study:
    """Make a table in which ann answers the first task twice and nobody the last."""
    names = [f"t{k}" for k in range(len(images))]
    answers = ([0, 0, 0, 1], [0, 0, 2, 1], [1, 0, 2, 2])
    task, rater, label = (np.array(column, np.int32) for column in answers)
    who = ("ann", "bob", "cy")
    triplets = Triplets(
        task, rater, label.astype(np.int16), np.array(names, object), who, (0, 1, 2)
    )
    backend = TableBackend(triplets, ArraysBackend([], None, images), reference)
    classes = Classes.of(["x", "y", "z"])
    return Study(backend, CaseIndex.of(names), who, "classification", _classes=classes)


# Normalisation


@few
@given(SEEDS, st.floats(-1e6, 1e6), st.integers(1, 6))
def test_streamed_statistics_equal_numpy(seed: int, offset: float, cases: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [(2, *rng.integers(1, 6, 2)) for _ in range(cases)]
    images = [rng.normal(offset, 3, shape) for shape in shapes]
    study = Study.from_arrays(images, [np.zeros((1, *shape[1:]), int) for shape in shapes])
    found = fit_normalisation(study, "study")
    pixels = np.concatenate([image.reshape(2, -1) for image in images], axis=1)
    np.testing.assert_allclose(found.mean, pixels.mean(axis=1), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found.std, pixels.std(axis=1), rtol=1e-7, atol=1e-9)


def test_auto_looks_at_what_numbers_mean() -> None:
    labels = np.zeros((2, 1, 3, 3), int)
    images = np.arange(18).reshape(2, 1, 3, 3)
    assert fit_normalisation(Study.from_arrays(images.astype(np.uint8), labels)).mode == "study"
    assert fit_normalisation(Study.from_arrays(images.astype(np.int16), labels)).mode == "case"
    assert fit_normalisation(make_table_study(np.ones((2, 4)))).mode == "study"


def test_features_are_all_read_and_images_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalise, "SAMPLE", 3)
    features = np.zeros((9, 2))
    features[4, 1] = 9  # one rare value that a sample of the cases 0, 4, 8 or 0, 3, 8 may miss
    features[5, 0] = 9
    assert fit_normalisation(make_table_study(features)).mean == (1.0, 1.0)
    images = np.arange(9, dtype=np.uint8).reshape(9, 1, 1, 1)
    sampled = fit_normalisation(Study.from_arrays(images, np.zeros((9, 1, 1, 1), int)))
    assert sampled.mean == (4.0,)
    assert sampled.std == pytest.approx((np.std([0, 4, 8]),))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
def test_case_mode_and_constant_channels(dtype: type) -> None:
    image = np.stack([np.arange(12).reshape(3, 4), np.full((3, 4), 0.1) * 1000]).astype(dtype)
    result = Normalisation("case")(image)
    assert result.dtype == np.float32
    assert result[0].mean() == pytest.approx(0, abs=1e-6)
    assert result[0].std() == pytest.approx(1, abs=1e-6)
    assert not result[1].any()
    assert not Normalisation("study", (0.0, 3.0), (1.0, 0.0))(image)[1].any()


def test_rounding_is_no_contrast() -> None:
    sizes = [n for n in range(2, 50) if np.full(n, 0.1).std() > 0]
    assert sizes  # numpy's own mean of equal numbers is off by a bit
    for n in sizes:
        assert not Normalisation("case")(np.full((1, n), 0.1)).any()


def test_large_offsets_keep_their_contrast() -> None:
    image = 1e9 + np.array([[0.0, 1.0, 2.0]])
    np.testing.assert_allclose(Normalisation("case")(image), [[-1.2247449, 0, 1.2247449]])


@pytest.mark.parametrize("mode", ["study", "case", "none"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_counted(mode: Any, bad: float) -> None:
    images = np.ones((2, 2, 3, 3))
    images[1, 1, 0, :2] = bad
    study = Study.from_arrays(images, np.zeros((2, 1, 3, 3), int), cases=["good", "bad"])
    with pytest.raises(RatersError, match=r"found 2 values in channel 1 .*case 'bad'") as caught:
        normalisation = fit_normalisation(study, mode)
        CaseDataset(study, normalisation, patch_size=None)[1]
    assert caught.value.case == "bad"


def test_too_large_for_float32() -> None:
    with pytest.raises(RatersError, match="found 1 value in feature 1"):
        RAW(np.array([1.0, 1e300]))


def test_normalisation_through_yaml() -> None:
    found = fit_normalisation(make_position_study(), "study")
    assert Normalisation.from_dict(yaml.safe_load(yaml.safe_dump(found.to_dict()))) == found
    with pytest.raises(RatersError, match="2 means and 1 standard"):
        Normalisation.from_dict({"mode": "study", "mean": [1, 2], "std": [1]})
    with pytest.raises(RatersError, match="'z-score'"):
        fit_normalisation(make_position_study(), "z-score")  # type: ignore[arg-type]
    with pytest.raises(RatersError, match="found 3 channels, expected 2"):
        found(np.ones((3, 4, 4)))


# Patches


@quick
@given(SIDES)
def test_tiles_cover_each_pixel_once(sides: list[tuple[int, int]]) -> None:
    shape, patch = zip(*sides, strict=True)
    seen = np.zeros(shape, int)
    for corner in tile_corners(shape, patch):
        inside = tuple(slice(c, c + p) for c, p in zip(corner, patch, strict=True))
        seen[inside] += 1
    assert (seen == 1).all()


@quick
@given(SIDES, SEEDS)
def test_cut_equals_padding_first(sides: list[tuple[int, int]], seed: int) -> None:
    shape, patch = zip(*sides, strict=True)
    rng = np.random.default_rng(seed)
    array = rng.integers(0, 100, (2, *shape))
    corner = tuple(int(rng.integers(side)) for side in shape)
    padded = np.pad(array, [(0, 0), *((0, p) for p in patch)], constant_values=-1)
    inside = tuple(slice(c, c + p) for c, p in zip(corner, patch, strict=True))
    np.testing.assert_array_equal(cut(array, corner, patch, -1), padded[(slice(None), *inside)])


@quick
@given(SIDES, SEEDS, st.floats(0, 1))
def test_random_corners_lie_inside(sides: list[tuple[int, int]], seed: int, share: float) -> None:
    shape, patch = zip(*sides, strict=True)
    rng = np.random.default_rng(seed)
    corner = random_corner(rng, rng.random(shape) < 0.3, shape, patch, share)
    for start, side, size in zip(corner, shape, patch, strict=True):
        assert 0 <= start <= max(side - size, 0)


def test_patches_look_at_foreground_as_often_as_asked() -> None:
    mask = np.zeros((200, 200), bool)
    mask[120, 80] = True
    rng = np.random.default_rng(0)
    for share in (0.0, 0.5, 1.0):
        corners = [random_corner(rng, mask, mask.shape, (5, 5), share) for _ in range(400)]
        centred = np.mean([corner == (118, 78) for corner in corners])
        assert centred == pytest.approx(share, abs=0.1)
    assert len({random_corner(rng, mask & False, mask.shape, (5, 5), 1.0) for _ in range(50)}) > 40


def test_uniform_corners_reach_both_ends() -> None:
    rng = np.random.default_rng(0)
    assert {random_corner(rng, None, (6,), (4,)) for _ in range(100)} == {(0,), (1,), (2,)}


def test_foreground_positions() -> None:
    labels = np.array([[[0, -1], [0, 0]], [[0, -1], [2, 0]]])
    assert foreground_positions(labels).tolist() == [2]
    many = foreground_positions(np.ones((1, 50, 50), int), most=10)
    assert len(set(many.tolist())) == 10
    assert (many[0], many[-1]) == (0, 2499)


# Augmentation


@few
@given(SEEDS, st.sampled_from([(8, 8), (6, 9), (5, 5, 3), (4, 6, 5), (7,)]))
def test_flips_keep_image_and_labels_together(seed: int, shape: tuple[int, ...]) -> None:
    image = np.arange(2 * np.prod(shape), dtype=np.float32).reshape(2, *shape)
    soft = np.stack([image[1], image[0]])
    changed, (labels, plain, moved) = flip(
        image, [image.astype(int), image[0].astype(int), soft], np.random.default_rng(seed)
    )
    assert changed.shape == image.shape
    np.testing.assert_array_equal(changed, labels)
    np.testing.assert_array_equal(changed[0], plain)
    np.testing.assert_array_equal(changed[::-1], moved)
    assert sorted(changed.ravel()) == sorted(image.ravel())


def test_flips_reach_all_symmetries() -> None:
    square = np.arange(4.0).reshape(1, 2, 2)
    oblong = np.arange(6.0).reshape(1, 2, 3)
    for image, symmetries in ((square, 8), (oblong, 4)):
        rng = np.random.default_rng(0)
        found = {flip(image.astype(np.float32), [], rng)[0].tobytes() for _ in range(200)}
        assert len(found) == symmetries


@pytest.fixture
def choose_changes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make only some changes of 'full', and those always."""

    def choose(*names: str) -> None:
        monkeypatch.setattr("raters.learning.training.patches.OFTEN", dict.fromkeys(names, 1.0))

    return choose


@pytest.mark.parametrize("shape", [(40, 40), (30, 44), (24, 24, 10)])
def test_affine_keeps_image_and_labels_together(
    shape: tuple[int, ...], choose_changes: Any
) -> None:
    """Pixels that hold their own coordinates: linear interpolation gives where each came from."""
    choose_changes("affine")
    places = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"))
    image = places.astype(np.float32)
    labels = places.astype(np.int8)
    soft = np.stack([places[0] % 2, 1 - places[0] % 2]).astype(np.float32)
    beyond = 0
    for seed in range(6):
        source, (moved, soft_moved) = full(image, [labels, soft], np.random.default_rng(seed))
        known = (moved >= 0).all(axis=0)
        assert moved.dtype == np.int8
        assert (moved[:, ~known] == -1).all()
        np.testing.assert_array_equal(soft_moved.sum(axis=0), known)
        np.testing.assert_array_equal(soft_moved[0][known], moved[0][known] % 2)
        last = np.array(shape).reshape(-1, *[1] * len(shape)) - 1
        inner = ((moved > 0) & (moved < last)).all(axis=0)  # the rim is mixed with what is beyond
        difference = np.abs(source - moved)[:, inner]
        assert difference.max() < 0.501
        assert difference.mean() > 0.1  # the grid is turned or scaled, not only flipped
        beyond += int((~known).sum())
    assert beyond > 0


def test_affine_in_3d_keeps_slices(choose_changes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_changes("affine")
    monkeypatch.setattr("raters.learning.training.patches.flip", AUGMENTATIONS["none"])
    image = np.broadcast_to(np.arange(9, dtype=np.float32), (1, 20, 20, 9)).copy()
    image, _ = full(image, [], np.random.default_rng(0))
    middle = image[0, 5:15, 5:15]
    np.testing.assert_allclose(middle, np.broadcast_to(middle[0, 0], middle.shape), atol=1e-4)


@pytest.mark.parametrize("name", ["noise", "gamma", "contrast", "brightness"])
def test_intensities_change_and_labels_do_not(name: str, choose_changes: Any) -> None:
    choose_changes(name)
    image = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)
    image.setflags(write=False)
    changed, (plain, labels) = full(image, [image[0], image.astype(int)], np.random.default_rng(5))
    np.testing.assert_array_equal(plain.astype(int), labels[0])
    assert changed.dtype == np.float32
    difference = np.abs(changed[0] - plain)
    assert 0 < difference.max() < 2
    assert np.corrcoef(changed[0].ravel(), plain.ravel())[0, 1] > 0.9


def test_full_leaves_the_settings_of_torch_and_monai() -> None:
    from monai.data.meta_obj import get_track_meta, set_track_meta

    set_track_meta(True)
    before = torch.get_num_threads(), get_track_meta()
    torch.manual_seed(3)
    state = torch.get_rng_state()
    image = np.ones((1, 8, 8), np.float32)
    for seed in range(20):
        full(image, [], np.random.default_rng(seed))
    assert (torch.get_num_threads(), get_track_meta()) == before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [("flip", 0, "feature vectors"), ("full", 1, "expected 2 or 3"), ("spin", 2, "none, flip")],
)
def test_augmentations_that_do_not_fit(name: str, axes: int, message: str) -> None:
    with pytest.raises(RatersError, match=message):
        augmentation_of(name, axes)


# Items


def test_whole_images() -> None:
    study = make_position_study()
    data = CaseDataset(study, RAW, patch_size=None, patches_per_case=3)
    assert len(data) == 6
    for k, case in enumerate(study):
        item = data[k]
        np.testing.assert_array_equal(item["image"], case.image)
        np.testing.assert_array_equal(item["labels"], case.labels)
        assert item["case"] == k
        assert item.keys() == {"image", "labels", "case"}
    assert equal_items(data[-1], data[5])
    with pytest.raises(IndexError):
        data[6]


@pytest.mark.parametrize("augment", ["none", "flip", "full"])
def test_items_depend_on_seed_epoch_and_number_only(augment: str) -> None:
    study = make_position_study()

    def items(seed: int, epoch: int, order: Any = range(12), **more: Any) -> list[Item]:
        data = CaseDataset(
            study, RAW, patch_size=(5, 5), augment=augment, seed=seed, patches_per_case=2, **more
        )
        data.set_epoch(epoch)
        found = {k: data[k] for k in order}
        return [found[k] for k in range(12)]

    first = items(3, 1)
    backwards = items(3, 1, reversed(range(12)), cache_bytes=0)
    assert all(map(equal_items, first, backwards))
    for other in (items(3, 2), items(4, 1)):
        assert sum(map(equal_items, first, other)) < 6


def test_random_patches_are_where_they_say() -> None:
    study = make_position_study()
    data = CaseDataset(study, RAW, patch_size=(5, 14), patches_per_case=2)
    assert len(data) == 12
    for k in range(12):
        position, corner = data.place(k)
        assert position == k // 2 == data[k]["case"]
        assert corner is not None
        assert corner[1] == 0  # the image has 10 columns only
        item = data[k]
        rows = slice(corner[0], corner[0] + 5)
        case = study[position]
        assert case.image is not None
        assert item["image"].shape == (2, 5, 14)
        np.testing.assert_array_equal(item["image"][..., :10], case.image[:, rows])
        np.testing.assert_array_equal(item["labels"][..., :10], case.labels[:, rows])
        assert not item["image"][..., 10:].any()
        assert (item["labels"][..., 10:] == -1).all()


def test_tiles_put_every_case_together_again() -> None:
    shapes = [(7, 5), (4, 9), (3, 3)]
    images = [np.arange(np.prod(s), dtype=float).reshape(1, *s) for s in shapes]
    labels = [np.stack([im[0] % 3, im[0] % 2]).astype(int) for im in images]
    study = Study.from_arrays(images, labels, [None, labels[1][0], None])
    soft = [np.stack([la[0] == c for c in range(3)]).astype(float) for la in labels]
    data = CaseDataset(
        study, RAW, patch_size=(4, 4), mode="tiles", targets=lambda c: soft[int(c.id)]
    )
    assert len(data) == 4 + 3 + 1
    count = [0.0] * 3
    for k in range(len(data)):
        item = data[k]
        position, corner = data.place(k)
        assert corner is not None
        known = item["labels"][0] >= 0
        inside = tuple(slice(c, c + 4) for c in corner)
        np.testing.assert_array_equal(
            item["labels"][:, known].ravel(), labels[position][(slice(None), *inside)].ravel()
        )
        np.testing.assert_array_equal(item["target"].sum(axis=0), known)
        np.testing.assert_array_equal(
            item["target"].argmax(axis=0)[known], item["labels"][0][known]
        )
        reference = item["labels"][0] if position == 1 else np.full((4, 4), -1)
        np.testing.assert_array_equal(item["reference"], reference)
        count[position] += item["image"].sum()
    assert count == [image.sum() for image in images]


def test_tiles_read_headers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(3):
        save(tmp_path / f"images/c{k}.nii.gz", np.ones((6, 5 + k, 4), np.float32))
        save(tmp_path / f"masks/ann/c{k}.nii.gz", np.ones((6, 5 + k, 4), np.uint8))
    masks = f"{tmp_path}/masks/{{rater}}/{{case}}.nii.gz"
    images = f"{tmp_path}/images/{{case}}.nii.gz"
    study = read(masks, images=images)
    read_from: list[str] = []
    original = type(study.backend).image

    def spy(self: Any, case: int, ndim: int | None) -> Any:
        read_from.append(str(case))
        return original(self, case, ndim)

    monkeypatch.setattr(type(study.backend), "image", spy)
    data = CaseDataset(study, RAW, patch_size=(4, 4, 4), mode="tiles")
    assert len(data) == 3 * 4
    assert set(read_from) == {"0"}
    assert data[11]["image"].shape == (1, 4, 4, 4)


def test_hard_targets_are_cut_and_flipped_along() -> None:
    study = make_position_study()
    data = CaseDataset(
        study, RAW, patch_size=(5, 14), augment="flip", targets=lambda case: case.labels[2]
    )
    for k in range(6):
        np.testing.assert_array_equal(data[k]["target"], data[k]["labels"][2])


@pytest.mark.parametrize("target", [np.zeros((12, 9), int), np.zeros((3, 12, 10))])
def test_targets_of_another_shape(target: NDArray[Any]) -> None:
    good = np.zeros((12, 10), int)
    targets = lambda case: target if case.id == "2" else good  # noqa: E731
    data = CaseDataset(make_position_study(), RAW, patch_size=None, targets=targets)
    with pytest.raises(RatersError, match=re.escape(f"{target.shape} for case '2', expected")):
        data[2]


def test_tables_with_features() -> None:
    features = np.arange(8.0).reshape(4, 2)
    data = CaseDataset(
        make_table_study(features, np.array([1, -1, 0, 2], np.int16)),
        RAW,
        patch_size=None,
        mode="tiles",
        targets=lambda case: np.eye(3)[int(case.id[1:]) % 3],
    )
    assert data[0]["labels"].tolist() == [1, 0, 2]
    assert data[0]["raters"].tolist() == [0, 0, 2]
    batch = collate([data[k] for k in range(4)])
    assert batch["image"].tolist() == features.tolist()
    assert batch["labels"].tolist() == [[1, 0, 2], [2, -1, -1], [-1] * 3, [-1] * 3]
    assert batch["raters"].tolist() == [[0, 0, 2], [1, 0, 0], [0] * 3, [0] * 3]
    assert batch["reference"].tolist() == [1, -1, 0, 2]
    assert batch["target"].shape == (4, 3)
    assert collate([data[3]])["labels"].tolist() == [[-1]]  # no answers, yet no empty axis


def test_tables_with_images_are_augmented() -> None:
    images = np.random.default_rng(0).normal(size=(4, 1, 6, 6))
    data = CaseDataset(make_table_study(images), RAW, patch_size=None, augment="full")
    plain = CaseDataset(make_table_study(images), RAW, patch_size=None)
    assert data[0]["labels"].tolist() == [1, 0, 2]
    assert any(not np.array_equal(data[k]["image"], plain[k]["image"]) for k in range(4))
    assert {data[k]["image"].shape for k in range(4)} == {(1, 6, 6)}


def test_references_are_read_for_scores_only() -> None:
    labels = np.zeros((3, 2, 4, 4), int)
    study = Study.from_arrays(np.ones((3, 1, 4, 4)), labels, reference=labels[:, 0])
    assert "reference" not in CaseDataset(study, RAW, patch_size=None)[0]
    assert "reference" in CaseDataset(study, RAW, patch_size=None, mode="tiles")[0]


@pytest.mark.parametrize("mode", ["none", "study", "case"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_patches_are_cut_from_the_normalised_image(mode: Any, dtype: type) -> None:
    """Also where it is kept as it was in the file, and normalised a patch at a time."""
    images: NDArray[Any] = np.random.default_rng(0).integers(0, 200, (2, 2, 9, 7)).astype(dtype)
    study = Study.from_arrays(images, np.ones((2, 1, 9, 7), int))
    normalisation = fit_normalisation(study, mode)
    data = CaseDataset(study, normalisation, patch_size=(4, 9), mode="tiles")
    for k in range(len(data)):
        position, corner = data.place(k)
        assert corner is not None
        whole = np.pad(normalisation(images[position]), [(0, 0), (0, 9), (0, 9)])
        expected = whole[:, corner[0] : corner[0] + 4, :9]
        assert np.array_equal(data[k]["image"], expected)
        assert data[k]["image"].dtype == np.float32
    assert data.cases(0).image.dtype == (dtype if np.dtype(dtype).itemsize < 4 else np.float32)
    assert images.flags.writeable


def test_cache_keeps_to_its_bytes_and_is_not_written_to() -> None:
    study = make_position_study()
    one = 2 * 120 * 4 + 3 * 120  # a float32 image of two channels, int8 labels by three raters
    data = CaseDataset(study, RAW, patch_size=None, cache_bytes=2 * one + 1)
    for k in range(6):
        data[k]
    assert data.cases.kept == 2
    with pytest.raises(ValueError, match="read-only"):
        data[0]["image"][:] = 0
    assert not data.cases.fits
    rest = CaseDataset(study, RAW, patch_size=None, cache_bytes=6 * one)
    assert rest.cases.fits
    assert all(equal_items(data[k], rest[k]) for k in range(6))
    assert rest.cases.kept == 6


def test_a_selection_counts_its_own_cases() -> None:
    study = make_position_study().select(cases=["4", "2"], raters=["1"])
    data = CaseDataset(study, RAW, patch_size=(20, 20), mode="tiles")
    assert [data[k]["case"] for k in range(len(data))] == [0, 1]
    assert data[1]["image"][0, 0, 0] == 4 * 120
    assert data[1]["labels"].shape == (1, 20, 20)


# Batches


def test_collate_fills_up_to_the_largest() -> None:
    images = [np.ones((1, 2, 5)), np.ones((1, 4, 3))]
    labels = [np.zeros((2, *im.shape[1:]), int) for im in images]
    study = Study.from_arrays(images, labels, [la[0] for la in labels], classes=["no", "yes"])
    for soft in (True, False):
        data = CaseDataset(
            study,
            RAW,
            patch_size=None,
            mode="tiles",
            targets=lambda case, soft=soft: (
                np.full((2, *case.labels.shape[1:]), 0.5)  # type: ignore[misc]
                if soft
                else case.labels[1]
            ),
        )
        batch = collate([data[0], data[1]])
        inside = torch.zeros(2, 4, 5, dtype=torch.bool)
        inside[0, :2, :5] = inside[1, :4, :3] = True
        assert batch["image"].dtype == torch.float32
        assert torch.equal(batch["image"][:, 0], inside.float())
        for name in ("labels", "reference") if soft else ("labels", "reference", "target"):
            assert batch[name].dtype == torch.int64
        for r in range(2):
            assert torch.equal(batch["labels"][:, r], inside.long() - 1)
        assert torch.equal(batch["reference"], inside.long() - 1)
        target = batch["target"]
        assert torch.equal(
            target, inside[:, None] * torch.full((2, 1, 1), 0.5) if soft else inside.long() - 1
        )
        assert batch["case"].tolist() == [0, 1]


def test_sampler_gives_each_item_once_in_an_order_of_its_own() -> None:
    sampler = EpochSampler(50, 8, seed=2)
    orders = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert [len(batch) for batch in batches] == [8] * 6 + [2]
        items = [k for batch in batches for k in batch]
        orders.append([k for k in items if k is not None])
        assert sorted(orders[-1]) == list(range(50))
    assert orders[0] == orders[2] != orders[1]
    assert list(sampler) != list(EpochSampler(50, 8, seed=3))
    assert list(EpochSampler(4, 3, shuffle=False)) == [[0, 1, 2], [3]]
    assert len(sampler) == 7


def test_workers_give_the_same_batches_and_leave_torch_its_randomness() -> None:
    study = make_position_study(cases=7)

    def batches(workers: int, epoch: int) -> list[dict[str, torch.Tensor]]:
        data = CaseDataset(study, RAW, patch_size=(4, 4), augment="flip", patches_per_case=2)
        found = loader(data, 4, shuffle=True, seed=1, num_workers=workers)
        set_epoch(found, epoch)
        return list(found)

    state = torch.get_rng_state()
    alone = batches(0, 0)
    epoch1 = batches(0, 1)
    assert torch.equal(torch.get_rng_state(), state)
    together = batches(2, 0)
    assert [len(batch["case"]) for batch in alone] == [4, 4, 4, 2]
    for a, b in zip(alone, together, strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert not torch.equal(alone[0]["image"], epoch1[0]["image"])


@pytest.mark.parametrize("workers", [0, 1])
def test_the_epoch_may_be_told_after_the_iterator_is_made(workers: int) -> None:
    """As Lightning does it when a run is resumed."""
    first = []
    for late in (False, True):
        data = CaseDataset(make_position_study(), RAW, patch_size=(4, 4), augment="flip")
        found = loader(data, 6, shuffle=True, num_workers=workers)
        if not late:
            set_epoch(found, 3)
        batches = iter(found)
        set_epoch(found, 3)
        first.append(next(batches))
        del batches
    assert all(torch.equal(first[0][key], first[1][key]) for key in first[0])


# Bad input


def test_cases_without_image() -> None:
    labels = np.zeros((2, 1, 3, 3), int)
    study = Study.from_arrays([np.ones((1, 3, 3)), None], labels, cases=["a", "b"])
    data = CaseDataset(study, RAW, patch_size=None)
    for use in (lambda: data[1], lambda: fit_normalisation(study, "study")):
        with pytest.raises(RatersError, match=r"no image of case 'b'.*needs images .*or features"):
            use()
    with pytest.raises(RatersError, match="no image of case 'b'"):
        CaseDataset(study, RAW, patch_size=(2, 2), mode="tiles")
    with pytest.raises(RatersError, match="no image of case '0'"):
        CaseDataset(Study.from_arrays(labels=np.zeros((3, 2), int)), RAW, patch_size=None)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((3, 4, 4), "found 3 channels, expected 1 as in case 'a'"), ((1, 4, 4, 2), "3 spatial axes")],
)
def test_images_that_differ(shape: tuple[int, ...], message: str) -> None:
    labels = [np.zeros((1, 4, 4), int), np.zeros((1, *shape[1:]), int)]
    study = Study.from_arrays([np.ones((1, 4, 4)), np.ones(shape)], labels, cases=["a", "b"])
    with pytest.raises(RatersError, match=message) as caught:
        CaseDataset(study, RAW, patch_size=None)[1]
    assert caught.value.case == "b"
    assert "'b'" in str(caught.value)


def test_image_and_masks_of_two_shapes() -> None:
    study = Study.from_arrays(np.ones((1, 1, 4, 4)), np.zeros((1, 1, 4, 5), int))
    with pytest.raises(RatersError, match="found shape 4 x 5, expected 4 x 4"):
        CaseDataset(study, RAW, patch_size=None)


@pytest.mark.parametrize("patch", [(4,), (4, 4, 4), (0, 4)])
def test_patches_that_do_not_fit(patch: tuple[int, ...]) -> None:
    with pytest.raises(RatersError, match="expected 2 sides of 1 or more"):
        CaseDataset(make_position_study(), RAW, patch_size=patch)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(RatersError, match="expected 'none'"):
        CaseDataset(make_position_study(), RAW, patch_size=(4, 4), mode="tiles", augment="flip")
    with pytest.raises(RatersError, match="class labels"):
        CaseDataset(make_table_study(np.ones((4, 1, 4, 4))), RAW, patch_size=(2, 2))
    with pytest.raises(RatersError, match="feature vectors"):
        CaseDataset(make_table_study(np.ones((4, 3))), RAW, patch_size=None, augment="flip")
    empty = make_position_study()
    empty = Study(empty.backend, CaseIndex.of([]), empty.raters, _classes=empty.classes)
    with pytest.raises(RatersError, match="no cases"):
        CaseDataset(empty, RAW, patch_size=None)
    with pytest.raises(RatersError, match="no cases"):
        fit_normalisation(empty)

"""Grids: what counts as different, and resampling against SimpleITK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from hypothesis import given
from hypothesis import strategies as st

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.geometry import Geometry, difference, resample_nearest
from tests.support.makers import oblique, quick, save, square, to_itk

GRID = np.array([[2.0, 0, 0, 10], [0, 0.5, 0, -20], [0, 0, 1, 5], [0, 0, 0, 1]])
SHAPE = (4, 5, 6)


def change_grid(**parts: Any) -> Geometry:
    """Return the grid with other spacings (by a factor), rotated, or moved."""
    affine = GRID.copy()
    turn = np.radians(parts.get("degrees", 0))
    rotation = np.array(
        [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]
    )
    affine[:3, :3] = rotation @ affine[:3, :3] * parts.get("factor", 1.0)
    affine[:3, 3] += parts.get("move", 0)
    return Geometry(SHAPE, affine)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Geometry((4, 5, 7), GRID), "shape"),
        (Geometry((4, 5), None), "shape"),
        (change_grid(factor=[1.01, 1, 1]), "spacing"),
        (change_grid(factor=[1, 1.0005, 1]), None),
        (change_grid(degrees=1), "direction"),
        (change_grid(degrees=0.03), None),
        (change_grid(factor=[-1, 1, 1]), "direction"),
        (change_grid(move=[0, 0, 0.03]), "origin"),
        (change_grid(move=[0.5, 0, 0]), "origin"),
        (change_grid(move=[0.02, -0.02, 0.02]), None),
        (Geometry(SHAPE, None), None),
        (change_grid(), None),
    ],
)
def test_what_counts_as_different(other: Geometry, what: str | None) -> None:
    """Tolerances: a thousandth of the spacing, .001 of direction, a twentieth of a voxel."""
    one = Geometry(SHAPE, GRID)
    for a, b in ((one, other), (other, one)):
        found = difference(a, b)
        assert (found and found[0]) == what
        assert found is None or found[1] != found[2]


def test_spacing_direction_and_origin_make_the_affine() -> None:
    affine = oblique(np.random.default_rng(0))
    grid = Geometry(SHAPE, affine)
    assert np.allclose(grid.direction * grid.spacing, affine[:3, :3])
    assert np.allclose(grid.direction.T @ grid.direction, np.eye(3))
    assert np.array_equal(grid.origin, affine[:3, 3])
    plain = Geometry((4, 5))
    assert plain.spacing == (1.0, 1.0)
    assert (plain.origin.tolist(), plain.direction.tolist()) == ([0, 0], [[1, 0], [0, 1]])


def test_grids_are_equal_to_the_bit() -> None:
    assert Geometry(SHAPE, GRID) == Geometry(SHAPE, GRID.copy())
    assert Geometry(SHAPE, GRID) != Geometry(SHAPE, GRID + 1e-12)
    assert Geometry(SHAPE, GRID) != Geometry(SHAPE)
    assert Geometry((4,)) != Geometry((5,))


@quick
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]))
def test_resampling_equals_simpleitk_on_oblique_grids(seed: int, ndim: int) -> None:
    rng = np.random.default_rng(seed)
    own = Geometry(tuple(rng.integers(3, 9, ndim)), oblique(rng, ndim))
    target = Geometry(tuple(rng.integers(3, 9, ndim)), oblique(rng, ndim))
    labels = rng.integers(0, 5, own.shape).astype(np.int16)
    expected = sitk.GetArrayFromImage(
        sitk.Resample(
            to_itk(labels, own.affine),
            to_itk(np.zeros(target.shape, np.int16), target.affine),
            sitk.Transform(),
            sitk.sitkNearestNeighbor,
            float(MISSING),
        )
    ).T
    voxels = np.moveaxis(np.indices(target.shape), 0, -1) + 0.0
    assert own.affine is not None
    assert target.affine is not None
    to_own = np.linalg.inv(own.affine) @ target.affine
    there = voxels @ to_own[:-1, :-1].T + to_own[:-1, -1]
    tie = (np.abs(there - np.floor(there) - 0.5) < 1e-5).any(axis=-1)
    found = resample_nearest(labels, own, target)
    assert found.dtype == np.int16
    assert np.array_equal(found[~tie], expected[~tie])


def test_resampling_to_the_same_grid_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(-1, 4, SHAPE).astype(np.int16)
    for affine in (GRID, oblique(rng), None):
        grid = Geometry(SHAPE, affine)
        assert np.array_equal(resample_nearest(labels, grid, grid), labels)


def test_resampling_by_hand() -> None:
    """Slow loops from the definition: the voxel whose centre is nearest, MISSING outside."""
    labels = np.arange(12, dtype=np.int16).reshape(3, 4)
    own = Geometry((3, 4), np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 1]]))
    target = Geometry((7, 9), np.array([[0.6, 0, -0.45], [0, 1.1, -1.15], [0, 0, 1]]))
    expected = np.full((7, 9), MISSING)
    for i in range(7):
        for j in range(9):
            row = round(0.6 * i - 0.45)
            column = round((1.1 * j - 1.15) / 2)
            if 0 <= row < 3 and 0 <= column < 4:
                expected[i, j] = labels[row, column]
    assert np.array_equal(resample_nearest(labels, own, target), expected)


def nifti_study(root: Path) -> None:
    """Write an image of 1 mm, a mask on its grid, and one of 2 mm that reaches half as far."""
    image = np.diag([1.0, 1, 1, 1])
    coarse = np.diag([2.0, 2, 2, 1])
    coarse[:3, 3] = 0.5
    save(root / "images/c1.nii.gz", np.zeros((6, 6, 6), np.float32), image)
    save(root / "masks/ann/c1.nii.gz", np.ones((6, 6, 6), np.uint8), image)
    mask = np.zeros((3, 3, 2), np.uint8)
    mask[1] = 1
    save(root / "masks/bob/c1.nii.gz", mask, coarse)


def test_another_grid_is_an_error_that_names_both_files(tmp_path: Path) -> None:
    nifti_study(tmp_path)
    study = raters.read(
        str(tmp_path / "masks/{rater}/{case}.nii.gz"), images=str(tmp_path / "images/{case}.nii.gz")
    )
    with pytest.raises(RatersError) as caught:
        _ = study["c1"].labels
    error = caught.value
    assert error.kind == "geometry"
    assert (error.case, error.rater) == ("c1", "bob")
    assert error.file == str(tmp_path / "masks/bob/c1.nii.gz")
    assert str(tmp_path / "images/c1.nii.gz") in str(error)
    assert "shape 3 x 3 x 2, expected 6 x 6 x 6" in str(error)


@pytest.mark.parametrize(
    ("affine", "words"),
    [
        (np.diag([1.0, 1, 3, 1]), r"spacing \(1, 1, 3\), expected \(1, 1, 1\)"),
        (np.diag([-1.0, 1, 1, 1]), r"direction \[\(-1, 0, 0\).*expected \[\(1, 0, 0\)"),
        (np.eye(4) + np.eye(4)[:, [3, 3, 3, 0]] * 0, None),
        (
            np.array([[1.0, 0, 0, 7], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
            r"origin \(7, 0, 0\)",
        ),
    ],
)
def test_both_values_are_named(tmp_path: Path, affine: Any, words: str | None) -> None:
    save(tmp_path / "images/c1.nii.gz", np.zeros((3, 3, 3), np.float32), np.eye(4))
    save(tmp_path / "masks/ann/c1.nii.gz", np.ones((3, 3, 3), np.uint8), affine)
    study = raters.read(
        str(tmp_path / "masks/{rater}/{case}.nii.gz"), images=str(tmp_path / "images/{case}.nii.gz")
    )
    if words is None:
        assert study["c1"].labels.shape == (1, 3, 3, 3)
        return
    with pytest.raises(RatersError, match=words):
        _ = study["c1"].labels


def test_masks_are_resampled_on_the_grid_of_the_image_if_asked(tmp_path: Path) -> None:
    nifti_study(tmp_path)
    study = raters.read(
        str(tmp_path / "masks/{rater}/{case}.nii.gz"),
        images=str(tmp_path / "images/{case}.nii.gz"),
        resample="nearest",
    )
    ann, bob = study["c1"].labels
    assert (ann == 1).all()
    assert (bob[:, :, :4] == np.array([0, 0, 1, 1, 0, 0])[:, None, None]).all()
    assert (bob[:, :, 4:] == MISSING).all()
    again = study.write(tmp_path / "study")
    assert np.array_equal(again["c1"].labels, study["c1"].labels)


def test_without_image_the_first_mask_sets_the_grid(tmp_path: Path) -> None:
    nifti_study(tmp_path)
    study = raters.read(str(tmp_path / "masks/{rater}/{case}.nii.gz"))
    with pytest.raises(RatersError, match=r"bob/c1.nii.gz: found shape.*ann/c1.nii.gz"):
        _ = study["c1"].labels


def test_a_png_agrees_with_any_grid_of_its_shape(tmp_path: Path) -> None:
    save(tmp_path / "images/c1.mha", square(), np.diag([0.5, 0.5, 1]))
    save(tmp_path / "masks/ann/c1.png", square())
    study = raters.read(
        str(tmp_path / "masks/{rater}/{case}.png"), images=str(tmp_path / "images/{case}.mha")
    )
    assert np.array_equal(study["c1"].labels[0], square())
    assert np.allclose(study["c1"].geometry.spacing, 0.5)


@pytest.mark.parametrize(
    ("own", "target"), [((6, 4), (12, 8)), ((12, 9), (4, 3)), ((5, 7), (8, 11))]
)
def test_without_geometry_masks_are_scaled_as_pictures_are(
    own: tuple[int, int], target: tuple[int, int]
) -> None:
    labels = np.random.default_rng(0).integers(0, 5, own).astype(np.int16)
    expected = np.zeros(target, np.int16)
    for place in np.ndindex(target):
        centre = [(i + 0.5) * o / t - 0.5 for i, o, t in zip(place, own, target, strict=True)]
        expected[place] = labels[tuple(int(np.ceil(c - 0.5 - 1e-9)) for c in centre)]
    for affine in (None, np.diag([0.5, 0.5, 1.0])):
        found = resample_nearest(labels, Geometry(own), Geometry(target, affine))
        assert np.array_equal(found, expected)


def test_small_pictures_are_scaled_to_the_image_or_refused(tmp_path: Path) -> None:
    large = np.kron(square(), np.ones((8, 8), np.uint8))
    save(tmp_path / "images/c1.png", large)
    save(tmp_path / "masks/ann/c1.png", large)
    save(tmp_path / "masks/bob/c1.png", np.kron(square(), np.ones((2, 2), np.uint8)))
    masks = str(tmp_path / "masks/{rater}/{case}.png")
    pictures = str(tmp_path / "images/{case}.png")
    with pytest.raises(RatersError, match="or of the first mask where there is none"):
        _ = raters.read(masks)["c1"].labels
    study = raters.read(masks, images=pictures, resample="nearest")
    assert (study["c1"].labels == large).all()
    assert raters.check(study).errors == 0
    save(tmp_path / "masks/bob/c1.png", np.zeros((8, 9), np.uint8))
    study = raters.read(masks, images=pictures, resample="nearest")
    with pytest.raises(RatersError, match=r"8 x 9, expected 32 x 32.*the same ratio") as caught:
        _ = study["c1"].labels
    assert caught.value.kind == "geometry"
    assert [p.kind for p in raters.check(study).problems if p.level == "error"] == ["geometry"]

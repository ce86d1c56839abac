"""Volumes as radiologists look at them: a head looks the same in whatever order it was saved."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

import raters
from raters.core.errors import RatersError
from raters.evaluation.prediction import Prediction
from raters.study.study import Study
from raters.views import plots, report
from raters.views.plots.pictures import picture, view_of
from raters.views.report.run_cases import _figure
from tests.support.viewer_labels import view_case

CODES = ["".join(ends) for axes in permutations(("LR", "PA", "IS")) for ends in product(*axes)]
"""All 48 ways to save a volume."""
SPACING = (1.0, 1.25, 1.5)  # along R, A and S
MISSING = raters.MISSING


def draw_head() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return an image and three raters' masks in RAS, none of which is like its mirror image."""
    rng = np.random.default_rng(0)
    image = rng.random((10, 12, 8)) + 1
    image[:, :, 0] = image[0] = 0  # air
    masks = np.zeros((3, 10, 12, 8), np.int16)
    masks[:, 2:4, 7:11, 3:7] = 1
    masks[1, 2:6, 6:11, 5] = 2
    masks[2, 3:5, 2:9, 4:6] = 1
    masks[2, 8:, :, 5] = MISSING
    return image, masks


def reorient_array(array: NDArray[Any], code: str) -> NDArray[Any]:
    """Put a volume in RAS into the order of a code."""
    return nibabel.orientations.apply_orientation(array, _change(code))


def _change(code: str) -> NDArray[Any]:
    wanted = nibabel.orientations.axcodes2ornt(tuple(code))
    return nibabel.orientations.ornt_transform(np.array([[0, 1], [1, 1], [2, 1]]), wanted)


def head_in_order(code: str, oblique: float = 0.0) -> tuple[Study, NDArray[Any]]:
    """Return the head with its voxels in the order of a code such as 'LPS', and its affine."""
    image, masks = draw_head()
    affine = np.diag([*SPACING, 1.0])
    affine[:3, 3] = [-3, 40, 7]
    turn = np.array([[np.cos(oblique), -np.sin(oblique)], [np.sin(oblique), np.cos(oblique)]])
    affine[1:3, :3] = turn @ affine[1:3, :3]
    affine = affine @ nibabel.orientations.inv_ornt_aff(_change(code), image.shape)
    study = Study.from_arrays(
        images=[reorient_array(image, code)[np.newaxis]],
        labels=[np.stack([reorient_array(mask, code) for mask in masks])],
        reference=[reorient_array(masks[0], code)],
        raters=["ann", "bob", "cy"],
        classes=["background", "lesion", "core"],
        affines=[affine],
    )
    return study, affine


def without_numbers(view: report.ViewerCase) -> list[Any]:
    """Return what is seen; the numbers of slices are those of the file."""
    planes = [(plane.name, plane.order, plane.flipped, plane.letters) for plane in view.planes]
    return [view.pictures, view.labels, view.maps, view.start, view.spacing, planes]


@pytest.mark.parametrize("code", CODES)
def test_a_head_looks_the_same_however_it_was_saved(code: str) -> None:
    expected = view_case(head_in_order("RAS")[0])
    view = view_case(head_in_order(code)[0])
    assert without_numbers(view) == without_numbers(expected)
    assert list(view.planes[0].letters) == ["R", "L", "A", "P"]
    assert view.shape == (8, 12, 10)
    assert view.spacing == pytest.approx((1.5, 1.25, 1.0))
    assert view.numbers[0] == ((7, -1) if "I" in code else (0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("code", ["LPS", "PIR", "SLA"])
@pytest.mark.parametrize("oblique", [0.0, 0.3])
def test_figures_are_the_same_too(code: str, oblique: float) -> None:
    drawings = []
    for name in ("RAS", code):
        study, affine = head_in_order(name, oblique)
        case = study[0]
        assert case.reference is not None
        figures = (
            plots.overlay(
                case.image, case.labels, study.raters, case.reference, entropy=True, affine=affine
            ),
            plots.errors(case.reference, case.labels, study.raters, affine=affine),
        )
        drawings.append([_panels_of(figure) for figure in figures])
    assert drawings[0] == drawings[1]
    pictures, letters, aspects = drawings[0][0]
    assert letters[:4] == ["R", "L", "A", "P"]
    assert aspects == [pytest.approx(1.25)] * 3
    assert len(pictures) == 3


def _panels_of(figure: Any) -> tuple[list[bytes], list[str], list[float]]:
    """Return the pixels, letters and shapes of pixels of all panels."""
    axes = [panel for panel in figure.axes if panel.images]
    pixels = [np.ascontiguousarray(panel.images[0].get_array()).tobytes() for panel in axes]
    letters = [text.get_text() for panel in axes for text in panel.texts]
    return pixels, letters, [panel.get_aspect() for panel in axes]


@pytest.mark.parametrize("code", ["RAS", "LPS", "PIR", "AIL"])
def test_the_left_front_of_the_patient_is_at_the_right_top(code: str) -> None:
    study, affine = head_in_order(code)
    inverse = np.linalg.inv(affine)
    left, front, up = np.array([-3, 40, 7]) + np.array([1, 10, 5]) * SPACING  # RAS: x is small
    voxel = tuple(np.rint(inverse @ [left, front, up, 1])[:3].astype(int))
    blob = np.zeros(study[0].geometry.shape, int)
    blob[voxel] = 1
    figure = plots.errors(np.zeros_like(blob), blob[np.newaxis], affine=affine)
    red = np.asarray(figure.axes[0].images[0].get_array())[..., 0] > 0.5
    (row,), (column,) = np.nonzero(red)
    rows, columns = red.shape
    assert (rows, columns) == (12, 10)
    assert (row, column) == (12 - 1 - 10, 10 - 1 - 1)  # near the top, near the right edge


@pytest.mark.parametrize(
    ("spacing", "plane", "letters"),
    [
        ((1.0, 1.0, 1.0), "axial", "RLAP"),
        ((0.5, 0.5, 5.0), "axial", "RLAP"),
        ((0.5, 5.0, 0.5), "coronal", "RLSI"),
        ((5.0, 0.5, 0.5), "sagittal", "APSI"),
        ((1.2, 1.0, 1.0), "axial", "RLAP"),  # not clearly thicker
    ],
)
def test_thick_slices_are_shown_as_they_were_acquired(
    spacing: tuple[float, ...], plane: str, letters: str
) -> None:
    view = view_of((4, 5, 6), np.diag([*spacing, 1.0]))
    assert (view.plane, "".join(view.letters or ())) == (plane, letters)


def test_an_axis_can_be_asked_for() -> None:
    study, affine = head_in_order("LPS")
    view = view_case(study, axis=0)
    assert list(view.planes[0].letters) == ["A", "P", "S", "I"]
    assert view.planes[0].name == "sagittal"
    assert view.shape == (10, 8, 12)
    labels = study[0].labels
    figure = plots.overlay(None, labels, axis=1, slice=3, affine=affine)
    assert figure.axes[0].get_title().endswith("coronal slice 3")
    with pytest.raises(RatersError, match="found axis 4, expected 0, 1 or 2"):
        plots.overlay(None, labels, axis=4)


def default_affine(space: tuple[int, int, int]) -> NDArray[Any]:
    """Return the affine that nibabel makes up for a file that has none."""
    return nibabel.Nifti1Image(np.zeros(space), None).header.get_best_affine()


@pytest.mark.parametrize(
    "affine",
    [
        None,
        np.diag([1.0, 0, 1, 1]),  # an axis without a direction
        np.diag([1.0, np.nan, 1, 1]),
        default_affine((10, 12, 8)),
    ],
)
def test_what_says_nothing_of_the_patient_has_no_letters(affine: NDArray[Any] | None) -> None:
    image, masks = draw_head()
    view = view_of(image.shape, affine)
    assert view.letters is None
    assert view.name(5, image.shape) == "slice 5"
    assert np.array_equal(view.turn(image)[5], np.rot90(image[:, :, 5]))
    assert np.array_equal(view.turn(masks, 1)[:, 5], np.rot90(masks[..., 5], axes=(1, 2)))


def test_pictures_have_no_letters() -> None:
    _, masks = draw_head()
    study = Study.from_arrays(labels=masks[np.newaxis, ..., 5], affines=[np.diag([-1.0, 2, 1])])
    view = view_case(study)
    assert (len(view.planes), list(view.planes[0].letters)) == (1, [])
    assert (view.shape, view.spacing) == ((1, 10, 12), (1.0, 1.0, 2.0))


@pytest.mark.parametrize("code", ["LPS", "PIR"])
def test_what_a_run_adds_turns_with_the_rest(code: str) -> None:
    colours = np.random.default_rng(1).random((*draw_head()[0].shape, 3))
    found = []
    for name in ("RAS", code):
        study, _ = head_in_order(name)
        case = study[0]
        turned = np.stack([reorient_array(colours[..., k], name) for k in range(3)], -1)
        assert case.reference is not None
        truth = np.moveaxis(np.eye(3, dtype=np.float32)[case.reference], -1, 0)
        said = Prediction({"truth": truth})
        figure = _figure(case, study, said, {"bob": turned}).figure
        layers = {"prediction": said.labels}
        maps = {"map": turned[..., 0], "colours": turned}
        view = view_case(study, layers=layers, maps=maps)
        assert set(view.maps) == {"map", "colours"}
        found.append([_panels_of(figure), without_numbers(view)])
    assert found[0] == found[1]
    (_, letters, aspects), _ = found[0]
    assert letters == ["R", "L", "A", "P"] * 2
    assert aspects == [pytest.approx(1.25)] * 2


def test_the_air_around_a_head_does_not_count() -> None:
    rng = np.random.default_rng(0)
    brain = rng.normal(100, 10, (8, 8, 8))
    volume = np.zeros((32, 32, 32))
    volume[4:12, 4:12, 4:12] = brain
    volume[4, 4, 4] = -5  # resampled volumes have values below that of air
    shown = picture(volume[np.newaxis], volume.shape, None)
    inside = shown[4:12, 4:12, 4:12]
    assert (inside == 1).mean() == pytest.approx(0.002, abs=0.002)
    assert inside.std() > 0.15
    assert not shown[volume == 0].any()
    flat = picture(volume[np.newaxis, 8], volume.shape[1:], None)  # pictures are as they were
    low, high = np.percentile(volume[8], [1, 99])
    assert flat == pytest.approx(((volume[8] - low) / (high - low)).clip(0, 1))
    two = (volume > 0).astype(float)  # nothing but air and one value
    assert np.array_equal(picture(two[np.newaxis], two.shape, None), two)

"""Images and arrays of other libraries become studies, with their geometry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pandas as pd
import pytest
import SimpleITK as sitk  # noqa: N813
import torch
from monai.data import MetaTensor

import raters
from raters.core.errors import RatersError
from raters.fusion._staple import staple
from raters.io import formats
from raters.study.foreign import array_of, volume_of
from tests.support.makers import oblique, square, to_itk

RNG = np.random.default_rng(0)
VOLUME = RNG.integers(0, 2, (3, 4, 5)).astype(np.uint8)


def itk_volume(values: Any, affine: Any) -> Any:
    return to_itk(values, affine)


def nibabel_volume(values: Any, affine: Any) -> Any:
    return nibabel.Nifti1Image(values, affine)


def itk_picture() -> Any:
    image = sitk.GetImageFromArray(square(6, corner=1)[:, :4].copy())  # 6 rows, 4 columns
    image.SetSpacing((0.5, 2.0))  # of a column, of a row
    image.SetOrigin((7.0, -3.0))
    return image


@pytest.mark.parametrize("make", [itk_volume, nibabel_volume])
def test_volumes_as_their_files_are_read(tmp_path: Path, make: Any) -> None:
    affine = oblique(RNG)
    masks = [make(VOLUME, affine), make(1 - VOLUME, affine)]
    image = make(VOLUME.astype(np.float32), affine)
    study = raters.Study.from_arrays([image], [masks], [masks[0]], raters=["ann", "bob"])
    for name, one in (("ann/c", masks[0]), ("bob/c", masks[1]), ("images/c", image)):
        path = tmp_path / f"{name}.{'nrrd' if make is itk_volume else 'nii'}"
        path.parent.mkdir()
        if make is itk_volume:
            sitk.WriteImage(one, str(path))
        else:
            nibabel.save(one, path)
    suffix = path.suffix
    images = f"{tmp_path}/images/{{case}}{suffix}"
    expected = raters.read(f"{tmp_path}/{{rater}}/{{case}}{suffix}", images=images)["c"]
    case = study["0"]
    np.testing.assert_array_equal(case.labels, expected.labels)
    np.testing.assert_array_equal(case.labels[0], VOLUME)
    np.testing.assert_array_equal(case.reference, VOLUME)
    np.testing.assert_array_equal(case.image, expected.image)
    np.testing.assert_allclose(case.geometry.affine, expected.geometry.affine, atol=1e-5)
    np.testing.assert_allclose(case.geometry.spacing, np.linalg.norm(affine[:3, :3], axis=0))


def test_pictures_as_their_files_are_read(tmp_path: Path) -> None:
    picture = itk_picture()
    case = raters.Study.from_arrays(images=[picture], labels=[[picture, picture]])["0"]
    assert case.labels.shape == (2, 6, 4) and case.image is not None
    assert case.image.shape == (1, 6, 4)
    assert case.geometry.spacing == (2.0, 0.5)  # rows, columns
    sitk.WriteImage(picture, str(tmp_path / "a.mha"))
    file = formats.read_labels(tmp_path / "a.mha")
    np.testing.assert_array_equal(case.labels[0], file.array)
    np.testing.assert_array_equal(case.geometry.affine, file.affine)


def test_colours_and_modalities_are_channels() -> None:
    colours = sitk.GetImageFromArray(np.zeros((6, 4, 3), np.uint8), isVector=True)
    mask = itk_picture()
    colours.CopyInformation(mask)
    case = raters.Study.from_arrays(images=[colours], labels=[[mask]])["0"]
    assert case.image is not None and case.image.shape == (3, 6, 4)
    case = raters.Study.from_arrays(images=[[mask, mask]], labels=[[mask]])["0"]
    assert case.image is not None and case.image.shape == (2, 6, 4)
    series = nibabel.Nifti1Image(np.zeros((3, 4, 5, 2)), np.eye(4))
    case = raters.Study.from_arrays(images=[series])["0"]
    assert case.image is not None and case.image.shape == (2, 3, 4, 5)


def test_a_rater_who_did_not_label() -> None:
    case = raters.Study.from_arrays(labels=[[itk_picture(), None]])["0"]
    assert case.labels.shape == (2, 6, 4) and (case.labels[1] == raters.MISSING).all()


@pytest.mark.parametrize("wrap", [torch.from_numpy, lambda a: list(torch.from_numpy(a))])
def test_tensors(wrap: Any) -> None:
    labels = RNG.integers(-1, 3, (2, 3, 4, 5))
    images = RNG.random((2, 1, 4, 5))
    plain = raters.Study.from_arrays(images=images, labels=labels, reference=labels[:, 0])
    study = raters.Study.from_arrays(
        images=wrap(images), labels=wrap(labels), reference=wrap(labels[:, 0])
    )
    for one, other in zip(study.iter_cases(), plain.iter_cases(), strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(one.image, other.image)
        np.testing.assert_array_equal(one.reference, other.reference)
    answers = raters.Study.from_arrays(labels=torch.tensor([[0, 1, -1], [2, 1, 0]]))
    assert answers.kind == "classification" and len(answers.triplets) == 5
    assert array_of(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1, 1]


def test_functions_on_arrays_take_tensors_and_images() -> None:
    labels = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0]], np.int16)
    found = staple(torch.from_numpy(labels), 2)
    np.testing.assert_array_equal(found.labels, staple(labels, 2).labels)
    a = to_itk(VOLUME, np.eye(4))
    b = to_itk(1 - VOLUME, np.eye(4))
    distances = raters.metrics.surface_distances(a, b, spacing=(1, 1, 1))
    expected = raters.metrics.surface_distances(VOLUME, 1 - VOLUME, spacing=(1, 1, 1))
    assert (distances.hd95, distances.assd) == (expected.hd95, expected.assd)


def test_geometry_is_kept_to_the_end(tmp_path: Path) -> None:
    affine = np.diag([0.5, 0.75, 3.0, 1.0])
    study = raters.Study.from_arrays(labels=[[to_itk(VOLUME, affine), to_itk(VOLUME, affine)]])
    assert study.write(tmp_path / "s")["0"].geometry.spacing == (0.5, 0.75, 3.0)


def assert_arrays_refused(words: str, **given: Any) -> None:
    with pytest.raises(RatersError, match=words):
        raters.Study.from_arrays(**given)


def test_what_is_not_understood_is_refused() -> None:
    picture = itk_picture()
    affine = np.diag([0.5, 0.75, 3.0, 1.0])
    assert_arrays_refused(
        "DataFrame as labels.*Study.from_frame", labels=pd.DataFrame({"ann": [0, 1]})
    )
    assert_arrays_refused("SimpleITK.Image as labels, expected a sequence", labels=picture)
    assert_arrays_refused(
        "labels of case 0: found one image.*expected one per rater", labels=[picture]
    )
    assert_arrays_refused("found str as images", images="images/{case}.png")
    assert_arrays_refused("labels of case 0: found dict", labels=[[{"a": 1}]])
    assert_arrays_refused("found .*set", labels=[[{1, 2}]])
    colours = sitk.GetImageFromArray(np.zeros((6, 4, 3), np.uint8), isVector=True)
    assert_arrays_refused("labels of case 0: found 3 channels", labels=[[colours]])
    other = to_itk(VOLUME, np.diag([0.5, 0.75, 2.0, 1.0]))
    first = to_itk(VOLUME, affine)
    assert_arrays_refused("spacing", labels=[[first, other]])
    assert_arrays_refused("spacing", images=[other], labels=[[first]])
    assert_arrays_refused("spacing", labels=[[first]], affines=[np.eye(4)])
    assert_arrays_refused("shape", labels=[[first, to_itk(VOLUME[:2], affine)]])
    half = sitk.GetImageFromArray(np.full((6, 4), 0.5))
    assert_arrays_refused("found value 0.5, expected whole numbers", labels=[[half]])


def test_meta_tensors_keep_their_affine() -> None:
    affine = np.diag([0.5, 0.75, 3.0, 1.0])
    image = MetaTensor(torch.zeros(1, 3, 4, 5), affine=torch.from_numpy(affine))
    np.testing.assert_array_equal(volume_of(image).affine, affine)
    case = raters.Study.from_arrays(images=[image], labels=[VOLUME[np.newaxis]])["0"]
    assert case.geometry.spacing == (0.5, 0.75, 3.0)

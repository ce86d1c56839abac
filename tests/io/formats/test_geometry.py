"""Axis order, coordinates and shapes, against the libraries' own answers."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK

from raters.core.errors import RatersError
from raters.core.geometry import Volume, plane, unplane
from raters.io import formats
from tests.support.makers import save

TURN = [[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]]
RAS = np.array([-1.0, -1.0, 1.0])


def turned_image() -> SimpleITK.Image:
    image = SimpleITK.GetImageFromArray(np.arange(60, dtype=np.int16).reshape(3, 4, 5))
    image.SetDirection(np.ravel(TURN).tolist())
    image.SetSpacing((0.7, 1.3, 2.5))
    image.SetOrigin((-12.5, 40.25, 7.1))
    return image


@pytest.mark.parametrize("suffix", [".nrrd", ".mha", ".mhd", ".nhdr", ".nii.gz"])
def test_points_in_space_as_simpleitk_has_them(tmp_path: Path, suffix: str) -> None:
    image = turned_image()
    file = tmp_path / f"ä b{suffix}"
    SimpleITK.WriteImage(image, str(file))
    volume = formats.read_image(file)
    assert volume.array.shape == (5, 4, 3) and volume.affine is not None
    for index in product(range(5), range(4), range(3)):
        point = RAS * image.TransformIndexToPhysicalPoint(index)
        np.testing.assert_allclose(volume.affine @ [*index, 1], [*point, 1], atol=1e-5)
        assert volume.array[index] == image.GetPixel(index)


@pytest.mark.parametrize("suffix", [".nrrd", ".mha"])
def test_pictures_in_space_as_simpleitk_has_them(tmp_path: Path, suffix: str) -> None:
    image = SimpleITK.GetImageFromArray(np.arange(6).reshape(2, 3))
    file = tmp_path / f"a{suffix}"
    image.SetDirection((0.6, -0.8, 0.8, 0.6))
    image.SetSpacing((2, 5))
    image.SetOrigin((30, 7))
    SimpleITK.WriteImage(image, str(file))
    volume = formats.read_labels(file)
    assert volume.array.shape == (2, 3) and volume.affine is not None
    for row, column in product(range(2), range(3)):
        x, y = image.TransformIndexToPhysicalPoint((column, row))
        np.testing.assert_allclose(volume.affine @ [row, column, 1], [-x, -y, 1], atol=1e-12)


@pytest.mark.parametrize("suffix", [".nrrd", ".mha", ".nii.gz"])
def test_simpleitk_reads_what_we_write(tmp_path: Path, suffix: str) -> None:
    image = turned_image()
    SimpleITK.WriteImage(image, str(tmp_path / "a.mha"))
    volume = formats.read_image(tmp_path / "a.mha")
    formats.write_image(tmp_path / f"b{suffix}", volume.array[None], volume.affine)
    back = SimpleITK.ReadImage(str(tmp_path / f"b{suffix}"))
    for name in ("GetDirection", "GetSpacing", "GetOrigin", "GetSize"):
        np.testing.assert_allclose(getattr(back, name)(), getattr(image, name)(), atol=1e-6)
    assert (SimpleITK.GetArrayFromImage(back) == SimpleITK.GetArrayFromImage(image)).all()


@pytest.mark.parametrize("suffix", [".nrrd", ".mha"])
def test_files_of_others_keep_their_affine(tmp_path: Path, suffix: str) -> None:
    """Without our own field, direction times spacing is exact (mha) or to 1e-12 (nrrd)."""
    image = turned_image()
    SimpleITK.WriteImage(image, str(tmp_path / f"a{suffix}"))
    affine = formats.probe(tmp_path / f"a{suffix}").affine
    expected = RAS[:, None] * np.array(TURN) * image.GetSpacing()
    assert affine is not None
    atol = 0 if suffix == ".mha" else 1e-12
    np.testing.assert_allclose(affine[:3, :3], expected, rtol=0, atol=atol)
    np.testing.assert_array_equal(affine[:3, 3], RAS * image.GetOrigin())


def test_affine_changed_by_another_program_wins(tmp_path: Path) -> None:
    formats.write_labels(tmp_path / "a.nrrd", np.ones((3, 4, 5), int), np.eye(4))
    image = SimpleITK.ReadImage(str(tmp_path / "a.nrrd"))
    image.SetOrigin((-9.0, 0, 0))
    SimpleITK.WriteImage(image, str(tmp_path / "b.nrrd"))
    affine = formats.probe(tmp_path / "b.nrrd").affine
    assert affine is not None and affine[0, 3] == 9


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("order", ["<", ">"])
def test_nifti_as_nibabel_reads_it(tmp_path: Path, kind: type, order: str) -> None:
    affine = np.array([[0, 2.0, 0, 5], [-3, 0, 0, 6], [0, 0, 4, 7], [0, 0, 0, 1]])
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    header = kind.header_class(endianness=order)
    image = kind(array, affine, header)
    image.header.set_slope_inter(0.5, -3)
    image.header.set_data_dtype(np.int16)
    nibabel.save(image, tmp_path / "a.nii.gz")
    volume = formats.read_image(tmp_path / "a.nii.gz")
    header = formats.probe(tmp_path / "a.nii.gz")
    reference = nibabel.load(tmp_path / "a.nii.gz")
    np.testing.assert_array_equal(volume.array, reference.get_fdata())
    np.testing.assert_array_equal(volume.affine, reference.affine)
    assert volume.array.dtype == header.dtype == np.float64


@pytest.mark.parametrize(
    ("disk", "memory"),
    [
        ((3, 4), (3, 4)),
        ((3, 4, 1), (3, 4, 1)),
        ((3, 4, 5, 1), (1, 3, 4, 5)),
        ((3, 4, 5, 2), (2, 3, 4, 5)),
        ((3, 4, 5, 1, 2), (2, 3, 4, 5)),
    ],
)
def test_nifti_axes(tmp_path: Path, disk: tuple[int, ...], memory: tuple[int, ...]) -> None:
    array = np.arange(np.prod(disk), dtype=np.int32).reshape(disk)
    volume = formats.read_image(save(tmp_path / "a.nii", array))
    assert volume.array.shape == memory and volume.has_channels == (len(memory) == 4)
    expected = np.moveaxis(array, -1, 0).reshape(memory) if volume.has_channels else array
    np.testing.assert_array_equal(volume.array, expected)
    if disk[-1] == 2:
        with pytest.raises(RatersError, match="2 channels"):
            formats.read_labels(tmp_path / "a.nii")
    else:
        assert formats.read_labels(tmp_path / "a.nii").array.shape == disk[:3]


def test_nifti_with_two_further_axes_is_refused(tmp_path: Path) -> None:
    file = save(tmp_path / "a.nii", np.zeros((3, 4, 5, 2, 2), np.uint8))
    with pytest.raises(RatersError, match="two or three spatial axes"):
        formats.read_image(file)


def test_nifti_colours(tmp_path: Path) -> None:
    colour = np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])
    array = np.arange(180, dtype=np.uint8).reshape(3, 4, 5, 3)
    save(tmp_path / "a.nii", np.ascontiguousarray(array).view(colour)[..., 0])
    image = formats.read_image(tmp_path / "a.nii")
    np.testing.assert_array_equal(image.array, np.moveaxis(array, -1, 0))


def test_flat_nifti_comes_back(tmp_path: Path) -> None:
    affine = np.array([[0, 2.5, 4], [-0.5, 0, 6], [0, 0, 1]])
    formats.write_labels(tmp_path / "a.nii", np.ones((3, 4), int), affine)
    np.testing.assert_array_equal(formats.read_labels(tmp_path / "a.nii").affine, affine)
    np.testing.assert_array_equal(plane(unplane(affine)), affine)
    sagittal = np.array([[0, 0, 1.0, 8], [2, 0, 0, 5], [0, 3, 0, 6], [0, 0, 0, 1]])
    file = save(tmp_path / "b.nii", np.ones((3, 4), np.uint8), sagittal)
    np.testing.assert_array_equal(formats.probe(file).affine, [[2, 0, 5], [0, 3, 6], [0, 0, 1]])


def test_slicer_segment_names(tmp_path: Path) -> None:
    image = SimpleITK.GetImageFromArray(np.zeros((2, 3, 4), np.uint8))
    image.SetMetaData("Segment0_Name", "liver")
    image.SetMetaData("Segment0_LabelValue", "3")
    SimpleITK.WriteImage(image, str(tmp_path / "a.seg.nrrd"))
    assert formats.probe(tmp_path / "a.seg.nrrd").names == {0: "background", 3: "liver"}


def test_tiff_axes(tmp_path: Path) -> None:
    import tifffile

    rng = np.random.default_rng(0)
    file = tmp_path / "a.tif"
    colours = rng.integers(0, 255, (28, 28, 3), np.uint8)
    for compression in (None, "lzw", "zlib"):
        tifffile.imwrite(file, colours, photometric="rgb", compression=compression)
        image = formats.read_image(file)
        assert image.has_channels and (image.array == colours.transpose(2, 0, 1)).all()
    tifffile.imwrite(file, colours, photometric="rgb", compression="jpeg")
    assert (
        np.abs(formats.read_image(file).array - colours.transpose(2, 0, 1).astype(int)).mean() < 60
    )
    with pytest.raises(RatersError, match="JPEG"):
        formats.read_labels(file)
    stack = rng.integers(0, 9, (4, 2, 5, 6)).astype(np.uint16)
    tifffile.imwrite(file, stack, imagej=True, metadata={"axes": "ZCYX"})
    assert (formats.read_image(file).array == stack.swapaxes(0, 1)).all()
    tifffile.imwrite(file, colours, photometric="minisblack")
    assert formats.read_labels(file).array.shape == (28, 28, 3)
    tifffile.imwrite(file, stack, imagej=True, metadata={"axes": "TZYX"})
    with pytest.raises(RatersError, match="TZYX"):
        formats.read_image(file)


def random_sub_grid(seed: int) -> tuple[np.ndarray, np.ndarray, Volume]:
    """A mask on a grid, and a part of it with permuted and flipped axes."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((6, 7, 8), np.uint8)
    affine = np.eye(4)
    affine[:3] = rng.normal(size=(3, 4)) * 3
    low = rng.integers(0, 4, 3)
    size = rng.integers(1, 3, 3)
    box = tuple(slice(a, a + n) for a, n in zip(low, size, strict=True))
    mask[box] = rng.integers(1, 9, size)
    order = rng.permutation(3)
    flips = rng.choice([-1, 1], 3)
    step = np.eye(4)
    step[:3, :3] = np.diag(flips)
    step[:3, 3] = np.where(flips < 0, low + size - 1, low)
    step = step[:, [*order, 3]]
    part = mask[box][tuple(slice(None, None, flip) for flip in flips)].transpose(order)
    return mask, affine, Volume(part, affine @ step)


@pytest.mark.parametrize("seed", range(20))
def test_embed_any_sub_grid(seed: int) -> None:
    mask, affine, part = random_sub_grid(seed)
    whole = formats.embed(part, mask.shape, affine)
    np.testing.assert_array_equal(whole.array, mask)
    np.testing.assert_array_equal(whole.affine, affine)


def test_embed_refuses_other_grids() -> None:
    part = np.ones((2, 2, 2), int)
    shifts = {"0.5 voxels off": 0.5, "span voxels": 3.0}
    for message, shift in shifts.items():
        affine = np.eye(4)
        affine[0, 3] = shift
        with pytest.raises(RatersError, match=message):
            formats.embed(Volume(part, affine), (4, 4, 4), np.eye(4))
    with pytest.raises(RatersError, match="voxel sizes"):
        formats.embed(Volume(part, np.diag([2.0, 1, 1, 1])), (9, 9, 9), np.eye(4))
    with pytest.raises(RatersError, match="without"):
        formats.embed(Volume(part), (4, 4, 4), np.eye(4))
    single = Volume(part[:, :, :1], np.diag([1.0, 1, 5, 1]))  # a slice knows no slice distance
    assert formats.embed(single, (4, 4, 4), np.eye(4)).array.sum() == 4

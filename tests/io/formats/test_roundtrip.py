"""What is written comes back: values, type, channels, affine; and the same for all libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raters.core.errors import RatersError
from raters.io import formats
from tests.support.pairs import all_pairs

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
TYPES = [*INTEGERS, "float32", "float64"]
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def draw_full_range(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values that use the whole range of the type, all different where it can."""
    rng = np.random.default_rng(len(shape))
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    low = np.iinfo(dtype).min
    high = np.iinfo(dtype).max
    array = rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    array.flat[0] = low
    array.flat[-1] = high
    return array


def affine_from(seed: int, dims: int, *, exact: bool) -> np.ndarray:
    """Any affine with shear and flips; `exact` ones fit into 32-bit floats."""
    rng = np.random.default_rng(seed)
    matrix = np.eye(dims + 1)
    matrix[:dims, :dims] = rng.normal(size=(dims, dims)) + 3 * np.eye(dims)
    matrix[:dims, :dims] *= rng.choice([-1, 1], dims)
    matrix[:dims, dims] = rng.normal(size=dims) * 100
    return matrix.astype(np.float32).astype(np.float64) if exact else matrix


def as_channels(volume: formats.Volume) -> np.ndarray:
    return volume.array if volume.has_channels else volume.array[None]


@pytest.mark.parametrize(
    ("dtype", "suffix", "space"),
    all_pairs(
        TYPES,
        [".nii", ".nii.gz", ".nrrd", ".mha", ".tif", ".npy"],
        [(5, 6), (5, 6, 4), (4, 5, 3), (5, 6, 1)],
    ),
    ids=str,
)
def test_labels_and_images_of_every_type(
    tmp_path: Path, suffix: str, dtype: str, space: tuple[int, ...]
) -> None:
    file = tmp_path / f"a{suffix}"
    labels = draw_full_range(space, dtype)
    affine = affine_from(1, len(space), exact=True)
    if labels.dtype.kind != "f":
        formats.write_labels(file, labels, affine)
        back = formats.read_labels(file)
        assert back.array.dtype == labels.dtype and not back.has_channels
        np.testing.assert_array_equal(back.array, labels)
    for channels in (1, 2, 3, 4, 6):
        image = draw_full_range((channels, *space), dtype)
        if suffix.startswith(".nii") and len(space) == 2 and channels > 1:
            continue  # NIfTI has no pictures with channels
        formats.write_image(file, image, affine)
        back = formats.read_image(file)
        header = formats.probe(file)
        array = back.array if suffix == ".npy" else as_channels(back)
        assert array.dtype == image.dtype == header.dtype
        np.testing.assert_array_equal(array, image)
        if suffix != ".npy":
            assert header.shape == space and (header.channels or 1) == channels
        assert (back.affine is None) == (suffix in (".tif", ".npy"))
        if back.affine is not None:
            np.testing.assert_array_equal(back.affine, affine)


@QUICK
@given(
    seed=st.integers(0, 10_000),
    dims=st.sampled_from([2, 3]),
    exact=st.booleans(),
    channels=st.integers(1, 4),
    dtype=st.sampled_from([*TYPES, "bool"]),
    located=st.booleans(),
)
def test_chosen_formats_are_exact(
    tmp_path: Path, seed: int, dims: int, exact: bool, channels: int, dtype: str, located: bool
) -> None:
    affine = affine_from(seed, dims, exact=exact) if located else None
    image = draw_full_range((channels, *(3, 4, 5)[:dims]), "uint8" if dtype == "bool" else dtype)
    image = image > 99 if dtype == "bool" else image
    suffix = formats.image_suffix(image, affine)
    formats.write_image(tmp_path / f"a{suffix}", image, affine)
    back = formats.read_image(tmp_path / f"a{suffix}")
    array = back.array if suffix == ".npy" else as_channels(back)
    assert array.dtype == (np.uint8 if dtype == "bool" else image.dtype)
    np.testing.assert_array_equal(array, image)
    np.testing.assert_equal(back.affine, affine)
    if image.dtype.kind in "ui":
        suffix = formats.label_suffix(image[0], affine)
        formats.write_labels(tmp_path / f"b{suffix}", image[0], affine)
        back = formats.read_labels(tmp_path / f"b{suffix}")
        np.testing.assert_array_equal(back.array, image[0])
        np.testing.assert_equal(back.affine, affine)
        assert suffix == ".png" or back.array.dtype == image.dtype


def test_choice_of_format() -> None:
    label = np.zeros((4, 4), int)
    tilted = np.diag([0.1, 0.1, 1, 1])
    assert formats.label_suffix(label, None) == ".png"
    assert formats.label_suffix(label + 65535, None) == ".png"
    assert formats.label_suffix(label + 65536, None) == ".npy"
    assert formats.label_suffix(label - 1, None) == ".npy"
    assert formats.label_suffix(label[None], None) == ".npy"
    assert formats.label_suffix(label, np.eye(3)) == ".nrrd"
    assert formats.label_suffix(label[None], np.eye(4)) == ".nii.gz"
    assert formats.label_suffix(label[None], tilted) == ".nrrd"
    assert formats.label_suffix(np.zeros((40000, 1, 1), int), np.eye(4)) == ".nrrd"
    assert formats.image_suffix(np.zeros((3, 4, 4), np.uint8), None) == ".png"
    assert formats.image_suffix(np.zeros((2, 4, 4), np.uint8), None) == ".npy"
    assert formats.image_suffix(np.zeros((1, 4, 4), np.uint16), None) == ".png"
    assert formats.image_suffix(np.zeros((3, 4, 4), np.uint16), None) == ".npy"
    assert formats.image_suffix(np.zeros((1, 4, 4), np.float32), None) == ".npy"


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd", ".mha"])
def test_half_floats_are_widened_without_loss(tmp_path: Path, suffix: str) -> None:
    image = draw_full_range((1, 3, 4, 5), "float16")
    formats.write_image(tmp_path / f"a{suffix}", image, np.eye(4))
    back = formats.read_image(tmp_path / f"a{suffix}").array
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, image[0])


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd", ".mha", ".png", ".tif", ".npy"])
def test_same_labels_give_same_bytes_and_the_umask_counts(tmp_path: Path, suffix: str) -> None:
    first = tmp_path / "deep" / "er" / f"a{suffix}"
    second = tmp_path / f"b{suffix}"
    for file in (first, second):
        formats.write_labels(file, np.eye(5, dtype=np.uint8), None)
    assert first.read_bytes() == second.read_bytes()
    (tmp_path / "plain").touch()
    assert first.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert os.listdir(first.parent) == [first.name]


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    formats.write_labels(file, np.eye(5, dtype=int))
    before = file.read_bytes()
    with pytest.raises(RatersError, match="labels from -1 to 0"):
        formats.write_labels(file, -np.eye(5, dtype=int))
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["a.png"]
    (tmp_path / "file").touch()
    with pytest.raises(RatersError, match="cannot be written") as caught:
        formats.write_labels(tmp_path / "file" / "a.npy", np.eye(5, dtype=int))
    assert caught.value.kind == "unwritable"


def test_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(file: Path, *_: object, **__: object) -> None:
        file.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "save", save)
    with pytest.raises(RatersError, match=r"a\.npy: cannot be written: No space left"):
        formats.write_labels(tmp_path / "a.npy", np.eye(5, dtype=int))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["a.mhd", "a.nhdr", "a.dcm", "a.gif", "a.jpg"])
def test_what_is_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(RatersError) as caught:
        formats.write_labels(tmp_path / name, np.eye(5, dtype=int))
    assert caught.value.kind == "unwritable" and not os.listdir(tmp_path)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="integers"):
        formats.write_labels("a.npy", np.zeros((3, 3)))
    with pytest.raises(ValueError, match="affine of shape"):
        formats.write_labels("a.npy", np.zeros((3, 3), int), np.eye(4))
    with pytest.raises(ValueError, match="spatial axes"):
        formats.write_image("a.npy", np.zeros((3, 3)))


def test_strange_names(tmp_path: Path) -> None:
    for suffix in formats.BY_SUFFIX:
        file = tmp_path / "größe, 中文" / f"é ü {{1}} .x{suffix.upper()}"
        try:
            formats.write_labels(file, np.eye(5, dtype=np.uint8))
        except RatersError as error:
            assert error.kind == "unwritable", suffix
        else:
            assert (formats.read_labels(file).array == np.eye(5)).all()


def test_start_is_quick() -> None:
    heavy = ["nibabel", "SimpleITK", "PIL", "tifffile", "pydicom", "highdicom", "imagecodecs"]
    code = f"import sys, raters.io.formats; assert not set({heavy}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

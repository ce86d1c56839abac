"""DICOM series and segmentations."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import highdicom
import numpy as np
import pydicom
import pytest
import SimpleITK

import raters
from raters.core.errors import RatersError
from raters.io import formats

SHAPE = (6, 8, 10)  # slices, rows, columns
VOXELS = np.random.default_rng(0).integers(-1000, 1000, SHAPE).astype(np.int16)


def slice_file(index: int, series: str, step: tuple[float, float, float]) -> Any:
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    data = pydicom.Dataset()
    data.file_meta = meta
    data.SOPClassUID = meta.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
    data.SOPInstanceUID = meta.MediaStorageSOPInstanceUID = f"{series}.{index + 1}"
    data.StudyInstanceUID = "1.2"
    data.SeriesInstanceUID = series
    data.FrameOfReferenceUID = "1.4"
    for name in ("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "StudyDate"):
        setattr(data, name, "")
    for name in ("StudyTime", "StudyID", "AccessionNumber", "ReferringPhysicianName"):
        setattr(data, name, "")
    data.Manufacturer = ""
    data.PositionReferenceIndicator = ""
    data.Modality = "CT"
    data.SeriesNumber = 1
    data.InstanceNumber = index + 1
    data.Rows = 8
    data.Columns = 10
    data.PixelSpacing = [0.7, 0.9]
    data.SliceThickness = 2.5
    data.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    position = np.array([-30.5, -20.25, 100]) + index * np.array(step)
    data.ImagePositionPatient = position.tolist()
    data.SamplesPerPixel = 1
    data.PhotometricInterpretation = "MONOCHROME2"
    data.BitsAllocated = 16
    data.BitsStored = 16
    data.HighBit = 15
    data.PixelRepresentation = 1
    data.PixelData = VOXELS[index].tobytes()
    return data


def write_series(
    folder: Path, series: str = "1.3", step: tuple[float, float, float] = (0, 0, 2.5)
) -> Path:
    folder.mkdir(exist_ok=True)
    for index in range(len(VOXELS)):
        file = folder / f"{series}-{(index * 5) % 7}.dcm"  # names in another order than slices
        slice_file(index, series, step).save_as(file, enforce_file_format=True)
    return folder


@pytest.fixture
def series(tmp_path: Path) -> Path:
    return write_series(tmp_path / "série 1")


def write_segmentation(file: Path, series: Path, mask: np.ndarray, kind: str = "BINARY") -> Path:
    code = highdicom.sr.CodedConcept("10200004", "SCT", "Liver")
    segments = [
        highdicom.seg.SegmentDescription(number, f"part {number}", code, code, "MANUAL")
        for number in (1, 2)
    ]
    sources = [pydicom.dcmread(source) for source in series.iterdir()]
    sources.sort(key=lambda source: source.InstanceNumber)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = highdicom.seg.Segmentation(
            sources, mask, kind, segments, "1.5", 1, "1.6", 1, "maker", "model", "1", "serial"
        )
        data.save_as(file)
    return file


def test_series(series: Path) -> None:
    volume = formats.read_image(series)
    header = formats.probe(series)
    np.testing.assert_array_equal(volume.array, VOXELS.transpose(2, 1, 0))
    assert header.shape == volume.array.shape and header.dtype == volume.array.dtype == np.int16
    expected = np.diag([-0.9, -0.7, 2.5, 1])
    expected[:3, 3] = 30.5, 20.25, 100
    np.testing.assert_allclose(volume.affine, expected, atol=1e-12)
    np.testing.assert_array_equal(header.affine, volume.affine)
    assert formats.is_supported(series) and not formats.is_supported(series.parent)
    assert formats.format_of(series).name == "DICOM"


def test_series_as_simpleitk_has_it(series: Path) -> None:
    files = SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(str(series))
    image = SimpleITK.ReadImage(files)
    volume = formats.read_image(series)
    index = (7, 3, 4)
    point = np.array(image.TransformIndexToPhysicalPoint(index)) * [-1, -1, 1]
    assert volume.affine is not None and volume.array[index] == image.GetPixel(index)
    np.testing.assert_allclose((volume.affine @ [*index, 1])[:3], point)


def test_tilted_gantry(tmp_path: Path) -> None:
    affine = formats.probe(write_series(tmp_path / "a", step=(0, 0.5, 2.5))).affine
    assert affine is not None
    np.testing.assert_allclose(affine[:3, 2], [0, -0.5, 2.5], atol=1e-12)


def test_missing_slice(series: Path, capfd: pytest.CaptureFixture[str]) -> None:
    next(file for file in series.iterdir() if pydicom.dcmread(file).InstanceNumber == 3).unlink()
    with pytest.raises(RatersError, match=r"5 mm apart, others 2\.5 mm") as caught:
        formats.read_image(series)
    assert caught.value.kind == "geometry"
    assert capfd.readouterr() == ("", "")


def test_none_or_several_series(series: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_series(series, "1.9")
    with pytest.raises(
        RatersError, match=r"2 DICOM series.*1\.3.* \(6 files\).*1\.9.* \(6 files\)"
    ):
        formats.read_image(series)
    (series / "empty").mkdir()
    with pytest.raises(RatersError, match="no DICOM series"):
        formats.probe(series / "empty")
    assert capfd.readouterr() == ("", "")


def test_single_file(series: Path) -> None:
    file = next(file for file in series.iterdir() if pydicom.dcmread(file).InstanceNumber == 3)
    volume = formats.read_image(file)
    np.testing.assert_array_equal(volume.array, VOXELS[2])
    np.testing.assert_allclose(volume.affine, [[0, -0.9, 30.5], [-0.7, 0, 20.25], [0, 0, 1]])
    with pytest.raises(RatersError, match="expected a DICOM segmentation"):
        formats.read_labels(file)
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(RatersError, match="not a readable DICOM file"):
        formats.read_image(file)


def example_mask() -> np.ndarray:
    mask = np.zeros(SHAPE, np.uint8)
    # Slices 2 and 3 have nothing.
    mask[1, 3:5, 2:6] = 1
    mask[4, 2:4, 1:3] = 1
    mask[4, 6, 7] = 2
    return mask


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BINARY", "LABELMAP"])
def test_segmentation(tmp_path: Path, series: Path, kind: str) -> None:
    mask = example_mask()
    file = write_segmentation(tmp_path / "seg.dcm", series, mask, kind)
    labels = formats.read_labels(file)
    header = formats.probe(file)
    image = formats.probe(series)
    assert header.names == {0: "background", 1: "part 1", 2: "part 2"}
    assert header.shape == labels.array.shape == (10, 8, 4)
    assert header.dtype == labels.array.dtype and image.affine is not None
    whole = formats.embed(labels, image.shape, image.affine)
    np.testing.assert_array_equal(whole.array, mask.transpose(2, 1, 0))


def test_segmentation_of_one_slice(tmp_path: Path, series: Path) -> None:
    mask = example_mask()
    mask[1] = 0
    image = formats.probe(series)
    labels = formats.read_labels(write_segmentation(tmp_path / "seg.dcm", series, mask))
    assert labels.array.shape == (10, 8, 1) and image.affine is not None
    whole = formats.embed(labels, image.shape, image.affine)
    np.testing.assert_array_equal(whole.array, mask.transpose(2, 1, 0))


def test_overlapping_segments(tmp_path: Path, series: Path) -> None:
    mask = np.stack([example_mask() > 0, example_mask() > 1], axis=-1).astype(np.uint8)
    file = write_segmentation(tmp_path / "seg.dcm", series, mask)
    with pytest.raises(RatersError, match=r"1 \(part 1\) and 2 \(part 2\) overlap") as caught:
        formats.read_labels(file)
    assert caught.value.kind == "overlap"


def test_cut_segmentation(tmp_path: Path, series: Path) -> None:
    file = write_segmentation(tmp_path / "seg.dcm", series, example_mask())
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(RatersError) as caught:
        formats.read_labels(file)
    assert caught.value.kind == "unreadable"


def test_missing_package(tmp_path: Path, series: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_segmentation(tmp_path / "seg.dcm", series, example_mask())
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("highdicom"):
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RatersError, match=r"pip install 'raters\[dicom\]'") as caught:
        formats.read_labels(file)
    assert caught.value.kind == "missing-package"


def test_series_and_segmentations_become_a_study(tmp_path: Path) -> None:
    (tmp_path / "scans").mkdir()
    series = write_series(tmp_path / "scans" / "liver")
    masks = {"ann": np.zeros(SHAPE, np.uint8), "bob": np.zeros(SHAPE, np.uint8)}
    masks["ann"][2:4, 1:5, 2:7] = 1
    masks["bob"][3:5, 2:6, 1:6] = 2
    for rater, mask in masks.items():
        (tmp_path / "masks" / rater).mkdir(parents=True)
        write_segmentation(tmp_path / "masks" / rater / "liver.dcm", series, mask)
    study = raters.read(tmp_path / "masks/{rater}/{case}.dcm", images=tmp_path / "scans/{case}")
    case = study["liver"]
    assert study.classes.names == ("background", "part 1", "part 2")
    assert case.image is not None
    np.testing.assert_array_equal(case.image[0].transpose(2, 1, 0), VOXELS)
    for labels, mask in zip(case.labels, masks.values(), strict=True):
        np.testing.assert_array_equal(labels.transpose(2, 1, 0), mask)
    assert [c.name for c in raters.check(study).classes or ()] == list(study.classes.names)
    written = study.write(tmp_path / "study")
    np.testing.assert_array_equal(written["liver"].labels, case.labels)
    assert written["liver"].geometry == case.geometry


def of_instance(series: Path, number: int) -> Path:
    return next(f for f in series.iterdir() if pydicom.dcmread(f).InstanceNumber == number)


DAMAGE = {
    "garbage": lambda content: b"\x07" * len(content),
    "cut in its pixels": lambda content: content[:-30],
    "cut in its header": lambda content: content[:300],
    "empty": lambda content: content[:0],
}


@pytest.mark.parametrize("number", [1, 3, 6])
@pytest.mark.parametrize("damage", DAMAGE)
def test_unreadable_slice_is_named(series: Path, number: int, damage: str) -> None:
    bad = of_instance(series, number)
    bad.write_bytes(DAMAGE[damage](bad.read_bytes()))
    for read in (formats.probe, formats.read_image):
        with pytest.raises(RatersError) as caught:
            read(series)
        assert (caught.value.file, caught.value.kind) == (str(bad), "unreadable")


def test_unreadable_slice_without_a_suffix_is_named(series: Path) -> None:
    for file in list(series.iterdir()):
        file.rename(series / f"IM{file.stem[-1]}")
    assert formats.read_image(series).array.shape == (10, 8, 6)
    bad = of_instance(series, 6)
    bad.write_bytes(b"nothing of use")
    with pytest.raises(RatersError) as caught:
        formats.read_image(series)
    assert caught.value.file == str(bad)


def test_what_is_no_slice_may_lie_beside_the_slices(tmp_path: Path, series: Path) -> None:
    write_segmentation(tmp_path / "seg.dcm", series, example_mask())
    structure = pydicom.dcmread(of_instance(series, 1))
    del structure.PixelData
    structure.SOPClassUID = pydicom.uid.RTStructureSetStorage
    structure.file_meta.MediaStorageSOPClassUID = structure.SOPClassUID
    structure.save_as(series / "structures.dcm")
    for name in ("README.txt", ".1.3-9.dcm", "Thumbs.db"):
        (series / name).write_text("no slice")
    try:
        assert formats.read_image(series).array.shape == (10, 8, 6)
    except RatersError as error:  # GDCM may count the structures as a series of their own
        assert "structures" in str(error) or "2 DICOM series" in str(error)


def test_damaged_image_is_not_blamed_on_masks(tmp_path: Path, series: Path) -> None:
    for rater in ("ann", "bob"):
        (tmp_path / "masks" / rater).mkdir(parents=True)
        write_segmentation(tmp_path / "masks" / rater / "c.dcm", series, example_mask())
    (tmp_path / "images").mkdir()
    bad = of_instance(series.rename(tmp_path / "images" / "c"), 5)
    bad.write_bytes(bad.read_bytes()[:-30])
    masks = f"{tmp_path}/masks/{{rater}}/{{case}}.dcm"
    images = f"{tmp_path}/images/{{case}}"
    study = raters.read(masks, images=images)
    errors = [p for p in raters.check(study).problems if p.level == "error"]
    assert [(p.file, p.rater, p.case) for p in errors] == [(str(bad), None, "c")]
    with pytest.raises(RatersError) as caught:
        _ = study["c"].labels
    assert (caught.value.file, caught.value.rater) == (str(bad), None)


def edit_slices(series: Path, numbers: Iterable[int], **fields: Any) -> None:
    """Change fields of the slices with these numbers."""
    for number in numbers:
        file = of_instance(series, number)
        data = pydicom.dcmread(file)
        for name, value in fields.items():
            setattr(data, name, value)
        data.save_as(file, enforce_file_format=True)


@pytest.mark.parametrize("odd", [[2], [2, 3, 4, 5, 6], [1]])
def test_each_slice_has_its_own_slope(series: Path, odd: list[int]) -> None:
    edit_slices(series, odd, RescaleSlope=0.5, RescaleIntercept=0)
    expected = VOXELS.astype(float)
    expected[np.array(odd) - 1] /= 2
    volume = formats.read_image(series)
    assert formats.probe(series).dtype == volume.array.dtype == np.float64
    np.testing.assert_array_equal(volume.array.transpose(2, 1, 0), expected)


def test_signed_slices_after_unsigned_ones(series: Path) -> None:
    edit_slices(series, range(1, 7), PixelRepresentation=0)
    edit_slices(series, range(2, 7), RescaleSlope=1, RescaleIntercept=-1024)
    expected = VOXELS.view(np.uint16).astype(np.int64)
    expected[1:] -= 1024
    volume = formats.read_image(series)
    assert volume.array.dtype == np.int32
    np.testing.assert_array_equal(volume.array.transpose(2, 1, 0), expected)


@pytest.mark.parametrize("number", [1, 3, 6])
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("PixelSpacing", [1.4, 1.8], "found a slice with the pixel size 1.8 x 1.4"),
        ("PixelSpacing", [0, 0], "found the pixel spacing 0 x 0 mm, expected more than 0"),
        ("ImageOrientationPatient", [0, 1, 0, 1, 0, 0], "found a slice with the orientation"),
    ],
)
def test_a_slice_on_another_grid_is_named(
    series: Path, number: int, field: str, value: list[float], words: str
) -> None:
    edit_slices(series, [number], **{field: value})
    with pytest.raises(RatersError, match=words) as caught:
        formats.read_image(series)
    assert caught.value.file == str(of_instance(series, number))


def test_a_single_file_without_a_spacing_is_named(series: Path) -> None:
    edit_slices(series, [1], PixelSpacing=[0, 0])
    with pytest.raises(RatersError, match="expected more than 0"):
        formats.read_image(of_instance(series, 1))


def test_rounded_headers_are_one_grid(series: Path) -> None:
    edit_slices(series, [3], PixelSpacing=[0.70001, 0.9])
    np.testing.assert_array_equal(formats.read_image(series).array.transpose(2, 1, 0), VOXELS)


def test_a_link_to_no_slice_is_named(series: Path) -> None:
    link = series / "1.3-9.dcm"
    link.symlink_to(series / "gone.dcm")
    with pytest.raises(RatersError, match="a link to a file that is not there") as caught:
        formats.read_image(series)
    assert caught.value.file == str(link)

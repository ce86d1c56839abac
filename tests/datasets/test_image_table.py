"""Tests of tables of image, annotator and class: what is said of wrong tables and images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from raters import RatersError
from raters.datasets import open_dataset, prepare
from tests.support.dataset_errors import assert_data_set_refused, make_data_set
from tests.support.datasets import draw_numbers, save_picture, text

HEADER = "image,annotator,label,true,group,split"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("annotator", "who", "found columns image, who, label, true, group, split, expected one"),
        ("label,true", "said,true", "expected one called label or class or view or answer"),
        (HEADER, f"{HEADER}\\n,ann,A4C,,p1,train", "found no image in row 1"),
        ("p1/b.png,bob", "p1/b.png,", "found nothing in column 'annotator' of row 3"),
        ("p1/b.png", "p1/x.png", "images/p1/x.png: no such file"),
        ("A4C,PLAX,p1,train", "A4C,SAX,p1,train", "found 'PLAX', 'SAX' for task 'images/p1/a'"),
        ("A4C,PLAX,p1,train", "A4C,PLAX,p1,test", "in column 'split', expected one value"),
    ],
)
def test_tables(old: str, new: str, words: str, tmp_path: Path) -> None:
    source = make_data_set("image-table", tmp_path)
    path = source / "labels.csv"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new.replace("\\n", "\n"), 1))
    error = assert_data_set_refused("image-table", source, words)
    assert error.file is not None


def test_a_table_without_rows(tmp_path: Path) -> None:
    text(tmp_path / "labels.csv", HEADER)
    assert_data_set_refused("image-table", tmp_path, "labels.csv", "expected")
    text(tmp_path / "labels.csv")
    assert_data_set_refused("image-table", tmp_path, "labels.csv", "not a table")


def test_two_tables(tmp_path: Path) -> None:
    source = make_data_set("image-table", tmp_path)
    text(source / "more.csv", HEADER)
    assert_data_set_refused("image-table", source, "found labels.csv, more.csv, expected one table")
    assert len(open_dataset("image-table", source / "labels.csv")) == 4


def test_numbers_are_classes_in_their_own_order(tmp_path: Path) -> None:
    for name in ("a.png", "a.tif"):
        save_picture(tmp_path / name, draw_numbers(1, 4, 4))
    text(tmp_path / "t.csv", "file,reader,class", "a.png,x,10", "a.tif,x,9")
    study = open_dataset("image-table", tmp_path)
    assert study.classes.values == (9, 10) and study.cases == ("a.png", "a.tif")
    assert study.reference_labels is None and set(study.index.splits) == {""}


def test_images_of_another_shape(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = make_data_set("image-table", tmp_path / "source")
    save_picture(source / "images/p2/c.png", np.zeros((9, 9), np.uint8))
    with pytest.raises(RatersError, match=r"found images of shape \(1, 9, 9\).*images/p2/c.*expe"):
        prepare("image-table", source, tmp_path / "study")
    assert not prepare("image-table", source, tmp_path / "files", form="canonical").failures


def test_an_image_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = make_data_set("image-table", tmp_path / "source")
    text(source / "images/p1/b.png", "not a picture")
    result = prepare("image-table", source, tmp_path / "study")
    assert result.written == 3 and [failure.case for failure in result.failures] == ["images/p1/b"]
    assert "p1/b.png" in str(result.failures[0])

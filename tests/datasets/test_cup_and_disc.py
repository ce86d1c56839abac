"""Tests of REFUGE and RIGA: how disc and cup become one map, and what is said of wrong files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raters import RatersError
from raters.datasets import open_dataset
from raters.datasets.cup_and_disc import by_values, combined
from tests.support.dataset_errors import assert_data_set_refused, make_data_set, remove
from tests.support.datasets import nerve, save_picture, text


def write_mask(path: Path, mask: Any, value: int = 255) -> Path:
    save_picture(path, np.asarray(mask).astype(np.uint8) * value)
    return path


@pytest.mark.parametrize("value", [1, 255])
def test_the_cup_lies_in_the_disc(value: int, tmp_path: Path) -> None:
    drawn = nerve(0, 1)
    disc = write_mask(tmp_path / "disc.png", drawn > 0, value)
    cup = write_mask(tmp_path / "cup.png", drawn == 2, value)
    np.testing.assert_array_equal(combined(disc, cup).values, drawn)


def test_an_empty_cup_and_an_empty_disc(tmp_path: Path) -> None:
    drawn = nerve(0, 1)
    disc = write_mask(tmp_path / "d.png", drawn > 0)
    none = write_mask(tmp_path / "n.png", drawn > 9)
    np.testing.assert_array_equal(combined(disc, none).values, drawn > 0)
    assert not combined(none, none).values.any()
    with pytest.raises(RatersError, match=r"d\.png: found a cup of \d+ pixels, 0 of them in"):
        combined(none, disc)


def test_a_cup_outside_the_disc(tmp_path: Path) -> None:
    drawn = nerve(0, 1)
    disc = write_mask(tmp_path / "disc.png", drawn > 0)
    cup = write_mask(tmp_path / "cup.png", drawn == 2)
    with pytest.raises(RatersError, match=r"disc\.png: found a cup of .* \(cup\.png\), expected"):
        combined(cup, disc)  # swapped
    moved = write_mask(tmp_path / "moved.png", np.roll(drawn == 2, 8, axis=1))
    with pytest.raises(RatersError, match=r"moved\.png: found a cup of .* expected it inside"):
        combined(disc, moved)


def test_masks_of_one_structure_hold_two_values(tmp_path: Path) -> None:
    drawn = nerve(0, 1)
    cup = write_mask(tmp_path / "cup.png", drawn == 2)
    save_picture(tmp_path / "disc.png", drawn)
    with pytest.raises(RatersError, match=r"disc\.png: found the values 0, 1, 2, expected 0 and"):
        combined(tmp_path / "disc.png", cup)


def test_masks_of_one_annotator_have_one_shape(tmp_path: Path) -> None:
    disc = np.ones((4, 5))
    cup = np.ones((5, 4))
    with pytest.raises(RatersError, match=r"cup\.png: found shape \(5, 4\), expected \(4, 5\)"):
        combined(write_mask(tmp_path / "disc.png", disc), write_mask(tmp_path / "cup.png", cup))


def test_values_that_are_swapped(tmp_path: Path) -> None:
    save_picture(tmp_path / "a.tif", np.array([0, 255, 128], np.uint8)[nerve(0, 1)])
    np.testing.assert_array_equal(by_values(tmp_path / "a.tif", 255, 128).values, nerve(0, 1))
    for rim in (128, None):
        with pytest.raises(RatersError, match=r"a\.tif: found the rim inside the cup \(value 255"):
            by_values(tmp_path / "a.tif", rim, 255)


def test_a_cup_that_touches_the_edge_of_the_disc_is_no_error(tmp_path: Path) -> None:
    values = np.zeros((9, 9), np.uint8)
    values[1:8, 1:8] = 255
    values[3:6, 1:8] = 128
    save_picture(tmp_path / "a.tif", values)
    assert (by_values(tmp_path / "a.tif", 255, 128).values == 2).sum() == 21


def test_an_unexpected_value_names_the_file(tmp_path: Path) -> None:
    source = make_data_set("riga", tmp_path)
    save_picture(
        source / "RIGA-mask/BinRushed/BinRushed1/image1-2.tif", np.full((16, 18), 7, np.uint8)
    )
    study = open_dataset("riga", source)
    with pytest.raises(RatersError, match=r"image1-2\.tif: found the value 7, expected 0, 255 \(r"):
        _ = study["BinRushed/BinRushed1/image1"].labels


def test_a_mask_of_another_shape_than_its_image(tmp_path: Path) -> None:
    source = make_data_set("riga", tmp_path)
    save_picture(source / "RIGA-mask/BinRushed/BinRushed1/image1-2.tif", np.zeros((9, 9), np.uint8))
    study = open_dataset("riga", source)
    with pytest.raises(RatersError, match=r"image1-2\.tif: found shape .*9.* as in .*image1\.tif"):
        _ = study["BinRushed/BinRushed1/image1"].labels


def test_masks_of_riga_without_an_image(tmp_path: Path) -> None:
    source = make_data_set("riga", tmp_path)
    (source / "RIGA/Magrabia/MagrabiaMale/image7.tif").unlink()
    assert_data_set_refused("riga", source, "MagrabiaMale/image7.tif", "no such file")


def test_a_folder_of_riga_without_masks(tmp_path: Path) -> None:
    source = make_data_set("riga", tmp_path)
    remove(source / "RIGA-mask/MESSIDOR_Base1")
    assert_data_set_refused("riga", source, "RIGA-mask/MESSIDOR_Base1/Labeled", "no such folder")


def test_original_drawings_are_recognised(tmp_path: Path) -> None:
    save_picture(tmp_path / "MESSIDOR/MESSIDOR/image1prime.tif", np.zeros((4, 4, 3), np.uint8))
    assert_data_set_refused(
        "riga", tmp_path, "found the original drawings of RIGA", "Expected for riga:"
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("maskName", "mask", "expected a column 'maskName'"),
        (",0,0\n", ",0,1\n", "found no row of rater 0"),
        ("FinalLabel", "Final", "expected 'FinalLabel' in its path"),
        ("image7.tif", "image8.tif", "image8.tif: no such file"),
    ],
)
def test_tables_of_masks(old: str, new: str, words: str, tmp_path: Path) -> None:
    source = make_data_set("riga:mrnet", tmp_path)
    path = source / "Glaucoma_multirater_Magrabia.csv"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert_data_set_refused("riga", source, words)


def test_an_empty_table_of_masks(tmp_path: Path) -> None:
    text(tmp_path / "Glaucoma_multirater_Magrabia.csv", "imgName,maskName,rater")
    assert_data_set_refused(
        "riga", tmp_path, "Glaucoma_multirater_Magrabia.csv", "found no rows, expected a column"
    )


def test_a_part_of_refuge(tmp_path: Path) -> None:
    source = make_data_set("refuge", tmp_path)
    remove(source / "Validation-400")
    study = open_dataset("refuge", source)
    assert study.cases == ("train/0826", "test/T0001")
    assert "0 of 400 val images" in study.about["note"]


def test_a_missing_image_of_refuge(tmp_path: Path) -> None:
    source = make_data_set("refuge", tmp_path)
    (source / "Training-400/0826/0826.jpg").unlink()
    assert_data_set_refused(
        "refuge", source, "Training-400/0826/0826.jpg", "no such file", "Expected for refuge:"
    )

"""Tests of Cityscapes: polygons against a drawing of its own, and what is said of wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raters.datasets import open_dataset
from raters.datasets.cityscapes import CLASSES, IGNORED, draw
from tests.support.dataset_errors import (
    assert_data_set_refused,
    assert_refuses,
    make_data_set,
    remove,
)
from tests.support.datasets import POLYGONS, save_picture, text

VAL = "val/frankfurt/frankfurt_000000_000294"
DRAWN = "gtFine/train/zurich/zurich_000001_000019_gtFine_polygons.json"


def refused_reference(source: Path, case: str, *words: str) -> None:
    study = open_dataset("cityscapes", source)
    assert_refuses(lambda: study[case].reference, *words)


def test_every_label_id_is_a_class_or_ignored_and_none_is_both() -> None:
    scored = {number: name for number, name in CLASSES.items() if number}
    assert len(scored) == 19 and not scored.keys() & IGNORED.keys()
    assert scored.keys() | IGNORED.keys() == set(range(34))


def test_later_polygons_lie_over_earlier_ones(tmp_path: Path) -> None:
    """Compare with the even-odd rule at the centres of pixels, where no outline passes."""
    entries: list[dict[str, Any]] = [
        {"label": "sky", "polygon": [[0, 0], [29, 0], [29, 19], [0, 19]]},
        {"label": "building", "polygon": [[3, 2], [20, 5], [15, 17], [6, 14]]},
        {"label": "tunnel", "polygon": [[10, 3], [26, 8], [12, 12]]},
    ]
    path = tmp_path / "a_polygons.json"
    text(path, json.dumps({"imgHeight": 20, "imgWidth": 30, "objects": entries}))
    expected = np.zeros((20, 30), int)
    distance = np.full((20, 30), np.inf)
    for entry, number in zip(entries, (23, 11, 16), strict=True):
        inside, near = _even_odd(entry["polygon"])
        expected[inside] = number
        distance = np.minimum(distance, near)
    clear = distance > 1
    assert clear.sum() > 200
    np.testing.assert_array_equal(draw(path)[clear], expected[clear])


def _even_odd(polygon: list[list[int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return which pixels lie inside, and how far each is from the outline."""
    rows, columns = np.indices((20, 30), float)
    inside = np.zeros((20, 30), bool)
    near = np.full((20, 30), np.inf)
    for (x0, y0), (x1, y1) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if y0 != y1:
            at = (x1 - x0) * (rows - y0) / (y1 - y0) + x0
            inside ^= ((y0 > rows) != (y1 > rows)) & (columns < at)
        length = (x1 - x0) ** 2 + (y1 - y0) ** 2
        t = np.clip(((columns - x0) * (x1 - x0) + (rows - y0) * (y1 - y0)) / length, 0, 1)
        near = np.minimum(near, np.hypot(columns - x0 - t * (x1 - x0), rows - y0 - t * (y1 - y0)))
    return inside, near


def test_pictures_come_before_polygons(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    save_picture(
        source / DRAWN.replace("polygons.json", "labelIds.png"), np.full((8, 12), 23, np.uint8)
    )
    study = open_dataset("cityscapes", source)
    reference = study["train/zurich_000001_000019"].reference
    np.testing.assert_array_equal(reference, study.classes.names.index("sky"))


def test_without_coarse_labels_there_is_no_rater(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    remove(source / "gtCoarse")
    study = open_dataset("cityscapes", source)
    assert study.raters == () and len(study) == 4
    assert_data_set_refused("cityscapes-coarse", source, "gtCoarse/train/aachen", "no such file")


def test_without_fine_labels_coarse_ones_remain(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    remove(source / "gtFine")
    study = open_dataset("cityscapes-coarse", source)
    assert study.raters == ("coarse",) and all(case.reference is None for case in study)


def test_masks_beside_drawings_need_fine_labels(tmp_path: Path) -> None:
    source = make_data_set("cityscapes-kinds", tmp_path)
    remove(source / "gtFine/val")
    study = open_dataset("cityscapes-kinds", source)
    assert study.raters == ("fine", "coarse") and study["val/frankfurt_000000_000294"].labels.size
    remove(source / "gtFine")
    assert_data_set_refused("cityscapes-kinds", source, "gtFine/train/aachen", "no such file")


def test_only_test_images(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    for split in ("train", "val"):
        remove(source / "leftImg8bit" / split)
    assert_data_set_refused("cityscapes", source, "gtFine", "Expected for cityscapes:")


def test_labels_without_an_image(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    (source / f"leftImg8bit/{VAL}_leftImg8bit.png").unlink()
    assert_data_set_refused(
        "cityscapes", source, "frankfurt_000000_000294_leftImg8bit.png", "no such file"
    )


def test_a_label_id_that_is_none(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    save_picture(source / f"gtFine/{VAL}_gtFine_labelIds.png", np.full((8, 12), 34, np.uint8))
    words = (
        "frankfurt_000000_000294_gtFine_labelIds.png",
        "found the label id 34, expected 0 to 33",
    )
    refused_reference(source, "val/frankfurt_000000_000294", *words)


def test_labels_of_another_shape(tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    save_picture(source / f"gtFine/{VAL}_gtFine_labelIds.png", np.full((9, 12), 7, np.uint8))
    words = ("frankfurt_000000_000294_gtFine_labelIds.png", "found shape", "leftImg8bit.png")
    refused_reference(source, "val/frankfurt_000000_000294", *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "found no polygons"),
        ('{"imgWidth": 12, "imgHeight": 8}', "KeyError: 'objects'"),
        ({"label": "tree", "polygon": [[0, 0], [1, 1], [1, 0]]}, "found the label 'tree'"),
        ({"label": "treegroup", "polygon": [[0, 0], [1, 1], [1, 0]]}, "label 'treegroup'"),
        ({"label": "road", "polygon": [[0, 0]]}, "found 1 points of a road, expected a polygon"),
        ({"label": "road", "polygon": [["a", 0]]}, "found no polygons"),
    ],
)
def test_polygons_that_are_none(content: Any, words: str, tmp_path: Path) -> None:
    source = make_data_set("cityscapes", tmp_path)
    whole = {"imgHeight": 8, "imgWidth": 12, "objects": [*POLYGONS, content]}
    text(source / DRAWN, content if isinstance(content, str) else json.dumps(whole))
    refused_reference(source, "train/zurich_000001_000019", "gtFine_polygons.json", words)


@pytest.mark.parametrize("name", ["cityscapes", "cityscapes-coarse"])
def test_coarse_labels_are_positive_drawings(tmp_path: Path, name: str) -> None:
    """What the polygons leave out is unknown; one class alone, the others are background."""
    study = open_dataset(name, make_data_set("cityscapes-coarse", tmp_path))
    assert dict(study.annotations) == {"coarse": "positive"}
    assert study.unmarked == "unknown"
    case = next(case for case in study if (case.labels > 0).any())
    assert np.array_equal(case.labels, case.drawings)
    assert not (case.labels == 0).any()
    drawn = case.labels[0]
    one = int(drawn[drawn > 0][0])
    part = study.select(classes=[study.classes.names[one]])[case.id].labels[0]
    assert np.array_equal(part, np.where(drawn < 0, drawn, drawn == one))
    written = study.select(cases=[case.id]).write(tmp_path / "study")
    assert dict(written.annotations) == {"coarse": "positive"}
    assert np.array_equal(written[0].labels, case.labels)

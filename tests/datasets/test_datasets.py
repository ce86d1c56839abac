"""Tests of the public data sets: each is made in its true layout, prepared, and read again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import raters
from raters import RatersError
from raters.datasets import DATASETS, find, open_dataset, prepare
from tests.support.datasets import MADE, assert_equal_arrays, mnist

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"


@pytest.mark.slow
@pytest.mark.parametrize("key", MADE)
def test_prepare(key: str, tmp_path: Path) -> None:
    make, check = MADE[key]
    source = tmp_path / "source"
    name = key.partition(":")[0]
    source.mkdir()
    source = make(source)
    as_downloaded = open_dataset(name, source)
    check(as_downloaded)
    result = prepare(name, source, tmp_path / "study")
    assert not result.failures
    study = raters.read(tmp_path / "study")
    check(study)
    assert raters.check(study).counts == raters.check(as_downloaded).counts
    dataset = DATASETS[name]
    about = {"title": dataset.title, "licence": dataset.licence, "citation": dataset.citation}
    assert about.items() <= dict(study.about).items()


@pytest.mark.parametrize("name", DATASETS)
def test_registry(name: str) -> None:
    dataset = DATASETS[name]
    assert dataset.name == name
    assert name in MADE, f"{name} has no maker in tests/support/datasets.py"
    for word in ("title", "raters", "licence", "citation", "layout", "where"):
        assert getattr(dataset, word).strip(), f"{name} has no {word}"
    for item in dataset.downloads:
        assert re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", item.checksum)
        assert item.url.endswith(item.file) and item.bytes > 0


@pytest.mark.parametrize("name", DATASETS)
def test_documented(name: str) -> None:
    dataset = DATASETS[name]
    pages = DOCS.read_text().split("\n## ")
    section = next((p for p in pages if p.startswith(f"{name}\n")), None)
    assert section is not None, f"docs/datasets.md has no section '## {name}'"
    words = " ".join(section.split())
    assert f"raters prepare {name} " in words
    assert dataset.licence in words and dataset.raters in words
    for sentence in dataset.citation.split(". "):
        assert sentence.rstrip(".") in words
    assert dataset.layout.strip() in section


def test_makers_are_of_known_data_sets() -> None:
    assert {key.partition(":")[0] for key in MADE} == set(DATASETS)


def test_form_can_be_chosen(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    mnist(source)
    prepare("mnist-masks", source, tmp_path / "files", form="canonical")
    assert (tmp_path / "files/reference/test/00002.png").exists()
    MADE["mnist-masks"][1](raters.read(tmp_path / "files"))


def test_lidc_takes_the_form_that_suits_the_source(tmp_path: Path) -> None:
    for key, packed in (("lidc", False), ("lidc:npz", True), ("lidc:sqlite", False)):
        folder = tmp_path / key.replace(":", "-")
        out = tmp_path / f"{len(key)}-study"
        folder.mkdir()
        prepare("lidc", MADE[key][0](folder), out)
        assert (out / "labels.npy").exists() == packed


def test_a_changed_source_is_written_anew(tmp_path: Path) -> None:
    source = tmp_path / "source"
    out = tmp_path / "study"
    source.mkdir()
    mnist(source)
    assert prepare("mnist-masks", source, out).written == 8
    assert prepare("mnist-masks", source, out).skipped == 8
    path = source / "train-images-idx3-ubyte.gz"
    os.utime(path, (1, 1))
    assert prepare("mnist-masks", source, out).written == 8


def test_a_file_may_be_named_instead_of_its_folder(tmp_path: Path) -> None:
    for key in ("lidc:npz", "anaesthetist"):
        folder = tmp_path / key.replace(":", "-")
        folder.mkdir()
        MADE[key][0](folder)
        MADE[key][1](open_dataset(key.partition(":")[0], next(folder.iterdir())))


def test_labels_of_lidc_that_are_absent_mean_nothing_was_drawn(tmp_path: Path) -> None:
    MADE["lidc"][0](tmp_path)
    (tmp_path / "LIDC-IDRI-0012/nodule-2/mask-3/slice-0.png").unlink()
    study = open_dataset("lidc", tmp_path)
    assert_equal_arrays(study["LIDC-IDRI-0012/2/0"].labels[3], 0)
    assert "1 masks are absent and read as empty" in study.about["note"]


def test_names() -> None:
    assert find("lidc") is DATASETS["lidc"]
    with pytest.raises(RatersError, match=r"found the data set 'CHASE_DB'.*mean 'chase-db1'"):
        find("CHASE_DB")
    with pytest.raises(RatersError, match=r"expected one of anaesthetist,.*raters prepare --list"):
        find("xyz")


def test_registry_imports_nothing_heavy() -> None:
    code = (
        "import sys, raters.datasets; "
        "print({'pandas', 'pyarrow', 'PIL', 'scipy', 'SimpleITK', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

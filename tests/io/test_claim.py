"""Whose a folder is: new ones and their own are written to by verbs, nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from raters.core.errors import RatersError
from raters.io.claim import MARK_FILE, Owner, check_folder, claim_folder
from raters.io.results import LOCK_FILE

AGREE = Owner("agree", "one of raters agree")
FUSE = Owner("fuse", "a fusion", journals=(".fuse.jsonl",), left=("cache",))


def test_new_and_empty_folders_are_anybody_s(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    check_folder(tmp_path, AGREE, ["a.csv"])
    check_folder(tmp_path / "new", AGREE, ["a.csv"])
    assert not (tmp_path / "new").exists()


def test_own_files_may_be_replaced_and_no_others(tmp_path: Path) -> None:
    claim_folder(tmp_path, AGREE, ["a.csv"])
    for name in ("a.csv", "b.csv", "notes.txt"):
        (tmp_path / name).touch()
    check_folder(tmp_path, AGREE, ["a.csv", "c.csv"])
    with pytest.raises(RatersError, match=r"found b\.csv, which raters agree did not write"):
        check_folder(tmp_path, AGREE, ["a.csv", "b.csv"])


def test_what_was_noted_stays_noted(tmp_path: Path) -> None:
    for names in (["a.csv"], ["b.csv"]):
        claim_folder(tmp_path, AGREE, names)
        (tmp_path / names[0]).touch()
    claim_folder(tmp_path, AGREE, ["a.csv", "b.csv"])


def test_a_link_to_nothing_is_a_file_too(tmp_path: Path) -> None:
    claim_folder(tmp_path, AGREE, ["a.csv"])
    (tmp_path / "b.csv").symlink_to("gone")
    with pytest.raises(RatersError, match=r"found b\.csv"):
        claim_folder(tmp_path, AGREE, ["b.csv"])


def test_others_are_named(tmp_path: Path) -> None:
    claim_folder(tmp_path, AGREE, ["a.csv"])
    (tmp_path / "a.csv").touch()
    with pytest.raises(RatersError, match="expected a new one or a fusion"):
        check_folder(tmp_path, FUSE)


def test_a_journal_is_a_mark(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    check_folder(tmp_path, FUSE)
    (tmp_path / "c0.png").touch()
    with pytest.raises(RatersError, match=r"other files \(c0\.png\)"):
        check_folder(tmp_path, FUSE)
    (tmp_path / ".fuse.jsonl").touch()
    check_folder(tmp_path, FUSE)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 100_000, '{"files": {"agree": ["a.csv"]}}', '{"format": 1}']
)
def test_a_mark_of_somebody_else_marks_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / MARK_FILE).write_text(text)
    with pytest.raises(RatersError, match=r"other files \(\.raters\.json\)"):
        claim_folder(tmp_path, AGREE, ["a.csv"])
    assert (tmp_path / MARK_FILE).read_text() == text


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(RatersError, match="found a file, expected a folder"):
        claim_folder(tmp_path / "mine", AGREE, ["a.csv"])

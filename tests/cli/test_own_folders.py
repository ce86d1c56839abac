"""Verbs write into new folders and their own: whatever else is there stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from raters.io.results import only_one
from tests.support.command_line import (
    Run,
    assert_refused,
    assert_succeeded,
    blob,
    draw_masks,
    fingerprint,
    save_png,
)

MASKS = "masks/{rater}/{case}.png"
EVALUATE = ("evaluate", "masks/ann", MASKS, "--reference", "truth/{case}.png")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with masks, references and images."""
    draw_masks(tmp_path)
    for k in range(3):
        save_png(tmp_path / f"truth/c{k}.png", blob(k))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_nothing_changes(folder: Path, call: Callable[[], object]) -> None:
    before = fingerprint(folder)
    call()
    assert fingerprint(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("words", [("agree", MASKS), EVALUATE, ("report", MASKS)])
@pytest.mark.parametrize("name", ["cases.csv", "notes.txt", "tables/pairs.csv"])
def test_a_folder_with_own_files_is_refused(
    folder: Path, run_raters: Run, words: tuple[str, ...], name: str
) -> None:
    (folder / "mine" / name).parent.mkdir(parents=True)
    (folder / "mine" / name).write_text("years of work")
    shown = name.split("/")[0]

    def call() -> None:
        outcome = run_raters(*words, "-o", "mine")
        assert_refused(outcome, f"mine: found a folder with other files ({shown})")

    assert_nothing_changes(folder, call)


@pytest.mark.parametrize("words", [("agree", MASKS), EVALUATE, ("report", MASKS)])
def test_studies_and_fusions_are_no_place_for_tables(
    folder: Path, run_raters: Run, words: tuple[str, ...]
) -> None:
    split = ("--new-split", "train=0.5,test=0.5")
    assert_succeeded(run_raters("import", MASKS, "-o", "study", *split))
    assert_succeeded(run_raters("fuse", MASKS, "-m", "vote", "-o", "fused"))

    def call() -> None:
        for place in ("study", "fused"):
            assert_refused(run_raters(*words, "-o", place), f"{place}: found a folder with other")

    assert_nothing_changes(folder, call)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("agree", MASKS), "cases.csv"),
        (EVALUATE, "summary.csv"),
        (("report", MASKS), "report.html"),
        (("report", MASKS, "--sheets"), "sheets/ann.html"),
    ],
)
def test_own_folders_are_written_again(
    folder: Path, run_raters: Run, words: tuple[str, ...], file: str
) -> None:
    assert_succeeded(run_raters(*words, "-o", "out"))
    expected = (folder / "out" / file).read_bytes()
    (folder / "out" / file).write_text("old")
    (folder / "out/notes.txt").write_text("mine")
    assert_succeeded(run_raters(*words, "-o", "out"))
    assert (folder / "out" / file).read_bytes() == expected
    assert (folder / "out/notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_figure_that_the_report_did_not_write(folder: Path, run_raters: Run) -> None:
    assert_succeeded(run_raters("report", MASKS, "-o", "out"))
    (folder / "out/sheets").mkdir()
    (folder / "out/sheets/ann.html").write_text("mine")

    def call() -> None:
        outcome = run_raters("report", MASKS, "-o", "out", "--sheets")
        assert_refused(outcome, "found sheets/ann.html, which raters report did not write")

    assert_nothing_changes(folder, call)


def test_the_demo_does_not_join_a_study(folder: Path, run_raters: Run) -> None:
    def call() -> None:
        outcome = run_raters("demo", "--draw", "-o", ".")
        assert_refused(outcome, "found a folder with other files (images)")

    assert_nothing_changes(folder, call)


@pytest.mark.slow
def test_the_demo_keeps_what_is_there(
    tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raters.demo.draw.CASES", 2)
    monkeypatch.chdir(tmp_path)
    assert_succeeded(run_raters("demo", "--draw", "-o", "."))
    (tmp_path / "images/lesions0.png").unlink()
    save_png(tmp_path / "truth/lesions0.png", blob(size=128, value=255))
    save_png(tmp_path / "images/mine.png", blob(size=128))
    before = fingerprint(tmp_path / "truth", tmp_path / "masks")
    assert_succeeded(run_raters("demo", "--draw", "-o", "."))
    assert fingerprint(tmp_path / "truth", tmp_path / "masks") == before
    assert (tmp_path / "images/lesions0.png").exists()


def test_a_confusion_replaces_no_other_file(folder: Path, run_raters: Run) -> None:
    (folder / "manifest.csv").write_text("mine")
    words = ("simulate", "truth/{case}.png", "--raters", "good:1", "-o", "study", "--confusion")

    def call() -> None:
        assert_refused(run_raters(*words, "manifest.csv"), "manifest.csv: found a file that is no")

    assert_nothing_changes(folder, call)
    for _ in range(2):
        assert_succeeded(run_raters(*words, "confusion.npz"), "true confusion written")


def test_a_case_that_was_taken_out_is_named(folder: Path, run_raters: Run) -> None:
    assert_succeeded(run_raters("fuse", MASKS, "-m", "vote", "-o", "fused"))
    assert "still holds" not in run_raters("fuse", MASKS, "-m", "vote", "-o", "fused").out
    for mask in folder.glob("masks/*/c0.png"):
        mask.unlink()
    outcome = run_raters("fuse", MASKS, "-m", "vote", "-o", "fused")
    assert_succeeded(outcome, "fused still holds the consensus of case 'c0', not in this study")
    assert (folder / "fused/c0.png").exists()


@pytest.mark.parametrize("words", [("report", MASKS, "-o"), ("agree", MASKS, "--maps")])
def test_a_folder_in_use_is_refused(folder: Path, run_raters: Run, words: tuple[str, ...]) -> None:
    with only_one(folder / "out"):
        assert_refused(run_raters(*words, "out"), "out: is in use by process")
    assert_succeeded(run_raters(*words, "out"))


class TestFusedTables:
    """A fusion of a table looks at what is there, as one of masks does."""

    @pytest.fixture
    def tables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        rows = [f"t{t},w{w},{(t + w) % 2}" for t in range(6) for w in range(3)]
        for name in ("a.csv", "b.csv"):
            (tmp_path / name).write_text("task,worker,label\n" + "\n".join(rows) + "\n")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_other_work_is_refused(self, tables: Path, run_raters: Run) -> None:
        assert_succeeded(run_raters("fuse", "a.csv", "-m", "vote", "-o", "f"))

        def call() -> None:
            outcome = run_raters("fuse", "b.csv", "-m", "vote", "-o", "f")
            assert_refused(outcome, "f: holds other work", "../a.csv", "../b.csv")
            outcome = run_raters("fuse", "a.csv", "-m", "dawid-skene", "-o", "f")
            assert_refused(outcome, 'fusion method "vote" there, "dawid-skene" now')

        assert_nothing_changes(tables, call)
        assert_succeeded(run_raters("fuse", "b.csv", "-m", "dawid-skene", "-o", "f", "--overwrite"))

    def test_a_table_that_grew_is_fused_again(self, tables: Path, run_raters: Run) -> None:
        whole = (tables / "a.csv").read_text()
        assert_succeeded(run_raters("fuse", "a.csv", "-m", "vote", "-o", "f"))
        (tables / "a.csv").write_text(whole + "t6,w1,1\n")
        assert_succeeded(run_raters("fuse", "a.csv", "-m", "vote", "-o", "f"), "7 cases fused")
        assert "t6,1" in (tables / "f/labels.csv").read_text()

        (tables / "a.csv").write_text(whole)

        def call() -> None:
            outcome = run_raters("fuse", "a.csv", "-m", "vote", "-o", "f")
            assert_refused(outcome, "f: holds the task 't6', which is not in this table")

        assert_nothing_changes(tables, call)

    def test_masks_and_tables_do_not_mix(self, tables: Path, run_raters: Run) -> None:
        draw_masks(tables)
        assert_succeeded(run_raters("fuse", MASKS, "-m", "vote", "-o", "of-masks"))
        assert_succeeded(run_raters("fuse", "a.csv", "-m", "vote", "-o", "of-table"))

        def call() -> None:
            outcome = run_raters("fuse", "a.csv", "-m", "vote", "-o", "of-masks")
            assert_refused(outcome, "of-masks: holds other work")
            outcome = run_raters("fuse", MASKS, "-m", "vote", "-o", "of-table")
            assert_refused(outcome, "of-table: holds other work")

        assert_nothing_changes(tables, call)

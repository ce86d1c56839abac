"""A plain folder as STUDY, in every verb: what it was taken as is said, or it is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import raters
from raters.core.errors import RatersError
from tests.support.command_line import Run, assert_words, blob, draw_masks, save_png


def test_a_folder_is_read_as_its_pattern_would_be(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    save_png(tmp_path / "truth/c0.png", blob())
    save_png(tmp_path / "consensus/c0.png", blob())
    guessed = run_raters("check", tmp_path, "--json")
    images = f"{tmp_path}/images/{{case}}.png"
    reference = f"{tmp_path}/truth/{{case}}.png"
    masks = f"{tmp_path}/masks/{{rater}}/{{case}}.png"
    line = f"taken as {masks}, images={images}, reference={reference}: 2 raters, 3 cases"
    assert guessed.err.strip() == f"{line}; left out: consensus/ (1 file)"
    typed = run_raters("check", masks, "--images", images, "--reference", reference, "--json")
    assert json.loads(guessed.out) == json.loads(typed.out)


def test_what_raters_wrote_beside_the_data_is_no_part_of_it(
    run_raters: Run, tmp_path: Path
) -> None:
    draw_masks(tmp_path)
    before = raters.read(tmp_path)
    before.write(tmp_path / "imported")
    assert run_raters("fuse", tmp_path, "-m", "vote", "-o", tmp_path / "fused").code == 0
    assert raters.read(tmp_path).notes == before.notes


def test_a_pattern_that_takes_other_files_too_is_refused(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    raters.read(tmp_path).write(tmp_path / "imported")
    shutil.copytree(tmp_path / "masks", tmp_path / "masks_old")
    outcome = run_raters("check", tmp_path)
    assert outcome.code == 2
    assert_words(outcome.err, "imported/", "fits too", "expected a pattern of the masks alone")


def test_masks_that_are_missing_are_counted(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    (tmp_path / "masks/bob/c1.png").unlink()
    line = run_raters("check", tmp_path / "masks").err.strip()
    assert line.endswith(": 2 raters, 3 cases, 1 mask missing")


def test_every_verb_takes_the_folder(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for verb in (["agree"], ["fuse", "-m", "vote", "-o", tmp_path / "out"]):
        outcome = run_raters(verb[0], tmp_path / "masks", *verb[1:])
        assert outcome.code == 0, outcome
        assert outcome.err.count("taken as") == 1
    # What a fusion remembers is the pattern, which stays what it is when files are added.
    assert "masks/{rater}/{case}.png" in (tmp_path / "out/source.yaml").read_text()


@pytest.mark.slow
def test_the_report_takes_the_folder(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    outcome = run_raters("report", tmp_path / "masks", "-o", tmp_path / "page.html")
    assert outcome.code == 0, outcome
    assert (tmp_path / "page.html").exists()


def test_options_win_over_what_was_guessed(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    save_png(tmp_path / "other/c0.png", blob())
    own = f"{tmp_path}/other/{{case}}.png"
    outcome = run_raters("check", tmp_path / "masks", "--images", own, "--raters", "ann", "--json")
    found = json.loads(outcome.out)
    assert [rater["name"] for rater in found["raters"]] == ["ann"]
    assert found["images"] == 1


def test_python_says_it_in_a_note(tmp_path: Path) -> None:
    draw_masks(tmp_path)
    study = raters.read(tmp_path / "masks")
    assert study.raters == ("ann", "bob")
    assert study.notes == (f"taken as {tmp_path}/masks/{{rater}}/{{case}}.png: 2 raters, 3 cases",)


def test_several_layouts_are_listed_as_commands(run_raters: Run, tmp_path: Path) -> None:
    for first in "ab":
        for second in "12":
            save_png(tmp_path / f"x{first}1/y{second}.png", blob())
    outcome = run_raters("check", tmp_path)
    assert outcome.code == 2
    assert_words(outcome.err, "which one is meant?", f"raters check '{tmp_path}/{{")


def test_a_folder_without_a_layout_says_what_was_expected(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    outcome = run_raters("check", tmp_path / "masks/ann")
    assert outcome.code == 2
    assert_words(outcome.err, "'c0.png'", "masks/{rater}/{case}", "name the folder above")


def test_a_folder_of_colours_among_the_raters_holds_the_images(tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for case in range(3):
        save_png(tmp_path / f"masks/Noisy/c{case}.png", np.stack([255 * blob()] * 3, -1))
    study = raters.read(tmp_path / "masks")
    assert study.raters == ("ann", "bob")
    assert study[0].image is not None
    assert "Noisy" in study.notes[0]


def test_pictures_of_classes_are_no_masks(tmp_path: Path) -> None:
    for kind in ("apple", "pear"):
        for case in range(3):
            save_png(tmp_path / f"{kind}/{case}.png", np.stack([255 * blob()] * 3, -1))
    with pytest.raises(RatersError, match="no names that tell raters from cases"):
        raters.read(tmp_path)


def test_numbered_slots_are_anonymous(run_raters: Run, tmp_path: Path) -> None:
    for case in "123":
        for slot in "01":
            save_png(tmp_path / f"patient-{case}/mask-{slot}.png", blob())
    outcome = run_raters("check", tmp_path)
    assert "mask-{rater}.png: 2 anonymous raters, 3 cases" in outcome.err
    assert raters.read(tmp_path).about == {"raters": "anonymous"}


def test_a_saved_study_is_a_study(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_masks(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    outcome = run_raters("check", "data", "--ignore", "9", "--save", "data/study.yaml", "--json")
    saved = Path("data/study.yaml").read_text()
    assert saved.splitlines()[1:] == [
        "source: masks/{rater}/{case}.png",
        "images: images/{case}.png",
        "ignore:",
        "- 9",
    ]
    (tmp_path / "data").rename(tmp_path / "moved")
    for source in ("moved/study.yaml", "moved"):
        again = run_raters("check", source, "--json")
        assert json.loads(again.out) == json.loads(outcome.out)
    assert raters.read("moved/study.yaml", raters=["bob"]).raters == ("bob",)
    assert run_raters("check", "moved", "--save", "moved/study.yaml").code == 0


@pytest.mark.parametrize("name", ["data.txt", "none/study.yaml", "taken.yaml"])
def test_a_study_is_saved_only_under_a_free_name(
    run_raters: Run, tmp_path: Path, name: str
) -> None:
    draw_masks(tmp_path / "data")
    (tmp_path / "taken.yaml").write_text("mine: 1\n")
    outcome = run_raters("check", tmp_path / "data", "--save", tmp_path / name)
    assert outcome.code == 2
    assert (tmp_path / "taken.yaml").read_text() == "mine: 1\n"

"""What `raters check` finds odd: codings, columns of names, images that match nothing, ..."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raters
from tests.support.command_line import Run, blob, draw_masks, images_option, pattern, save_png


def problems_by_kind(run_raters: Run, *arguments: object) -> dict[str, list[str]]:
    """Return the messages of `raters check` by kind."""
    found: dict[str, list[str]] = {}
    for problem in json.loads(run_raters("check", *arguments, "--json").out)["problems"]:
        found.setdefault(problem["kind"], []).append(problem["message"])
    return found


def write_answers(folder: Path, *rows: str) -> Path:
    path = folder / "answers.csv"
    path.write_text("\n".join(["task,worker,label", *rows, ""]))
    return path


# Masks.


def test_the_same_class_under_different_values(run_raters: Run, tmp_path: Path) -> None:
    for rater, value in (("ann", 1), ("bob", 2), ("cy", 255)):
        draw_masks(tmp_path, raters=(rater,), value=value)
    message = problems_by_kind(run_raters, pattern(tmp_path))["coding"]
    assert message[0].startswith(
        "rater 'ann' uses 0 and 1, rater 'bob' 0 and 2, rater 'cy' 0 and 255: the same class"
    )
    assert "coding" not in problems_by_kind(run_raters, pattern(tmp_path), "--threshold", 0)
    assert "coding" not in problems_by_kind(run_raters, pattern(tmp_path), "--values", "0,1,2,255")
    assert "coding" not in problems_by_kind(
        run_raters, pattern(tmp_path), "--raters", "ann,bob", "--ignore", 2
    )
    save_png(tmp_path / "masks/bob/c9.png", blob(value=1))  # he uses both
    assert "coding" not in problems_by_kind(run_raters, pattern(tmp_path))


def test_white_and_one_are_understood_and_no_problem(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, raters=("ann",), value=1)
    draw_masks(tmp_path, raters=("bob",), value=255)
    save_png(tmp_path / "masks/bob/c0.png", blob(3, value=255))
    named = ("--values", "0=bg,1=lesion")
    assert problems_by_kind(run_raters, pattern(tmp_path)) == {}
    assert "unknown-value" not in problems_by_kind(run_raters, pattern(tmp_path), *named)
    study = raters.read(pattern(tmp_path), values="0=bg,1=lesion")
    assert set(np.unique(study["c0"].labels)) == {0, 1}
    mixed = blob(value=255)
    mixed[0, 0] = 1
    save_png(tmp_path / "masks/bob/c1.png", mixed)
    assert "255" in problems_by_kind(run_raters, pattern(tmp_path), *named)["unknown-value"][0]
    found = problems_by_kind(run_raters, pattern(tmp_path), "--values", "0=bg,1=lesion,2=cyst")
    assert len(found["unknown-value"]) == 3  # 255 is a value as any other there


def test_a_class_that_others_cover(run_raters: Run, tmp_path: Path) -> None:
    cup = np.zeros((12, 12), np.uint8)
    cup[4:6, 4:6] = 1
    for k in range(2):
        save_png(tmp_path / f"masks/ann/c{k}_cup.png", cup)
        save_png(tmp_path / f"masks/ann/c{k}_disc.png", blob())
    where = f"{tmp_path}/masks/{{rater}}/{{case}}_{{class}}.png"
    found = problems_by_kind(run_raters, where, "--overlap", "priority")
    assert "'cup' is drawn and wholly covered" in found["covered"][0]
    assert "2 masks" in found["covered"][0]
    good = problems_by_kind(run_raters, where, "--overlap", "priority", "--values", "1=disc,2=cup")
    assert "covered" not in good


def test_images_that_match_no_mask(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for path in sorted((tmp_path / "images").iterdir()):
        path.rename(path.with_name(f"img_{path.name}"))
    found = problems_by_kind(run_raters, pattern(tmp_path), *images_option(tmp_path))
    assert "'c0'" in found["no-match"][0] and "'img_c0'" in found["no-match"][0]


def test_raters_who_share_no_case(run_raters: Run, tmp_path: Path) -> None:
    save_png(tmp_path / "masks/ann/0.png", blob())
    save_png(tmp_path / "masks/bob/00.png", blob(1))
    assert problems_by_kind(run_raters, pattern(tmp_path)) == {
        "no-shared-case": ["no two raters share a case; names like '0' and '00' differ"]
    }
    save_png(tmp_path / "masks/bob/0.png", blob(2))
    assert problems_by_kind(run_raters, pattern(tmp_path)) == {}


def test_a_rater_whose_masks_cannot_be_read(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for path in (tmp_path / "masks/bob").iterdir():
        path.write_text("x")
    assert problems_by_kind(run_raters, pattern(tmp_path))["idle-rater"] == [
        "0 of 3 masks could be read"
    ]


def test_cases_without_anything_by_the_chosen_raters(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=5)
    for k in (1, 3, 4):
        (tmp_path / f"masks/bob/c{k}.png").unlink()
    study = raters.read(pattern(tmp_path), raters=["bob"])
    assert study.cases == ("c0", "c2")
    assert study.notes == ("3 cases have nothing by these raters and were left out",)
    note = f"note: {study.notes[0]}"
    chosen = (pattern(tmp_path), "--raters", "bob")
    assert note in run_raters("check", *chosen).out
    assert run_raters("agree", *chosen[:2], "ann,bob").code == 0
    done = run_raters("import", *chosen, "-o", tmp_path / "out")
    assert (done.code, done.err.strip()) == (0, note)
    assert raters.read(tmp_path / "out").cases == ("c0", "c2")
    whole = raters.read(pattern(tmp_path), raters=["bob"], images=images_option(tmp_path)[1])
    assert (len(whole), whole.notes) == (5, ())
    late = raters.read(pattern(tmp_path)).select(raters=["bob"])
    with pytest.raises(raters.RatersError, match="of case 'c1'"):
        _ = late["c1"].labels
    with pytest.raises(raters.RatersError, match="nothing by bob"):
        raters.read(pattern(tmp_path), raters=["bob"], cases=["c1"])


# Tables.


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        (["1,ann,Cat", "1,bob,cat", "2,ann,dog"], "label-case", "'Cat', 'cat'"),
        (["1,ann,cat", "1,bob,n/a", "2,ann,dog"], "missing-label", "--missing n/a"),
        (["1,ann,-1", "1,bob,-1", "2,ann,1"], "missing-label", "-1 in 2 labels (67%)"),
        (["1,ann,-1", "1,bob,1", "2,ann,0"], "missing-label", "with --missing -1"),
        (["1,ann,-1", "1,bob,a", "2,ann,b"], "missing-label", "the class '-1' in 1 label"),
        (["1,ann,cat", "2,bob,cat"], "no-shared-case", "'0' and '00'"),
    ],
)
def test_odd_labels(
    run_raters: Run, tmp_path: Path, rows: list[str], kind: str, words: str
) -> None:
    found = problems_by_kind(run_raters, write_answers(tmp_path, *rows))
    assert words in found.pop(kind)[0]
    assert not found


def test_usual_labels_are_not_odd(run_raters: Run, tmp_path: Path) -> None:
    assert (
        problems_by_kind(run_raters, write_answers(tmp_path, "1,ann,-1", "1,bob,1", "2,ann,-2"))
        == {}
    )
    assert (
        problems_by_kind(run_raters, write_answers(tmp_path, "1,ann,-1", "1,bob,-1", "2,ann,-2"))
        == {}
    )
    every = [f"{k},{r},{(k + s) % 8}" for k in range(8) for s, r in enumerate("abc")]
    assert problems_by_kind(run_raters, write_answers(tmp_path, *every)) == {}


def test_a_column_of_names(run_raters: Run, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    rows = [f"img{k},{k % 2},{k % 3 // 2}" for k in range(8)]
    path.write_text("\n".join(["file,ann,bob", *rows, ""]))
    found = problems_by_kind(run_raters, path, "--wide")
    assert "--task 'file'" in found["names"][0]
    assert problems_by_kind(run_raters, path, "--wide", "--task", "file") == {}


def test_images_that_match_no_task(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    found = problems_by_kind(
        run_raters, write_answers(tmp_path, "1,ann,0", "1,bob,1"), *images_option(tmp_path)
    )
    assert "'1'" in found["no-match"][0]
    assert list(found) == ["no-match"]


def test_a_split_without_labels_is_named_once(run_raters: Run, tmp_path: Path) -> None:
    labels = np.array([[0], [1], [-1], [-1], [-1], [-1]])
    splits = ["train", "train", "test", "test", "test", "train"]
    study = raters.Study.from_arrays(
        labels=labels, reference=np.zeros(6, int), raters=["ann"], splits=splits
    )
    found = [p for p in raters.check(study).problems if p.kind == "no-labels"]
    assert [(p.case, "3 cases of the split 'test'" in p.message) for p in found] == [
        (None, True),
        ("5", False),
    ]
    study.write(tmp_path / "out")
    assert len(problems_by_kind(run_raters, tmp_path / "out")["no-labels"]) == 2


# Facts.


@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_facts_and_shares_of_a_study_without_raters(
    run_raters: Run, tmp_path: Path, form: str
) -> None:
    truth = np.zeros((2, 4, 4), int)
    truth[0, 0] = 1
    about: dict[str, Any] = {"title": "Two [squares]", "note": "drawn by hand"}
    study = raters.Study.from_arrays(reference=truth, about=about)
    study.write(tmp_path / "out", form=form)
    shown = run_raters("check", tmp_path / "out").out
    for expected in ("Two [squares]", "drawn by hand", "share of reference", "12.50%"):
        assert expected in shown
    found = json.loads(run_raters("check", tmp_path / "out", "--json").out)
    assert found["about"] == about
    assert [c["share"] for c in found["classes"]] == [0.875, 0.125]
    classes = raters.Study.from_arrays(reference=np.array([0, 1, 1, 1]))
    assert raters.check(classes).shares == [0.25, 0.75]

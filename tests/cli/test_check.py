"""`raters check`: it counts rightly, finds each kind of problem, and fits the terminal."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

import raters
from raters.io import formats
from tests.support.command_line import Run, blob, draw_masks, images_option, pattern, save_png

KEYS = {
    "kind",
    "cases",
    "groups",
    "images",
    "references",
    "raters",
    "classes",
    "grids",
    "image_types",
    "splits",
    "labels",
    "repeated_readings",
    "about",
    "notes",
    "errors",
    "warnings",
    "problems",
    "diagnoses",
}


def check_report(run_raters: Run, *arguments: object) -> dict[str, Any]:
    """Return what `check --json` prints; its exit code fits what it says."""
    outcome = run_raters("check", *arguments, "--json")
    found: dict[str, Any] = json.loads(outcome.out, parse_constant=pytest.fail)
    assert set(found) == KEYS
    assert outcome.code == (2 if found["errors"] else 0)
    levels = Counter(p["level"] for p in found["problems"])
    assert (levels["error"], levels["warning"]) == (found["errors"], found["warnings"])
    return found


def only_problem(found: dict[str, Any]) -> dict[str, str]:
    assert len(found["problems"]) == 1, found["problems"]
    problem: dict[str, str] = found["problems"][0]
    assert set(problem) == {"level", "kind", "message", "file", "case", "rater"}
    return problem


def place(problem: dict[str, str]) -> tuple[str, ...]:
    return tuple(problem[key] for key in ("level", "kind", "case", "rater", "file"))


# What a study holds.


def test_shares_and_coverage_equal_a_slow_count(run_raters: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    slow: dict[str, Counter[int]] = {"ann": Counter(), "bob": Counter()}
    for k in range(6):
        for rater, counts in slow.items():
            if rater == "bob" and k % 3 == 0:
                continue
            mask = rng.choice([0, 3, 9, 255], (7, 5), p=[0.6, 0.2, 0.1, 0.1]).astype(np.uint8)
            save_png(tmp_path / f"masks/{rater}/c{k}.png", mask)
            for value in mask.ravel().tolist():
                counts[value] += 1
    found = check_report(run_raters, pattern(tmp_path), "--ignore", "255")
    assert [(r["name"], r["cases"]) for r in found["raters"]] == [("ann", 6), ("bob", 4)]
    for rater in found["raters"]:
        expected = slow[rater["name"]]
        assert rater["labels"] == {"background": expected[0], "3": expected[3], "9": expected[9]}
    total = slow["ann"] + slow["bob"]
    labelled = total[0] + total[3] + total[9]
    assert [c["value"] for c in found["classes"]] == [0, 3, 9]
    for label_class in found["classes"]:
        assert label_class["share"] == pytest.approx(total[label_class["value"]] / labelled)


def test_chosen_classes_count_the_others_as_background(run_raters: Run, tmp_path: Path) -> None:
    mask = np.array([[0, 1, 2, 2]], np.uint8)
    save_png(tmp_path / "masks/ann/c0.png", mask)
    found = check_report(run_raters, pattern(tmp_path), "--classes", "2")
    assert found["raters"][0]["labels"] == {"background": 2, "2": 2}


def test_groups_splits_images_and_grids(run_raters: Run, tmp_path: Path) -> None:
    for patient, split in (("p1", "train"), ("p2", "test")):
        for k in range(2):
            volume = np.ones((4, 5, 6), np.uint8) * k
            affine = np.diag([0.5, 0.5, 2.0 + k, 1.0])
            name = f"{split}/{patient}_{k}.nii.gz"
            formats.write_labels(tmp_path / "masks/ann" / name, volume, affine)
            formats.write_labels(tmp_path / "truth" / name, volume, affine)
            formats.write_image(tmp_path / "images" / name, volume[None] * np.int16(9), affine)
    where = "{split}/{group}_{case}.nii.gz"
    found = check_report(
        run_raters,
        f"{tmp_path}/masks/{{rater}}/{where}",
        *("--images", f"{tmp_path}/images/{where}"),
        *("--reference", f"{tmp_path}/truth/{where}"),
    )
    assert (found["cases"], found["groups"], found["references"], found["images"]) == (4, 2, 4, 4)
    assert found["splits"] == {"train": 2, "test": 2}
    assert {(tuple(g["shape"]), tuple(g["spacing"]), g["cases"]) for g in found["grids"]} == {
        ((4, 5, 6), (0.5, 0.5, 2.0), 2),
        ((4, 5, 6), (0.5, 0.5, 3.0), 2),
    }
    assert found["image_types"] == [{"channels": 1, "type": "int16", "cases": 4}]


def test_the_report_of_an_imported_study_is_that_of_its_source(
    run_raters: Run, tmp_path: Path
) -> None:
    draw_masks(tmp_path, raters=("ann", "bob", "cy"), cases=5)
    (tmp_path / "masks/cy/c3.png").unlink()
    found = check_report(run_raters, pattern(tmp_path), *images_option(tmp_path))
    for form in ("canonical", "packed"):
        out = tmp_path / form
        done = run_raters(
            "import", pattern(tmp_path), *images_option(tmp_path), "-o", out, "--form", form
        )
        assert done.code == 0
        again = check_report(run_raters, out)
        assert again == found


# Each kind of problem.


def test_unreadable(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    bad = tmp_path / "masks/bob/c1.png"
    bad.write_text("x")
    found = check_report(run_raters, pattern(tmp_path))
    assert place(only_problem(found)) == ("error", "unreadable", "c1", "bob", str(bad))
    assert [r["cases"] for r in found["raters"]] == [3, 2]


def test_unreadable_image(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    bad = tmp_path / "images/c1.png"
    bad.write_text("x")
    found = check_report(run_raters, pattern(tmp_path), *images_option(tmp_path))
    assert place(only_problem(found)) == ("error", "unreadable", "c1", None, str(bad))
    assert found["images"] == 2


def test_geometry(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    bad = save_png(tmp_path / "masks/bob/c1.png", blob(size=13))
    problem = only_problem(check_report(run_raters, pattern(tmp_path)))
    assert place(problem) == ("error", "geometry", "c1", "bob", str(bad))
    assert "13 x 13" in problem["message"] and "12 x 12" in problem["message"]


def test_unknown_value(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    bad = save_png(tmp_path / "masks/bob/c1.png", blob(value=5))
    problem = only_problem(check_report(run_raters, pattern(tmp_path), "--values", "0,1"))
    assert place(problem) == ("error", "unknown-value", "c1", "bob", str(bad))
    assert "5" in problem["message"] and "0, 1" in problem["message"]


@pytest.mark.parametrize("value", [0, 255])
def test_empty_mask(run_raters: Run, tmp_path: Path, value: int) -> None:
    draw_masks(tmp_path)
    bad = save_png(tmp_path / "masks/bob/c1.png", np.full((12, 12), value, np.uint8))
    found = check_report(run_raters, pattern(tmp_path), "--ignore", "255")
    problem = only_problem(found)
    assert place(problem) == ("warning", "empty-mask", "c1", "bob", str(bad))
    word = "background" if value == 0 else "not labelled"
    assert word in problem["message"]
    assert [r["cases"] for r in found["raters"]] == [3, 3 if value == 0 else 2]


def test_image_without_labels(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    save_png(tmp_path / "images/c9.png", blob())
    found = check_report(run_raters, pattern(tmp_path), *images_option(tmp_path))
    assert place(only_problem(found)) == ("warning", "no-labels", "c9", None, None)
    assert (found["cases"], found["images"]) == (4, 4)


def test_labels_without_image(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    (tmp_path / "images/c1.png").unlink()
    found = check_report(run_raters, pattern(tmp_path), *images_option(tmp_path))
    assert place(only_problem(found)) == ("warning", "no-image", "c1", None, None)
    assert check_report(run_raters, pattern(tmp_path))["problems"] == []  # nobody asked for images


def test_the_same_mask_under_two_raters(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    original, copy = (tmp_path / f"masks/{rater}/c1.png" for rater in ("ann", "bob"))
    # Other bytes, same labels: a copy all the same.
    Image.open(original).save(copy, compress_level=0)
    assert original.read_bytes() != copy.read_bytes()
    problem = only_problem(check_report(run_raters, pattern(tmp_path)))
    assert place(problem) == ("warning", "same-mask", "c1", "bob", str(copy))
    assert "'ann'" in problem["message"] and str(original) in problem["message"]


def test_two_empty_masks_are_no_copy(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for rater in ("ann", "bob"):
        save_png(tmp_path / f"masks/{rater}/c1.png", np.zeros((12, 12), np.uint8))
    kinds = [p["kind"] for p in check_report(run_raters, pattern(tmp_path))["problems"]]
    assert kinds == ["empty-mask", "empty-mask"]


def test_masks_of_the_same_bytes_and_other_shapes_are_no_copy(
    run_raters: Run, tmp_path: Path
) -> None:
    draw_masks(tmp_path, raters=("ann",))
    save_png(tmp_path / "masks/ann/c1.png", np.ones((4, 6), np.uint8))
    save_png(tmp_path / "masks/bob/c1.png", np.ones((6, 4), np.uint8))
    kinds = {p["kind"] for p in check_report(run_raters, pattern(tmp_path))["problems"]}
    assert kinds == {"geometry"}


def test_nan_in_an_image(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    for k in range(3):
        image = np.zeros((12, 12), np.float32)
        image[4, 5:7] = (np.nan, np.inf) if k == 1 else 1
        (tmp_path / "scans").mkdir(exist_ok=True)
        np.save(tmp_path / f"scans/c{k}.npy", image)
    found = check_report(
        run_raters, pattern(tmp_path), "--images", f"{tmp_path}/scans/{{case}}.npy"
    )
    problem = only_problem(found)
    assert place(problem) == ("warning", "nan-image", "c1", None, f"{tmp_path}/scans/c1.npy")
    assert "2 values" in problem["message"]
    assert found["images"] == 3


def test_idle_rater(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    save_png(tmp_path / "masks/cy/c0.png", np.full((12, 12), 255, np.uint8))
    found = check_report(run_raters, pattern(tmp_path), "--ignore", "255")
    idle = next(p for p in found["problems"] if p["kind"] == "idle-rater")
    assert place(idle) == ("warning", "idle-rater", None, "cy", None)
    assert {p["kind"] for p in found["problems"]} == {"idle-rater", "empty-mask"}


def test_differing_channels(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    save_png(
        tmp_path / "images/c1.png", np.random.default_rng(0).integers(0, 9, (12, 12, 3), np.uint8)
    )
    problem = only_problem(check_report(run_raters, pattern(tmp_path), *images_option(tmp_path)))
    assert place(problem) == ("warning", "channels", None, None, None)
    assert "2 with 1" in problem["message"] and "1 with 3" in problem["message"]


def test_every_problem_of_many_is_in_json_and_some_are_shown(
    run_raters: Run, tmp_path: Path
) -> None:
    draw_masks(tmp_path, cases=12)
    for path in (tmp_path / "masks/bob").iterdir():
        path.write_text("x")
    found = check_report(run_raters, pattern(tmp_path))
    assert found["errors"] == 12
    shown = run_raters("check", pattern(tmp_path)).out
    assert "error unreadable (12)" in shown
    assert "and 7 more (--json shows all)" in shown
    assert "12 errors, 1 warning" in shown  # bob labelled no case


def test_exit_codes(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    codes = lambda: [run_raters("check", pattern(tmp_path), *o).code for o in ([], ["--strict"])]  # noqa: E731
    assert codes() == [0, 0]
    save_png(tmp_path / "masks/bob/c1.png", np.zeros((12, 12), np.uint8))
    assert codes() == [0, 1]
    (tmp_path / "masks/bob/c2.png").write_text("x")
    assert codes() == [2, 2]


# Tables.


def test_tables_count_labels_readings_and_coverage(run_raters: Run, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    rows = ["t1,ann,cat", "t1,ann,dog", "t1,bob,cat", "t2,bob,cat", "t3,ann,dog", "t4,ann,"]
    path.write_text("\n".join(["task,worker,label", *rows, ""]))
    found = check_report(run_raters, path)
    assert (found["kind"], found["cases"]) == ("classification", 4)
    assert (found["labels"], found["repeated_readings"]) == (5, 1)
    assert found["raters"] == [
        {"name": "ann", "cases": 2, "labels": {"cat": 1, "dog": 2}},
        {"name": "bob", "cases": 2, "labels": {"cat": 2, "dog": 0}},
    ]
    assert [c["share"] for c in found["classes"]] == pytest.approx([0.6, 0.4])
    assert place(only_problem(found)) == ("warning", "no-labels", "t4", None, None)
    shown = run_raters("check", path).out
    assert "5 (1 repeated reading)" in shown


def test_tables_with_reference_and_an_idle_rater(run_raters: Run, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    truth = tmp_path / "truth.csv"
    path.write_text("task,worker,label\nt1,ann,0\nt2,ann,1\nt2,bob,\n")
    truth.write_text("task,label\nt1,0\n")
    found = check_report(run_raters, path, "--reference", truth)
    assert found["references"] == 1
    assert place(only_problem(found)) == ("warning", "idle-rater", None, "bob", None)


def test_missing_values_of_a_wide_table_do_not_count(run_raters: Run, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("ann,bob\n1,-1\n0,1\n")
    found = check_report(run_raters, path, "--wide", "--missing", "-1")
    assert found["labels"] == 3
    assert [(r["name"], r["cases"]) for r in found["raters"]] == [("ann", 2), ("bob", 1)]


# How it looks.


def test_eighty_columns_are_enough(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [
        f"rater {k} of the department of radiology at a university {'ß' * k}" for k in range(59)
    ]
    rng = np.random.default_rng(0)
    table = tmp_path / "answers.csv"
    rows = [f"t{t},{n},{'x' * 90}{rng.integers(25)}" for t in range(9) for n in names]
    table.write_text("\n".join(["task,worker,label", *rows, ""]))
    draw_masks(tmp_path, raters=[n[:80] for n in names], cases=2)
    for study, options in ((table, ()), (pattern(tmp_path), images_option(tmp_path))):
        outcome = run_raters("check", study, *options)
        assert outcome.code == 0
        widths = [cell_len(line) for line in outcome.out.splitlines()]
        assert max(widths) <= 80
        assert "and 39 more (--json shows all)" in outcome.out
        assert len(check_report(run_raters, study, *options)["raters"]) == 59
        assert "100%" in outcome.out  # numbers are not squeezed out by names


def test_many_classes_and_splits_fit_too(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    labels = np.arange(30, dtype=np.int16).reshape(30, 1, 1, 1)
    splits = [f"fold number {k}" for k in range(30)]
    study = raters.Study.from_arrays(labels=labels, raters=["ann"], splits=splits)
    study.write(tmp_path / "out")
    outcome = run_raters("check", tmp_path / "out")
    assert outcome.code == 0
    lines = [line for line in outcome.out.splitlines() if str(tmp_path) not in line]
    assert max(map(cell_len, lines)) <= 80
    assert "fold number 29 1" in " ".join(outcome.out.split())


def test_one_is_not_plural(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=1)
    (tmp_path / "masks/bob/c0.png").write_text("x")
    shown = run_raters("check", pattern(tmp_path)).out
    assert "12 x 12 (1 case)" in shown
    assert "1 error, 1 warning" in shown

"""`raters check` says what is read without an error and is likely wrong all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.command_line import Run, blob, draw_masks, pattern, save_png


def warnings(run_raters: Run, *arguments: object) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for problem in json.loads(run_raters("check", *arguments, "--json").out)["problems"]:
        found.setdefault(problem["kind"], []).append(problem)
    found.pop("same-mask", None)  # all masks of these tests are drawn alike
    return found


def test_swapped_braces(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=8)
    found = warnings(run_raters, f"{tmp_path}/masks/{{case}}/{{rater}}.png")
    assert found["swapped"][0]["message"].startswith("8 raters, 2 cases: swapped?")
    assert repr(pattern(tmp_path)) in found["swapped"][0]["message"]
    assert "swapped" not in warnings(run_raters, pattern(tmp_path))


def test_files_that_nearly_match(run_raters: Run, tmp_path: Path) -> None:
    for case in range(4):
        save_png(tmp_path / f"ann/seg_{case}.png", blob())
        save_png(tmp_path / f"bob/{'seg' if case == 0 else 'Seg'}_{case}.png", blob())
    text = f"{tmp_path}/{{rater}}/seg_{{case}}.png"
    (problem,) = warnings(run_raters, text)["near-match"]
    assert problem["file"] == f"{tmp_path}/bob"
    assert problem["message"].startswith("3 files nearly match")
    assert "'Seg_1.png'" in problem["message"]
    wider = f"{tmp_path}/{{rater}}/*eg_{{case}}.png"
    assert f"{wider!r} reads them too" in problem["message"]
    again = json.loads(run_raters("check", wider, "--json").out)
    assert [rater["cases"] for rater in again["raters"]] == [4, 4]
    assert not warnings(run_raters, wider)


def test_images_are_no_near_matches(run_raters: Run, tmp_path: Path) -> None:
    for case in range(3):
        save_png(tmp_path / f"C{case}-A.png", blob())
        save_png(tmp_path / f"C{case}-B.png", blob())
        save_png(tmp_path / f"C{case}_I.png", blob())
    found = warnings(
        run_raters, f"{tmp_path}/{{case}}-{{rater}}.png", "--images", f"{tmp_path}/{{case}}_I.png"
    )
    assert not found


def test_a_pattern_without_a_shared_case_names_the_one_with(
    run_raters: Run, tmp_path: Path
) -> None:
    for case in range(4):
        for number, rater in enumerate(("ann", "bob")):
            save_png(tmp_path / f"{rater}/scan{case}_{number}.png", blob())
    (problem,) = warnings(run_raters, f"{tmp_path}/{{rater}}/{{case}}.png")["pattern"]
    assert f"but they do in '{tmp_path}/{{rater}}/{{case}}_*.png'" in problem["message"]
    assert not warnings(run_raters, tmp_path)


def draw_inverted(folder: Path, raters: tuple[str, ...]) -> None:
    object_ = np.zeros((20, 20), np.uint8)
    object_[5:7, 5:7] = 255
    for rater in ("ann", "bob", "cid"):
        for case in range(3):
            mask = 255 - object_ if rater in raters else object_
            save_png(folder / f"{rater}/c{case}.png", mask)


def test_inverted_masks(run_raters: Run, tmp_path: Path) -> None:
    draw_inverted(tmp_path, ("ann", "bob", "cid"))
    text = f"{tmp_path}/{{rater}}/{{case}}.png"
    (problem,) = warnings(run_raters, text)["inverted"]
    assert "1.00% of all pixels" in problem["message"]
    assert "--values 255=background,0=object" in problem["message"]
    assert not warnings(run_raters, text, "--values", "255=background,0=object")


def test_inverted_masks_of_one_rater(run_raters: Run, tmp_path: Path) -> None:
    draw_inverted(tmp_path, ("bob",))
    (problem,) = warnings(run_raters, f"{tmp_path}/{{rater}}/{{case}}.png")["inverted"]
    assert problem["rater"] == "bob"


def write_answers(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    lines = ["task,worker,label", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_rater_who_always_says_the_same(run_raters: Run, tmp_path: Path) -> None:
    rows = []
    for task in range(60):
        said = "cat" if task % 2 else "dog"
        rows += [(f"t{task}", "ann", said), (f"t{task}", "bob", said), (f"t{task}", "sam", "cat")]
    found = warnings(run_raters, write_answers(tmp_path / "a.csv", rows))
    (problem,) = found["constant-rater"]
    assert problem["rater"] == "sam"
    assert "said 'cat' in 60 of 60 labels" in problem["message"]
    assert "50%" in problem["message"]


def test_a_rater_of_tasks_of_one_kind_is_fine(run_raters: Run, tmp_path: Path) -> None:
    rows = []
    for task in range(60):
        said = "cat" if task % 2 else "dog"
        rows += [(f"t{task}", "ann", said), (f"t{task}", "bob", said)]
        if said == "cat":
            rows.append((f"t{task}", "sam", "cat"))
    assert not warnings(run_raters, write_answers(tmp_path / "a.csv", rows))


def test_cases_of_a_single_rater(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path, cases=12)
    for case in range(2, 12):
        (tmp_path / f"masks/bob/c{case}.png").unlink()
    (problem,) = warnings(run_raters, pattern(tmp_path))["alone"]
    assert problem["message"].startswith("10 of 12 labelled cases have labels by one rater only")

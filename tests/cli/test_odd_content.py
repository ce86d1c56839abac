"""Names that steer terminals or spreadsheets, arrays that changed, options for something else."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import raters
from raters.core.errors import RatersError
from raters.io.rows import write_csv
from raters.study.check_report import CheckReport
from tests.support.command_line import Outcome, blob, draw_masks, pattern, save_png
from tests.support.makers import ODD_NAMES

Run = Callable[..., Outcome]
CLEAR = "\x1b[2J\x1b]0;mine\x07\x9b31m"
FORMULA = "=cmd|'/c calc'!A1"


def write_answers_of(path: Path, rater: str) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = [("task", "worker", "label")]
        rows += [(t, w, k) for t in ("t1", "t2") for k, w in enumerate((rater, "bob"))]
        csv.writer(file).writerows(rows)
    return path


def test_no_name_steers_the_terminal(run_raters: Run, tmp_path: Path) -> None:
    answers = write_answers_of(tmp_path / "a.csv", f"ann{CLEAR}")
    draw_masks(tmp_path, raters=(f"ann{CLEAR}", "bob"))
    (tmp_path / f"masks/ann{CLEAR}/c1.png").write_bytes(b"damaged")
    for words in (
        ("check", answers),
        ("agree", answers),
        ("fuse", answers, "-m", "dawid-skene", "-o", tmp_path / "out"),
        ("check", pattern(tmp_path)),
        ("agree", pattern(tmp_path)),
        ("check", pattern(tmp_path), "--raters", f"x{CLEAR}"),
    ):
        done = run_raters(*words)
        said = done.out + done.err
        assert not set("\x1b\x07\x9b") & set(said), words
        assert r"\x1b[2J" in said, words


def test_tables_for_people_hold_no_formulas(run_raters: Run, tmp_path: Path) -> None:
    answers = write_answers_of(tmp_path / "a.csv", FORMULA)
    assert run_raters("agree", answers, "-o", tmp_path / "agree").code == 0
    with open(tmp_path / "agree/raters.csv", newline="") as file:
        names = {row["rater"] for row in csv.DictReader(file)}
    assert names == {f"'{FORMULA}", "bob"}
    content = json.loads((tmp_path / "agree/agreement.json").read_text())
    assert {row["rater"] for row in content["raters"]} == {FORMULA, "bob"}


def test_files_that_are_read_again_keep_the_names(run_raters: Run, tmp_path: Path) -> None:
    answers = tmp_path / "a.csv"
    lines = [f'"{name}",{w},{k}' for name in ("=1+1", "+x", "@a") for k, w in enumerate("ab")]
    answers.write_text("task,worker,label\n" + "\n".join(lines) + "\n")
    assert run_raters("fuse", answers, "-m", "vote", "-o", tmp_path / "out").code == 0
    with open(tmp_path / "out/labels.csv", newline="") as file:
        assert {row["task"] for row in csv.DictReader(file)} == {"=1+1", "+x", "@a"}
    done = run_raters("evaluate", tmp_path / "out", answers, "--json")
    assert done.code == 0 and {r["cases"] for r in json.loads(done.out)["summary"]} == {3}


def test_cells_that_are_no_formulas_stay(tmp_path: Path) -> None:
    names = [name for name in ODD_NAMES if name and name[0] not in "=+-@\t\r\n"]
    rows = [{"name": name, "text": "-1.5", "number": -2} for name in names]
    write_csv(tmp_path / "a.csv", rows)
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [row["name"] for row in found] == names
    assert {(row["text"], row["number"]) for row in found} == {("-1.5", "-2")}


def test_a_name_that_is_too_long_costs_one_map(run_raters: Run, tmp_path: Path) -> None:
    rows = ["case,rater,mask"]
    for k, case in enumerate(("a", "b" * 300, "c")):
        for rater in ("ann", "bob"):
            save_png(tmp_path / f"{rater}{k}.png", blob(k))
            rows.append(f"{case},{rater},{rater}{k}.png")
    (tmp_path / "m.csv").write_text("\n".join(rows) + "\n")
    done = run_raters("agree", tmp_path / "m.csv", "--maps", tmp_path / "maps")
    assert done.code == 2 and "1 case got no map" in done.err and "bbb" in done.err
    assert "2 maps written" in done.err and "pairs of raters" in done.out
    assert sorted(p.name for p in (tmp_path / "maps").glob("*.png")) == ["a.png", "c.png"]


def write_packed(folder: Path) -> Path:
    labels = np.zeros((3, 2, 6, 6), int)
    labels[:, :, 1:3] = 1
    images = np.random.default_rng(0).random((3, 1, 6, 6))
    raters.Study.from_arrays(images=images, labels=labels).write(folder, "packed")
    return folder


def errors(report: CheckReport) -> list[tuple[str, str]]:
    return [(p.kind, Path(p.file or "").name) for p in report.problems if p.level == "error"]


def test_packed_study_without_its_images(run_raters: Run, tmp_path: Path) -> None:
    folder = write_packed(tmp_path / "s")
    assert not errors(raters.check(raters.read(folder)))
    (folder / "images.npy").unlink()
    for name in ("", "sums.json"):  # a folder of an earlier version has no sums
        if name:
            (folder / name).unlink()
        done = run_raters("check", folder)
        assert done.code == 2 and "images.npy: no such file" in done.out and "1 error" in done.out
        with pytest.raises(RatersError, match="expected the images of 3 cases"):
            raters.read(folder)


def test_changed_arrays_are_noticed(tmp_path: Path) -> None:
    for name in ("images.npy", "labels.npy", "has_image.npy"):
        folder = write_packed(tmp_path / name)
        content = bytearray((folder / name).read_bytes())
        content[-1] ^= 1
        (folder / name).write_bytes(content)
        assert ("damaged", name) in errors(raters.check(raters.read(folder)))
    folder = tmp_path / "t"
    raters.Study.from_arrays(labels=[[0, 1], [1, 1]]).write(folder)
    study = raters.read(folder)
    with open(folder / "labels.parquet", "ab") as file:
        file.write(b"\0")
    assert errors(raters.check(study)) == [("damaged", "labels.parquet")]


def test_sums_follow_a_second_import(tmp_path: Path) -> None:
    folder = write_packed(tmp_path / "s")
    first = (folder / "sums.json").read_text()
    write_packed(folder)
    assert (folder / "sums.json").read_text() == first
    assert not errors(raters.check(raters.read(folder)))
    (folder / "sums.json").write_text("[" * 5000)
    assert errors(raters.check(raters.read(folder))) == [("unreadable", "sums.json")]


@pytest.mark.parametrize(
    "option", [("--wide",), ("--task", "id"), ("--missing", "?"), ("--no-header",), ("--header",)]
)
def test_options_for_tables_with_masks(
    run_raters: Run, tmp_path: Path, option: tuple[str, ...]
) -> None:
    draw_masks(tmp_path)
    raters.read(pattern(tmp_path)).write(tmp_path / "s")
    for source in (pattern(tmp_path), tmp_path / "s"):
        done = run_raters("check", source, *option)
        name = option[0].replace("--no-", "--")
        assert done.code == 2 and f"found {name} with" in done.err, source


def test_a_value_in_a_handful_of_pixels_is_a_hint(run_raters: Run, tmp_path: Path) -> None:
    draw_masks(tmp_path)
    mask = blob(1)
    mask[0, 0] = 129  # a flipped bit of a 1
    bad = save_png(tmp_path / "masks/bob/c1.png", mask)
    done = run_raters("check", pattern(tmp_path))
    assert done.code == 0 and f"{bad}: the value 129 is in 1 pixel of this mask" in done.out
    mask[:, 0] = 129
    save_png(tmp_path / "masks/bob/c1.png", mask)
    assert "rare-value" not in run_raters("check", pattern(tmp_path)).out
    assert "rare-value" not in run_raters("check", pattern(tmp_path), "--values", "0,1,129").out

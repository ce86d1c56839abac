"""A table with columns of any name as STUDY, folders of tables, and files that are no tables."""

from __future__ import annotations

import gzip
import json
import shlex
import sys
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import raters
from tests.support.command_line import Run, assert_words

ROWS = [("i1", "ann", "cat"), ("i1", "bob", "dog"), ("i2", "ann", "dog"), ("i2", "bob", "dog")]


def write_table(path: Path, header: str, rows: Any = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


def test_columns_are_guessed_and_said(run_raters: Run, tmp_path: Path) -> None:
    path = write_table(tmp_path / "answers.csv", "Image ID,Annotator,Diagnosis")
    outcome = run_raters("check", path, "--json")
    assert outcome.err.strip() == (
        f"taken as {path} with task=Image ID, worker=Annotator, label=Diagnosis"
    )
    found = json.loads(outcome.out)
    assert (found["cases"], [r["name"] for r in found["raters"]]) == (2, ["ann", "bob"])
    assert raters.read(path).notes == (outcome.err.strip(),)


def test_usual_columns_are_no_guess(run_raters: Run, tmp_path: Path) -> None:
    rows = [(*row, "cat") for row in ROWS]
    path = write_table(tmp_path / "answers.csv", "task,worker,label,truth", rows)
    outcome = run_raters("check", path, "--json")
    assert outcome.err == ""
    assert json.loads(outcome.out)["references"] == 0


def test_a_true_label_in_the_table_is_the_reference(run_raters: Run, tmp_path: Path) -> None:
    rows = [(*row, "dog") for row in ROWS]
    path = write_table(
        tmp_path / "answers.csv", "Input.song,WorkerId,Answer.pred,Input.truth", rows
    )
    outcome = run_raters("check", path, "--json")
    assert "reference=Input.truth" in outcome.err
    assert json.loads(outcome.out)["references"] == 2
    study = raters.read(path)
    assert [study[k].reference.item() for k in range(2)] == [1, 1]


def test_a_true_label_that_differs_within_a_task_is_none(run_raters: Run, tmp_path: Path) -> None:
    rows = [(*row, str(k)) for k, row in enumerate(ROWS)]
    path = write_table(tmp_path / "answers.csv", "item,worker,answer,truth", rows)
    assert json.loads(run_raters("check", path, "--json").out)["references"] == 0


def test_columns_that_are_given_win(run_raters: Run, tmp_path: Path) -> None:
    rows = [(f"x{k}", *row) for k, row in enumerate(ROWS)]
    path = write_table(tmp_path / "answers.csv", "image,case,rater,label", rows)
    outcome = run_raters("check", path, "--task", "case", "--json")
    assert json.loads(outcome.out)["cases"] == 2
    assert run_raters("check", path, "--task", "absent").code == 2


def test_two_columns_for_one_thing_print_the_commands(run_raters: Run, tmp_path: Path) -> None:
    rows = [(f"x{k}", *row) for k, row in enumerate(ROWS)]
    path = write_table(tmp_path / "answers.csv", "image,case,rater,label", rows)
    outcome = run_raters("check", path)
    assert outcome.code == 2
    commands = [line.strip() for line in outcome.err.splitlines() if "--task" in line]
    assert len(commands) == 2
    for command in commands:
        assert run_raters(*shlex.split(command)[1:]).code == 0


def test_a_column_per_rater_prints_the_command(run_raters: Run, tmp_path: Path) -> None:
    rows = [("a.png", "cat", "cat", "dog"), ("b.png", "dog", "dog", "dog")]
    path = write_table(tmp_path / "answers.csv", "path,class,human1,human2", rows)
    outcome = run_raters("check", path)
    assert outcome.code == 2
    command = outcome.err[outcome.err.index("raters check") :].strip()
    found = json.loads(run_raters(*shlex.split(command)[1:], "--json").out)
    assert [rater["name"] for rater in found["raters"]] == ["human1", "human2"]
    assert (found["cases"], found["references"]) == (2, 2)


def test_a_table_of_numbers_prints_the_command(run_raters: Run, tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    path.write_text("-1 0 1\n1 -1 1\n")
    outcome = run_raters("check", path)
    assert outcome.code == 2
    command = outcome.err[outcome.err.index("raters check") :].strip()
    assert json.loads(run_raters(*shlex.split(command)[1:], "--json").out)["labels"] == 4


def test_true_labels_alone_say_where_they_belong(run_raters: Run, tmp_path: Path) -> None:
    path = write_table(tmp_path / "gold.csv", "id,class", [("i1", "cat"), ("i2", "dog")])
    outcome = run_raters("check", path)
    assert outcome.code == 2
    assert_words(outcome.err, "no column that names the rater", f"--reference {path}")


def test_a_folder_of_a_table_and_its_truth(run_raters: Run, tmp_path: Path) -> None:
    labels = write_table(tmp_path / "data/label.csv", "item,worker,label")
    truth = write_table(tmp_path / "data/truth.csv", "item,truth", [("i1", "cat")])
    outcome = run_raters("check", tmp_path / "data", "--json")
    assert f"taken as {labels} with task=item" in outcome.err
    assert f"reference=truth of {truth}" in outcome.err
    assert json.loads(outcome.out)["references"] == 1


def test_the_reference_of_a_table_may_call_its_columns_otherwise(
    run_raters: Run, tmp_path: Path
) -> None:
    labels = write_table(tmp_path / "answers.csv", "task,worker,label")
    for header in ("item,truth", "image,Gold_Label", "task,what"):
        truth = write_table(tmp_path / "truth.csv", header, [("i1", "cat"), ("i2", "dog")])
        outcome = run_raters("check", labels, "--reference", truth, "--json")
        assert json.loads(outcome.out)["references"] == 2


def test_several_tables_of_labels_are_a_choice(run_raters: Run, tmp_path: Path) -> None:
    paths = [write_table(tmp_path / f"{k}.csv", "item,worker,label") for k in "ab"]
    outcome = run_raters("check", tmp_path)
    assert outcome.code == 2
    assert_words(outcome.err, "which one is meant?", *(f"raters check {path}" for path in paths))


LABEL_STUDIO = [{"data": {"image": "a.png"}, "annotations": [{"completed_by": 1, "result": []}]}]
COCO = {"images": [], "annotations": [], "categories": []}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", json.dumps(LABEL_STUDIO), "Label Studio export"),
        (
            "a.json.gz",
            gzip.compress(json.dumps(LABEL_STUDIO).encode(), mtime=0),
            "Label Studio export",
        ),
        ("a.json", json.dumps(COCO), "COCO annotations"),
        ("a.json", '{"a": 1}', "JSON file"),
        ("a.geojson", '{"type": "Polygon", "coordinates": []}', "GeoJSON"),
        ("a.xml", "<annotations><version>1.1</version></annotations>", "CVAT export"),
        ("a.xls", "x", "save the sheet as CSV"),
        ("a.zip", "no archive", "unzip it"),
    ],
)
def test_files_of_other_tools_say_what_to_do(
    run_raters: Run, tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    outcome = run_raters("check", path)
    assert outcome.code == 2
    assert_words(outcome.err, str(path), words)
    assert words in run_raters("check", tmp_path).err


@pytest.mark.parametrize(("member", "words"), [("annotations.xml", "CVAT"), ("m.png", "unzip it")])
def test_archives_say_what_to_do(run_raters: Run, tmp_path: Path, member: str, words: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, "x")
    assert words in run_raters("check", tmp_path / "a.zip").err


def test_excel_without_its_extra_says_so(
    run_raters: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    outcome = run_raters("check", tmp_path / "a.xlsx")
    assert outcome.code == 2
    assert_words(outcome.err, "raters[excel]", "CSV")


def test_excel_is_a_table(run_raters: Run, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Image ID", "Annotator", "Diagnosis"])
    for row in [(1, "ann", "x"), (1, "bob", "y"), (2.0, "ann", "y")]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    found = json.loads(run_raters("check", tmp_path / "a.xlsx", "--json").out)
    assert (found["cases"], found["labels"]) == (2, 3)
    (tmp_path / "a.xlsx").write_bytes(b"no archive")
    assert run_raters("check", tmp_path / "a.xlsx").code == 2

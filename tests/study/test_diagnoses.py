"""The diagnosis of a case: read from everywhere, written, shown, and chosen by."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import raters
from raters.core.errors import RatersError
from tests.support.command_line import Run
from tests.support.makers import save

MASK = np.array([[0, 1], [1, 1]], np.uint8)
KNOWN = {"c0": "glaucoma", "c1": "normal", "c2": "", "c3": "glaucoma"}


def write_manifest_with_diagnoses(folder: Path) -> Path:
    """Write masks by two raters, and a manifest that tells most diagnoses in one row of a case."""
    rows = [("case", "rater", "mask", "diagnosis")]
    for case, diagnosis in KNOWN.items():
        for rater in ("ann", "bob"):
            save(folder / f"{rater}/{case}.png", MASK)
            told = diagnosis if rater == "bob" else ""
            rows.append((case, rater, f"{rater}/{case}.png", told))
    with open(folder / "manifest.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder / "manifest.csv"


def diagnoses(study: raters.Study) -> dict[str, str]:
    return {case.id: case.diagnosis for case in study.iter_cases()}


@pytest.mark.parametrize("form", ["canonical", "packed"])
def test_import_keeps_them(run_raters: Run, tmp_path: Path, form: str) -> None:
    source = write_manifest_with_diagnoses(tmp_path)
    assert diagnoses(raters.read(source)) == KNOWN
    assert run_raters("import", source, "-o", tmp_path / "out", "--form", form).code == 0
    assert diagnoses(raters.read(tmp_path / "out")) == KNOWN
    again = raters.read(tmp_path / "out").write(tmp_path / "again", "canonical")
    assert diagnoses(again) == KNOWN


def test_a_column_that_was_added_to_cases_csv_is_read(tmp_path: Path) -> None:
    study = raters.Study.from_arrays(labels=np.stack([MASK, MASK])[:, None], cases=["a", "b"])
    study.write(tmp_path / "study", "packed")
    path = tmp_path / "study/cases.csv"
    before = path.read_text()
    assert "diagnosis" not in before
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    told = [[*rows[0], "diagnosis"], [*rows[1], "1"], [*rows[2], "0"]]
    path.write_text("\n".join(",".join(row) for row in told))
    assert diagnoses(raters.read(tmp_path / "study")) == {"a": "1", "b": "0"}


def test_names_of_folders_tell_them(tmp_path: Path) -> None:
    for diagnosis, case in (("ill", "c1"), ("well", "c2")):
        save(tmp_path / f"masks/ann/{diagnosis}/{case}.png", MASK)
    study = raters.read(f"{tmp_path}/masks/{{rater}}/{{diagnosis}}/{{case}}.png")
    assert diagnoses(study) == {"ill/c1": "ill", "well/c2": "well"}


def test_arrays_and_frames_have_them() -> None:
    labels = np.zeros((4, 2, 3, 3), int)
    study = raters.Study.from_arrays(labels=labels, diagnoses=[1, "x", None, float("nan")])  # type: ignore[list-item]
    assert list(study.index.diagnoses) == ["1", "x", "", ""]
    with pytest.raises(RatersError, match=r"2 diagnoses.*expected one for each case"):
        raters.Study.from_arrays(labels=labels, diagnoses=["a", "b"])
    frame = pd.DataFrame(
        {
            "task": ["t1", "t1", "t2"],
            "rater": ["ann", "bob", "ann"],
            "label": [0, 1, 1],
            "diagnosis": ["ill", "ill", None],
        }
    )
    assert diagnoses(raters.Study.from_frame(frame)) == {"t1": "ill", "t2": ""}
    wide = pd.DataFrame({"ann": [0, 1], "bob": [0, 0], "diagnosis": ["ill", "well"]})
    study = raters.Study.from_frame(wide)
    assert (study.raters, diagnoses(study)) == (("ann", "bob"), {"0": "ill", "1": "well"})


def test_a_column_that_holds_the_labels_is_no_diagnosis_of_the_case() -> None:
    frame = pd.DataFrame({"case": ["t", "t"], "rater": ["ann", "bob"], "diagnosis": ["x", "y"]})
    study = raters.Study.from_frame(frame, label="diagnosis")
    assert list(study.index.diagnoses) == [""]
    assert study.classes.names == ("x", "y")


def test_cases_are_chosen_by_it(run_raters: Run, tmp_path: Path) -> None:
    source = write_manifest_with_diagnoses(tmp_path)
    study = raters.read(source)
    assert list(study.select(diagnosis="glaucoma").index.ids) == ["c0", "c3"]
    assert list(raters.read(source, diagnosis="normal").index.ids) == ["c1"]
    kept = study.take(np.array([3, 1]))
    assert diagnoses(kept) == {"c3": "glaucoma", "c1": "normal"}
    with pytest.raises(RatersError, match="expected one of glaucoma, normal"):
        study.select(diagnosis="cataract")
    plain = raters.Study.from_arrays(labels=np.zeros((1, 1, 2, 2), int))
    with pytest.raises(RatersError, match="this study has no diagnoses"):
        plain.select(diagnosis="glaucoma")
    outcome = run_raters("check", source, "--diagnosis", "glaucoma", "--json")
    assert json.loads(outcome.out)["cases"] == 2
    assert run_raters("check", source, "--diagnosis", "cataract").code == 2


def test_check_shows_them(run_raters: Run, tmp_path: Path) -> None:
    source = write_manifest_with_diagnoses(tmp_path)
    outcome = run_raters("check", source, "--json")
    assert json.loads(outcome.out)["diagnoses"] == {"glaucoma": 2, "normal": 1}
    assert "glaucoma 2, normal 1, none 1" in run_raters("check", source).out
    assert "glaucoma" in raters.read(source)._repr_html_()


def test_a_case_with_two_is_refused(tmp_path: Path) -> None:
    source = write_manifest_with_diagnoses(tmp_path)
    text = source.read_text().replace("c1,ann,ann/c1.png,", "c1,ann,ann/c1.png,glaucoma")
    source.write_text(text)
    with pytest.raises(RatersError, match=r"diagnosis 'normal' for case 'c1'.*'glaucoma'"):
        raters.read(source)

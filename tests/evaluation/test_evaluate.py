"""`raters evaluate`: predictions against references and raters, and what can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

import raters
from raters.core.errors import RatersError
from raters.metrics.bootstrap import interval
from raters.metrics.surface import hd95
from raters.study.study import Study
from tests.support.command_line import Run
from tests.support.makers import save

AFFINE = np.diag([1.0, 2.0, 3.0, 1.0])


@pytest.fixture
def volume_study() -> Study:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, (4, 2, 5, 6, 4))
    labels[0, 1] = -1
    labels[1, 0, 0] = -1
    reference = [*random.integers(0, 3, (3, 5, 6, 4)), None]
    return Study.from_arrays(
        labels=labels,
        reference=reference,
        raters=["ann", "bob"],
        cases=["a", "b", "p/c", "d"],
        groups=["g", "g", "h", "i"],
        classes={0: "background", 2: "core", 4: "edema"},
        affines=[AFFINE] * 4,
    )


def write_predictions(study: Study, folder: Path) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    predicted = {case: random.integers(0, 3, (5, 6, 4)) for case in study.cases}
    for case, labels in predicted.items():
        save(folder / f"{case}.nii.gz", np.array([0, 2, 4], np.uint8)[labels], AFFINE)
    return predicted


def test_scores_by_case_equal_scikit_learn_and_our_surfaces(
    volume_study: Study, tmp_path: Path
) -> None:
    predicted = write_predictions(volume_study, tmp_path)
    result = raters.evaluate(tmp_path, volume_study)
    rows = {(r["case"], r["against"], r["class"]): r for r in result.cases}
    compared = 0
    for case in volume_study:
        named = dict(zip(volume_study.raters, case.labels, strict=True)) | {
            "reference": case.reference
        }
        for against, labels in named.items():
            if labels is None or (labels < 0).all():
                assert (case.id, against, "core") not in rows
                continue
            for c, name in ((1, "core"), (2, "edema")):
                seen = labels >= 0
                row = rows[case.id, against, name]
                truth = labels == c
                guess = predicted[case.id] == c
                assert row["dice"] == pytest.approx(f1_score(truth[seen], guess[seen]))
                if seen.all():
                    assert row["hd95"] == pytest.approx(hd95(truth, guess, (1, 2, 3)))
                    volume = (int(guess.sum()) - int(truth.sum())) * 6
                    assert row["volume_difference"] == pytest.approx(volume)
                compared += 1
            mean = rows[case.id, against, "all"]["dice"]
            both = [rows[case.id, against, name]["dice"] for name in ("core", "edema")]
            assert mean == pytest.approx(np.mean(both))
    assert compared == 2 * (3 + 4 + 3)
    assert result.notes == ["fewer than 6 groups: there are no intervals"]
    assert not result.failures


def test_summary_is_the_mean_with_an_interval_over_groups(tmp_path: Path) -> None:
    study = Study.from_arrays(
        labels=np.random.default_rng(0).integers(0, 3, (8, 2, 5, 6, 4)),
        raters=["ann", "bob"],
        cases=list("abcdefgh"),
        groups=list("iijklmno"),
        classes={0: "background", 2: "core", 4: "edema"},
        affines=[AFFINE] * 8,
    )
    write_predictions(study, tmp_path)
    result = raters.evaluate(tmp_path, study, surfaces=False)
    part = [r for r in result.cases if r["against"] == "ann" and r["class"] == "all"]
    found = next(r for r in result.summary if r["against"] == "ann" and r["class"] == "all")
    expected = interval([r["dice"] for r in part], [r["group"] for r in part])
    assert found["cases"] == 8 and not result.notes
    assert found["dice"] == pytest.approx(np.mean([r["dice"] for r in part]))
    assert (found["dice_low"], found["dice_high"]) == (expected.low, expected.high)
    assert found["dice_low"] < found["dice"] < found["dice_high"]
    assert "hd95" not in found


def test_a_pattern_names_predictions_too(volume_study: Study, tmp_path: Path) -> None:
    write_predictions(volume_study, tmp_path / "all")
    part = volume_study.select(cases=["a", "b", "d"])
    result = raters.evaluate(f"{tmp_path}/all/{{case}}.nii.gz", part, surfaces=False)
    assert {row["case"] for row in result.cases} == {"a", "b", "d"}
    notes = raters.evaluate(tmp_path / "all", part, surfaces=False).notes
    assert "belong to no case" in notes[0] and "p/c" in notes[0]


def test_missing_and_strange_predictions_are_noted(volume_study: Study, tmp_path: Path) -> None:
    write_predictions(volume_study, tmp_path)
    (tmp_path / "d.nii.gz").rename(tmp_path / "e.nii.gz")
    notes = raters.evaluate(tmp_path, volume_study, surfaces=False).notes
    assert notes[0] == "1 cases without a prediction (left out): d"
    assert "belong to no case" in notes[1] and "e.nii.gz" in notes[1]


def test_a_bad_prediction_does_not_hide_the_others(volume_study: Study, tmp_path: Path) -> None:
    write_predictions(volume_study, tmp_path)
    save(tmp_path / "a.nii.gz", np.zeros((5, 6, 4), np.uint8), np.diag([1.0, 2.0, 9.0, 1.0]))
    save(tmp_path / "b.nii.gz", np.full((5, 6, 4), 7, np.uint8), AFFINE)
    result = raters.evaluate(tmp_path, volume_study, surfaces=False)
    assert {row["case"] for row in result.cases} == {"p/c", "d"}
    grid, value = map(str, result.failures)
    assert "a.nii.gz" in grid and "(1, 2, 9)" in grid and "(1, 2, 3)" in grid
    assert "b.nii.gz" in value and "found value 7, expected one of 0, 2, 4" in value


def test_no_prediction_at_all_says_what_is_there(volume_study: Study, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(RatersError, match=r"such as 'a'; there is 'other.txt'"):
        raters.evaluate(tmp_path, volume_study)
    with pytest.raises(RatersError, match="no such folder"):
        raters.evaluate(tmp_path / "none", volume_study)


def test_nothing_to_compare_with_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "0.png", np.zeros((4, 4), np.uint8))
    study = Study.from_arrays(images=np.zeros((1, 1, 4, 4), np.uint8))
    with pytest.raises(RatersError, match="neither raters nor references"):
        raters.evaluate(tmp_path, study)


def test_predicted_classes_of_a_table(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    labels = random.integers(-1, 3, (30, 2))
    truth = random.integers(-1, 3, 30)
    guess = random.integers(0, 3, 30)
    study = Study.from_arrays(labels=labels, reference=truth, raters=["ann", "bob"])
    lines = [f"{k},{g}" for k, g in enumerate(guess) if k != 7]
    (tmp_path / "guess.csv").write_text("\n".join(["task,label", *lines, "99,0"]))
    result = raters.evaluate(tmp_path / "guess.csv", study)
    rows = {row["against"]: row for row in result.summary}
    for against, known in (("reference", truth), ("ann", labels[:, 0]), ("bob", labels[:, 1])):
        seen = (known >= 0) & (np.arange(30) != 7)
        row = rows[against]
        assert row["cases"] == seen.sum()
        assert row["accuracy"] == pytest.approx(accuracy_score(known[seen], guess[seen]))
        expected = balanced_accuracy_score(known[seen], guess[seen])
        assert row["balanced_accuracy"] == pytest.approx(expected)
    assert result.notes == [
        "1 tasks without a prediction (left out)",
        "1 predictions for unknown tasks",
    ]
    (tmp_path / "guess.csv").write_text("task,label\n0,9\n")
    with pytest.raises(RatersError, match="found the label '9' for task '0'"):
        raters.evaluate(tmp_path / "guess.csv", study)


def test_command_prints_a_table_and_writes_files(tmp_path: Path, run_raters: Run) -> None:
    mask = np.zeros((6, 6), np.uint8)
    mask[2:4] = 1
    for rater in ("ann", "bob"):
        for case in ("a", "b"):
            save(tmp_path / f"masks/{rater}/{case}.png", mask)
    pattern = tmp_path / "masks/{rater}/{case}.png"
    run = run_raters("evaluate", tmp_path / "masks/ann", pattern, "-o", tmp_path / "out")
    assert run.code == 0 and "ann" in run.out and "1.000" in run.out
    written = json.loads((tmp_path / "out/evaluation.json").read_text())
    assert {row["against"] for row in written["summary"]} == {"ann", "bob"}
    assert (tmp_path / "out/cases.csv").read_text().count("\n") == 5
    save(tmp_path / "other/a.png", np.zeros((5, 6), np.uint8))
    save(tmp_path / "other/b.png", mask)
    run = run_raters("evaluate", tmp_path / "other", pattern)
    assert run.code == 2 and "a.png: found shape 5 x 6, expected 6 x 6" in run.err


def test_agree_command_prints_and_writes(tmp_path: Path, run_raters: Run) -> None:
    random = np.random.default_rng(0)
    for rater in ("ann", "bob", "cy"):
        for case in ("a", "b"):
            save(tmp_path / f"masks/{rater}/{case}.png", random.integers(0, 3, (6, 6), np.uint8))
    pattern = tmp_path / "masks/{rater}/{case}.png"
    run = run_raters("agree", pattern, "-o", tmp_path / "out", "--maps", tmp_path / "maps")
    assert run.code == 0
    assert all(len(line) <= 80 for line in run.out.splitlines() if "written" not in line)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {"overall.csv", "pairs.csv", "raters.csv", "cases.csv"}
    assert names == {*tables, "agreement.json", ".raters.json"}
    assert sorted(path.name for path in (tmp_path / "maps").glob("*.png")) == ["a.png", "b.png"]
    run = run_raters("agree", pattern, "--json")
    assert len(json.loads(run.out)["pairs"]) == 3 * 3
    run = run_raters("agree", pattern, "--raters", "ann")
    assert run.code == 2 and "only the rater 'ann'" in run.err


def black_and_white(folder: Path, truth: int, predicted: int) -> tuple[Study, Path]:
    """Draw masks in one coding and predictions in another; their Dice is 2 * 6 / (9 + 6) = 0.8."""
    mask, guess = np.zeros((2, 8, 8), np.uint8)
    mask[1:4, 1:4] = 1
    guess[1:4, 1:3] = 1
    for rater in ("ann", "bob"):
        save(folder / "masks" / rater / "c.png", mask * np.uint8(truth))
    save(folder / "predictions" / "c.png", guess * np.uint8(predicted))
    return raters.read(f"{folder}/masks/{{rater}}/{{case}}.png"), folder / "predictions"


@pytest.mark.parametrize(("truth", "predicted"), [(255, 1), (1, 255), (255, 255), (7, 1), (1, 1)])
def test_codings_of_two_classes_are_told_apart(tmp_path: Path, truth: int, predicted: int) -> None:
    study, predictions = black_and_white(tmp_path, truth, predicted)
    result = raters.evaluate(predictions, study)
    assert [row["dice"] for row in result.summary] == pytest.approx([0.8, 0.8])


def test_coding_that_fits_neither_values_nor_numbers(tmp_path: Path) -> None:
    study, predictions = black_and_white(tmp_path, 255, 3)
    with pytest.raises(RatersError, match="found value 3, expected one of"):
        raters.evaluate(predictions, study)


def test_class_numbers_that_could_be_values_are_refused(
    volume_study: Study, tmp_path: Path
) -> None:
    # In a study with the values 0, 2 and 4, a 2 may be the class of that value or the third one.
    for case in volume_study.cases:
        save(tmp_path / f"{case}.nii.gz", np.full((5, 6, 4), 1, np.uint8), AFFINE)
    with pytest.raises(RatersError, match="found value 1"):
        raters.evaluate(tmp_path, volume_study)


def test_undecided_pixels_of_a_fusion_are_no_foreground(tmp_path: Path) -> None:
    first, second = np.zeros((2, 8, 8), np.uint8)
    first[1:4, 1:4] = 1
    for rater, mask in (("ann", first), ("bob", second)):
        save(tmp_path / "masks" / rater / "c.png", mask)
    study = raters.read(f"{tmp_path}/masks/{{rater}}/{{case}}.png")
    from raters.consensus.write import write_consensus

    write_consensus(raters.fuse(study, "vote", ties="undecided"), tmp_path / "out")
    rows = raters.evaluate(tmp_path / "out", study).cases
    assert {row["volume_difference"] for row in rows} == {0}

"""The cuts of a run: chosen at the end of training, kept, and used by predict and evaluate."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import raters
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.evaluation import evaluate
from raters.learning.evaluation import compare_runs
from raters.learning.prediction.find_cuts import find_cuts
from raters.learning.prediction.predict_study import predict_study
from raters.learning.prediction.writing import Outputs
from raters.metrics import area_cut, best_cut, cut_labels, dice
from raters.metrics.chosen_cut import Cuts, chosen_cut
from raters.study.study import Study
from tests.support.command_line import Run, draw_masks, pattern
from tests.support.models import make_model

SMALL = {"epochs": 2, "width": 2, "depth": 2, "progress": False, "batch_size": 4}


def shy_study(references: bool = True) -> Study:
    """Discs that two of five raters draw: their mean is 0.4 there."""
    rng = np.random.default_rng(0)
    space = np.mgrid[0:16, 0:16]
    centres = rng.uniform(5, 11, (30, 2, 1, 1))
    truth = (np.hypot(*(space[:, np.newaxis] - centres.swapaxes(0, 1))) < 4).astype(np.int16)
    images = truth + rng.normal(0, 0.1, truth.shape)
    labels = np.zeros((30, 5, 16, 16), np.int16)
    labels[:, :2] = truth[:, np.newaxis]
    splits = ["train"] * 16 + ["val"] * 6 + ["test"] * 8
    return Study.from_arrays(
        images[:, np.newaxis], labels, truth if references else None, splits=splits
    )


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mean"
    raters.fit(shy_study(), "mean", folder=folder, **SMALL)
    return folder


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shy") / "study"
    shy_study().write(folder, "packed")
    return folder


# --- chosen and kept


def test_a_run_keeps_the_cuts_of_its_held_out_cases(run_folder: Path) -> None:
    model = raters.load(run_folder)
    held_out = shy_study().select(split="val")
    cases = list(held_out.iter_cases())
    truths = [model.truth(case) for case in cases]
    assert model.cuts is not None
    assert (model.cuts.cases, model.cuts.on) == (6, "held-out")
    np.testing.assert_allclose(model.cut("best"), best_cut(truths, [c.reference for c in cases]))
    np.testing.assert_allclose(model.cut("area"), area_cut(truths, [c.labels for c in cases]))
    drawn = area_cut(truths, [c.labels for c in cases], blank=False)
    np.testing.assert_allclose(model.cut("area-drawn"), drawn)
    assert json.loads((run_folder / "cuts.json").read_text())["best"] == {
        "foreground": model.cut("best").item()
    }


def test_without_references_there_is_no_best_cut() -> None:
    model = raters.fit(shy_study(references=False), "mean", **SMALL)
    assert model.cuts is not None
    assert model.cuts.best is None
    assert 0 < model.cut("area").item() < 1
    with pytest.raises(RatersError, match="none of the cases that it is chosen on had a reference"):
        model.cut("best")


def test_cuts_are_saved_and_extended_with_the_model(run_folder: Path, tmp_path: Path) -> None:
    model = raters.load(run_folder)
    again = raters.load(model.save(tmp_path / "copy"))
    assert again.cuts is not None
    for name in ("area", "area-drawn", "best"):
        np.testing.assert_array_equal(again.cut(name), model.cut(name))
    study = shy_study()
    other = Study.from_arrays(
        np.stack([case.image for case in study.iter_cases()]),
        np.stack([case.labels[:1] for case in study.iter_cases()]),
        raters=["new"],
        splits=list(study.index.splits),
    )
    assert raters.extend(model, other, progress=False).cuts is model.cuts


def test_large_images_come_in_bands() -> None:
    small = make_model(patch_size=(8, 8))
    study = shy_study().select(split="val")
    found = find_cuts(small, study, "held-out")
    cases = list(study.iter_cases())
    truths = [small.truth(case) for case in cases]
    np.testing.assert_allclose(found.area, area_cut(truths, [case.labels for case in cases]))
    np.testing.assert_allclose(found.best, best_cut(truths, [case.reference for case in cases]))


def test_a_case_that_cannot_be_read_does_not_cost_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Cuts:
        raise RatersError("found no image, expected one", case="a")

    monkeypatch.setattr("raters.learning.prediction.find_cuts.find_cuts", broken)
    with pytest.warns(UserWarning, match="no cuts were chosen for the model: found no image"):
        model = raters.fit(shy_study(), "vote", **SMALL)
    assert model.cuts is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"area": {"class 4": 0.3}}',
        '{"area": {"class 4": 1.5}, "area-drawn": {"class 4": 0.3}, "best": null, "cases": 1, '
        '"on": "held-out"}',
        '{"area": {"class 9": 0.5}, "area-drawn": {}, "best": null, "cases": 1, "on": "x"}',
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    folder = make_model().save(tmp_path / "run")
    (folder / "cuts.json").write_text(text)
    with pytest.raises(RatersError, match=r"cuts.json: cannot be read"):
        raters.load(folder)


# --- what can be asked for


def test_by_class_by_value_or_name() -> None:
    classes = Classes.parse("0=background,2=core,4=edge")
    known = Cuts(np.array([0.2, 0.3]), np.array([0.21, 0.31]), np.array([0.4, 0.6]), 9, "held-out")

    def cut(given: object) -> list[float]:
        return chosen_cut(given, classes, "segmentation", known).tolist()  # type: ignore[arg-type]

    assert cut("0.3") == cut(0.3) == cut([0.3, 0.3]) == [0.3, 0.3]
    assert cut("area") == [0.2, 0.3]
    assert cut("area-drawn") == [0.21, 0.31]
    assert cut("2=0.1, 4=area") == cut("edge=area,core=0.1") == [0.1, 0.3]
    assert cut("edge=best") == [0.5, 0.6]  # classes that are not named stay at 0.5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("high", "found the cut 'high', expected a number above 0 and below 1, 'area'"),
        ("1.5", "found the cut 1.5, expected a number above 0 and below 1"),
        ("nan", "found the cut nan, expected"),
        ("", "found the cut ''"),
        ("0=0.3", "found a cut of the class '0', expected a foreground class, one of "),
        ("7=0.3", "found a cut of the class '7', expected a foreground class, one of "),
        ("4=0.3,0.2", "found '0.2' as a cut, expected CLASS=CUT: the class is one of "),
        ("4=0.3,class 4=0.2", "found two cuts of the class 'class 4', expected one: 0.3 or 0.2"),
        ("4=", "found the cut ''"),
        ("area", "found no cuts.json in the run"),
    ],
)
def test_what_is_no_cut_ends_with_2_and_writes_nothing(
    given: str, expected: str, tmp_path: Path, run_raters: Run
) -> None:
    folder = make_model().save(tmp_path / "run")
    (tmp_path / "images").mkdir()
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(tmp_path / "images/a.png")
    told = run_raters(
        "predict",
        folder,
        tmp_path / "images",
        "-o",
        tmp_path / "out",
        "--cut",
        given,
    )
    assert told.code == 2
    assert expected in " ".join(told.err.split())
    assert not (tmp_path / "out").exists()


def test_class_labels_have_no_cut() -> None:
    model = make_model(kind="classification", spatial_dims=0, channels=3, values=("cat", "dog"))
    assert model.predict(np.zeros(3)).shape == ()
    with pytest.raises(RatersError, match="a model of class labels, expected none"):
        model.predict(np.zeros(3), cut=0.3)


# --- predict and evaluate


def test_predict_writes_masks_at_the_cut(
    run_folder: Path, study_folder: Path, tmp_path: Path, run_raters: Run
) -> None:
    model = raters.load(run_folder)
    case = shy_study().select(split="test")[0]
    cut = f"{np.median(model.truth(case)[1]):.4f}"  # half of the image is above it
    words = ("predict", run_folder, study_folder, "-o", tmp_path / "out")
    assert run_raters(*words, "--cut", cut, "--probabilities").code == 0
    [path] = [p for p in (tmp_path / "out").glob(f"{case.id}.*") if p.is_file()]
    mask = np.load(path) if path.suffix == ".npy" else np.asarray(Image.open(path))
    np.testing.assert_array_equal(mask > 0, model.truth(case)[1] > np.float64(cut))
    assert 0.4 < (mask > 0).mean() < 0.6
    # other cuts do not mix with these in one folder
    told = run_raters(*words, "--cut", "area")
    assert told.code == 2
    assert "holds other work" in told.err
    assert run_raters(*words, "--cut", cut).code == 0


def test_what_raters_would_draw_is_not_cut(tmp_path: Path) -> None:
    model = make_model()
    study = shy_study().select(split="test")
    outputs = Outputs(raters=("ann",), cut=0.01)
    predict_study(model, study, tmp_path / "out", outputs)
    [path] = [p for p in (tmp_path / "out/as-ann").glob(f"{study[0].id}.*") if p.is_file()]
    found = np.load(path) if path.suffix == ".npy" else np.asarray(Image.open(path))
    np.testing.assert_array_equal(found == 4, model.as_rater(study[0], "ann").argmax(0) == 1)


def test_evaluate_gives_dice_at_three_cuts(run_folder: Path) -> None:
    model = raters.load(run_folder)
    study = shy_study()
    found = evaluate(run_folder, study, "test")
    [row] = found.cuts
    cases = list(study.select(split="test").iter_cases())
    for name, cut in (("half", 0.5), ("best", "best"), ("area", "area")):
        expected = np.mean([dice(c.reference, model.predict(c, cut)) for c in cases])
        assert row[f"dice_{name}"] == pytest.approx(expected)
        assert row[f"dice_{name}_low"] <= expected <= row[f"dice_{name}_high"]
    assert (row["cut_best"], row["cut_area"]) == (model.cut("best"), model.cut("area"))
    assert found.main["score"] == pytest.approx(row["dice_half"])
    assert found.main["score_best"] == pytest.approx(row["dice_best"])
    at_best = evaluate(model, study, "test", cut="best")
    assert at_best.main["score"] == pytest.approx(row["dice_best"])
    assert at_best.cuts == found.cuts


def test_without_a_reference_it_is_the_mean_over_raters(run_folder: Path) -> None:
    model = raters.load(run_folder)
    study = shy_study(references=False)
    [row] = evaluate(model, study, "test").cuts
    cases = list(study.select(split="test").iter_cases())
    expected = np.mean([[dice(m, model.predict(c, "area")) for m in c.labels] for c in cases])
    assert row["against"] == "raters"
    assert row["dice_area"] == pytest.approx(expected)


def test_classes_have_rows_of_their_own() -> None:
    model = make_model(values=(0, 2, 3))
    rng = np.random.default_rng(1)
    model.cuts = Cuts(np.array([0.3, 0.4]), np.array([0.3, 0.4]), np.array([0.2, 0.6]), 3, "x")
    study = Study.from_arrays(
        rng.random((4, 1, 16, 16)),
        rng.integers(0, 3, (4, 3, 16, 16)),
        rng.integers(0, 3, (4, 16, 16)),
        raters=["ann", "../x", "bob"],
        classes={0: "class 0", 2: "class 2", 3: "class 3"},
    )
    rows = evaluate(model, study).cuts
    assert [row["class"] for row in rows] == ["all", "class 2", "class 3"]
    each = np.array(
        [dice(c.reference, cut_labels(model.truth(c), [0.2, 0.6]), 3) for c in study.iter_cases()]
    )
    found = [row["dice_best"] for row in rows]
    assert found == pytest.approx([each.mean(), *each.mean(axis=0)])
    assert [row["cut_best"] for row in rows] == [None, 0.2, 0.6]


def test_the_command_shows_and_writes_them(
    run_folder: Path, study_folder: Path, tmp_path: Path, run_raters: Run
) -> None:
    words = ("evaluate", run_folder, study_folder, "--split", "test")
    told = run_raters(*words, "-o", tmp_path / "scores")
    assert told.code == 0
    assert "Dice by cut" in told.out
    assert all(name in told.out for name in ("at 0.5", "at best", "at area", "best cut"))
    assert (tmp_path / "scores/cuts.csv").exists()
    assert json.loads((tmp_path / "scores/evaluation.json").read_text())["cuts"]
    compared = run_raters(*words, "--against", _copy(run_folder, tmp_path / "vote"))
    assert compared.code == 0
    assert "dice at the best cut" in compared.out
    bad = run_raters(*words, "--cut", "2")
    assert bad.code == 2
    assert "found the cut 2" in bad.err


def test_runs_are_compared_at_their_own_cuts(run_folder: Path) -> None:
    other = make_model(raters=tuple(raters.load(run_folder).config.raters), values=(0, 1))
    study = shy_study()
    other.config = other.config.model_copy(
        update={"classes": raters.load(run_folder).config.classes}
    )
    other.cuts = find_cuts(other, study.select(split="val"), "held-out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_runs([run_folder, other], study, "test")
    names = [row["score"] for row in found.differences]
    assert {"score", "score_best", "score_area"} <= set(names)
    scores = [row["score_best"] for row in found.rows]
    [difference] = [row for row in found.differences if row["score"] == "score_best"]
    assert difference["difference"] == pytest.approx(scores[1] - scores[0])


def test_labels_are_not_cut_again(tmp_path: Path, run_raters: Run) -> None:
    study = pattern(draw_masks(tmp_path, cases=1))
    told = run_raters("evaluate", tmp_path / "ann", study, "--cut", "0.3")
    assert told.code == 2
    assert "labels already" in told.err


def _copy(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to))


def test_without_raters_there_is_no_area_cut() -> None:
    study = shy_study()
    masks = np.stack([np.asarray(case.reference) for case in study.iter_cases()])
    images = np.stack([np.asarray(case.image) for case in study.iter_cases()])
    model = raters.fit(Study.from_arrays(images, reference=masks), "truth", **SMALL)
    assert model.cuts is not None and model.cuts.area is None
    assert 0 < model.cut("best").item() < 1
    with pytest.raises(RatersError, match=r"none of the cases .* had a mask of a rater"):
        model.cut("area")

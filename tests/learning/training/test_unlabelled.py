"""A rater without a label: named, left out, and never shown as one who is right."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.api import make_report
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.evaluation import evaluate
from raters.learning.training.epochs import HeldOutScores
from raters.metrics.confusion import dominance_margin
from raters.study.study import Study
from raters.study.survey import survey
from tests.support.command_line import Run

SHORT = {"epochs": 2, "progress": False, "width": 2, "depth": 2, "batch_size": 8}
TABLE = {**SHORT, "depth": 0, "batch_size": 20, "confusion_lr_scale": 10.0}
NOTED = pytest.mark.filterwarnings("ignore:found no label by the rater")


def make_table_with_silent_raters(silent: int = 1, right: float = 0.8) -> Study:
    """Return answers of ann, bob and cy, and of others who never answer."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 120)
    labels = np.where(rng.random((120, 3)) < right, truth[:, None], 1 - truth[:, None])
    nothing = np.full((120, silent), MISSING)
    features = truth[:, None] + rng.normal(0, 0.2, (120, 1))
    names = ["ann", "bob", "cy", *(f"none{k}" for k in range(silent))]
    return Study.from_arrays(
        features, np.concatenate([labels, nothing], 1), reference=truth, raters=names
    )


def make_masks_with_silent_rater() -> Study:
    """Return masks of ann and bob; cy drew nothing that is to be trained on."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(10, 1, 8, 8)).astype(np.float32)
    truth = (images[:, 0] > 0).astype(np.int16)
    labels = np.stack([truth, 1 - truth, truth], 1)
    labels[:6, 2] = MISSING
    splits = ["train"] * 6 + ["val"] * 2 + ["test"] * 2
    names = ["ann", "bob", "cy"]
    return Study.from_arrays(images, labels, reference=truth, raters=names, splits=splits)


@pytest.mark.parametrize("method", ["global-cm", "pixel-cm", "vote", "separate"])
def test_training_warns_by_name_and_the_model_refuses(method: str, tmp_path: Path) -> None:
    study = make_masks_with_silent_rater()
    with warnings.catch_warnings(record=True) as said:  # libraries may warn of things too
        warnings.simplefilter("always")
        model = raters.fit(study, method, **SHORT)
    named = "found no label by the rater 'cy' among the cases to train on"
    assert any(named in str(warning.message) for warning in said)
    model.save(tmp_path)
    for each in (model, raters.load(tmp_path)):
        assert each.config.unlabelled == ("cy",)
        assert each.config.labelled == ("ann", "bob")
        with pytest.raises(RatersError, match="'cy' without a label in the training, expected one"):
            each.as_rater(study[0], "cy")
        assert each.as_rater(study[0], "bob").shape == (2, 8, 8)
    if method == "separate":
        return
    matrices = model.confusion(study[0])
    assert np.isnan(matrices[2]).all()
    assert np.isfinite(matrices[:2]).all()


@NOTED
@pytest.mark.parametrize("method", ["separate", "wdn", "mrnet", "pionono"])
def test_who_labelled_held_out_cases_alone_has_no_part_in_the_truth(method: str) -> None:
    """Nothing of cy was trained on: an untrained head would join the mean."""
    study = make_masks_with_silent_rater()
    model = raters.fit(study, method, **SHORT)
    assert model.config.unlabelled == ("cy",)
    assert model.method.labelled.tolist() == [True, True, False]  # type: ignore[union-attr, operator]


def test_everybody_who_labels_is_known() -> None:
    model = raters.fit(make_table_with_silent_raters(silent=0), "global-cm", **TABLE)
    assert model.config.unlabelled == ()
    assert np.isfinite(model.confusion(np.zeros(1))).all()


def test_raters_without_labels_are_found_in_masks_and_tables() -> None:
    assert survey(make_table_with_silent_raters(silent=2)).without_labels() == ("none0", "none1")
    assert survey(make_masks_with_silent_rater()).without_labels() == ()
    assert survey(make_masks_with_silent_rater().select(split="train")).without_labels() == ("cy",)
    assert survey(make_table_with_silent_raters(silent=0)).without_labels() == ()


@NOTED
def test_the_command_line_and_its_tables_leave_them_out(tmp_path: Path, run_raters: Run) -> None:
    study = make_masks_with_silent_rater()
    raters.fit(study, "global-cm", folder=tmp_path / "run", **SHORT)
    study.write(tmp_path / "study", "packed")
    predict = ["predict", tmp_path / "run", tmp_path / "study"]
    asked = ["-o", tmp_path / "no", "--as-rater", "cy"]
    refused = run_raters(*predict, *asked)
    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert "'cy' without a label in the training, expected one of ann, bob" in said
    done = run_raters(*predict, "-o", tmp_path / "out", "--confusion")
    assert done.code == 0, done.err
    with open(tmp_path / "out" / "confusion.csv", newline="") as file:
        assert {row["rater"] for row in csv.DictReader(file)} == {"ann", "bob"}


@NOTED
def test_evaluation_and_report_name_them_and_leave_them_out(tmp_path: Path) -> None:
    study = make_masks_with_silent_rater()
    raters.fit(study, "pixel-cm", folder=tmp_path / "run", **SHORT)
    scores = evaluate(tmp_path / "run", study, "test")
    assert {row["rater"] for row in scores.raters} == {"ann", "bob"}
    assert "1 rater of whom the run was trained on no label" in " ".join(scores.notes)
    assert "cy" in " ".join(scores.notes)
    assert np.isfinite([row["log_likelihood"] for row in scores.likelihood]).all()
    with pytest.raises(RatersError, match="found the rater 'cy', expected one that the run knows"):
        evaluate(tmp_path / "run", study, "test", raters=["cy"])
    report = make_report(tmp_path / "run", study, cases_shown=1)
    skills = next(section for section in report.sections if section.title == "Raters")
    shown = [row["rater"] for block in skills.blocks for row in getattr(block, "rows", [])]
    assert shown == ["ann", "bob"]


def flipped(share: float) -> NDArray[np.float64]:
    return np.array([[1 - share, share], [share, 1 - share]])


def test_dominance_weighs_raters_by_how_often_they_label() -> None:
    """As pi_r of Zhang et al.'s theorem: those who never label do not vouch for the others."""
    matrices = np.stack([flipped(0.65)] * 2 + [flipped(0.1)] * 3)
    assert dominance_margin(matrices) == pytest.approx(0.36)
    assert dominance_margin(matrices, [50, 50, 0, 0, 0]) == pytest.approx(-0.3)
    labels = np.array([7, 2, 1, 0, 0])
    mean = np.zeros((2, 2))
    for matrix, number in zip(matrices, labels, strict=True):
        mean += matrix * number / labels.sum()
    expected = min(mean[0, 0] - mean[1, 0], mean[1, 1] - mean[0, 1])
    assert dominance_margin(matrices, labels) == pytest.approx(expected)
    pixels = torch.tensor([4.0, 4.0])
    sums = torch.from_numpy(matrices) * pixels[:, None]
    scores = HeldOutScores(confusion=sums, pixels=pixels, labels=torch.tensor([50, 50, 0, 0, 0]))
    assert scores.dominance == pytest.approx(-0.3)


@NOTED
@pytest.mark.parametrize("silent", [1, 3])
def test_silent_raters_do_not_change_the_dominance_of_a_training(silent: int) -> None:
    alone, beside = (
        raters.fit(make_table_with_silent_raters(number, right=0.6), "global-cm", **TABLE)
        for number in (0, silent)
    )
    for row, expected in zip(beside.history, alone.history, strict=True):
        assert row["dominance"] == pytest.approx(expected["dominance"], abs=1e-6)


@NOTED
def test_a_rater_who_comes_later_without_labels() -> None:
    study = make_table_with_silent_raters(silent=1)
    model = raters.fit(study.select(raters=["ann", "bob"]), "global-cm", **TABLE)
    longer = raters.extend(model, study.select(raters=["cy", "none0"]), progress=False, epochs=1)
    assert longer.config.raters == ("ann", "bob", "cy", "none0")
    assert longer.config.unlabelled == ("none0",)
    assert np.isfinite(longer.confusion(np.zeros(1))[:3]).all()

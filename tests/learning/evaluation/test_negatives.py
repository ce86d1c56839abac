"""What negative drawings exclude, by a run and by references: in reports, in Python, in files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from raters.core.classes import MISSING
from raters.learning.evaluation.negatives import Excluded, error_rows, look_at_negatives
from raters.learning.prediction.predict_study import predict_study
from raters.learning.prediction.writing import Outputs
from raters.learning.training.model import Model
from raters.study.annotations import Annotation
from raters.study.study import Study
from raters.views.report import FigureBlock, TableBlock
from raters.views.report.blocks import all_blocks
from raters.views.report.run import run_report
from tests.support.models import make_model

pytestmark = pytest.mark.usefixtures("small_figures")
KINDS: tuple[Annotation, ...] = ("positive", "negative", "mask")
L = 3


@pytest.fixture(scope="module")
def model() -> Model:
    """A model with random weights, M too."""
    config = make_model("coarse", values=(0, 1, 2)).config
    config = config.model_copy(update={"annotations": KINDS, "unmarked": "unknown"})
    torch.manual_seed(0)
    method = config.build()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return Model(method.eval(), config)


@pytest.fixture(scope="module")
def study_with_silent_rater(model: Model) -> Study:
    """Four cases with references, of which the first rater says nothing anywhere."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, L, (4, 8, 8))
    labels = rng.integers(0, L, (4, 3, 8, 8))
    labels[:, :, 0] = MISSING
    return make_study(model, labels, truth)


def make_study(model: Model, labels: np.ndarray, truth: np.ndarray | None) -> Study:  # type: ignore[type-arg]
    images = np.random.default_rng(1).normal(size=(len(labels), 1, 8, 8)).astype(np.float32)
    return Study.from_arrays(
        images=images,
        labels=labels,
        reference=truth,
        raters=model.config.raters,
        classes={c.value: c.name for c in model.config.classes},
        annotations=dict(zip(model.config.raters, KINDS, strict=True)),
        unmarked="unknown",
    )


def count_exclusions(study: Study) -> np.ndarray:  # type: ignore[type-arg]
    """Count what the negative rater excludes of each true class, pixel by pixel."""
    counts = np.zeros((L, L))
    for case in study.iter_cases():
        assert case.reference is not None
        for place in np.ndindex(8, 8):
            said = case.labels[(1, *place)]
            if said != MISSING:
                counts[case.reference[place], said] += 1
    return counts


def test_matrices_are_means_over_the_predicted_class_and_targets_are_counted(
    model: Model, study_with_silent_rater: Study
) -> None:
    found = look_at_negatives(model, study_with_silent_rater)
    assert found is not None and found.said is not None
    assert found.raters == ["../x"]
    sums = np.zeros((L, L))
    weights = np.zeros(L)
    for case in study_with_silent_rater.iter_cases():
        truth = model.truth(case)
        matrices = model.confusion(case)[1]
        for place in np.ndindex(8, 8):
            p = truth[(slice(None), *place)].astype(float)
            sums += p[:, np.newaxis] * matrices[(slice(None), slice(None), *place)]
            weights += p
    np.testing.assert_allclose(found.said[0], sums / weights[:, np.newaxis], rtol=1e-4)
    counts = count_exclusions(study_with_silent_rater)
    assert found.counted is not None
    np.testing.assert_array_equal(found.counted[0], counts)
    right = counts * (1 - np.eye(L))
    assert found.true_transition is not None and found.true_excluded is not None
    np.testing.assert_allclose(found.true_transition[0], right / right.sum(1)[:, np.newaxis])
    np.testing.assert_allclose(found.true_excluded[0], counts / counts.sum(1)[:, np.newaxis])
    m = model.transition()
    assert m is not None
    np.testing.assert_allclose(found.transition[0], m[1], rtol=1e-6)
    assert found.excluded is not None
    np.testing.assert_allclose(found.excluded[0], found.said[0] @ m[1], rtol=1e-6)
    assert np.isnan(m[[0, 2]]).all()
    (row,) = error_rows(found)
    assert row["wrongly_excluded"] == pytest.approx(np.trace(counts) / counts.sum())
    apart = m[1] - right / right.sum(1)[:, np.newaxis]
    assert row["transition_error"] == pytest.approx(np.sqrt((apart**2).mean()), rel=1e-5)


@pytest.mark.slow
def test_reports_show_both_matrices_and_leave_targets_out_without_references(
    model: Model, study_with_silent_rater: Study, tmp_path: Path
) -> None:
    model.save(tmp_path / "run")
    labels = np.stack([case.drawings for case in study_with_silent_rater.iter_cases()])
    without = make_study(model, labels, None)
    for given, panels in ((study_with_silent_rater, 2), (without, 1), (None, 1)):
        report = run_report(tmp_path / "run", given, shown=0)
        blocks = {b.name: b for b in all_blocks(report) if isinstance(b, FigureBlock | TableBlock)}
        transition = blocks["transition"]
        assert isinstance(transition, FigureBlock)
        drawn = [axes.get_title() for axes in transition.figure.axes if axes.get_title()]
        assert len(drawn) == panels
        assert ("excluded" in blocks) == ("negative_confusion" in blocks) == (given is not None)
        assert ("negatives" in blocks) == (given is study_with_silent_rater)
    confusion = blocks.get("confusion")  # of the others: without cases they have none
    assert confusion is None


def test_a_study_of_nothing_but_negatives_has_a_report(
    model: Model, study_with_silent_rater: Study, tmp_path: Path
) -> None:
    model.save(tmp_path)
    report = run_report(tmp_path, study_with_silent_rater.select(raters=["../x"]), shown=1)
    assert "Negative drawings" in [section.title for section in report.sections]
    assert "Raters" not in [section.title for section in report.sections]


def test_classes_that_nobody_excludes_have_no_target() -> None:
    m = 1 - np.eye(2)[np.newaxis]
    counts = np.array([[[0.0, 4.0], [0.0, 3.0]]])
    found = Excluded(["ann"], ["a", "b"], m, counted=counts)
    assert found.true_transition is not None
    assert np.isnan(found.true_transition[0, 1]).all()
    (row,) = error_rows(found)
    assert row == {"rater": "ann", "wrongly_excluded": 3 / 7, "transition_error": 0.0}


def test_the_transition_is_written_with_the_matrices(
    model: Model, study_with_silent_rater: Study, tmp_path: Path
) -> None:
    predict_study(model, study_with_silent_rater, tmp_path, Outputs(confusion=True))
    with (tmp_path / "transition.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == L * L and {row["rater"] for row in rows} == {"../x"}
    m = model.transition()
    assert m is not None
    np.testing.assert_allclose([float(row["p"]) for row in rows], m[1].ravel(), atol=1e-4)
    assert rows[0]["said"] == rows[0]["excluded"] and float(rows[0]["p"]) == 0
    assert np.load(next((tmp_path / "confusion").glob("*.npy"))).shape == (3, L, L, 8, 8)
    predict_study(
        make_model("coarse"),
        study_with_silent_rater.select(raters=[]),
        tmp_path / "two",
        Outputs(confusion=True),
    )
    assert not (tmp_path / "two/transition.csv").exists()

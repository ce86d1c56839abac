"""The report of a run: colours of matrices, tables as scored, telling cases, and odd folders."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import raters
from raters.core.errors import RatersError
from raters.evaluation import evaluate
from raters.io.rows import Row
from raters.learning.evaluation import compare_runs
from raters.learning.evaluation.runs import Seen, shown_part
from raters.learning.evaluation.watch import score_and_watch, telling_cases, weighted
from raters.learning.training.run import write_splits
from raters.simulation import phantom_study, simulate, true_confusion
from raters.study.study import Study
from raters.views.plots import error_colours
from raters.views.plots.error_maps import confusion_colours
from raters.views.report import (
    FigureBlock,
    Report,
    TableBlock,
    TextBlock,
    ViewerBlock,
    render,
    write,
)
from raters.views.report.blocks import all_blocks
from raters.views.report.run import run_report
from raters.views.report.run_scores import part_said, told
from raters.views.texts.say import plain
from tests.support.learning import simulate_masks
from tests.support.models import make_model

pytestmark = pytest.mark.usefixtures("small_figures")
NASTY = "<script>alert(1)</script>"
BLUE = [0.0, 114 / 255, 178 / 255]
ORANGE = [230 / 255, 159 / 255, 0.0]
WHITE = [1.0, 1.0, 1.0]
BLACK = [0.0, 0.0, 0.0]
Array = NDArray[Any]


def block_named(report: Report, name: str) -> Any:
    """Return the block of a name."""
    (found,) = [b for b in all_blocks(report) if not isinstance(b, TextBlock) and b.name == name]
    return found


def has_block(report: Report, name: str) -> bool:
    """Return whether there is a block of a name."""
    return any(not isinstance(b, TextBlock) and b.name == name for b in all_blocks(report))


def paragraphs_of(report: Report) -> str:
    """Return all paragraphs."""
    return "\n".join(plain(b.text) for b in all_blocks(report) if isinstance(b, TextBlock))


def simulate_lesion_study() -> Study:
    """Draw 8 small cases by 3 raters, one of them with a wicked name; 3 cases are for tests."""
    return simulate_masks(
        8,
        (32, 32),
        "good,over,under",
        has_reference=True,
        raters=["good", NASTY, "under"],
        classes=["background", "lesion"],
        splits=["train"] * 5 + ["test"] * 3,
    )


@pytest.fixture(scope="module")
def study() -> Study:
    """The study of all tests that need a trained run."""
    return simulate_lesion_study()


@pytest.fixture(scope="module")
def run_folder(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs, one of them a warm-up."""
    folder = tmp_path_factory.mktemp("runs") / "pixel"
    raters.fit(study, "pixel-cm", folder=folder, epochs=2, width=2, depth=2, warm_up=1)
    return folder


@pytest.fixture(scope="module")
def report(study: Study, run_folder: Path) -> Report:
    """The report of that run."""
    return run_report(run_folder, study, shown=2)


def draw_study_for(model: raters.Model, *space: int, cases: int = 4) -> Study:
    """Draw random labels for the raters and classes of a model."""
    rng = np.random.default_rng(0)
    masks = model.config.kind == "segmentation"
    shape = (cases, len(model.config.raters), *(space if masks else ()))
    return Study.from_arrays(
        images=rng.normal(size=(cases, model.config.channels, *space)),
        labels=rng.integers(0, len(model.config.classes), shape),
        reference=rng.integers(0, len(model.config.classes), (cases, *shape[2:])),
        raters=model.config.raters,
        classes={c.value: c.name for c in model.config.classes},
    )


def test_certain_matrices_have_the_colours_of_errors() -> None:
    truth = np.array([[1, 1], [0, 0]])
    said = np.array([[1, 0], [1, 0]])
    matrices = np.eye(2)[:, said][np.newaxis].repeat(2, axis=0)  # C[t, o] = 1 where o was said
    found = confusion_colours(truth, matrices)
    assert found == pytest.approx(error_colours(truth, said))
    assert found.tolist() == [[WHITE, pytest.approx(BLUE)], [pytest.approx(ORANGE), BLACK]]


def test_shades_go_with_the_row_of_the_true_class() -> None:
    matrix = np.array([[0.75, 0.25], [0.9, 0.1]]).reshape(2, 2, 1, 1)
    found = confusion_colours([[0, 1]], matrix)
    assert found[0, 0] == pytest.approx(0.25 * np.array(ORANGE))
    assert found[0, 1] == pytest.approx(0.1 * np.array(WHITE) + 0.9 * np.array(BLUE))


def test_several_classes_are_right_or_wrong() -> None:
    matrix = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]])[..., None]
    found = confusion_colours([0, 1, 2], matrix)
    assert found[0] == pytest.approx(0.4 * np.array(ORANGE))
    assert found[1] == pytest.approx(0.5 * (np.array(WHITE) + BLUE))
    assert found[2].tolist() == WHITE


def test_volumes_and_wrong_shapes() -> None:
    matrices = np.full((2, 2, 3, 4, 5), 0.5)
    assert confusion_colours(np.zeros((3, 4, 5), int), matrices).shape == (3, 4, 5, 3)
    with pytest.raises(RatersError, match=r"found matrices of shape \(2, 2\), expected"):
        confusion_colours([0, 1], np.eye(2))


@pytest.mark.slow
def test_tables_are_those_of_evaluate(report: Report, run_folder: Path, study: Study) -> None:
    expected = evaluate(run_folder, study, "test")
    for name, rows in {
        "summary": expected.summary,
        "likelihood": expected.likelihood,
        "calibration": expected.calibration,
        "as_rater": expected.as_rater,
        "as_rater_own": expected.raters,
    }.items():
        assert rows and list(block_named(report, name).rows) == rows


def test_pivot_holds_every_pair(report: Report, run_folder: Path, study: Study) -> None:
    table = block_named(report, "as_rater_matrix")
    found = {
        (row["as"], name): row[f"against {name}"] for row in table.rows for name in study.raters
    }
    expected = evaluate(run_folder, study, "test").as_rater
    assert found == {(row["as"], row["against"]): row["dice"] for row in expected}


def test_matrices_are_means_over_the_predicted_class(run_folder: Path, study: Study) -> None:
    model = raters.load(run_folder)
    part = study.select(split="test")
    watched = score_and_watch(model, part)[1]
    total = np.zeros((3, 2, 2))
    pixels = np.zeros(2)
    for case in part:
        truth = model.truth(case)
        matrices = model.confusion(case)
        for place in np.ndindex(truth.shape[1:]):
            for t in range(2):
                weight = truth[(t, *place)]
                total[:, t] += weight * matrices[(slice(None), t, slice(None), *place)]
                pixels[t] += weight
    assert watched.matrices == pytest.approx(total / pixels[:, None], abs=1e-5)
    bits = {
        case.id: -(model.truth(case) * np.log2(model.truth(case))).sum(0).mean() for case in part
    }
    assert watched.uncertainty == pytest.approx(bits, abs=1e-5)


def test_skill_is_the_mean_diagonal(report: Report, run_folder: Path, study: Study) -> None:
    matrices = score_and_watch(raters.load(run_folder), study.select(split="test"))[1].matrices
    assert matrices is not None
    rows = block_named(report, "raters").rows
    assert [row["rater"] for row in rows] == list(study.raters)
    expected = [np.trace(matrix) / 2 for matrix in matrices]
    assert [row["balanced_accuracy"] for row in rows] == pytest.approx(expected)


def test_how_much_more_raters_draw(report: Report, run_folder: Path, study: Study) -> None:
    model = raters.load(run_folder)
    part = study.select(split="test")
    predicted = sum(int((model.predict(case) > 0).sum()) for case in part)
    drawn = sum((case.labels > 0).sum(axis=(1, 2)) for case in part)
    found = [row["draws_more_percent"] for row in block_named(report, "raters").rows]
    assert found == pytest.approx((100 * (drawn / predicted - 1)).tolist(), abs=0.06)


def test_viewer_has_all_layers_and_maps(report: Report, study: Study) -> None:
    viewer = block_named(report, "cases")
    assert isinstance(viewer, ViewerBlock) and len(viewer.cases) == 2
    told_ = [f"as {name}" for name in study.raters]
    outlined = viewer.cases[0].layers
    assert set(outlined) == {"predicted consensus", "reference", *study.raters, *told_}
    confusion = {f"confusion of {name}" for name in study.raters}
    assert set(viewer.cases[0].maps) == {"uncertainty", *confusion}
    assert {layer.name for layer in viewer.layers} == set(outlined)
    colours = {layer.name: layer.colour for layer in viewer.layers}
    assert colours["as good"] == colours["good"] != colours["as under"]
    assert {case.id for case in viewer.cases} <= set(study.select(split="test").cases)


def test_facts_and_which_cases(report: Report) -> None:
    facts = report.facts
    assert facts["method"] == "pixel-cm" and facts["network"] == "unet, width 2"
    trained = facts["cases trained on"]
    held_out = facts["cases held out"]
    assert isinstance(trained, int) and isinstance(held_out, int)
    assert trained + held_out == 5 and facts["cases scored"] == 3 and facts["epochs"] == 2
    assert "test cases" in report.about


@pytest.mark.slow
def test_is_written_and_names_are_only_names(report: Report, tmp_path: Path) -> None:
    path = write(report, tmp_path)
    assert path.stat().st_size < 2_000_000
    for name in ("training_curves", "confusion", "confusion_maps", "skill"):
        assert (tmp_path / f"figures/{name}.svg").exists()
    assert (tmp_path / "tables/history.csv").read_text().startswith("epoch,phase,loss")
    page = path.read_text()
    assert NASTY not in page
    assert html.escape(NASTY) in page  # in tables
    assert page.count("<script>") == 1  # the page's own


def test_other_runs_beside_it(run_folder: Path, study: Study, tmp_path: Path) -> None:
    raters.load(run_folder).save(tmp_path / "copy")
    write_splits(tmp_path / "copy", [(name, "train", name) for name in study.cases[:5]])
    found = run_report(run_folder, study, [tmp_path / "copy"], shown=1)
    expected = compare_runs([run_folder, tmp_path / "copy"], study, "test")
    assert block_named(found, "comparison").rows == expected.rows
    values = [row["difference"] for row in block_named(found, "differences").rows]
    assert values == [row["difference"] for row in expected.differences]
    assert "Only 3 groups" in paragraphs_of(found)
    assert "no interval: too few groups" in paragraphs_of(found)


def test_without_a_study(run_folder: Path) -> None:
    report = run_report(run_folder, why_not="the disk is gone")
    assert "the disk is gone" in paragraphs_of(report)
    assert has_block(report, "training_curves") and has_block(report, "history")
    assert "--study" in paragraphs_of(report) and not has_block(report, "cases")
    with pytest.raises(RatersError, match="found other runs but no study"):
        run_report(run_folder, against=[run_folder])


def test_without_a_study_shared_matrices_are_shown(tmp_path: Path) -> None:
    model = make_model("global-cm")
    model.save(tmp_path)
    report = run_report(tmp_path)
    skills = [row["balanced_accuracy"] for row in block_named(report, "raters").rows]
    matrices = model.confusion(np.zeros((1, 8, 8))).reshape(3, 2, 2)
    assert skills == pytest.approx(np.einsum("rll->r", matrices) / 2)
    assert "no history.csv" in paragraphs_of(report)


def test_unfinished_run_is_refused(run_folder: Path, study: Study, tmp_path: Path) -> None:
    for name in ("config.yaml", "splits.csv", "history.csv", "scores.json"):
        (tmp_path / name).write_bytes((run_folder / name).read_bytes())
    with pytest.raises(RatersError, match="found an unfinished run") as caught:
        run_report(tmp_path, study)
    assert "--resume" in str(caught.value)


def test_a_study_of_other_classes_is_refused(run_folder: Path) -> None:
    other = Study.from_arrays(
        np.zeros((1, 1, 8, 8)), np.zeros((1, 3, 8, 8), int), classes=["background", "other"]
    )
    with pytest.raises(RatersError, match="expected those of the run"):
        run_report(run_folder, other)


def test_volumes_have_slices(tmp_path: Path) -> None:
    model = make_model(spatial_dims=3, raters=("ann", "predicted consensus"))
    model.save(tmp_path)
    report = run_report(tmp_path, draw_study_for(model, 8, 8, 6, cases=2), shown=1)
    viewer = block_named(report, "cases")
    (case,) = viewer.cases
    assert case.shape == (6, 8, 8)
    assert set(case.layers) >= {"predicted consensus", "predicted consensus (model)"}
    assert len(case.maps["confusion of ann"]) == 6
    (other,) = viewer.rest  # the other case is made when it is asked for
    assert viewer.make(other).layers == case.layers
    assert isinstance(block_named(report, "confusion_maps"), FigureBlock)
    render(report)


def test_one_matrix_a_rater_and_none(tmp_path: Path) -> None:
    for method in ("global-cm", "separate"):
        model = make_model(method)
        model.save(tmp_path / method)
        study = draw_study_for(model, 16, 16)
        report = run_report(tmp_path / method, study, shown=int(method == "separate"))
        assert has_block(report, "cases") == (method == "separate")
        assert has_block(report, "confusion") == (method == "global-cm")
        assert not has_block(report, "confusion_maps") and has_block(report, "as_rater")


def test_classes_of_features(tmp_path: Path) -> None:
    model = make_model("global-cm", kind="classification", spatial_dims=0, channels=3)
    model.save(tmp_path)
    study = draw_study_for(model)
    report = run_report(tmp_path, study, shown=0)
    table = block_named(report, "uncertain_cases")
    assert isinstance(table, TableBlock) and not has_block(report, "cases")
    found = {row["case"]: row["uncertainty"] for row in table.rows}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for case in study:
        truth = model.truth(case)
        assert found[case.id] == pytest.approx(-(truth * np.log2(truth)).sum(), abs=1e-5)
    row = next(row for row in table.rows if row["case"] == "0")
    given = {rater: study.classes.names[label] for rater, label in study["0"].answers}
    assert row["answers"] == ", ".join(f"{who}: {what}" for who, what in given.items())


def test_nobody_is_judged_by_a_label_or_two(tmp_path: Path) -> None:
    who = ("ann", "bob", "once")
    model = make_model("global-cm", kind="classification", spatial_dims=0, channels=3, raters=who)
    model.save(tmp_path)
    drawn = draw_study_for(model, cases=24)
    labels = np.repeat([[int(model.truth(case).argmax())] for case in drawn], 3, axis=1)
    others = (labels + 1) % len(drawn.classes)
    labels[:12, 0] = others[:12, 0]
    labels[0, 2] = others[0, 2]
    labels[1:, 2] = -1
    images = np.stack([case.image for case in drawn])
    study = Study.from_arrays(images, labels, raters=who, classes=drawn.classes)
    first = run_report(tmp_path, study, shown=0).first
    assert first is not None and first.matrix is not None
    assert "#rater=ann" in first.actions[1] and "once" not in first.actions[1]
    sure = [float(card.note.split(": ")[1].split()[0]) for card in first.cards]
    assert sure == sorted(sure)  # what is least sure comes first


def test_classes_of_images_have_pictures(tmp_path: Path) -> None:
    model = make_model("global-cm", kind="classification", spatial_dims=2)
    model.save(tmp_path)
    report = run_report(tmp_path, draw_study_for(model, 8, 8), shown=3)
    viewer = block_named(report, "cases")
    assert [len(case.pictures[0].slices) for case in viewer.cases] == [1, 1, 1]
    render(report)


def test_simulated_raters_have_true_matrices(tmp_path: Path) -> None:
    model = make_model(values=(0, 1), raters=("good", "over"))
    study = simulate(phantom_study("lesions", 3, (16, 16)), "good,over", seed=0)
    names = {c.value: c.name for c in study.classes}
    entries = [c.model_copy(update={"name": names[int(c.value)]}) for c in model.config.classes]
    model.config = model.config.model_copy(update={"classes": tuple(entries)})
    model.save(tmp_path)
    report = run_report(tmp_path, study, shown=1)
    total = np.zeros((2, 2, 2))
    pixels = np.zeros(2)
    for case in study:
        assert case.reference is not None
        counts = np.bincount(case.reference.ravel(), minlength=2)
        total += true_confusion(study, case.id) * counts[:, None]
        pixels += counts
    skills = np.einsum("rll->r", total / pixels[:, None]) / 2
    found = [row["true_balanced_accuracy"] for row in block_named(report, "raters").rows]
    assert found == pytest.approx(skills) and has_block(report, "skill_true")


@pytest.mark.slow
def test_a_reference_gives_true_matrices_of_raters_who_labelled(tmp_path: Path) -> None:
    """Counted by hand; cat has labelled nothing here, so nobody knows how she errs."""
    model = make_model(values=(0, 1), raters=("ann", "bob", "cat"))
    model.save(tmp_path)
    reference = np.zeros((2, 8, 8), np.int16)
    reference[:, :, 4:] = 1
    labels = np.stack([reference, np.zeros_like(reference), np.full_like(reference, -1)], 1)
    labels[0, 0, :, 4] = 0  # ann misses a quarter of the foreground of one of two cases
    study = Study.from_arrays(
        images=np.random.default_rng(0).normal(size=(2, 1, 8, 8)),
        labels=labels,
        reference=reference,
        raters=model.config.raters,
        classes={c.value: c.name for c in model.config.classes},
    )
    report = run_report(tmp_path, study, shown=1)
    rows = {row["rater"]: row for row in block_named(report, "raters").rows}
    assert rows["ann"]["true_balanced_accuracy"] == pytest.approx((1 + 0.875) / 2)
    assert rows["bob"]["true_balanced_accuracy"] == pytest.approx(0.5)
    assert np.isnan(rows["cat"]["true_balanced_accuracy"]) and rows["cat"]["matrix_error"] is None
    render(report)


def test_which_cases_are_shown() -> None:
    def study(splits: list[str]) -> Study:
        labels = np.zeros((len(splits), 1, 2, 2), int)
        return Study.from_arrays(labels=labels, splits=splits, classes=["a", "b"])

    seen = Seen({"0": "train", "1": "held-out"})
    part = shown_part(study(["", "", ""]), [seen])
    assert (part.name, part.study.cases) == ("test", ("2",))
    part = shown_part(study(["", ""]), [seen])
    assert (part.name, part.study.cases) == ("held-out", ("1",))
    part = shown_part(study(["", ""]), [Seen(known=False)])
    assert (part.name, len(part.study)) == ("", 2) and "all cases" in part_said(part)
    part = shown_part(study(["test"] * 10), [seen], most=4)
    assert part.study.cases == ("0", "3", "6", "9") and "4 of 10" in part_said(part)


def test_telling_cases() -> None:
    uncertainty = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.0, "e": 0.05}
    dice = {"a": 0.9, "b": float("nan"), "c": 0.2, "d": 0.7, "e": 0.8}
    found = telling_cases(uncertainty, dice, 4)
    assert found == {
        "a": "most uncertain",
        "c": "far from the raters",
        "d": "typical",
        "b": "most uncertain",
    }
    assert set(telling_cases(uncertainty, dice, 99)) == set(uncertainty)
    assert telling_cases({}, {}, 3) == {}


def test_weighted_matrices_that_never_vary() -> None:
    matrix = np.array([[[0.9, 0.1], [0.3, 0.7]]], np.float32).reshape(1, 2, 2, 1, 1)
    truth = np.array([0.25, 0.75], np.float32).reshape(2, 1, 1).repeat(4, axis=1)
    summed, pixels = weighted(matrix, truth)
    assert pixels.tolist() == [1.0, 3.0]
    assert summed / pixels[:, None] == pytest.approx(matrix.reshape(1, 2, 2))


def test_curves_in_words() -> None:
    flat: list[Row] = [
        {"epoch": k, "phase": "main", "loss": 1.0, "held_out": 1 + 8.0**-k, "dominance": 0.5}
        for k in range(1, 10)
    ]
    assert "had settled" in told(flat, {"best_epoch": 9})[0].text
    risen = [{**row, "held_out": abs(row["epoch"] - 4)} for row in flat]
    assert "overfit" in told(risen, {"best_epoch": 4})[0].text
    dipped = [{**row, "reference": 0.89 if row["epoch"] > 7 else 0.9} for row in flat]
    assert "score by the reference had settled" in told(dipped, {"best_epoch": 7})[0].text
    rising = [{**row, "reference": row["epoch"] / 10} for row in risen]
    assert "score by the reference was still rising" in told(rising, {"best_epoch": 9})[0].text
    assert "stopped early" in told(flat, {"stopped_early": True})[0].text
    lost = [{**row, "dominance": -0.1} for row in flat]
    (warning,) = [b for b in told(lost, {"best_epoch": 9}) if b.kind == "warning"]
    assert "--warm-up" in warning.text and "margin -0.10" in warning.text
    broken = [*flat, {"epoch": 10, "phase": "main", "loss": "nan"}]
    assert told(broken, {})[0].kind == "warning"
    assert "--batch-size" in told(flat, {}, steps=2)[1].text
    assert all("--batch-size" not in block.text for block in told(flat, {}, steps=200))
    assert "--num-workers" in told(flat, {"waiting": 0.6})[-1].text

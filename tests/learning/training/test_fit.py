"""`raters.fit` with every method: what it predicts, saves, chooses, and refuses."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import raters
from raters.core.errors import RatersError
from raters.learning.methods import METHODS
from raters.learning.training.dataset import CaseDataset, Item
from raters.learning.training.engine import Learner
from raters.learning.training.options import TrainingOptions
from raters.learning.training.partition import Partition, partition
from raters.learning.training.trainer import TrainingBar
from raters.metrics.confusion import squared_frobenius
from raters.simulation import phantom_study, simulate, true_confusion
from raters.study.study import Study
from tests.support.learning import quiet_fit, simulate_masks
from tests.support.models import apply_matrix

pytestmark = pytest.mark.slow

NOBODY = Partition(np.zeros(0, np.intp), np.zeros(0, np.intp))
TINY = {"epochs": 3, "batch_size": 8, "width": 4, "depth": 2, "progress": False}


@pytest.fixture(scope="module")
def simulated_masks() -> Study:
    """Simulate masks by three kinds of raters, two of each case."""
    return simulate_masks(
        16,
        (24, 20),
        "good,over,blank",
        assign=2,
        has_reference=True,
        raters=["good", "over", "blank"],
        diagnoses=["ill", "well"] * 8,
    )


@pytest.fixture(scope="module")
def answer_study() -> Study:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 90)
    features = np.eye(3)[truth] + rng.normal(0, 0.3, (90, 3))
    source = Study.from_arrays(images=features, reference=truth)
    return simulate(source, "3xhammer-spammer:0.7", assign=2, seed=1)


def replace_by_boxes(study: Study) -> Study:
    """Replace the masks of each rater by the box around them."""
    labels = np.stack([case.labels for case in study])
    for mask in labels.reshape(-1, *labels.shape[2:]):
        places = np.argwhere(mask == 1)
        if len(places):
            top, left = places.min(0)
            low, right = places.max(0)
            mask[top : low + 1, left : right + 1] = -1
    return Study.from_arrays(np.stack([case.image for case in study]), labels)


def check_predictions(model: raters.Model, study: Study, tmp_path: Path) -> None:
    """Probabilities sum to one, 'as rater' is the truth through the matrix, a copy is the same."""
    case = study[0]
    truth = model.truth(case)
    assert truth.shape == (len(study.classes), *case.geometry.shape)
    assert np.allclose(truth.sum(axis=0), 1, atol=1e-5)
    copy = raters.load(model.save(tmp_path / "model"))
    assert np.allclose(copy.truth(case), truth, atol=1e-6)
    rater = study.raters[1]
    if "as_rater" not in model.method.answers:
        with pytest.raises(RatersError, match="it has none"):
            model.as_rater(case, rater)
        return
    told = model.as_rater(case, rater)
    assert np.allclose(told.sum(axis=0), 1, atol=1e-5)
    if "confusion" not in model.method.answers:
        with pytest.raises(RatersError, match="it has none"):
            model.confusion(case)
        return
    matrix = model.confusion(case)
    assert matrix.shape[:3] == (len(study.raters), truth.shape[0], truth.shape[0])
    assert np.allclose(matrix.sum(axis=2), 1, atol=1e-5)
    through = apply_matrix(model.config.method, truth, matrix[1])
    assert np.allclose(told, through, atol=1e-5)
    assert np.allclose(copy.confusion(case), matrix, atol=1e-6)


@pytest.mark.parametrize("method", [m for m in METHODS if "segmentation" in METHODS[m].kinds])
def test_every_method_learns_from_masks(
    method: str, simulated_masks: Study, tmp_path: Path
) -> None:
    simulated_masks = (
        replace_by_boxes(simulated_masks) if METHODS[method].needs == "boxes" else simulated_masks
    )
    model = quiet_fit(simulated_masks, method, **TINY)
    check_predictions(model, simulated_masks, tmp_path)
    assert len(model.history) == 3
    assert model.history[-1]["loss"] < model.history[0]["loss"] * 1.5


@pytest.mark.parametrize("method", [m for m in METHODS if "classification" in METHODS[m].kinds])
def test_every_method_learns_from_answers(method: str, answer_study: Study, tmp_path: Path) -> None:
    model = quiet_fit(answer_study, method, **{**TINY, "depth": 1})
    check_predictions(model, answer_study, tmp_path)


@pytest.mark.parametrize("method", ["staple", "spatial-staple"])
def test_staple_refuses_answers(method: str, answer_study: Study) -> None:
    with pytest.raises(RatersError, match=f"expected masks: {method} takes no others"):
        raters.fit(answer_study, method, progress=False)


@pytest.mark.parametrize("method", ["vote", "pixel-cm", "low-rank-cm"])
def test_patches_in_3d_predict_whole_images(method: str) -> None:
    drawn = simulate(phantom_study("lesions", 4, (20, 18, 17)), "good,over", seed=1)
    model = quiet_fit(drawn, method, **TINY, patch_size=(12, 12, 12), patches_per_case=2)
    truth = model.truth(drawn[0])
    assert truth.shape == (2, 20, 18, 17)
    assert np.allclose(truth.sum(axis=0), 1, atol=1e-4)
    space = model.confusion(drawn[0]).shape[3:]
    assert space == ((20, 18, 17) if method != "vote" else (1, 1, 1))


def test_images_are_classified(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 40)
    images = rng.normal(0, 0.3, (40, 1, 8, 8)) + truth[:, None, None, None]
    study = simulate(Study.from_arrays(images=images, reference=truth), "3xhammer-spammer:0.8")
    model = quiet_fit(study, "global-cm", epochs=4, width=4, progress=False)
    assert model.config.network.name == "cnn"
    check_predictions(model, study, tmp_path)


def test_the_same_seed_gives_the_same_model(simulated_masks: Study) -> None:
    first, second, other = (
        quiet_fit(simulated_masks, "pixel-cm", **TINY, seed=seed).truth(simulated_masks[0])
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first, second)
    assert not np.allclose(first, other)


def test_data_differ_from_epoch_to_epoch(simulated_masks: Study) -> None:
    """Lightning tells the data set which epoch comes before it is read."""
    seen = []
    original = CaseDataset.__getitem__

    def spy(self: CaseDataset, k: int) -> Item:
        if self.mode == "train":
            seen.append(self.epoch)
        return original(self, k)

    CaseDataset.__getitem__ = spy
    try:
        raters.fit(simulated_masks, "vote", **TINY, val_fraction=0.0)
    finally:
        CaseDataset.__getitem__ = original
    assert seen == [0] * 16 + [1] * 16 + [2] * 16


def test_matrices_are_recovered_and_beat_the_vote() -> None:
    """Five flippers of skill .4, one label per image: the vote cannot know, the matrices can."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 2000)
    features = np.eye(4)[truth] + rng.normal(0, 0.2, (2000, 4))
    source = Study.from_arrays(
        images=features, reference=truth, splits=["train"] * 1500 + ["val"] * 200 + ["test"] * 300
    )
    study = simulate(
        source, "5xpairwise-flipper:0.45", assign="one", seed=2, require_dominance=True
    )
    options = {"epochs": 20, "batch_size": 50, "lr": 3e-3, "progress": False}
    scores = {}
    for method in ("vote", "global-cm"):
        right = {"init_accuracy": 0.7, "warm_up": 1} if method == "global-cm" else {}
        model = quiet_fit(study, method, select="likelihood", **options, **right)
        test = study.select(split="test")
        found = [label.item() == case.reference for case, label in model.predict(test)]
        scores[method] = np.mean(found)
    error = squared_frobenius(model.confusion(test[0]), true_confusion(study, 0))
    assert scores["global-cm"] > 0.97
    assert scores["vote"] < scores["global-cm"] - 0.02
    assert error < 0.02  # about 100 labels per row: sampling gives 0.01


def test_a_class_that_is_rare_gets_its_weight(simulated_masks: Study) -> None:
    model = raters.fit(simulated_masks, "vote", **TINY, class_weights="balanced")
    labels = np.concatenate([case.labels.ravel() for case in simulated_masks.iter_cases()])
    share = (labels == 1).sum() / (labels >= 0).sum()
    weights = model.method.class_weights
    assert weights[1] / weights[0] == pytest.approx((1 - share) / share, rel=0.3)


def test_the_best_epoch_is_dominant_first_then_likely(simulated_masks: Study) -> None:
    model = quiet_fit(simulated_masks, "global-cm", **TINY)
    learner = Learner(model.method, TrainingOptions(select="likelihood"), 1, NOBODY)
    rows = [
        {"held_out": 0.5, "dominance": 0.4},
        {"held_out": 0.3, "dominance": -0.2},
        {"held_out": 0.4, "dominance": 0.1},
    ]
    learner.method.options = learner.method.options.model_copy(update={"warm_up": 0})
    assert max(rows, key=learner._score) is rows[2]
    by_reference = TrainingOptions(select="reference")
    learner.choice = by_reference
    rows[1]["reference"] = 0.9
    rows[0]["reference"] = 0.8
    rows[2]["reference"] = 0.7
    assert max(rows, key=learner._score) is rows[1]


def test_a_swapped_truth_is_warned_of(answer_study: Study) -> None:
    model = quiet_fit(answer_study, "global-cm", **{**TINY, "depth": 1})
    model.history[model.best_epoch - 1]["dominance"] = -0.3
    with pytest.warns(UserWarning, match="longer warm_up"):
        model.warn_if_not_dominant()


def test_matrices_are_held_during_the_warm_up(simulated_masks: Study) -> None:
    model = quiet_fit(simulated_masks, "pixel-cm", **TINY, warm_up=2)
    assert ["trace" in row for row in model.history] == [False, False, True]
    assert model.best_epoch == 3


@pytest.mark.parametrize(("assign", "epochs"), [("all", 3), ("one", 2)])
def test_the_warm_up_is_short_where_there_is_no_vote(assign: str, epochs: int) -> None:
    study = simulate(phantom_study("lesions", 4, (16, 16)), "good,over", assign=assign, seed=1)
    model = quiet_fit(study, "pixel-cm", **{**TINY, "epochs": 8, "width": 2})
    assert model.config.options["warm_up"] == epochs  # .4 of 8, or 2


@pytest.mark.parametrize(("number", "learns_from"), [(1, "vote"), (2, "labels"), (3, "vote")])
def test_two_raters_cannot_outvote_each_other(number: int, learns_from: str) -> None:
    """With one rater the vote is the label, with two it would be what both marked."""
    labels = np.random.default_rng(0).integers(0, 2, (8, number, 16, 16))
    study = Study.from_arrays(np.zeros((8, 1, 16, 16)) + labels[:, :1], labels)
    options = {**TINY, "epochs": 1}
    assert quiet_fit(study, "pixel-cm", **options).config.options["warm_up_on"] == learns_from
    asked = quiet_fit(study, "pixel-cm", **options, warm_up_on="vote")
    assert asked.config.options["warm_up_on"] == "vote"


@pytest.mark.parametrize("prior_to", ["own", "identity"])
def test_what_matrices_are_drawn_to(simulated_masks: Study, prior_to: str, tmp_path: Path) -> None:
    """Drawn hard, they are all alike: the raters' own, or the start. Else they vary."""
    options = {**TINY, "epochs": 6, "lr": 0.02, "prior_to": prior_to, "warm_up": 0}
    free, model = (
        quiet_fit(simulated_masks, "pixel-cm", **options, prior=prior) for prior in (1e-9, 1e4)
    )
    assert free.confusion(simulated_masks[0]).std(axis=(3, 4)).max() > 0.03
    assert model.confusion(simulated_masks[0]).std(axis=(3, 4)).max() < 0.01
    own = model.method.raters.own
    assert (own is None) == (prior_to == "identity")
    copy = raters.load(model.save(tmp_path / "model")).method.raters.own
    if own is not None:
        assert copy is not None
        assert torch.equal(own.log_matrix(), copy.log_matrix())


def test_partition_keeps_test_cases_and_groups_apart() -> None:
    labels = np.zeros((8, 1, 2, 2), int)
    given = Study.from_arrays(
        labels=labels, splits=["train"] * 4 + ["validation"] * 2 + ["test"] * 2
    )
    assert [part.tolist() for part in partition(given, 0.5, 0)] == [[0, 1, 2, 3], [4, 5]]
    grouped = Study.from_arrays(labels=labels, groups=list("aabbccdd"))
    train, held_out = partition(grouped, 0.25, 0)
    names = grouped.index.groups
    assert not set(names[train]) & set(names[held_out])
    assert len(held_out) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trase": 0.1}, "found the option 'trase', expected a known one; did you mean 'trace'"),
        ({"trace": -1}, "found trace=-1, expected"),
        ({"epochs": 0}, "found epochs=0, expected"),
        ({"patch_size": (8, 8, 8)}, "found a patch of 3 sides"),
        ({"network": "unett"}, "unett"),
        ({"network": "cnn"}, "expected one for segmentation"),
        ({"likelihood": "both"}, "likelihood"),
    ],
)
def test_bad_options_are_refused(
    simulated_masks: Study, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(RatersError, match=message):
        raters.fit(simulated_masks, "pixel-cm", progress=False, **options)


def test_bad_studies_are_refused(simulated_masks: Study) -> None:
    labels = np.zeros((4, 2, 8, 8), int)
    labels[:, :, 2:4] = 1
    images = np.random.default_rng(0).normal(size=(4, 1, 8, 8))
    with pytest.raises(RatersError, match="did you mean 'pixel-cm'"):
        raters.fit(simulated_masks, "pixelcm")
    with pytest.raises(RatersError, match="no image of case"):
        raters.fit(Study.from_arrays(labels=labels), "vote")
    with pytest.raises(RatersError, match="no reference of case"):
        raters.fit(Study.from_arrays(images=images, labels=labels), "truth", epochs=1)
    with pytest.raises(RatersError, match="no reference of case"):
        raters.fit(Study.from_arrays(images=images, labels=labels), "oracle-cm", epochs=1)
    with pytest.raises(RatersError, match="at least two"):
        raters.fit(
            Study.from_arrays(images=images, labels=labels * 0, classes=["background"]), "vote"
        )


def test_bad_predictions_are_refused(simulated_masks: Study) -> None:
    model = raters.fit(simulated_masks, "vote", **{**TINY, "epochs": 1})
    with pytest.raises(RatersError, match="found the rater 'eve', expected one of good"):
        model.as_rater(simulated_masks[0], "eve")
    with pytest.raises(RatersError, match="expected 1 channel followed by 2 spatial axes"):
        model.truth(np.zeros((3, 8, 8)))


class TestModelFolder:
    """What `save` writes, and what `load` refuses."""

    @pytest.fixture
    def folder(self, simulated_masks: Study, tmp_path: Path) -> Path:
        return raters.fit(simulated_masks, "vote", **{**TINY, "epochs": 1}).save(tmp_path / "model")

    def test_configuration_is_plain_and_complete(self, folder: Path) -> None:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        assert config["method"] == "vote"
        assert config["raters"] == ["good", "over", "blank"]
        assert config["training"]["width"] == 4
        assert config["normalisation"]["mode"] in ("study", "case")

    def test_a_tag_runs_no_code(self, folder: Path, tmp_path: Path) -> None:
        path = folder / "config.yaml"
        path.write_text(f"!!python/object/apply:os.mkdir ['{tmp_path / 'hacked'}']")
        with pytest.raises(RatersError, match="no plain YAML"):
            raters.load(folder)
        assert not (tmp_path / "hacked").exists()

    def test_a_pickle_is_no_weights(self, folder: Path) -> None:
        torch.save({"a": torch.zeros(1)}, folder / "weights.safetensors")
        with pytest.raises(RatersError, match="expected safetensors weights"):
            raters.load(folder)

    def test_unknown_keys_are_named(self, folder: Path) -> None:
        path = folder / "config.yaml"
        path.write_text(path.read_text() + "colour: red\n")
        with pytest.raises(RatersError, match="colour"):
            raters.load(folder)

    def test_wrong_shapes_are_named(self, folder: Path) -> None:
        path = folder / "config.yaml"
        path.write_text(path.read_text().replace("  width: 4\n", "  width: 6\n"))
        with pytest.raises(RatersError, match=r"weight .* expected \(6"):
            raters.load(folder)

    def test_a_folder_without_a_model_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(RatersError, match=r"config\.yaml"):
            raters.load(tmp_path)


def test_progress_bar_shows_the_terms(
    simulated_masks: Study, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns scores and time are there, and each batch, held out or not, was a step."""
    monkeypatch.setenv("COLUMNS", "80")
    finished = []
    named = []
    teardown = TrainingBar.teardown
    show_row = TrainingBar.show_row

    def spied_row(self: TrainingBar, learner: Any) -> None:
        assert self._bar is not None
        named.append(self._bar.tasks[0].description)
        show_row(self, learner)

    def spied_end(self: TrainingBar, *given: Any, **named: Any) -> None:
        assert self._bar is not None
        task = self._bar.tasks[0]
        finished.append((task.completed, task.total))
        teardown(self, *given, **named)

    monkeypatch.setattr(TrainingBar, "show_row", spied_row)
    monkeypatch.setattr(TrainingBar, "teardown", spied_end)
    quiet_fit(simulated_masks, "pixel-cm", **{**TINY, "progress": True})
    shown = [line for line in capsys.readouterr().err.splitlines() if "epoch 3/3" in line][-1]
    assert len(shown.rstrip()) <= 80
    assert re.search(r"loss -?\.?\d.* held-out .*\d dominance .*\d:\d\d:\d\d", shown), shown
    assert named[0] == "epoch 1/3 warm-up" and named[2] == "epoch 3/3"
    assert finished[0][0] == finished[0][1]

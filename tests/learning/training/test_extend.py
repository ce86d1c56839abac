"""`raters.extend`: a rater who comes later, found again as drawn, and nothing else changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.core.errors import RatersError
from raters.learning.methods.confusion_method import join_raters
from raters.learning.rater_models import GlobalRaters, LowRankRaters, PixelRaters
from raters.learning.training.engine import Learner, precision_of
from raters.learning.training.extend import _training
from raters.learning.training.options import TrainingOptions
from raters.metrics.confusion import count, normalise
from raters.study.study import Study

LATE = np.array([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35], [0.5, 0.1, 0.4]])
"""What the late rater does to the three classes: not dominant, so no guard may get in the way."""

CASES = 1200


def draw_answers(
    rng: np.random.Generator, truth: NDArray[Any], matrix: NDArray[Any]
) -> NDArray[Any]:
    return (rng.random(len(truth))[:, None] > matrix[truth].cumsum(1)).sum(1)


def features(rng: np.random.Generator, truth: NDArray[Any]) -> NDArray[Any]:
    return 3 * np.eye(3)[truth] + rng.normal(0, 0.3, (len(truth), 3))


@pytest.fixture(scope="module")
def late_rater_study() -> Study:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, CASES)
    good = 0.8 * np.eye(3) + 0.2 / 3
    labels = np.stack([draw_answers(rng, truth, m) for m in (good, good, LATE)], 1)
    return Study.from_arrays(
        features(rng, truth), labels, reference=truth, raters=["ann", "bob", "late"]
    )


def fit_without_late(table: Study, method: str, **options: Any) -> raters.Model:
    early = table.select(raters=["ann", "bob"])
    sizes = {"width": 8, "depth": 1, "batch_size": 100, "lr": 0.03, "progress": False}
    return raters.fit(early, method, **{"epochs": 10, **sizes, **options})


@pytest.fixture(scope="module")
def first_model(late_rater_study: Study) -> raters.Model:
    return fit_without_late(late_rater_study, "global-cm")


def empirical(table: Study) -> NDArray[Any]:
    """What the late rater really said of each class."""
    truth = np.array([int(case.reference) for case in table.iter_cases()])  # type: ignore[arg-type]
    said = np.array([case.answers.of("late").item() for case in table.iter_cases()])
    return normalise(count(said[None], truth, 3)[0])


def log_likelihood(model: raters.Model, study: Study, rater: str, position: int) -> float:
    """How well a rater's part of a model explains the labels of the rater at a position."""
    total = 0.0
    for case in study.iter_cases():
        told = model.as_rater(case, rater)
        tables = study.kind == "classification"
        labels = case.answers.by_rater()[position][0] if tables else case.labels[position]
        total += float(np.log(np.take_along_axis(told, labels[None], 0)).sum())
    return total


@pytest.mark.slow
@pytest.mark.parametrize("method", ["global-cm", "vote", "mean", "truth"])
def test_the_late_rater_is_found(late_rater_study: Study, method: str) -> None:
    model = fit_without_late(late_rater_study, method)
    before = {k: v.clone() for k, v in model.method.state_dict().items()}
    longer = raters.extend(model, late_rater_study, progress=False)
    assert longer.config.raters == ("ann", "bob", "late")
    found = longer.confusion(late_rater_study[0])[2]
    if method != "mean":  # counts against soft labels are not the rater's own matrix
        # Five standard errors of a share from the 400 answers of a class.
        assert np.abs(found - LATE).max() < 5 * np.sqrt(0.25 / (CASES / 3))
        assert np.abs(found - empirical(late_rater_study)).max() < 0.05
    few = late_rater_study.select(cases=list(late_rater_study.index.ids[:60]))
    gain = log_likelihood(longer, few, "late", 2) - log_likelihood(longer, few, "ann", 2)
    assert gain > (1 if method == "mean" else 5)
    for name, value in model.method.state_dict().items():
        assert torch.equal(value, before[name])  # the model that was given is as it was


@pytest.mark.slow
@pytest.mark.parametrize("method", ["global-cm", "pixel-cm", "low-rank-cm", "staple"])
def test_masks_by_a_late_rater(method: str) -> None:
    """Who draws every object two pixels to the right is told from who draws it in place."""
    rng = np.random.default_rng(0)
    truth = np.zeros((12, 16, 16), int)
    for k, (row, column) in enumerate(rng.integers(0, 8, (12, 2))):
        truth[k, row : row + 7, column : column + 7] = 1
    labels = np.stack([truth, truth, np.roll(truth, 3, 2)], 1)
    labels[:, 2, 12:] = 0
    images = truth[:, None] + rng.normal(0, 0.1, (12, 1, 16, 16))
    study = Study.from_arrays(images, labels, raters=["ann", "bob", "late"])
    options: dict[str, Any] = {"width": 4, "depth": 2, "batch_size": 4, "dropout": 0.2}
    model = raters.fit(
        study.select(raters=["ann", "bob"]), method, epochs=8, progress=False, **options
    )
    longer = raters.extend(model, study, epochs=10, lr=0.02, progress=False)
    case = study[3]
    assert np.array_equal(longer.truth(case), model.truth(case))
    for name in ("ann", "bob"):
        assert np.array_equal(longer.as_rater(case, name), model.as_rater(case, name))
    assert np.array_equal(longer.confusion(case)[:2], model.confusion(case))
    for k, (name, value) in enumerate(model.method.network.state_dict().items()):
        assert torch.equal(longer.method.network.state_dict()[name], value), (k, name)
    gain = log_likelihood(longer, study, "late", 2) - log_likelihood(longer, study, "ann", 2)
    assert gain > 50


@pytest.mark.slow
def test_the_trained_network_drops_nothing(
    first_model: raters.Model, late_rater_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as in predictions at each step, after held-out batches too; the rater model learns."""
    modes: list[tuple[bool, bool]] = []
    step = Learner.training_step

    def noted(learner: Learner, batch: Any, number: int) -> None:
        (network,) = learner.method.truth_networks()
        modes.append((network.training, learner.method.training))
        step(learner, batch, number)

    monkeypatch.setattr(Learner, "training_step", noted)
    longer = raters.extend(first_model, late_rater_study, epochs=2, progress=False)
    assert len(longer.history) == 2
    assert set(modes) == {(False, True)}
    assert all("dominance" not in row for row in longer.history)


def test_nobody_counts_a_test_case(first_model: raters.Model, late_rater_study: Study) -> None:
    """The late rater is fitted on 'train' and 'val'; labels of 'test' change nothing."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 300)
    late = draw_answers(rng, truth, LATE)
    inputs = features(rng, truth)
    splits = ["train"] * 150 + ["val"] * 50 + ["test"] * 100
    found = []
    for last in (late[200:], (late[200:] + 1) % 3):
        said = np.concatenate([late[:200], last])[:, None]
        study = Study.from_arrays(inputs, said, raters=["late"], splits=splits)
        longer = raters.extend(first_model, study, epochs=3, progress=False)
        found.append(longer.confusion(late_rater_study[0]))
    assert np.array_equal(*found)


def test_an_extended_model_is_saved_and_extended_again(
    first_model: raters.Model, late_rater_study: Study, tmp_path: Path
) -> None:
    state = torch.random.get_rng_state()
    longer = raters.extend(first_model, late_rater_study, epochs=2, progress=False)
    assert torch.equal(torch.random.get_rng_state(), state)
    copy = raters.load(longer.save(tmp_path / "model"))
    assert copy.config.raters == ("ann", "bob", "late")
    other = Study.from_arrays(
        np.stack([case.image for case in late_rater_study.iter_cases()]),  # type: ignore[arg-type, misc]
        np.stack([case.answers.of("late") for case in late_rater_study.iter_cases()]),
        raters=["later"],
    )
    longest = raters.extend(copy, other, epochs=2, progress=False)
    assert longest.config.raters == ("ann", "bob", "late", "later")
    assert np.array_equal(
        longest.confusion(late_rater_study[0])[:3], longer.confusion(late_rater_study[0])
    )


def test_the_machine_of_the_first_training_is_forgotten() -> None:
    """A model may come from a machine with many GPUs."""
    there = TrainingOptions(
        devices=4, num_nodes=2, num_workers=8, loggers=("wandb",), precision="16"
    )
    here = _training(there.model_copy(update={"epochs": 7, "seed": 3}), {})
    assert (here.epochs, here.seed) == (7, 3)
    assert (here.devices, here.num_nodes, here.num_workers, here.loggers) == (1, 1, None, ())
    assert here.precision == precision_of("auto")
    assert _training(there, {"num_workers": 1}).num_workers == 1


def test_classes_are_weighed(first_model: raters.Model, late_rater_study: Study) -> None:
    """Weights of classes count for late raters as they do for the first."""
    rare = late_rater_study.select(
        cases=[c.id for c in late_rater_study.iter_cases() if c.reference != 0 or c.id[-1] == "0"]
    )
    plain, weighed = (
        raters.extend(first_model, rare, epochs=3, progress=False, class_weights=weights)
        for weights in ("none", "balanced")
    )
    assert weighed.history[0]["loss"] != plain.history[0]["loss"]


class TestWhatIsRefused:
    """Each with the sentence that says why."""

    def test_no_new_rater(self, first_model: raters.Model, late_rater_study: Study) -> None:
        with pytest.raises(RatersError, match="found the raters ann, bob, expected one that"):
            raters.extend(first_model, late_rater_study.select(raters=["ann", "bob"]))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("method", "options", "why"),
        [
            ("single-cm", {}, "share one matrix"),
            ("pixel-cm", {"shared": True}, "share one head"),
            ("low-rank-cm", {"shared": True}, "share one head"),
            ("separate", {}, "a network of their own"),
            ("oracle-cm", {}, "counted against references"),
        ],
    )
    def test_methods(
        self, late_rater_study: Study, method: str, options: dict[str, Any], why: str
    ) -> None:
        model = fit_without_late(late_rater_study, method, epochs=1, **options)
        with pytest.raises(RatersError, match=f"{method}, which cannot be extended: .*{why}"):
            raters.extend(model, late_rater_study)

    def test_other_classes_channels_and_kinds(self, first_model: raters.Model) -> None:
        rng = np.random.default_rng(0)
        late = {"raters": ["late"]}
        four = Study.from_arrays(rng.normal(size=(8, 3)), np.arange(8)[:, None] % 4, **late)
        with pytest.raises(
            RatersError, match=r"found the classes .*, 3=3, expected those of the model: .*, 2=2;"
        ):
            raters.extend(first_model, four)
        wide = Study.from_arrays(rng.normal(size=(9, 5)), np.arange(9)[:, None] % 3, **late)
        with pytest.raises(RatersError, match=r"found images of 5 channels .* expected 3 and 0"):
            raters.extend(first_model, wide)
        masks = Study.from_arrays(
            rng.normal(size=(2, 1, 4, 4)), rng.integers(0, 3, (2, 1, 4, 4)), **late
        )
        with pytest.raises(RatersError, match="found a study of segmentation, expected one of c"):
            raters.extend(first_model, masks)

    def test_no_labels_by_the_new_rater(self, late_rater_study: Study) -> None:
        inputs = np.stack([case.image for case in late_rater_study.iter_cases()])  # type: ignore[arg-type, misc]
        labels = np.full((len(inputs), 2), -1)
        labels[:3, 0] = [0, 1, 2]
        study = Study.from_arrays(inputs, labels, raters=["ann", "late"], classes=[0, 1, 2])
        for method in ("global-cm", "vote"):
            with pytest.raises(RatersError, match="found no labels"):
                raters.extend(fit_without_late(late_rater_study, method, epochs=1), study)

    @pytest.mark.parametrize("option", ["width", "patch_size", "normalise"])
    def test_what_is_trained_already(
        self, first_model: raters.Model, late_rater_study: Study, option: str
    ) -> None:
        with pytest.raises(RatersError, match=f"found the option '{option}', expected none"):
            raters.extend(first_model, late_rater_study, **{option: 4})

    def test_unknown_options(self, first_model: raters.Model, late_rater_study: Study) -> None:
        with pytest.raises(RatersError, match=r"'epoch', expected .*; did you mean 'epochs'"):
            raters.extend(first_model, late_rater_study, epoch=4)
        with pytest.raises(RatersError, match="found epochs=0"):
            raters.extend(first_model, late_rater_study, epochs=0)


@pytest.mark.parametrize("kind", ["global", "pixel", "low-rank"])
def test_joined_weights_keep_each_raters_matrices(kind: str) -> None:
    """Matrices of random weights, before and after they are put together."""

    def make(number: int) -> Any:
        torch.manual_seed(number)
        found: Any = GlobalRaters(number, 3)
        if kind == "pixel":
            found = PixelRaters(number, 3, features=5, spatial_dims=2)
        elif kind == "low-rank":
            found = LowRankRaters(number, 3, features=5, spatial_dims=2, rank=2)
        for weights in found.parameters():
            torch.nn.init.normal_(weights)
        return found

    old = make(2)
    new = make(3)
    both = make(5)
    both.load_state_dict(join_raters(old, new))
    image = torch.randn(2, 5, 4, 4)
    cases = torch.zeros(2, dtype=torch.long)
    parts = [model(image, cases).matrix() for model in (old, new)]
    assert torch.allclose(both(image, cases).matrix(), torch.cat(parts, 1), atol=1e-6)

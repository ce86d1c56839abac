"""`raters.fit` at the edges: odd studies that must work, and odd wishes that must be refused."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods import METHODS
from raters.learning.methods.base import HeldOut
from raters.learning.training.dataset import CaseDataset
from raters.learning.training.epochs import HeldOutScores
from raters.metrics.confusion import count, count_case
from raters.study.backend import ArraysBackend
from raters.study.study import Study
from raters.study.triplets import TableBackend, Triplets
from tests.support.learning import quiet_fit
from tests.support.models import apply_matrix

TINY = {"epochs": 2, "batch_size": 4, "width": 4, "depth": 2, "progress": False}
FLAT = {**TINY, "depth": 1}
LEARNS_FROM_RATERS = [m for m in METHODS if not METHODS[m].needs]
FOR_MASKS = [m for m in LEARNS_FROM_RATERS if "segmentation" in METHODS[m].kinds]
FOR_CLASSES = [m for m in METHODS if "classification" in METHODS[m].kinds]


def draw_random_masks(
    cases: int = 6,
    space: tuple[int, ...] = (12, 10),
    raters: int = 2,
    classes: int = 2,
    **more: Any,
) -> Study:
    """Random masks; `unlabelled` cases, the first ones, have no labels at all."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, (cases, raters, *space))
    labels[: more.pop("unlabelled", 0)] = MISSING
    return Study.from_arrays(rng.normal(size=(cases, 1, *space)), labels, **more)


def pictures_with_classes() -> Study:
    """Colour pictures of 8 bit, with classes by two raters."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 12)
    images = rng.integers(0, 80, (12, 3, 9, 8)) + 80 * truth[:, None, None, None]
    return Study.from_arrays(
        images.astype(np.uint8), np.stack([truth, (truth + 1) % 3], 1), reference=truth
    )


def table_with_repeats() -> Study:
    """Answers where raters answer cases 0 and 1 twice, and nobody answers cases 4 to 7."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 20)
    features = np.eye(3)[truth] + rng.normal(0, 0.1, (20, 3))
    labels = np.stack([truth, truth, (truth + 1) % 3], 1)
    labels[4:8] = MISSING
    once = Study.from_arrays(features, labels, reference=truth)
    known = once.triplets
    again = known.task < 2
    task, rater, label = (
        np.concatenate([a, a[again]]) for a in (known.task, known.rater, known.label)
    )
    order = np.argsort(task, kind="stable")
    names = known.tasks, once.raters, once.classes.values
    twice = Triplets(task[order], rater[order], label[order], *names)
    store = TableBackend(twice, ArraysBackend([], None, features), truth.astype(np.int16))
    return replace(once, backend=store)


def assert_model_is_whole(model: raters.Model, study: Study, tmp_path: Path) -> None:
    """What a model says is whole, of the right shape, and the same after saving."""
    case = study[0]
    answers = model.method.answers
    copy = raters.load(model.save(tmp_path / "model"))
    truth = model.truth(case)
    assert truth.shape == (len(study.classes), *case.geometry.shape)
    assert np.allclose(truth.sum(axis=0), 1, atol=1e-4)
    assert np.allclose(copy.truth(case), truth, atol=1e-5)
    if "samples" in answers:
        assert np.allclose(copy.samples(case, 2), model.samples(case, 2), atol=1e-5)
    if "as_rater" not in answers:
        return
    told = model.as_rater(case, study.raters[-1])
    assert told.shape == truth.shape
    assert np.allclose(told.sum(axis=0), 1, atol=1e-4)
    assert np.allclose(copy.as_rater(case, study.raters[-1]), told, atol=1e-5)
    if "confusion" not in answers:
        return
    matrix = model.confusion(case)
    assert matrix.shape[:3] == (len(study.raters), len(truth), len(truth))
    assert matrix.ndim == 3 + len(case.geometry.shape)
    # Windows that overlap are averaged, and the mean of products is not the product of means.
    near = 1e-4 if model.config.patch_size is None else 1e-2
    through = apply_matrix(model.config.method, truth, matrix[-1])
    assert np.allclose(through, told, atol=near)


class TestWhatWorks:
    """Studies that the contract names."""

    @pytest.mark.slow
    @pytest.mark.parametrize("method", FOR_CLASSES)
    def test_classes_of_pictures(self, method: str, tmp_path: Path) -> None:
        study = pictures_with_classes()
        options = {"epochs": 2, "width": 4, "batch_size": 4, "progress": False}
        assert_model_is_whole(quiet_fit(study, method, **options), study, tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", FOR_CLASSES)
    def test_tables_with_repeated_and_no_answers(self, method: str, tmp_path: Path) -> None:
        study = table_with_repeats()
        assert len(study[0].answers) == 6
        assert len(study[4].answers) == 0
        # One case a batch: some batches have no label at all.
        assert_model_is_whole(
            quiet_fit(study, method, **{**FLAT, "batch_size": 1, "epochs": 1}), study, tmp_path
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("method", FOR_MASKS)
    def test_batches_without_labels(self, method: str, tmp_path: Path) -> None:
        study = draw_random_masks(unlabelled=4)
        model = quiet_fit(study, method, **{**TINY, "batch_size": 1}, val_fraction=0.0)
        assert_model_is_whole(model, study, tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["global-cm", "low-rank-cm", "pixel-cm", "separate", "vote"])
    def test_one_case_by_one_rater(self, method: str, tmp_path: Path) -> None:
        study = draw_random_masks(cases=1, raters=1)
        model = quiet_fit(study, method, **TINY)
        assert_model_is_whole(model, study, tmp_path)
        assert "held_out" not in model.history[-1]
        assert model.best_epoch == 2

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["pixel-cm", "low-rank-cm"])
    @pytest.mark.parametrize("warm_up_on", ["vote", "labels"])
    def test_shared_matrices_of_many_classes(
        self, method: str, warm_up_on: str, tmp_path: Path
    ) -> None:
        study = draw_random_masks(cases=3, classes=12)
        options = {"shared": True, "warm_up": 1, "warm_up_on": warm_up_on, "trace": 0.1}
        model = quiet_fit(study, method, **TINY, **options)
        assert_model_is_whole(model, study, tmp_path)
        matrix = model.confusion(study[0])
        assert np.array_equal(matrix[0], matrix[1])

    def test_single_cm_gives_all_raters_one_matrix(self, tmp_path: Path) -> None:
        study = draw_random_masks(raters=3)
        options = {"warm_up": 0, "trace": 0.1, "trace_over": "all", "confusion_lr_scale": 10}
        model = quiet_fit(study, "single-cm", **TINY, **options)
        assert_model_is_whole(model, study, tmp_path)
        matrix = model.confusion(study[0])
        assert np.array_equal(matrix[0], matrix[2])
        assert not np.allclose(np.diagonal(matrix[0, :, :, 0, 0]), 0.9, atol=1e-3)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["oracle-cm", "pixel-cm", "separate", "staple", "mean"])
    @pytest.mark.parametrize("patch", ["whole", (16, 16), (8, 32)])
    def test_images_of_all_sizes(self, method: str, patch: Any, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        sizes = [(10, 8), (12, 16), (7, 9), (20, 20)]
        study = Study.from_arrays(
            [rng.normal(size=(1, *size)) for size in sizes],
            [rng.integers(0, 2, (2, *size)) for size in sizes],
            reference=[rng.integers(0, 2, size) for size in sizes],
        )
        assert_model_is_whole(
            quiet_fit(study, method, **TINY, patch_size=patch, patches_per_case=2), study, tmp_path
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("patch", ["whole", (8, 8, 8), (4, 8, 2)])
    def test_volumes_smaller_than_patches(self, patch: Any, tmp_path: Path) -> None:
        study = draw_random_masks(cases=3, space=(6, 5, 4))
        assert_model_is_whole(
            quiet_fit(study, "pixel-cm", **TINY, patch_size=patch), study, tmp_path
        )

    def test_colour_pictures_of_8_bit(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        images = rng.integers(0, 255, (4, 3, 16, 16)).astype(np.uint8)
        study = Study.from_arrays(images, rng.integers(0, 2, (4, 2, 16, 16)))
        model = quiet_fit(study, "pixel-cm", **TINY, augment="full")
        assert_model_is_whole(model, study, tmp_path)
        assert model.config.normalisation["mode"] == "study"

    @pytest.mark.parametrize("method", ["global-cm", "vote"])
    def test_held_out_cases_without_labels(self, method: str) -> None:
        study = draw_random_masks(cases=4, unlabelled=2, splits=["val", "val", "train", "train"])
        model = quiet_fit(study, method, **TINY)
        assert "held_out" not in model.history[-1]
        assert model.best_epoch == 2

    def test_the_test_split_changes_nothing(self) -> None:
        splits = ["train"] * 4 + ["validation"] * 2 + ["test"] * 2
        whole = draw_random_masks(cases=8, splits=splits)
        part = whole.select(cases=[str(k) for k in range(6)])
        with_test, without = (
            quiet_fit(study, "staple", **TINY, pool=True).truth(whole[7]) for study in (whole, part)
        )
        assert np.array_equal(with_test, without)

    def test_the_reference_is_enough_for_truth(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        study = Study.from_arrays(
            images=rng.normal(size=(4, 1, 8, 8)), reference=rng.integers(0, 2, (4, 8, 8))
        )
        model = raters.load(quiet_fit(study, "truth", **TINY).save(tmp_path / "model"))
        assert model.truth(study[0]).shape == (2, 8, 8)
        with pytest.raises(RatersError, match="found no raters"):
            quiet_fit(study, "vote", **TINY)

    def test_the_largest_seed(self) -> None:
        assert (
            len(quiet_fit(draw_random_masks(cases=2), "vote", **TINY, seed=2**63 - 1).history) == 2
        )

    @pytest.mark.parametrize("network", [None, "segresnet"])
    def test_the_network_is_written_completely(self, network: str | None) -> None:
        model = quiet_fit(
            draw_random_masks(cases=2), "vote", epochs=1, progress=False, network=network
        )
        assert None not in model.config.network.model_dump().values()


class TestWhatIsRefused:
    """Wishes that cannot be met, each with what was found and what was expected."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"val_fraction": 1.5}, "found val_fraction=1.5, expected"),
            ({"val_fraction": "x"}, "found val_fraction=x, expected a number"),
            ({"seed": -1}, "found seed=-1, expected"),
            ({"seed": 2**63}, r"found seed=.*, expected"),
            ({"warm_up": 2.5}, r"found warm_up=2\.5, expected a whole number"),
            ({"select": "reference"}, "no reference of a held-out case"),
            ({"select": "likelihood", "val_fraction": 0}, "no held-out cases"),
            ({"lr": 1e30}, "found a loss of nan in epoch"),
        ],
    )
    def test_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(RatersError, match=message):
            quiet_fit(draw_random_masks(), "pixel-cm", **{**TINY, **options})

    @pytest.mark.parametrize("option", ["trace", "warm_up", "init_accuracy"])
    def test_options_that_known_matrices_do_not_use(self, option: str) -> None:
        with pytest.raises(RatersError, match=f"found the option '{option}', expected none"):
            quiet_fit(draw_random_masks(), "oracle-cm", **TINY, **{option: 0.5})

    @pytest.mark.parametrize("method", ["vote", "separate", "pixel-cm"])
    def test_nothing_labelled(self, method: str) -> None:
        study = draw_random_masks(unlabelled=4, splits=["train"] * 4 + ["val"] * 2)
        with pytest.raises(RatersError, match="found no labels in the cases to train on"):
            quiet_fit(study, method, **TINY)

    def test_features_where_there_are_masks(self) -> None:
        study = Study.from_arrays(np.ones((4, 5)), np.zeros((4, 2, 8, 8), int))
        with pytest.raises(RatersError, match="found 5 features, expected an image"):
            quiet_fit(study, "vote", **TINY)

    def test_images_that_are_not_numbers_are_named(self) -> None:
        images = np.random.default_rng(0).normal(size=(4, 1, 12, 10))
        images[2, 0, 1, 1] = np.nan
        labels = np.zeros((4, 2, 12, 10), int)
        labels[:, :, 4:] = 1
        study = Study.from_arrays(images, labels)
        with pytest.raises(RatersError, match=r"NaN or infinite .*case '2'"):
            quiet_fit(study, "vote", **TINY)
        model = quiet_fit(draw_random_masks(), "vote", **{**TINY, "epochs": 1})
        with pytest.raises(RatersError, match=r"NaN or infinite .*case '2'"):
            list(model.predict(study))
        with pytest.raises(RatersError, match="found no image of case '0'"):
            model.truth(Study.from_arrays(labels=np.zeros((1, 1, 8, 8), int))[0])


def test_ctrl_c_reaches_the_caller_and_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(CaseDataset, "__getitem__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quiet_fit(draw_random_masks(), "vote", **TINY)
    assert signal.getsignal(signal.SIGINT) is before


class TestParts:
    """Small parts that edges showed to be wrong, against what they should give."""

    @pytest.mark.parametrize("soft", [False, True])
    def test_a_case_is_counted_against_its_target(self, soft: bool) -> None:
        study = draw_random_masks(cases=1, raters=3, classes=4)
        labels = study[0].labels.copy()
        target = study[0].labels[1].copy()
        labels[0, :3] = MISSING
        target[2:5] = MISSING
        case = Study.from_arrays(labels=labels[None])[0]
        expected = count(labels, target, 4)
        given: NDArray[Any] = target
        if soft:
            given = (target == np.arange(4)[:, None, None]).astype(np.float32)
        assert np.array_equal(count_case(case, given, 4), expected)

    def test_answers_are_counted_for_their_rater(self) -> None:
        study = table_with_repeats()
        case = study[0]
        assert case.reference is not None
        found = count_case(case, case.reference, 3)
        truth = int(case.reference)
        assert found[0, truth, truth] == found[1, truth, truth] == 2
        assert found[2, truth, (truth + 1) % 3] == 2
        assert found.sum() == 6

    def test_one_known_pixel_is_still_a_mask(self) -> None:
        """Dice of the foreground, not accuracy, if the first case knows one pixel only."""
        scores = HeldOutScores()
        reference = torch.tensor([[[MISSING, 0, MISSING]], [[1, 1, 0]]])
        truth = torch.tensor([[[[0.9, 0.9, 0.9]]], [[[0.1, 0.9, 0.9]]]])
        batch = {"reference": reference, "case": torch.tensor([0, 1])}
        scores._compare(batch, torch.cat([truth, 1 - truth], 1))
        assert scores.reference_score == pytest.approx((1 + 2 / 3) / 2)  # empty; 1 of 1, 2


@pytest.mark.parametrize(("method", "soft"), [("mean", {}), ("dawid-skene", {"soft": True})])
def test_where_nobody_labelled_a_soft_target_is_unknown(method: str, soft: dict[str, Any]) -> None:
    for study in (draw_random_masks(unlabelled=2), table_with_repeats()):
        space = FLAT if study.kind == "classification" else TINY
        method_ = quiet_fit(study, method, **space, **soft, val_fraction=0.0).method
        for case in study.iter_cases():
            known = case.given.size > 0
            if not known and study.kind == "classification":
                continue  # left out, as the table says that there is nothing to learn from
            assert np.isclose(method_.target(case).sum(axis=0), float(known)).all()


def test_the_oracle_of_answers_does_not_tell_the_reference() -> None:
    """Who answers at random has an even matrix, though each answer alone looks certain."""
    rng = np.random.default_rng(0)
    truth, answers = rng.integers(0, 2, (2, 400))
    study = Study.from_arrays(rng.normal(size=(400, 3)), answers[:, None], reference=truth)
    model = quiet_fit(study, "oracle-cm", **FLAT)
    assert model.method.raters.log_matrix.exp().numpy() == pytest.approx(0.5, abs=0.1)


def test_a_class_that_a_case_lacks_has_the_raters_mean_row() -> None:
    reference = np.zeros((4, 8, 8), int)
    reference[1:, 2:6] = 1
    labels = reference[:, None].copy()
    labels[1:, :, 2] = 0  # one row of four is missed
    study = Study.from_arrays(np.zeros((4, 1, 8, 8)), labels, reference=reference)
    known = quiet_fit(study, "oracle-cm", **TINY, val_fraction=0.0).method.raters.log_matrix.exp()
    assert known[0, 0, 1].tolist() == pytest.approx([0.25, 0.75], abs=1e-3)


@pytest.mark.filterwarnings("ignore:found no label by the rater '1'")
def test_separate_leaves_out_networks_that_saw_no_labels() -> None:
    study = draw_random_masks(raters=3)
    labels = np.stack([case.labels for case in study.iter_cases()])
    labels[:, 1] = MISSING
    images = np.stack([case.image for case in study.iter_cases()])
    model = quiet_fit(Study.from_arrays(images, labels), "separate", **TINY)
    own = [model.as_rater(images[0], name) for name in ("0", "2")]
    assert np.allclose(model.truth(images[0]), np.mean(own, axis=0), atol=1e-6)


def test_a_rightly_empty_mask_scores_one() -> None:
    scores = HeldOutScores()
    truth = torch.tensor([[[0.9, 0.9], [0.1, 0.1]]])
    batch = {"case": torch.tensor([0]), "reference": torch.tensor([[0, 0]])}
    scores.add(batch, HeldOut(torch.tensor(0.0), torch.tensor(2), truth))
    assert scores.reference_score == 1


def test_the_warm_up_leaves_an_epoch_to_learn_in() -> None:
    model = quiet_fit(draw_random_masks(), "global-cm", **TINY, warm_up=9)
    assert [("trace" in row) for row in model.history] == [False, True]


def test_weights_lost_in_the_last_step_are_told() -> None:
    """Its loss was taken before the step: only what the weights give shows it."""
    options = {"epochs": 1, "lr": 1e37, "batch_size": 64, "width": 2, "progress": False}
    with pytest.raises(RatersError, match="found a held-out loss of nan in epoch 1"):
        quiet_fit(draw_random_masks(), "vote", **options)

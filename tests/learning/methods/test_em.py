"""EM with a network: its steps against slow loops, the two orders, what it recovers, resuming."""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods.base import Batch
from raters.learning.methods.em import EMMethod, rounds
from raters.simulation import draw_labels
from raters.study.study import Study
from tests.support.distributed_script import PLAIN, make_noisy_masks
from tests.support.learning import add_noise, build_method, flatten_pixels, small_task

Array = NDArray[np.float64]
R = 3
L = 3
CASES = 5
SPACES: dict[str, tuple[int, ...]] = {"mask": (4, 3), "volume": (2, 3, 2), "table": ()}
WEIGHTS = (0.5, 1.0, 2.5)
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "gem": ("gem", {}),
    "gem as printed": ("gem", {"order": "paper"}),
    "mbem": ("mbem", {}),
}
every_form = pytest.mark.parametrize("form", FORMS)
every_space = pytest.mark.parametrize("space", SPACES)


def make_em_method(form: str, space: str) -> EMMethod:
    """Make a method in float64; its rounds begin with epochs 0, 2 and 4 of 7."""
    name, given = FORMS[form]
    task = small_task(len(SPACES[space]), epochs=7)
    options = {**given, "em_steps": 3, "em_epochs": 2}
    method = build_method(name, task, options, seed=3, dtype=torch.float64, class_weights=WEIGHTS)
    perturb_network(method, 0)
    return cast(EMMethod, method)


def perturb_network(method: EMMethod, seed: int) -> None:
    """Let the network learn something."""
    torch.manual_seed(seed)
    add_noise(method.network, 0.15)


def batches_of(space: str) -> list[Batch]:
    """Make two batches with missing labels; rater 1 never says 2, one case nobody labelled."""
    rng = np.random.default_rng(1)
    made = []
    for cases in (3, 2):
        shape = SPACES[space]
        labels = rng.integers(0, L, (cases, R, *shape))
        labels[:, 1][labels[:, 1] == 2] = 0
        labels[rng.random(labels.shape) < 0.3] = MISSING
        labels[1] = MISSING
        batch = {
            "image": torch.from_numpy(rng.normal(size=(cases, 2, *shape))),
            "case": torch.arange(cases),
        }
        if not shape:  # one answers twice, and answers are filled up by rater 0
            who = rng.integers(0, R, (cases, R + 1))
            labels = np.concatenate([labels, rng.integers(-1, 1, (cases, 1))], 1)
            labels[1] = MISSING
            batch["raters"] = torch.from_numpy(who)
        made.append({**batch, "labels": torch.from_numpy(labels)})
    return made


Pixel = tuple[Array, list[tuple[int, int]]]
"""What the network says of a pixel, and the (rater, label) of each label there is."""


def pixels_of(method: EMMethod, batch: Batch) -> list[Pixel]:
    with torch.no_grad():
        truth = flatten_pixels(method.network(batch["image"])[1].softmax(1))
    labels = flatten_pixels(batch["labels"])
    who = batch.get("raters", torch.arange(R).expand(len(labels), R)).numpy()
    return [
        (truth[b, :, x], [(int(r), int(o)) for r, o in zip(who[b], said, strict=True) if o >= 0])
        for b in range(len(labels))
        for x, said in enumerate(labels[b].T)
    ]


def all_pixels(method: EMMethod, batches: list[Batch]) -> list[Pixel]:
    return [pixel for batch in batches for pixel in pixels_of(method, batch)]


def mean_of(said: list[tuple[int, int]]) -> Array:
    return np.array([sum(o == t for _, o in said) / len(said) for t in range(L)])


def posterior_of(prior: Array, said: list[tuple[int, int]], matrices: Array) -> Array:
    joint = np.array([prior[t] * math.prod(matrices[r, t, o] for r, o in said) for t in range(L)])
    return joint / joint.sum()


def count_shares(weighed: list[tuple[Array, list[tuple[int, int]]]], given: float) -> Array:
    """Count labels one by one, and divide each row by the labels that were observed."""
    counts = np.full((R, L, L), given / L)
    for truth, said in weighed:
        for r, o in said:
            for t in range(L):
                counts[r, t, o] += truth[t]
    total = counts.sum(2, keepdims=True)
    return np.where(total > 1e-9, counts / np.where(total > 1e-9, total, 1), np.eye(L))


def begin(method: EMMethod, epoch: int, batches: list[Batch]) -> None:
    """Begin an epoch as training does."""
    method.eval()
    if method.needs_pass(epoch):
        with torch.no_grad():
            method.see_all(iter(batches))
    method.train()
    method.start_epoch(epoch)


def best_of(truth: Array) -> Array:
    return np.eye(L)[truth.argmax()]


class TestSteps:
    """E and M steps as loops over pixels and labels."""

    @every_form
    @every_space
    def test_matrices_are_counted_as_in_slow_loops(self, form: str, space: str) -> None:
        method = make_em_method(form, space)
        batches = batches_of(space)
        printed = form == "gem as printed"
        given = 0.0 if form == "gem as printed" else 1.0
        begin(method, 0, batches)
        pixels = [(p, said) for p, said in all_pixels(method, batches) if said]
        expected = count_shares([(mean_of(said), said) for _, said in pixels], given)
        np.testing.assert_allclose(method.rater_matrices, expected, rtol=1e-6)
        for epoch in (1, 2, 3, 4, 5, 6):
            perturb_network(method, epoch)
            begin(method, epoch, batches)
            if epoch in (2, 4) or (epoch == 6 and not printed):
                pixels = [(p, said) for p, said in all_pixels(method, batches) if said]
                if form == "mbem":
                    weighed = [(best_of(p), said) for p, said in pixels]
                elif form == "gem" and epoch == 2:
                    weighed = [(p, said) for p, said in pixels]
                else:
                    weighed = [(posterior_of(p, said, expected), said) for p, said in pixels]
                expected = count_shares(weighed, given)
            np.testing.assert_allclose(method.rater_matrices, expected, rtol=1e-5, atol=1e-9)

    @every_form
    @every_space
    def test_the_loss_is_that_of_slow_loops(self, form: str, space: str) -> None:
        """Targets are those of the network at the start of the round, weighed by class."""
        method = make_em_method(form, space)
        batches = batches_of(space)
        matrices: Array = np.zeros(0)
        shares = old = matrices
        asked: list[list[Pixel]] = []
        for epoch in range(7):
            perturb_network(method, 10 + epoch)
            before = method.rater_matrices.numpy().copy()
            begin(method, epoch, batches)
            if epoch in (2, 4):
                old = before if form == "gem as printed" else method.rater_matrices.numpy().copy()
                asked = [pixels_of(method, batch) for batch in batches]
                known = [best_of(p) for p, said in all_pixels(method, batches) if said]
                shares = np.mean(known, axis=0)
            perturb_network(method, 20 + epoch)
            for k, batch in enumerate(batches):
                total = 0.0
                number = 0
                for i, (p, said) in enumerate(pixels_of(method, batch)):
                    if not said:
                        continue
                    if epoch < 2:
                        target = mean_of(said)
                    elif form == "mbem":
                        target = posterior_of(shares, said, old)
                    else:
                        target = posterior_of(asked[k][i][0], said, old)
                    total -= sum(WEIGHTS[t] * target[t] * math.log(p[t]) for t in range(L))
                    number += 1
                step = method.step(batch)
                assert step.loss.item() == pytest.approx(total / number, rel=1e-6)
                assert step.observed == number

    @every_form
    @every_space
    def test_held_out_labels_have_their_joint_likelihood(self, form: str, space: str) -> None:
        method = make_em_method(form, space)
        batches = batches_of(space)
        for epoch in (0, 2):
            begin(method, epoch, batches)
        matrices = method.rater_matrices.numpy().clip(min=torch.finfo(torch.float64).tiny)
        for batch in batches:
            seen = [(p, said) for p, said in pixels_of(method, batch)]
            joint = [
                sum(p[t] * math.prod(matrices[r, t, o] for r, o in said) for t in range(L))
                for p, said in seen
                if said
            ]
            found = method.held_out(batch)
            assert found.loss.item() == pytest.approx(-sum(map(math.log, joint)), rel=1e-6)
            assert found.count == sum(len(said) for _, said in seen)
            assert found.confusion is not None
            assert found.pixels is not None
            shown = found.confusion / found.pixels[:, None]
            np.testing.assert_allclose(shown.detach(), method.rater_matrices, rtol=1e-6)
            fused = np.moveaxis(flatten_pixels(method.fused(batch)), 1, 2).reshape(-1, L)
            for row, (p, said) in zip(fused, seen, strict=True):
                np.testing.assert_allclose(row, posterior_of(p, said, matrices), rtol=1e-6)

    def test_a_class_that_no_pixel_has_is_no_target_of_mbem(self) -> None:
        """Its share is zero, as in the algorithm; nothing becomes infinite."""
        method = make_em_method("mbem", "table")
        batches = batches_of("table")
        with torch.no_grad():
            method.network.head.bias[2] = -1e9
        for epoch in (0, 2):
            begin(method, epoch, batches)
        target = cast(Any, method).target_of(batches[0])
        assert torch.isfinite(target).all()
        assert (target[:, 2] < 1e-30).all()


class TestRounds:
    """How T and G share the epochs."""

    @pytest.mark.parametrize("epochs", [1, 2, 7, 20, 41])
    def test_rounds_share_all_epochs_evenly(self, epochs: int) -> None:
        for steps in (None, 1, 2, 5):
            if (steps or 1) > epochs:
                continue
            starts = rounds(epochs, 4, steps)
            assert len(starts) == (steps or min(epochs, 4))
            lengths = [b - a for a, b in pairwise([*starts, epochs])]
            assert starts[0] == 0
            assert max(lengths) - min(lengths) <= 1

    def test_both_may_be_given(self) -> None:
        assert rounds(50, 2, 10, 5) == list(range(0, 50, 5))
        assert rounds(50, 2, 3, 5) == [0, 5, 10]  # the last has 40
        assert rounds(12, 2, None, 5) == [0, 5, 10]  # the last has 2
        assert rounds(3, 2, None, 5) == [0]

    def test_history_names_the_rounds(self) -> None:
        model = fit_study(
            draw_confusable_study(0, dense=True, number=60), "mbem", epochs=5, em_steps=2
        )
        assert [row["phase"] for row in model.history] == ["warm-up"] * 2 + ["round 2"] * 3

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"em_steps": 4}, r"found 3 epochs, expected at least 4: em_steps=4 rounds of one ep"),
            ({"em_steps": 2, "em_epochs": 2}, r"expected at least 4: .* rounds of 2 epochs each"),
            ({"em_steps": 0}, "em_steps"),
            ({"em_epochs": 0}, "em_epochs"),
            ({"order": "own"}, "order"),
        ],
    )
    def test_what_cannot_be_is_refused(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(RatersError, match=message):
            fit_study(draw_confusable_study(0, dense=True, number=60), "gem", epochs=3, **given)


# What it is for

MATRICES = np.array(
    [
        [[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]],
        [[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]],
        [[0.5, 0.5, 0.0], [0.0, 0.55, 0.45], [0.45, 0.0, 0.55]],
        [[0.55, 0.45, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]],
    ]
)
TEST = 500


@functools.cache
def draw_confusable_study(
    seed: int, *, dense: bool, number: int = 900
) -> tuple[Study, Array, NDArray[Any]]:
    """Draw labels by one good rater and three who mistake a class for the next."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, L, number + TEST)
    features = np.eye(L)[truth] * 2 + rng.normal(0, 0.6, (len(truth), L))
    labels = draw_labels(truth, MATRICES, rng)
    if not dense:
        kept = rng.integers(0, len(MATRICES), len(labels))
        labels = np.where(np.arange(len(MATRICES)) == kept[:, None], labels, MISSING)
    study = Study.from_arrays(features[:number], labels[:number], classes=range(L))
    return study, features[number:], truth[number:]


def fit_study(data: tuple[Study, Array, NDArray[Any]], method: str, **given: Any) -> Any:
    options = {"epochs": 10, "batch_size": 32, "lr": 0.005, "network": "mlp", "select": "last"}
    return raters.fit(data[0], method, progress=False, **{**options, "seed": 0, **given})


def accuracy(model: Any, data: tuple[Study, Array, NDArray[Any]]) -> float:
    return float((model.predict(data[1]) == data[2]).mean())


def matrices_in(model: Any, data: tuple[Study, Array, NDArray[Any]]) -> Array:
    return np.asarray(model.confusion(data[1][0]), float)


@functools.cache
def of_vote(dense: bool) -> Any:
    return fit_study(draw_confusable_study(0, dense=dense), "vote")


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "one label"])
@pytest.mark.parametrize("name", ["gem", "mbem"])
def test_matrices_are_recovered_and_the_vote_is_beaten(name: str, dense: bool) -> None:
    data = draw_confusable_study(0, dense=dense)
    model = fit_study(data, name)
    assert np.abs(matrices_in(model, data) - MATRICES).mean() < (0.03 if dense else 0.06)
    better = accuracy(model, data) - accuracy(of_vote(dense), data)
    assert better > (0.15 if dense else 0.02)


@pytest.mark.slow
def test_with_one_label_the_paper_s_order_is_a_vote() -> None:
    """The identity is a fixed point: matrices are counted against the labels themselves."""
    data = draw_confusable_study(0, dense=False)
    printed = fit_study(data, "gem", order="paper", em_steps=5)
    identity = np.tile(np.eye(L), (4, 1, 1))
    np.testing.assert_allclose(matrices_in(printed, data), identity, rtol=0, atol=1e-30)
    found, expected = (m.predict_proba(data[1]) for m in (printed, of_vote(False)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_with_several_labels_the_paper_s_order_learns_too() -> None:
    data = draw_confusable_study(0, dense=True)
    model = fit_study(data, "gem", order="paper")
    assert np.abs(matrices_in(model, data) - MATRICES).mean() < 0.03
    assert accuracy(model, data) - accuracy(of_vote(True), data) > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gem", "mbem"])
def test_matrices_of_masks_are_recovered(name: str) -> None:
    """One mask per image; one rater misses a third of the object."""
    rng = np.random.default_rng(0)
    truth = np.kron(rng.integers(0, 2, (60, 2, 2)), np.ones((4, 4), int))
    images = (truth + rng.normal(0, 0.1, truth.shape))[:, None]
    matrices = np.array([[[0.95, 0.05], [0.05, 0.95]], [[0.95, 0.05], [0.35, 0.65]]])
    labels = draw_labels(truth.ravel(), matrices, rng).reshape(60, 8, 8, 2).transpose(0, 3, 1, 2)
    labels[np.arange(60), rng.integers(0, 2, 60)] = MISSING
    study = Study.from_arrays(images, labels)
    options: dict[str, Any] = {**PLAIN, "width": 4, "epochs": 8, "lr": 0.03, "batch_size": 4}
    options |= {"select": "last", "progress": False, "patch_size": (5, 5), "normalise": "none"}
    model = raters.fit(study, name, em_steps=4, **options)
    found = model.confusion(study[0]).reshape(matrices.shape)
    np.testing.assert_allclose(found, matrices, atol=0.07)


@pytest.mark.parametrize("name", ["gem", "mbem"])
def test_no_rater_can_be_added_later(name: str) -> None:
    study = make_noisy_masks()
    options: dict[str, Any] = {**PLAIN, "epochs": 1, "select": "last", "progress": False}
    model = raters.fit(study.select(raters=study.raters[:2]), name, **options)
    with pytest.raises(RatersError, match="cannot be extended: network and matrices are found in"):
        raters.extend(model, study)


class StopError(Exception):
    """Ends a run between two epochs."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gem", "mbem"])
def test_a_run_that_is_cut_off_resumes_in_the_middle_of_a_round(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {**PLAIN, "epochs": 5, "batch_size": 2, "lr": 0.1, "em_steps": 2}
    raters.fit(make_noisy_masks(), name, folder=tmp_path / "whole", progress=False, **options)
    lines: list[str] = []

    def stop(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:  # of rounds of 2 and 3 epochs
            raise StopError

    with pytest.raises(StopError):
        raters.fit(make_noisy_masks(), name, folder=tmp_path / "cut", progress=stop, **options)
    raters.fit(make_noisy_masks(), folder=tmp_path / "cut", resume=True, progress=False)
    whole, cut = ((tmp_path / run / "weights.safetensors") for run in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()

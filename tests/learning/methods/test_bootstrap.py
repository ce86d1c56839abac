"""Bootstrapped targets: the loss against slow loops, its gradient, and what it is known for."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods import learning_method
from raters.learning.methods.base import Batch
from raters.learning.methods.bootstrap import SoftBootstrap, mixture
from raters.learning.methods.targets import majority
from tests.support.learning import build_method, flatten_pixels, small_task

R = 3
L = 3
SPACES: dict[str, tuple[int, ...]] = {"mask": (4, 3), "volume": (2, 3, 2), "table": ()}
WEIGHTS = (0.5, 1.0, 2.5)
BETA = {"soft-bootstrap": 0.95, "hard-bootstrap": 0.8}
every_name = pytest.mark.parametrize("name", BETA)


def make_bootstrap(name: str, space: str, **given: Any) -> SoftBootstrap:
    """Make a method in float64."""
    task = small_task(len(SPACES[space]))
    method = build_method(name, task, given, seed=3, dtype=torch.float64, class_weights=WEIGHTS)
    return cast(SoftBootstrap, method)


def draw_batch_with_target(space: str) -> Batch:
    """Make labels of which some are missing; one pixel (or case) has none."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, L, (4, R, *SPACES[space]))
    labels[rng.random(labels.shape) < 0.3] = MISSING
    labels[1] = MISSING
    image = rng.normal(size=(4, 2, *SPACES[space])) * 2
    found = {"image": torch.from_numpy(image), "labels": torch.from_numpy(labels)}
    return {**found, "target": majority(found["labels"], L)}


@pytest.mark.parametrize("on", ["vote", "labels"])
@pytest.mark.parametrize("space", SPACES)
@every_name
def test_the_loss_is_that_of_slow_loops(name: str, space: str, on: str) -> None:
    method = make_bootstrap(name, space, on=on)
    batch = draw_batch_with_target(space)
    truth = flatten_pixels(method.network(batch["image"])[1].softmax(1))
    labels = flatten_pixels(batch["target"][:, None] if on == "vote" else batch["labels"])
    beta = BETA[name]
    total = 0.0
    plain = 0.0
    number = 0
    for b in range(len(labels)):
        for x in range(labels.shape[2]):
            p = truth[b, :, x]
            z = np.eye(L)[p.argmax()] if name == "hard-bootstrap" else p
            for o in labels[b, :, x]:
                if o == MISSING:
                    continue
                target = beta * np.eye(L)[o] + (1 - beta) * z
                total -= sum(WEIGHTS[t] * target[t] * math.log(p[t]) for t in range(L))
                plain -= math.log(p[o])
                number += 1
    step = method.step(batch)
    held_out = method.held_out(batch)
    assert step.loss.item() == pytest.approx(total / number, rel=1e-9)
    assert held_out.loss.item() == pytest.approx(plain, rel=1e-9)
    assert step.observed == held_out.count == number


def gradient(logits: list[float], label: int, beta: float, hard: bool) -> NDArray[np.float64]:
    z = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
    log_truth = z.log_softmax(1)
    votes = torch.nn.functional.one_hot(torch.tensor([label]), len(logits))
    loss = -(mixture(log_truth, votes, beta, hard) * log_truth).sum()
    return torch.autograd.grad(loss, z)[0][0].numpy()


@pytest.mark.parametrize("hard", [False, True])
def test_the_gradient_is_that_of_differences(hard: bool) -> None:
    """That of the probabilities in the target is part of it."""
    logits = [0.3, -0.9, 1.1]
    beta = 0.7
    label = 1

    def loss(values: NDArray[np.float64]) -> float:
        p = np.exp(values) / np.exp(values).sum()
        z = np.eye(3)[p.argmax()] if hard else p
        return float(-((beta * np.eye(3)[label] + (1 - beta) * z) * np.log(p)).sum())

    at = np.array(logits)
    small = 1e-5
    expected = [(loss(at + small * e) - loss(at - small * e)) / (2 * small) for e in np.eye(3)]
    np.testing.assert_allclose(gradient(logits, label, beta, hard), expected, rtol=1e-6)


@pytest.mark.parametrize("hard", [False, True])
def test_a_label_that_a_sure_network_contradicts_pulls_less(hard: bool) -> None:
    """By more than the weight of the label alone; one that is confirmed pulls by more than it."""
    for sure in (2.0, 4.0):
        against = gradient([sure, 0.0], 1, 0.8, hard)
        assert 0 < against[0] < 0.8 * gradient([sure, 0.0], 1, 1.0, hard)[0]
        agreed, plain = (gradient([sure, 0.0], 0, beta, hard)[0] for beta in (0.8, 1.0))
        assert agreed <= 0.8 * plain
        assert plain < 0


@pytest.mark.parametrize("hard", [False, True])
def test_false_labels_are_learnt_by_heart_less(hard: bool) -> None:
    """What it was made for: a quarter of the labels is false, and a model has room to keep them.

    Two groups lie at -1 and 1 on the first of 60 axes, and by the others each point can be told.
    """
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 100)
    new_truth = np.repeat([0, 1], 1000)
    points, new = (rng.normal(0, 0.5, (len(each), 60)) for each in (truth, new_truth))
    points[:, 0] = 2 * truth - 1
    new[:, 0] = 2 * new_truth - 1
    labels = np.where(np.arange(len(truth)) % 4 == 0, 1 - truth, truth)
    x = torch.from_numpy(points)
    votes = torch.from_numpy(np.eye(2)[labels])
    errors = {}
    for beta in (1.0, 0.6):
        weight = torch.zeros(60, 2, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.SGD([weight], lr=0.25)
        for _ in range(100):
            optimiser.zero_grad()
            log_truth = (x @ weight).log_softmax(1)
            (-(mixture(log_truth, votes, beta, hard) * log_truth).sum() / len(x)).backward()
            optimiser.step()
        said = (torch.from_numpy(new) @ weight).argmax(1).numpy()
        errors[beta] = float((said != new_truth).mean())
    assert errors[0.6] < errors[1.0] / 3, errors
    assert errors[1.0] > 0.1  # there is something to do better


@every_name
def test_without_a_share_of_the_prediction_it_is_the_vote(name: str) -> None:
    method = make_bootstrap(name, "mask", beta=1.0)
    batch = draw_batch_with_target("mask")
    voted = learning_method("vote").load()(method.task, learning_method("vote").parse({})).double()
    voted.load_state_dict(method.state_dict())
    voted.class_weights.copy_(method.class_weights)
    torch.testing.assert_close(method.step(batch).loss, voted.step(batch).loss)


@every_name
def test_what_cannot_be_is_refused(name: str) -> None:
    for beta in (0.0, 1.5):
        with pytest.raises(RatersError, match="beta"):
            learning_method(name).parse({"beta": beta})
    with pytest.raises(RatersError, match="found the option 'soft', expected none"):
        learning_method(name).parse({"soft": True})
    defaults = learning_method(name).parse({}).model_dump()
    assert (defaults["beta"], defaults["on"]) == (BETA[name], "vote")

"""`mrnet`: what it learns under weightings of the raters, and that its predictions follow them."""

from __future__ import annotations

from functools import cache
from math import log
from typing import Any

import numpy as np
import pytest
import torch

import raters
from raters.core.errors import RatersError
from raters.learning.methods.base import Task
from raters.learning.methods.mrnet import FASTER, MRNet, disagreement, draw_weights
from raters.learning.methods.options import MethodOptions
from raters.learning.networks import NetworkOptions, TruthNetwork, build_backbone
from tests.support.learning import add_noise
from tests.support.scores import foreground_dice

R = 3
L = 3
SPACES = {2: (5, 4), 3: (4, 3, 4)}


def make_mrnet(dims: int = 2, seed: int = 0, unlabelled: tuple[str, ...] = ()) -> MRNet:
    """Make a method with random weights, on images of one channel."""

    def network() -> TruthNetwork:
        options = NetworkOptions("unet", width=4, depth=1, norm="none")
        return TruthNetwork(build_backbone(options, 1, dims), L, dims)

    torch.manual_seed(seed)
    task = Task("segmentation", tuple("abc"), L, dims, network, unlabelled=unlabelled)
    method = MRNet(task, MethodOptions())
    add_noise(method, 0.3)  # heads that start at zero would hide what they are given
    return method


def test_all_raters_begin_at_what_the_network_predicts() -> None:
    network = make_mrnet().task.network
    method = MRNet(Task("segmentation", tuple("abc"), L, 2, network), MethodOptions())
    with torch.no_grad():
        method.embed.weight.zero_()
    image = draw_batch()["image"]
    expected = method.network(image)[1].softmax(1)
    said = [method.truth(image), *(method.as_rater(image, r) for r in range(R))]
    said.append(method.weighted(image, torch.tensor([1.0, 0, 0])))
    for found in said:
        torch.testing.assert_close(found, expected)


def draw_batch(dims: int = 2, cases: int = 3) -> dict[str, torch.Tensor]:
    """Make labels with gaps; rater b has nothing of case 1."""
    rng = np.random.default_rng(dims)
    labels = rng.integers(0, L, (cases, R, *SPACES[dims]))
    labels[rng.random(labels.shape) < 0.3] = -1
    labels[1, 1] = -1
    return {
        "image": torch.from_numpy(rng.standard_normal((cases, 1, *SPACES[dims]))).float(),
        "labels": torch.from_numpy(labels),
        "case": torch.arange(cases) + 4,
    }


@pytest.mark.parametrize("dims", [2, 3])
def test_the_loss_is_the_formula_label_by_label(dims: int) -> None:
    method = make_mrnet(dims)
    batch = draw_batch(dims)
    method.seed = 5
    method.start_epoch(2)
    method.class_weights.copy_(torch.tensor([1.0, 2.0, 0.5]))
    cost = [1.0, 2.0, 0.5]
    labels = batch["labels"].numpy()
    found = method.step(batch)
    parts = {"loss": 0.0, "raw": 0.0, "raters": 0.0}
    for b in range(len(labels)):
        there = torch.tensor([bool((labels[b, r] >= 0).any()) for r in range(R)])
        for weights in draw_weights(there, 5, 2, int(batch["case"][b])):
            features = method.network(batch["image"][b : b + 1])[0]
            said = method._said(features, weights[None])
            raw, own, final = (part[0].detach().numpy() for part in said)
            for place in np.ndindex(*SPACES[dims]):
                given = [(r, int(labels[(b, r, *place)])) for r in range(R)]
                given = [(r, o) for r, o in given if o >= 0]
                total = sum(float(weights[r]) for r, _ in given)
                for r, o in given:
                    parts["raters"] -= cost[o] * own[(r, o, *place)]
                    share = len(given) * float(weights[r]) / total if total > 0 else 0.0
                    parts["raw"] -= share * cost[o] * raw[(o, *place)]
                    parts["loss"] -= share * cost[o] * final[(o, *place)]
    observed = (labels >= 0).sum()
    assert int(found.observed) == observed
    for name, total in parts.items():
        assert float(found.terms[name].detach()) == pytest.approx(total / (3 * observed), rel=1e-4)
    assert float(found.loss.detach()) == pytest.approx(
        sum(parts.values()) / (3 * observed), rel=1e-4
    )


def test_no_part_is_bent_to_be_a_message_to_the_next() -> None:
    method = make_mrnet(2)
    batch = draw_batch(2)
    features = method.network(batch["image"])[0]
    said = method._said(features, torch.tensor([[0.7, 0.2, 0.1]]).repeat(3, 1))

    def moved(output: torch.Tensor, part: torch.nn.Module) -> bool:
        found = torch.autograd.grad(
            output.square().sum(), list(part.parameters()), retain_graph=True, allow_unused=True
        )
        return any(one is not None and bool(one.any()) for one in found)

    assert not moved(said.raters, method.calibrate)  # q takes p as it is
    assert not moved(said.final, method.rebuild)  # P takes u as it is
    assert moved(said.final, method.calibrate)  # but refines p
    assert moved(said.raters, method.rebuild)
    assert moved(said.final, method.refine)


@pytest.mark.parametrize("dims", [2, 3])
def test_the_parts_are_their_formulas(dims: int) -> None:
    method = make_mrnet(dims)
    batch = draw_batch(dims)
    weights = torch.tensor([[0.7, 0.2, 0.1]]).repeat(3, 1)
    features = method.network(batch["image"])[0]
    said = method._said(features, weights)
    table = method.embed.weight.detach().numpy() @ weights[0].numpy() * FASTER
    scale, shift = np.split(table, 2)
    across = (None, slice(None), *(None,) * dims)
    moved = features.detach().numpy() * (1 + scale[across]) + shift[across]
    mixed = torch.from_numpy(moved).float()
    raw = (method.network.head(mixed) + method.calibrate(mixed)).softmax(1)
    torch.testing.assert_close(said.raw.exp(), raw)
    known = torch.cat([features, raw], 1)
    each = method.rebuild(known).chunk(R, 1)
    drawn_by = torch.stack([(raw.log() + part).softmax(1) for part in each], 1)
    torch.testing.assert_close(said.raters.exp(), drawn_by)
    own = said.raters.exp().detach().numpy()
    spread = 2 * np.sqrt(((own - own.mean(1, keepdims=True)) ** 2).mean(1)).max(1)
    np.testing.assert_allclose(
        disagreement(torch.from_numpy(own))[:, 0].numpy(), spread, rtol=1e-4, atol=1e-6
    )
    looked = mixed * (1 + torch.from_numpy(spread)[:, None])
    final = (raw.log() + method.refine(looked)).softmax(1)
    torch.testing.assert_close(said.final.exp(), final, rtol=1e-4, atol=1e-5)


def test_a_perfect_prediction_costs_nothing() -> None:
    """A second softmax anywhere would leave a loss that no prediction can lower."""
    method = make_mrnet()
    batch = draw_batch()
    batch["labels"] = torch.full_like(batch["labels"], 1)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.zero_()
        method.network.head.bias[1] = 50.0  # type: ignore[index, union-attr]
        method.rebuild[-1].bias.view(R, L)[:, 1] = 50.0  # type: ignore[union-attr, operator]
    assert float(method.step(batch).loss.detach()) == pytest.approx(0, abs=1e-6)


def test_parts_of_a_batch_add_up_to_it() -> None:
    """As processes that share a batch need it."""
    method = make_mrnet()
    batch = draw_batch()
    whole = method.step(batch)
    parts = [method.step({k: v[rows] for k, v in batch.items()}) for rows in ([0], [1, 2])]
    added = sum(float(part.loss.detach() * part.observed) for part in parts)
    assert added / int(whole.observed) == pytest.approx(float(whole.loss.detach()), rel=1e-5)


def test_weightings_are_drawn_by_seed_epoch_and_case_among_those_who_labelled() -> None:
    there = torch.tensor([True, False, True, True])
    drawn = draw_weights(there, 1, 2, 3)
    assert torch.equal(drawn, draw_weights(there, 1, 2, 3))
    others = [draw_weights(there, *place) for place in ((0, 2, 3), (1, 0, 3), (1, 2, 0))]
    assert not any(torch.equal(drawn[2], other[2]) for other in others)
    many = torch.stack([draw_weights(there, 0, epoch, 0) for epoch in range(300)])
    torch.testing.assert_close(many.sum(2), torch.ones(300, 3))
    assert many[:, :, 1].abs().max() == 0
    torch.testing.assert_close(many[:, 0], (there / 3).expand(300, 4))
    assert set(many[:, 1].flatten().tolist()) == {0.0, 1.0}
    assert all(80 < int(count) < 120 for count in many[:, 1].sum(0)[there])
    # A flat Dirichlet of three: mean 1/3, variance 1/18.
    assert many[:, 2][:, there].var().item() == pytest.approx(1 / 18, rel=0.15)


def test_the_likelihood_of_held_out_labels_is_that_of_each_rater() -> None:
    method = make_mrnet()
    batch = draw_batch()
    method.class_weights.fill_(7.0)  # the choice of an epoch does not depend on them
    found = method.held_out(batch)
    own = [method.as_rater(batch["image"], r).detach().numpy() for r in range(R)]
    labels = batch["labels"].numpy()
    seen = np.argwhere(labels >= 0)
    expected = -sum(log(own[r][(b, labels[(b, r, *x)], *x)]) for b, r, *x in seen)
    assert float(found.loss.detach()) == pytest.approx(expected, rel=1e-4)
    assert int(found.count) == len(seen)
    torch.testing.assert_close(found.truth, method.truth(batch["image"]))


def test_one_look_gives_all_that_is_asked() -> None:
    from raters.learning.methods.base import Asked

    method = make_mrnet()
    image = draw_batch()["image"]
    weights = (0.2, 0.0, 0.8)
    found = method.maps(image, Asked(("b", 2), weights=weights))
    assert list(found) == ["truth", "as:b", "as:c"]
    torch.testing.assert_close(found["truth"], method.weighted(image, torch.tensor(weights)))
    torch.testing.assert_close(found["truth"], method.weighted(image, 5 * torch.tensor(weights)))
    torch.testing.assert_close(found["as:b"], method.as_rater(image, 1))
    assert not torch.allclose(found["truth"], method.truth(image))


def draw_discs(cases: int, seed: int, absent: bool = False) -> raters.Study:
    """Draw discs; one rater draws them too small, one as they are, one too large."""
    rng = np.random.default_rng(seed)
    side = 32
    rows, columns = np.mgrid[:side, :side]
    images = []
    labels = []
    for case in range(cases):
        row, column = rng.uniform(11, side - 11, 2)
        radius = rng.uniform(5, 7)
        away = np.hypot(rows - row, columns - column)
        images.append((away < radius) + 0.2 * rng.standard_normal((side, side)))
        masks = np.array([away < radius + more for more in (-2.5, 0, 2.5)], int)
        if absent:
            masks[case % 3] = -1
        labels.append(masks)
    names = ["small", "exact", "large"]
    return raters.Study.from_arrays(np.array(images)[:, None], np.array(labels), raters=names)


@cache
def train_with_gaps() -> raters.Model:
    """Train where each case lacks the mask of one rater: no weighting of all three is ever seen."""
    options: dict[str, Any] = {"val_fraction": 0, "augment": "none", "batch_size": 4}
    study = draw_discs(18, seed=0, absent=True)
    return raters.fit(study, "mrnet", epochs=18, width=8, depth=2, lr=0.01, **options)


@pytest.mark.slow
def test_predictions_follow_the_weighting() -> None:
    model = train_with_gaps()
    test = list(draw_discs(8, seed=1).iter_cases())
    for answer in ("weights", "as_rater"):
        fits = np.zeros((3, 3))
        for case in test:
            for r, name in enumerate(("small", "exact", "large")):
                if answer == "weights":
                    found = model.predict(case, weights={name: 1.0})
                else:
                    found = model.as_rater(case, name).argmax(0)
                fits[r] += [foreground_dice(found, mask) / len(test) for mask in case.labels]
        for r in range(3):
            others = np.delete(fits[r], r)
            assert fits[r, r] > others.max() + 0.1, (answer, fits.round(3))


def test_predictions_go_from_one_rater_to_another() -> None:
    model = train_with_gaps()
    test = list(draw_discs(8, seed=1).iter_cases())
    area = [
        np.mean([model.predict_proba(c, weights={"small": 1 - w, "large": w})[1] for c in test])
        for w in (0, 0.25, 0.5, 0.75, 1)
    ]
    assert (np.diff(area) > 0.1 * (area[-1] - area[0])).all(), area
    # Of equal weights the middle one of three nested masks is the likeliest.
    fits = np.mean(
        [[foreground_dice(model.predict(c), mask) for mask in c.labels] for c in test], axis=0
    )
    assert fits.argmax() == 1


def test_a_rater_without_labels_weighs_nothing_in_the_truth() -> None:
    method = make_mrnet(unlabelled=("c",))
    image = draw_batch()["image"]
    torch.testing.assert_close(
        method.truth(image), method.weighted(image, torch.tensor([0.5, 0.5, 0.0]))
    )


def test_one_rater_and_class_labels_are_refused() -> None:
    alone = draw_discs(4, seed=0).select(raters=["small"])
    with pytest.raises(RatersError, match="found 1 rater with labels, expected at least 2: mrnet"):
        raters.fit(alone, "mrnet", epochs=1)
    table = raters.Study.from_arrays(np.zeros((4, 3)), np.array([[0, 1], [1, 1], [0, 0], [1, 0]]))
    with pytest.raises(RatersError, match="found class labels, expected masks: mrnet"):
        raters.fit(table, "mrnet", epochs=1)
    with pytest.raises(RatersError, match="prior"):
        raters.fit(draw_discs(4, seed=0), "mrnet", epochs=1, prior=0.1)

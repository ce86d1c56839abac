"""`wdn`, `crowd-layer`, `agg-net`, `max-mig`: losses against plain loops, and what each is for."""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation, binary_erosion, gaussian_filter

import raters
from raters.consensus.consensus import fuse
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods import learning_method
from raters.learning.methods.agg_net import AggNet
from raters.learning.methods.base import Asked, Batch, Method, Task
from raters.learning.methods.counting import CountedRaters, count_labels
from raters.learning.methods.crowd_layer import CrowdLayer
from raters.learning.methods.max_mig import MaxMIG, lost_information
from raters.learning.methods.wdn import WeightedDoctorNet
from raters.study.study import Study
from tests.support.learning import build_method, small_task, softmax

Floats = NDArray[np.float64]
R = 3
L = 3
B = 2
SPACES = {"table": (), "mask": (4, 3), "volume": (2, 3, 2)}
WEIGHTS = torch.tensor([0.5, 1.0, 2.0])
every_space = pytest.mark.parametrize("space", SPACES)


def make_crowd_method(name: str, space: str, epochs: int = 4, **given: Any) -> Any:
    """Make a method with weights that say something."""
    task = small_task(len(SPACES[space]), epochs=epochs)
    return build_method(name, task, given, seed=1, noise=0.3, class_weights=WEIGHTS)


def draw_batch(space: str, seed: int = 0) -> Batch:
    """Make labels of which some are missing; one pixel (or case) has none, a rater repeats."""
    random = torch.Generator().manual_seed(seed)
    sides = SPACES[space]
    cases = 6 if space == "table" else B
    labels = torch.randint(-1, L, (cases, 4 if space == "table" else R, *sides), generator=random)
    labels[1, ..., -1] = MISSING
    labels[1 if space == "table" else 0].select(-1, 0).fill_(MISSING)
    batch = {
        "image": torch.randn(cases, 2, *sides, generator=random),
        "labels": labels,
        "case": torch.arange(cases),
    }
    if space == "table":
        labels[1] = MISSING
        batch["raters"] = torch.tensor([0, 1, 2, 2]).expand(cases, 4)
    return batch


def list_labels(batch: Batch) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    """List the labels as case, rater, class and place."""
    labels = batch["labels"].numpy()
    raters_of = batch.get("raters")
    for b, a, *place in np.argwhere(labels != MISSING).tolist():
        rater = a if raters_of is None else int(raters_of[b, a])
        yield b, rater, int(labels[(b, a, *place)]), tuple(place)


def pixels(batch: Batch) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Return who said what at each pixel, by case and place."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for b, r, o, place in list_labels(batch):
        found.setdefault((b, *place), []).append((r, o))
    return found


def classes_at(values: Floats, case: int, place: tuple[int, ...]) -> Floats:
    return np.asarray(values[(case, slice(None), *place)])


def to_numpy(values: torch.Tensor) -> Floats:
    return values.detach().double().numpy()


# wdn


@every_space
def test_heads_learn_their_raters_and_weights_what_others_say(space: str) -> None:
    method = make_crowd_method("wdn", space)
    batch = draw_batch(space)
    assert isinstance(method, WeightedDoctorNet)
    heads = [to_numpy(method.as_rater(batch["image"], r)) for r in range(R)]
    w = softmax(to_numpy(method.averaging))
    own = 0.0
    others = 0.0
    count = 0
    for b, r, o, place in list_labels(batch):
        said = [classes_at(head, b, place)[o] for head in heads]
        mixed = sum(w[s] * said[s] for s in range(R) if s != r) / (1 - w[r])
        own -= float(WEIGHTS[o]) * math.log(said[r])
        others -= float(WEIGHTS[o]) * math.log(mixed)
        count += 1
    method.start_epoch(0)
    step = method.step(batch)
    assert int(step.observed) == count
    assert step.loss.item() == pytest.approx(own / count, rel=1e-4)
    method.start_epoch(3)
    step = method.step(batch)
    assert step.loss.item() == pytest.approx(others / count, rel=1e-4)
    step.loss.backward()
    assert all(p.grad is None for p in method.network.parameters())
    assert bool((method.averaging.grad != 0).all())
    scored = {"own": 0.0, "others": 0.0}  # without weights of classes
    for b, r, o, place in list_labels(batch):
        said = [classes_at(head, b, place)[o] for head in heads]
        scored["own"] -= math.log(said[r])
        mixed = sum(w[s] * said[s] for s in range(R) if s != r) / (1 - w[r])
        scored["others"] -= math.log(mixed)
    for epoch, by in ((3, "others"), (0, "own")):  # the weights' epochs are chosen by the weights
        method.start_epoch(epoch)
        held = method.held_out(batch)
        assert held.loss.item() == pytest.approx(scored[by], rel=1e-4) and int(held.count) == count


def test_the_truth_is_a_weighted_mean_of_heads_and_any_weighting_can_be_asked() -> None:
    method = make_crowd_method("wdn", "mask")
    image = draw_batch("mask")["image"]
    w = softmax(to_numpy(method.averaging))
    heads = [to_numpy(method.as_rater(image, r)) for r in range(R)]
    expected = sum(weight * head for weight, head in zip(w, heads, strict=True))
    np.testing.assert_allclose(to_numpy(method.truth(image)), expected, rtol=1e-5)
    found = method.maps(image, Asked(raters=("b",), weights=(0.0, 3.0, 1.0)))
    np.testing.assert_allclose(to_numpy(found["truth"]), (3 * heads[1] + heads[2]) / 4, rtol=1e-5)
    np.testing.assert_allclose(to_numpy(found["as:b"]), heads[1], rtol=1e-5)
    assert torch.equal(found["truth"], method.weighted(image, torch.tensor([0.0, 3.0, 1.0])))


def test_phases_of_wdn() -> None:
    heads = {}
    for epochs, share in [(1, 0.25), (2, 0.25), (8, 0.25), (5, 3), (3, 9)]:
        method = make_crowd_method("wdn", "table", epochs, weight_epochs=share)
        phases = [method.phase(epoch) for epoch in range(epochs)]
        assert phases == sorted(phases)  # heads first
        heads[epochs, share] = phases.count("heads")
    assert heads == {(1, 0.25): 1, (2, 0.25): 1, (8, 0.25): 6, (5, 3): 2, (3, 9): 1}
    assert (
        make_crowd_method("wdn", "table", 1).warm_up == 0
        and make_crowd_method("wdn", "table", 8).warm_up == 6
    )


def test_heads_are_frozen_while_weights_learn() -> None:
    """Nothing is dropped then, and the weights alone have a gradient."""
    method = make_crowd_method("wdn", "mask", 4)
    batch = draw_batch("mask")
    for module in method.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    learning = {}
    for epoch in (0, 3):
        method.train()
        method.start_epoch(epoch)
        method.zero_grad(set_to_none=True)
        losses = [method.step(batch).loss for _ in range(4)]
        losses[0].backward()
        learning[method.phase(epoch)] = [
            name for name, each in method.named_parameters() if each.grad is not None
        ]
        different = len({float(loss.detach()) for loss in losses}) > 1
        assert different == (method.phase(epoch) == "heads")
    assert learning["weights"] == ["averaging"]
    assert len(learning["heads"]) > 1 and "averaging" not in learning["heads"]


# crowd-layer


@every_space
@pytest.mark.parametrize("layer", ["MW", "VW", "VW+B"])
def test_one_softmax_before_the_layer_and_one_after(layer: str, space: str) -> None:
    method = make_crowd_method("crowd-layer", space, layer=layer)
    batch = draw_batch(space)
    logits = to_numpy(method.network(batch["image"])[1])
    weights = to_numpy(method.weights)
    biases = np.zeros((R, L)) if method.biases is None else to_numpy(method.biases)
    total = 0.0
    count = 0
    for b, r, o, place in list_labels(batch):
        p = softmax(classes_at(logits, b, place))
        scores = p @ weights[r] if layer == "MW" else p * weights[r]
        said = softmax(scores + biases[r])
        total -= float(WEIGHTS[o]) * math.log(said[o])
        count += 1
        if count == 1:
            np.testing.assert_allclose(
                classes_at(to_numpy(method.as_rater(batch["image"], r)), b, place), said, rtol=1e-5
            )
    step = method.step(batch)
    assert int(step.observed) == count
    assert step.loss.item() == pytest.approx(total / count, rel=1e-5)
    certain = to_numpy(method.confusion(batch["image"]))[0].reshape(R, L, L)
    for r, t in np.ndindex(R, L):
        row = weights[r, t] if layer == "MW" else np.eye(L)[t] * weights[r]
        np.testing.assert_allclose(certain[r, t], softmax(row + biases[r]), rtol=1e-5)


@pytest.mark.parametrize("layer", ["MW", "VW", "VW+B"])
def test_a_certain_and_right_network_at_the_start(layer: str) -> None:
    """The formula's loss, log(1 + (L - 1) / e), and not that of a third softmax."""
    entry = learning_method("crowd-layer")
    task = Task("classification", ("a", "b"), 2, 0, lambda: _Certain())  # type: ignore[arg-type, return-value]
    method = CrowdLayer(task, entry.parse({"layer": layer}))  # type: ignore[arg-type]
    labels = torch.tensor([[0, 0], [1, 1]])
    batch = {"image": 100 * torch.eye(2), "labels": labels, "raters": torch.tensor([[0, 1]] * 2)}
    loss = method.step(batch).loss.item()
    assert loss == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)
    assert loss == pytest.approx(0.3133, abs=1e-4)
    with torch.no_grad():
        method.weights *= 30
    assert method.step(batch).loss.item() < 1e-6


class _Certain(torch.nn.Module):
    """Its logits are the image."""

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return image, image


def test_raters_of_crowd_layers_can_be_joined() -> None:
    one = make_crowd_method("crowd-layer", "table", layer="VW+B")
    other = make_crowd_method("crowd-layer", "table")
    assert one.not_extended == "" and other.matrix_parameters() == [other.weights]
    joined = one.joined(make_crowd_method("crowd-layer", "table", layer="VW+B"))
    assert {name: part.shape for name, part in joined.items()} == {
        "weights": (2 * R, L),
        "biases": (2 * R, L),
    }
    assert torch.equal(joined["weights"][:R], one.weights)


# agg-net


@every_space
def test_labels_are_aggregated_and_counted_in_each_step(space: str) -> None:
    method = make_crowd_method("agg-net", space, init_accuracy=0.7, smoothing=2.0)
    batch = draw_batch(space)
    assert isinstance(method, AggNet)
    method.steps_per_epoch = 4
    random = np.random.default_rng(0)
    before = random.uniform(0, 9, (R, L, L))
    method.raters.counts.copy_(torch.from_numpy(before))
    shown = before
    if method.disputed is not None:  # predictions have matrices of their own
        shown = random.uniform(0, 9, (R, L, L))
        method.disputed.counts.copy_(torch.from_numpy(before))
        method.raters.counts.copy_(torch.from_numpy(shown))
    method.start_epoch(0)
    truth = to_numpy(method.truth(batch["image"]))
    start = np.full((L, L), 0.15) + 0.55 * np.eye(L)
    disputed = (before + 2 * start) / (before.sum(2, keepdims=True) + 2)
    everywhere = (shown + 2 * start) / (shown.sum(2, keepdims=True) + 2)
    np.testing.assert_allclose(
        to_numpy(method.confusion(batch["image"])).reshape(R, L, L), everywhere, rtol=1e-5
    )
    total = 0.0
    after = 0.75 * before
    of_all = 0.75 * shown
    known = pixels(batch)
    for place, said in known.items():
        p = classes_at(truth, place[0], place[1:])
        agree = len(said) > 1 and len({o for _, o in said}) == 1
        matrices = everywhere if agree else disputed
        q = p * np.prod([matrices[r, :, o] for r, o in said], axis=0)
        q /= q.sum()
        total -= float((WEIGHTS.numpy() * q * np.log(p)).sum())
        for r, o in said:
            of_all[r, :, o] += q
            after[r, :, o] += 0 if agree and method.disputed is not None else q
        np.testing.assert_allclose(
            classes_at(to_numpy(method.fused(batch)), place[0], place[1:]), q, rtol=1e-4
        )
    step = method.step(batch)
    assert int(step.observed) == len(known)
    assert step.loss.item() == pytest.approx(total / len(known), rel=1e-4)
    np.testing.assert_allclose(to_numpy(method.raters.counts), of_all, rtol=1e-4)
    if method.disputed is not None:
        np.testing.assert_allclose(to_numpy(method.disputed.counts), after, rtol=1e-4)


def test_the_first_counts_are_of_all_cases_and_the_warm_up_counts_nothing() -> None:
    method = make_crowd_method("agg-net", "mask", warm_up=2)
    batches = [draw_batch("mask", k) for k in range(3)]
    assert [method.needs_pass(epoch) for epoch in range(4)] == [False, False, True, False]
    method.start_epoch(1)
    method.step(batches[0])
    assert not method.raters.counts.any()
    method.eval()
    expected = sum(
        count_labels(method.fused(b) * (b["labels"] >= 0).any(1)[:, None], b["labels"], R)
        for b in batches
    )
    method.see_all(iter(batches))
    torch.testing.assert_close(method.raters.counts, expected)
    assert isinstance(method, AggNet) and method.disputed is not None
    agreed = method.raters.counts - method.disputed.counts
    assert float(agreed.min()) >= 0
    both = sum(
        int(
            ((b["labels"] == o).sum(1) * ((b["labels"] >= 0).sum(1) > 1))[
                ((b["labels"] == o) | (b["labels"] < 0)).all(1)
            ].sum()
        )
        for b in batches
        for o in range(L)
    )
    assert float(agreed.sum()) == pytest.approx(both, rel=1e-4)


@every_space
def test_counts_of_labels(space: str) -> None:
    batch = draw_batch(space)
    truth = torch.rand(len(batch["labels"]), L, *SPACES[space], dtype=torch.float64)
    expected = np.zeros((R, L, L))
    for b, r, o, place in list_labels(batch):
        expected[r, :, o] += classes_at(truth.numpy(), b, place)
    found = count_labels(truth, batch["labels"], R, batch.get("raters"))
    np.testing.assert_allclose(found.numpy(), expected)


def test_held_matrices_are_at_the_start_in_training_only() -> None:
    model = CountedRaters(2, 2, 0.8, 1.0)
    model.counts.fill_(50.0)
    model.held = True
    assert float(model(torch.zeros(1)).matrix()[0, 0, 0, 0]) == pytest.approx(0.8)
    assert float(model.eval()(torch.zeros(1)).matrix()[0, 0, 0, 0]) == pytest.approx(0.5, abs=0.01)


# max-mig


def by_all_pairs(h: Floats, g: Floats, p: Floats, w: Floats) -> float:
    """Go over all pairs, matched and mismatched, as the paper writes it."""
    matched = mismatched = others = 0.0
    for i, j in np.ndindex(len(h), len(h)):
        k = sum(h[i, t] * g[j, t] / p[t] for t in range(len(p)))
        if i == j:
            matched += w[i] * (1 + math.log(k))  # f'(K), f(u) = u log u
        else:
            mismatched += w[i] * w[j] * math.exp(1 + math.log(k) - 1)  # f*(f'(K))
            others += w[i] * w[j]
    return -matched / sum(w) + mismatched / others


@every_space
def test_the_loss_is_that_of_all_pairs(space: str) -> None:
    method = make_crowd_method("max-mig", space)
    batch = draw_batch(space)
    assert isinstance(method, MaxMIG)
    method.steps_per_epoch = 1
    truth = to_numpy(method.truth(batch["image"]))
    known = pixels(batch)
    p = softmax(to_numpy(method.prior_logits))
    scores = to_numpy(method.scores)
    bias = to_numpy(method.bias)
    h = []
    g = []
    w = []
    for place, said in known.items():
        h.append(classes_at(truth, place[0], place[1:]))
        g.append(softmax(bias + sum(scores[r, :, o] for r, o in said)))
        w.append(np.mean([float(WEIGHTS[o]) for _, o in said]))
        q = h[-1] * g[-1] / p
        fused = classes_at(to_numpy(method.fused(batch)), place[0], place[1:])
        np.testing.assert_allclose(fused, q / q.sum(), rtol=1e-4)
    expected = by_all_pairs(np.array(h), np.array(g), p, np.array(w))
    method.start_epoch(0)
    step = method.step(batch)
    assert step.loss.item() == pytest.approx(expected, rel=1e-4)
    assert int(step.observed) == len(known)
    counts = np.zeros((R, L, L))
    for place, said in known.items():
        for r, o in said:
            counts[r, :, o] += classes_at(to_numpy(method.fused(batch)), place[0], place[1:])
    np.testing.assert_allclose(to_numpy(method.raters.counts), counts, rtol=1e-4)


def test_where_nobody_labelled_the_image_alone_speaks() -> None:
    for name in ("max-mig", "agg-net"):
        method = make_crowd_method(name, "mask")
        batch = draw_batch("mask")
        nobody = (batch["labels"] == MISSING).all(1)
        fused = method.fused(batch).movedim(1, -1)
        truth = method.truth(batch["image"])
        assert nobody.any()
        torch.testing.assert_close(fused[nobody], truth.movedim(1, -1)[nobody])


def parts_of(seed: int, n: int, classes: int = 3) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    shapes = [(n, classes), (n, classes), (classes,)]
    made_of = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    return [part.requires_grad_() for part in made_of]


def test_gradients_over_processes_add_up_to_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes have 3 and 5 of 8 pixels; training weighs each by its share of them."""
    weights = torch.rand(8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    whole = parts_of(0, 8)
    lost_information(*(part.log_softmax(-1) for part in whole), weights).backward()
    again = parts_of(0, 8)
    h, g, prior = (part.log_softmax(-1) for part in again)
    cuts = [slice(0, 3), slice(3, 8)]
    flats: list[torch.Tensor] = []
    monkeypatch.setattr("raters.learning.methods.max_mig.summed", lambda f: flats.append(f) or f)
    for cut in cuts:
        lost_information(h[cut], g[cut], prior, weights[cut])
    total = flats[0] + flats[1]
    monkeypatch.setattr("raters.learning.methods.max_mig.summed", lambda _: total)
    value = torch.zeros((), dtype=torch.float64)
    for cut in cuts:
        own = weights[cut]
        value = value + lost_information(h[cut], g[cut], prior, own) * len(own) / len(weights)
    value.backward()
    plain_loss = lost_information(*(part.log_softmax(-1) for part in whole), weights)
    torch.testing.assert_close(value, plain_loss)
    for one, other in zip(whole, again, strict=True):
        assert one.grad is not None and other.grad is not None
        torch.testing.assert_close(other.grad, one.grad)


def test_information_of_one_pair_and_of_none_is_finite() -> None:
    h, g, p = (part.log_softmax(-1) for part in parts_of(1, 1))
    k = ((h + g).exp() / p.exp()).sum().item()
    assert lost_information(h, g, p, torch.ones(1)).item() == pytest.approx(-1 - math.log(k) + k)
    assert lost_information(h, g, p, torch.zeros(1)).item() == pytest.approx(-1)


def test_the_aggregator_starts_as_the_posterior_of_the_votes_matrices() -> None:
    method = make_crowd_method("max-mig", "mask", smoothing=1.0)
    batches = [draw_batch("mask", k) for k in (0, 1)]
    with torch.no_grad():
        method.see_all(iter(batches))
    counts = np.zeros((R, L, L))
    shares = np.ones(L)
    for batch in batches:
        for said in pixels(batch).values():
            votes = [sum(o == c for _, o in said) for c in range(L)]
            shares[int(np.argmax(votes))] += 1
            for r, o in said:
                counts[r, int(np.argmax(votes)), o] += 1
    start = np.full((L, L), 0.05) + 0.85 * np.eye(L)
    matrices = (counts + start) / (counts.sum(2, keepdims=True) + 1)
    np.testing.assert_allclose(to_numpy(method.scores), np.log(matrices), rtol=1e-5)
    np.testing.assert_allclose(softmax(to_numpy(method.bias)), shares / shares.sum(), rtol=1e-5)
    np.testing.assert_allclose(
        softmax(to_numpy(method.prior_logits)), shares / shares.sum(), rtol=1e-5
    )


# What they are for


def draw_points_and_raters(
    accuracies: list[float], copies: int = 0, tasks: int = 400, seed: int = 0
) -> Study:
    """Draw three classes of points, and raters who err at random; copies all say the same noise.

    The noise of the copies has nothing to do with the points.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, tasks)
    centres = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
    points = (centres[truth] + rng.normal(size=(tasks, 2))).astype(np.float32)
    wrong = (truth[:, None] + rng.integers(1, 3, (tasks, len(accuracies)))) % 3
    right = rng.random(wrong.shape) < np.array(accuracies)
    noise = np.where(rng.random(tasks) < 0.5, 0, rng.integers(0, 3, tasks))
    labels = np.concatenate(
        [np.where(right, truth[:, None], wrong), np.repeat(noise[:, None], copies, 1)], 1
    )
    return Study.from_arrays(points, labels, reference=truth, classes=range(3))


def accuracy(model: Any, study: Study) -> float:
    said = model.predict(np.stack([np.asarray(case.image) for case in study]))
    return float(np.mean(said == [case.reference for case in study]))


fit = functools.partial(
    raters.fit, epochs=12, batch_size=50, lr=0.01, select="last", val_fraction=0
)


def test_wdn_gives_a_random_rater_less_weight(tmp_path: Path) -> None:
    model = fit(draw_points_and_raters([0.85, 0.85, 0.85, 1 / 3]), "wdn", weight_epochs=4)
    weights = model.method.rater_weights.detach()  # type: ignore[union-attr, operator]
    assert float(weights[3]) < 0.5 * float(weights[:3].min())
    assert accuracy(model, draw_points_and_raters([0.5], seed=1)) > 0.85
    with open(model.save(tmp_path / "model") / "rater_weights.csv", newline="") as file:
        written = {row["rater"]: float(row["weight"]) for row in csv.DictReader(file)}
    assert written == pytest.approx(model.rater_weights, abs=1e-6)
    assert min(written, key=lambda name: written[name]) == model.config.raters[3]
    assert sum(written.values()) == pytest.approx(1)
    assert raters.load(tmp_path / "model").rater_weights == pytest.approx(written, abs=1e-6)


def test_crowd_layer_finds_the_order_of_raters() -> None:
    model = fit(draw_points_and_raters([0.5, 0.95, 1 / 3, 0.75]), "crowd-layer")
    case = draw_points_and_raters([0.5], tasks=1)[0]
    skills = np.einsum("rtt->r", model.confusion(case)) / 3
    assert np.argsort(-skills).tolist() == [1, 3, 0, 2]
    assert accuracy(model, draw_points_and_raters([0.5], seed=1)) > 0.85


@pytest.mark.slow
def test_agg_net_does_not_believe_whoever_draws_most() -> None:
    """One draws a wide margin: counted at all pixels, hardly ever wrong, and believed."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:32, :32]
    images = []
    labels = []
    truth = []
    for k in range(16):
        row, column = rng.uniform(10, 22, 2)
        radius = rng.uniform(4, 8)
        disc = (y - row) ** 2 + (x - column) ** 2 < radius**2
        edge = binary_dilation(disc) ^ disc
        wide = binary_dilation(disc, iterations=2 + k % 2)
        small = binary_erosion(disc, iterations=1 + k % 2)
        beside = np.roll(disc, rng.integers(-2, 3, 2), (0, 1))
        noisy = disc ^ (edge & (rng.random((32, 32)) < 0.3))
        truth.append(disc)
        labels.append([noisy, wide, small, beside, wide if k % 3 == 0 else disc])
        images.append([gaussian_filter(disc.astype(float), 1) + rng.normal(0, 0.35, (32, 32))])
    study = raters.Study.from_arrays(np.array(images, np.float32), np.array(labels).astype(int))
    options: dict[str, Any] = {"width": 6, "batch_size": 4, "epochs": 40, "lr": 0.003}
    model = raters.fit(
        study, "agg-net", depth=2, val_fraction=0, select="last", augment="none", **options
    )
    area = sum(int((model.predict(case) > 0).sum()) for case in study) / np.sum(truth)
    assert 0.8 < area < 1.25


@pytest.mark.parametrize("raters_number", [2, 3])
def test_agg_net_keeps_what_all_raters_agree_on(raters_number: int) -> None:
    """Of two who differ one is always wrong; that must not count where they agree."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:24, :24]
    images = []
    labels = []
    for _ in range(16):
        (row, column) = rng.uniform(8, 16, 2)
        drawn = [
            np.hypot(y - row - rng.normal(0, 0.7), x - column - rng.normal(0, 0.7))
            < 5 + rng.normal(0, 0.5)
            for _ in range(raters_number)
        ]
        images.append([(np.hypot(y - row, x - column) < 5) + rng.normal(0, 0.8, (24, 24))])
        labels.append(drawn)
    masks = np.array(labels).astype(int)
    study = raters.Study.from_arrays(np.array(images, np.float32), masks)
    options: dict[str, Any] = {"width": 6, "batch_size": 4, "epochs": 12, "lr": 0.005, "warm_up": 5}
    model = raters.fit(
        study, "agg-net", depth=1, val_fraction=0, select="last", augment="none", **options
    )
    fused = raters.fuse(study, "agg-net", model=model).labels
    found = np.stack([fused[case.id] for case in study])
    unanimous = masks.all(1)
    assert (found[unanimous] == 1).mean() > 0.97


def test_agg_net_finds_what_raters_are_like() -> None:
    known = [0.9, 0.6, 0.4, 0.75]
    model = fit(draw_points_and_raters(known, tasks=600), "agg-net")
    diagonal = np.einsum("rtt->rt", model.confusion(draw_points_and_raters([0.5], tasks=1)[0]))
    np.testing.assert_allclose(diagonal.mean(1), known, atol=0.06)
    assert accuracy(model, draw_points_and_raters([0.5], seed=1)) > 0.85


def test_max_mig_is_not_taken_in_by_noise_that_raters_share() -> None:
    """Three of seven copy noise: the vote follows it, and Dawid-Skene believes nothing else."""
    study = draw_points_and_raters([0.65] * 4, copies=3)
    test = draw_points_and_raters([0.5], seed=1)
    truth = np.array([case.reference for case in study])
    model = fit(study, "max-mig", epochs=20)
    fused = raters.fuse(study, "max-mig", model=model).table.labels
    assert (fused == truth).mean() > 0.9
    assert (fuse(study, "vote").table.labels == truth).mean() < 0.6
    assert (fuse(study, "dawid-skene").table.labels == truth).mean() < 0.4
    assert accuracy(model, test) > 0.85 > 0.6 > accuracy(fit(study, "vote"), test)


# What is refused


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("wdn", {"weight_epochs": 0}, "found weight_epochs=0, expected"),
        ("crowd-layer", {"layer": "mw"}, "found layer=mw, expected MW, VW or VW"),
        ("agg-net", {"smoothing": 0}, "found smoothing=0, expected"),
        ("agg-net", {"trace": 0.1}, "found the option 'trace', expected none: it is trace=0.0"),
        ("max-mig", {"warm_up_on": "trace"}, "found warm_up_on=trace, expected vote or labels"),
        ("max-mig", {"likelihood": "joint"}, "found the option 'likelihood', expected none"),
    ],
)
def test_bad_options(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        learning_method(name).parse(given)


def test_one_rater_is_too_few_for_weights() -> None:
    with pytest.raises(
        RatersError, match="found 1 rater with labels, expected at least 2: wdn learns from"
    ):
        fit(draw_points_and_raters([0.9], tasks=20), "wdn")


@pytest.mark.parametrize("name", ["wdn", "agg-net", "max-mig"])
def test_no_rater_can_be_added(name: str) -> None:
    method: Method = make_crowd_method(name, "table")
    assert method.not_extended.endswith("train again")

"""Methods that draw: losses against plain loops, what they draw, and two kinds of masks found."""

from __future__ import annotations

import functools
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods import learning_method
from raters.learning.methods.base import Asked, Batch
from raters.learning.methods.draws import drawn_answers, drawn_noise
from raters.learning.methods.multi_hypothesis import winner_weights
from raters.learning.methods.phases import draw_latents
from raters.learning.methods.pionono import RaterGaussians
from raters.learning.networks.latent import Gaussian, LatentHead, gaussian_kl
from raters.learning.prediction.predict import predict_case
from raters.metrics import energy_distance
from raters.study.study import Study
from tests.support.command_line import Run
from tests.support.learning import build_method, small_task
from tests.support.makers import save
from tests.support.models import make_model

Array = NDArray[Any]
R = 3
L = 3
CASES = (4, 0, 7)
WEIGHTS = (0.5, 1.0, 2.0)
SPACE = (5, 4)
LATENT = ("prob-unet", "pionono")
SAMPLERS = ("multi-hypothesis", *LATENT)
TABLES = ("label-sampling", "multi-hypothesis")
each_weighting = pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), WEIGHTS])


def draw_mask_batch(*, dense: bool = False) -> Batch:
    """Draw masks by three raters; pixels, masks and all masks of the last case are missing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, L, (len(CASES), R, *SPACE))
    if not dense:
        labels[rng.random(labels.shape) < 0.2] = MISSING
        labels[0, 1] = labels[2] = MISSING
    image = rng.normal(size=(len(CASES), 2, *SPACE))
    batch = {"image": image, "labels": labels, "case": np.array(CASES)}
    return {name: torch.from_numpy(value) for name, value in batch.items()}


def make_answers_batch() -> Batch:
    """Make answers; rater 2 answered the first task twice, the rows are filled up by rater 0."""
    labels = [[1, 0, 2, MISSING], [0, 2, MISSING, MISSING], [MISSING] * 4]
    who = [[2, 0, 2, 0], [1, 2, 0, 0], [0] * 4]
    image = torch.from_numpy(np.random.default_rng(1).normal(size=(len(CASES), 2)))
    batch = {"labels": torch.tensor(labels), "raters": torch.tensor(who)}
    return {**batch, "image": image, "case": torch.tensor(CASES)}


BATCHES = {"masks": draw_mask_batch, "table": make_answers_batch}
each_kind = pytest.mark.parametrize("kind", BATCHES)


def make_sampling_method(name: str, kind: str = "masks", weights: Any = None, **given: Any) -> Any:
    """Make a method in float64, with weights that say something."""
    task = small_task(len(SPACE) if kind == "masks" else 0)
    method = build_method(
        name, task, given, seed=3, dtype=torch.float64, noise=0.3, class_weights=weights
    )
    method.seed = 5
    method.start_epoch(2)
    return method


def to_numpy(values: Tensor) -> Array:
    found: Array = values.detach().numpy()
    return found


def masks_and_answers(batch: Batch) -> list[tuple[int, int, list[tuple[int, tuple[int, ...]]]]]:
    """List the case, the place and the labels (class and pixel) of each mask or answer."""
    found = []
    labels = to_numpy(batch["labels"])
    for case, k in np.ndindex(*labels.shape[:2]):
        places = np.argwhere(labels[case, k] != MISSING) if labels.ndim > 2 else [()]
        told = [(int(labels[case, k, *p]), tuple(map(int, p))) for p in places]
        found.append((case, k, [(o, p) for o, p in told if o != MISSING]))
    return [row for row in found if row[2]]


def cross_entropy(log_p: Array, told: list[tuple[int, tuple[int, ...]]], weights: Any) -> float:
    """Sum over labels, one at a time; log p is `(L, *space)`."""
    return sum(-weights[o] * float(log_p[o, *place]) for o, place in told)


# Drawing a rater


@each_kind
def test_one_rater_is_drawn_of_those_who_labelled(kind: str) -> None:
    batch = BATCHES[kind]()
    labels = to_numpy(batch["labels"])
    who = batch.get("raters")
    counts = np.zeros((len(CASES), R))
    for epoch in range(600):
        chosen = to_numpy(drawn_answers(batch, R, 1, epoch))
        for case in range(len(CASES)):
            places = np.flatnonzero(chosen[case])
            people = {int(k if who is None else who[case, k]) for k in places}
            assert len(people) == (0 if case == 2 else 1)
            for person in people:
                counts[case, person] += 1
                own = range(R) if who is None else range(who.shape[1])
                for k in own:  # all answers of a rater, and no others
                    theirs = (k if who is None else int(who[case, k])) == person
                    there = (labels[case, k] != MISSING).any()
                    assert chosen[case, k] == (theirs and there)
    expected = {
        "masks": [[0.5, 0, 0.5], [1 / 3] * 3, [0] * 3],
        "table": [[0.5, 0, 0.5], [0, 0.5, 0.5], [0] * 3],
    }[kind]
    assert np.abs(counts / 600 - expected).max() < 0.08  # 4 standard errors of 0.02


@pytest.mark.parametrize("draw", [drawn_answers, lambda b, *key: drawn_noise(b["case"], *key)])
def test_draws_depend_on_seed_epoch_and_case_only(draw: Any) -> None:
    batch = draw_mask_batch(dense=True)
    whole = [draw(batch, R, 1, epoch) for epoch in range(20)]
    turned = {name: value.flip(0) for name, value in batch.items()}
    alone = {name: value[1:2] for name, value in batch.items()}
    for epoch, found in enumerate(whole):
        assert torch.equal(draw(turned, R, 1, epoch).flip(0), found)
        assert torch.equal(draw(alone, R, 1, epoch)[0], found[1])
    for other in ([draw(batch, R, 2, epoch) for epoch in range(20)], whole[1:] + whole[:1]):
        assert any(not torch.equal(a, b) for a, b in zip(whole, other, strict=True))
    assert any(not torch.equal(found[0], found[1]) for found in whole)


@pytest.mark.parametrize(
    ("name", "kind"), [*((n, "masks") for n in SAMPLERS), *((n, "table") for n in TABLES)]
)
def test_parts_of_a_batch_add_up(name: str, kind: str) -> None:
    """Several processes have parts of a batch: sums over labels must be those of the whole."""
    method = make_sampling_method(name, kind, WEIGHTS)
    batch = BATCHES[kind]()
    whole = method.step(batch)
    parts = [
        method.step({n: value[rows] for n, value in batch.items()})
        for rows in (slice(0, 1), slice(1, 3))
    ]
    assert int(whole.observed) == sum(int(part.observed) for part in parts)
    for term in whole.terms:
        total = sum((part.terms[term] * part.observed).item() for part in parts)
        assert total == pytest.approx((whole.terms[term] * whole.observed).item(), rel=1e-9)


@pytest.mark.parametrize("name", ["label-sampling", *SAMPLERS])
def test_a_batch_without_labels_teaches_nothing(name: str) -> None:
    method = make_sampling_method(name)
    batch = draw_mask_batch()
    batch["labels"] = torch.full_like(batch["labels"], MISSING)
    step = method.step(batch)
    step.loss.backward()
    assert (step.loss.item(), int(step.observed)) == (0, 0)
    assert all((p.grad is None or not p.grad.any()) for p in method.parameters())
    held = method.held_out(batch)
    assert (held.loss.item(), int(held.count)) == (0, 0)


# label-sampling


@each_kind
@each_weighting
def test_label_sampling_is_the_cross_entropy_of_one_rater(kind: str, weights: Any) -> None:
    method = make_sampling_method("label-sampling", kind, weights)
    batch = BATCHES[kind]()
    p = to_numpy(method.truth(batch["image"]).log())
    for epoch in range(4):
        method.start_epoch(epoch)
        chosen = drawn_answers(batch, R, 5, epoch)
        rows = [row for row in masks_and_answers(batch) if chosen[row[0], row[1]]]
        count = sum(len(told) for _, _, told in rows)
        total = sum(cross_entropy(p[case], told, weights) for case, _, told in rows)
        step = method.step(batch)
        assert int(step.observed) == count
        assert step.loss.item() == pytest.approx(total / count, rel=1e-9)
    rows = masks_and_answers(batch)
    held = method.held_out(batch)
    expected = sum(cross_entropy(p[case], told, [1] * L) for case, _, told in rows)
    assert held.loss.item() == pytest.approx(expected, rel=1e-9)
    assert int(held.count) == sum(len(told) for _, _, told in rows)


# multi-hypothesis


def test_winner_takes_nearly_all() -> None:
    losses = torch.tensor([[5.0, 1.0, 3.0, 2.0], [0.0, 1.0, 0.5, 9.0]])
    found = winner_weights(losses, 0.12)
    expected = [[0.04, 0.88, 0.04, 0.04], [0.88, 0.04, 0.04, 0.04]]
    assert np.allclose(found, expected)
    assert np.array_equal(winner_weights(losses, 0.0).argmax(1), [1, 0])


@each_kind
@each_weighting
def test_multi_hypothesis_against_loops(kind: str, weights: Any) -> None:
    method = make_sampling_method("multi-hypothesis", kind, weights, hypotheses=4, relaxation=0.1)
    batch = BATCHES[kind]()
    p = to_numpy(method.look(batch["image"]))
    total = 0.0
    count = 0
    wins = np.zeros(4)
    rows = masks_and_answers(batch)
    for case, _, told in rows:
        losses = [cross_entropy(p[case, k], told, weights) for k in range(4)]
        best = int(np.argmin(losses))
        wins[best] += 1
        count += len(told)
        total += sum(loss * (0.9 if k == best else 0.1 / 3) for k, loss in enumerate(losses))
    step = method.step(batch)
    assert step.loss.item() == pytest.approx(total / count, rel=1e-9)
    assert int(step.observed) == count
    assert np.array_equal(to_numpy(method.wins), wins)
    assert np.count_nonzero(wins) > 1
    shares = (wins + 1) / (wins.sum() + 4)
    held = method.held_out(batch)
    expected = -sum(
        math.log(
            sum(
                share * math.exp(-cross_entropy(p[case, k], told, [1] * L))
                for k, share in enumerate(shares)
            )
        )
        for case, _, told in rows
    )
    assert held.loss.item() == pytest.approx(expected, rel=1e-9)
    assert np.allclose(to_numpy(held.truth), np.einsum("k,bk...->b...", shares, np.exp(p)))
    method.start_epoch(3)
    assert not method.wins.any()  # of the last epoch only


def test_samples_are_hypotheses_as_often_as_they_win() -> None:
    method = make_sampling_method("multi-hypothesis", "table")
    image = make_answers_batch()["image"]
    method.wins.copy_(torch.tensor([6.0, 0.0, 1.0, 9.0]))
    p = to_numpy(method.look(image).exp())
    drawn = np.zeros(4)
    for latents in draw_latents(method, Asked(samples=800), ["a", "b", "c"]):
        for one, every in zip(to_numpy(method.sample(image, latents.double())), p, strict=True):
            [k] = [k for k in range(4) if np.allclose(one, every[k])]
            drawn[k] += 1
    assert np.abs(drawn / drawn.sum() - np.array([7, 1, 2, 10]) / 20).max() < 0.04


# Gaussians


def test_divergence_of_gaussians() -> None:
    rng = torch.Generator().manual_seed(0)
    m, n, v, s = torch.randn(4, 5, 6, generator=rng, dtype=torch.float64)
    found = to_numpy(gaussian_kl(Gaussian(m, v), Gaussian(n, s)))
    loops = np.zeros(5)
    for b, i in np.ndindex(5, 6):
        q = math.exp(v[b, i])
        p = math.exp(s[b, i])
        loops[b] += 0.5 * (math.log(p / q) + (q + float(m[b, i] - n[b, i]) ** 2) / p - 1)
    assert np.allclose(found, loops, rtol=1e-10)
    one, other = (Independent(Normal(a, (b / 2).exp()), 1) for a, b in ((m, v), (n, s)))
    assert np.allclose(found, kl_divergence(one, other), rtol=1e-10)


def test_divergence_of_raters() -> None:
    torch.manual_seed(0)
    found = RaterGaussians(3, 4).double()
    with torch.no_grad():
        found.free += 0.5 * torch.randn_like(found.free)
    prior = MultivariateNormal(torch.zeros(4).double(), torch.eye(4).double())
    own = MultivariateNormal(found.mean, scale_tril=found.factor())
    assert torch.allclose(found.kl(), kl_divergence(own, prior))
    noise = torch.randn(40_000, 4, dtype=torch.float64)
    drawn = found.at(torch.full((len(noise),), 1), noise)
    assert torch.allclose(drawn.mean(0), found.mean[1], atol=0.05)
    assert torch.allclose(drawn.T.cov(), own.covariance_matrix[1], rtol=0.1, atol=0.05)


def test_the_head_is_a_convolution_of_features_and_latent() -> None:
    torch.manual_seed(0)
    head = LatentHead(5, 2, L, 2)
    features = torch.randn(2, 5, *SPACE)
    z = torch.randn(2, 2)
    joined = torch.cat([features, z[:, :, None, None].expand(-1, -1, *SPACE)], 1)
    weight = torch.cat([head.of_features.weight[..., 0, 0], head.of_latent.weight], 1)  # type: ignore[index]
    hidden = torch.einsum("oi,bixy->boxy", weight, joined)
    hidden = head.activation(hidden + head.of_features.bias[:, None, None])  # type: ignore[index]
    expected = head.last(head.activation(head.middle(hidden)))
    assert torch.allclose(head(head.read(features), z), expected, atol=1e-5)


@pytest.mark.parametrize("size", [1e3, -1e3, 1e30, -1e30])
@pytest.mark.parametrize("which", ["prior", "posterior"])
def test_extreme_variances_stay_finite(which: str, size: float) -> None:
    method = make_sampling_method("prob-unet").float()
    batch = draw_mask_batch()
    batch["image"] = batch["image"].float()
    with torch.no_grad():
        getattr(method, which).last.bias[6:] = size  # the second half are variances
    step = method.step(batch)
    step.loss.backward()
    assert step.loss.isfinite()
    assert all(p.grad.isfinite().all() for p in method.parameters() if p.grad is not None)
    assert method.held_out(batch).loss.isfinite()
    assert method.truth(batch["image"]).isfinite().all()


@pytest.mark.parametrize("size", [1e3, -1e3, 1e30, -1e30])
def test_extreme_raters_stay_finite(size: float) -> None:
    method = make_sampling_method("pionono")
    batch = draw_mask_batch()
    with torch.no_grad():
        method.raters.free.diagonal(dim1=1, dim2=2).fill_(size)
    step = method.step(batch)
    step.loss.backward()
    assert step.loss.isfinite()
    assert all(p.grad.isfinite().all() for p in method.parameters() if p.grad is not None)
    assert method.held_out(batch).loss.isfinite()


# Losses of methods with a latent


def log_p_of(method: Any, image: Tensor, z: Tensor) -> Array:
    return to_numpy(method.head(method.head.read(method.network(image)[0]), z).log_softmax(1))


def posterior_of(method: Any, batch: Batch, case: int, rater: int) -> Gaussian:
    """Return the posterior of one mask; its classes are written pixel by pixel."""
    told = np.zeros((L, *SPACE))
    for place in np.ndindex(SPACE):
        o = int(batch["labels"][case, rater, *place])
        if o != MISSING:
            told[o, *place] = 1
    both = np.concatenate([to_numpy(batch["image"][case]), told])
    found: Gaussian = method.posterior(torch.from_numpy(both)[None])
    return found


def latent_of(name: str, method: Any, batch: Batch, case: int, rater: int) -> tuple[Any, float]:
    """Return a function of noise to latents, and the divergence, of one mask."""
    if name == "pionono":
        who = torch.tensor([rater])
        return lambda noise: method.raters.at(who, noise[None]), method.raters.kl()[rater].item()
    posterior = posterior_of(method, batch, case, rater)
    prior = method.prior(batch["image"][case : case + 1])
    return lambda noise: posterior.at(noise[None]), gaussian_kl(posterior, prior).item()


@pytest.mark.parametrize("name", LATENT)
@each_weighting
def test_evidence_against_loops(name: str, weights: Any) -> None:
    method = make_sampling_method(name, weights=weights, beta=0.7, latent_size=4)
    batch = draw_mask_batch()
    chosen = drawn_answers(batch, R, 5, 2)
    noise = drawn_noise(batch["case"], 4, 5, 2).double()
    total = 0.0
    divergence = 0.0
    count = 0
    for case, rater, told in masks_and_answers(batch):
        if chosen[case, rater]:
            at, kl = latent_of(name, method, batch, case, rater)
            p = log_p_of(method, batch["image"][case : case + 1], at(noise[case]))[0]
            total += cross_entropy(p, told, weights)
            divergence += kl
            count += len(told)
    step = method.step(batch)
    assert int(step.observed) == count
    assert step.loss.item() == pytest.approx((total + 0.7 * divergence) / count, rel=1e-9)
    assert step.terms["kl"].item() == pytest.approx(divergence / count, rel=1e-9)
    assert step.terms["reconstruction"].item() == pytest.approx(total / count, rel=1e-9)


@pytest.mark.parametrize("name", LATENT)
def test_both_terms_are_sums_over_an_image(name: str) -> None:
    """Divided by pixels it is the mean over images of `sum CE + beta KL`, up to that factor."""
    method = make_sampling_method(name, beta=3.0)
    batch = draw_mask_batch(dense=True)
    chosen = drawn_answers(batch, R, 5, 2).long().argmax(1)
    noise = drawn_noise(batch["case"], 6, 5, 2).double()
    images = []
    for case, rater in enumerate(chosen.tolist()):
        at, kl = latent_of(name, method, batch, case, rater)
        p = log_p_of(method, batch["image"][case : case + 1], at(noise[case]))[0]
        labels = to_numpy(batch["labels"][case, rater])
        told = [(int(labels[place]), place) for place in np.ndindex(SPACE)]
        images.append(cross_entropy(p, told, [1] * L) + 3.0 * kl)
    expected = np.mean(images) / math.prod(SPACE)
    assert method.step(batch).loss.item() == pytest.approx(expected, rel=1e-9)


def test_held_out_evidence_of_all_masks() -> None:
    method = make_sampling_method("prob-unet", beta=9.0)
    batch = draw_mask_batch()
    expected = 0.0
    rows = masks_and_answers(batch)
    for case, rater, told in rows:
        at, kl = latent_of("prob-unet", method, batch, case, rater)
        p = log_p_of(method, batch["image"][case : case + 1], at(method.noise[rater]))[0]
        expected += cross_entropy(p, told, [1] * L) + kl  # beta is 1 here
    held = method.held_out(batch)
    assert held.loss.item() == pytest.approx(expected, rel=1e-9)
    assert int(held.count) == sum(len(told) for _, _, told in rows)


def test_held_out_likelihood_of_raters() -> None:
    method = make_sampling_method("pionono")
    batch = draw_mask_batch()
    expected = 0.0
    for case, rater, told in masks_and_answers(batch):
        at, _ = latent_of("pionono", method, batch, case, rater)
        image = batch["image"][case : case + 1]
        every = [log_p_of(method, image, at(noise))[0] for noise in method.noise]
        expected -= math.log(np.mean([math.exp(-cross_entropy(p, told, [1] * L)) for p in every]))
    assert method.held_out(batch).loss.item() == pytest.approx(expected, rel=1e-9)


def test_what_the_truth_is_a_mean_of() -> None:
    image = draw_mask_batch()["image"]
    one = make_sampling_method("prob-unet")
    prior = one.prior(image)
    draws = [log_p_of(one, image, prior.at(noise.expand(len(image), -1))) for noise in one.noise]
    assert np.allclose(to_numpy(one.truth(image)), np.mean(np.exp(draws), 0))
    assert len(draws) == 16
    two = make_sampling_method("pionono")
    two.labelled.copy_(torch.tensor([True, False, True]))
    own = [to_numpy(two.as_rater(image, rater)) for rater in range(R)]
    assert np.allclose(to_numpy(two.truth(image)), (own[0] + own[2]) / 2)
    told = [
        log_p_of(two, image, two.raters.at(torch.tensor([2]), noise[None])) for noise in two.noise
    ]
    assert np.allclose(own[2], np.mean(np.exp(told), 0))
    for latents in draw_latents(two, Asked(samples=30), ["x"]):  # raters without labels: never
        z = two.raters.at(torch.tensor([0, 2]), latents[:, 1:].double().expand(2, -1))
        sample = to_numpy(two.sample(image[:1], latents.double()))
        own = [log_p_of(two, image[:1], z[k : k + 1]) for k in range(2)]
        assert any(np.allclose(sample, np.exp(p)) for p in own)


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_look_says_all_of_it(name: str) -> None:
    method = make_sampling_method(name)
    image = draw_mask_batch()["image"]
    asked = Asked(("b",) if name == "pionono" else (), samples=2, seed=3)
    latents = [noise.double() for noise in draw_latents(method, asked, ["x", "y", "z"])]
    looks = 0

    def count(*_: Any) -> None:
        nonlocal looks
        looks += 1

    method.network.register_forward_hook(count)
    found = method.maps(image, asked, latents)
    assert looks == 1
    assert torch.allclose(found["truth"], method.truth(image))
    for k in range(2):
        assert torch.allclose(found[f"sample:{k}"], method.sample(image, latents[k]))
    if name == "pionono":
        assert torch.allclose(found["as:b"], method.as_rater(image, 1))


# Two kinds of masks


def draw_two_kinds_of_raters(kind: str, cases: int, seed: int) -> Study:
    """Draw discs that two raters outline too small (or not at all), and two too large.

    Nothing in an image says which: a network that gives one mask must miss one half of them.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:16, :16]
    images = []
    labels = []
    for _ in range(cases):
        centre = rng.integers(6, 10, 2)
        distance = np.hypot(rows - centre[0], columns - centre[1])
        images.append((distance < 4.5) + rng.normal(0, 0.1, distance.shape))
        small = distance < (2.5 if kind == "size" else 0)
        labels.append([small, distance < 5.5] * 2)
    return Study.from_arrays(
        np.array(images)[:, None].astype("f"), np.array(labels).astype(int), raters=list("abcd")
    )


def fit_method(method: str, study: Study, **more: Any) -> raters.Model:
    options = {"epochs": 30, "batch_size": 8, "width": 8, "depth": 2, "lr": 1e-2}
    options |= {"val_fraction": 0.0, "augment": "none", "progress": False}
    return raters.fit(study, method, **{**options, **more})


def mean_ged(model: raters.Model, test: Study) -> float:
    """Return the energy distance (V form, 1 - IoU) of 16 samples, or of the one mask there is."""
    found = []
    for case in test:
        drawn = model.samples(case, 16).argmax(1) if "samples" in model.method.answers else None
        masks = model.predict(case)[None] if drawn is None else drawn
        found.append(energy_distance(case.labels, masks))
    return float(np.mean(found))


@functools.cache
def ged_of_mean(kind: str) -> float:
    return mean_ged(
        fit_method("mean", draw_two_kinds_of_raters(kind, 24, 0)),
        draw_two_kinds_of_raters(kind, 6, 1),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), list(product(SAMPLERS, ("size", "absent"))))
def test_both_kinds_of_masks_are_drawn(name: str, kind: str) -> None:
    test = draw_two_kinds_of_raters(kind, 6, 1)
    model = fit_method(name, draw_two_kinds_of_raters(kind, 24, 0))
    assert mean_ged(model, test) < ged_of_mean(kind) / 3
    small = []
    large = []
    for case in test:
        sizes = model.samples(case, 16).argmax(1).sum((1, 2))
        few, many = np.sort(case.labels.sum((1, 2)))[[0, -1]]
        small.append(np.abs(sizes - few) <= 0.3 * many)
        large.append(np.abs(sizes - many) <= 0.3 * many)
    assert min(np.mean(small), np.mean(large)) > 0.15  # both kinds
    assert np.mean(np.logical_or(small, large)) > 0.85  # and little between
    if name == "pionono":
        for case in test:
            told = [model.as_rater(case, rater).argmax(0) for rater in "abcd"]
            for mask, own, other in zip(told, case.labels, case.labels[[1, 0, 1, 0]], strict=True):
                assert np.abs(mask - own).sum() < 0.4 * np.abs(mask - other).sum()


def test_label_sampling_learns_the_share_of_raters() -> None:
    """It is the mean label in the end: half where half of the raters drew."""
    model = fit_method("label-sampling", draw_two_kinds_of_raters("size", 24, 0))
    for case in draw_two_kinds_of_raters("size", 4, 1):
        p = model.truth(case)[1]
        share = case.labels.mean(0)
        assert np.abs(p[share == 0.5].mean() - 0.5) < 0.12
        assert p[share == 1].mean() > 0.85
        assert p[share == 0].mean() < 0.05


# Studies and commands


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("multi-hypothesis", {"hypotheses": 0}, "found hypotheses=0, expected 2 or more"),
        ("multi-hypothesis", {"hypotheses": 1}, "found hypotheses=1, expected 2 or more"),
        ("multi-hypothesis", {"relaxation": 1.0}, "found relaxation=1.0, expected less than 1"),
        ("prob-unet", {"latent_size": 0}, "found latent_size=0, expected 1 or more"),
        ("pionono", {"latent_size": 0}, "found latent_size=0, expected 1 or more"),
        ("prob-unet", {"beta": -1.0}, "found beta=-1.0, expected 0 or more"),
        ("label-sampling", {"beta": 1.0}, "found the unknown key 'beta'"),
    ],
)
def test_options_that_cannot_be(name: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(RatersError, match=words):
        learning_method(name).parse(given)


def test_studies_that_do_not_fit() -> None:
    alone = draw_two_kinds_of_raters("size", 4, 0).select(raters=["a"])
    with pytest.raises(
        RatersError, match="found 1 rater with labels, expected at least 2: pionono learns"
    ):
        fit_method("pionono", alone)
    table = Study.from_arrays(np.eye(4), np.array([[0, 1], [1, 1], [0, 0], [1, 0]]))
    for name in LATENT:
        with pytest.raises(RatersError, match=f"found class labels, expected masks: {name} takes"):
            raters.fit(table, name, progress=False)


@pytest.mark.parametrize("name", ["label-sampling", "multi-hypothesis", "prob-unet"])
def test_one_rater_is_enough(name: str) -> None:
    model = fit_method(
        name,
        draw_two_kinds_of_raters("size", 4, 0).select(raters=["b"]),
        epochs=2,
        val_fraction=0.25,
    )
    assert np.isfinite([row["held_out"] for row in model.history]).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_patches_of_volumes(name: str) -> None:
    """All windows share a sample's noise; where the prior sees a window it is the window's."""
    model = make_model(name, spatial_dims=3, patch_size=(8, 8, 8), norm="none")
    image = np.random.default_rng(0).normal(size=(1, 12, 9, 8)).astype("f")
    first, second = (predict_case(model, image, Asked(samples=n)).samples for n in (1, 2))
    assert np.array_equal(first[0], second[0])
    assert second[0].shape == (2, 12, 9, 8)
    assert np.allclose(second[0].sum(0), 1, atol=1e-5)
    [noise] = draw_latents(model.method, Asked(samples=1), [""])
    with torch.inference_mode():
        corner = model.method.sample(model.pixels(image)[None, :, :4, :8, :8], noise)
    assert corner.shape == (1, 2, 4, 8, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_from_training_to_the_report(
    name: str, tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw_two_kinds_of_raters("size", 6, 0)
    for case in drawn:
        grey = (np.asarray(case.image)[0] * 100 + 60).clip(0, 255).astype(np.uint8)
        save(tmp_path / "images" / f"c{case.id}.png", grey)
        for rater, mask in zip("ab", case.labels, strict=False):
            save(tmp_path / "masks" / rater / f"c{case.id}.png", mask.astype(np.uint8))
    monkeypatch.chdir(tmp_path)
    study = ["masks/{rater}/{case}.png", "--images", "images/{case}.png"]
    small = ["--epochs", "1", "--width", "2", "--depth", "2", "--batch-size", "3"]
    said = [
        run_raters("train", *study, "-m", name, "-o", "run", *small),
        run_raters("predict", "run", "images/{case}.png", "-o", "out", "--samples", "3"),
        run_raters("evaluate", "run", *study, "--samples", "3", "-o", "scores"),
        run_raters("evaluate", "out", *study, "-o", "more"),
        run_raters("report", "run", "-o", "report"),
    ]
    assert [each.code for each in said] == [0] * 5, [each.err for each in said]
    assert len(list(Path("out/sample-2").glob("*.png"))) == 6
    for folder in ("scores", "more"):
        table = Path(folder, "variability.csv").read_text().splitlines()
        row = dict(zip(table[0].split(","), table[1].split(","), strict=True))
        assert row["samples"] == "3"
        assert 0 <= float(row["ged"]) <= 2
    page = next(Path("report").glob("*.html")).read_text()
    assert name in page
    assert Path("report/figures/samples.svg").exists()
    assert "sample 4" in page and "what 2 raters drew" in page

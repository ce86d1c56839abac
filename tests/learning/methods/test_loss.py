"""The loss that methods train on, and what held-out batches give, against slow loops.

The loops take what the networks give (logits of the truth, outputs of heads, free numbers of
matrices) and compose everything else from the formulas, in float64 and without torch.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.learning.methods.base import Batch, Method, Step
from raters.learning.methods.confusion_method import ConfusionMethod
from raters.learning.methods.global_cm import OracleCM
from raters.learning.methods.registry import learning_method
from raters.learning.methods.targets import mean_label
from raters.learning.rater_models import GlobalRaters, LowRankRaters, PixelRaters, ProductRaters
from raters.study.study import Study
from tests.support.learning import build_method, small_task, softmax

Array = NDArray[np.float64]
R = 3
L = 3
CASES = 3
START = 0.8  # the diagonal of matrices at the start
WEIGHTS = (0.5, 3.0, 1.2)
EVEN = (1.0, 1.0, 1.0)
WHICH = (4, 0, 2)  # the cases of the batch, in a study of five

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "global": ("global-cm", {}),
    "global, softplus": ("global-cm", {"positivity": "softplus"}),
    "global, paper": ("global-cm", {"form": "paper"}),
    "single": ("single-cm", {}),
    "single, vote": ("single-cm", {"on": "vote"}),
    "single, paper": ("single-cm", {"form": "paper"}),
    "pixel": ("pixel-cm", {"prior": 0.7}),
    "pixel, identity": ("pixel-cm", {"prior": 0.7, "prior_to": "identity"}),
    "pixel, free": ("pixel-cm", {"prior": 0.0}),
    "pixel, shared": ("pixel-cm", {"prior": 0.7, "shared": True}),
    "pixel, paper": ("pixel-cm", {"form": "paper"}),
    "low rank": ("low-rank-cm", {"rank": 2}),
    "low rank, shared": ("low-rank-cm", {"shared": True}),
    "low rank, product": ("low-rank-cm", {"factors": "product", "rank": 2}),
    "low rank, paper": ("low-rank-cm", {"form": "paper"}),
    "oracle": ("oracle-cm", {}),
    "oracle, rater": ("oracle-cm", {"by": "rater"}),
}
KNOWN = ("oracle", "oracle, rater")
VARIANTS = tuple(name for name in METHODS if name.endswith(("softplus", "paper", "free", "rater")))
SPACES = {"mask": (4, 4), "table": ()}
ABSENT = ["nothing", "raters", "pixels", "all but one", "a case", "everything"]

every_method = pytest.mark.parametrize("name", METHODS)
learnt_methods = pytest.mark.parametrize("name", [name for name in METHODS if name not in KNOWN])
every_space = pytest.mark.parametrize("space", SPACES)


# Batches and methods: the only part that knows how they are made


def draw_some_labels(space: str, absent: str = "nothing") -> NDArray[np.int64]:
    """Draw labels `(cases, raters, *space)` of which some are missing."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, L, (CASES, R, *SPACES[space]))
    gone = np.zeros(labels.shape, bool)
    if absent == "raters":  # one rater labels one case only
        gone[0, 1] = gone[2, 1] = gone[1, 0] = True
    elif absent == "pixels":
        gone = rng.random(labels.shape) < 0.4
    elif absent == "all but one":
        gone[:] = True
        gone[range(CASES), [2, 0, 2]] = False
    elif absent == "a case":
        gone[1] = True
    elif absent == "everything":
        gone[:] = True
    labels[gone] = MISSING
    return labels


def make_batch(labels: NDArray[np.int64], *, answers: bool = False, seed: int = 2) -> Batch:
    """Make a batch with images; `answers` lists who gave each label, one rater twice."""
    rng = np.random.default_rng(seed)
    image = rng.normal(size=(len(labels), 2, *labels.shape[2:]))
    batch = {
        "image": torch.from_numpy(image),
        "labels": torch.from_numpy(labels),
        "case": torch.tensor(WHICH),
    }
    if not answers:
        return batch
    who = np.array([[2, 0, 2, 1], [1, 1, 0, 0], [0, 2, 1, 0]])  # filled up by rater 0
    listed = np.full(who.shape, MISSING)
    listed[:, :R] = labels
    return {**batch, "labels": torch.from_numpy(listed), "raters": torch.from_numpy(who)}


def make_noisy_method(name: str, space: str, **given: Any) -> Method:
    """Make a method in float64, with weights that say something."""
    task = small_task(len(SPACES[space]))
    method: Method = build_method(name, task, given, seed=3, dtype=torch.float64, noise=0.4)
    return method


@functools.cache
def confusion_method(name: str, space: str) -> ConfusionMethod:
    """Make one of `METHODS`; own matrices have followed something, but for one row of one rater."""
    method_name, given = METHODS[name]
    start = {} if method_name == "oracle-cm" else {"init_accuracy": START}
    method = make_noisy_method(method_name, space, **given, **start)
    assert isinstance(method, ConfusionMethod)
    if isinstance(method, OracleCM):
        method.prepare(known_study(space))
        method.double()
    if isinstance(method.raters, PixelRaters) and method.raters.own is not None:
        sums = np.random.default_rng(4).random(method.raters.own.sums.shape)
        sums[0, 1] = 0
        method.raters.own.sums.copy_(torch.from_numpy(sums))
    return method


@functools.cache
def known_study(space: str) -> Study:
    """Make five cases with references, of which one lacks a class; labels are missing here too."""
    rng = np.random.default_rng(5)
    shape = SPACES[space]
    reference = rng.integers(0, L, (5, *shape))
    if shape:
        reference[2][reference[2] == 1] = 0
    noise = rng.random((5, R, *shape))
    labels = np.where(noise < 0.3, rng.integers(0, L, noise.shape), reference[:, None])
    labels[noise > 0.9] = MISSING
    images = np.zeros((5, 2, *shape), np.float32)
    return Study.from_arrays(images, labels, reference=reference)


def set_options(method: ConfusionMethod, name: str, **given: Any) -> None:
    """Set other options of a method, which it reads at each step."""
    method_name, own = METHODS[name]
    start = {} if method_name == "oracle-cm" else {"init_accuracy": START}
    method.options = learning_method(method_name).parse({**own, **start, **given})


# The formulas


@dataclass(frozen=True)
class Scene:
    """What a loss is composed of.

    Attributes:
        truth: `p(t | x)`, `(cases, pixels, L)`.
        matrices: `C_r[t, o]`, `(cases, raters or 1, pixels, L, L)`.
        labels: `(cases, answers, pixels)`.
        who: The rater of each answer, `(cases, answers)`.
        rows: The truth that weighs rows: it gets no gradient.
    """

    truth: Array
    matrices: Array
    labels: NDArray[np.int64]
    who: NDArray[np.int64]
    rows: Array

    def answers(self) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """Go through the pixels: case, pixel, and the (matrix, label) of each label there is."""
        cases, number, pixels = self.labels.shape
        shared = self.matrices.shape[1] == 1
        for b, x in itertools.product(range(cases), range(pixels)):
            yield (
                b,
                x,
                [
                    (0 if shared else int(self.who[b, k]), int(self.labels[b, k, x]))
                    for k in range(number)
                    if self.labels[b, k, x] != MISSING
                ],
            )

    @property
    def count(self) -> int:
        return int((self.labels != MISSING).sum())


def log_likelihood(scene: Scene, form: str, weights: tuple[float, ...] = EVEN) -> float:
    """Sum the log-likelihood over pixels, each with the mean weight of the labels given to it."""
    total = 0.0
    for b, x, answers in scene.answers():
        if not answers:
            continue
        truth = scene.truth[b, x]
        matrices = scene.matrices[b, :, x]
        weight = sum(weights[o] for _, o in answers) / len(answers)
        if form == "joint":
            joint = sum(
                truth[t] * math.prod(matrices[r, t, o] for r, o in answers) for t in range(L)
            )
            total += weight * math.log(joint)
        else:
            for r, o in answers:
                total += weight * math.log(sum(truth[t] * matrices[r, t, o] for t in range(L)))
    return total


def trace(scene: Scene, over: str) -> float:
    """Average the trace over labels; in the listing over all raters, by labels of an image."""
    n = max(scene.count, 1)
    if over == "listing":
        cases, _, pixels = scene.labels.shape
        by_rater = [np.trace(matrix) for matrix in scene.matrices[0, :, 0]]
        return float(np.mean(by_rater)) / (n / (cases * pixels))
    total = 0.0
    for b, x, answers in scene.answers():
        for r, _ in answers:
            for t in range(L):
                weight = scene.rows[b, x, t] if over == "truth" else 1.0
                total += weight * scene.matrices[b, r, x, t, t]
    return total / n


def divergence(scene: Scene, common: Array) -> float:
    """Average `sum_t p(t) KL(C[t] || P[t])` over labels."""
    total = 0.0
    for b, x, answers in scene.answers():
        for r, _ in answers:
            matrix = scene.matrices[b, r, x]
            wanted = common[r]
            for t, o in itertools.product(range(L), range(L)):
                ratio = math.log(matrix[t, o] / wanted[t, o])
                total += scene.rows[b, x, t] * matrix[t, o] * ratio
    return total / max(scene.count, 1)


def sum_matrices(scene: Scene) -> Array:
    """Sum each rater's matrices over labelled pixels, by truth and by how far raters disagree."""
    total = np.zeros((scene.matrices.shape[1], L, L))
    for b, x, answers in scene.answers():
        if answers:
            every = scene.truth[b, x][None, :, None] * scene.matrices[b, :, x]
            said = every.sum(1).mean(0)
            total += (1 - sum(s * s for s in said)) * every
    return total


def vote(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Take the class with most labels along the second axis, the first of several."""
    found = np.full((len(labels), *labels.shape[2:]), MISSING)
    for place in np.ndindex(found.shape):
        given = [int(o) for o in labels[(place[0], slice(None), *place[1:])] if o != MISSING]
        if given:
            found[place] = max(range(L), key=lambda c: (given.count(c), -c))
    return found


def cross_entropy(truth: Array, target: NDArray[Any], weights: tuple[float, ...]) -> float:
    """Sum the cross entropy of `(cases, pixels, L)` with classes, or with shares of them."""
    total = 0.0
    for b, x in np.ndindex(truth.shape[:2]):
        for t in range(L):
            share = target[b, x, t] if target.ndim == 3 else float(target[b, x] == t)
            if share:
                total -= weights[t] * share * math.log(truth[b, x, t])
    return total


# What networks and free numbers give, as arrays


def make_rows(values: Array, positivity: str) -> Array:
    """Make numbers positive, and rows sum to one."""
    if positivity == "softmax":
        return softmax(values)
    positive = np.logaddexp(values, 0)
    return cast(Array, positive / positive.sum(-1, keepdims=True))


def by_pixel(values: torch.Tensor) -> Array:
    """Turn `(cases, channels, *space)` into `(cases, pixels, channels)`."""
    flat = values.detach().reshape(*values.shape[:2], -1)
    return flat.transpose(1, 2).numpy()


def start_matrix(method: ConfusionMethod) -> Array:
    """Return the matrix that all raters start with."""
    options = method.options
    if getattr(options, "start", "accuracy") == "listing":
        return make_rows(6 * np.eye(L) - 5, "softplus")
    if isinstance(method.raters, LowRankRaters):
        share = (1 - START) / (1 - 1 / L)
        rank = options.rank  # type: ignore[attr-defined]
        errors = softmax(np.array([[float(o % rank == k) for o in range(L)] for k in range(rank)]))
        return cast(Array, (1 - share) * np.eye(L) + share * errors.mean(0))
    return np.full((L, L), (1 - START) / (L - 1)) + (START - (1 - START) / (L - 1)) * np.eye(L)


def known_matrices(space: str, each: bool) -> Array:
    """Count the oracle's matrices of the batch, `(cases, raters, L, L)`, no entry below 1e-4."""
    study = known_study(space)
    counts = np.zeros((len(study), R, L, L))
    for n, case in enumerate(study.iter_cases()):
        if space == "table":
            pairs = zip(case.answers.rater, case.answers.label, strict=True)
            for r, o in pairs:
                counts[n, r, int(case.reference), o] += 1  # type: ignore[arg-type]
        else:
            for place in np.ndindex(case.labels.shape):
                if case.labels[place] != MISSING:
                    t = case.reference[place[1:]]  # type: ignore[index]
                    counts[n, place[0], t, case.labels[place]] += 1

    def shares(counts: Array, unseen: Array) -> Array:
        total = counts.sum(-1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1), unseen)

    mean = shares(counts.sum(0), np.full((L, L), 1 / L))
    found = shares(counts, mean) if each else np.broadcast_to(mean, counts.shape)
    kept = np.maximum(found, 1e-4)
    return cast(Array, (kept / kept.sum(-1, keepdims=True))[list(WHICH)])


def learnt_matrices(method: ConfusionMethod, batch: Batch, space: str) -> Array:
    """Return `(cases, raters or 1, pixels, L, L)` of a model's free numbers, or of its outputs."""
    model = method.raters
    options = cast(Any, method.options)
    cases = len(batch["image"])
    pixels = math.prod(SPACES[space])
    if isinstance(method, OracleCM):
        found = known_matrices(space, each=options.by == "case" and space == "mask")
        return np.repeat(found[:, :, None], pixels, 2)
    if isinstance(model, GlobalRaters):
        found = make_rows(model.logits.detach().numpy(), options.positivity)
        shape = (cases, len(found), pixels, L, L)
        return np.broadcast_to(found[None, :, None], shape)
    assert isinstance(model, PixelRaters | LowRankRaters | ProductRaters)
    own = options.annotator == "cnn"
    assert own == (model.network is not None)
    features = (model.network if own else method.network)(batch["image"])[0]  # type: ignore[misc]
    output = by_pixel(model.head(features))
    raters = 1 if getattr(options, "shared", False) else R
    if isinstance(model, PixelRaters):
        free = output.reshape(cases, pixels, raters, L, L).swapaxes(1, 2)
        return make_rows(free, options.positivity)
    rank = options.rank
    if isinstance(model, ProductRaters):
        factors = output.reshape(cases, pixels, raters, 2, L, rank).swapaxes(1, 2)
        positive = np.exp(factors) if options.positivity == "softmax" else np.logaddexp(factors, 0)
        whole = np.einsum("...ok,...tk->...to", positive[..., 0, :, :], positive[..., 1, :, :])
        return cast(Array, whole / whole.sum(-1, keepdims=True))
    sizes = np.cumsum([raters * L, raters * L * rank])
    share, mixture, errors = np.split(output, sizes, axis=2)
    a = 1 / (1 + np.exp(-share.reshape(cases, pixels, raters, L, 1)))
    u = softmax(mixture.reshape(cases, pixels, raters, L, rank))
    v = softmax(errors.reshape(cases, pixels, raters, rank, L))
    return ((1 - a) * np.eye(L) + a * (u @ v)).swapaxes(1, 2)


def scene_of(method: ConfusionMethod, batch: Batch, space: str, held: bool = False) -> Scene:
    """Gather what the loss of a batch is made of; the vote instead of labels, if that is seen."""
    truth = softmax(by_pixel(method.network(batch["image"])[1]))
    labels = batch["labels"].numpy()
    who = batch.get("raters")
    if getattr(method.options, "on", "labels") == "vote":
        labels = vote(labels)[:, None]
        who = None
    labels = labels.reshape(*labels.shape[:2], -1)
    whose = np.tile(np.arange(labels.shape[1]), (len(labels), 1)) if who is None else who.numpy()
    matrices = learnt_matrices(method, batch, space)
    if held and not isinstance(method.raters, ProductRaters):  # these are only without a gradient
        matrices = np.broadcast_to(start_matrix(method), (len(truth), 1, truth.shape[1], L, L))
    return Scene(truth, matrices, labels, whose, truth)


def common_of(method: ConfusionMethod) -> Array | None:
    """Return the matrices that those at pixels are drawn to, one per rater (or the one of all)."""
    model = method.raters
    if not isinstance(model, PixelRaters) or not method.prior:
        return None
    start = np.tile(start_matrix(method), (model.raters, 1, 1))
    if model.own is None:
        return start
    sums = model.own.sums.numpy()
    total = sums.sum(-1, keepdims=True)
    mean = np.where(total > 0, sums / np.where(total > 0, total, 1), start)
    return cast(Array, 0.9 * mean + 0.1 * start)


def make_batches(space: str, name: str = "global") -> Iterator[tuple[str, Batch]]:
    """Make batches with all kinds of missing labels; tables list who gave each, or need not.

    Which labels are missing is no matter for how matrices are parametrised: variants get two.
    """
    for absent in ABSENT if name not in VARIANTS else ("pixels", "a case"):
        yield absent, make_batch(draw_some_labels(space, absent), answers=space == "table")
    if space == "table":
        yield "pixels, by the order of raters", make_batch(draw_some_labels(space, "pixels"))


def bring_to(method: Method, epoch: int = 0, weighted: bool = False) -> None:
    """Bring a method to an epoch, with weights of classes or without."""
    method.class_weights.copy_(torch.tensor(WEIGHTS if weighted else EVEN, dtype=torch.float64))
    if not method.training:
        method.train()
    method.start_epoch(epoch)


def regularisers(name: str) -> list[dict[str, Any]]:
    """Return every choice of the trace's weight and rows, and of the prior's weight."""
    if name in KNOWN:
        return [{}]
    overs = (
        ("truth", "all", "listing") if name.startswith(("global", "single")) else ("truth", "all")
    )
    drawn = bool(METHODS[name][1].get("prior"))
    return [
        {"trace": weight, "trace_over": over, "warm_up": 0} | ({"prior": prior} if drawn else {})
        for (weight, prior), over in itertools.product(((0.0, 0.7), (0.3, 0.2)), overs)
    ]


def agree(step: Step, loss: float, terms: dict[str, float], count: int, where: str = "") -> None:
    """Compare a step with what loops gave; where matrices start is known in float32."""
    found = {name: value.item() for name, value in step.terms.items()}
    assert found.keys() == terms.keys(), where
    expected = {"total": loss, **terms}
    found = {"total": step.loss.item(), **found}
    for name, value in expected.items():
        assert math.isclose(found[name], value, rel_tol=1e-6, abs_tol=1e-12), (where, name)
    assert int(step.observed) == count, where


@every_space
@every_method
def test_loss_is_likelihood_trace_and_prior(name: str, space: str) -> None:
    """Every form, regulariser and weight, whichever labels are missing."""
    method = confusion_method(name, space)
    own = method.raters.own if isinstance(method.raters, PixelRaters) else None
    before = None if own is None else own.sums.clone()
    for absent, batch in make_batches(space, name):
        set_options(method, name)
        scene = scene_of(method, batch, space)
        common = common_of(method)
        traces = {over: trace(scene, over) for over in ("truth", "all", "listing")}
        terms = {} if common is None else {"prior": divergence(scene, common)}
        after = torch.from_numpy(sum_matrices(scene))
        for form, weighted in itertools.product(("joint", "marginal"), (False, True)):
            weights = WEIGHTS if weighted else EVEN
            nll = -log_likelihood(scene, form, weights) / max(scene.count, 1)
            for given in regularisers(name):
                set_options(method, name, likelihood=form, **given)
                bring_to(method, weighted=weighted)
                with torch.no_grad():
                    step = method.step(batch)
                terms = {**terms, "loss": nll, "trace": traces[given.get("trace_over", "truth")]}
                loss = nll + sum(given.get(k, 0.0) * terms.get(k, 0.0) for k in ("trace", "prior"))
                agree(step, loss, terms, scene.count, f"{absent}, {form}, {weighted}, {given}")
                if own is not None and before is not None:
                    torch.testing.assert_close(own.sums, 0.95 * before + after)
                    own.sums.copy_(before)


@every_space
@learnt_methods
def test_loss_of_the_warm_up(name: str, space: str) -> None:
    """Matrices at their start see labels, the vote is learnt, or the trace alone."""
    method = confusion_method(name, space)
    regularised = regularisers(name)[-1]
    own = method.raters.own if isinstance(method.raters, PixelRaters) else None
    before = None if own is None else own.sums.clone()
    for (absent, batch), weighted in itertools.product(make_batches(space, name), (False, True)):
        weights = WEIGHTS if weighted else EVEN
        where = f"{absent}, {weighted}"
        set_options(method, name)
        scene = scene_of(method, batch, space, held=True)
        for form in ("joint", "marginal"):
            given = {**regularised, "likelihood": form, "warm_up": 2, "warm_up_on": "labels"}
            set_options(method, name, **given)
            bring_to(method, epoch=1, weighted=weighted)
            nll = -log_likelihood(scene, form, weights) / max(scene.count, 1)
            agree(method.step(batch), nll, {"loss": nll}, scene.count, where)
        target = vote(scene.labels)
        known = int((target != MISSING).sum())
        entropy = cross_entropy(scene.truth, target, weights) / max(known, 1)
        for on in ("vote", None):
            set_options(method, name, **regularised | {"warm_up": 2, "warm_up_on": on})
            bring_to(method, epoch=1, weighted=weighted)
            agree(method.step(batch), entropy, {"loss": entropy}, known, where)
        set_options(method, name, **regularised | {"warm_up": 2, "warm_up_on": "trace"})
        bring_to(method, epoch=1, weighted=weighted)
        mean = mean_trace(scene_of(method, batch, space))
        agree(method.step(batch), -mean, {"loss": -mean, "trace": mean}, scene.count, where)
    if own is not None:
        assert torch.equal(own.sums, cast(torch.Tensor, before))  # nothing is followed meanwhile


def mean_trace(scene: Scene) -> float:
    """Average the trace over all answers there is room for, labelled or not."""
    shared = scene.matrices.shape[1] == 1
    traces = [
        np.trace(scene.matrices[b, 0 if shared else scene.who[b, k], x])
        for b, k, x in np.ndindex(scene.labels.shape)
    ]
    return float(np.mean(traces))


@every_space
@every_method
def test_held_out_batches(name: str, space: str) -> None:
    """Sums without regularisers and weights, of learnt matrices also in the warm-up."""
    method = confusion_method(name, space)
    for (absent, batch), form in itertools.product(
        make_batches(space, name), ("joint", "marginal")
    ):
        warm = {} if name in KNOWN else {**regularisers(name)[-1], "warm_up": 2}
        set_options(method, name, likelihood=form, **warm)
        bring_to(method, epoch=1, weighted=True)
        method.eval()
        with torch.no_grad():
            found = method.held_out(batch)
        scene = scene_of(method, batch, space)
        where = f"{absent}, {form}"
        assert found.loss.item() == pytest.approx(-log_likelihood(scene, form), rel=1e-6), where
        assert int(found.count) == scene.count, where
        np.testing.assert_allclose(by_pixel(found.truth), scene.truth, rtol=1e-9)
        np.testing.assert_allclose(found.pixels, scene.truth.sum((0, 1)), rtol=1e-9)
        expected = np.zeros((scene.matrices.shape[1], L, L))
        for b, r, x, t in np.ndindex(scene.matrices.shape[:4]):
            expected[r, t] += scene.truth[b, x, t] * scene.matrices[b, r, x, t]
        np.testing.assert_allclose(found.confusion, expected, rtol=1e-6)


@every_space
@every_method
def test_what_a_rater_would_say_is_the_truth_through_their_matrices(name: str, space: str) -> None:
    """Also during the warm-up; of new images the oracle knows no more than the raters' means."""
    method = confusion_method(name, space)
    set_options(method, name)
    bring_to(method)
    method.eval()
    batch = make_batch(draw_some_labels(space))
    with torch.no_grad():
        said = [by_pixel(method.as_rater(batch["image"], rater)) for rater in range(R)]
        found = method.confusion(batch["image"]).numpy()
    dims = len(SPACES[space])
    assert found.ndim == 4 + dims and found.shape[1:4] == (R, L, L)
    scene = scene_of(method, batch, space)
    matrices = np.broadcast_to(scene.matrices, (CASES, R, *scene.matrices.shape[2:]))
    if name in KNOWN:
        matrices = np.broadcast_to(found[:, :, None].reshape(1, R, 1, L, L), matrices.shape)
    else:
        whole = np.broadcast_to(found, (CASES, R, L, L, *SPACES[space]))
        flat = whole.reshape(CASES, R, L, L, -1)
        np.testing.assert_allclose(np.moveaxis(flat, -1, 2), matrices, rtol=1e-9)
    for b, r, x in np.ndindex(matrices.shape[:3]):
        expected = scene.truth[b, x] @ matrices[b, r, x]
        np.testing.assert_allclose(said[r][b, x], expected, rtol=1e-6)


def phases(name: str) -> list[dict[str, Any]]:
    """Return options for which gradients are compared."""
    forms = [{"likelihood": "joint"}, {"likelihood": "marginal"}]
    if name in KNOWN:
        return forms
    warm = regularisers(name)[-1] | {"warm_up": 2, "likelihood": "joint"}
    learning = [{**form, **given} for form, given in itertools.product(forms, regularisers(name))]
    return [*learning, *({**warm, "warm_up_on": on} for on in ("labels", "vote", "trace"))]


@every_space
@every_method
def test_gradients_are_those_of_the_formulas(name: str, space: str) -> None:
    """Along a direction of all parameters at once, against differences of the loops."""
    method = confusion_method(name, space)
    batch = make_batch(draw_some_labels(space, "pixels"), answers=space == "table")
    own = method.raters.own if isinstance(method.raters, PixelRaters) else None
    before = None if own is None else own.sums.clone()
    parameters = list(method.parameters())
    for given in phases(name):
        set_options(method, name, **given)
        bring_to(method, weighted=True)
        learning = learning_parameters(method, given)
        slope = slope_of_loops(method, batch, space, given, learning)
        gradients = torch.autograd.grad(method.step(batch).loss, parameters, allow_unused=True)
        if own is not None:
            own.sums.copy_(cast(torch.Tensor, before))
        found = 0.0
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if not any(parameter is p for p in learning):
                assert gradient is None or not gradient.any(), given
            elif gradient is not None:
                found += float((gradient * direction_of(parameter)).sum())
        assert found == pytest.approx(slope, rel=1e-5, abs=1e-8), given
        assert abs(slope) > 1e-5, given


def learning_parameters(method: ConfusionMethod, given: dict[str, Any]) -> list[torch.nn.Parameter]:
    """Return what learns: in the warm-up the truth network or the matrices, later both."""
    on = given.get("warm_up_on")
    if on is None:
        return list(method.parameters())
    return list((method.raters if on == "trace" else method.network).parameters())


def direction_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    generator = torch.Generator().manual_seed(parameter.numel())
    return torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def slope_of_loops(
    method: ConfusionMethod,
    batch: Batch,
    space: str,
    given: dict[str, Any],
    learning: list[torch.nn.Parameter],
) -> float:
    """Return how fast the loss rises; what has no gradient stays as it is."""
    held = method.raters.held
    step = 1e-5
    now = scene_of(method, batch, space, held)
    common = common_of(method)
    losses = []
    for by in (step, -step):
        with torch.no_grad():
            old = [p.clone() for p in learning]
            for p in learning:
                p += by * direction_of(p)
            scene = replace(scene_of(method, batch, space, held), rows=now.truth)
            for p, value in zip(learning, old, strict=True):
                p.copy_(value)
        if held:
            scene = replace(scene, matrices=now.matrices)
        losses.append(loss_of(scene, given, common))
    return (losses[0] - losses[1]) / (2 * step)


def loss_of(scene: Scene, given: dict[str, Any], common: Array | None) -> float:
    """Compose the loss of a phase, with weights of classes."""
    if given.get("warm_up_on") == "trace":
        return -mean_trace(scene)
    if given.get("warm_up_on") == "vote":
        target = vote(scene.labels)
        return cross_entropy(scene.truth, target, WEIGHTS) / int((target != MISSING).sum())
    loss = -log_likelihood(scene, given.get("likelihood", "joint"), WEIGHTS) / scene.count
    if given.get("warm_up_on") == "labels":
        return loss
    if given.get("trace"):
        loss += given["trace"] * trace(scene, given["trace_over"])
    return loss if common is None else loss + given["prior"] * divergence(scene, common)


@every_method
def test_nobody_labelled_anything(name: str) -> None:
    """The loss is that of the regularisers, and every gradient is a number."""
    method = confusion_method(name, "mask")
    set_options(method, name, **({} if name in KNOWN else {"trace": 0.0, "warm_up": 0}))
    bring_to(method)
    step = method.step(make_batch(draw_some_labels("mask", "everything")))
    assert step.loss.item() == 0
    gradients = torch.autograd.grad(step.loss, list(method.parameters()), allow_unused=True)
    assert all(gradient is None or not gradient.any() for gradient in gradients)


@every_method
def test_one_label_is_enough(name: str) -> None:
    """Sums are divided by one."""
    labels = draw_some_labels("mask", "everything")
    labels[1, 2, 3, 0] = 1
    method = confusion_method(name, "mask")
    batch = make_batch(labels)
    given = regularisers(name)[-1]
    set_options(method, name, likelihood="joint", **given)
    bring_to(method, weighted=True)
    own = method.raters.own if isinstance(method.raters, PixelRaters) else None
    before = None if own is None else own.sums.clone()
    scene = scene_of(method, batch, "mask")
    expected = loss_of(scene, {"likelihood": "joint", **given}, common_of(method))
    step = method.step(batch)
    if own is not None:
        own.sums.copy_(cast(torch.Tensor, before))
    assert step.loss.item() == pytest.approx(expected, rel=1e-6)
    assert int(step.observed) == 1


# Methods without matrices


def targets(space: str, soft: bool) -> NDArray[Any]:
    """Draw targets: classes, or shares `(cases, L, *space)`; some are unknown."""
    hard = draw_some_labels(space, "pixels")[:, 0]
    if not soft:
        return hard
    shares = np.random.default_rng(7).dirichlet(np.ones(L), hard.shape)
    return np.moveaxis(np.where(hard[..., None] == MISSING, 0.0, shares), -1, 1)


@every_space
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["vote", "mean", "truth"])
def test_targets_are_learnt_by_cross_entropy(name: str, weighted: bool, space: str) -> None:
    method = make_noisy_method(name, space)
    target = targets(space, soft=name == "mean")
    batch = {**make_batch(draw_some_labels(space)), "target": torch.from_numpy(target)}
    bring_to(method, weighted=weighted)
    truth = softmax(by_pixel(method.network(batch["image"])[1]))  # type: ignore[operator]
    flat = target.reshape(CASES, -1)
    if name == "mean":
        flat = target.reshape(CASES, L, -1).swapaxes(1, 2)
    known = int((flat.sum(2) > 0).sum() if name == "mean" else (flat != MISSING).sum())
    entropy = cross_entropy(truth, flat, WEIGHTS if weighted else EVEN) / known
    agree(method.step(batch), entropy, {"loss": entropy}, known)
    found = method.held_out(batch)
    assert found.loss.item() == pytest.approx(cross_entropy(truth, flat, EVEN), rel=1e-9)
    assert int(found.count) == known
    assert found.confusion is None and found.pixels is None
    np.testing.assert_allclose(by_pixel(found.truth.detach()), truth, rtol=1e-9)


@every_space
@pytest.mark.parametrize("weighted", [False, True])
def test_separate_networks_learn_each_from_one_rater(weighted: bool, space: str) -> None:
    method = make_noisy_method("separate", space)
    networks = cast(Any, method).networks
    bring_to(method, weighted=weighted)
    cast(Any, method).labelled.copy_(torch.tensor([True, False, True]))
    for absent, batch in make_batches(space):
        truths = [softmax(by_pixel(network(batch["image"])[1])) for network in networks]
        labels = batch["labels"].numpy()
        who = batch.get("raters")
        sums = {}
        for weights in (WEIGHTS, EVEN):
            sums[weights] = 0.0
            for place in np.ndindex(labels.shape[:2]):
                rater = place[1] if who is None else int(who[place])
                own = truths[rater][place[0]][None]
                target = labels[place].reshape(1, -1)
                sums[weights] += cross_entropy(own, target, weights)
        known = int((labels != MISSING).sum())
        mean = sums[WEIGHTS if weighted else EVEN] / max(known, 1)
        step = method.step(batch)
        agree(step, mean, {"loss": mean}, known, absent)
        assert step.loss.requires_grad
        found = method.held_out(batch)
        assert found.loss.item() == pytest.approx(sums[EVEN], rel=1e-9), absent
        assert int(found.count) == known
        np.testing.assert_allclose(by_pixel(found.truth), (truths[0] + truths[2]) / 2, rtol=1e-9)


@pytest.mark.parametrize("weightings", [None, 1, 2])
@pytest.mark.parametrize("space", [(), (2, 3)])
def test_labels_are_averaged_with_weights_and_without_gaps(
    space: tuple[int, ...], weightings: int | None
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, (5, 4, *space))
    labels[0] = MISSING
    weights = rng.dirichlet(np.ones(4), (5, 2))
    weights[1, :, 2] = 0
    labels[1, [0, 1, 3]] = MISSING  # only the one without weight labelled
    given = None if weightings is None else torch.from_numpy(weights[:, :weightings])
    found = mean_label(torch.from_numpy(labels), 3, given).numpy()
    assert found.shape == (5, *(() if weightings is None else (weightings,)), 3, *space)
    by_weighting = found[:, None] if weightings is None else found
    for (b, w, c, *x), value in np.ndenumerate(by_weighting):
        said = [int(labels[(b, r, *x)]) for r in range(4)]
        each = [1.0] * 4 if weightings is None else weights[b, w]
        total = sum(each[r] for r in range(4) if said[r] != MISSING)
        own = sum(each[r] for r in range(4) if said[r] == c)
        assert value == pytest.approx(own / total if total else 0.0, abs=1e-6)
    even = torch.full((1, 4), 0.25)
    alike = mean_label(torch.from_numpy(labels), 3, even)
    torch.testing.assert_close(alike, mean_label(torch.from_numpy(labels), 3))

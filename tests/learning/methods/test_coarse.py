"""Positive and negative drawings: the model against the formulas, and what is learnt from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods import learning_method
from raters.learning.methods.base import Asked, Batch
from raters.learning.methods.coarse import Coarse, share_term
from raters.learning.rater_models import (
    FORMS,
    CoarseRaters,
    ComplementConfusion,
    PixelConfusion,
    SharedConfusion,
    log_transitions,
    negative_log_likelihood,
    trace_term,
)
from raters.learning.rater_models.likelihood import Form
from raters.study.annotations import Annotation
from tests.support.learning import build_method, draw_labels, draw_normal, small_task

Array = NDArray[np.float64]
Kinds = tuple[Annotation, ...]
BOTH = pytest.mark.parametrize("form", FORMS)
SPACES = pytest.mark.parametrize("space", [(3, 2), (2, 1, 3)])
MIXED: Kinds = ("positive", "negative", "mask")
"""A rater of each kind; with three classes the labels of the second are complementary."""


pytestmark = pytest.mark.usefixtures("one_thread")


def make_coarse(
    annotations: Kinds = MIXED, classes: int = 3, dims: int = 2, **given: Any
) -> Coarse:
    """Make a method for raters of some kinds."""
    names = [f"r{k}" for k in range(len(annotations))]
    task = small_task(
        dims,
        raters=names,
        channels=1,
        classes=classes,
        width=4,
        epochs=7,
        annotations=annotations,
    )
    method = build_method("coarse", task, given, seed=1)
    assert isinstance(method, Coarse)
    return method


def disturb_raters(method: Coarse, seed: int = 5) -> Coarse:
    """Give all weights of matrices and transitions random values."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for values in method.raters.state_dict().values():
            if values.is_floating_point():
                values.add_(torch.rand_like(values))
    return method


def batch_of_labels(labels: Tensor, seed: int = 2) -> Batch:
    image = draw_normal(len(labels), 1, *labels.shape[2:], seed=seed).float()
    return {"image": image, "labels": labels, "case": torch.arange(len(labels))}


# The equations, pixel by pixel


def pixel_loop(
    truth: Array, a: Array, m: Array, labels: NDArray[Any], negative: set[int], form: Form
) -> tuple[float, float, int]:
    """Sum the log-likelihood and the trace over pixels, from equations 4 and 5, without tensors.

    With `u = A^T p` in our order of A, positive labels have `u[label]`, negative ones
    `v[label]`, `v = M^T u`.
    """
    cases, raters = labels.shape[:2]
    total = 0.0
    trace = 0.0
    observed = 0
    for b in range(cases):
        for x in np.ndindex(labels.shape[2:]):
            p = truth[(b, slice(None), *x)]
            joint = p.copy()
            seen = False
            for r in range(raters):
                q = int(labels[(b, r, *x)])
                if q == MISSING:
                    continue
                seen = True
                observed = observed + 1
                own = a[(b, r, slice(None), slice(None), *x)]
                trace += float(np.trace(own))
                product = own @ m[r] if r in negative else own
                joint = joint * product[:, q]
                if form == "marginal":
                    u = own.T @ p
                    v = m[r].T @ u
                    total += float(np.log(v[q] if r in negative else u[q]))
            if form == "joint" and seen:
                total += float(np.log(joint.sum()))
    return total, trace, observed


@BOTH
@SPACES
def test_losses_of_drawings_are_those_of_the_equations(form: Form, space: tuple[int, ...]) -> None:
    logits = draw_normal(2, 3, 3, 3, *space)
    truth = draw_normal(2, 3, *space, seed=3).log_softmax(1)
    log_m = log_transitions(draw_normal(3, 3, 3, seed=4))
    labels = draw_labels(2, 3, *space)
    assert (labels == MISSING).any() and (labels[:, 1] >= 0).any()
    confusion = ComplementConfusion(PixelConfusion(logits), log_m, torch.tensor([1]))
    seen = confusion.see(labels)
    found = negative_log_likelihood(truth, seen.log_column, labels, form)
    arrays = truth.exp().numpy(), logits.softmax(3).numpy(), log_m.exp().numpy(), labels.numpy()
    total, trace, observed = pixel_loop(*arrays, {1}, form)
    assert float(found) == pytest.approx(-total / observed, rel=1e-10)
    found_trace = trace_term(seen.log_diagonal, labels, truth.exp(), "all")
    assert float(found_trace) == pytest.approx(trace / observed, rel=1e-10)
    missing = (labels == MISSING).unsqueeze(2).expand_as(seen.log_column)
    assert (seen.log_column[missing] == 0).all()


@BOTH
@pytest.mark.parametrize(
    "annotations", [MIXED, ("positive",), ("negative",), ("negative", "positive")]
)
def test_a_step_is_equation_6_with_class_weights(form: Form, annotations: Kinds) -> None:
    given = {"likelihood": form, "trace": 0.2, "trace_over": "all", "prior": 0.0}
    method = disturb_raters(make_coarse(annotations, trust_masks=False, **given))
    labels = draw_labels(2, len(annotations), 3, 4)
    batch = batch_of_labels(labels)
    method.start_epoch(0)
    step = method.step(batch)
    truth = method.truth(batch["image"])
    matrices = method.confusion(batch["image"])
    m = method.transition()
    known = np.zeros((len(annotations), 3, 3)) if m is None else m.double().numpy()
    arrays = truth.detach().double().numpy(), matrices.detach().double().numpy(), known
    negative = {k for k, kind in enumerate(annotations) if kind == "negative"}
    assert (m is None) == (not negative)
    total, trace, observed = pixel_loop(*arrays, labels.numpy(), negative, form)
    assert step.observed == observed
    assert step.loss.item() == pytest.approx((0.2 * trace - total) / observed, rel=1e-5)

    method.class_weights.copy_(torch.tensor([1.0, 2.0, 5.0]))
    one = torch.full_like(labels, MISSING)
    one[0, :, 0, 0] = 2  # all say '2', or 'not 2'
    weighted = method.step(batch_of_labels(one))
    method.class_weights.fill_(1.0)
    plain = method.step(batch_of_labels(one))
    # 'not 2' weighs as classes 0 and 1 do on average
    weight = np.mean([1.5 if k in negative else 5.0 for k in range(len(annotations))])
    ratio = float(weighted.terms["loss"].detach() / plain.terms["loss"].detach())
    assert ratio == pytest.approx(weight, rel=1e-5)


@BOTH
@SPACES
def test_the_swap_of_two_classes_is_a_label_turned_round(
    form: Form, space: tuple[int, ...]
) -> None:
    """With two classes M has no choice: losses and gradients are those of flipped labels."""
    logits = draw_normal(2, 2, 2, 2, *space)
    truth = draw_normal(2, 2, *space, seed=3)
    labels = draw_labels(2, 2, *space, classes=2)
    flipped = labels.clone()
    flipped[:, 1] = torch.where(labels[:, 1] == MISSING, MISSING, 1 - labels[:, 1])
    log_m = log_transitions(draw_normal(2, 2, 2, seed=4))
    torch.testing.assert_close(log_m.exp(), torch.eye(2).flip(0).double().expand(2, 2, 2))

    def loss_of(negative: bool) -> tuple[Tensor, ...]:
        parts = logits.clone().requires_grad_(), truth.clone().requires_grad_()
        pixel = PixelConfusion(parts[0])
        both = ComplementConfusion(pixel, log_m, torch.tensor([1])) if negative else pixel
        given = labels if negative else flipped
        seen = both.see(given)
        log_truth = parts[1].log_softmax(1)
        loss = negative_log_likelihood(log_truth, seen.log_column, given, form)
        loss = loss + 0.3 * trace_term(seen.log_diagonal, given, log_truth.exp())
        return loss, *torch.autograd.grad(loss, parts)

    for found, expected in zip(loss_of(negative=True), loss_of(negative=False), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_of_matrices_and_transition_are_those_of_calculus(shared: bool) -> None:
    labels = draw_labels(2, 2, 3)
    negative = torch.tensor([0])

    def columns(logits: Tensor, values: Tensor) -> Tensor:
        said = SharedConfusion(logits.log_softmax(3)) if shared else PixelConfusion(logits)
        return ComplementConfusion(said, log_transitions(values), negative).see(labels).log_column

    sizes = (1, 2, 3, 3) if shared else (2, 2, 3, 3, 3)
    inputs = draw_normal(*sizes).requires_grad_(), draw_normal(2, 3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(columns, inputs)


def test_shared_and_pixel_matrices_agree() -> None:
    matrix = draw_normal(1, 2, 3, 3).log_softmax(3)
    log_m = log_transitions(draw_normal(2, 3, 3, seed=1))
    labels = draw_labels(4, 2, 5)
    negative = torch.tensor([1])
    everywhere = matrix[..., None].expand(4, -1, -1, -1, 5)
    shared = ComplementConfusion(SharedConfusion(matrix), log_m, negative)
    pixel = ComplementConfusion(PixelConfusion(everywhere), log_m, negative)
    torch.testing.assert_close(shared.see(labels).log_column, pixel.see(labels).log_column)


# The transition


def test_the_transition_has_a_zero_diagonal_and_rows_of_one_after_any_steps() -> None:
    method = make_coarse(("positive", "negative"), prior=0.0)
    method.start_epoch(0)
    optimiser = torch.optim.Adam(method.parameters(), lr=0.3)
    labels = draw_labels(4, 2, 5, 5)
    start = method.raters.transition().detach()
    for _ in range(30):
        optimiser.zero_grad()
        method.step(batch_of_labels(labels)).loss.backward()
        optimiser.step()
        m = method.raters.transition().detach()
        assert (torch.diagonal(m, dim1=1, dim2=2) == 0).all()
        torch.testing.assert_close(m.sum(2), torch.ones(2, 3))
    assert (m[1] - start[1]).abs().max() > 0.1
    assert torch.equal(m[0], start[0])  # a positive drawing excludes nothing
    found = method.transition()
    assert found is not None and found[0].isnan().all() and torch.equal(found[1], m[1])


def test_the_transition_is_learnt_while_matrices_are_held() -> None:
    method = make_coarse(("positive", "negative"), warm_up=1)
    method.start_epoch(0)
    method.step(batch_of_labels(draw_labels(2, 2, 5, 5))).loss.backward()
    gradient = method.raters.choice.grad
    head = method.raters.head.weight
    assert gradient is not None and gradient[1].abs().max() > 1e-4
    assert isinstance(head, torch.nn.Parameter) and head.grad is None


def test_a_uniform_transition_stays_so_and_is_no_parameter() -> None:
    method = make_coarse(("negative",), transition="uniform")
    method.start_epoch(0)
    assert method.matrix_parameters() == []
    assert "raters.choice" in method.state_dict()
    torch.testing.assert_close(method.transition()[0], (1 - torch.eye(3)) / 2)  # type: ignore[index]
    assert make_coarse(("positive", "mask")).transition() is None
    assert make_coarse(("positive", "negative"), classes=2).transition() is None


def test_negative_raters_are_drawn_to_the_identity_and_others_to_their_own_mean() -> None:
    raters = make_coarse(("positive", "negative")).raters
    assert raters.own is not None
    raters.own.sums.copy_(torch.ones(2, 3, 3))
    common = raters._common()
    assert common is not None
    near = raters.start.log_softmax(1)
    torch.testing.assert_close(common[1], near)
    torch.testing.assert_close(common[0].exp(), 0.9 / 3 + 0.1 * near.exp())


# Masks


def test_masks_are_trusted_beside_drawings_only() -> None:
    image = draw_normal(1, 1, 4, 4).float()

    def matrices(annotations: Kinds, **given: Any) -> Tensor:
        return disturb_raters(make_coarse(annotations, **given)).confusion(image).detach()

    identity = torch.eye(3)[..., None, None].expand(-1, -1, 4, 4)
    found = matrices(MIXED)[0]
    torch.testing.assert_close(found[2], identity, rtol=0, atol=3e-4)
    assert (found[:2] - identity).abs().max() > 0.1
    for kinds, given in ((MIXED, {"trust_masks": False}), (("mask",) * 3, {})):
        assert (matrices(kinds, **given)[0, 2] - identity).abs().max() > 0.1
    everyone = matrices(("mask",) * 3, trust_masks=True)
    torch.testing.assert_close(everyone[0], identity.expand(3, -1, -1, -1, -1), rtol=0, atol=3e-4)


def test_a_trusted_mask_is_learnt_by_cross_entropy_in_and_after_the_warm_up() -> None:
    labels = draw_labels(2, 1, 4, 4, seed=8)
    labels = torch.cat([labels, torch.full_like(labels, MISSING)], 1)
    method = disturb_raters(make_coarse(("mask", "positive"), warm_up=1))
    batch = batch_of_labels(labels)
    truth = method.truth(batch["image"]).detach()
    known = labels[:, 0] != MISSING
    right = truth.movedim(1, -1)[known].gather(1, labels[:, 0][known][:, None])
    for epoch in (0, 1):
        method.start_epoch(epoch)
        found = method.step(batch).terms["loss"].item()
        assert found == pytest.approx(-right.log().mean().item(), abs=2e-3)
    assert method.step(batch_of_labels(labels * 0 + 1)).loss.isfinite()
    two = make_coarse(("mask", "mask", "positive"))
    differ = torch.tensor([0, 1, MISSING]).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    two.start_epoch(0)
    assert two.step(batch_of_labels(differ)).loss.isfinite()  # the identity itself would forbid it


# What is answered


def test_answers_are_a_for_matrices_and_v_for_negative_raters() -> None:
    method = disturb_raters(make_coarse(MIXED, trust_masks=False))
    image = draw_normal(2, 1, 3, 4).float()
    maps = method.maps(image, Asked(("r0", "r1"), confusion=True))
    p = maps["truth"].detach().numpy()
    a = maps["confusion"].detach().numpy()
    u = np.einsum("btyx,brtoyx->broyx", p, a)
    transition = method.transition()
    assert transition is not None
    v = np.einsum("boyx,oq->bqyx", u[:, 1], transition[1].numpy())
    np.testing.assert_allclose(maps["as:r0"].detach().numpy(), u[:, 0], rtol=1e-5)
    np.testing.assert_allclose(maps["as:r1"].detach().numpy(), v, rtol=1e-5)
    np.testing.assert_allclose(v.sum(1), 1, rtol=1e-5)

    labels = draw_labels(2, 3, 3, 4)
    fused = method.fused({**batch_of_labels(labels), "image": image}).detach()
    product = a.copy()
    product[:, 1] = np.einsum("btoyx,oq->btqyx", a[:, 1], transition[1].numpy())
    for b, y, x in np.ndindex(2, 3, 4):
        weights = p[b, :, y, x].copy()
        for r, q in enumerate(labels[b, :, y, x].tolist()):
            weights *= 1 if q == MISSING else product[b, r, :, q, y, x]
        np.testing.assert_allclose(fused[b, :, y, x], weights / weights.sum(), rtol=1e-4)
    held = method.held_out({**batch_of_labels(labels), "image": image})
    assert held.confusion is not None and held.pixels is not None
    mean = np.einsum("btyx,brtoyx->rto", p, a) / p.sum((0, 2, 3))[:, None]
    np.testing.assert_allclose(
        held.confusion.detach() / held.pixels.detach()[:, None], mean, rtol=1e-4
    )


def test_complementary_labels_have_no_vote() -> None:
    for learns_from in ("vote", "consensus"):
        with pytest.raises(RatersError, match=r"expected .labels. or .trace."):
            make_coarse(("negative",), warm_up_on=learns_from)
        make_coarse(
            ("negative",), classes=2, warm_up_on=learns_from
        )  # turned round: ordinary labels
    for share in (0, 1, -0.1, "much"):
        with pytest.raises(RatersError, match="share"):
            learning_method("coarse").parse({"share": share})
    with pytest.raises(RatersError, match="expected masks"):
        learning_method("coarse").refuse_study("coarse", "classification", 2)


# A known share


def test_the_share_term_is_the_divergence_and_its_gradient() -> None:
    logits = draw_normal(2, 3, 4, 4).requires_grad_()
    inside = torch.ones(2, 4, 4, dtype=torch.bool)
    inside[1, 3:] = inside[1, :, 2:] = False  # what fills a batch up is no background
    found = share_term(logits.log_softmax(1), 0.2, torch.tensor(5), inside)
    m = logits.softmax(1)[:, 1:].sum(1)[inside].mean()
    expected = 0.2 * (0.2 / m).log() + 0.8 * (0.8 / (1 - m)).log()
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_the_share_counts_in_the_warm_up_too() -> None:
    labels = draw_labels(2, 1, 4, 4)
    regions = torch.zeros(2, 4, 4, dtype=torch.long)
    regions[1, 2:] = MISSING
    for warm_up_on in ("vote", "labels"):
        for epoch in (0, 1):
            steps = []
            for share in (None, 0.3):
                method = make_coarse(("positive",), warm_up=1, warm_up_on=warm_up_on, share=share)
                method.start_epoch(epoch)
                steps.append(method.step({**batch_of_labels(labels), "regions": regions}))
            log_truth = method.network(batch_of_labels(labels)["image"])[1].log_softmax(1)
            term = share_term(log_truth, 0.3, steps[0].observed, regions == 0)
            assert steps[1].loss.item() == pytest.approx(steps[0].loss.item() + term.item())
            assert term > 0.001


# What is learnt


def draw_bright_and_dark_squares(number: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw squares of two classes, brighter and darker than the background, with noise."""
    random = np.random.default_rng(seed)
    truth = np.zeros((number, 12, 12), int)
    for k in range(number):
        for c in (1, 2):
            y, x = random.integers(0, 7, 2)
            truth[k, y : y + 5, x : x + 5] = c
    image = np.array([0.0, 1.0, -1.0])[truth] + random.normal(0, 0.3, truth.shape)
    return torch.from_numpy(image[:, None]).float(), torch.from_numpy(truth)


def draw_negatives(truth: Tensor, transition: Tensor, seed: int = 0) -> Tensor:
    """Say of each pixel one class that it is not."""
    random = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(transition[truth.flatten()], 1, generator=random)
    return drawn.view(truth.shape)


def train_steps(
    method: Coarse, image: Tensor, labels: Tensor, steps: int, lr: float = 0.02
) -> None:
    optimiser = torch.optim.Adam(method.parameters(), lr=lr)
    batch = {"image": image, "labels": labels, "case": torch.arange(len(image))}
    batch["regions"] = torch.zeros(len(image), *image.shape[2:], dtype=torch.long)
    for epoch in range(steps):
        method.start_epoch(epoch)
        optimiser.zero_grad()
        method.step(batch).loss.backward()
        optimiser.step()


def mean_accuracy(method: Coarse, seed: int = 1) -> float:
    """Return the mean accuracy of the three classes on new images."""
    image, truth = draw_bright_and_dark_squares(seed=seed)
    with torch.no_grad():
        found = method.truth(image).argmax(1)
    return float(np.mean([(found == truth)[truth == c].float().mean() for c in range(3)]))


BIASED = torch.tensor([[0.0, 0.8, 0.2], [0.9, 0.0, 0.1], [0.3, 0.7, 0.0]])


def test_exact_negatives_alone_show_the_truth_if_the_matrix_is_the_identity() -> None:
    method = make_coarse(("negative",), prior=0.0)
    sizes = 1, 3, method.network.backbone.features, 2
    method.raters = CoarseRaters(*sizes, negative=[0], trusted=[0], excludes="uniform")
    image, truth = draw_bright_and_dark_squares()
    labels = draw_negatives(truth, (1 - torch.eye(3)) / 2)
    assert not (labels == truth).any()
    train_steps(method, image, labels[:, None], 80)
    assert mean_accuracy(method) > 0.85

    as_labels = make_coarse(("positive",), prior=0.0)  # 'not q' taken for q
    train_steps(as_labels, image, labels[:, None], 80)
    assert mean_accuracy(as_labels) < 0.4


@pytest.mark.slow
def test_who_excludes_what_is_learnt_with_the_truth() -> None:
    image, truth = draw_bright_and_dark_squares()
    labels = draw_negatives(truth, BIASED)[:, None]
    method = make_coarse(("negative",), warm_up=20)
    train_steps(method, image, labels, 150)
    found = method.transition()
    assert found is not None
    assert (found[0] - BIASED).abs().max() < 0.15
    assert mean_accuracy(method) > 0.8


@pytest.mark.slow
def test_negatives_add_to_positives_and_masks() -> None:
    """Drawings of one class leave the other to negatives; two masks say which is which."""
    image, truth = draw_bright_and_dark_squares()
    positive = torch.where(truth == 1, 1, MISSING)  # says nothing of class 2 nor of background
    negative = draw_negatives(truth, (1 - torch.eye(3)) / 2)
    masks = torch.full_like(truth, MISSING)
    masks[:2] = truth[:2]
    labels = torch.stack([positive, negative, masks], 1)
    method = make_coarse(MIXED, warm_up=20)
    train_steps(method, image, labels, 60)
    assert mean_accuracy(method) > 0.85
    for alone in ([0], [0, 2]):
        fewer = labels.clone()
        fewer[:, [k for k in range(3) if k not in alone]] = MISSING
        one = make_coarse(MIXED, warm_up=20)
        train_steps(one, image, fewer, 60)
        assert mean_accuracy(one) < mean_accuracy(method)


def test_a_known_share_stops_the_object_from_being_everywhere() -> None:
    image, truth = draw_bright_and_dark_squares()
    inside = (truth > 0).float()
    random = torch.rand(truth.shape, generator=torch.Generator().manual_seed(0))
    drawn = torch.where(inside * random > 0.6, truth, MISSING)[:, None]
    found = {}
    for share in (None, float(inside.mean())):
        method = make_coarse(("positive",), share=share, warm_up=30)
        train_steps(method, image, drawn, 60)
        found[share is None] = mean_accuracy(method)
    assert found[True] < 0.67  # nothing is ever background
    assert found[False] > 0.8


def test_who_says_one_class_is_known_again_once_weights_are_loaded() -> None:
    features = torch.randn(1, 4, 3, 3)
    held, loaded, free = (CoarseRaters(2, 2, 4, 2) for _ in range(3))
    for raters in (held, free):
        torch.nn.init.normal_(raters.head.bias)
    held.hold([1])
    loaded.load_state_dict(held.state_dict())
    assert (held.has_one_sided, loaded.has_one_sided, free.has_one_sided) == (True, True, False)
    torch.testing.assert_close(loaded(features).matrix(), held(features).matrix())
    start = held.start.softmax(1)[..., None, None].expand(2, 2, 3, 3)
    torch.testing.assert_close(held(features).matrix()[0, 1], start)
    loaded.load_state_dict(free.state_dict())
    assert not loaded.has_one_sided

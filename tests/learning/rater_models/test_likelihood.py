"""The likelihood equals a slow loop, fusion's and the papers'; missing labels are nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.columns import Columns
from raters.fusion.em import EMState, e_step, posteriors
from raters.learning.rater_models import (
    FORMS,
    Confusion,
    FixedRaters,
    LowRankConfusion,
    PixelConfusion,
    SharedConfusion,
    from_listing,
    log_likelihood,
    negative_log_likelihood,
    pixel_weights,
    posterior,
    sum_and_count,
    trace_term,
)
from raters.learning.rater_models.likelihood import Form
from tests.support.learning import draw_labels

BOTH = pytest.mark.parametrize("form", FORMS)
KINDS = ("shared", "pixel", "low rank")
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


def draw_parts(kind: str, labels: Tensor, classes: int, rank: int = 2) -> list[Tensor]:
    """Draw the parameters of matrices, with gradients."""
    batch, raters, *space = labels.shape
    shapes = {
        "shared": [(raters, classes, classes)],
        "pixel": [(batch, raters, classes, classes, *space)],
        "low rank": [
            (batch, raters, classes, *space),
            (batch, raters, classes, rank, *space),
            (batch, raters, rank, classes, *space),
        ],
    }[kind]
    random = torch.Generator().manual_seed(7)
    return [
        torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


def matrices_of(kind: str, parts: list[Tensor]) -> Confusion:
    if kind == "shared":
        return SharedConfusion(parts[0].log_softmax(2)[None])
    return PixelConfusion(*parts) if kind == "pixel" else LowRankConfusion(*parts)


def draw_truth(labels: Tensor, classes: int) -> Tensor:
    random = torch.Generator().manual_seed(8)
    shape = (len(labels), classes, *labels.shape[2:])
    return torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_()


def slow(truth: Tensor, matrix: Tensor, labels: Tensor, form: Form) -> float:
    """Sum the negative log-likelihood over pixels by the formula; matrix with all axes."""
    total = 0.0
    truth, matrix, labels = (a.detach().numpy() for a in (truth, matrix, labels))
    for b, *x in itertools.product(*(range(n) for n in (len(labels), *labels.shape[2:]))):
        p = truth[(b, slice(None), *x)].tolist()
        seen = [
            matrix[(b, r, slice(None), o, *x)].tolist()
            for r, o in enumerate(labels[(b, slice(None), *x)])
            if o != MISSING
        ]
        if form == "joint":
            total -= math.log(sum(pt * math.prod(c[t] for c in seen) for t, pt in enumerate(p)))
        else:
            total -= sum(math.log(sum(map(lambda a, b: a * b, p, c))) for c in seen)
    return total


@ALL_KINDS
@BOTH
@given(
    seed=st.integers(0, 9999),
    raters=st.integers(1, 4),
    classes=st.integers(2, 4),
    space=st.lists(st.integers(1, 2), max_size=3),
)
@settings(max_examples=8, deadline=None)
def test_it_is_the_formula(
    kind: str, form: Form, seed: int, raters: int, classes: int, space: list[int]
) -> None:
    labels = draw_labels(2, raters, *space, classes=classes, seed=seed)
    logits = draw_truth(labels, classes)
    matrices = matrices_of(kind, draw_parts(kind, labels, classes))
    column = matrices.see(labels).log_column
    full = (2, raters, classes, classes, *space)
    matrix = matrices.matrix()
    matrix = matrix.view(*matrix.shape[:4], *([1] * len(space))) if kind == "shared" else matrix
    expected = slow(logits.softmax(1), matrix.expand(full), labels, form)
    found, count = sum_and_count(logits.log_softmax(1), column, labels, form)
    assert found.item() == pytest.approx(expected, abs=1e-10)
    assert count == (labels != MISSING).sum()
    mean = negative_log_likelihood(logits.log_softmax(1), column, labels, form)
    assert mean.item() == pytest.approx(expected / max(int(count), 1), abs=1e-10)


@pytest.mark.parametrize("per_pixel", [False, True])
def test_it_is_the_likelihood_of_fusion(per_pixel: bool) -> None:
    raters = 4
    classes = 3
    pixels = 50
    labels = draw_labels(1, raters, pixels, classes=classes)
    logits = draw_truth(labels, classes).detach()
    prior = logits.softmax(1)[0] if per_pixel else logits.softmax(1)[0, :, :1]
    matrices = matrices_of("shared", draw_parts("shared", labels, classes))
    state = EMState(prior.numpy(), matrices.matrix()[0].detach().numpy())
    columns = Columns(labels[0].numpy().astype(np.int16), np.ones(pixels))
    expected = e_step(columns, state)[1]
    column = matrices.see(labels).log_column
    log_truth = prior.expand(-1, pixels).log()[None]
    assert log_likelihood(log_truth, column).sum().item() == pytest.approx(expected, rel=1e-12)
    found = posterior(log_truth, column)[0].detach().numpy()
    np.testing.assert_allclose(found, posteriors(columns, state), atol=1e-6)


@BOTH
@pytest.mark.parametrize("space", [(), (3,), (3, 2), (2, 3, 2)])
@pytest.mark.parametrize("kind", ["shared", "pixel", "oracle"])
def test_what_is_certain_and_right_costs_nothing(
    kind: str, space: tuple[int, ...], form: Form
) -> None:
    classes = 2
    truth = torch.randint(0, classes, (2, *space), generator=torch.Generator().manual_seed(0))
    labels = truth.unsqueeze(1).repeat(1, 3, *(1,) * len(space))
    labels[0, 1] = MISSING
    log_truth = nn.functional.one_hot(truth, classes).movedim(-1, 1).float().log()
    eye = torch.eye(classes)
    spread = eye.log().view(1, 1, classes, classes, *(1,) * len(space)).expand(2, 3, -1, -1, *space)
    matrices = {
        "shared": SharedConfusion(eye.log()[None, None]),
        "pixel": PixelConfusion(spread),
        "oracle": FixedRaters(eye.repeat(3, 1, 1), smallest=0)(log_truth, torch.arange(2)),
    }[kind]
    column, diagonal = matrices.see(labels)[:2]
    assert negative_log_likelihood(log_truth, column, labels, form).item() == 0
    assert trace_term(diagonal, labels, log_truth.exp(), "all").item() == classes
    assert trace_term(diagonal, labels, log_truth.exp()).item() == 1
    # The trap: cross entropy, which takes logits, of probabilities.
    twice = nn.functional.cross_entropy(log_truth.exp(), truth)
    assert twice.item() == pytest.approx(0.3133, abs=1e-4)
    wrong = negative_log_likelihood(log_truth.flip(1), column, labels, form)
    assert wrong.item() == math.inf


@ALL_KINDS
def test_forms_agree_where_a_pixel_has_one_label(kind: str) -> None:
    labels = draw_labels(3, 4, 5, missing=0, seed=2)
    keep = torch.randint(0, 4, (3, 1, 5), generator=torch.Generator().manual_seed(3))
    one = torch.full_like(labels, MISSING).scatter(1, keep, labels.gather(1, keep))
    log_truth = draw_truth(labels, 3).log_softmax(1)
    matrices = matrices_of(kind, draw_parts(kind, labels, 3))

    def by_form(seen: Tensor) -> list[Tensor]:
        column = matrices.see(seen).log_column
        return [negative_log_likelihood(log_truth, column, seen, form) for form in FORMS]

    torch.testing.assert_close(*by_form(one), rtol=1e-12, atol=0)
    joint, marginal = by_form(labels)
    assert abs(joint - marginal) > 1e-3


@ALL_KINDS
@BOTH
def test_missing_labels_are_nothing_at_all(kind: str, form: Form) -> None:
    labels = draw_labels(4, 3, 6, seed=4)
    labels[0] = MISSING
    labels[:, 2] = MISSING
    labels[1, :, 2] = MISSING
    logits = draw_truth(labels, 3)
    parts = draw_parts(kind, labels, 3)
    column, diagonal = matrices_of(kind, parts).see(labels)[:2]
    log_truth = logits.log_softmax(1)
    total, _ = sum_and_count(log_truth, column, labels, form)
    trace = trace_term(diagonal, labels, log_truth.exp(), "all")
    of_truth, *of_parts = torch.autograd.grad(total + trace, [logits, *parts])
    nobody = (labels == MISSING).all(1)
    assert (of_truth.movedim(1, -1)[nobody] == 0).all()
    assert (of_truth.movedim(1, -1)[~nobody] != 0).all()
    for gradient in of_parts:
        if kind == "shared":
            assert (gradient[2] == 0).all()
            assert (gradient[:2] != 0).all()
        else:
            by_pixel = gradient.movedim(-1, 2)
            assert (by_pixel[labels == MISSING] == 0).all()
            assert (by_pixel[labels != MISSING] != 0).any(-1).all()
    # Leaving out the rater and the case changes no bit.
    fewer = [p[:2] if kind == "shared" else p[1:, :2] for p in parts]
    column, _ = matrices_of(kind, fewer).see(labels[1:, :2])[:2]
    assert sum_and_count(log_truth[1:], column, labels[1:, :2], form)[0] == total


def test_nothing_seen_is_zero_and_not_nan() -> None:
    labels = torch.full((2, 3, 4), MISSING)
    logits = draw_truth(labels, 2)
    parts = draw_parts("pixel", labels, 2)
    column, diagonal = matrices_of("pixel", parts).see(labels)[:2]
    loss = negative_log_likelihood(logits.log_softmax(1), column, labels)
    loss = loss + trace_term(diagonal, labels, logits.softmax(1))
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()
    assert (parts[0].grad == 0).all()


@BOTH
def test_sums_of_parts_are_sums_of_the_whole(form: Form) -> None:
    labels = draw_labels(6, 3, 4, seed=5)
    log_truth = draw_truth(labels, 3).log_softmax(1)
    column = matrices_of("shared", draw_parts("shared", labels, 3)).see(labels).log_column
    weights = torch.rand(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parts = [
        sum_and_count(log_truth[s], column[s], labels[s], form, weights[s])
        for s in (slice(0, 2), slice(2, 6))
    ]
    whole = sum_and_count(log_truth, column, labels, form, weights)
    for values in zip(whole, *parts, strict=True):
        torch.testing.assert_close(values[0], values[1] + values[2])
    by_hand = -(log_likelihood(log_truth, column, form) * weights).sum()
    torch.testing.assert_close(whole[0], by_hand)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
@ALL_KINDS
def test_labels_of_any_width(kind: str, dtype: torch.dtype) -> None:
    labels = draw_labels(2, 3, 4, seed=6)
    matrices = matrices_of(kind, draw_parts(kind, labels, 3))
    for wide, narrow in zip(
        matrices.see(labels)[:2], matrices.see(labels.to(dtype))[:2], strict=True
    ):
        assert torch.equal(wide, narrow)
    weights = torch.tensor([1.0, 2.0, 5.0])
    assert torch.equal(pixel_weights(labels, weights), pixel_weights(labels.to(dtype), weights))


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(RatersError, match="'both', expected one of joint, marginal"):
        log_likelihood(torch.zeros(1, 2), torch.zeros(1, 1, 2), "both")  # type: ignore[arg-type]


# The losses as the papers write them: matrices in the order (observed, true).


def test_the_listing_of_global_cm() -> None:
    """It sums the cross entropy over raters, and averages over images; the trace over raters."""
    labels = draw_labels(6, 5, missing=0, seed=9)
    classes = 3
    scale = 0.7
    logits = draw_truth(labels, classes)
    parts = draw_parts("shared", labels, classes)
    rho = parts[0].exp()  # positive, then rows that sum to one; the listing has C[true, observed]
    matrices = rho / rho.sum(-1, keepdim=True)
    by_rater = []
    for r, matrix in enumerate(matrices):
        predicted = (logits.softmax(1) @ matrix).clamp(1e-10, 0.9999999)
        one_hot = nn.functional.one_hot(labels[:, r], classes)
        by_rater.append((-one_hot * predicted.log()).sum(-1))
    cross_entropy = torch.stack(by_rater, 1).sum(1).mean()
    listing = cross_entropy + scale * torch.stack([m.trace() for m in matrices]).mean()

    raters = labels.shape[1]
    column, diagonal = matrices_of("shared", parts).see(labels)[:2]
    loss = negative_log_likelihood(logits.log_softmax(1), column, labels, "marginal")
    trace = trace_term(diagonal, labels, logits.softmax(1), "all")
    ours = loss + from_listing(scale, raters) * trace
    torch.testing.assert_close(raters * ours, listing)


def test_equation_4_of_pixel_cm() -> None:
    """It sums cross entropy and trace over the labels that there are."""
    labels = draw_labels(3, 2, 4, seed=10)
    classes = 3
    scale = 0.4
    logits = draw_truth(labels, classes)
    parts = draw_parts("pixel", labels, classes)
    theirs = parts[0].softmax(3).transpose(2, 3)  # a[i, j] = p(observed i | true j)
    total = torch.zeros((), dtype=torch.float64)
    seen = 0
    for n, r, x in itertools.product(*map(range, labels.shape)):
        label = int(labels[n, r, x])
        if label != MISSING:
            a = theirs[n, r, :, :, x]
            total = total - (a @ logits[n, :, x].softmax(0)).log()[label] + scale * a.trace()
            seen += 1
    column, diagonal = matrices_of("pixel", parts).see(labels)[:2]
    ours = negative_log_likelihood(logits.log_softmax(1), column, labels, "marginal")
    ours = ours + scale * trace_term(diagonal, labels, logits.softmax(1), "all")
    torch.testing.assert_close(ours, total / seen)


def test_a_trace_over_something_else_is_rejected() -> None:
    diagonal = torch.zeros(1, 1, 2)
    labels = torch.zeros(1, 1, dtype=torch.long)
    with pytest.raises(RatersError, match="found a trace over 'rows', expected 'all' or 'truth'"):
        trace_term(diagonal, labels, torch.full((1, 2), 0.5), "rows")  # type: ignore[arg-type]

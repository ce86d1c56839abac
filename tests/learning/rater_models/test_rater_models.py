"""Rater models start near the identity, find known matrices, and have the gradients of calculus."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods.options import ConfusionOptions
from raters.learning.rater_models import (
    FORMS,
    Confusion,
    FixedRaters,
    GlobalRaters,
    LowRankConfusion,
    LowRankRaters,
    PixelConfusion,
    PixelRaters,
    ProductRaters,
    RaterModel,
    SharedConfusion,
    log_column,
    near_identity_logits,
    negative_log_likelihood,
    prior_term,
    trace_term,
)
from raters.learning.rater_models import columns as blocks_module
from raters.learning.rater_models.columns import pixel_columns, table_columns
from raters.learning.rater_models.likelihood import Form
from raters.learning.rater_models.low_rank import start_of_low_rank
from raters.learning.rater_models.start import RIGHT
from tests.support.learning import draw_labels, draw_normal

gradcheck = partial(torch.autograd.gradcheck, fast_mode=True)
BOTH = pytest.mark.parametrize("form", FORMS)
SPACES = pytest.mark.parametrize("space", [(), (4,), (3, 2), (2, 1, 3)])


pytestmark = pytest.mark.usefixtures("one_thread")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw_from_matrices(matrices: Tensor, truth: Tensor, seed: int = 2) -> Tensor:
    """Draw labels `(n, raters)` of matrices `(raters, L, L)` or `(n, raters, L, L)`."""
    n = len(truth)
    raters = matrices.shape[-3]
    every = matrices.expand(n, *matrices.shape[-3:])
    rows = every[torch.arange(n)[:, None], torch.arange(raters), truth[:, None]]
    return torch.multinomial(rows.flatten(0, 1), 1, generator=generator(seed)).view(n, raters)


def raters_of(number: int, classes: int, right: float = 0.6, seed: int = 3) -> Tensor:
    """Draw matrices with different errors."""
    spread = draw_normal(number, classes, classes, seed=seed).softmax(2)
    return right * torch.eye(classes, dtype=torch.float64) + (1 - right) * spread


def frequencies(labels: Tensor, truth: Tensor, classes: int) -> Tensor:
    """Count each rater's labels by true class, `(raters, L, L)`."""
    seen = nn.functional.one_hot(labels, classes).double()
    counts = torch.einsum("nt,nro->rto", nn.functional.one_hot(truth, classes).double(), seen)
    return counts / counts.sum(2, keepdim=True)


def fit_to_optimum(
    model: RaterModel, log_truth: Tensor, labels: Tensor, features: Tensor, form: Form
) -> Confusion:
    """Fit a model to its optimum, with the truth as it is."""
    descent = torch.optim.LBFGS(
        model.parameters(), max_iter=80, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def closure() -> Tensor:
        descent.zero_grad()
        column = log_column(model(features, torch.arange(len(labels))), labels)
        loss = negative_log_likelihood(log_truth, column, labels, form)
        loss.backward()
        return loss

    descent.step(closure)
    return model(features, torch.arange(len(labels)))


def low_rank_of(*shape: int, classes: int = 3, rank: int = 2) -> LowRankConfusion:
    batch, raters, *space = shape
    return LowRankConfusion(
        draw_normal(batch, raters, classes, *space, seed=4),
        draw_normal(batch, raters, classes, rank, *space, seed=5),
        draw_normal(batch, raters, rank, classes, *space, seed=6),
    )


# Gradients


def test_gradients_of_columns() -> None:
    labels = draw_labels(2, 2, 3)
    logits = draw_normal(2, 2, 3, 3, 3).requires_grad_()
    assert gradcheck(lambda z: pixel_columns(z, labels)[:2], logits)


@pytest.mark.parametrize("elements", [1, 200, 1 << 20])
def test_columns_equal_the_plain_form(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "ELEMENTS", elements)
    labels = draw_labels(3, 2, 4)
    logits = draw_normal(3, 2, 3, 3, 4).requires_grad_()
    log_matrix = logits.log_softmax(3)
    index = labels.clamp(min=0)[:, :, None, None].expand(-1, -1, 3, -1, -1)
    column = log_matrix.gather(3, index).squeeze(3) * (labels != MISSING).unsqueeze(2)
    plain = column, log_matrix.diagonal(dim1=2, dim2=3).movedim(-1, 2)
    found = pixel_columns(logits, labels)[:2]
    upstream = [draw_normal(3, 2, 3, 4, seed=k) for k in (8, 9)]
    torch.testing.assert_close(found, plain)
    torch.testing.assert_close(
        torch.autograd.grad(found, logits, upstream), torch.autograd.grad(plain, logits, upstream)
    )


@pytest.mark.parametrize("elements", [1, 20])
def test_low_rank_in_blocks_is_low_rank_at_once(
    elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = draw_labels(3, 2, 4)

    def both_ways() -> list[Tensor]:
        matrices = low_rank_of(3, 2, 4)
        parts = [p.requires_grad_() for p in (matrices.share, matrices.mixture, matrices.errors)]
        seen = matrices.see(labels)[:2]
        upstream = [draw_normal(3, 2, 3, 4, seed=k) for k in (8, 9)]
        return [*seen, *torch.autograd.grad(list(seen), parts, upstream)]

    at_once = both_ways()
    monkeypatch.setattr(blocks_module, "ELEMENTS", elements)
    assert len(list(blocks_module.blocks(draw_normal(3, 2, 3, 2, 4)))) == 6
    torch.testing.assert_close(both_ways(), at_once)


def models(classes: int, features: int, spatial_dims: int) -> dict[str, RaterModel]:
    made = {
        "global": GlobalRaters(2, classes),
        "single": GlobalRaters(1, classes),
        "pixel": PixelRaters(2, classes, features, spatial_dims),
        "low rank": LowRankRaters(2, classes, features, spatial_dims, rank=2),
    }
    for model in made.values():
        model.double()
        for k, parameter in enumerate(model.parameters()):
            parameter.data = draw_normal(*parameter.shape, seed=k) / 2
    return made


@BOTH
@pytest.mark.parametrize("name", ["global", "single", "pixel", "low rank"])
def test_gradients_of_the_whole_loss(name: str, form: Form) -> None:
    model = models(classes=3, features=2, spatial_dims=1)[name]
    labels = draw_labels(2, 2, 3)
    features = draw_normal(2, 2, 3)
    logits = draw_normal(2, 3, 3)
    truth = logits.softmax(1)  # the trace has no gradient to the truth that weights it

    def loss(logits: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(dict(model.named_parameters()), parameters, strict=True))
        matrices = torch.func.functional_call(model, named, (features, torch.arange(2)))
        column, diagonal = matrices.see(labels)[:2]
        value = negative_log_likelihood(logits.log_softmax(1), column, labels, form)
        return (
            value
            + 0.3 * trace_term(diagonal, labels, truth)
            + trace_term(diagonal, labels, truth, "all")
        )

    assert gradcheck(loss, (logits.requires_grad_(), *model.parameters()))


def test_gradients_of_low_rank() -> None:
    labels = draw_labels(2, 2, 3)
    parts = low_rank_of(2, 2, 3)
    leaves = [p.requires_grad_() for p in (parts.share, parts.mixture, parts.errors)]
    assert gradcheck(lambda *p: tuple(LowRankConfusion(*p).see(labels)[:2]), leaves)


def test_distance_is_kl_and_its_gradient() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 2, 3, 3, 4, generator=generator).double().requires_grad_()
    common = torch.randn(3, 3, generator=generator).double().log_softmax(1)
    labels = torch.randint(-1, 3, (2, 2, 4), generator=generator)
    truth = torch.rand(2, 3, 4, generator=generator).double().softmax(1)

    def prior(z: Tensor) -> tuple[Tensor, ...]:
        seen = PixelConfusion(z, common[None]).see(labels)
        assert seen.distance is not None
        return prior_term(seen.distance, labels, truth), seen.log_column, seen.log_diagonal

    assert gradcheck(prior, (logits,))
    total = 0.0
    count = 0
    for b, r, x in np.ndindex(2, 2, 4):
        if labels[b, r, x] != MISSING:
            count += 1
            for t in range(3):
                row = logits[b, r, t, :, x].softmax(0)
                total += truth[b, t, x] * (row * (row.log() - common[t])).sum()
    torch.testing.assert_close(prior(logits)[0], total / count)


@pytest.mark.parametrize("space", [(), (3, 2)])
def test_distance_to_own_matrices(space: tuple[int, ...]) -> None:
    """It is zero where all matrices are the rater's own, and has the gradient of calculus."""
    generator = torch.Generator().manual_seed(5)
    own = torch.randn(2, 3, 3, generator=generator).double().log_softmax(2)
    labels = torch.randint(-1, 3, (2, 2, *space), generator=generator)
    constant = own.view(1, 2, 3, 3, *(1,) * len(space)).expand(2, 2, 3, 3, *space)
    found = PixelConfusion(constant + 0.7, own).see(labels).distance
    assert found is not None
    assert found.abs().max() < 1e-12
    swapped = PixelConfusion(constant, own.flip(0)).see(labels).distance
    assert swapped is not None
    assert swapped.min() > 1e-3
    leaf = torch.randn(2, 2, 3, 3, *space, generator=generator).double().requires_grad_()
    truth = torch.rand(2, 3, *space, generator=generator).double().softmax(1)

    def prior(z: Tensor) -> Tensor:
        distance = PixelConfusion(z, own).see(labels).distance
        assert distance is not None
        return prior_term(distance, labels, truth)

    assert gradcheck(prior, (leaf,))
    prior(leaf).backward()
    missing = (labels == MISSING)[:, :, None, None].expand_as(leaf)
    assert not leaf.grad[missing].any()
    assert leaf.grad[~missing].any()


def test_own_matrices_of_a_blank_rater_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is compared with the matrix of who gave it, however the work is cut."""
    logits = draw_normal(3, 4, 2, 2, 5)
    own = draw_normal(4, 2, 2).log_softmax(2)
    labels = torch.randint(0, 2, (3, 2, 5))
    who = torch.tensor([[3, 0], [1, 1], [2, 3]])
    at_once = PixelConfusion(logits, own).see(labels, who).distance
    monkeypatch.setattr(blocks_module, "ELEMENTS", 1)
    in_blocks = PixelConfusion(logits, own).see(labels, who).distance
    assert at_once is not None
    assert in_blocks is not None
    torch.testing.assert_close(at_once, in_blocks)
    row = logits[1, 1, 0, :, 4].softmax(0)
    torch.testing.assert_close(at_once[1, 1, 0, 4], (row * (row.log() - own[1, 0])).sum())


def test_own_matrices_are_means_over_disputed_pixels() -> None:
    """Agreed background, however much of it, does not make a false positive rare."""
    right = torch.eye(2)
    wrong = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    rare = torch.stack([right, wrong])[:, :, :, None]  # the second marks what is background
    agreed = torch.stack([right, right])[:, :, :, None].expand(2, 2, 2, 99)
    logits = (torch.cat([rare, agreed], 3) + 1e-6).log()[None]
    truth = torch.tensor([[1.0], [0.0]]).expand(2, 100)[None]
    model = PixelRaters(2, 2, 1, 1, compares="own")
    labels = torch.zeros(1, 2, 100, dtype=torch.long)
    model.learn(PixelConfusion(logits), truth, labels, torch.zeros(1))
    assert model.own is not None
    found = model.own.log_matrix().exp()
    near = near_identity_logits(2, RIGHT).softmax(1)
    torch.testing.assert_close(found[0, 0], 0.9 * right[0] + 0.1 * near[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(found[1, 0], 0.9 * wrong[0] + 0.1 * near[0], atol=1e-3, rtol=0)
    copy = PixelRaters(2, 2, 1, 1, compares="own")
    copy.load_state_dict(model.state_dict())
    assert copy.own is not None
    assert torch.equal(copy.own.log_matrix(), model.own.log_matrix())


def test_own_matrices_do_not_look_where_nobody_labelled() -> None:
    logits = torch.randn(2, 2, 2, 2, 6, generator=torch.Generator().manual_seed(5))
    truth = torch.rand(2, 2, 6, generator=torch.Generator().manual_seed(6)).softmax(1)
    labels = torch.zeros(2, 2, 6, dtype=torch.long)
    labels[:, 0] = MISSING
    labels[:, 1, 3:] = MISSING
    labels[1, 1] = MISSING
    whole, part = (PixelRaters(2, 2, 1, 1, compares="own") for _ in range(2))
    cases = torch.arange(2)
    whole.learn(PixelConfusion(logits), truth, labels, cases)
    part.learn(PixelConfusion(logits[:1, ..., :3]), truth[:1, :, :3], labels[:1, :, :3], cases[:1])
    assert whole.own is not None and part.own is not None
    assert part.own.sums.sum() > 0
    torch.testing.assert_close(whole.own.sums, part.own.sums)


def test_one_share_of_right_labels_at_the_start() -> None:
    assert ConfusionOptions().init_accuracy == RIGHT


def test_distance_knows_who_answered() -> None:
    """A rater who answers twice counts twice, one who does not answer not at all."""
    logits = torch.randn(1, 3, 2, 2, generator=torch.Generator().manual_seed(4))
    common = torch.eye(2).log_softmax(1)[None]
    truth = torch.tensor([[0.3, 0.7]])
    answers = torch.tensor([[0, 1, MISSING]])
    raters = torch.tensor([[2, 2, 0]])
    twice = PixelConfusion(logits, common).see(answers, raters).distance
    alone = PixelConfusion(logits[:, 2:], common).see(answers[:, :1]).distance
    assert twice is not None
    assert alone is not None
    torch.testing.assert_close(
        prior_term(twice, answers, truth), prior_term(alone, answers[:, :1], truth)
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("kind", ["pixel", "low rank"])
def test_one_graph_for_torch_compile(kind: str) -> None:
    labels = draw_labels(2, 2, 3)
    truth = draw_normal(2, 3, 3)
    low = low_rank_of(2, 2, 3)
    parts = {
        "pixel": [draw_normal(2, 2, 3, 3, 3)],
        "low rank": [low.share, low.mixture, low.errors],
    }[kind]
    forms = {"pixel": PixelConfusion, "low rank": LowRankConfusion}
    leaves = [p.requires_grad_() for p in parts]

    def loss(*leaves: Tensor) -> Tensor:
        column, diagonal = forms[kind](*leaves).see(labels)[:2]
        value = negative_log_likelihood(truth.log_softmax(1), column, labels, "marginal")
        return value + trace_term(diagonal, labels, truth.softmax(1), "all")

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected = loss(*leaves)
    found = compiled(*leaves)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves)
    )


# The start


@pytest.mark.parametrize("classes", [2, 3, 10, 200])
@pytest.mark.parametrize("right", [0.6, 0.95])
def test_start_near_the_identity(classes: int, right: float) -> None:
    features = torch.randn(2, 4, 3, generator=generator(0))
    cases = torch.arange(2)
    exact = torch.full((classes, classes), (1 - right) / (classes - 1)).fill_diagonal_(right)
    torch.testing.assert_close(near_identity_logits(classes, right).softmax(1), exact)
    for model in (GlobalRaters(2, classes, right), PixelRaters(2, classes, 4, 1, right)):
        matrix = model(features, cases).matrix()
        by_pixel = matrix.movedim(4, 0) if matrix.ndim == 5 else matrix
        torch.testing.assert_close(by_pixel, exact.expand_as(by_pixel))
    for rank in {1, min(5, classes)}:
        matrix = LowRankRaters(2, classes, 4, 1, rank, right)(features, cases).matrix()
        torch.testing.assert_close(matrix.sum(3), torch.ones_like(matrix.sum(3)))
        diagonal = matrix.diagonal(dim1=2, dim2=3)
        assert diagonal.mean().item() == pytest.approx(right, abs=1e-4)
        assert (diagonal > right - 0.2 * (1 - right)).all()
        off = matrix[0, 0, :, :, 0] - torch.diag(matrix[0, 0, :, :, 0].diagonal())
        assert (diagonal.min() > off.max()).item()


def test_impossible_starts_are_refused() -> None:
    with pytest.raises(RatersError, match="1 class, expected at least 2"):
        near_identity_logits(1, 0.9)
    for right in (1.0, 0.25):
        with pytest.raises(RatersError, match=f"start of {right} on the diagonal"):
            near_identity_logits(4, right)
    for rank in (0, 4):
        with pytest.raises(RatersError, match=f"rank {rank}, expected 1 to 3"):
            start_of_low_rank(3, rank, 0.9)


@SPACES
@pytest.mark.parametrize("name", ["global", "single", "pixel", "low rank"])
def test_held_models_stay_at_their_start(name: str, space: tuple[int, ...]) -> None:
    features = draw_normal(2, 2, *space)
    labels = draw_labels(2, 2, *space, missing=0)
    spatial_dims = len(space)
    fresh = {
        "global": GlobalRaters(2, 3),
        "single": GlobalRaters(1, 3),
        "pixel": PixelRaters(2, 3, 2, spatial_dims),
        "low rank": LowRankRaters(2, 3, 2, spatial_dims, rank=2),
    }[name].double()
    start = [t.detach() for t in fresh(features, torch.arange(2)).see(labels)[:2]]
    model = models(3, 2, spatial_dims)[name]
    free = model(features, torch.arange(2)).see(labels)
    assert free.log_column.requires_grad
    assert (free.log_column - start[0]).abs().max() > 0.1
    model.held = True
    # Matrices differ from the fresh model's by float32's rounding of the start.
    model.start = fresh.start
    held = model(features, torch.arange(2)).see(labels)
    assert held.log_column.shape == (2, 2, 3, *space)
    assert not held.log_column.requires_grad
    assert not held.log_diagonal.requires_grad
    torch.testing.assert_close(held.log_column, start[0])
    torch.testing.assert_close(held.log_diagonal.expand_as(start[0]), start[1].expand_as(start[0]))


# Known matrices are found


def test_global_matrices_are_found_without_the_truth() -> None:
    """Joint form; the truth is unknown but for what features say of it."""
    classes = 3
    n = 6000
    log_truth = (4 * draw_normal(n, classes, seed=11)).log_softmax(1)
    truth = torch.multinomial(log_truth.exp(), 1, generator=generator(12))[:, 0]
    known = raters_of(3, classes)
    labels = draw_from_matrices(known, truth)
    model = GlobalRaters(3, classes).double()
    start = model(log_truth, torch.arange(n)).matrix()[0].detach()
    found = fit_to_optimum(model, log_truth, labels, log_truth, "joint").matrix()[0].detach()
    number = torch.bincount(truth).view(1, -1, 1)
    error = (known * (1 - known) / number).sqrt()  # of counting, had the truth been known
    assert ((found - known).abs() < 4.5 * error).all()
    assert ((start - known).abs() > 4.5 * error).any()
    # The vote, as truth, is worse: fitting uses more than one rater's labels and the prior.
    votes = frequencies(labels, labels.mode(1).values, classes)
    assert (votes - known).norm() > 2 * (found - known).norm()


@pytest.mark.parametrize("shared", [False, True])
def test_matrices_are_frequencies_where_the_truth_is_known(shared: bool) -> None:
    classes = 3
    n = 600
    truth = torch.arange(n) % classes
    labels = draw_from_matrices(raters_of(2, classes), truth)
    log_truth = nn.functional.one_hot(truth, classes).double().log()
    model = GlobalRaters(1 if shared else 2, classes).double()
    found = fit_to_optimum(model, log_truth, labels, log_truth, "marginal").matrix()[0].detach()
    expected = frequencies(labels, truth, classes)
    expected = expected.mean(0, keepdim=True) if shared else expected
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert (found - raters_of(2, classes)[: len(found)]).abs().max() < 0.15


def test_pixel_wise_matrices_are_found_where_the_truth_is_known() -> None:
    """Matrices depend on a feature of the pixel: right where it is 0, else often wrong."""
    classes = 2
    pixels = 3000
    truth = torch.arange(pixels) % 2
    feature = (torch.arange(pixels) // 2) % 2
    known = torch.stack([raters_of(2, classes, 0.9), raters_of(2, classes, 0.2, seed=5)])
    labels = draw_from_matrices(known[feature], truth)
    log_truth = nn.functional.one_hot(truth, classes).double().log().T.view(1, classes, 50, 60)
    images = labels.T.reshape(1, 2, 50, 60)
    features = feature.double().view(1, 1, 50, 60)
    model = PixelRaters(2, classes, features=1, spatial_dims=2).double()
    found = fit_to_optimum(model, log_truth, images, features, "marginal").matrix().detach()
    by_pixel = found.flatten(4)[0].movedim(-1, 0)
    for value in (0, 1):
        here = feature == value
        expected = frequencies(labels[here], truth[here], classes)
        torch.testing.assert_close(by_pixel[here][0], expected, atol=1e-3, rtol=0)
        assert (by_pixel[here][0] - known[value]).abs().max() < 0.06
    assert (known[0] - known[1]).abs().max() > 0.3


# Whose matrix an answer gets


@SPACES
def test_known_matrices(space: tuple[int, ...]) -> None:
    labels = draw_labels(4, 2, *space)
    cases = torch.tensor([3, 0, 0, 4])
    features = torch.zeros(4, 1, *space)
    by_rater = raters_of(2, 3).float()
    by_case = raters_of(5 * 2, 3).float().view(5, 2, 3, 3)
    for known in (by_rater, by_case):
        column, diagonal = FixedRaters(known)(features, cases).see(labels)[:2]
        for b, r, *x in torch.cartesian_prod(*map(torch.arange, labels.shape)).tolist():
            matrix = known[r] if known.ndim == 3 else known[cases[b], r]
            o = labels[(b, r, *x)]
            expected = matrix[:, o] if o != MISSING else torch.ones(3)
            torch.testing.assert_close(column[(b, r, slice(None), *x)].exp(), expected)
            broad = diagonal.expand_as(column)[(b, r, slice(None), *x)]
            torch.testing.assert_close(broad.exp(), matrix.diagonal())
    assert not list(FixedRaters(by_rater).parameters())


def test_known_matrices_keep_off_zero_and_must_be_matrices() -> None:
    matrix = FixedRaters(torch.eye(2)[None])(torch.zeros(1, 1), torch.arange(1)).matrix()[0, 0]
    assert 0 < matrix[0, 1] < 2e-4
    torch.testing.assert_close(matrix.sum(1), torch.ones(2))
    with pytest.raises(RatersError, match=r"rows off by 0\.2"):
        FixedRaters(torch.tensor([[[0.9, 0.3], [0.5, 0.5]]]))
    with pytest.raises(RatersError, match="found known matrices of 2x3"):
        FixedRaters(torch.ones(2, 3) / 3)


@SPACES
@pytest.mark.parametrize("kind", ["shared", "by case", "pixel", "low rank", "one for all"])
def test_answers_name_their_rater(kind: str, space: tuple[int, ...]) -> None:
    """A rater may answer twice; answers that are not there are filled up with -1."""
    batch = 2
    raters = 3
    classes = 3
    confusion: Confusion = {
        "shared": SharedConfusion(draw_normal(1, raters, classes, classes).log_softmax(3)),
        "by case": SharedConfusion(draw_normal(batch, raters, classes, classes).log_softmax(3)),
        "one for all": SharedConfusion(draw_normal(1, 1, classes, classes).log_softmax(3)),
        "pixel": PixelConfusion(draw_normal(batch, raters, classes, classes, *space)),
        "low rank": low_rank_of(batch, raters, *space),
    }[kind]
    who = torch.tensor([[2, 0, 2, 1], [1, 1, 0, -1]])
    labels = draw_labels(batch, 4, *space, missing=0)
    labels[1, 3] = MISSING
    column, diagonal = confusion.see(labels, who)[:2]
    diagonal = diagonal.expand_as(column)
    assert (column[1, 3] == 0).all()
    for b in range(batch):
        for k in range(4 - b):
            every = torch.full((batch, raters, *space), MISSING)
            every[b, who[b, k]] = labels[b, k]
            one = confusion.see(every)
            torch.testing.assert_close(column[b, k], one.log_column[b, who[b, k]])
            expected = one.log_diagonal.expand_as(one.log_column)[b, who[b, k]]
            torch.testing.assert_close(diagonal[b, k], expected)


def test_one_pixel_wise_matrix_for_all_raters() -> None:
    logits = draw_normal(2, 1, 3, 3, 4).requires_grad_()
    labels = draw_labels(2, 3, 4)
    one = PixelConfusion(logits).see(labels)[:2]
    each = PixelConfusion(logits.repeat(1, 3, 1, 1, 1)).see(labels)[:2]
    torch.testing.assert_close(one, each)
    upstream = [draw_normal(2, 3, 3, 4, seed=k) for k in (8, 9)]
    torch.testing.assert_close(
        torch.autograd.grad(list(one), logits, upstream),
        torch.autograd.grad(list(each), logits, upstream),
    )


# Forms of matrices


@SPACES
@pytest.mark.parametrize("kind", ["shared", "by case", "pixel", "low rank", "held low rank"])
def test_means_are_means_of_the_matrix(kind: str, space: tuple[int, ...]) -> None:
    batch = 3
    raters = 2
    classes = 3
    confusion: Confusion = {
        "shared": SharedConfusion(draw_normal(1, raters, classes, classes).log_softmax(3)),
        "by case": SharedConfusion(draw_normal(batch, raters, classes, classes).log_softmax(3)),
        "pixel": PixelConfusion(draw_normal(batch, raters, classes, classes, *space)),
        "low rank": low_rank_of(batch, raters, *space),
        "held low rank": low_rank_of(1, raters, *(1 for _ in space)),
    }[kind]
    truth = draw_normal(batch, classes, *space, seed=9).softmax(1)
    matrix = confusion.matrix()
    matrix = matrix.view(*matrix.shape, *(1,) * (4 + len(space) - matrix.ndim))
    matrix = matrix.expand(batch, raters, classes, classes, *space)
    weights = truth[:, None, :, None]
    over = (0, *range(4, 4 + len(space)))
    expected = (matrix * weights).sum(over) / weights.sum(over)
    torch.testing.assert_close(confusion.mean(truth), expected)
    torch.testing.assert_close(matrix.sum(3), torch.ones_like(matrix.sum(3)))
    # The row of a class that is nowhere is the plain mean: it still sums to one.
    truth[:, 1] = 0
    row = confusion.mean(truth)[:, 1]
    torch.testing.assert_close(row, matrix[:, :, 1].mean((0, *range(3, 3 + len(space)))))


@SPACES
def test_low_rank_columns_are_those_of_its_matrix(space: tuple[int, ...]) -> None:
    labels = draw_labels(2, 2, *space)
    confusion = low_rank_of(2, 2, *space)
    full = PixelConfusion(confusion.matrix().log()).see(labels)[:2]
    torch.testing.assert_close(tuple(confusion.see(labels)[:2]), tuple(full))


def test_full_rank_is_any_matrix_and_rank_one_has_unequal_rows() -> None:
    target = draw_normal(1, 2, 4, 4).softmax(3)
    certain = torch.full((1, 2, 4), 60.0, dtype=torch.float64)
    selects = 60 * torch.eye(4, dtype=torch.float64).expand(1, 2, 4, 4)
    full = LowRankConfusion(certain, selects, target.log())
    torch.testing.assert_close(full.matrix(), target)
    labels = draw_labels(1, 2, classes=4)
    expected = SharedConfusion(target.log()).see(labels)[:2]
    torch.testing.assert_close(tuple(full.see(labels)[:2]), tuple(expected))
    rank_one = low_rank_of(1, 1, classes=4, rank=1).matrix()[0, 0]
    assert torch.pdist(rank_one).min() > 0.1
    torch.testing.assert_close(rank_one.sum(1), torch.ones(4, dtype=torch.float64))
    # Off the diagonal it is of rank 1, with a_t before it: rows are alike there.
    off = rank_one[:2, 2:]
    torch.testing.assert_close(off[0, 0] * off[1, 1], off[0, 1] * off[1, 0])


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation gives."""

    numel = 0

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_low_rank_never_forms_the_matrix(rank: int) -> None:
    classes = 30
    pixels = 8
    labels = draw_labels(2, 3, pixels, classes=classes)
    model = LowRankRaters(3, classes, features=2, spatial_dims=1, rank=rank)
    features = torch.randn(2, 2, pixels, generator=generator(0))

    def step(model: RaterModel) -> int:
        with Largest() as largest:
            column, diagonal = model(features, torch.arange(2)).see(labels)[:2]
            (column.sum() + diagonal.sum()).backward()
        return largest.numel

    all_factors = 2 * 3 * pixels * classes * (2 * rank + 1)  # the head's output
    assert step(model) <= all_factors
    assert step(PixelRaters(3, classes, 2, 1)) >= 2 * 3 * pixels * classes**2


def test_trace_over_the_truth_leaves_other_rows_alone() -> None:
    logits = draw_normal(1, 1, 3, 3, 2).requires_grad_()
    labels = torch.tensor([[[0, 1]]])
    truth = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], dtype=torch.float64)
    diagonal = PixelConfusion(logits).see(labels).log_diagonal
    trace_term(diagonal, labels, truth.requires_grad_()).backward()
    assert truth.grad is None
    rows = logits.grad[0, 0].abs().sum(1)
    assert ((rows > 0) == (truth[0] > 0)).all()
    with pytest.raises(RatersError, match="trace over 'some'"):
        trace_term(diagonal, labels, truth, "some")  # type: ignore[arg-type]


def test_numbers_far_out_stay_numbers() -> None:
    labels = torch.tensor([[0, 1, MISSING]])
    logits = torch.tensor([[-1e4, 1e4], [1e4, -1e4]])[None, None].repeat(1, 3, 1, 1)
    parts = [logits[..., 0], logits, logits]
    for confusion in (PixelConfusion(logits.requires_grad_()), LowRankConfusion(*parts)):
        column, diagonal = confusion.see(labels)[:2]
        log_truth = torch.tensor([[200.0, -200.0]]).log_softmax(1)
        loss = negative_log_likelihood(log_truth, column, labels)
        loss = loss + trace_term(diagonal, labels, log_truth.exp(), "all")
        (gradient,) = torch.autograd.grad(loss, logits)
        assert np.isfinite(loss.item())
        assert gradient.isfinite().all()


@pytest.mark.parametrize("init_accuracy", [0.2, 1.0])
def test_low_rank_matrices_start_above_chance_and_below_certainty(init_accuracy: float) -> None:
    with pytest.raises(RatersError, match=f"{init_accuracy:g}"):
        LowRankRaters(2, 3, 4, 2, init_accuracy=init_accuracy)


def test_a_product_has_at_least_one_column() -> None:
    rank_one = ProductRaters(2, 3, 4, 0, rank=1)(torch.zeros(1, 4), torch.zeros(1)).matrix()
    torch.testing.assert_close(rank_one[:, :, 0], rank_one[:, :, 1])  # rank 1: all rows are equal
    with pytest.raises(RatersError, match="rank 0, expected 1 to 3"):
        ProductRaters(2, 3, 4, 0, rank=0)


@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("cases", [1, 2])
@pytest.mark.parametrize("space", [(), (4, 3), (2, 3, 2)])
def test_gradients_of_shared_matrices_add_up_over_their_labels(
    space: tuple[int, ...], cases: int, kept: int
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 4, (2, 3, *space))
    matrices = torch.from_numpy(rng.standard_normal((cases, kept, 4, 4))).requires_grad_()
    weights = rng.standard_normal((2, 3, 4, *space))
    flipped = np.asfortranarray(labels).astype(np.int16)  # as augmentation leaves them
    column = table_columns(matrices, torch.from_numpy(flipped))
    (column * torch.from_numpy(weights)).sum().backward()
    expected = np.zeros(matrices.shape)
    for (b, r, *x), o in np.ndenumerate(labels):
        for t in range(4):
            at = min(b, cases - 1), min(r, kept - 1), t, o
            value = float(matrices[at].detach()) if o != MISSING else 0.0
            assert float(column[(b, r, t, *x)].detach()) == value
            if o != MISSING:
                expected[at] += weights[(b, r, t, *x)]
    assert matrices.grad is not None
    np.testing.assert_allclose(matrices.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_certain_matrices_have_columns_of_minus_infinity_and_no_nan() -> None:
    log_matrix = torch.eye(2).log()[None, None].requires_grad_()
    column = table_columns(log_matrix, torch.tensor([[0, 1, MISSING]]))
    assert column.exp().tolist() == [[[1, 0], [0, 1], [1, 1]]]
    torch.logsumexp(column, 2).sum().backward()
    assert log_matrix.grad is not None
    assert bool(log_matrix.grad.isfinite().all())

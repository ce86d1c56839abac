"""`prism`: fusion by confidences and the losses, against loops; what a step is made of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.core.errors import RatersError
from raters.learning.methods import learning_method
from raters.learning.methods.base import Task
from raters.learning.methods.prism import SHUFFLES, Prism
from raters.learning.methods.prism_confidence import (
    HIGHEST,
    LOWEST,
    SEEN,
    Diverged,
    confidence_of,
    diverged,
    draw_confidence,
    draw_order,
    skill_of,
    skilled,
    started,
)
from raters.learning.methods.prism_losses import (
    SIGMA,
    WINDOW,
    heads_loss,
    recurrence_loss,
    shuffle_loss,
    ssim,
    ssim_loss,
)
from raters.learning.methods.targets import votes_of
from raters.learning.networks import NetworkOptions, TruthNetwork, build_backbone
from raters.learning.networks.prism import Attention
from raters.learning.rater_models import confidence as c
from raters.learning.rater_models.confusion import SharedConfusion
from raters.learning.rater_models.likelihood import posterior
from tests.support.learning import add_noise

B = 2
R = 3
L = 3
SPACE = (5, 6)
COST = [1.0, 2.0, 0.5]
BY = pytest.mark.parametrize("by", ["bayes", "weights"])


def draw_divergence(seed: int = 0) -> tuple[Diverged, Tensor, Tensor]:
    """Draw matrices, a truth and labels with gaps; rater 1 has nothing of case 1."""
    rng = np.random.default_rng(seed)
    truth = torch.from_numpy(rng.dirichlet(np.ones(L), (B, *SPACE))).movedim(-1, 1)
    logits = torch.from_numpy(rng.normal(0, 1.5, (B, R, L * L, *SPACE))).requires_grad_()
    labels = rng.integers(-1, L, (B, R, *SPACE))
    labels[1, 1] = -1
    labels[0, :, 0, 0] = -1
    return diverged(truth, logits, "bayes"), truth, torch.from_numpy(labels)


def diverged_by(by: Any) -> tuple[Diverged, Tensor, Tensor]:
    found, truth, labels = draw_divergence()
    return (found if by == "bayes" else Diverged(found.said, None)), truth, labels


def in_shuffles(found: Diverged, votes: Tensor) -> Tensor:
    """Fuse as shuffles do: by weights with one vote more, for all classes alike."""
    fused = found.fused(votes)
    number = (votes >= 0).sum(1, keepdim=True)
    return fused if found.log_matrix is not None else (number * fused + 1 / L) / (number + 1)


# Fusion


def test_bayes_is_the_posterior_of_the_true_matrices() -> None:
    """Cases are drawn from the model; how often a class is true among equal labels is counted."""
    rng = np.random.default_rng(0)
    prior = np.array([0.5, 0.2, 0.3])
    matrices = rng.dirichlet([1.0, 1.0, 1.0], (2, 3)) * 0.5 + np.eye(3) * 0.5
    truth = rng.choice(3, 400_000, p=prior)
    rolls = rng.random((2, len(truth)))
    said = np.stack([(rolls[m, :, None] > matrices[m, truth].cumsum(1)).sum(1) for m in range(2)])
    pairs = np.stack(np.divmod(np.arange(9), 3), 1)
    log_matrix = torch.from_numpy(matrices).log().expand(9, 2, 3, 3)
    found = c.bayes(log_matrix, torch.from_numpy(pairs), torch.from_numpy(prior).log()[None])
    for (a, b), row in zip(pairs, found.numpy(), strict=True):
        among = truth[(said[0] == a) & (said[1] == b)]
        np.testing.assert_allclose(row, np.bincount(among, minlength=3) / len(among), atol=0.012)
    shared = SharedConfusion(torch.from_numpy(matrices).log()[None])
    column = shared.see(torch.from_numpy(pairs)).log_column
    expected = posterior(torch.from_numpy(prior).log()[None], column)
    torch.testing.assert_close(found, expected)  # our joint posterior


def test_bayes_by_loops_where_matrices_vary_and_labels_miss() -> None:
    found, truth, labels = draw_divergence()
    assert found.log_matrix is not None
    matrices = found.log_matrix.detach().exp().numpy()
    given = labels.numpy()
    for prior in (None, truth.log()):
        fused = c.bayes(found.log_matrix, labels, prior).detach().numpy()
        for b, *x in np.ndindex(B, *SPACE):
            p = np.ones(L) if prior is None else truth[(b, slice(None), *x)].numpy().copy()
            for m in range(R):
                o = given[(b, m, *x)]
                if o >= 0:
                    p *= matrices[(b, m, slice(None), o, *x)]
            np.testing.assert_allclose(fused[(b, slice(None), *x)], p / p.sum(), rtol=1e-6)


def test_three_good_raters_are_believed() -> None:
    """The printed equation 4 would give softmax([0, 3 log 0.9]) = 0.42 for what all of them say."""
    matrix = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().expand(1, 3, 2, 2)
    fused = c.bayes(matrix, torch.tensor([[1, 1, 1]]))[0, 1]
    assert float(fused) == pytest.approx(0.9**3 / (0.9**3 + 0.1**3))
    assert float(torch.tensor([0.0, 3 * np.log(0.9)]).softmax(0)[1]) == pytest.approx(
        0.42, abs=0.01
    )


def test_raters_who_never_err_decide() -> None:
    exact = torch.eye(2).log().expand(1, 1, 2, 2)
    unsure = torch.full((1, 1, 2, 2), 0.5).log()
    fused = c.bayes(torch.cat([exact, unsure], 1), torch.tensor([[1, 0]]))
    torch.testing.assert_close(fused, torch.tensor([[0.0, 1.0]]))


def test_weights_are_a_mean_of_masks_by_normalised_confidences() -> None:
    found, _, labels = draw_divergence()
    trusted = found.said.detach().numpy()
    given = labels.numpy()
    fused = c.weights(found.said, labels).detach().numpy()
    shared = 0
    for b, *x in np.ndindex(B, *SPACE):
        there = [m for m in range(R) if given[(b, m, *x)] >= 0]
        y = np.zeros(L)
        for k in range(1, L):
            total = sum(trusted[(b, m, k, *x)] for m in there)
            y[k] = sum(trusted[(b, m, k, *x)] / total for m in there if given[(b, m, *x)] == k)
        shared += y.sum() > 1.01  # by classes that get more than one together
        y = y / max(y.sum(), 1)
        y[0] = 1 - y.sum()
        expected = y if there else np.full(L, 1 / L)
        np.testing.assert_allclose(fused[(b, slice(None), *x)], expected, rtol=1e-4, atol=1e-6)
    assert shared


def test_weights_of_heads_that_know_their_raters_are_no_tie() -> None:
    """Whoever marks is confident of the mark: the background has no confidence to outweigh it."""
    labels = torch.tensor([[1, 0, 0]])
    sure = torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.9, 0.1]]])
    torch.testing.assert_close(c.weights(sure, labels), torch.tensor([[2 / 11, 9 / 11]]))
    unsure = torch.tensor([[[0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]])
    torch.testing.assert_close(c.weights(unsure, labels), torch.tensor([[18 / 19, 1 / 19]]))


def test_equal_confidences_are_a_vote() -> None:
    _, _, labels = draw_divergence()
    even = torch.full((B, R, L, *SPACE), 0.3)
    counts = torch.stack([(labels == k).sum(1) for k in range(L)], 1).float()
    known = counts.sum(1, keepdim=True)
    mean = torch.where(known > 0, counts / known.clamp(min=1), torch.tensor(1 / L))
    torch.testing.assert_close(started(even, labels, "weights"), mean, rtol=1e-4, atol=1e-6)
    ties = counts.topk(2, 1).values.diff(dim=1) == 0
    best = started(even, labels, "bayes").argmax(1, keepdim=True)
    assert ((best == counts.argmax(1, keepdim=True)) | ties).all()


@BY
def test_confidences_of_equal_raters_may_be_shuffled(by: Any) -> None:
    found, _, labels = diverged_by(by)
    order = torch.tensor([[2, 0, 1], [1, 0, 2]])
    near: Any = {"rtol": 1e-4, "atol": 1e-5}  # confidences have a floor
    orders = torch.stack([order, torch.arange(R).expand(B, R)])
    fused = in_shuffles(found, labels)
    other, stayed = found.shuffled(orders, labels)[0]
    assert (other - fused).abs().max() > 0.1  # of unequal ones it matters
    torch.testing.assert_close(stayed, fused, **near)
    alike = Diverged(*(None if p is None else p[:, :1].expand_as(p) for p in found))
    same = in_shuffles(alike, labels)
    torch.testing.assert_close(alike.shuffled(orders, labels)[0][0], same, **near)


@BY
def test_overlapping_structures_are_fused_each_by_itself(by: Any) -> None:
    rng = np.random.default_rng(1)
    labels = torch.from_numpy(rng.integers(-1, 2, (B, R, 2, *SPACE)))  # disc and cup
    front = (B, R, 2, 2, 2) if by == "bayes" else (B, R, 2, 2)
    given = torch.from_numpy(rng.random((*front, *SPACE)))
    fuse: Any = c.weights
    if by == "bayes":
        given = given.log_softmax(4)
        fuse = c.bayes
    found = c.by_layer(fuse, given, labels)
    for k in range(2):
        torch.testing.assert_close(found[:, k], fuse(given[:, :, k], labels[:, :, k])[:, 1])


@BY
def test_y_self_fuses_what_raters_would_say(by: Any) -> None:
    found = diverged_by(by)[0]
    said = found.said.detach().numpy()
    thought = np.full((B, R, *SPACE), -1)
    for b, m, *x in np.ndindex(B, R, *SPACE):
        for k in range(L):
            if said[(b, m, k, *x)] > 0.5 and m != 1:
                thought[(b, m, *x)] = k
    assert (thought[:, 0] == -1).any() and (thought[:, 0] >= 0).any()  # of three, none may be above
    expected = found.fused(torch.from_numpy(thought))
    torch.testing.assert_close(found.self_fused(torch.tensor([True, False, True])), expected)


def test_said_is_the_truth_through_the_matrices() -> None:
    found, truth, _ = draw_divergence()
    assert found.log_matrix is not None
    expected = np.einsum("bkyx,bmktyx->bmtyx", truth, found.log_matrix.detach().exp())
    np.testing.assert_allclose(found.said.detach(), expected, rtol=1e-6)
    expected = np.einsum("bkyx,bmkkyx->bmyx", truth, found.log_matrix.detach().exp())
    everyone = torch.ones(R, dtype=torch.bool)
    np.testing.assert_allclose(found.trust(truth, everyone).detach(), expected, rtol=1e-6)
    shares = Diverged(found.said, None).trust(truth, everyone).sum(1)
    torch.testing.assert_close(shares, torch.ones_like(shares))


def test_skill_and_matrices_say_the_same() -> None:
    skill = 0.95 * torch.rand(B, R, L, *SPACE)  # below the cap
    matrix = skilled(skill).exp()
    torch.testing.assert_close(matrix.sum(3), torch.ones(B, R, L, *SPACE))
    torch.testing.assert_close(skill_of(matrix.log()), skill)
    assert (matrix.diagonal(dim1=2, dim2=3) >= 1 / L).all()  # nobody means the contrary


def test_nobody_is_believed_without_limit() -> None:
    """A skill of 1 is that of a rater right in all labels that were seen, and one more of each."""
    sure = skilled(torch.ones(1, 1, L)).exp()
    right = (SEEN + 1) / (SEEN + L)
    wrong = 1 / (SEEN + L)
    expected = torch.full((L, L), wrong).fill_diagonal_(right)
    torch.testing.assert_close(sure[0, 0], expected)
    skill = torch.tensor([[[1.0] * 2, [0.8] * 2, [0.8] * 2, [0.8] * 2]])  # 0.8: right in 0.9
    fused = c.bayes(skilled(skill), torch.tensor([[1, 0, 0, 0]]))
    odds = (101 / 1) / 9**3
    assert float(fused[0, 1]) == pytest.approx(odds / (1 + odds), rel=1e-4)


def test_weights_of_raters_stay_within_what_was_drawn() -> None:
    """A weight of 0 is the lowest mean of equation 14: ConP never saw a rater of none at all."""
    three = torch.ones(3, dtype=torch.bool)
    five = torch.ones(5, dtype=torch.bool)
    found = confidence_of(torch.tensor([1.0, 0.0, 0.0]), three)
    torch.testing.assert_close(found, torch.tensor([HIGHEST, LOWEST, LOWEST]))
    torch.testing.assert_close(confidence_of(torch.full((5,), 0.2), five), torch.full((5,), 0.5))
    without = torch.tensor([True, False, True])  # two who labelled, alike
    found = confidence_of(torch.tensor([0.5, 0.0, 0.5]), without)
    torch.testing.assert_close(found, torch.tensor([0.5, LOWEST, 0.5]))


@BY
def test_trust_is_of_those_who_labelled(by: Any) -> None:
    truth = torch.rand(1, L, 2, 2).softmax(1)
    found = diverged(truth, torch.randn(1, R, L * L if by == "bayes" else L, 2, 2), by)
    there = torch.arange(R) != 1
    trust = found.trust(truth, there)
    assert trust[:, 1].isnan().all() and trust[:, there].isfinite().all()
    if by == "weights":
        torch.testing.assert_close(trust[:, there].sum(1), torch.ones(1, 2, 2))


# Losses


def ssim_by_loops(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return the index of each pixel, with a Gaussian window and repeated edges."""
    half = WINDOW // 2
    steps = np.arange(-half, half + 1)
    g = np.exp(-(steps**2) / (2 * SIGMA**2))
    g = g / g.sum()
    index = np.zeros(x.shape)
    for i, j in np.ndindex(*x.shape):
        rows = np.clip(i + steps, 0, x.shape[0] - 1)
        columns = np.clip(j + steps, 0, x.shape[1] - 1)
        w = np.outer(g, g)
        a = x[np.ix_(rows, columns)]
        b = y[np.ix_(rows, columns)]
        ma = (w * a).sum()
        mb = (w * b).sum()
        va = (w * a * a).sum() - ma**2
        vb = (w * b * b).sum() - mb**2
        cov = (w * a * b).sum() - ma * mb
        up = (2 * ma * mb + 0.01**2) * (2 * cov + 0.03**2)
        index[i, j] = up / ((ma**2 + mb**2 + 0.01**2) * (va + vb + 0.03**2))
    return index


def test_ssim_is_its_formula_and_nothing_for_equal_maps() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.dirichlet(np.ones(L), (B, *SPACE)).transpose(0, 3, 1, 2) for _ in range(2))
    found = ssim_loss(*(torch.from_numpy(v).float() for v in (x, y)), torch.tensor(COST))
    share = np.array(COST) / sum(COST)
    for b in range(B):
        each = [1 - ssim_by_loops(x[b, k], y[b, k]).mean() for k in range(L)]
        assert float(found[b]) == pytest.approx(float(share @ each), rel=1e-4)
    same = torch.from_numpy(x).float()
    torch.testing.assert_close(ssim_loss(same, same, torch.ones(L)), torch.zeros(B))


def test_ssim_and_its_gradient_are_those_of_monai() -> None:
    from monai.metrics.regression import compute_ssim_and_cs

    x, y = (torch.rand(2, L, 9, 14, dtype=torch.float64) for _ in range(2))
    x.requires_grad_()
    half = [WINDOW // 2] * 4
    weight = torch.rand(2, L, 9, 14)
    around = (torch.nn.functional.pad(maps, half, mode="replicate") for maps in (x, y))
    size: Any = {"kernel_size": (WINDOW, WINDOW), "kernel_sigma": (SIGMA, SIGMA)}
    theirs = compute_ssim_and_cs(*around, spatial_dims=2, **size)[0]
    mine = ssim(x, y)
    torch.testing.assert_close(mine.float(), theirs, rtol=1e-4, atol=1e-5)  # theirs are single
    slopes = [torch.autograd.grad((maps * weight).sum(), x)[0] for maps in (mine, theirs)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-5)
    torch.autograd.gradcheck(lambda maps: ssim(maps, y[0, 0]), x[0, 0])


@pytest.mark.parametrize("warming", [False, True])
def test_loss_of_a_recurrence(warming: bool) -> None:
    found, truth, labels = draw_divergence()
    target = found.fused(labels).detach()
    own = found.self_fused(torch.ones(R, dtype=torch.bool))
    given = truth.float(), target.float(), own.float(), labels, torch.tensor(COST)
    total = recurrence_loss(*given, warming=warming)
    share = np.array(COST) / sum(COST)
    expected = 0.0
    for b in range(B):
        number = (labels[b] >= 0).sum(0).numpy()
        seen = number > 0
        count = int(number.sum())
        y, first, second = (p[b].detach().numpy() for p in (truth, target, own))
        for k in range(L):
            for maps in (second,) if warming else (first, second):
                other = np.where(seen, maps[k], y[k])
                index = ssim_by_loops(y[k], other)
                expected += count * share[k] * (1 - index[seen]).mean()
            if warming:
                expected -= COST[k] * (number * first[k] * np.log(y[k])).sum()
    assert float(total.detach()) == pytest.approx(expected, rel=1e-4)


@BY
def test_losses_of_divp_label_by_label(by: Any) -> None:
    found, _, labels = diverged_by(by)
    order = torch.tensor([[[2, 1, 0], [0, 1, 2]], [[0, 1, 2], [2, 1, 0]]])
    given = labels.numpy()
    said = found.said.detach().numpy()
    shuffled = 0.0
    heads = 0.0
    thought = c.thresholded(found.said).numpy()
    for b, *x in np.ndindex(B, *SPACE):
        there = [m for m in range(R) if given[(b, m, *x)] >= 0]
        for m in there:
            o = given[(b, m, *x)]
            heads -= COST[o] * np.log(said[(b, m, o, *x)])
        for turn in order.numpy():
            y = []
            for labels_of in (given, thought):
                masked = np.where(given >= 0, labels_of, -1)[(slice(b, b + 1), slice(None), *x)]
                parts = [None if p is None else p[b : b + 1, turn[b]][(..., *x)] for p in found]
                fused = in_shuffles(Diverged(*parts), torch.from_numpy(masked))  # type: ignore[arg-type]
                y.append(fused[0].detach().numpy())
            for k in range(L):
                shuffled -= len(there) * COST[k] * y[0][k] * np.log(y[1][k]) / len(order)
    cost = torch.tensor(COST, dtype=torch.float64)
    assert float(heads_loss(found, labels, cost).detach()) == pytest.approx(heads, rel=1e-5)
    total = shuffle_loss(found, order, labels, cost).detach()
    assert float(total) == pytest.approx(shuffled, rel=1e-5)


def test_the_shuffle_loss_moves_what_raters_say_to_their_labels() -> None:
    """A head learns from its own rater's labels, by whosever confidence: here each other's."""
    logits = torch.zeros(1, 2, 4, 1, 1)
    logits[0, 0, [0, 3]] = -float(np.log(9.0))  # the matrix of rater 0 tells nothing
    logits.requires_grad_()
    truth = torch.tensor([0.3, 0.7]).view(1, 2, 1, 1)
    labels = torch.tensor([0, 1]).view(1, 2, 1, 1)
    found = diverged(truth, logits, "bayes")
    order = torch.tensor([[[1, 0]]])
    (slope,) = torch.autograd.grad(shuffle_loss(found, order, labels, torch.ones(2)), logits)
    first, second = slope.view(2, 2, 2)
    assert (first[:, 0] < 0).all() and (first[:, 1] > 0).all()  # rater 0 should say 0
    torch.testing.assert_close(second, torch.zeros(2, 2))  # of no weight, by the matrix of rater 0


@BY
def test_gradients_go_through_the_threshold(by: Any) -> None:
    """As if what is said were added to the votes and taken off again, by autograd."""
    found, _, labels = diverged_by(by)
    order = torch.tensor([[2, 0, 1], [0, 1, 2]])
    said = found.said.detach().requires_grad_()
    found = Diverged(said, found.log_matrix)
    there = (labels >= 0).unsqueeze(2)
    hard = c.thresholded(said).masked_fill(labels < 0, -1)
    votes = votes_of(hard, L) + (said - said.detach()) * there
    batch = torch.arange(B)[:, None]
    if found.log_matrix is not None:
        given = found.log_matrix.detach()[batch, order]
        expected = (given * votes.unsqueeze(2)).sum((1, 3)).log_softmax(1)
    else:
        share = (said.detach()[batch, order] + c.LEAST) * (hard >= 0).unsqueeze(2)
        share = share / share.sum(1, keepdim=True).clamp(min=c.LEAST)
        front = (share * votes)[:, :, 1:].sum(1)
        total = front.sum(1, keepdim=True)
        front = torch.where(total > 1.001, front / total.clamp(min=1), front)
        fused = torch.cat([1 - front.sum(1, keepdim=True), front], 1)
        number = (hard >= 0).sum(1, keepdim=True)
        expected = ((number * fused + 1 / L) / (number + 1)).log()
    weight = torch.rand(expected.shape, dtype=expected.dtype)
    target, (mine,) = found.shuffled(order[None], labels)
    assert not target.requires_grad  # what labels say is no matter of learning
    torch.testing.assert_close(mine, expected)
    slopes = [torch.autograd.grad((part * weight).sum(), said)[0] for part in (mine, expected)]
    torch.testing.assert_close(*slopes)
    assert slopes[0].abs().max() > 0.01


# What is drawn


def test_confidences_are_drawn_as_equation_14_says() -> None:
    found = torch.stack([draw_confidence((2, 2, 40, 40), 0, 0, k) for k in range(200)])
    means = found.mean((2, 3, 4)).flatten()
    assert 0.1 < means.min() < 0.2 and 0.8 < means.max() < 0.9
    assert abs(float(means.mean()) - 0.5) < 0.03
    inside = found[(found.mean((2, 3, 4), keepdim=True) - 0.5).abs().expand_as(found) < 0.1]
    assert abs(float((inside - 0.5).abs().mean()) - 0.165) < 0.02  # mean of |N(0, 0.2)| is 0.16
    assert torch.equal(found[3], draw_confidence((2, 2, 40, 40), 0, 0, 3))
    others = [draw_confidence((2, 2, 40, 40), *key) for key in ((1, 0, 3), (0, 1, 3))]
    assert not any(torch.equal(found[3], other) for other in others)


def test_only_those_who_labelled_are_shuffled() -> None:
    assert SHUFFLES == 3  # section 4.3.2
    there = torch.tensor([True, False, True, True])
    orders = draw_order(there, 300, 0, 0, 0)
    assert (orders[:, 1] == 1).all()
    assert (orders.sort(1).values == torch.arange(4)).all()
    assert len(orders.unique(dim=0)) == 6


# Steps


def make_prism(
    raters: int = R, classes: int = L, seed: int = 0, network: str = "unet", **options: Any
) -> Prism:
    """Make a method whose last layers are random too, by `bayes` unless asked otherwise."""
    options = {"fuse_by": "bayes", **options}
    kind = NetworkOptions(network, width=2, depth=2, norm="group" if network == "unet" else "none")

    def make() -> TruthNetwork:
        return TruthNetwork(build_backbone(kind, 1, 2), classes, 2)

    torch.manual_seed(seed)
    names = tuple(f"r{k}" for k in range(raters))
    task = Task("segmentation", names, classes, 2, make)
    method = Prism(task, learning_method("prism").parse(options))  # type: ignore[arg-type]
    add_noise(method, 0.2)
    return method


def draw_batch(
    raters: int = R, classes: int = L, space: tuple[int, int] = SPACE
) -> dict[str, Tensor]:
    """Draw a batch with gaps; rater 1 has nothing of case 1."""
    rng = np.random.default_rng(raters)
    labels = rng.integers(-1, classes, (B, raters, *space))
    labels[1, 1] = -1
    image = torch.from_numpy(rng.standard_normal((B, 1, *space))).float()
    return {"image": image, "labels": torch.from_numpy(labels), "case": torch.arange(B) + 4}


KINDS = pytest.mark.parametrize(
    "options", [{}, {"fuse_by": "weights"}, {"fuse_by": "weights", "supervise": "self"}]
)


def draw_epoch_start(method: Prism, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Draw what epoch 2 of seed 5 starts with: confidences, and whose each rater gets."""
    method.seed = 5
    method.start_epoch(2)
    there = (batch["labels"] >= 0).flatten(2).any(2)
    order = [draw_order(there[b], SHUFFLES, 5, 2, b + 4) for b in range(B)]
    trusted = [draw_confidence((R, L, *SPACE), 5, 2, b + 4) for b in range(B)]
    return torch.stack(trusted), torch.stack(order, 1)


def consensus_prior(method: Prism, image: Tensor, trusted: Tensor) -> Tensor:
    levels = method.encoder(method.encoder.padded(image))
    told = method.encoder.padded(trusted.clamp(min=0.01).log().flatten(1, 2))
    return method.encoder.cropped(method.conp(levels, told), SPACE).softmax(1)


def fuse_in_training(method: Prism, found: Diverged, labels: Tensor) -> Tensor:
    """Fuse what Algorithm 1 has in both places of the loss, or equation 8."""
    of_itself = method.options.supervise == "self"
    return found.self_fused(method.labelled) if of_itself else found.fused(labels)


@pytest.mark.parametrize("warm_up", [2, 3])
@KINDS
def test_a_step_is_the_sum_of_its_recurrences(options: dict[str, Any], warm_up: int) -> None:
    """In epoch 2, counted from 0: after two epochs of warm-up, or in the third of it."""
    options = {**options, "warm_up": warm_up, "divp_loss": "both", "recurrences": 2}
    method = make_prism(**options)
    batch = draw_batch()
    warming = warm_up == 3
    assert method.phase(2) == ("warm-up" if warming else "main")
    method.class_weights.copy_(torch.tensor(COST))
    trusted, order = draw_epoch_start(method, batch)
    labels = batch["labels"]
    weights = method.class_weights
    by = method.options.fuse_by
    target = started(trusted, labels, by)
    terms = {"recurrence": 0.0, "shuffle": 0.0, "heads": 0.0}
    with torch.no_grad():
        for _ in range(2):
            truth = consensus_prior(method, batch["image"], trusted)
            found = diverged(truth, method.divp(truth), by)
            fused = fuse_in_training(method, found, labels)
            given = truth, target, fused, labels, weights
            terms["recurrence"] += float(recurrence_loss(*given, warming=warming))
            terms["shuffle"] += 0.3 * float(shuffle_loss(found, order, labels, weights))
            terms["heads"] += 0.3 * float(heads_loss(found, labels, weights))
            target = fused
            trusted = found.confidence
    step = method.step(batch)
    observed = int((labels >= 0).sum())
    assert int(step.observed) == observed
    for name, total in terms.items():
        assert float(step.terms[name].detach()) == pytest.approx(total / observed, rel=1e-4)
    assert float(step.loss.detach()) == pytest.approx(sum(terms.values()) / observed, rel=1e-4)


@pytest.mark.parametrize("warm_up", [2, 3])
@KINDS
def test_no_gradient_leaves_its_recurrence_or_its_module(
    options: dict[str, Any], warm_up: int
) -> None:
    """As if confidences, targets and what DivP is shown were numbers that someone wrote down."""
    asked = {**options, "divp_loss": "both", "recurrences": 3, "warm_up": warm_up}
    method = make_prism(**asked)
    batch = draw_batch()
    trusted, order = draw_epoch_start(method, batch)
    labels = batch["labels"]
    even = method.class_weights
    by = method.options.fuse_by
    method.step(batch).loss.backward()
    slopes = [p.grad for p in method.parameters()]
    method.zero_grad()
    target = started(trusted, labels, by)
    noted = []
    with torch.no_grad():
        for _ in range(3):
            truth = consensus_prior(method, batch["image"], trusted)
            noted.append((trusted, target, truth))
            found = diverged(truth, method.divp(truth), by)
            trusted = found.confidence
            target = fuse_in_training(method, found, labels)
    total = torch.zeros(())
    number = (labels >= 0).sum()
    for trusted, target, truth in noted:
        again = consensus_prior(method, batch["image"], trusted)
        found = diverged(truth, method.divp(truth), by)
        given = again, target, fuse_in_training(method, found, labels), labels, even
        total = total + recurrence_loss(*given, warming=warm_up == 3)
        total = total + 0.3 * shuffle_loss(found, order, labels, even)
        total = total + 0.3 * heads_loss(found, labels, even)
    (total / number).backward()
    expected = [p.grad for p in method.parameters()]
    assert all(slope is not None and slope.abs().max() > 0 for slope in expected)
    torch.testing.assert_close(slopes, expected, rtol=1e-3, atol=1e-6)


@BY
def test_the_recurrence_raises_the_trust_in_who_agrees_with_the_truth(by: Any) -> None:
    """Labels fused by DivP's confidences are compared with the truth: here with rater 0's disc."""
    rows, columns = np.mgrid[:12, :12]
    discs = [np.hypot(rows - 5.5, columns - 5.5) < radius for radius in (3, 5)]
    labels = torch.from_numpy(np.stack(discs)).long()[None]
    truth = torch.stack([1 - labels[:, 0] * 0.9 - 0.05, labels[:, 0] * 0.9 + 0.05], 1)
    logits = torch.zeros(1, 2, 4 if by == "bayes" else 2, 12, 12, requires_grad=True)
    found = diverged(truth, logits, by)
    loss = recurrence_loss(truth, truth, found.fused(labels), labels, torch.ones(2))
    (slope,) = torch.autograd.grad(loss, logits)
    ring = (labels[0, 1] - labels[0, 0]).bool()  # rater 1 alone marks it, and it is background
    # Matrices: background taken as such. Weights: of foreground, which rater 0 does not mark.
    of_trust = slope.view(2, 2, 2, 12, 12)[:, 0, 0] if by == "bayes" else slope[0, :, 1]
    assert of_trust[0][ring].mean() < -1e-3 < 1e-3 < of_trust[1][ring].mean()


def test_parts_of_a_batch_add_up_to_it() -> None:
    """As processes that share a batch need it."""
    method = make_prism()
    batch = draw_batch()
    whole = method.step(batch)
    parts = [method.step({k: v[b : b + 1] for k, v in batch.items()}) for b in range(B)]
    added = sum(float(part.loss.detach() * part.observed) for part in parts)
    assert added / int(whole.observed) == pytest.approx(float(whole.loss.detach()), rel=1e-5)


def test_gradients_stay_within_a_recurrence_and_a_module() -> None:
    """ConP learns from its own term only, whatever DivP's losses weigh, and the other way round."""
    slopes: list[list[Tensor]] = []
    for weight in (0.0, 5.0):
        method = make_prism(divp_weight=weight, recurrences=2)
        method.step(draw_batch()).loss.backward()
        own = [*method.conp.parameters(), *method.encoder.parameters()]
        slopes.append([p.grad for p in own if p.grad is not None])
    assert len(slopes[0]) == len(slopes[1]) > 10
    torch.testing.assert_close(slopes[0], slopes[1])


@pytest.mark.parametrize(
    ("raters", "classes", "space", "options"),
    [
        (2, 2, (9, 7), {"encoder": "resnet18", "integration": "concat"}),
        (10, 2, (17, 13), {"divp_loss": "heads"}),
        (3, 6, (11, 30), {"integration": "convlstm", "divp_loss": "shuffle"}),
        (5, 4, (1, 3), {"fuse_by": "weights"}),
        (4, 3, (33, 18), {"network": "patch-cnn", "supervise": "self"}),
    ],
)
def test_any_number_of_raters_and_classes_and_any_size(
    raters: int, classes: int, space: tuple[int, int], options: dict[str, Any]
) -> None:
    method = make_prism(raters, classes, **options)
    batch = draw_batch(raters, classes, space)
    method.step(batch).loss.backward()
    slopes = [p.grad for p in method.parameters()]
    assert all(slope is not None and slope.isfinite().all() for slope in slopes)
    image = batch["image"]
    truth = method.truth(image)
    torch.testing.assert_close(truth.sum(1), torch.ones(B, *space))
    alone = method.weighted(image, torch.eye(raters)[0])
    if min(space) > 1:
        assert (alone - method.weighted(image, torch.eye(raters)[1])).abs().max() > 1e-5
    torch.testing.assert_close(alone[:1], method.weighted(image[:1], torch.eye(raters)[0]))


@torch.no_grad()
def test_attention_knows_places_by_query_and_key_alone() -> None:
    torch.manual_seed(0)
    attention = Attention(8, heads=2)
    features, asking = torch.randn(2, 1, 5, 7, 8)
    turned = attention(asking.flip(1), features.flip(1)).flip(1)
    assert (turned - attention(asking, features)).abs().max() > 1e-3
    alike = features[:, :1, :1].expand(1, 5, 7, 8)
    torch.testing.assert_close(attention(asking, alike), attention.value(alike))


# Predictions


@torch.no_grad()
def test_an_image_that_is_settled_stays_as_it_is() -> None:
    image = draw_batch()["image"]
    for tolerance, different in ((0.0, 4), (1.0, 2)):
        method = make_prism(recurrences=4, tolerance=tolerance)
        turns = [turn.truth for turn in method.recurrences(image)]
        assert len(turns) == 4
        changes = [bool((a != b).any()) for a, b in pairwise(turns)]
        assert sum(changes) == different - 1
    free = [turn.truth for turn in make_prism(recurrences=4, tolerance=0.0).recurrences(image)]
    second = (free[1] - free[0]).abs().mean((1, 2, 3))
    between = float(second.mean())  # one image is settled after two recurrences, the other is not
    mixed = make_prism(recurrences=4, tolerance=between)
    for b in range(B):
        found = mixed.truth(image)[b : b + 1]
        torch.testing.assert_close(found, mixed.truth(image[b : b + 1]))  # whoever is beside it
        assert torch.equal(found[0], free[1][b]) == bool(second[b] < between)


@pytest.mark.parametrize("options", [{}, {"fuse_by": "weights"}])
def test_labels_are_fused_by_the_last_recurrence(options: dict[str, Any]) -> None:
    method = make_prism(**options)
    batch = draw_batch()
    batch["labels"][0, :, 0, 0] = -1
    fused = method.fused(batch)
    truth = method.truth(batch["image"])
    torch.testing.assert_close(fused[0, :, 0, 0], truth[0, :, 0, 0])  # nobody labelled
    other = {**batch, "labels": (batch["labels"] + 1) % L}
    assert (method.fused(other) - fused).abs().max() > 0.1
    last = method.recurrences(batch["image"])[-1].raters
    torch.testing.assert_close(
        method.fused_unseen(batch["image"]), last.self_fused(method.labelled)
    )
    if not options:
        assert last.log_matrix is not None
        torch.testing.assert_close(fused, c.bayes(last.log_matrix, batch["labels"], truth.log()))


@BY
def test_by_shuffles_alone_the_best_epoch_does_not_depend_on_whose_a_head_is(by: Any) -> None:
    method = make_prism(fuse_by=by, divp_loss="shuffle")
    batch = draw_batch()
    method.labelled[2] = False
    batch["labels"][:, 2] = -1
    found = method.held_out(batch)
    said = method.recurrences(batch["image"])[-1].raters.said[:, :2].mean(1).detach().numpy()
    labels = batch["labels"].numpy()
    total = 0.0
    for b, m, *x in np.ndindex(*labels.shape):
        o = labels[(b, m, *x)]
        if o >= 0:
            total -= np.log(said[(b, o, *x)])
    assert float(found.loss.detach()) == pytest.approx(total, rel=1e-4)
    assert int(found.count) == (labels >= 0).sum()
    swapped = {**batch, "labels": batch["labels"][:, [1, 0, 2]]}
    torch.testing.assert_close(method.held_out(swapped).loss, found.loss)
    told = make_prism(fuse_by=by, divp_loss="both")  # heads are their raters': it matters whose
    told.labelled[2] = False
    difference = told.held_out(swapped).loss - told.held_out(batch).loss
    assert abs(float(difference.detach())) > 0.1


def test_without_matrices_none_are_answered() -> None:
    assert "confusion" in make_prism().answers and make_prism().varies
    by_weights = make_prism(fuse_by="weights")
    assert "confusion" not in by_weights.answers and not by_weights.varies
    assert learning_method("prism").answers == by_weights.answers  # what options are by default


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recurrences": 0}, "recurrences"),
        ({"divp_weight": -1.0}, "divp_weight"),
        ({"fuse_by": "printed"}, "fuse_by"),
        ({"encoder": "resnet101"}, "encoder"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"warm_up": -0.1}, "warm_up"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        learning_method("prism").parse(given)


def test_volumes_and_one_rater_are_refused() -> None:
    task = Task("segmentation", ("a", "b"), 2, 3, make_prism().task.network)
    with pytest.raises(RatersError, match="found images of 3 spatial axes, expected 2: prism"):
        Prism(task, learning_method("prism").parse({}))  # type: ignore[arg-type]
    with pytest.raises(
        RatersError, match="found 1 rater with labels, expected at least 2: prism learns"
    ):
        learning_method("prism").refuse_study("prism", "segmentation", 1)

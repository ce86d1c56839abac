"""`form='paper'`: each method against the formulas that its paper prints, as slow loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import raters
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods.base import Batch, Method
from raters.learning.methods.registry import learning_method
from raters.learning.rater_models import GlobalRaters, PixelRaters, ProductRaters, product_of
from raters.learning.rater_models.start import log_positive, start_values
from raters.study.study import Study
from tests.support.learning import build_method, small_task

R = 3
L = 3
TINY: dict[str, Any] = {"epochs": 3, "width": 2, "depth": 2, "progress": False, "batch_size": 4}
PAPERS = pytest.mark.parametrize("name", ["global-cm", "single-cm", "pixel-cm", "low-rank-cm"])


def make_paper_method(name: str, spatial_dims: int = 2, **options: Any) -> Method:
    """Make a method in its paper's form, past its warm-up, with weights that say something."""
    task = small_task(spatial_dims, channels=1)
    options = {"form": "paper", **options}
    method: Method = build_method(name, task, options, seed=0, dtype=torch.float64, noise=0.5)
    method.start_epoch(100)
    return method


def batch(*space: int, cases: int = 2, seed: int = 0) -> Batch:
    """Draw a batch; one rater skips a case, pixels are missing, and nobody labelled the first."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, L, (cases, R, *space))
    labels[rng.random(labels.shape) < 0.2] = MISSING
    labels[0, 1] = MISSING
    if space:
        labels[:, :, 0] = MISSING
    image = rng.normal(size=(cases, 1, *space))
    whole = {"image": torch.from_numpy(image), "labels": torch.from_numpy(labels)}
    return {**whole, "case": torch.arange(cases)}


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def count_observed(labels: Tensor) -> int:
    return int((labels != MISSING).sum())


# pixel-cm


def test_pixel_cm_is_equation_4() -> None:
    """CE of A p plus lambda tr(A) of every label, with the annotator network's own output."""
    method = make_paper_method("pixel-cm", trace=0.1)
    data = batch(4, 5)
    truth = method.truth(data["image"]).detach().numpy()
    assert isinstance(method.raters, PixelRaters) and method.raters.network is not None
    features = method.raters.network(data["image"])[0]
    output = method.raters.head(features).detach().numpy().reshape(2, R, L, L, 4, 5)
    labels = data["labels"].numpy()
    total = 0.0
    for n, r, w, h in np.ndindex(labels.shape):
        seen = labels[n, r, w, h]
        if seen == MISSING:
            continue
        matrix = np.zeros((L, L))  # the paper's order: [i, j] is p(said i | true j)
        for j in range(L):
            entries = [softplus(output[n, r, j, i, w, h]) for i in range(L)]
            for i in range(L):
                matrix[i, j] = entries[i] / sum(entries)
        said = sum(matrix[seen, j] * truth[n, j, w, h] for j in range(L))
        total += -math.log(said) + 0.1 * sum(matrix[i, i] for i in range(L))
    loss = method.step(data).loss
    assert loss.item() == pytest.approx(total / count_observed(data["labels"]), rel=1e-9)
    loss.backward()
    networks = method.network.backbone, method.raters.network  # type: ignore[union-attr]
    for network in networks:
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_the_annotator_network_is_one_of_its_own() -> None:
    method = make_paper_method("pixel-cm")
    assert isinstance(method.raters, PixelRaters) and method.raters.network is not None
    own = {id(p) for p in method.raters.network.parameters()}
    truth = list(method.network.backbone.parameters())  # type: ignore[union-attr]
    assert not own & {id(p) for p in truth}
    assert len(own) == len(truth)  # of the same architecture
    with torch.no_grad():
        before = method.confusion(batch(4, 5)["image"])
        for parameter in truth:
            parameter.zero_()
        torch.testing.assert_close(method.confusion(batch(4, 5)["image"]), before)


def test_the_warm_up_maximises_the_trace_and_leaves_the_truth_alone() -> None:
    method = make_paper_method("pixel-cm")
    data = batch(6, 6, cases=4)
    method.start_epoch(0)
    with torch.no_grad():
        found = method.confusion(data["image"]).numpy()
    traces = [
        sum(found[n, r, t, t, w, h] for t in range(L)) for n, r, w, h in np.ndindex(4, R, 6, 6)
    ]
    step = method.step(data)
    assert step.loss.item() == pytest.approx(-np.mean(traces))
    truth = {k: v.clone() for k, v in method.network.state_dict().items()}  # type: ignore[union-attr]
    descent = torch.optim.Adam(method.parameters(), 0.05)
    for _ in range(60):
        descent.zero_grad()
        method.step(data).loss.backward()  # type: ignore[no-untyped-call]
        descent.step()
    with torch.no_grad():
        found = method.confusion(data["image"]).numpy()
    assert np.einsum("nrttwh->nrtwh", found).mean() > 0.97
    for name, value in method.network.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(value, truth[name])
    method.start_epoch(2)
    assert "trace" in method.step(data).terms
    assert method.step(data).terms["loss"].item() > 0


def test_other_warm_ups_start_where_they_did() -> None:
    """An own network may also start near the identity, and be held there."""
    method = make_paper_method("pixel-cm", warm_up_on="vote", positivity="softmax").float()
    fresh = PixelRaters(R, L, 4, 2, network=nn.Identity())
    exact = torch.full((L, L), 0.05).fill_diagonal_(0.9)
    found = fresh(torch.randn(1, 4, 2, 2), torch.zeros(1)).matrix()
    torch.testing.assert_close(found[0, 0, :, :, 0, 0], exact)
    method.start_epoch(0)
    data = batch(4, 5)
    method.step({**data, "image": data["image"].float()}).loss.backward()
    assert all(p.grad is None for p in method.raters.parameters())  # type: ignore[union-attr]


# global-cm


def listing(data: Batch, logits: np.ndarray, rho: np.ndarray, scale: float) -> float:
    """Return the loss of appendix F, line by line; labels by rater, a MISSING one as zeros."""
    matrices = np.zeros((R, L, L))
    for r, i, j in np.ndindex(R, L, L):
        matrices[r, i, j] = softplus(rho[r, i, j]) / sum(softplus(x) for x in rho[r, i])
    trace_norm = sum(matrices[r, i, i] for r in range(R) for i in range(L)) / R
    labels = data["labels"].numpy()
    of_images = []
    for n in range(len(labels)):
        weights = [math.exp(z) for z in logits[n]]
        preds_true = [w / sum(weights) for w in weights]
        loss = 0.0
        for r in range(R):
            if labels[n, r] != MISSING:
                said = sum(preds_true[i] * matrices[r, i, labels[n, r]] for i in range(L))
                loss -= math.log(min(max(said, 1e-10), 0.9999999))
        of_images.append(loss)
    return sum(of_images) / len(of_images) + scale * trace_norm


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.5])
def test_global_cm_is_the_listing(scale: float) -> None:
    """The loss here is theirs divided by the labels of an image, and so is its gradient."""
    method = make_paper_method("global-cm", spatial_dims=0, trace=scale)
    data = batch(cases=7)
    assert isinstance(method.raters, GlobalRaters)
    logits = method.network(data["image"])[1].detach().numpy()  # type: ignore[operator]
    rho = method.raters.logits.detach().numpy().copy()
    labels_of_an_image = count_observed(data["labels"]) / 7
    step = method.step(data)
    expected = listing(data, logits, rho, scale)
    assert step.loss.item() * labels_of_an_image == pytest.approx(expected, rel=1e-9)
    step.loss.backward()  # type: ignore[no-untyped-call]
    assert method.raters.logits.grad is not None
    for place in [(0, 1, 2), (1, 0, 0), (2, 2, 1)]:
        more = rho.copy()
        less = rho.copy()
        more[place] += 1e-5
        less[place] -= 1e-5
        slope = (listing(data, logits, more, scale) - listing(data, logits, less, scale)) / 2e-5
        found = float(method.raters.logits.grad[place]) * labels_of_an_image
        assert found == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_global_cm_counts_answers_of_a_table_as_masks() -> None:
    """Who answered is given by name there; a rater without an answer counts in the trace."""
    method = make_paper_method("global-cm", spatial_dims=0, trace=0.5)
    data = batch(cases=5)
    order = torch.tensor([[2, 0, 1]]).expand(5, -1)
    by_name = {**data, "labels": data["labels"].gather(1, order), "raters": order}
    torch.testing.assert_close(method.step(by_name).loss, method.step(data).loss)


@pytest.mark.parametrize(("classes", "right"), [(2, 0.995), (10, 0.956), (100, 0.664)])
def test_the_start_of_the_listing(classes: int, right: float) -> None:
    """6 I - 5 through softplus, however many classes; `start='right'` solves for the diagonal."""
    printed = GlobalRaters(2, classes, positivity="softplus", start="listing")
    rho = np.stack([6.0 * np.eye(classes) - 5.0 for _ in range(2)])
    np.testing.assert_array_equal(printed.logits.detach().numpy(), rho)
    nothing = torch.zeros(1, 1), torch.zeros(1)
    assert printed(*nothing).matrix()[0, 0, 0, 0].item() == pytest.approx(right, abs=1e-3)
    solved = GlobalRaters(2, classes, 0.9, positivity="softplus")(*nothing).matrix()
    exact = torch.full((classes, classes), 0.1 / (classes - 1)).fill_diagonal_(0.9)
    torch.testing.assert_close(solved[0, 0], exact)


def test_the_listing_starts_with_softplus() -> None:
    with pytest.raises(RatersError, match="start='listing' with positivity='softmax', expected"):
        start_values(3, 0.9, "softmax", "listing")


def test_softplus_far_out_has_numbers_and_gradients() -> None:
    values = torch.tensor([-1e4, -100.0, -21.0, -19.0, -5.0, 0.0, 30.0, 1e4], requires_grad=True)
    found = log_positive(values, "softplus")
    wide = values.detach().double()
    exact = torch.where(wide < -30, wide, torch.log(torch.logaddexp(wide, torch.zeros(()))))
    torch.testing.assert_close(found.detach().double(), exact, rtol=1e-5, atol=1e-6)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None and values.grad.isfinite().all()
    near = torch.linspace(-25, 25, 11, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: log_positive(z, "softplus"), near)


# single-cm


@pytest.mark.parametrize("spatial_dims", [0, 2])
def test_single_cm_explains_the_vote_with_the_trace(spatial_dims: int) -> None:
    method = make_paper_method("single-cm", spatial_dims=spatial_dims, trace=0.3)
    data = batch(*(4, 5)[:spatial_dims], cases=6)
    truth = method.truth(data["image"]).detach().numpy().reshape(6, L, -1)
    assert isinstance(method.raters, GlobalRaters)
    rho = method.raters.logits.detach().numpy()[0]
    matrix = np.array([[softplus(x) for x in row] for row in rho])
    matrix /= matrix.sum(1, keepdims=True)
    labels = data["labels"].numpy().reshape(6, R, -1)
    total = 0.0
    votes = 0
    for n, x in np.ndindex(6, labels.shape[2]):
        counts = [int((labels[n, :, x] == c).sum()) for c in range(L)]
        if sum(counts):
            votes += 1
            vote = counts.index(max(counts))
            total -= math.log(sum(truth[n, t, x] * matrix[t, vote] for t in range(L)))
    labels_of_an_image = votes / (6 * labels.shape[2])
    expected = total / votes + 0.3 * np.trace(matrix) / labels_of_an_image
    assert method.step(data).loss.item() == pytest.approx(expected, rel=1e-9)
    held_out = method.held_out(data)
    assert int(held_out.count) == votes
    assert held_out.loss.item() == pytest.approx(total, rel=1e-9)


# low-rank-cm


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_low_rank_is_the_product_of_two_factors(rank: int) -> None:
    rng = np.random.default_rng(rank)
    first, second = rng.gamma(1.0, size=(2, 1, 2, L, rank, 4))
    matrices = np.zeros((1, 2, L, L, 4))
    for r, x in np.ndindex(2, 4):
        whole = first[0, r, :, :, x] @ second[0, r, :, :, x].T  # whole[said, true]
        for t in range(L):
            matrices[0, r, t, :, x] = whole[:, t] / whole[:, t].sum()
    found = product_of(torch.from_numpy(first).log(), torch.from_numpy(second).log())
    np.testing.assert_allclose(found.matrix().numpy(), matrices, rtol=1e-9)
    labels = torch.from_numpy(rng.integers(-1, L, (1, 2, 4)))
    seen = found.see(labels)
    for r, x in np.ndindex(2, 4):
        label = int(labels[0, r, x])
        column = np.ones(L) if label == MISSING else matrices[0, r, :, label, x]
        np.testing.assert_allclose(seen.log_column[0, r, :, x].exp().numpy(), column, rtol=1e-9)
        diagonal = seen.log_diagonal[0, r, :, x].exp().numpy()
        np.testing.assert_allclose(diagonal, np.diag(matrices[0, r, :, :, x]), rtol=1e-9)
    assert np.allclose(matrices[0, :, 0], matrices[0, :, 1]) == (
        rank == 1
    )  # equal rows: the trap of rank 1


def test_low_rank_in_the_paper_s_form_is_equation_4() -> None:
    method = make_paper_method("low-rank-cm", rank=2, trace=0.1)
    data = batch(4, 5)
    assert isinstance(method.raters, ProductRaters)
    truth = method.truth(data["image"]).detach().numpy()
    matrices = method.confusion(data["image"]).detach().numpy()
    labels = data["labels"].numpy()
    total = 0.0
    for n, r, w, h in np.ndindex(labels.shape):
        seen = labels[n, r, w, h]
        if seen != MISSING:
            total -= math.log(truth[n, :, w, h] @ matrices[n, r, :, seen, w, h])
            total += 0.1 * np.trace(matrices[n, r, :, :, w, h])
    assert method.step(data).loss.item() == pytest.approx(total / count_observed(data["labels"]))


# The preset


@PAPERS
def test_the_form_is_a_preset_that_options_override(name: str) -> None:
    entry = learning_method(name)
    whole = entry.parse({"form": "paper"}).model_dump()
    assert {k: whole[k] for k in entry.paper_form} == dict(entry.paper_form)
    assert whole["likelihood"] == "marginal" and whole["trace"] == 0.01
    assert entry.parse(whole).model_dump() == whole  # as a model that is loaded has it
    assert entry.parse({"form": "paper", "trace": 0.4}).model_dump()["trace"] == 0.4
    plain = entry.parse({}).model_dump()
    assert plain["form"] == "own" and plain["likelihood"] == "joint" and plain["trace"] == 0


def draw_noisy_study(spatial_dims: int = 2) -> Study:
    rng = np.random.default_rng(0)
    space = (8,) * spatial_dims
    images = rng.normal(size=(24, 1, *space)).astype(np.float32)
    truth = (images[:, 0] > 0).astype(np.int16)
    noisy = rng.random((24, 3, *space)) < 0.1
    labels = np.where(noisy, 1 - truth[:, None], truth[:, None])
    return Study.from_arrays(images, labels, raters=["ann", "bob", "cy"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the raters' mean matrix")
@PAPERS
def test_papers_forms_train_and_are_loaded_again(name: str, tmp_path: Path) -> None:
    data = draw_noisy_study()
    model = raters.fit(data, name, form="paper", folder=tmp_path / "run", **TINY)
    loaded = raters.load(tmp_path / "run")
    matrices = loaded.confusion(data[0])
    np.testing.assert_allclose(matrices.sum(2), 1, atol=1e-5)
    np.testing.assert_array_equal(matrices, model.confusion(data[0]))
    told = loaded.as_rater(data[0], "bob")
    by_hand = np.einsum("t...,to...->o...", loaded.truth(data[0]), matrices[1])
    np.testing.assert_allclose(told, by_hand, atol=1e-5)
    large = np.tile(np.asarray(data[0].image), (1, 3, 3))
    assert loaded.as_rater(large, "bob").shape == (2, 24, 24)
    if name in ("pixel-cm", "low-rank-cm"):
        late = Study.from_arrays(
            np.stack([np.asarray(case.image) for case in data.iter_cases()]),
            np.stack([case.labels[:1] for case in data.iter_cases()]),
            raters=["late"],
        )
        with pytest.raises(RatersError, match="cannot be extended: one network gives the matrices"):
            raters.extend(loaded, late, progress=False)


def test_matrices_learn_at_the_network_s_rate_in_the_paper_s_form() -> None:
    data = draw_noisy_study(spatial_dims=0)
    rates = {
        form: raters.fit(data, "global-cm", form=form, epochs=1, depth=0, progress=False)
        for form in ("own", "paper")
    }
    assert rates["own"].config.training.confusion_lr_scale == 10
    assert rates["paper"].config.training.confusion_lr_scale == 1
    assert rates["paper"].config.options["warm_up"] == 0


def test_a_mixture_of_low_rank_has_no_softplus() -> None:
    with pytest.raises(RatersError, match="positivity='softplus' with factors='mixture'"):
        make_paper_method("low-rank-cm", factors="mixture")


@pytest.mark.parametrize("warm_up", [0, 2])
def test_perfect_raters_of_a_small_study_keep_truth_and_error_apart(warm_up: int) -> None:
    """Two epochs of four steps do not bring random matrices to the identity: they start there."""
    rng = np.random.default_rng(0)
    masks = np.zeros((16, 12, 12), int)
    for mask, (i, j) in zip(masks, rng.integers(0, 7, (16, 2)), strict=True):
        mask[i : i + 5, j : j + 5] = 1
    images = masks + rng.normal(0, 0.1, masks.shape)
    study = Study.from_arrays(images[:, None], np.repeat(masks[:, None], 3, 1))
    model = raters.fit(study, "pixel-cm", form="paper", warm_up=warm_up, **TINY)
    found = np.asarray(model.confusion(study[0]))
    assert np.einsum("rttwh->rtwh", found).mean() > 0.8


def test_a_product_of_rank_1_is_refused() -> None:
    """Its rows are all equal: the truth network would get no gradient."""
    assert make_paper_method("low-rank-cm").options.rank == 2  # type: ignore[attr-defined]
    with pytest.raises(RatersError, match="found rank=1 with factors='product', expected 2"):
        make_paper_method("low-rank-cm", rank=1)

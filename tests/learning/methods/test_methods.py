"""What methods prepare, count, keep and answer, without any training; options that are refused."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from raters.consensus.consensus import fuse
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.methods import METHODS, MethodEntry, learning_method
from raters.learning.methods.base import Asked, Method, NetworkMethod
from raters.learning.methods.phases import Optimiser
from raters.learning.methods.supervised import SupervisedMethod
from raters.learning.rater_models import FixedRaters, GlobalRaters, PixelRaters
from raters.metrics.confusion import count_case
from raters.study.study import Study
from tests.support.learning import build_method, small_task

R = 3
L = 3
CASES = 6
SPACES = {"mask": (5, 4), "table": ()}
every_space = pytest.mark.parametrize("space", SPACES)


@functools.cache
def draw_study(space: str, reference: bool = True) -> Study:
    """Make cases of which one pixel (or case) has no label, and one rater has no label at all."""
    rng = np.random.default_rng(0)
    shape = (CASES, *SPACES[space])
    truth = rng.integers(0, L, shape)
    noise = rng.random((CASES, R, *SPACES[space]))
    labels = np.where(noise < 0.3, rng.integers(0, L, noise.shape), truth[:, None])
    labels[noise > 0.85] = MISSING
    labels[:, 1] = MISSING
    labels[2, ..., -1] = MISSING
    if space == "mask":
        truth[0, 1, 1] = MISSING
    images = rng.normal(size=(CASES, 2, *SPACES[space])).astype(np.float32)
    return Study.from_arrays(
        images, labels, reference=truth if reference else None, raters=list("abc"), classes=range(L)
    )


def make_plain_method(
    name: str, space: str, unlabelled: tuple[str, ...] = (), **given: Any
) -> Method:
    """Make a method with the weights that it starts with."""
    task = small_task(len(SPACES[space]), unlabelled=unlabelled)
    method: Method = build_method(name, task, given, seed=1)
    return method


def draw_images(space: str) -> torch.Tensor:
    return torch.randn(2, 2, *SPACES[space], generator=torch.Generator().manual_seed(2))


def answers_of(case: Any) -> list[tuple[int, int, tuple[int, ...]]]:
    """List the labels of a case as rater, class and place."""
    if case.kind == "classification":
        pairs = zip(case.answers.rater, case.answers.label, strict=True)
        return [(int(r), int(o), ()) for r, o in pairs]
    seen = np.argwhere(case.labels != MISSING)
    return [(int(p[0]), int(case.labels[tuple(p)]), tuple(map(int, p[1:]))) for p in seen]


def count_matrices(study: Study, targets: list[NDArray[Any]], even: float) -> NDArray[np.float64]:
    """Count matrices against targets, one label at a time; rows never seen are even."""
    counts = np.zeros((R, L, L))
    for case, target in zip(study.iter_cases(), targets, strict=True):
        for r, o, place in answers_of(case):
            for t in range(L):
                soft = target.dtype.kind == "f"
                counts[r, t, o] += target[(t, *place)] if soft else target[place] == t
    total = counts.sum(2, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), even)


def through(truth: torch.Tensor, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.einsum("bt...,to->bo...", truth.detach().numpy(), matrix)


# Targets


@pytest.mark.parametrize(
    ("name", "fusion", "given", "spaces"),
    [
        ("vote", "vote", {}, ("mask", "table")),
        ("vote", "vote", {"soft": True}, ("mask", "table")),
        ("mean", "mean", {}, ("mask", "table")),
        ("staple", "staple", {"soft": True, "pool": True}, ("mask",)),
        ("dawid-skene", "dawid-skene", {"soft": True}, ("table",)),
        ("hierarchical", "hierarchical", {}, ("table",)),
    ],
)
def test_fused_labels_are_the_target_and_raters_are_counted_against_it(
    name: str, fusion: str, given: dict[str, Any], spaces: tuple[str, ...]
) -> None:
    for space in spaces:
        study = draw_study(space)
        method = cast(SupervisedMethod, make_plain_method(name, space, **given))
        method.prepare(study)
        targets = [method.target(case) for case in study.iter_cases()]
        consensus = fuse(study, fusion, pool=given.get("pool", False))
        for k, (case, target) in enumerate(zip(study.iter_cases(), targets, strict=True)):
            if space == "table":
                labels = consensus.table.labels[k]
                truth = consensus.table.truth[k]
            else:
                found = consensus.fuse_case(case)
                labels = found.labels
                truth = found.truth
            soft = name == "mean" or bool(given.get("soft"))
            known = np.asarray(labels) != MISSING
            expected = np.where(known, truth, 0) if soft else labels
            np.testing.assert_allclose(target, expected, rtol=1e-6 if soft else 0)
            assert target.dtype == (np.float32 if soft else np.int16)
        even = method.confusion(draw_images(space)).numpy()
        np.testing.assert_allclose(even, 1 / L)  # nothing is counted yet
        method.finish(study)
        expected = count_matrices(study, targets, 1 / L)
        found = method.confusion(draw_images(space))
        assert found.shape == (1, R, L, L, *(1 for _ in SPACES[space]))
        np.testing.assert_allclose(found.flatten(1).reshape(R, L, L).numpy(), expected, rtol=1e-5)
        said = method.as_rater(draw_images(space), 2).detach().numpy()
        np.testing.assert_allclose(
            said, through(method.truth(draw_images(space)), expected[2]), rtol=1e-4
        )


@every_space
def test_counts_of_a_case_can_be_added_to_those_of_soft_targets(space: str) -> None:
    case = next(iter(draw_study(space).iter_cases()))
    assert count_case(case, np.asarray(case.reference), L).dtype == np.float64


def test_the_reference_is_the_target_of_truth() -> None:
    method = make_plain_method("truth", "mask")
    study = draw_study("mask")
    for case in study.iter_cases():
        np.testing.assert_array_equal(method.target(case), case.reference)
    without = draw_study("mask", reference=False)
    with pytest.raises(RatersError, match="no reference of case '0', expected one: truth trains"):
        method.target(next(iter(without.iter_cases())))


# Separate networks


@every_space
def test_separate_networks_are_averaged_over_raters_with_labels(space: str) -> None:
    method = make_plain_method("separate", space, unlabelled=("b",))
    own = [method.as_rater(draw_images(space), rater) for rater in range(R)]
    networks = cast(Any, method).networks
    for found, network in zip(own, networks, strict=True):
        torch.testing.assert_close(found, network(draw_images(space))[1].softmax(1))
    torch.testing.assert_close(method.truth(draw_images(space)), (own[0] + own[2]) / 2)


# The oracle


@every_space
@pytest.mark.parametrize("by", ["case", "rater"])
def test_new_images_have_the_raters_known_mean_matrices(by: str, space: str) -> None:
    study = draw_study(space)
    method = make_plain_method("oracle-cm", space, by=by)
    method.prepare(study)
    references = [np.asarray(case.reference) for case in study.iter_cases()]
    expected = count_matrices(study, references, 1 / L)
    found = method.confusion(draw_images(space)).numpy()
    assert found.shape == (1, R, L, L, *(1 for _ in SPACES[space]))
    np.testing.assert_allclose(found.reshape(R, L, L), expected, atol=1e-6)
    said = method.as_rater(draw_images(space), 0).detach().numpy()
    np.testing.assert_allclose(
        said, through(method.truth(draw_images(space)), expected[0]), rtol=1e-4
    )
    without = draw_study(space, reference=False)
    with pytest.raises(RatersError, match="no reference of case '0', expected one: oracle-cm"):
        method.prepare(without)


# What is kept


@pytest.mark.parametrize("name", METHODS)
def test_weights_hold_what_predictions_need_and_no_more(name: str) -> None:
    """What follows from options or belongs to training cases is no part of a saved model."""
    method = make_plain_method(name, "mask")
    if name == "oracle-cm":
        method.prepare(draw_study("mask"))
    buffers = set(method.state_dict()) - {name for name, _ in method.named_parameters()}
    expected = {
        "separate": {"labelled"},
        "mrnet": {"labelled"},
        "prism": {"labelled"},
        "diag": {"rater_matrices", "rater_weights"},
        "oracle-cm": {"mean_matrices"},
        "pixel-cm": {"raters.own.sums"},
        "coarse": {"raters.own.sums", "raters.choice", "raters.one_sided"},
        "multi-hypothesis": {"wins"},
        "pionono": {"labelled"},
        "wdn": {"labelled"},
        "agg-net": {"raters.counts", "disputed.counts"},  # `fused` takes the latter
        "max-mig": {"raters.counts"},
    }
    counts = isinstance(method, SupervisedMethod)
    assert buffers == expected.get(name, {"rater_matrices"} if counts else set())


def test_truth_sums_to_one() -> None:
    for name in METHODS:
        method = make_plain_method(name, "mask")
        truth = method.truth(draw_images("mask"))
        torch.testing.assert_close(truth.sum(1), torch.ones(2, *SPACES["mask"]))
        if isinstance(method, NetworkMethod) and method.truth_networks():
            logits = method.network(draw_images("mask"))[1]
            torch.testing.assert_close(truth, logits.softmax(1))


def test_what_kind_each_method_is() -> None:
    made = {name: make_plain_method(name, "mask") for name in METHODS}
    assert {name for name, m in made.items() if m.varies} == {"pixel-cm", "low-rank-cm", "coarse"}
    trained_on_labels = {"separate", "global-cm", "single-cm", "pixel-cm", "low-rank-cm"}
    trained_on_labels |= {"gem", "mbem"}
    trained_on_labels |= {"label-sampling", "multi-hypothesis", "prob-unet", "pionono"}
    trained_on_labels |= {"wdn", "crowd-layer", "agg-net", "max-mig"}
    trained_on_labels |= {"mrnet", "prism", "coarse", "scribble-sup", "cycle-mix", "box-sup"}
    no_target = {name for name, m in made.items() if not m.has_targets}
    assert no_target == {*trained_on_labels, "oracle-cm"}
    assert no_target == {name for name, m in made.items() if not m.counts_raters}
    assert {name for name, entry in METHODS.items() if not entry.raters} == {"truth"}
    shared = {"global-cm", "single-cm", "pionono", "crowd-layer", "max-mig"}
    assert {name for name, m in made.items() if m.matrix_parameters()} == shared
    assert {name: m.warm_up for name, m in made.items() if m.warm_up} == {}
    assert make_plain_method("global-cm", "mask", warm_up=3).warm_up == 3


def test_one_sample_must_be_answered() -> None:
    assert Asked(samples=1).needed == {"truth", "samples"}
    assert Asked().needed == {"truth"}


def test_a_method_must_say_how_it_learns() -> None:
    method = Method(small_task(2), learning_method("truth").parse({}))
    alone = (method.step, method.held_out, method.truth, method.target, method.confusion)
    for ask in (*alone, method.draw_latent, method.fused, method.fused_unseen):
        with pytest.raises(NotImplementedError):
            ask(None)  # type: ignore[arg-type]
    for ask_with in (method.as_rater, method.sample, method.weighted):
        with pytest.raises(NotImplementedError):
            ask_with(None, None)  # type: ignore[arg-type]


# Options


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("pixel-cm", {"traces": 1}, "found the unknown key 'traces'"),
        ("mean", {"soft": False}, "found the option 'soft', expected none: it is soft=True here"),
        ("oracle-cm", {"trace": 0.1}, "found the option 'trace', expected none: it is trace=0.0"),
        ("pixel-cm", {"trace": True}, "found trace=True, expected a number"),
        ("low-rank-cm", {"rank": True}, "found rank=True, expected a number"),
        ("pixel-cm", {"form": True}, "found form=True, expected a word"),
        ("pixel-cm", {"trace": -0.1}, "trace"),
        ("pixel-cm", {"trace": float("inf")}, "trace"),
        ("pixel-cm", {"prior": -0.1}, "prior"),
        ("global-cm", {"warm_up": -1}, "warm_up"),
        ("global-cm", {"init_accuracy": 0.0}, "init_accuracy"),
        ("global-cm", {"init_accuracy": 1.0}, "init_accuracy"),
        ("low-rank-cm", {"rank": 0}, "rank"),
        ("pixel-cm", {"trace_over": "listing"}, "trace_over"),
        ("global-cm", {"likelihood": "both"}, "likelihood"),
        ("oracle-cm", {"warm_up": -1}, "warm_up"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(RatersError, match=message):
        learning_method(name).parse(given)


def test_options_at_the_edge_are_taken() -> None:
    found = learning_method("pixel-cm").parse({"trace": 0, "prior": 0, "warm_up": 0})
    assert found.model_dump() | {"trace": 0.0} == found.model_dump()
    assert learning_method("low-rank-cm").parse({"rank": 1}).rank == 1  # type: ignore[attr-defined]
    assert "soft" not in learning_method("mean").own_options
    assert "soft" in learning_method("vote").own_options


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(RatersError, match=r"found the method 'pixelcm'.*pixel-cm"):
        learning_method("pixelcm")


def test_a_paper_s_form_is_complete() -> None:
    """What papers print, or what was chosen where they leave it open."""
    chosen = {
        name: learning_method(name).parse({"form": "paper"}).model_dump(exclude={"init_accuracy"})
        for name in ("global-cm", "single-cm", "pixel-cm", "low-rank-cm")
    }
    shared = {"form": "paper", "likelihood": "marginal", "trace": 0.01, "positivity": "softplus"}
    listing = {**shared, "trace_over": "listing", "warm_up": 0, "warm_up_on": None}
    head = {**shared, "trace_over": "all", "warm_up": 2, "warm_up_on": "trace", "annotator": "cnn"}
    assert chosen["global-cm"] == {**listing, "start": "listing"}
    assert chosen["single-cm"] == {**listing, "start": "listing", "on": "vote"}
    pixel = {"prior": 0.0, "prior_to": "own", "shared": False}
    assert chosen["pixel-cm"] == {**head, **pixel}
    assert chosen["low-rank-cm"] == {**head, "rank": 2, "factors": "product", "shared": False}


# Rater models that methods make


def test_methods_make_one_matrix_per_rater_or_one_for_all() -> None:
    single, several = (
        cast(Any, make_plain_method(n, "mask")).raters for n in ("single-cm", "global-cm")
    )
    assert isinstance(single, GlobalRaters) and len(single.logits) == 1
    assert isinstance(several, GlobalRaters) and len(several.logits) == R
    free = cast(Any, make_plain_method("pixel-cm", "mask", prior=0.0)).raters
    assert isinstance(free, PixelRaters) and free.own is None and free.compares is None
    near = cast(Any, make_plain_method("pixel-cm", "mask", prior_to="identity")).raters
    assert near.own is None and near.compares == "start"


def test_known_matrices_of_another_shape_are_refused() -> None:
    for shape in ((2, 2), (1, 2, 3), (1, 1, 1, 2, 2)):
        with pytest.raises(
            RatersError, match="found known matrices of " + "x".join(map(str, shape))
        ):
            FixedRaters(torch.ones(shape) / shape[-1])
    with pytest.raises(RatersError, match=r"found rows off by 0\.5, expected rows"):
        FixedRaters(torch.tensor([[[0.5, 0.0], [0.0, 1.0]]]))
    FixedRaters(torch.tensor([[[0.9995, 0.0], [0.0, 1.0]]]))  # rounded


def test_an_optimiser_takes_its_schedule_along() -> None:
    def make_optimiser() -> Optimiser:
        optimiser = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        return Optimiser(optimiser, torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5))

    first = make_optimiser()
    second = make_optimiser()
    for _ in range(2):
        first.optimiser.step()
        first.step_schedule()
    second.load_state_dict(first.state_dict())
    second.optimiser.step()
    second.step_schedule()
    assert second.schedule is not None
    assert second.schedule.last_epoch == 3
    assert second.optimiser.param_groups[0]["lr"] == 0.125


@pytest.mark.parametrize(
    ("kind", "raters", "found"),
    [
        ("classification", 3, "found class labels, expected masks: m takes no others"),
        (
            "segmentation",
            1,
            "found 1 rater with labels, expected at least 2: m learns from how raters differ",
        ),
    ],
)
def test_studies_that_a_method_does_not_take_are_refused(
    kind: Any, raters: int, found: str
) -> None:
    entry = MethodEntry("", "", kinds=("segmentation",), least_raters=2)
    entry.refuse_study("m", "segmentation", 2)
    with pytest.raises(RatersError, match=found):
        entry.refuse_study("m", kind, raters)


# The warm-up on a consensus


@pytest.mark.parametrize("name", ["global-cm", "pixel-cm", "single-cm"])
@pytest.mark.parametrize("positivity", ["softmax", "softplus"])
@every_space
def test_a_warm_up_on_a_consensus_learns_from_it_and_matrices_start_at_its_own(
    name: str, positivity: str, space: str
) -> None:
    study = draw_study(space)
    method = make_plain_method(
        name, space, warm_up_on="consensus", warm_up=1, positivity=positivity
    )
    method.prepare(study)
    consensus = fuse(study, "dawid-skene", pool=space == "mask")
    consensus.prepare()
    known = np.array(consensus.fitted()["confusion"])
    known = known.mean(0, keepdims=True) if name == "single-cm" else known
    known = np.clip(known, 0.01, None)
    known /= known.sum(2, keepdims=True)
    method.eval()
    found = method.confusion(draw_images(space)).detach().numpy()
    expected = known.reshape(1, -1, L, L, *(1 for _ in SPACES[space]))
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-4)

    case = study[1]
    target = method.target(case)
    truth = consensus.table.truth[1] if space == "table" else consensus.fuse_case(case).truth
    known_at = True if space == "table" else (case.labels >= 0).any(axis=0)
    np.testing.assert_allclose(target, np.where(known_at, truth, 0), rtol=1e-5)

    method.train()
    method.start_epoch(0)
    batch = {
        "image": torch.from_numpy(np.asarray(case.image))[None],
        "labels": torch.full((1, R, *SPACES[space]), MISSING),
        "target": torch.from_numpy(target)[None],
        "case": torch.zeros(1, dtype=torch.long),
    }
    with torch.no_grad():
        log_truth = method.truth(batch["image"]).log()[0].numpy()
        loss = float(method.step(batch).loss)
    entropy = -(target * log_truth).sum() / max((target.sum(axis=0) > 0).sum(), 1)
    assert loss == pytest.approx(entropy, rel=1e-4)

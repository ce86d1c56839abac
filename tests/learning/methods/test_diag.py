"""`diag`: raters weigh as much as their masks tell of the diagnosis, on cases not learnt from."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

import raters
from raters.core.errors import RatersError
from raters.learning.methods.diag import (
    EVEN_CASES,
    SPREAD,
    Diag,
    dealt,
    facts_of_masks,
    judged,
    logistic,
    stacked,
)
from raters.learning.methods.targets import mean_label
from raters.study.study import Study
from tests.support.scores import foreground_dice

Array = NDArray[Any]
NAMES = ["tells", "far", "farther", "farthest"]
OPTIONS: dict[str, Any] = {"depth": 2, "width": 8, "lr": 0.01, "batch_size": 8, "progress": False}


def draw_diagnosed_discs(cases: int, seed: int = 0, **beside: Any) -> Study:
    """Draw discs whose size is the diagnosis; one rater draws them, three draw beside them alike.

    The three are the majority, and their masks tell nothing of the size.
    """
    rng = np.random.default_rng(seed)
    side = 32
    rows, columns = np.mgrid[:side, :side]
    images = []
    labels = []
    diagnoses = []
    for case in range(cases):
        row, column = rng.uniform(8, side - 17, 2)
        ill = case % 2 == 1
        radius = rng.uniform(6, 8) if ill else rng.uniform(3.5, 5.5)
        away = np.hypot(rows - row, columns - column)
        shifts = 9 + rng.normal(0, 0.7, (3, 2))
        beyond = [np.hypot(rows - row - r, columns - column - c) < 5.5 for r, c in shifts]
        images.append((away < radius) + 0.2 * rng.standard_normal((side, side)))
        labels.append([away < radius, *beyond])
        diagnoses.append("large" if ill else "small")
    beside = {"diagnoses": diagnoses, "raters": NAMES, **beside}
    return Study.from_arrays(np.array(images)[:, None], np.array(labels).astype(int), **beside)


@pytest.mark.slow
def test_who_tells_the_diagnosis_is_believed_against_the_majority() -> None:
    study = draw_diagnosed_discs(32)
    test = list(draw_diagnosed_discs(8, seed=1).iter_cases())
    model = raters.fit(study, "diag", epochs=8, **OPTIONS)
    weights = model.method.rater_weights.tolist()  # type: ignore[union-attr, operator]
    assert weights[0] > 0.6
    assert sum(weights) == pytest.approx(1)
    vote = raters.fit(study, "vote", epochs=8, **OPTIONS)
    fits = {
        name: np.mean([foreground_dice(each.predict(c), c.labels[0]) for c in test])
        for name, each in (("diag", model), ("vote", vote))
    }
    assert fits["diag"] > fits["vote"] + 0.3, fits
    batch = {
        "image": torch.stack([torch.from_numpy(model.pixels(c).numpy()) for c in test]),
        "labels": torch.from_numpy(np.array([c.labels for c in test], np.int64)),
    }
    fused = model.method.fused(batch).argmax(1).numpy()  # type: ignore[operator]
    assert all((fused[k] == c.labels[0]).all() for k, c in enumerate(test))


def test_diagnoses_that_masks_do_not_tell_leave_raters_alike() -> None:
    heaviest = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        told = rng.permutation(["ill", "well"] * 20).tolist()
        method = judge_raters(draw_diagnosed_discs(40, seed=seed, diagnoses=told))
        heaviest.append(float(method.rater_weights.max()))
    assert np.mean(heaviest) < 0.45, heaviest


def judge_raters(study: Study) -> Diag:
    """Judge the raters of a study."""
    from raters.learning.methods.base import Task
    from raters.learning.methods.options import MethodOptions
    from raters.learning.networks import NetworkOptions, TruthNetwork, build_backbone

    def network() -> TruthNetwork:
        options = NetworkOptions("unet", width=2, depth=1, norm="none")
        return TruthNetwork(build_backbone(options, 1, 2), 2, 2)

    method = Diag(Task("segmentation", study.raters, 2, 2, network), MethodOptions())
    method.prepare(study)
    return method


def test_the_facts_are_counted_pixel_by_pixel() -> None:
    rng = np.random.default_rng(0)
    for space in ((5, 4), (4, 3, 3)):
        labels = rng.integers(-1, 3, (2, *space))
        labels[1][labels[1] == 2] = 0  # one mask has no pixel of class 2
        image = rng.normal(size=(2, *space))
        found = facts_of_masks(labels, image, 3)
        each = found.shape[1] // 2
        for r, c in np.ndindex(2, 2):
            expected = facts_slowly(labels[r], image, c + 1)
            np.testing.assert_allclose(found[r, c * each : (c + 1) * each], expected, rtol=1e-5)


def facts_slowly(labels: Array, image: Array, value: int) -> list[float]:
    """Go through the pixels of a mask one by one."""
    inside = [place for place in np.ndindex(*labels.shape) if labels[place] == value]
    known = int((labels >= 0).sum())
    edge = 0
    for place in inside:
        near = []
        for axis, step in np.ndindex(labels.ndim, 2):
            other = list(place)
            other[axis] += 2 * step - 1
            if 0 <= other[axis] < labels.shape[axis]:
                near.append(labels[tuple(other)] != value)
        edge += any(near)
    sizes = [log((len(inside) + 1) / (known + 1)), log((edge + 1) / (known + 1))]
    if not inside:
        return sizes + [float("nan")] * (labels.ndim + 3 * len(image))
    middle = [
        float(np.mean([(p[axis] + 0.5) / labels.shape[axis] for p in inside]))
        for axis in range(labels.ndim)
    ]
    means = []
    spreads = []
    slopes = []
    for channel in image:
        values = [channel[p] for p in inside]
        gradient = np.gradient(channel)
        means.append(float(np.mean(values)))
        spreads.append(float(np.std(values)))
        slopes.append(float(np.mean([np.sqrt(sum(g[p] ** 2 for g in gradient)) for p in inside])))
    return [*sizes, *middle, *means, *spreads, *slopes]


@pytest.mark.parametrize("number", [2, 3])
def test_regression_is_the_maximum_of_its_formula(number: int) -> None:
    rng = np.random.default_rng(number)
    z = rng.normal(size=(2, 30, 4))
    target = rng.integers(0, number, 30)
    rows = (rng.random((2, 30)) < 0.7).astype(float)
    found = logistic(z, target, rows, number)
    for fit in range(2):

        def cost(flat: Array, fit: int = fit) -> float:
            weights = flat.reshape(5, number)
            total = 0.0
            for i in range(30):
                logits = [
                    weights[0, d] + sum(z[fit, i, j] * weights[j + 1, d] for j in range(4))
                    for d in range(number)
                ]
                total -= rows[fit, i] * (logits[target[i]] - log(sum(map(exp, logits))))
            ridge = (weights[0] ** 2).sum() + 4 * (weights[1:] ** 2).sum()
            return float(total + ridge / (2 * SPREAD**2))

        best = minimize(cost, np.zeros(5 * number), options={"gtol": 1e-6})
        np.testing.assert_allclose(found[fit].ravel(), best.x, atol=2e-3)


def test_the_weights_are_those_that_make_diagnoses_likeliest() -> None:
    rng = np.random.default_rng(0)
    there = rng.random((3, 40)) < 0.7
    there[:, 0] = False  # nobody drew this case
    tells = np.where(there, np.log(rng.uniform(0.1, 0.9, (3, 40))), 0.0)
    tells[1] = np.where(there[1], tells[1] / 3, 0.0)
    weights, shares = stacked(tells, there)

    def cost(logits: Array) -> float:
        given = [exp(x) for x in logits]
        total = -sum(EVEN_CASES * log(given[r] / sum(given)) for r in range(3))
        for i in range(40):
            drew = [r for r in range(3) if there[r, i]]
            if drew:
                mixed = sum(given[r] * exp(tells[r, i]) for r in drew)
                total -= log(mixed / sum(given[r] for r in drew))
        return total

    best = np.exp(minimize(cost, np.zeros(3), options={"gtol": 1e-8}).x)
    np.testing.assert_allclose(weights, best / best.sum(), atol=1e-4)
    assert weights.argmax() == 1
    np.testing.assert_allclose(shares.sum(0), there.any(0))
    assert (shares[~there] == 0).all()
    for i in range(1, 40):
        own = [weights[r] * exp(tells[r, i]) * there[r, i] for r in range(3)]
        np.testing.assert_allclose(shares[:, i], np.array(own) / max(sum(own), 1e-300), rtol=1e-6)


def test_a_case_is_judged_by_what_was_learnt_from_others() -> None:
    """Facts that are different in every case can be learnt by heart, and tell nothing."""
    rng = np.random.default_rng(0)
    diagnoses = np.array([0, 1] * 15)
    tells = np.where(diagnoses == 1, 1.0, -1.0)[:, None] + rng.normal(0, 0.3, (30, 12))
    by_heart = rng.normal(size=(30, 12))
    facts = np.stack([tells, by_heart])
    there = np.ones((2, 30), bool)
    folds = dealt([str(k) for k in range(30)], diagnoses)
    found = judged(facts, there, diagnoses, folds, 2)
    assert np.exp(found[0]).mean() > 0.9
    assert found[1].mean() < log(0.5) + 0.05
    for case in (0, 7):  # the diagnosis of a case changes what others are judged by, not its odds
        other = diagnoses.copy()
        other[case] = 1 - other[case]
        again = judged(facts, there, other, folds, 2)
        np.testing.assert_allclose(np.exp(found[:, case]) + np.exp(again[:, case]), 1, rtol=1e-9)


def test_groups_are_judged_whole() -> None:
    groups = [f"p{k // 3}" for k in range(30)]
    diagnoses = np.array([k // 3 % 2 for k in range(30)])
    folds = dealt(groups, diagnoses)
    assert all(len(set(folds[3 * k : 3 * k + 3])) == 1 for k in range(10))
    assert all(set(diagnoses[folds == fold]) == {0, 1} for fold in range(5))


def test_targets_follow_the_case_and_gaps_are_filled_by_the_network() -> None:
    study = draw_diagnosed_discs(24)
    method = judge_raters(study)
    case = study[5]
    share = method._case_weights[case.id]
    expected = (case.labels * share[:, None, None]).sum(0)
    np.testing.assert_allclose(method.target(case)[1], expected, atol=1e-5)
    batch = {
        "image": torch.from_numpy(np.asarray(case.image))[None].float(),
        "labels": torch.from_numpy(case.labels.astype(np.int64))[None].clone(),
    }
    batch["labels"][..., :4] = -1
    fused = method.fused(batch)
    truth = method.truth(batch["image"])
    torch.testing.assert_close(fused[..., :4], truth[..., :4])
    plain = mean_label(batch["labels"], 2, method.rater_weights[None])
    torch.testing.assert_close(fused[..., 4:], plain[..., 4:])


def test_cases_without_a_diagnosis_are_trained_on_with_a_note() -> None:
    some = [None if k % 4 == 0 else ["small", "large"][k % 2] for k in range(24)]
    study = draw_diagnosed_discs(24, diagnoses=some)
    with pytest.warns(UserWarning, match="6 cases of 24 have no diagnosis"):
        model = raters.fit(study, "diag", epochs=1, val_fraction=0, **OPTIONS)
    method = model.method
    assert isinstance(method, Diag)
    assert method.rater_weights.argmax() == 0
    judged_cases = set(method._case_weights)
    assert len(judged_cases) == 18
    without = study[0]
    plain = (without.labels * method.rater_weights.numpy()[:, None, None]).sum(0)
    np.testing.assert_allclose(method.target(without)[1], plain, atol=1e-5)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, "found no diagnosis of any case, expected one of most: diag judges raters"),
        (["ill"] * 8, "found the diagnoses 'ill' 8 times, expected two or more"),
        (["ill"] * 7 + ["well"], "'ill' 7 times, 'well' 1 time, expected two or more"),
    ],
)
def test_diagnoses_that_say_nothing_are_refused(told: list[str] | None, words: str) -> None:
    with pytest.raises(RatersError, match=words):
        raters.fit(draw_diagnosed_discs(8, diagnoses=told), "diag", epochs=1, **OPTIONS)


def test_one_group_is_refused() -> None:
    """Nobody could be judged by cases that nothing was learnt from, and all would weigh alike."""
    study = draw_diagnosed_discs(8, groups=["one"] * 8)
    with pytest.raises(RatersError, match="found one group, 'one', of all cases with a diagnosis"):
        judge_raters(study)
    assert judge_raters(
        draw_diagnosed_discs(8, groups=["one"] * 4 + ["two"] * 4)
    ).rater_weights.sum() == pytest.approx(1)


def test_one_rater_and_class_labels_are_refused() -> None:
    with pytest.raises(RatersError, match="found 1 rater with labels, expected at least 2: diag"):
        raters.fit(draw_diagnosed_discs(8).select(raters=["tells"]), "diag", epochs=1, **OPTIONS)
    labels = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
    table = Study.from_arrays(np.zeros((4, 3)), labels, diagnoses=["a", "b", "a", "b"])
    with pytest.raises(RatersError, match="found class labels, expected masks: diag"):
        raters.fit(table, "diag", epochs=1)


def test_a_rater_who_is_added_later_weighs_nothing() -> None:
    study = draw_diagnosed_discs(16)
    old = study.select(raters=NAMES[:3])
    model = raters.fit(old, "diag", epochs=1, **OPTIONS)
    longer = raters.extend(model, study.select(raters=["farthest"]))
    weights = longer.method.rater_weights.tolist()  # type: ignore[union-attr, operator]
    assert weights[:3] == model.method.rater_weights.tolist()  # type: ignore[union-attr, operator]
    assert weights[3] == 0

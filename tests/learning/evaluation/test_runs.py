"""Scores of trained runs: against slow loops, scikit-learn, known truths, and broken input."""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, log_loss

import raters
from raters.core.errors import RatersError
from raters.evaluation import Evaluation, evaluate
from raters.evaluation.case import Scoring
from raters.evaluation.evaluate import score_cases
from raters.evaluation.prediction import Prediction
from raters.learning.evaluation import compare_runs
from raters.learning.evaluation.runs import Seen, choose_split, warnings_of
from raters.learning.training.run import write_splits
from raters.metrics import dice, interval, mean_dice
from raters.metrics.bootstrap import GroupBootstrap, mean_sums, ratio
from raters.metrics.calibration import joint_log_likelihood
from raters.simulation import simulate, true_confusion
from raters.study.case import Case
from raters.study.study import Study
from tests.support.command_line import Run, draw_masks, images_option, pattern
from tests.support.scores import only_row

NAMES = ["ann", "bob", "cat"]
Array = NDArray[Any]


def draw_probabilities(rng: np.random.Generator, *shape: int) -> Array:
    """Draw probabilities `(classes, ...)`."""
    found = rng.dirichlet(np.ones(shape[0]), shape[1:]).astype(np.float32)
    return np.moveaxis(found, -1, 0)


def draw_mask_study(seed: int = 0, references: bool = True) -> Study:
    """Draw masks of 3 classes by 3 raters, some missing, for 5 cases of 3 patients."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, (5, 3, 6, 5))
    labels[0, 1] = -1
    labels[2, 2, :3] = -1
    reference = [*rng.integers(0, 3, (3, 6, 5)), None, None] if references else None
    return Study.from_arrays(
        images=np.zeros((5, 1, 6, 5)),
        labels=labels,
        reference=reference,
        raters=NAMES,
        groups=list("ppqrr"),
        classes=["background", "core", "edge"],
    )


def make_up_predictions(study: Study, seed: int = 1) -> dict[str, Prediction]:
    """Make up what a model says of each case."""
    rng = np.random.default_rng(seed)
    found = {}
    for case in study:
        space = case.labels.shape[1:] if study.kind == "segmentation" else ()
        classes = len(study.classes)
        told = {name: draw_probabilities(rng, classes, *space) for name in NAMES}
        matrices = rng.dirichlet(np.ones(classes), (3, classes, *space)).astype(np.float32)
        matrices = np.moveaxis(matrices, -1, 2)
        found[case.id] = prediction(draw_probabilities(rng, classes, *space), told, matrices)
    return found


def stream(
    study: Study, said: dict[str, Prediction], rows: int = 99
) -> Iterator[tuple[Case, Iterator[Prediction]]]:
    """Return what was said in bands of rows."""
    for case in study:
        whole = said[case.id]
        if study.kind == "classification":
            yield case, iter([whole])
            continue
        starts = range(0, whole.truth.shape[1], rows)
        yield case, iter([_band(whole, slice(k, k + rows)) for k in starts])


def prediction(truth: Any, told: dict[str, Any], matrices: Any = None) -> Prediction:
    maps = {"truth": truth} | {f"as:{name}": part for name, part in told.items()}
    return Prediction(maps if matrices is None else maps | {"confusion": matrices})


def _band(whole: Prediction, rows: slice) -> Prediction:
    maps = {
        name: part[(slice(None),) * whole.front(name) + (rows,)] if whole.fills(name) else part
        for name, part in whole.maps.items()
    }
    return Prediction(maps, rows.start)


def score_predictions(study: Study, said: dict[str, Prediction], rows: int = 99) -> Evaluation:
    known = {name: study.raters.index(name) for name in NAMES}
    return score_cases(stream(study, said, rows), Scoring(study, known, [0, 1, 2]))


@pytest.mark.parametrize("rows", [99, 2])
def test_likelihoods_of_masks_equal_slow_loops(rows: int) -> None:
    study = draw_mask_study()
    said = make_up_predictions(study)
    marginal = joint = truth = 0.0
    number = 0
    for case in study:
        told = said[case.id]
        assert told.confusion is not None
        for pixel in np.ndindex(6, 5):
            products = np.array([told.truth[(t, *pixel)] for t in range(3)], float)
            seen = [r for r in range(3) if case.labels[(r, *pixel)] >= 0]
            for r in seen:
                o = int(case.labels[(r, *pixel)])
                marginal += math.log(told.as_rater(NAMES[r])[(o, *pixel)])
                truth += math.log(told.truth[(o, *pixel)])
                products *= told.confusion[(r, slice(None), o, *pixel)]
            joint += math.log(products.sum()) if seen else 0.0
            number += len(seen)
    found = score_predictions(study, said, rows)
    for form, total in (("joint", joint), ("marginal", marginal), ("as the truth", truth)):
        row = only_row(found.likelihood, form=form)
        assert row["labels"] == number
        assert row["log_likelihood"] == pytest.approx(total / number, rel=1e-6)
        assert row["log_likelihood_low"] is None  # of three patients


def test_joint_likelihood_is_that_of_training() -> None:
    rng = np.random.default_rng(3)
    truth = draw_probabilities(rng, 3, 4, 2)
    matrices = rng.dirichlet(np.ones(3), (2, 3))
    labels = rng.integers(-1, 3, (2, 4, 2))
    column = np.zeros((1, 2, 3, 4, 2))
    for r, i, j in np.ndindex(2, 4, 2):
        if labels[r, i, j] >= 0:
            column[0, r, :, i, j] = np.log(matrices[r, :, labels[r, i, j]])
    expected = raters.learning.rater_models.log_likelihood(
        torch.from_numpy(truth)[None].double().log(),
        torch.from_numpy(column),
        "joint",
        torch.from_numpy(labels)[None],
    ).sum()
    fixed = matrices.reshape(2, 3, 3, 1, 1)
    assert joint_log_likelihood(truth, fixed, list(labels)) == pytest.approx(float(expected))


@pytest.mark.parametrize("rows", [99, 4])
def test_as_rater_table_compares_every_pair(rows: int) -> None:
    study = draw_mask_study()
    said = make_up_predictions(study)
    found = score_predictions(study, said, rows)
    assert len(found.as_rater) == 9
    for x in NAMES:
        for y, against in enumerate(NAMES):
            logs = []
            scores = []
            drawn = []
            for case in study:
                labels = case.labels[y]
                told = said[case.id].as_rater(x)
                seen = [p for p in np.ndindex(6, 5) if labels[p] >= 0]
                if not seen:
                    continue
                logs += [math.log(told[(labels[p], *p)]) for p in seen]
                guess = told.argmax(0)
                scores.append(dice(labels, guess, 3).mean())
                there = [c for c in (1, 2) if any(labels[p] == c or guess[p] == c for p in seen)]
                drawn.append(dice(labels, guess, 3)[[c - 1 for c in there]].mean())
            row = only_row(found.as_rater, **{"as": x, "against": against})
            assert (row["cases"], row["labels"]) == (len(scores), len(logs))
            assert row["log_likelihood"] == pytest.approx(np.mean(logs), rel=1e-6)
            assert row["dice"] == pytest.approx(np.mean(scores))
            assert row["dice_drawn"] == pytest.approx(np.mean(drawn))


def test_own_row_is_compared_with_the_mean_of_the_others() -> None:
    study = draw_mask_study()
    found = score_predictions(study, make_up_predictions(study))
    for y in NAMES:
        own = only_row(found.raters, rater=y)
        column = {x: only_row(found.as_rater, **{"as": x, "against": y}) for x in NAMES}
        for score in ("log_likelihood", "dice"):
            others = [column[x][score] for x in NAMES if x != y]
            assert own[score] == pytest.approx(column[y][score])
            assert own[f"{score}_of_others"] == pytest.approx(np.mean(others))
            assert own[f"{score}_better"] == pytest.approx(own[score] - np.mean(others))
            assert own[f"{score}_rank"] == 1 + sum(o > own[score] for o in others)


def test_scores_of_the_truth_are_those_of_masks() -> None:
    study = draw_mask_study()
    said = make_up_predictions(study)
    found = score_predictions(study, said)
    values = [mean_dice(c.reference, said[c.id].truth.argmax(0), 3) for c in list(study)[:3]]
    assert found.score == "dice, reference"
    assert found.main["score"] == pytest.approx(np.mean(values))
    row = only_row(found.summary, **{"against": "reference", "class": "all"})
    assert row["dice"] == pytest.approx(np.mean(values))
    assert {"iou", "hd95", "surface_distance"} <= set(row)
    without = score_predictions(draw_mask_study(references=False), said)
    assert without.score == "dice, mean over raters"
    each = [
        np.mean([mean_dice(m, said[c.id].truth.argmax(0), 3) for m in c.labels if (m >= 0).any()])
        for c in study
    ]
    assert without.main["score"] == pytest.approx(np.mean(each))
    assert "ece" not in without.main
    assert "as_rater_ece" in without.main


def test_calibration_equals_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    p = rng.random(400).astype(np.float32)
    truth = (rng.random(400) < p**2).astype(int)
    study = Study.from_arrays(np.zeros((400, 1)), np.stack([truth] * 3, 1), truth, raters=NAMES)
    said = {
        case.id: prediction(np.array([1 - q, q]), dict.fromkeys(NAMES, np.array([1 - q, q])))
        for case, q in zip(study, p, strict=True)
    }
    found = score_predictions(study, said)
    row = only_row(found.calibration, of="truth")
    assert row["labels"] == 400
    assert row["brier"] == pytest.approx(2 * brier_score_loss(truth, p), rel=1e-5)
    assert row["log_loss"] == pytest.approx(log_loss(truth, p.astype(float)), rel=1e-5)
    top = np.maximum(p, 1 - p)
    right = (p > 0.5) == truth
    share, mean = calibration_curve(right, top.astype(float), n_bins=15)
    bins = [r for r in found.reliability if r["of"] == "truth" and r["labels"]]
    assert [b["accuracy"] for b in bins] == pytest.approx(list(share))
    assert [b["confidence"] for b in bins] == pytest.approx(list(mean), rel=1e-5)
    ece = sum(b["labels"] * abs(b["accuracy"] - b["confidence"]) for b in bins) / 400
    assert row["ece"] == pytest.approx(ece)
    told = only_row(found.calibration, of="as rater")
    assert told["labels"] == 1200
    assert told["brier"] == pytest.approx(row["brier"])


def class_study(seed: int = 0) -> Study:
    """Draw 3 classes, answered by raters who skip some."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, (40, 3))
    labels[:, 0] = rng.integers(0, 3, 40)
    return Study.from_arrays(
        rng.normal(size=(40, 2)),
        labels,
        rng.integers(0, 3, 40),
        raters=NAMES,
        groups=[f"g{k // 4}" for k in range(40)],
        classes=["x", "y", "z"],
    )


def test_class_scores_equal_scikit_learn_and_loops() -> None:
    study = class_study()
    said = make_up_predictions(study)
    found = score_predictions(study, said)
    truth = np.array([int(case.reference) for case in study if case.reference is not None])
    given = np.stack([said[case.id].truth for case in study]).astype(float)
    row = only_row(found.summary, **{"against": "reference", "class": "all"})
    assert row["accuracy"] == pytest.approx((given.argmax(1) == truth).mean())
    assert row["balanced_accuracy"] == pytest.approx(
        balanced_accuracy_score(truth, given.argmax(1))
    )
    assert row["log_loss"] == pytest.approx(log_loss(truth, given / given.sum(1, keepdims=True)))
    one = only_row(found.summary, **{"against": "reference", "class": "y"})
    assert one["cases"] == (truth == 1).sum()
    assert one["accuracy"] == pytest.approx((given.argmax(1) == 1)[truth == 1].mean())
    joint = 0.0
    pairs = []
    for case in study:
        product = said[case.id].truth.astype(float)
        for r, o in zip(case.answers.rater, case.answers.label, strict=True):
            product = product * said[case.id].confusion[r, :, o]  # type: ignore[index]
            if r == 1:
                pairs.append(math.log(said[case.id].as_rater("ann")[o]))
        joint += math.log(product.sum())
    number = sum(len(case.answers) for case in study)
    row = only_row(found.likelihood, form="joint")
    assert row["log_likelihood"] == pytest.approx(joint / number, rel=1e-6)
    pair = only_row(found.as_rater, **{"as": "ann", "against": "bob"})
    assert pair["log_likelihood"] == pytest.approx(np.mean(pairs), rel=1e-6)
    assert pair["labels"] == len(pairs)


def test_a_rater_may_answer_twice(tmp_path: Path) -> None:
    lines = ["task,worker,label", "a,ann,x", "a,ann,y", "a,bob,x", "b,cat,y", "b,ann,y", "b,bob,x"]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    np.save(tmp_path / "x.npy", np.zeros((2, 1)))
    study = raters.read(tmp_path / "table.csv", images=str(tmp_path / "x.npy"))
    said = make_up_predictions(study)
    found = score_predictions(study, said)
    p = said["a"].truth.astype(float)
    matrices = said["a"].confusion
    q = said["b"].truth.astype(float)
    others = said["b"].confusion
    assert matrices is not None
    assert others is not None
    ann, bob, cat = (study.raters.index(name) for name in NAMES)
    first = p * matrices[0, :, 0] * matrices[0, :, 1] * matrices[1, :, 0]
    second = q * others[2, :, 1] * others[0, :, 1] * others[1, :, 0]
    joint = (math.log(first.sum()) + math.log(second.sum())) / 6
    assert (ann, bob, cat) == (0, 1, 2)
    row = only_row(found.likelihood, form="joint")
    assert (row["labels"], row["log_likelihood"]) == (6, pytest.approx(joint, rel=1e-6))
    assert only_row(found.raters, rater="ann")["labels"] == 3


def test_many_raters_are_compared_with_themselves_only() -> None:
    study = draw_mask_study()
    all_pairs = score_predictions(study, make_up_predictions(study))
    known = {name: k for k, name in enumerate(NAMES)}
    few = score_cases(
        stream(study, make_up_predictions(study)), Scoring(study, known, [0, 1, 2], pairs=False)
    )
    assert few.main == all_pairs.main
    assert not few.as_rater
    for row in few.raters:
        whole = only_row(all_pairs.raters, rater=row["rater"])
        assert all(
            whole[name] == pytest.approx(value) for name, value in row.items() if name != "rater"
        )


def test_a_perfect_model_is_perfect_and_a_random_one_is_not() -> None:
    study = draw_mask_study()
    labels = np.stack([np.where(case.labels < 0, 0, case.labels) for case in study])
    labels[:3] = np.stack([case.reference for case in list(study)[:3]])[:, None]  # type: ignore[misc]
    same = Study.from_arrays(
        np.zeros((5, 1, 6, 5)), labels, labels[:, 0], raters=NAMES, classes=["b", "c", "d"]
    )
    said = {}
    for case in same:
        truth = np.eye(3, dtype=np.float32)[case.labels].transpose(0, 3, 1, 2)
        matrix = np.broadcast_to(np.eye(3, dtype=np.float32)[..., None, None], (3, 3, 3, 1, 1))
        said[case.id] = prediction(truth[0], dict(zip(NAMES, truth, strict=True)), matrix)
    for case in list(same)[3:]:  # there raters differ, and no truth explains all of them
        del said[case.id].maps["confusion"]
    found = score_predictions(same, said)
    assert found.main["score"] == found.main["as_rater"] == 1
    assert found.main["ece"] == found.main["as_rater_ece"] == 0
    assert only_row(found.likelihood, form="marginal")["log_likelihood"] == 0
    assert [row["brier"] for row in found.calibration] == [0, 0]
    drawn = score_predictions(same, make_up_predictions(same))
    assert drawn.main["score"] < 0.6
    assert drawn.main["as_rater"] < 0.6
    assert drawn.main["ece"] > 0.1
    assert drawn.main["marginal"] < -0.9


def test_matrices_are_compared_with_those_of_simulated_raters() -> None:
    truth = np.zeros((4, 8, 8), int)
    truth[:, 2:6, 2:6] = 1
    study = simulate(truth, "good:0.3,over:1.5,blank", seed=1)
    known = {name: k for k, name in enumerate(study.raters)}
    said = {}
    for case in study:
        matrices = true_confusion(study, case.id).astype(np.float32)[..., None, None]
        maps = draw_probabilities(np.random.default_rng(0), 2, 8, 8)
        said[case.id] = prediction(maps, dict.fromkeys(known, maps), matrices)
    found = score_cases(stream(study, said), Scoring(study, known, [0, 1, 2]))
    assert found.main["confusion_error"] == pytest.approx(0, abs=1e-6)
    wrong = {
        k: Prediction(v.maps | {"confusion": v.maps["confusion"][:, :, ::-1]})
        for k, v in said.items()
    }
    found = score_cases(stream(study, wrong), Scoring(study, known, [0, 1, 2]))
    assert found.main["confusion_error"] > 0.5


def tail(groups: int) -> float:
    """Return the quantile at which an interval of so many groups ends (Hesterberg, 2015)."""
    wider = np.sqrt(groups / (groups - 1)) * stats.t.ppf(0.975, groups - 1)
    return float(stats.norm.cdf(-wider))


def test_draws_are_those_of_a_brute_force_bootstrap() -> None:
    rng = np.random.default_rng(7)
    groups = np.array(list("aabbbcddef"))
    a = rng.random((10, 2))
    b = rng.random((10, 2))
    members = [np.flatnonzero(groups == g) for g in "abcdef"]
    drawn = np.random.default_rng(0).integers(6, size=(300, 6))
    scores = []
    for row in drawn:
        cases = np.concatenate([members[g] for g in row])
        first, second = (v[cases].sum(0) for v in (a, b))
        scores.append((first[0] / first[1], second[0] / second[1] - first[0] / first[1]))
    bootstrap = GroupBootstrap(groups, repeats=300)
    one = bootstrap.interval(a, ratio)
    two = bootstrap.difference(a, b, ratio)
    ends = np.quantile(np.array(scores), [tail(6), 1 - tail(6)], axis=0)
    assert (one.low, one.high) == pytest.approx(tuple(ends[:, 0]))
    assert (two.low, two.high) == pytest.approx(tuple(ends[:, 1]))
    assert two.estimate == pytest.approx(b.sum(0)[0] / b.sum(0)[1] - a.sum(0)[0] / a.sum(0)[1])


def test_draws_of_means_are_those_of_interval() -> None:
    rng = np.random.default_rng(8)
    values = rng.random(30)
    groups = rng.integers(0, 6, 30)
    found = GroupBootstrap(groups).interval(mean_sums(values), ratio)
    same = interval(values, groups)
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (same.estimate, same.low, same.high)
    )
    slices = GroupBootstrap(np.arange(30)).interval(mean_sums(groups / 1.0), ratio)
    patients = GroupBootstrap(groups).interval(mean_sums(groups / 1.0), ratio)
    assert patients.high - patients.low > 1.5 * (slices.high - slices.low)


def test_one_group_has_no_interval() -> None:
    found = GroupBootstrap(["a", "a"]).interval(mean_sums([0.2, 0.4]), ratio)
    assert found.estimate == pytest.approx(0.3)
    assert math.isnan(found.low)
    assert not found.exists


# Trained runs


def trained_study(classes: Any = ("x", "y")) -> Study:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    labels = np.where(rng.random((60, 3)) < [0.95, 0.8, 0.7], truth[:, None], 1 - truth[:, None])
    features = truth[:, None] + rng.normal(0, 0.2, (60, 2))
    return Study.from_arrays(
        features,
        labels,
        truth,
        raters=NAMES,
        cases=[f"case{k}" for k in range(60)],
        groups=[f"g{k // 2}" for k in range(60)],
        classes=list(classes),
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Train three models on 30 cases; 10 chose the epoch."""
    folder = tmp_path_factory.mktemp("runs")
    study = trained_study()
    names = list(study.index.ids)
    part = study.select(cases=names[:40])
    found = {}
    for method in ("global-cm", "vote", "separate"):
        model = raters.fit(part, method, epochs=3, width=4, depth=1, progress=False)
        found[method] = model.save(folder / method)
        rows = [(n, "train" if k < 30 else "held-out", f"g{k // 2}") for k, n in enumerate(names)]
        write_splits(found[method], rows[:40])
    return found


def test_a_run_is_scored_as_its_model_says(runs: dict[str, Path]) -> None:
    study = trained_study()
    found = evaluate(runs["global-cm"], study, "test")
    model = raters.load(runs["global-cm"])
    cases = [study[f"case{k}"] for k in range(40, 60)]
    right = [model.truth(case).argmax() == case.reference for case in cases]
    assert (found.run, found.method, found.scored) == ("global-cm", "global-cm", 20)
    assert found.main["score"] == pytest.approx(np.mean(right))
    for x in NAMES:
        logs = [
            math.log(model.as_rater(case, x)[case.answers.of(study.raters[1])[0]]) for case in cases
        ]
        row = only_row(found.as_rater, **{"as": x, "against": "bob"})
        assert row["log_likelihood"] == pytest.approx(np.mean(logs), rel=1e-4)
    assert not found.warnings
    assert found.main["joint"] > found.main["marginal"] - 1


def test_splits_by_what_the_run_saw(runs: dict[str, Path]) -> None:
    study = trained_study()
    seen = [Seen.by_run(runs["vote"])]
    for split, expected in (
        ("train", range(30)),
        ("val", range(30, 40)),
        ("held-out", range(30, 40)),
        ("test", range(40, 60)),
        ("new", range(40, 60)),
    ):
        assert list(choose_split(study, split, seen).cases) == [f"case{k}" for k in expected]
    own = replace(study, index=replace(study.index, splits=np.array(["test", "b"] * 30, object)))
    assert list(choose_split(own, "test", seen).cases) == [f"case{k}" for k in range(0, 60, 2)]
    with pytest.raises(RatersError, match=r"in the split 'c', expected one of b \(of the study"):
        choose_split(own, "c", seen)
    with pytest.raises(RatersError, match=r"train \(30 cases\), held-out \(10 cases\), test"):
        choose_split(study, "valid2", seen)
    with pytest.raises(RatersError, match=r"no splits\.csv"):
        choose_split(study, "test", [Seen(known=False)])


def test_it_warns_of_cases_and_groups_that_were_trained_on(runs: dict[str, Path]) -> None:
    study = trained_study()
    with pytest.warns(UserWarning, match="30 of 60 cases were trained on"):
        found = evaluate(runs["vote"], study)
    assert any("10 of 60 cases chose the epoch" in note for note in found.notes)
    other = replace(study, index=replace(study.index, groups=np.array(["g0"] * 60, object)))
    seen = Seen.by_run(runs["vote"])
    texts = warnings_of(choose_split(other, "test", [seen]), seen)
    assert texts == ["20 cases of groups (patients) that were trained on"]


def test_a_run_without_matrices_has_no_joint_likelihood(runs: dict[str, Path]) -> None:
    found = evaluate(runs["separate"], trained_study(), "test")
    assert [row["form"] for row in found.likelihood] == ["marginal", "as the truth"]
    assert any("no joint likelihood" in note for note in found.notes)


def test_unknown_raters_are_left_out_with_a_note(runs: dict[str, Path]) -> None:
    study = trained_study()
    renamed = Study.from_arrays(
        np.stack([case.image for case in study]),
        np.stack([np.concatenate(case.answers.by_rater()) for case in study]),
        study.reference_labels,
        raters=["ann", "bob", "new one"],
        classes=["x", "y"],
    )
    found = evaluate(runs["global-cm"], renamed)
    assert {row["as"] for row in found.as_rater} == {"ann", "bob"}
    assert {row["against"] for row in found.summary} == {"reference", "ann", "bob", "new one"}
    assert found.notes == ["1 rater that the run does not know (left out of 'as rater'): new one"]
    with pytest.raises(RatersError, match="found the rater 'zoe', expected one that the run knows"):
        evaluate(runs["global-cm"], study, "test", raters=["zoe"])


def test_what_cannot_be_scored_is_refused(runs: dict[str, Path]) -> None:
    with pytest.raises(RatersError, match="classes 0=x, 1=z, expected those of the run: 0=x, 1=y"):
        evaluate(runs["vote"], trained_study(("x", "z")), "test")
    blind = Study.from_arrays(labels=np.zeros((3, 2), int), classes=["x", "y"])
    with pytest.raises(RatersError, match="no image of case '0', expected images"):
        evaluate(runs["vote"], blind)
    with pytest.raises(RatersError, match="found a study of segmentation, expected one of cl"):
        evaluate(runs["vote"], draw_mask_study())


def test_differences_of_runs_are_paired(runs: dict[str, Path]) -> None:
    study = trained_study()
    found = compare_runs([runs["vote"], runs["global-cm"], runs["separate"]], study, "test")
    assert [row["run"] for row in found.rows] == ["vote", "global-cm", "separate"]
    alone = evaluate(runs["global-cm"], study, "test")
    assert found.rows[1]["score"] == alone.main["score"]
    first, second = (raters.load(runs[name]) for name in ("vote", "global-cm"))
    logs = []
    for k in range(40, 60):
        case = study[f"case{k}"]
        told = [[m.as_rater(case, r) for r in NAMES] for m in (first, second)]
        given = [case.answers.of(rater).item() for rater in NAMES]
        logs.append(
            [np.mean([math.log(p[o]) for p, o in zip(ps, given, strict=True)]) for ps in told]
        )
    gap = np.diff(np.array(logs), axis=1)[:, 0]
    draws = np.random.default_rng(0).integers(10, size=(2000, 10))
    means = gap.reshape(10, 2).mean(1)[draws].mean(1)  # groups of two cases with 3 labels each
    row = only_row(found.differences, run="global-cm", score="marginal")
    assert row["difference"] == pytest.approx(gap.mean(), rel=1e-3)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(
        tuple(np.quantile(means, [tail(10), 1 - tail(10)])), rel=1e-3
    )
    assert not [r for r in found.differences if r["run"] == "separate" and r["score"] == "joint"]
    assert len(found.cases) == 60


def test_a_run_against_itself_does_not_differ(runs: dict[str, Path]) -> None:
    found = compare_runs([runs["vote"], runs["vote"]], trained_study(), "test")
    assert {(r["difference"], r["difference_low"], r["difference_high"]) for r in found.differences}
    assert all(r["difference"] == r["difference_high"] == 0 for r in found.differences)
    assert len({row["run"] for row in found.rows}) == 2


def test_tables_are_written(runs: dict[str, Path], tmp_path: Path) -> None:
    found = evaluate(runs["global-cm"], trained_study(), "test")
    found.write(tmp_path / "one")
    with open(tmp_path / "one" / "as_rater.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 9
    read = json.loads((tmp_path / "one" / "evaluation.json").read_text())
    assert read["main"]["score"] == found.main["score"]
    assert read["scored"] == 20
    compare_runs([runs["vote"], runs["separate"]], trained_study(), "test").write(tmp_path / "two")
    assert (tmp_path / "two" / "differences.csv").exists()
    assert (tmp_path / "two" / "2-separate" / "summary.csv").exists()


# The command line


@pytest.fixture(scope="module")
def mask_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on masks in files; cases c4 and c5 are new."""
    folder = draw_masks(tmp_path_factory.mktemp("masks"), cases=6)
    study = raters.read(pattern(folder), images=f"{folder}/images/{{case}}.png")
    part = study.select(cases=["c0", "c1", "c2", "c3"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = raters.fit(part, "pixel-cm", epochs=1, width=2, depth=2, progress=False)
    model.save(folder / "run")
    splits = [(f"c{k}", "train" if k < 3 else "held-out", f"c{k}") for k in range(4)]
    write_splits(folder / "run", splits)
    return folder


def test_command_scores_a_run(
    mask_run: Path, tmp_path: Path, run_raters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    study = [pattern(mask_run), *images_option(mask_run)]
    arguments = ["evaluate", mask_run / "run", *study, "--split", "test", "-o", tmp_path]
    done = run_raters(*arguments)
    assert done.code == 0
    assert "run: pixel-cm, 2 cases, split test" in done.out
    assert "WARNING" not in done.err
    assert max(map(len, done.out.splitlines()[:-1])) <= 80
    assert {"summary.csv", "as_rater.csv", "calibration.csv"} <= {
        f.name for f in tmp_path.iterdir()
    }
    done = run_raters("evaluate", mask_run / "run", *study, "--json")
    assert done.code == 0
    assert "WARNING: 3 of 6 cases were trained on" in done.err
    assert json.loads(done.out)["scored"] == 6
    more = ["--split", "test", "--against", mask_run / "run"]
    done = run_raters("evaluate", mask_run / "run", *study, *more)
    assert done.code == 0
    assert "paired" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_command_refuses_what_is_wrong(mask_run: Path, tmp_path: Path, run_raters: Run) -> None:
    run = mask_run / "run"
    study = [pattern(mask_run), *images_option(mask_run)]
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("method: [1")
    other = draw_masks(tmp_path / "other", value=3)
    strange = [pattern(other), *images_option(other)]
    for arguments, message in (
        ([run, *study, "--split", "tset"], "expected one of train (3 cases), held-out (1 case)"),
        ([run, *study, "--against", tmp_path / "empty"], "expected a model folder"),
        ([tmp_path / "empty", *study], "found no prediction for any of 6 cases"),
        ([broken, *study], "expected a model's config.yaml"),
        ([run, pattern(mask_run)], "expected images"),
        ([run, *strange], "expected those of the run"),
        ([run, *study, "--raters", "zoe"], "found no rater 'zoe'"),
    ):
        done = run_raters("evaluate", *arguments)
        assert done.code == 2, arguments
        assert message in done.err
        assert done.err.splitlines()[-1].startswith("error: ")


def test_a_broken_image_is_named_and_the_rest_is_scored(
    mask_run: Path, tmp_path: Path, run_raters: Run
) -> None:
    folder = draw_masks(tmp_path, cases=6)
    (folder / "images" / "c5.png").write_bytes(b"no image")
    study = [pattern(folder), *images_option(folder)]
    arguments = ["evaluate", mask_run / "run", *study, "--split", "test"]
    done = run_raters(*arguments)
    assert done.code == 2
    assert "1 case could not be scored" in done.err
    assert "c5.png" in done.err
    assert "pixel-cm, 1 case," in done.out

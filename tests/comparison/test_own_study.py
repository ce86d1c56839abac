"""Methods compared on one's own study: formulas, no leaks, folds, resuming, and bad input."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raters import fit
from raters.comparison import own, own_cell, own_table, run
from raters.comparison.cell import Cell
from raters.comparison.folds import folded
from raters.comparison.own import compare_study
from raters.comparison.own_cell import (
    BY_LABEL,
    LabelFit,
    agreement,
    counted_matrices,
    read_kept,
    score_own,
)
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.evaluation.prediction import Prediction
from raters.metrics.calibration import joint_log_likelihood, left_out_log_likelihoods
from raters.study.study import Study

Array = np.ndarray[Any, Any]


def draw_matrices(rng: np.random.Generator, *shape: int) -> Array:
    """Draw matrices `(raters, L, L, ...)` whose rows sum to one."""
    drawn = rng.uniform(0.05, 1, shape)
    return np.asarray(drawn / drawn.sum(axis=2, keepdims=True))


# The likelihood of a left-out rater.


def slow_left_out(truth: Array, matrices: Array, labels: Array, pixel: int, rater: int) -> float:
    """Return log p(o_r | x, the others) at a pixel, by the formula."""
    said = labels[:, pixel]
    share = []
    for t in range(len(truth)):
        others = truth[t, pixel]
        for s in range(len(labels)):
            if s != rater and said[s] != MISSING:
                others *= matrices[s, t, said[s], pixel]
        share.append(others)
    posterior_of = np.array(share) / np.sum(share)
    return float(np.log(sum(posterior_of * matrices[rater, :, said[rater], pixel])))


def test_left_out_rater_against_the_formula() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), 12).T
    matrices = draw_matrices(rng, 4, 3, 3, 12)
    labels = rng.integers(-1, 3, (4, 12))
    labels[:, 0] = MISSING
    labels[1:, 1] = MISSING  # one label only: the network alone predicts it
    found = left_out_log_likelihoods(
        truth.reshape(3, 3, 4), matrices.reshape(4, 3, 3, 3, 4), list(labels.reshape(4, 3, 4))
    )
    for r in range(4):
        seen = [k for k in range(12) if labels[r, k] != MISSING]
        expected = sum(slow_left_out(truth, matrices, labels, k, r) for k in seen)
        assert found[r] == pytest.approx(expected)


def test_left_out_rater_of_a_table_leaves_all_answers_out() -> None:
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.ones(3))
    matrices = draw_matrices(rng, 3, 3, 3)
    labels = [np.array([2, 0]), np.array([], int), np.array([1])]
    found = left_out_log_likelihoods(truth, matrices, labels)
    twice = matrices[0, :, 2] * matrices[0, :, 0]
    others = truth * matrices[2, :, 1]
    assert found[0] == pytest.approx(np.log((others * twice).sum() / others.sum()))
    assert found[1] == 0
    with_first = truth * twice
    assert found[2] == pytest.approx(
        np.log((with_first * matrices[2, :, 1]).sum() / with_first.sum())
    )


def test_joint_is_one_rater_and_then_the_other() -> None:
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.ones(2), 9).T
    matrices = draw_matrices(rng, 2, 2, 2, 1)
    labels = list(rng.integers(0, 2, (2, 9)))
    joint = joint_log_likelihood(truth, matrices, labels)
    first = joint_log_likelihood(truth, matrices[:1], labels[:1])
    assert joint == pytest.approx(first + left_out_log_likelihoods(truth, matrices, labels)[1])


# Matrices that are counted, and which of two truths they favour.


def draw_crowd(
    number: int = 400, matrices: Array | None = None, seed: int = 0, **more: Any
) -> tuple[Study, Array, Array]:
    """Draw tasks whose feature tells the class: one good rater, three who like the first class."""
    rng = np.random.default_rng(seed)
    if matrices is None:
        liked = 0.25 * np.eye(3) + 0.75 * np.eye(3)[0]
        matrices = np.stack([0.9 * np.eye(3) + 0.1 / 3, liked, liked, liked])
    truth = rng.integers(0, 3, number)
    labels = np.array([[rng.choice(3, p=m[t]) for m in matrices] for t in truth])
    features = np.eye(3)[truth] + rng.normal(0, 0.25, (number, 3))
    study = Study.from_arrays(
        images=features.astype(np.float32), labels=labels, classes=["a", "b", "c"], **more
    )
    return study, truth, matrices


def labels_by_task(study: Study) -> Array:
    """Return the labels of a table in which everybody labelled everything, `(tasks, raters)`."""
    return np.array([np.concatenate(case.answers.by_rater()) for case in study.iter_cases()])


def make_predictions(study: Study, classes: Array, sure: float = 0.9) -> dict[str, Array]:
    """Make a network that is rather sure of a class of each case."""
    size = len(study.classes)
    return {
        name: np.where(np.arange(size) == c, sure, (1 - sure) / (size - 1)).astype(np.float32)
        for name, c in zip(study.index.ids, classes, strict=True)
    }


def predict_with(said: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(_: object, cases: Iterable[Any]) -> Iterator[tuple[Any, Prediction]]:
        return ((case, Prediction({"truth": said[case.id]})) for case in cases)

    monkeypatch.setattr("raters.learning.prediction.predict.predict_cases", predict)


def fit_of(study: Study, said: dict[str, Array], counted: Array) -> tuple[float, float]:
    """Return the mean log-likelihoods of a label, joint and left-out."""
    watch = LabelFit([], list(range(len(study.raters))), counted)
    for case in study.iter_cases():
        list(watch.bands(case, [Prediction({"truth": said[case.id]})]))
    joint, others, number = np.sum(list(watch.sums.values()), axis=0)
    return joint / number, others / number


def test_counted_matrices_are_those_of_the_raters(monkeypatch: pytest.MonkeyPatch) -> None:
    study, truth, matrices = draw_crowd(3000)
    wrong = np.random.default_rng(5).random(3000) < 0.2
    predict_with(make_predictions(study, np.where(wrong, (truth + 1) % 3, truth), 0.8), monkeypatch)
    found = counted_matrices(None, study)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.sum(axis=-1), 1)
    np.testing.assert_allclose(found, matrices, atol=0.06)


def test_anonymous_raters_share_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    study, truth, matrices = draw_crowd(1500, about={"raters": "anonymous"})
    predict_with(make_predictions(study, truth), monkeypatch)
    found = counted_matrices(None, study)  # type: ignore[arg-type]
    assert (found == found[0]).all()
    np.testing.assert_allclose(found[0], matrices.mean(axis=0), atol=0.06)


def test_the_truth_explains_labels_better_than_the_vote_of_bad_raters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study, truth, _ = draw_crowd(600)
    labels = labels_by_task(study)
    vote = np.array([np.bincount(row, minlength=3).argmax() for row in labels])
    assert (vote == truth).mean() < 0.75
    train = study[:300]
    test = study[300:]
    scores = {}
    for name, classes in {"truth": truth, "vote": vote, "noise": np.roll(truth, 1)}.items():
        said = make_predictions(study, classes)
        predict_with(said, monkeypatch)
        scores[name] = fit_of(test, said, counted_matrices(None, train))  # type: ignore[arg-type]
    for k in range(2):
        assert scores["truth"][k] > scores["vote"][k]
        assert scores["truth"][k] > scores["noise"][k]


@pytest.mark.slow
@pytest.mark.parametrize("masks", [True, False])
def test_counted_matrices_against_a_slow_loop(masks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    drawn = rng.integers(-1, 2, (8, 3, 4, 5) if masks else (160, 3))
    study = Study.from_arrays(labels=drawn, classes=["a", "b"])
    truth = rng.dirichlet([1, 2], drawn.size // 3 if masks else 160).astype(np.float32)
    each = truth.reshape(8, 20, 2).transpose(0, 2, 1).reshape(8, 2, 4, 5) if masks else truth
    predict_with(dict(zip(study.index.ids, each, strict=True)), monkeypatch)
    monkeypatch.setattr(own_cell, "CLOSE", 1e-9)
    found = counted_matrices(None, study)  # type: ignore[arg-type]
    labels = np.moveaxis(drawn, 1, -1).reshape(-1, 3)
    expected = np.full((3, 2, 2), 0.5)
    for _ in range(100):
        counts = np.full((3, 2, 2), 0.5)
        for share, said in zip(truth.astype(float), labels, strict=True):
            q = share.copy()
            for r, o in enumerate(said):
                q *= expected[r][:, o] if o != MISSING else 1
            for r, o in enumerate(said):
                if o != MISSING:
                    counts[r][:, o] += q / q.sum()
        expected = counts / counts.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_agreement_of_masks_is_mean_dice() -> None:
    one = {"a": np.array([1, 1, 0]), "b": np.array([0, 0, 0])}
    two = {"a": np.array([1, 0, 0]), "b": np.array([0, 0, 0])}
    assert agreement(one, two, 2) == pytest.approx((2 / 3 + 1) / 2)
    assert agreement(one, {}, 2) is None


# Nothing of held-out cases is seen.


def replace_labels(study: Study, labels: Array) -> Study:
    return Study.from_arrays(
        images=[case.image for case in study.iter_cases()],
        labels=labels,
        classes=study.classes,
        splits=list(study.index.splits),
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mean", "dawid-skene", "global-cm"])
def test_held_out_labels_change_neither_network_nor_matrices(method: str) -> None:
    study = folded(draw_crowd(60)[0], 1, 3)
    labels = labels_by_task(study)
    held = study.index.splits == "test"

    def learnt(given: Array) -> tuple[dict[str, torch.Tensor], Array]:
        made = replace_labels(study, given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit(made, method, progress=False, epochs=2, select="likelihood")
        rest = made.take(np.flatnonzero(made.index.splits != "test"))
        return model.method.state_dict(), counted_matrices(model, rest)

    rng = np.random.default_rng(0)
    other = labels.copy()
    trained = labels.copy()
    other[held] = rng.integers(0, 3, other[held].shape)
    trained[~held] = rng.integers(0, 3, trained[~held].shape)
    (weights, matrices), (same, alike), (changed, unlike) = map(learnt, (labels, other, trained))
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    np.testing.assert_array_equal(matrices, alike)
    assert not all(torch.equal(weights[name], changed[name]) for name in weights)
    assert not np.allclose(matrices, unlike)


def test_scores_count_matrices_on_the_rest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    study = folded(draw_crowd(40)[0], 0, 2)
    counted_on: list[set[str]] = []

    def spy(model: Any, part: Study) -> Array:
        counted_on.append(set(part.index.ids))
        return counted_matrices(model, part)

    monkeypatch.setattr("raters.comparison.own_cell.counted_matrices", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit(study, "vote", progress=False, epochs=1, select="likelihood")
    test = study.select(split="test")
    _, scores = score_own(model, study, test)
    assert counted_on == [set(study.index.ids) - set(test.index.ids)]
    assert scores["labels"] == 4 * len(test)
    assert scores["likelihood"] == scores["likelihood_counted"]


# Folds.


def test_folds_by_group_hold_each_case_out_once() -> None:
    groups = [f"p{k // 3}" for k in range(30)]
    study = Study.from_arrays(labels=np.zeros((30, 2, 1, 1), int), groups=groups)
    held: list[str] = []
    for fold in range(4):
        part = folded(study, fold, 4)
        by_split = {
            name: set(part.index.groups[part.index.splits == name])
            for name in ("train", "val", "test")
        }
        assert all(by_split.values())
        assert sum(map(len, by_split.values())) == 10  # no group is in two of them
        held += list(part.index.ids[part.index.splits == "test"])
    assert sorted(held, key=int) == list(study.index.ids)


# The whole comparison; cells run in this process, as starting others takes seconds.


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_turn(work: Any, cells: Iterable[Cell], _: int) -> Iterator[Any]:
        return map(work, cells)

    monkeypatch.setattr(run, "_run_here", in_turn)


@pytest.fixture
def study_on_disk(tmp_path: Path) -> Study:
    return draw_crowd(48)[0].write(tmp_path / "study")


SMALL: dict[str, Any] = {"epochs": 2, "folds": 2, "seeds": (0, 1)}


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_comparison_resumes_and_repeats_itself(study_on_disk: Study, tmp_path: Path) -> None:
    place = tmp_path / "bench"
    first = compare_study(study_on_disk, ["vote", "global-cm"], place, **SMALL)
    assert (first.run.done, first.run.skipped, first.run.failures) == (8, 0, [])
    for row in first.rows:
        assert all(row[name] < 0 for name in BY_LABEL)
        assert 0 <= row["stability"] <= 1
        assert "accuracy" not in row  # there are no references
    assert first.rows[0]["likelihood"] == first.rows[0]["likelihood_counted"]
    assert first.rows[1]["likelihood"] != first.rows[1]["likelihood_counted"]
    gone = sorted(place.rglob("*.json"))[-1]
    path = next(p for p in place.rglob("global-cm-1.json"))
    path.unlink()
    again = compare_study(study_on_disk, ["vote", "global-cm"], place, **SMALL)
    assert (again.run.done, again.run.skipped) == (1, 7)
    assert again.rows == first.rows
    assert gone.exists()
    text = (place / "comparison.md").read_text(encoding="utf-8")
    assert "Differences from vote" in text
    told = json.loads((place / "comparison.json").read_text(encoding="utf-8"))
    assert [row["method"] for row in told["methods"]] == ["vote", "global-cm"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_table_adds_up(study_on_disk: Study, tmp_path: Path) -> None:
    place = tmp_path / "bench"
    found = compare_study(study_on_disk, ["mean", "vote"], place, **SMALL)
    for row in found.rows:
        cells = [read_kept(p) for p in place.rglob(f"{row['method']}-*.npz")]
        assert len(cells) == 4
        sums = np.sum([list(one.sums.values()) for one in cells if one], axis=(0, 1))
        assert row["likelihood"] == pytest.approx(sums[0] / sums[-1])
        assert row["left_out"] == pytest.approx(sums[1] / sums[-1])
        assert sums[-1] == 2 * 48 * 4  # seeds, cases, raters: each label once
    assert found.baseline == "vote"
    difference = found.rows[0]["likelihood"] - found.rows[1]["likelihood"]
    assert found.rows[0]["likelihood_difference"] == pytest.approx(difference)
    low = found.rows[0]["likelihood_low"]
    high = found.rows[0]["likelihood_high"]
    assert low <= difference <= high


@pytest.mark.usefixtures("in_this_process")
def test_a_study_that_changed_is_another_one(study_on_disk: Study, tmp_path: Path) -> None:
    compare_study(study_on_disk, ["vote"], tmp_path / "bench", epochs=1, folds=2, seeds=(0,))
    other = draw_crowd(48, seed=7)[0].write(tmp_path / "other")
    with pytest.raises(RatersError, match="another version of the benchmark") as caught:
        compare_study(other, ["vote"], tmp_path / "bench", epochs=1, folds=2, seeds=(0,))
    assert caught.value.kind == "other-version"


@pytest.mark.usefixtures("in_this_process")
def test_a_method_that_fails_is_named_and_the_others_go_on(
    study_on_disk: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(model: Any, study: Study, test: Study, beside: Path) -> Any:
        if model.config.method == "mean" and "3" in test.index.ids:
            raise RatersError("found a lion, expected a cat")
        return score_own(model, study, test, beside)

    monkeypatch.setattr("raters.comparison.own_cell.score_own", failing)
    found = compare_study(
        study_on_disk, ["vote", "mean"], tmp_path / "b", epochs=1, folds=2, seeds=(0,)
    )
    assert [one.cell.row for one in found.run.failures] == ["mean"]
    assert "lion" in found.to_markdown()
    assert found.rows[1]["missing"] == "no result"
    assert "likelihood" not in found.rows[1]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_masks_with_references_have_dice_at_three_cuts(tmp_path: Path) -> None:
    from raters.simulation import phantom_study, simulate

    study = simulate(phantom_study("lesions", 9, (16, 16), 0), "good:0.5,over:1,blank", seed=0)
    splits = ["test"] * 2 + [""] * 7
    marked = Study.from_arrays(
        images=[case.image for case in study.iter_cases()],
        labels=[case.labels for case in study.iter_cases()],
        reference=[case.reference for case in study.iter_cases()],
        raters=study.raters,
        splits=splits,
    ).write(tmp_path / "study")
    small: dict[str, Any] = {"epochs": 1, "folds": 2, "seeds": (0, 1), "width": 2, "depth": 2}
    found = compare_study(marked, ["staple"], tmp_path / "bench", **small)
    row = found.rows[0]
    assert {"dice", "dice_best", "dice_area", "stability"} <= set(row)
    kept = [read_kept(path) for path in (tmp_path / "bench").rglob("staple-0.npz")]
    held: list[str] = []
    for table in kept:
        if table:
            held += table.sums
    assert sorted(held) == sorted(marked.index.ids[2:])  # test cases are left alone
    assert any("left alone: 2" in note for note in found.notes)


# Advice.


@pytest.fixture(scope="module")
def advice_module() -> Any:
    place = Path(__file__).parents[2] / "benchmarks" / "advice.py"
    spec = importlib.util.spec_from_file_location("advice", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_advice_is_given_where_it_was_shown_to_be_worth_it(advice_module: Any) -> None:
    found = advice_module.read_rows(advice_module.KEPT)
    assert len(found) >= 24
    for kind, short in {"segmentation": "masks", "classification": "classes"}.items():
        part = [one for one in found if one["kind"] == short]
        by_name = {row["choice"]: row for row in advice_module.summary(part)}
        own = by_name[own_table.CHOOSES]
        vote = by_name[advice_module.VOTE]
        assert advice_module.CRITERIA[0] == own_table.CHOOSES
        assert (own["high"] < 0) == (kind in own_table.WORTH)
        if kind in own_table.WORTH:
            worth = own_table.WORTH[kind]
            shares = (own["within_a_point"], vote["within_a_point"])
            assert worth.studies == len(part)
            assert (worth.within, worth.vote) == pytest.approx(shares, abs=0.005)


def test_regret_of_choices_is_counted_from_the_best(advice_module: Any) -> None:
    named = dict.fromkeys(advice_module.CRITERIA, "mean")
    points = {"vote": 80.0, "mean": 85.0, "staple": 85.5, "global-cm": 60.0, "pixel-cm": 1.0}
    one = {"kind": "masks", "truth": points, "choices": named}
    rows = {row["choice"]: row for row in advice_module.summary([one, one])}
    assert rows["likelihood"]["regret"] == 0.5
    assert (rows["likelihood"]["best"], rows["likelihood"]["within_a_point"]) == (0, 1)
    assert (rows[advice_module.VOTE]["regret"], rows["likelihood"]["against_vote"]) == (5.5, -5.0)


def test_a_criterion_chooses_the_method_that_fits_best(advice_module: Any) -> None:
    def row(method: str, fold: int, logs: list[float], dominance: float | None) -> dict[str, Any]:
        blocks = [
            [10.0, *(10 * log + 0.01 * k for log in logs)] for k in range(advice_module.BLOCKS)
        ]
        return {
            "kind": "classes",
            "method": method,
            "fold": fold,
            "blocks": blocks,
            "dominance": dominance,
        }

    logs = {
        "vote": [-1.0, -1.0, -1.0, -1.0, -0.1, -0.1],
        "mean": [-0.9, -2.0, -2.0, -2.0, -2.0, -2.0],
        "dawid-skene": [-2.0, -0.9, -2.0, -2.0, -2.0, -2.0],
        "global-cm": [-2.0, -0.8, -0.9, -2.0, -2.0, -2.0],
        "pixel-cm": [-2.0, -2.0, -2.0, -0.9, -2.0, -2.0],
    }
    rows = [
        row(m, fold, each, -0.1 if m == "global-cm" else None)
        for m, each in logs.items()
        for fold in range(2)
    ]
    found = advice_module.chosen(rows)
    assert found["likelihood"] == "mean"
    assert found["left_out"] == "global-cm"
    assert found["guarded"] == "dawid-skene"  # global-cm is not dominant
    assert found["likelihood_counted"] == "global-cm"
    assert found["guarded_counted"] == "vote"
    assert found["left_out_counted"] == "pixel-cm"
    assert found["likelihood_targets"] == "vote"


def test_no_advice_without_all_results_or_beyond_what_was_measured() -> None:
    rows = [{"method": m, own_table.CHOOSES: -k} for k, m in enumerate(("mean", "vote"), start=1)]
    assert own_table.advice(rows, "classification").startswith("Take mean")
    assert own_table.advice(rows, "classification", swapped=["mean"]) == ""
    assert own_table.advice(rows[:1], "classification") == ""
    assert own_table.advice([*rows, {"method": "global-cm"}], "classification") == ""
    assert (
        own_table.advice([*rows, {"method": "separate", own_table.CHOOSES: -3}], "classification")
        == ""
    )


# Bad input.


@pytest.mark.parametrize(
    ("methods", "options", "expected"),
    [
        (["voted"], {}, "found the method 'voted'"),
        (["staple"], {}, "found the method 'staple' for a study of classification"),
        (["truth"], {}, "found no references"),
        (["vote", "vote"], {}, "twice"),
        (["vote"], {"epoch": 3}, "epoch"),
        (["vote"], {"val_fraction": "x"}, "found val_fraction=x, expected a number"),
        (["vote"], {"folds": 1}, "folds"),
        (["vote"], {"seeds": ()}, "found no seeds"),
        (["vote"], {"folds": 60}, "found 48 groups for 60 folds"),
    ],
)
def test_bad_input(
    study_on_disk: Study, tmp_path: Path, methods: list[str], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(RatersError, match=expected):
        compare_study(study_on_disk, methods, tmp_path / "bench", **options)
    assert not list((tmp_path / "bench").rglob("*.json"))


def test_studies_that_cannot_be_compared(tmp_path: Path) -> None:
    study = draw_crowd(12)[0]
    with pytest.raises(RatersError, match="study in memory"):
        compare_study(study, ["vote"], tmp_path / "b")
    one = Study.from_arrays(images=np.ones((4, 2)), labels=np.array([[0], [1], [0], [1]]))
    with pytest.raises(RatersError, match="found 1 rater, expected at least two"):
        compare_study(one.write(tmp_path / "one"), ["vote"], tmp_path / "b")
    blind = Study.from_arrays(labels=np.array([[0, 1], [1, 1], [0, 0], [1, 0]]))
    with pytest.raises(RatersError, match="found no images"):
        compare_study(blind.write(tmp_path / "blind"), ["vote"], tmp_path / "b")


def test_default_methods_exist() -> None:
    from raters.learning.methods.registry import METHODS

    for names in own.DEFAULT_METHODS.values():
        assert set(names) <= set(METHODS)

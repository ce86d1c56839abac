"""`raters.evaluate`: one answer for a model, a folder and arrays; unions of classes; samples."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss

import raters
from raters import metrics
from raters.core.errors import RatersError
from raters.evaluation import Evaluation
from raters.evaluation.case import Scoring
from raters.evaluation.evaluate import score_cases, unions_of
from raters.evaluation.prediction import Prediction
from raters.learning.prediction.predict import predict_cases
from raters.learning.training.config import ClassEntry
from raters.metrics.chosen_cut import Cuts
from raters.study.case import Case
from raters.study.study import Study
from tests.support.command_line import Run
from tests.support.makers import save
from tests.support.models import make_model
from tests.support.scores import only_row

Array = NDArray[Any]
VALUES = (0, 1, 2, 4)
CLASSES = {0: "background", 1: "core", 2: "edema", 4: "enhancing"}
UNIONS = {"tumour core": ["core", "enhancing"], "whole tumour": [1, 2, 4]}
MEMBERS = {"tumour core": (1, 3), "whole tumour": (1, 2, 3)}


@pytest.fixture(scope="module")
def study() -> Study:
    """Draw 4 classes by three raters with gaps, for five cases; two have no reference."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (5, 3, 8, 8))
    labels[0, 1] = -1
    labels[1, 2, :3] = -1
    labels[2] = 0  # nobody draws anything
    reference = [*rng.integers(0, 4, (3, 8, 8)), None, None]
    return Study.from_arrays(
        images=rng.normal(size=(5, 1, 8, 8)),
        labels=labels,
        reference=reference,
        raters=["ann", "bob", "cy"],
        cases=list("abcde"),
        classes=CLASSES,
    )


def draw_classes(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, 4, shape)


# Sources


@pytest.fixture(scope="module")
def model() -> raters.Model:
    found = make_model(values=VALUES, raters=("ann", "bob", "cy"))
    classes = tuple(ClassEntry(name=name, value=value) for value, name in CLASSES.items())
    return raters.Model(found.method, found.config.model_copy(update={"classes": classes}))


def test_all_sources_give_the_same_scores(
    study: Study, model: raters.Model, tmp_path: Path
) -> None:
    stream = predict_cases(model, study.iter_cases())  # the same batches, to the last bit
    maps = {case.id: p.truth for case, p in stream if isinstance(p, Prediction)}
    labels = {case: p.argmax(0) for case, p in maps.items()}
    for case, mask in labels.items():
        save(tmp_path / f"{case}.png", np.array(VALUES, np.uint8)[mask])
    found = [
        raters.evaluate(source, study, unions=UNIONS)
        for source in (
            model,
            tmp_path,
            f"{tmp_path}/{{case}}.png",
            maps,
            labels,
            np.stack(list(maps.values())),
            np.stack(list(labels.values())),
            list(labels.values()),
            {case: torch.from_numpy(p) for case, p in maps.items()},
        )
    ]
    first = found[0]
    assert {row["class"] for row in first.summary} == {*list(CLASSES.values())[1:], "all", *UNIONS}
    for other in found[1:]:
        assert other.summary == first.summary
        np.testing.assert_equal(other.cases, first.cases)  # NaN equals NaN
        assert other.main["score"] == first.main["score"]
        assert other.score == first.score == "dice, reference"
    for soft in (found[3], found[5], found[8]):  # probabilities: calibration, soft Dice
        assert soft.calibration == [r for r in first.calibration if r["of"] == "truth"]
        np.testing.assert_equal(soft.variability, first.variability)
    assert not found[1].calibration and not found[1].as_rater and first.as_rater


def test_cuts_of_probabilities_in_arrays(study: Study) -> None:
    maps = np.moveaxis(np.random.default_rng(1).dirichlet(np.ones(4), (5, 8, 8)), -1, 1)
    cut = metrics.cut_labels(maps[0].astype(np.float32), [0.2, 0.3, 0.4])
    found = raters.evaluate(maps, study, cut=[0.2, 0.3, 0.4], surfaces=False)
    row = only_row(found.cases, **{"case": "a", "against": "ann", "class": "core"})
    assert row["dice"] == metrics.dice(study["a"].labels[0], cut, 4)[0]
    with pytest.raises(RatersError, match=r"found the cut .area. for predictions that are no run"):
        raters.evaluate(maps, study, cut="area")


def test_cases_without_a_prediction_and_unknown_ones_are_noted(study: Study) -> None:
    given = {"a": draw_classes(1, 8, 8), "b": draw_classes(2, 8, 8), "zoe": draw_classes(3, 8, 8)}
    found = raters.evaluate(given, study, surfaces=False)
    assert {row["case"] for row in found.cases} == {"a", "b"}
    assert found.notes[:2] == [
        "3 cases without a prediction (left out): c, d, e",
        "1 predictions of unknown cases (left out): zoe",
    ]
    assert "2 cases" in repr(found) and "core" in repr(found)
    assert found.scores.equals(found.frame("summary"))
    with pytest.raises(RatersError, match="found the table 'x', expected one of summary, cuts"):
        found.frame("x")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((4, 8, 8), int), "found 4 predictions, expected one for each of 5 cases"),
        ({"x": np.zeros((8, 8), int)}, "found no prediction for any of 5 cases: there are 'x'"),
        (np.zeros((5, 8, 7), int), r"shape \(8, 7\) and type int64, expected labels \(8, 8\)"),
        (np.zeros((5, 8, 8)), r"type float64, expected labels .* or probabilities \(4, 8, 8\)"),
        (np.full((5, 8, 8), 4), "found label 4, expected -1 .* class from 0 to 3"),
        (np.full((5, 4, 8, 8), 3.0), "found probabilities that sum to 12 over classes"),
        (object(), "found object, expected an array"),
    ],
)
def test_what_is_no_prediction_is_refused(study: Study, given: object, message: str) -> None:
    with pytest.raises(RatersError, match=message):
        raters.evaluate(given, study)


def test_classes_in_arrays_are_scored_as_those_of_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 3, (40, 2))
    truth = rng.integers(0, 3, 40)
    probabilities = rng.dirichlet(np.ones(3), 40)
    table = Study.from_arrays(labels=labels, reference=truth, raters=["ann", "bob"])
    guess = probabilities.argmax(1)
    (tmp_path / "p.csv").write_text(
        "\n".join(["task,label", *(f"{k},{g}" for k, g in enumerate(guess))])
    )
    by_table = raters.evaluate(tmp_path / "p.csv", table)
    for given in (guess, {str(k): g for k, g in enumerate(guess)}):
        found = raters.evaluate(given, table)
        assert (found.summary, found.cases) == (by_table.summary, by_table.cases)
    soft = raters.evaluate(probabilities, table)
    row = only_row(soft.summary, **{"against": "reference", "class": "all"})
    assert row["accuracy"] == by_table.summary[0]["accuracy"] == accuracy_score(truth, guess)
    assert row["log_loss"] == pytest.approx(log_loss(truth, probabilities), rel=1e-5)
    assert only_row(soft.calibration, of="truth")["labels"] == 40
    with pytest.raises(RatersError, match="unions of classes for class labels"):
        raters.evaluate(guess, table, unions={"a": [1, 2]})


# Unions


def test_unions_equal_sets_of_pixels(study: Study) -> None:
    predicted = draw_classes(5, 5, 8, 8)
    found = raters.evaluate(predicted, study, unions=UNIONS)
    compared = 0
    for case, guess in zip(study, predicted, strict=True):
        masks = dict(zip(study.raters, case.labels, strict=True)) | {"reference": case.reference}
        for (against, mask), (name, members) in itertools.product(masks.items(), MEMBERS.items()):
            if mask is None or (mask < 0).all():
                continue
            seen = {p for p in np.ndindex(8, 8) if mask[p] >= 0}
            a = {p for p in seen if mask[p] in members}
            b = {p for p in seen if guess[p] in members}
            row = only_row(found.cases, **{"case": case.id, "against": against, "class": name})
            assert row["dice"] == (2 * len(a & b) / (len(a) + len(b)) if a or b else 1)
            assert row["iou"] == (len(a & b) / len(a | b) if a or b else 1)
            assert row["volume_difference"] == len(b) - len(a)
            masked = np.zeros((2, 8, 8), int)
            for k, pixels in enumerate((a, b)):
                masked[k][tuple(np.array(sorted(pixels), int).reshape(-1, 2).T)] = 1
            assert row["hd95"] == metrics.hd95(*masked)
            assert row["surface_distance"] == metrics.average_surface_distance(*masked)
            compared += 1
    assert compared == 2 * (14 + 3)
    plain = raters.evaluate(predicted, study)
    kept = [row for row in found.cases if row["class"] not in UNIONS]
    assert kept == plain.cases  # nothing else changes, and the mean is over classes only
    texts = raters.evaluate(predicted, study, unions=["tumour core=1+4", "whole tumour=1 + 2+ 4"])
    assert texts.summary == found.summary


def test_unions_at_cuts_of_a_model(study: Study, model: raters.Model) -> None:
    low = np.array([0.2, 0.2, 0.2])
    own = raters.Model(model.method, model.config, cuts=Cuts(low, low, low, 5, "held-out"))
    found = raters.evaluate(own, study, unions=UNIONS, cut="best", surfaces=False)
    for name in UNIONS:
        at_best = only_row(found.cuts, **{"class": name})
        assert at_best["cut_best"] is None
        summary = only_row(found.summary, **{"against": "reference", "class": name})
        assert at_best["dice_best"] == pytest.approx(summary["dice"])


@pytest.mark.parametrize(
    ("unions", "message"),
    [
        (["tumour"], "found the union 'tumour', expected NAME=CLASS"),
        (["=1+2"], "expected NAME=CLASS"),
        (["t=1+3"], "found '3' in the union 't', expected one of 1=core, 2=edema, 4=enhancing"),
        (["t=core+cor"], "found 'cor' in the union 't'"),
        (["t=0+1"], "found '0' in the union 't'"),
        (["t=1+core"], "found 'core' twice in the union 't'"),
        (["t=1", "t=2"], "found the union .t=2., expected .* each name once"),
        (["core=1+2"], "found the union 'core', expected a name that no class has"),
        ({"all": [1, 2]}, "found the union 'all', expected a name"),
        ({"t": []}, "found no class in the union 't'"),
    ],
)
def test_wrong_unions_are_refused(study: Study, unions: Any, message: str) -> None:
    with pytest.raises(RatersError, match=message):
        unions_of(unions, study)


def test_command_scores_unions(tmp_path: Path, run_raters: Run) -> None:
    for k, rater in enumerate(("ann", "bob")):
        save(tmp_path / f"masks/{rater}/a.png", draw_classes(k, 8, 8).astype(np.uint8))
    told = ["evaluate", tmp_path / "masks/ann", tmp_path / "masks/{rater}/{case}.png"]
    done = run_raters(*told, "--union", "both=1+2", "--union", "x=3+1")
    assert done.code == 0
    assert "both" in done.out and "scores by class" in done.out
    done = run_raters(*told, "--union", "both=1+2", "--json")
    found = json.loads(done.out)
    a, b = (np.isin(draw_classes(k, 8, 8), (1, 2)) for k in range(2))
    row = only_row(found["summary"], **{"against": "bob", "class": "both"})
    assert row["dice"] == 2 * (a & b).sum() / (a.sum() + b.sum())
    done = run_raters(*told, "--union", "both=1+rim")
    assert done.code == 2
    assert "error: found 'rim' in the union 'both', expected one of" in done.err


# Samples


def soft_maps(seed: int, number: int) -> Array:
    found = np.random.default_rng(seed).dirichlet(np.ones(4), (number, 8, 8))
    return np.moveaxis(found, -1, 1).astype(np.float32)


def make_up_samples(study: Study, number: int = 4) -> dict[str, Prediction]:
    """Make up a truth and samples of each case; those of 'c' are empty, as its raters' masks."""
    found = {}
    for k, case in enumerate(study.cases):
        maps = {f"sample:{j}": p for j, p in enumerate(soft_maps(k, number))}
        if case == "c":
            empty = np.zeros((4, 8, 8), np.float32)
            empty[0] = 1
            maps = dict.fromkeys(maps, empty)
        found[case] = Prediction({"truth": soft_maps(k + 50, 1)[0], **maps})
    return found


def overlap_by_sets(a: set[Any], b: set[Any], score: str) -> float:
    if not a and not b:
        return 1.0
    return len(a & b) / len(a | b) if score == "iou" else 2 * len(a & b) / (len(a) + len(b))


def slow(case: Case, said: Prediction, regions: list[tuple[int, ...]]) -> dict[str, float]:
    """Score one region, or the mean of several, by loops over sets of pixels."""
    masks = [m for m in case.labels if (m >= 0).any()]
    samples = [np.asarray(p).argmax(0) for name, p in said.maps.items() if "sample" in name]

    def similar(x: Array, y: Array, score: str) -> float:
        seen = [p for p in np.ndindex(8, 8) if x[p] >= 0 and y[p] >= 0]
        each = [
            overlap_by_sets({p for p in seen if x[p] in r}, {p for p in seen if y[p] in r}, score)
            for r in regions
        ]
        return sum(each) / len(each)

    def distance(first: list[Array], second: list[Array]) -> float:
        return float(np.mean([1 - similar(x, y, "iou") for x in first for y in second]))

    ged = 2 * distance(masks, samples) - distance(masks, masks) - distance(samples, samples)
    dice = np.array([[similar(x, y, "dice") for y in samples] for x in masks])
    repeats = np.lcm(len(masks), len(samples))
    wide = np.repeat(np.repeat(dice, repeats // len(masks), 0), repeats // len(samples), 1)
    best = 0.0
    if repeats <= 4:
        best = max(
            float(np.mean([wide[i, j] for i, j in enumerate(order)]))
            for order in itertools.permutations(range(repeats))
        )
    soft = []
    for region in regions:
        for t in (0.1, 0.3, 0.5, 0.7, 0.9):
            a = set()
            b = set()
            for p in np.ndindex(8, 8):
                given = [m[p] for m in masks if m[p] >= 0]
                if not given:
                    continue
                if sum(g in region for g in given) / len(given) > t:
                    a.add(p)
                if sum(float(said.truth[(c, *p)]) for c in region) > t:
                    b.add(p)
            soft.append(overlap_by_sets(a, b, "dice"))
    found = {"ged": ged, "matched_dice": best, "best_dice": float(dice.max(1).mean())}
    return {**found, "soft_dice": float(np.mean(soft))}


def in_bands(study: Study, said: dict[str, Prediction], rows: int) -> Iterator[Any]:
    for case in study:
        maps = said[case.id].maps
        yield (
            case,
            iter(
                Prediction({n: p[:, k : k + rows] for n, p in maps.items()}, k, 8)
                for k in range(0, 8, rows)
            ),
        )


def test_samples_equal_slow_loops(study: Study) -> None:
    said = make_up_samples(study)
    found = raters.evaluate(said, study, unions=UNIONS, surfaces=False)
    regions: dict[str, list[tuple[int, ...]]] = {"core": [(1,)], "edema": [(2,)]}
    regions |= {"enhancing": [(3,)], "all": [(1,), (2,), (3,)]}
    regions |= {name: [members] for name, members in MEMBERS.items()}
    by_class: dict[str, list[dict[str, float]]] = {}
    for case, (name, members) in itertools.product(study, regions.items()):
        row = only_row(found.variability_cases, **{"case": case.id, "class": name})
        expected = slow(case, said[case.id], members)
        by_class.setdefault(name, []).append(expected)
        assert (row["raters"], row["samples"]) == (2 if case.id == "a" else 3, 4)
        for score in ("ged", "best_dice", "soft_dice"):
            assert row[score] == pytest.approx(expected[score], abs=1e-9)
        if case.id == "a":  # 2 raters and 4 samples: 24 ways to match them
            assert row["matched_dice"] == pytest.approx(expected["matched_dice"])
        if case.id == "c":  # all masks are empty: the samples are the raters
            assert (row["ged"], row["matched_dice"], row["best_dice"]) == (0, 1, 1)
    for name, expected_rows in by_class.items():
        row = only_row(found.variability, **{"class": name})
        assert (row["cases"], row["samples"]) == (5, 4)
        for score in ("ged", "best_dice", "soft_dice"):
            mean = np.mean([one[score] for one in expected_rows])
            assert row[score] == pytest.approx(mean, abs=1e-9)
    assert found.main["ged"] == pytest.approx(
        only_row(found.variability, **{"class": "all"})["ged"]
    )
    (note,) = [note for note in found.notes if note.startswith("ged is")]
    assert "V form, with 4 samples per case" in note and "not squared" in note


@pytest.mark.parametrize("rows", [3, 8])
def test_samples_in_bands_of_rows(study: Study, rows: int) -> None:
    said = make_up_samples(study)
    whole = raters.evaluate(said, study, unions=UNIONS, surfaces=False)
    scoring = Scoring(study, surfaces=False, unions=MEMBERS)
    found = score_cases(in_bands(study, said, rows), scoring)
    assert found.variability == whole.variability
    assert found.summary == whole.summary


def test_samples_in_a_folder(study: Study, tmp_path: Path) -> None:
    said = make_up_samples(study)
    values = np.array(VALUES, np.uint8)
    for case, found in said.items():
        save(tmp_path / f"{case}.png", values[found.labels])
        for k, sample in enumerate(found.samples):
            save(tmp_path / f"sample-{k}" / f"{case}.png", values[sample.argmax(0)])
    (tmp_path / ".predict.jsonl").write_text("")
    (tmp_path / "as-ann").mkdir()
    shutil.copy(tmp_path / "a.png", tmp_path / "as-ann" / "a.png")
    by_file = raters.evaluate(tmp_path, study, surfaces=False)
    in_memory = raters.evaluate(said, study, surfaces=False)
    assert not any("belong to no case" in note for note in by_file.notes)
    for row, other in zip(by_file.variability, in_memory.variability, strict=True):
        for score in ("ged", "matched_dice", "best_dice"):
            assert (row[score], row["samples"]) == (other[score], 4)
    # Of a case with fewer samples, and of all others, only as many are scored.
    (tmp_path / "sample-2" / "b.png").unlink()
    fewer = {
        c: Prediction({k: m for k, m in p.maps.items() if k < "sample:2" or k > "t"})
        for c, p in said.items()
    }
    expected = raters.evaluate(fewer, study, surfaces=False)
    uneven = said | {"b": fewer["b"]}
    for given in (tmp_path, uneven):
        metrics = raters.evaluate(given, study, surfaces=False)
        assert [r.get("ged") for r in metrics.variability] == [
            r["ged"] for r in expected.variability
        ]
        assert any("found 2 to 4 samples per case: the first 2" in note for note in metrics.notes)
        assert any("with 2 samples per case" in note for note in metrics.notes)
    hard = {case: found.labels for case, found in said.items()}
    labels_only = raters.evaluate(hard, study, surfaces=False)
    assert [r["soft_dice"] for r in labels_only.variability] == [
        r["soft_dice"] for r in by_file.variability
    ]
    assert "ged" not in labels_only.variability[0]


def test_more_alike_is_a_smaller_energy(study: Study) -> None:
    """The raters' own masks as samples have energy 0; random samples are far."""
    same = {}
    for case in study.select(cases=["d", "e"]):
        maps = np.moveaxis(np.eye(4, dtype=np.float32)[case.labels], -1, 1)
        named = {f"sample:{k}": p for k, p in enumerate(maps)}
        same[case.id] = Prediction({"truth": maps.mean(0), **named})
    part = study.select(cases=["d", "e"])
    good = raters.evaluate(same, part)
    bad = raters.evaluate(make_up_samples(part, 3), part)
    assert good.main["ged"] == pytest.approx(0, abs=1e-12)
    assert good.main["matched_dice"] == good.main["soft_dice"] == 1
    assert bad.main["ged"] > 0.2


def test_results_are_written(study: Study, tmp_path: Path) -> None:
    found: Evaluation = raters.evaluate(make_up_samples(study), study, surfaces=False)
    found.write(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"summary.csv", "cases.csv", "variability.csv", "variability_cases.csv"} <= names
    assert "as_rater.csv" not in names
    read = json.loads((tmp_path / "evaluation.json").read_text())
    assert read["variability"][0]["ged"] == found.variability[0]["ged"]
    assert read["scored"] == 5


def test_what_evaluate_takes(study: Study, tmp_path: Path) -> None:
    said = make_up_samples(study)
    table = tmp_path / "labels.csv"
    words = raters.evaluate(said, study, surfaces=False, cut=[0.4, 0.4, 0.3])
    array = raters.evaluate(said, study, surfaces=False, cut=np.array([0.4, 0.4, 0.3]))
    assert array.summary == words.summary
    with pytest.raises(RatersError, match=r"found a study first, expected evaluate\(predictions"):
        raters.evaluate(study, said)
    with pytest.raises(RatersError, match="found dict, expected a study, a pattern"):
        raters.evaluate(said, said)  # type: ignore[arg-type]
    for wrong in (-1, 1.5, "2", True):
        with pytest.raises(RatersError, match="samples, expected at least 0, a whole number"):
            raters.evaluate(said, study, samples=wrong)  # type: ignore[arg-type]
    with pytest.raises(RatersError, match=r"found the cut \[0.4, 0.4\] for predictions that are"):
        raters.evaluate(tmp_path, study, cut=np.array([0.4, 0.4]))
    table.write_text("task,worker,label\na,x,0\na,y,0\nb,x,1\nb,y,0\n")
    found = raters.evaluate({"a": 0, "b": 1}, table)
    assert found.summary == raters.evaluate({"a": 0, "b": 1}, raters.read(table)).summary

"""mIoU and soft Dice with the truth of benchmarks: of predictions, recurrences, fused labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raters
from raters.metrics import soft_dice_by_class
from raters.study.study import Study
from raters_bench.scoring import Overlaps, fusion_scores, recurrence_scores
from tests.support.models import make_model


def test_scores_are_those_of_loops() -> None:
    rng = np.random.default_rng(0)
    found = Overlaps(4)
    truths = []
    predicted = []
    for k, shape in enumerate([(9, 7), (5, 6), (8, 8)]):
        truth = rng.integers(-1, 3, shape)  # class 3 is never true
        maps = rng.dirichlet([1, 1, 1, 0.01], shape).transpose(2, 0, 1)
        maps[3] = 0
        maps /= maps.sum(axis=0)
        half = shape[0] // 2
        found.add(str(k), truth[:half], maps[:, :half])  # rows by rows as they are predicted
        found.add(str(k), truth[half:], maps[:, half:])
        truths.append(truth)
        predicted.append(maps)
    both = np.zeros(4)
    either = np.zeros(4)
    soft = []
    for truth, maps in zip(truths, predicted, strict=True):
        for place in np.ndindex(truth.shape):
            t = int(truth[place])
            o = int(np.argmax(maps[(slice(None), *place)]))
            if t < 0:
                continue
            for c in range(4):
                both[c] += t == c == o
                either[c] += c in (t, o)
        for c in (1, 2, 3):
            dices = []
            for cut in (0.1, 0.3, 0.5, 0.7, 0.9):
                a = (truth == c)[truth >= 0]
                b = (maps[c] > cut)[truth >= 0]
                size = int(a.sum()) + int(b.sum())
                dices.append(2 * int((a & b).sum()) / size if size else 1.0)
            soft.append(np.mean(dices))
    iou = both[:3] / either[:3]
    scores = found.scores()
    assert scores["miou"] == pytest.approx(iou[1:].mean())
    assert scores["miou_background"] == pytest.approx(iou.mean())
    assert scores["soft_dice_truth"] == pytest.approx(np.mean(soft))
    assert Overlaps(2).scores() == {}


def small_study() -> Study:
    """Draw three cases by three raters, with references; nobody labelled a corner."""
    rng = np.random.default_rng(1)
    truth = np.kron(rng.integers(0, 2, (3, 3, 3)), np.ones((4, 4), int))
    labels = np.stack([np.roll(truth, k, axis=2) for k in range(3)], 1)
    labels[:, :, :2, :2] = -1
    shown = truth[:, np.newaxis] + rng.normal(0, 0.3, (3, 1, 12, 12))
    named: Any = {"raters": ["ann", "bob", "cy"], "classes": {0: "class 0", 4: "class 4"}}
    return Study.from_arrays(shown.astype(np.float32), labels, reference=truth, **named)


def mean_soft_dice(maps: list[Any], study: Study) -> float:
    """Average soft Dice with the references over cases."""
    each = []
    for found, case in zip(maps, study.iter_cases(), strict=True):
        reference = np.asarray(case.reference)
        truth = np.stack([reference == k for k in range(2)]).astype(float)
        each.append(soft_dice_by_class(truth, found).mean())
    return float(np.mean(each))


def test_recurrences_and_both_fusions_of_a_model_are_scored() -> None:
    model = make_model("prism", raters=("ann", "bob", "cy"))
    study = small_study()
    found = recurrence_scores(model, study) | fusion_scores(model, study)
    turns = [model.recurrences(case)[0] for case in study.iter_cases()]
    expected = {
        f"soft_dice_rec{k}": mean_soft_dice([turn[k] for turn in turns], study) for k in range(3)
    }
    for name, seen in (("fused", True), ("unseen", False)):
        fused = raters.fuse(study, model=model, use_labels=seen)
        expected[f"soft_dice_{name}"] = mean_soft_dice(fused.truth, study)
    assert found == pytest.approx(expected)
    assert len({round(score, 6) for score in expected.values()}) == 5


def test_labels_are_fused_as_a_method_trained_on_them_has_them() -> None:
    model = make_model("staple", raters=("ann", "bob", "cy"))
    study = small_study()
    expected = mean_soft_dice(raters.fuse(study, "staple").truth, study)
    assert fusion_scores(model, study) == pytest.approx({"soft_dice_fused": expected})
    assert recurrence_scores(model, study) == {}
    assert fusion_scores(make_model("mrnet", raters=("ann", "bob", "cy")), study) == {}

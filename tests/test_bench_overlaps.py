"""mIoU and soft Dice with the truth of benchmarks, against loops over pixels."""

from __future__ import annotations

import numpy as np
import pytest

from raters.benchmarks.overlaps import Overlaps


def test_scores_are_those_of_loops() -> None:
    rng = np.random.default_rng(0)
    found = Overlaps(4)
    truths, predicted = [], []
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
    both, either = np.zeros(4), np.zeros(4)
    soft = []
    for truth, maps in zip(truths, predicted, strict=True):
        for place in np.ndindex(truth.shape):
            t, o = int(truth[place]), int(np.argmax(maps[(slice(None), *place)]))
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

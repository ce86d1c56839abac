"""The source of benchmarks in which most raters err alike."""

from __future__ import annotations

import numpy as np
import pytest

import raters
from raters.core.errors import RatersError
from raters_bench.data import make_data
from tests.support.scores import foreground_dice

DATA = {"source": "streaks", "images": 8, "val": 2, "test": 2, "shape": [32, 32]}


def test_the_majority_errs_alike() -> None:
    study = make_data(DATA, {}, 3, {}).study
    assert [int((study.index.splits == part).sum()) for part in ("train", "val", "test")] == [
        8,
        2,
        2,
    ]
    cases = list(study.iter_cases())
    truths = [np.asarray(case.reference) for case in cases]
    skill = [
        np.mean(
            [
                foreground_dice(case.labels[r], truth)
                for case, truth in zip(cases, truths, strict=True)
            ]
        )
        for r in range(len(study.raters))
    ]
    vote = raters.fuse(study, "vote")
    voted = np.mean(
        [foreground_dice(vote[c.id].labels, t) for c, t in zip(cases, truths, strict=True)]
    )
    assert min(skill[:2]) > 0.9
    assert max(*skill[2:], voted) < 0.75


def test_the_seed_draws_it() -> None:
    first, again, other = (make_data(DATA, {}, seed, {}).study for seed in (3, 3, 4))
    assert np.array_equal(first[0].labels, again[0].labels)
    assert not np.array_equal(first[0].labels, other[0].labels)
    some = make_data({**DATA, "assign": 1}, {}, 3, {}).study
    assert all((case.labels >= 0).any((1, 2)).sum() == 1 for case in some.iter_cases())
    with pytest.raises(RatersError, match="do not fit"):
        make_data({**DATA, "length": 3}, {}, 0, {})

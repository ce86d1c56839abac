"""Splits: whole groups, shares near the asked, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raters.core.errors import RatersError
from raters.study.cases import assign_splits
from raters.study.study import Study
from tests.support.makers import quick

group_lists = st.lists(st.sampled_from([f"p{k}" for k in range(12)]), min_size=3, max_size=60)
shares = st.lists(st.floats(0.05, 5), min_size=1, max_size=3)


@quick
@given(group_lists, shares, st.integers(0, 99))
def test_no_group_is_torn_and_shares_are_near(
    groups: list[str], fractions: list[float], seed: int
) -> None:
    """No split exceeds its share by more than one group; every split gets something."""
    asked = {f"s{k}": f for k, f in enumerate(fractions)}
    if len(set(groups)) < len(asked):
        with pytest.raises(RatersError, match="expected a group for each"):
            assign_splits(groups, asked, seed)
        return
    splits = assign_splits(groups, asked, seed)
    assert len(set(zip(groups, splits, strict=True))) == len(set(groups))
    assert set(splits) == set(asked)
    largest = max(groups.count(g) for g in groups)
    for name, fraction in asked.items():
        share = fraction / sum(fractions) * len(groups)
        assert splits.count(name) <= share + largest
    assert splits == assign_splits(groups, asked, seed)


def test_shares_of_many_single_cases_are_met_to_one_case() -> None:
    splits = assign_splits(map(str, range(1000)), {"train": 70, "val": 10, "test": 20}, seed=3)
    counts = {name: splits.count(name) for name in ("train", "val", "test")}
    assert all(
        abs(counts[n] - 10 * s) <= 1 for n, s in {"train": 70, "val": 10, "test": 20}.items()
    )


def test_another_seed_gives_another_split() -> None:
    groups = [str(k) for k in range(50)]
    drawn = [assign_splits(groups, {"a": 1, "b": 1}, seed) for seed in range(4)]
    assert len({tuple(d) for d in drawn}) == 4


def test_the_order_of_cases_does_not_move_groups() -> None:
    """The seed draws groups by name: cases listed in another order keep their split."""
    groups = [f"p{k % 7}" for k in range(30)]
    one = dict(zip(groups, assign_splits(groups, {"a": 1, "b": 2}, 5), strict=True))
    other = dict(zip(groups[::-1], assign_splits(groups[::-1], {"a": 1, "b": 2}, 5), strict=True))
    assert one == other


@pytest.mark.parametrize("fractions", [{}, {"train": 0.0}, {"train": 0.8, "test": -0.2}])
def test_shares_are_positive(fractions: dict[str, float]) -> None:
    with pytest.raises(RatersError, match="expected positive numbers"):
        assign_splits(["a", "b"], fractions)


def test_words_are_no_shares_and_no_seed() -> None:
    with pytest.raises(RatersError, match=r"found shares {'train': 'a'}, expected"):
        assign_splits(["a", "b"], {"train": "a"})  # type: ignore[dict-item]
    with pytest.raises(RatersError, match="found the seed 'a', expected 0 or more, a whole"):
        assign_splits(["a", "b"], {"train": 1}, seed="a")  # type: ignore[arg-type]


def test_a_study_is_split_and_selected() -> None:
    groups = list("aabbccdd")
    study = Study.from_arrays(labels=np.zeros((8, 1, 2, 2), int), groups=groups)
    split = study.split(train=0.5, test=0.5, seed=1)
    parts = [split.select(split=name) for name in ("train", "test")]
    assert [len(part) for part in parts] == [4, 4]
    assert not {c.group for c in parts[0]} & {c.group for c in parts[1]}
    assert {c.id for part in parts for c in part} == set(study.cases)
    assert not any(study.index.splits)  # the study itself is as it was
    assert len(split.split(train=1).select(split="train")) == 8

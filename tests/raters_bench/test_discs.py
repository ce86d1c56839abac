"""The source of benchmarks with drawn discs and cups."""

from __future__ import annotations

from raters_bench.data import make_data

NAMES = ("careful1", "careful2", "biased1", "biased2", "biased3", "biased4", "biased5")


def test_the_source_of_benchmarks() -> None:
    data = {"source": "discs", "images": 4, "val": 2, "test": 2}
    study = make_data(data, {}, 3, {}).study
    assert sorted(study.index.splits) == ["test"] * 2 + ["train"] * 4 + ["val"] * 2
    assert study.raters == NAMES
    equal = make_data({**data, "equal": True, "assign": 2}, {}, 3, {}).study
    assert equal.raters[0] == "equal1"
    assert all((case.labels >= 0).any((1, 2)).sum() == 2 for case in equal)

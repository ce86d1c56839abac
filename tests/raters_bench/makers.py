"""Benchmarks and results that are drawn for the tests of `raters bench`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from raters.comparison.cell import FORMAT, Cell, checksum
from raters.io.rows import to_json
from raters_bench.cells import cells_of
from raters_bench.spec import Specification, read_spec

TINY: dict[str, Any] = {
    "title": "Clouds of points",
    "data": {"source": "drawn-classes", "images": 60, "val": 20, "test": 30, "num_classes": 3},
    "raters": {"raters": "3xhammer-spammer:0.8", "assign": "all"},
    "train": {"epochs": 2, "network": "mlp", "batch_size": 32},
    "scores": ["accuracy", "frobenius"],
    "baseline": "vote",
    "settings": {"three raters": {}},
    "rows": {"vote": {"method": "vote"}, "global-cm, paper's form": {"method": "global-cm"}},
    "scales": {"smoke": {"seeds": [0]}, "laptop": {"seeds": [0, 1]}},
}
"""A benchmark whose cells take a moment."""


def write_spec(folder: Path, name: str = "tiny", **changes: Any) -> Path:
    """Write a specification: `TINY` with changes."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**TINY, **changes}, sort_keys=False), encoding="utf-8")
    return path


def make_spec(folder: Path, name: str = "tiny", **changes: Any) -> Specification:
    """Write and read a specification."""
    return read_spec(write_spec(folder, name, **changes))


def write_result(cell: Cell, folder: Path, scores: Mapping[str, float | None]) -> Path:
    """Write what a cell would have found."""
    content = {
        "format": FORMAT,
        "cell": {k: getattr(cell, k) for k in ("benchmark", "scale", "setting", "row", "seed")},
        "asked": cell.asked(),
        "scores": dict(scores),
        "seconds": 2.5,
        "peak_memory_mb": 100.0,
        "versions": {"raters": "1.0", "torch": "2.0"},
    }
    path = cell.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json({**content, "checksum": checksum(content)}), encoding="utf-8")
    return path


def write_results(
    spec: Specification, folder: Path, scores: Mapping[tuple[str, str], Mapping[str, list[float]]]
) -> None:
    """Write results by setting and row: a value per seed of each score, as cells write them."""
    seeds = spec.scale("laptop").seeds
    for cell in cells_of(spec, "laptop"):
        own = scores.get((cell.setting, cell.row), {})
        at = seeds.index(cell.seed)
        found = {name: values[at] for name, values in own.items() if at < len(values)}
        if found:
            write_result(cell, folder, found)

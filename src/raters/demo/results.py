"""The table at the end of the demo, from the files that `raters evaluate` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raters.demo.story import BASE, CEILING, FUSED, OURS, TRAINED
from raters.rows import Row

NETWORKS = {
    BASE: "network on one label per image, as it is (vote)",
    OURS: "network on one label per image, pixel-cm",
    CEILING: "network on the truth of each image",
}
"""What the rows of networks are called."""


def results(folder: Path) -> list[Row]:
    """Give Dice against the truth on the test images: of fused labels, and of networks.

    Args:
        folder: Where `scores/` of the demo is.
    """
    rows: list[Row] = []
    for method in FUSED:
        summary = _read(folder / f"scores/{method}/evaluation.json")["summary"]
        found = next(row for row in summary if row["against"] == "reference")
        rows.append(_row(f"{method} of five labels", found, "dice"))
    compared = _read(folder / "scores/runs/comparison.json")["rows"]
    by_run = {Path(row["run"]).name: row for row in compared}
    return rows + [_row(NETWORKS[name], by_run[name], "score") for name in TRAINED]


def sentence(rows: list[Row]) -> str:
    """Say what the table shows, whatever that is.

    Example:
        >>> dice = {"vote": 0.5, "pixel-cm": 0.75, "truth": 0.8}
        >>> print(sentence([{"": NETWORKS[name], "Dice": dice[name]} for name in dice]))
        With one label per image there is nothing to vote about. A network that takes the labels as
        they are has a Dice of 0.500; one that also learns how each rater errs (pixel-cm) has 0.750
        (+0.250). Trained on the truth it is 0.800.
    """
    dice = {row[""]: row["Dice"] for row in rows}
    base, ours, ceiling = (dice[NETWORKS[name]] for name in TRAINED)
    return (
        "With one label per image there is nothing to vote about. A network that takes the labels "
        f"as they are has a Dice of {base:.3f}; one that also learns how each rater errs "
        f"({OURS}) has {ours:.3f} ({ours - base:+.3f}). Trained on the truth it is {ceiling:.3f}."
    )


def _row(name: str, found: Row, score: str) -> Row:
    low, high = found.get(f"{score}_low"), found.get(f"{score}_high")
    ends = None if low is None else f"{low:.3f} to {high:.3f}"
    return {"": name, "Dice": found[score], "95 %": ends}


def _read(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text(encoding="utf-8"))

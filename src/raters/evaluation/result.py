"""The result of `raters evaluate`: scores by case, their means with intervals, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError
from raters.rows import Row, write_csv, write_json
from raters.scores.bootstrap import interval
from raters.study.places import Inputs

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "reference"
"""The name in the column `against` for true or adjudicated labels; raters have their own names."""

FILES = ("cases.csv", "summary.csv", "evaluation.json")
"""What is written."""


@dataclass(repr=False)
class Evaluation:
    """How good predictions are.

    Attributes:
        cases: A row per case, class, and labels that it was compared with.
        summary: Means over cases with bootstrap intervals over groups.
        notes: What a reader must know about the tables.
        failures: Predictions that could not be scored.
        inputs: What was scored, where nothing is written.
    """

    cases: list[Row] = field(default_factory=list)
    summary: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[RatersError] = field(default_factory=list)
    inputs: Inputs = field(default_factory=Inputs)

    def __repr__(self) -> str:
        return f"Evaluation({len(self.cases):,} rows of cases, {len(self.summary)} of means)"

    def frame(self, table: str = "summary") -> pd.DataFrame:
        """Return one of the tables ('cases', 'summary') as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(getattr(self, table))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        failures = [str(error) for error in self.failures]
        kept = {name: value for name, value in vars(self).items() if name != "inputs"}
        return {**kept, "failures": failures}

    def write(self, folder: str | Path) -> None:
        """Write `cases.csv`, `summary.csv` and `evaluation.json`."""
        self.inputs.refuse(folder, FILES)
        write_csv(Path(folder) / "cases.csv", self.cases)
        write_csv(Path(folder) / "summary.csv", self.summary)
        write_json(Path(folder) / "evaluation.json", self.to_dict())


def summarise(
    rows: Sequence[Row], scores: Sequence[str], order: Sequence[str], seed: int = 0
) -> list[Row]:
    """Average scores over cases, for each labels compared with (in order) and each class.

    The interval of a score is a 95 % bootstrap over groups; few groups have none.
    `undefined` cases have no voxel that both label: they have no score and are left out. Where
    neither has a class, `dice` is 1 as `raters.scores.empty` states; `dice_drawn` leaves these
    out, as `raters.agree` does.
    """
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row["against"], row["class"]), []).append(row)
    summary = []
    first = {against: k for k, against in enumerate(order)}
    for (against, name), part in sorted(parts.items(), key=lambda item: first[item[0][0]]):
        entry: Row = {"against": against, "class": name, "cases": len(part), "undefined": 0}
        groups = [row["group"] for row in part]
        for score in scores:
            values = [float("nan") if row[score] is None else row[score] for row in part]
            found = interval(values, groups, seed=seed)
            if score != "dice_drawn":
                entry["undefined"] = max(entry["undefined"], found.skipped)
            entry |= {score: found.estimate, f"{score}_low": found.low, f"{score}_high": found.high}
        summary.append({k: None if v != v else v for k, v in entry.items()})
    return summary

"""The result of `raters agree`: four plain tables and what has to be said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.rows import Row, write_csv, write_json
from raters.study.places import Inputs

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
"""The name in the column `class` for all classes together."""

TABLES = ("overall", "pairs", "raters", "cases")
FILES = (*(f"{table}.csv" for table in TABLES), "agreement.json")
"""What is written."""


@dataclass(repr=False)
class Agreement:
    """How far raters agree. A value that does not exist is None, and `notes` says why.

    Attributes:
        kind: 'segmentation' or 'classification'.
        overall: A row per class: mean pairwise scores, Fleiss' kappa, Krippendorff's alpha.
        pairs: One row per pair of raters and class.
        raters: A row per rater and class: against the vote of the others, volumes and bias.
        cases: A row per case, the most disputed first.
        notes: What a reader must know about the tables.
        inputs: What they were made from, where nothing is written.
    """

    kind: str
    overall: list[Row] = field(default_factory=list)
    pairs: list[Row] = field(default_factory=list)
    raters: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inputs: Inputs = field(default_factory=Inputs)

    def __repr__(self) -> str:
        sizes = f"{len(self.raters)} rows of raters, {len(self.pairs)} of pairs"
        return f"Agreement({self.kind}, {len(self.cases):,} cases, {sizes})"

    def frame(self, table: str) -> pd.DataFrame:
        """Return one of the tables ('overall', 'pairs', 'raters', 'cases') as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(getattr(self, table))

    def write(self, folder: str | Path) -> None:
        """Write `overall.csv`, `pairs.csv`, `raters.csv`, `cases.csv` and `agreement.json`."""
        self.inputs.refuse(folder, FILES)
        for table in TABLES:
            write_csv(Path(folder) / f"{table}.csv", getattr(self, table))
        write_json(Path(folder) / "agreement.json", self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "inputs"}


def rank_cases(rows: Sequence[Row], by: str) -> list[Row]:
    """Sort cases by how much raters differ, the most disputed first; unknown ones last."""
    return sorted(rows, key=lambda row: (row[by] is None, -(row[by] or 0.0)))


def known(value: Any) -> float | None:  # noqa: ANN401
    """Return None for a number that does not exist (NaN), else the number."""
    return None if value is None or value != value else float(value)

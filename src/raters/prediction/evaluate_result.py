"""The result of scoring a run: tables, what a reader must know, and sums to compare runs by."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.rows import Row, write_csv, write_json
from raters.study.places import Inputs

if TYPE_CHECKING:
    import pandas as pd

TABLES = (
    "summary",
    "cuts",
    "likelihood",
    "calibration",
    "reliability",
    "raters",
    "as_rater",
    "cases",
    "as_rater_cases",
)
FILES = (*(f"{table}.csv" for table in TABLES), "evaluation.json")
"""What is written."""


@dataclass(repr=False)
class RunScores:
    """How good a trained model is.

    Attributes:
        run: The name of the run.
        method: Its method.
        split: The split that was scored; '' for all cases.
        score: What the main score is, for example 'dice, reference'.
        summary: The truth against the reference and each rater: means with intervals.
        cuts: Dice at each cut of the run: at 0.5, at the best cut and at the area cut, which were
            chosen on held-out cases; against the reference, or the mean over raters.
        likelihood: Mean log-likelihood of a label: joint, marginal, and as if labels were the
            truth.
        calibration: Calibration error, Brier score and log loss, of the truth and of 'as rater'.
        reliability: What is in each bin of confidence.
        raters: Of each rater, how well 'as X' fits X, and how much better than 'as another'.
        as_rater: 'as X' against the labels of Y, for all pairs.
        cases: The truth against the reference and each rater, case by case.
        as_rater_cases: 'as X' against Y, case by case.
        main: Means with intervals, by name: score, likelihood, ece, as rater, confusion error.
        notes: What a reader must know about the tables.
        warnings: What makes the scores worth less.
        failures: Cases that could not be scored.
        sums: Sums of each case behind the main scores, to compare runs by; not written.
        inputs: What was scored, where nothing is written.
    """

    run: str
    method: str
    split: str = ""
    score: str = ""
    summary: list[Row] = field(default_factory=list)
    cuts: list[Row] = field(default_factory=list)
    likelihood: list[Row] = field(default_factory=list)
    calibration: list[Row] = field(default_factory=list)
    reliability: list[Row] = field(default_factory=list)
    raters: list[Row] = field(default_factory=list)
    as_rater: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    as_rater_cases: list[Row] = field(default_factory=list)
    main: Row = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: list[RatersError] = field(default_factory=list)
    sums: CaseVectors | None = None
    inputs: Inputs = field(default_factory=Inputs)

    def __repr__(self) -> str:
        return f"RunScores({self.run!r}, {self.method}, {self.scored:,} cases)"

    @property
    def scored(self) -> int:
        """How many cases were scored."""
        return 0 if self.sums is None else len(self.sums.names)

    def frame(self, table: str = "summary") -> pd.DataFrame:
        """Return one of the tables as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(getattr(self, table))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        hidden = ("sums", "failures", "inputs")
        kept = {k: v for k, v in vars(self).items() if k not in hidden}
        return {**kept, "scored": self.scored, "failures": [str(e) for e in self.failures]}

    def write(self, folder: str | Path) -> None:
        """Write each table that there is as CSV, and everything as `evaluation.json`."""
        self.inputs.refuse(folder, FILES)
        for name in TABLES:
            rows = getattr(self, name)
            if rows:
                write_csv(Path(folder) / f"{name}.csv", rows)
        write_json(Path(folder) / "evaluation.json", self.to_dict())


@dataclass(frozen=True)
class CaseVectors:
    """Sums of each case, by which runs are compared.

    Attributes:
        names: The cases.
        groups: Their groups.
        vectors: `(cases, columns)` by the name of the score.
    """

    names: list[str]
    groups: list[str]
    vectors: dict[str, NDArray[np.float64]]

    def of(self, name: str, cases: list[str]) -> NDArray[np.float64]:
        """Return the sums of some cases."""
        place = {case: k for k, case in enumerate(self.names)}
        return self.vectors[name][[place[case] for case in cases]]

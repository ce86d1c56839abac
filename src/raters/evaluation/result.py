"""The result of `raters.evaluate`: tables, what a reader must know, and sums to compare by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.core.errors import RatersError, one_of
from raters.core.wording import ALL_RATERS, many
from raters.evaluation.case import REFERENCE
from raters.io.claim import Owner, check_folder, claim_folder
from raters.io.rows import Row, html, write_csv, write_json
from raters.study.places import Inputs

if TYPE_CHECKING:
    import pandas as pd

TABLES = (
    "summary",
    "cuts",
    "variability",
    "likelihood",
    "calibration",
    "reliability",
    "raters",
    "as_rater",
    "cases",
    "variability_cases",
    "as_rater_cases",
)
FILES = (*(f"{table}.csv" for table in TABLES), "evaluation.json")
"""What is written of one evaluation."""
COMPARED = ("comparison.csv", "differences.csv", "case_scores.csv", "comparison.json")
"""What is written of a comparison, beside a folder of tables for each run."""
_OWNER = Owner("evaluate", "one that raters evaluate wrote its tables to")

NAMES = {
    "score_best": "dice at the best cut",
    "score_area": "dice at the area cut",
    "joint": "likelihood of labels, joint",
    "marginal": "likelihood of labels, marginal",
    "ece": "calibration error",
    "as_rater": "'as rater' against the rater",
    "as_rater_ece": "calibration error of 'as rater'",
    "confusion_error": "error of the matrices",
    "soft_dice": "soft dice, raters' mean label",
    "ged": "energy distance of samples",
    "matched_dice": "matched dice of samples",
}
"""What main scores are called; `score` itself is said by `Evaluation.score`."""


@dataclass(repr=False)
class Evaluation:
    """How good predictions are. Tables are lists of rows; `frame` turns one into a DataFrame.

    Predictions that are labels already (masks, classes) have `summary` and `cases`, and masks have
    `variability`; probabilities also have a calibration, trained models all the rest.

    Attributes:
        run: The name of the run; '' where predictions are not of one.
        method: Its method.
        split: The split that was scored; '' for all cases.
        score: What the main score is, for example 'dice, reference'.
        summary: The truth against the reference and each rater: means with intervals.
        cuts: Dice at each cut of the run: at 0.5, at the best cut and at the area cut, which were
            chosen on held-out cases; against the reference, or the mean over raters.
        variability: By class, against all raters together: soft Dice with the raters' mean label,
            and for samples the energy distance, matched Dice and best Dice.
        likelihood: Mean log-likelihood of a label: joint, marginal, and as if labels were the
            truth.
        calibration: Calibration error, Brier score and log loss, of the truth and of 'as rater'.
        reliability: What is in each bin of confidence.
        raters: Of each rater, how well 'as X' fits X, and how much better than 'as another'.
        as_rater: 'as X' against the labels of Y, for all pairs.
        cases: The truth against the reference and each rater, case by case.
        variability_cases: `variability`, case by case.
        as_rater_cases: 'as X' against Y, case by case.
        main: Means with intervals, by name: score, likelihood, ece, as rater, confusion error.
        notes: What a reader must know about the tables.
        warnings: What makes the scores worth less.
        failures: Cases that could not be scored.
        sums: Sums of each case behind the main scores, to compare runs by; not written.
        inputs: What was scored, where nothing is written.
    """

    run: str = ""
    method: str = ""
    split: str = ""
    score: str = ""
    summary: list[Row] = field(default_factory=list)
    cuts: list[Row] = field(default_factory=list)
    variability: list[Row] = field(default_factory=list)
    likelihood: list[Row] = field(default_factory=list)
    calibration: list[Row] = field(default_factory=list)
    reliability: list[Row] = field(default_factory=list)
    raters: list[Row] = field(default_factory=list)
    as_rater: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    variability_cases: list[Row] = field(default_factory=list)
    as_rater_cases: list[Row] = field(default_factory=list)
    main: Row = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: list[RatersError] = field(default_factory=list)
    sums: CaseVectors | None = None
    inputs: Inputs = field(default_factory=Inputs)

    def _title(self) -> str:
        words = []
        if self.run:
            words.append(self.run)
        if self.method:
            words.append(f"({self.method})")
        what = " ".join(words)
        return f"Evaluation of {what or 'predictions'}, {many(self.scored, 'case')}"

    def __repr__(self) -> str:
        kept = [c for c in self.scores.columns if not c.endswith(("_low", "_high"))]
        table = self.scores[kept].to_string(index=False, float_format="{:.3f}".format)
        return f"{self._title()}\n{table}"

    def _repr_html_(self) -> str:
        """Show the summary in a notebook."""
        return html(self._title(), {"summary": self.summary})

    @property
    def scored(self) -> int:
        """How many cases were scored."""
        return (
            len({row["case"] for row in self.cases}) if self.sums is None else len(self.sums.names)
        )

    @property
    def scores(self) -> pd.DataFrame:
        """The summary as a DataFrame: a row for each class and what it is compared with."""
        return self.frame("summary")

    def frame(self, table: str = "summary") -> pd.DataFrame:
        """Return one of the tables as a DataFrame.

        Raises:
            RatersError: that lists the tables.
        """
        import pandas as pd

        return pd.DataFrame(getattr(self, one_of(TABLES, table, "the table")))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        hidden = ("sums", "failures", "inputs")
        kept = {k: v for k, v in vars(self).items() if k not in hidden}
        return {**kept, "scored": self.scored, "failures": [str(e) for e in self.failures]}

    def write(self, folder: str | Path) -> None:
        """Write each table that there is as CSV, and everything as `evaluation.json`."""
        refuse_place([self.inputs], folder, FILES)
        tables = {f"{name}.csv": getattr(self, name) for name in TABLES if getattr(self, name)}
        claim_folder(folder, _OWNER, [*tables, FILES[-1]])
        for name, rows in tables.items():
            write_csv(Path(folder) / name, rows)
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


@dataclass(repr=False)
class Comparison:
    """Several runs on the same cases.

    Attributes:
        rows: One row per run: its method, and each main score with its interval.
        differences: One row per run (but the first) and score: how much higher it is than the first
            run's, with the interval of a paired bootstrap over groups.
        cases: The main scores of each run and case.
        runs: All tables of each run.
    """

    rows: list[Row] = field(default_factory=list)
    differences: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    runs: list[Evaluation] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(run.run for run in self.runs)})"

    @property
    def warnings(self) -> list[str]:
        """What makes the scores worth less."""
        return [text for run in self.runs for text in run.warnings]

    @property
    def notes(self) -> list[str]:
        """What a reader must know, each once."""
        return list(dict.fromkeys(text for run in self.runs for text in run.notes))

    @property
    def failures(self) -> list[RatersError]:
        """Cases that a run could not be scored on; they are in no difference."""
        return [error for run in self.runs for error in run.failures]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        tables = {"rows": self.rows, "differences": self.differences, "cases": self.cases}
        return tables | {"runs": [run.to_dict() for run in self.runs]}

    def write(self, folder: str | Path) -> None:
        """Write `comparison`, `differences` and `case_scores` as CSV, all as JSON, each run."""
        path = Path(folder)
        parts = [
            path / f"{number}-{Path(run.run).name}" for number, run in enumerate(self.runs, start=1)
        ]
        refuse_place([run.inputs for run in self.runs], path, COMPARED)
        for run, part in zip(self.runs, parts, strict=True):
            refuse_place([run.inputs], part, FILES)

        claim_folder(path, _OWNER, COMPARED)
        write_csv(path / "comparison.csv", self.rows)
        write_csv(path / "differences.csv", self.differences)
        write_csv(path / "case_scores.csv", self.cases)
        write_json(path / "comparison.json", self.to_dict())
        for run, part in zip(self.runs, parts, strict=True):
            run.write(part)


def refuse_place(inputs: Iterable[Inputs], folder: str | Path, files: Sequence[str]) -> None:
    """Reject a folder where tables would replace inputs, or what an earlier call did not write."""
    for one in inputs:
        one.refuse(folder, files)
    check_folder(folder, _OWNER, files)


def as_matrix(rows: Sequence[Row], score: str, front: str = "") -> list[Row]:
    """Return a row for each 'as X', with its score against each rater in a column of their own.

    Example:
        >>> rows = [{"as": "a", "against": b, "dice": d} for b, d in (("a", 0.9), ("b", 0.5))]
        >>> as_matrix(rows, "dice", "against ")
        [{'as': 'a', 'against a': 0.9, 'against b': 0.5}]
    """
    found: dict[str, Row] = {}
    for row in rows:
        own = found.setdefault(row["as"], {"as": row["as"]})
        own[f"{front}{row['against']}"] = row[score]
    return list(found.values())


def raters_together(rows: Sequence[Row]) -> list[Row]:
    """Average the rows of raters into one per class; those of the reference stay as they are.

    Example:
        >>> rows = [{"against": "a", "class": "all", "cases": 3, "dice": 0.5},
        ...         {"against": "b", "class": "all", "cases": 3, "dice": 0.7}]
        >>> raters_together(rows)
        [{'against': 'all raters', 'class': 'all', 'dice': 0.6}]
    """
    kept = [row for row in rows if row["against"] == REFERENCE]
    others = [row for row in rows if row["against"] != REFERENCE]
    for name in dict.fromkeys(row.get("class") for row in others):
        own = [row for row in others if row.get("class") == name]
        new: Row = {k: v for k, v in own[0].items() if isinstance(v, str)}
        new["against"] = ALL_RATERS
        for column in own[0]:
            numbers = [row[column] for row in own if isinstance(row.get(column), float)]
            if numbers and not column.endswith(("_low", "_high")):
                new[column] = float(np.mean(numbers))
        kept.append(new)
    return kept

"""Sums of all cases of a run: one pass, a few numbers kept of each case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.evaluation.result import REFERENCE
from raters.prediction.evaluate_case import CALIBRATION, FIELDS, CaseSums
from raters.prediction.evaluate_likelihood import LEAST
from raters.rows import Row

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

Floats = NDArray[np.float64]
MOST_PAIRS = 200_000
"""Cases times raters times raters, up to which every pair is kept with its interval."""


@dataclass
class RunSums:
    """What is kept of the cases of a run.

    Attributes:
        raters: The raters that study and model share.
        pairs_kept: Whether all pairs of raters are kept.
        groups: The group of each case.
        names: The name of each case.
        rows: One row per case, class, and labels that the truth was compared with.
        vectors: Sums of each case by name, to be stacked: `(cases, columns)`.
        pairs: `(raters, raters, 6)` of each case, if kept.
        own: Of each rater, the calibration sums of 'as X' against X.
        totals: Of each rater, the sums of 'as X' against X (`FIELDS`).
        truth_log: Of each rater, the summed log-likelihood of the labels if they were the truth.
    """

    raters: tuple[str, ...]
    pairs_kept: bool
    groups: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    vectors: dict[str, list[Floats]] = field(default_factory=dict)
    pairs: list[Floats] = field(default_factory=list)
    own: Floats = field(default_factory=lambda: np.zeros(0))
    totals: Floats = field(default_factory=lambda: np.zeros(0))
    truth_log: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        number = len(self.raters)
        self.own = np.zeros((number, CALIBRATION))
        self.totals, self.truth_log = np.zeros((number, len(FIELDS))), np.zeros(number)

    def add(self, found: CaseSums, rows: list[Row], scores: dict[str, Any]) -> None:
        """Add a case: its sums, the rows of its truth, and further sums by name."""
        case, each = found.case, range(len(self.raters))
        self.groups.append(case.group)
        self.names.append(case.id)
        self.rows += rows
        own = found.pairs[each, each]
        self.own += found.own
        self.totals += own
        self.truth_log += found.truth_log
        if self.pairs_kept:
            self.pairs.append(found.pairs)
        labels = own[:, 5].sum()
        vectors: dict[str, Any] = {
            "marginal": (own[:, 4].sum(), labels),
            "as the truth": (found.truth_log.sum(), labels),
            "as rater": own[:, :2].sum(axis=0),
            "calibration": found.calibration,
            "as rater calibration": found.own.sum(axis=0),
        }
        if found.joint is not None:
            vectors["joint"] = (found.joint, labels)
        for name, vector in (vectors | scores).items():
            self.vectors.setdefault(name, []).append(np.asarray(vector, np.float64))

    def stacked(self, name: str) -> Floats | None:
        """Return the sums of all cases `(cases, columns)`; None if there are none of this name."""
        found = self.vectors.get(name, [])
        return np.stack(found) if found and len(found) == len(self.names) else None


def class_rows(case: Case, truth: NDArray[np.float32], study: Study) -> Iterator[Row]:
    """Compare the truth of a case that has one class with the reference and every answer."""
    names, guess = study.classes.names, int(truth.argmax())
    labels = list(case.answers)
    if case.reference is not None:
        labels.insert(0, (REFERENCE, int(case.reference)))
    for against, label in labels:
        row: Row = {"case": case.id, "group": case.group, "split": case.split, "against": against}
        row |= {"label": names[label], "predicted": names[guess], "right": float(guess == label)}
        yield row | {"log_loss": -float(np.log(max(float(truth[label]), LEAST)))}


def main_scores(rows: list[Row], score: str, whole: str | None) -> dict[str, Any]:
    """Sum the main score of a case: against the reference, and averaged over the raters.

    Args:
        rows: The rows of the case.
        score: The name of the score.
        whole: The name of the class that stands for all; None where rows have no class.
    """
    kept = [row for row in rows if whole is None or row["class"] == whole]
    values = {
        "reference": [row[score] for row in kept if row["against"] == REFERENCE],
        "raters": [row[score] for row in kept if row["against"] != REFERENCE],
    }
    found = {}
    for name, every in values.items():
        there = [value for value in every if value == value]
        found[name] = (float(np.mean(there)), 1.0) if there else (0.0, 0.0)
    return found


def right_by_class(case: Case, truth: NDArray[np.float32]) -> Floats:
    """Return, by true class, whether the truth is right and whether there is a case: `2 L`."""
    sums = np.zeros((2, len(truth)))
    if case.reference is not None:
        label = int(case.reference)
        sums[:, label] = float(truth.argmax() == label), 1.0
    return sums.ravel()

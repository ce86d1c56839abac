"""The table of a comparison on one's own study: means, differences, and agreement of seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from raters.comparison.cell import Cell, Result, result_of
from raters.comparison.own_cell import BY_LABEL, Kept, agreement, read_kept
from raters.comparison.plan import Plan
from raters.comparison.run import CellsRun
from raters.comparison.scores import SCORES, columns, signed
from raters.core.arrays import Floats
from raters.core.wording import many
from raters.io.paths import written_whole
from raters.io.rows import Row, known, to_markdown, write_csv, write_json
from raters.metrics.bootstrap import GroupBootstrap, ratio
from raters.study.study import Study

FILES = ("comparison.md", "comparison.csv", "comparison.json")
"""What is written of a comparison, beside its cells."""


@dataclass
class StudyComparison:
    """What methods reach on a study.

    Attributes:
        rows: One row per method: means over held-out cases and seeds of each score, by the names of
            `raters.comparison.scores.SCORES`; `..._sd` is the standard deviation over seeds, and
            `..._difference`, `_low` and `_high` the difference from the baseline with its interval.
        run: Cells that were run, skipped, or failed.
        baseline: The method that others are compared with.
        scores: The columns.
        notes: What a reader must know.
        advice: One sentence; '' where there is none to give.
    """

    rows: list[Row]
    run: CellsRun
    baseline: str = ""
    scores: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    advice: str = ""

    def to_markdown(self) -> str:
        """Return the table and the differences from the baseline as Markdown, notes below."""
        means, apart = self.tables()
        parts = [_table(means)]
        if apart:
            parts.append(f"Differences from {self.baseline} (95 % interval over groups):\n")
            parts.append(_table(apart))
        parts += [f"{text}\n" for text in [*self.notes, *filter(None, [self.advice])]]
        return "\n".join(parts)

    def tables(self) -> tuple[list[Row], list[Row]]:
        """Return what readers see of the methods: means, and differences from the baseline."""
        apart = [row for row in self.rows if row.get(f"{BY_LABEL[0]}_difference") is not None]
        means = [_line(row, self.scores, _mean) for row in self.rows]
        return means, [_line(row, BY_LABEL, _difference) for row in apart]

    def write(self, folder: str | Path) -> None:
        """Write `comparison.md`, `comparison.csv` and `comparison.json`."""
        text, rows, everything = (Path(folder) / name for name in FILES)
        with written_whole(text) as file:
            file.write(self.to_markdown())
        write_csv(rows, self.rows)
        content = {"methods": self.rows, "notes": self.notes, "advice": self.advice}
        write_json(everything, content)


def _table(rows: Sequence[Row]) -> str:
    return to_markdown(list(rows[0]) if rows else ["method"], [list(r.values()) for r in rows])


def _line(row: Row, scores: Sequence[str], cell: Callable[[Row, str], str]) -> Row:
    return {"method": row["method"]} | {SCORES[s].title: cell(row, s) for s in scores}


def _mean(row: Row, score: str) -> str:
    if row.get(score) is None:
        return str(row.get("missing", "-"))
    spread = row.get(f"{score}_sd")
    return _shown(score, row[score]) + ("" if spread is None else f" ± {_shown(score, spread)}")


def _difference(row: Row, score: str) -> str:
    found = [row.get(f"{score}_{end}") for end in ("difference", "low", "high")]
    if found[0] is None:
        return "-"
    factor = SCORES[score].factor
    value, *ends = (signed(factor * v, score) for v in found if v is not None)
    return f"{value} ({' to '.join(ends) or 'too few groups'})"


def _shown(score: str, value: float) -> str:
    return f"{value * SCORES[score].factor:.{SCORES[score].digits}f}"


@dataclass(frozen=True)
class _Done:
    """A cell with its result, and what was kept of its held-out cases."""

    cell: Cell
    result: Result
    kept: Kept | None

    @property
    def lost_dominance(self) -> bool:
        """Whether the raters' mean matrix says that truth and errors may be swapped."""
        margin = self.result.scores.get("dominance")
        return margin is not None and margin <= 0


def compare_cells(
    plan: Plan, cells: Sequence[Cell], folder: Path, study: Study, run: CellsRun
) -> StudyComparison:
    """Make the table of all cells that have a result.

    A method without a result in one of the folds has no scores: on other cases they would not be
    comparable.
    """
    wanted = columns(plan.scores)
    done = []
    for cell in cells:
        result = result_of(cell, folder)
        if result is not None:
            done.append(_Done(cell, result, read_kept(cell.path(folder).with_suffix(".npz"))))
    rows = []
    for name in plan.methods:
        own = [one for one in done if one.cell.row == name]
        of = sum(cell.row == name for cell in cells)
        row: Row = {"method": name, "cells": len(own), "cells_of": of}
        if {one.cell.setting for one in own} == set(plan.folds):
            row |= _means(own, wanted)
            row["stability"] = _stability(own, len(study.classes))
        else:
            row["missing"] = "no result"
        rows.append(row)
    _add_differences(rows, done, plan.baseline)
    swapped = sorted({one.cell.row for one in done if one.lost_dominance})
    notes = _notes(plan, study, run, swapped)
    return StudyComparison(
        rows, run, plan.baseline, wanted, notes, advice(rows, study.kind, swapped)
    )


def _means(done: Sequence[_Done], wanted: Sequence[str]) -> Row:
    """Return the mean over folds and seeds of each score, and the deviation over seeds."""
    found: Row = {}
    folds = {one.cell.setting for one in done}
    for score in wanted:
        weight = "labels" if score in BY_LABEL else "cases"
        parts = [
            (one.cell.seed, one.result.scores[score], one.result.scores[weight])
            for one in done
            if one.result.scores.get(score) is not None
        ]
        if not parts:
            continue
        found[score] = _weighted(parts)
        seeds = sorted({seed for seed, _, _ in parts})
        each = [_weighted([part for part in parts if part[0] == seed]) for seed in seeds]
        if len(seeds) > 1 and len(parts) == len(seeds) * len(folds):
            found[f"{score}_sd"] = float(np.std(each, ddof=1))
    return found


def _weighted(parts: Sequence[tuple[int, float, float]]) -> float:
    values, weights = np.array([part[1:] for part in parts], np.float64).T
    return float(np.average(values, weights=weights))


def _stability(done: Sequence[_Done], num_classes: int) -> float | None:
    """Return the mean agreement of pairs of seeds of the same fold."""
    found = [
        agreement(a.kept.predicted, b.kept.predicted, num_classes)
        for a, b in combinations(done, 2)
        if a.cell.setting == b.cell.setting and a.kept is not None and b.kept is not None
    ]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def _add_differences(rows: list[Row], done: Sequence[_Done], baseline: str) -> None:
    """Add each method's difference from the baseline, with its interval over groups.

    Seeds are averaged first; all methods are compared on the same draws of groups.
    """
    sums, groups = _summed(done)
    if baseline not in sums:
        return
    for row in rows:
        name = row["method"]
        if name == baseline or row.get("likelihood") is None or name not in sums:
            continue
        shared = [case for case in sums[baseline] if case in sums[name]]
        bootstrap = GroupBootstrap([groups[case] for case in shared])
        pair = [np.stack([sums[who][case] for case in shared]) for who in (baseline, name)]
        for k, score in enumerate(BY_LABEL):
            found = bootstrap.difference(pair[0][:, [k, -1]], pair[1][:, [k, -1]], ratio)
            ends = {"difference": found.estimate, "low": found.low, "high": found.high}
            row |= {f"{score}_{end}": known(v) for end, v in ends.items()}


def _summed(done: Sequence[_Done]) -> tuple[dict[str, dict[str, Floats]], dict[str, str]]:
    """Return sums by method and case, averaged over seeds, and the group of each case."""
    parts: dict[str, dict[str, list[Floats]]] = {}
    groups: dict[str, str] = {}
    for one in done:
        if one.kept is None:
            continue
        groups |= one.kept.groups
        for case, sums in one.kept.sums.items():
            parts.setdefault(one.cell.row, {}).setdefault(case, []).append(sums)
    means = {
        row: {case: np.mean(each, axis=0) for case, each in cases.items()}
        for row, cases in parts.items()
    }
    return means, groups


def _notes(plan: Plan, study: Study, run: CellsRun, swapped: Sequence[str]) -> list[str]:
    seeds = len(plan.seeds)
    folds = len(plan.folds)
    notes = [
        f"Held-out cases of {many(folds, 'fold')} by group, {many(seeds, 'seed')} (± standard "
        "deviation over seeds). Log-likelihoods are in nats per label, with the matrices that a "
        "method learns, or counted ones (on training cases) if it learns none; 'counted matrices': "
        "counted ones for all methods alike, which compares their networks alone. Higher is better "
        "everywhere."
    ]
    if study.kind == "segmentation":
        notes.append("Agreement of seeds is mean Dice of masks at the cut of the raters' area.")
    if study.anonymous:
        notes.append(
            "Raters are anonymous: a matrix for each is one of different people. Counted matrices "
            "are shared by all, as those of single-cm are."
        )
    if swapped:
        notes.append(
            "The raters' mean matrix was not diagonally dominant in some trainings of "
            f"{', '.join(swapped)}: truth and errors may be swapped, which a likelihood cannot see."
        )
    kept_back = int((study.index.splits == "test").sum())
    if kept_back:
        notes.append(f"Cases of the split 'test' were left alone: {kept_back:,}.")
    notes += [f"{one.cell.name} failed: {one.error}" for one in run.failures]
    return notes


@dataclass(frozen=True)
class Worth:
    """What a choice by `CHOOSES` was worth in simulated studies of one kind.

    Attributes:
        studies: How many there were.
        within: The share of them in which it was within a point of the best method by truth.
        vote: The same if vote is always taken.
    """

    studies: int
    within: float
    vote: float


CHOOSES = "likelihood_counted"
MEASURED = ("vote", "mean", "staple", "dawid-skene", "global-cm", "pixel-cm")
WORTH = {"classification": Worth(15, 0.87, 0.07)}
"""Kinds of studies on which the choice was better than always vote (`benchmarks/advice.py`); on
masks it was not shown to be."""


def advice(rows: Sequence[Row], kind: str, swapped: Sequence[str] = ()) -> str:
    """Return which method to take in one sentence; '' where advice was not shown to be worth it.

    Args:
        rows: The rows of a comparison.
        kind: 'segmentation' or 'classification'.
        swapped: Methods whose truth and errors may be swapped.

    Example:
        >>> rows = [{"method": "vote", CHOOSES: -1.2}, {"method": "global-cm", CHOOSES: -1.1}]
        >>> advice(rows, "classification")[:16], advice(rows, "segmentation")
        ('Take global-cm: ', '')
    """
    names = [row["method"] for row in rows]
    whole = all(row.get(CHOOSES) is not None for row in rows)
    if kind not in WORTH or len(rows) < 2 or not whole or not set(names) <= set(MEASURED):
        return ""
    best = max(rows, key=lambda row: row[CHOOSES])["method"]
    if best in swapped:
        return ""
    worth = WORTH[kind]
    return (
        f"Take {best}: with counted matrices its network makes held-out labels most likely, which "
        f"was within a point of the best in {worth.within:.0%} of {worth.studies} simulated "
        f"studies (vote in {worth.vote:.0%})."
    )

"""The scores of a run as sections of the report: truth, calibration, 'as rater X', other runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raters import plots
from raters.evaluation.case import REFERENCE
from raters.evaluation.result import NAMES
from raters.report.blocks import Block, Section, TextBlock, figure, section, table
from raters.report.say import ALL_RATERS, say
from raters.rows import Row, with_interval
from raters.scores.bootstrap import LEAST_GROUPS
from raters.scores.calibration import ReliabilityCurve

if TYPE_CHECKING:
    from raters.evaluation.result import Comparison, Evaluation


_WELL = 0.05  # calibration errors below it are small


def score_section(found: Evaluation, anonymous: bool = False) -> Section:
    """Show how well the truth and 'as rater' fit references and raters.

    Args:
        found: The scores.
        anonymous: Whether raters are anonymous: their rows become one.
    """
    blocks: list[Block] = []
    if "score" in found.main:
        said = with_interval(found.main, "score")
        blocks.append(TextBlock(f"{score_name(found.score)}: {said}."))
    rows = raters_together(found.summary) if anonymous else found.summary
    each = "all raters together" if anonymous else "each rater"
    blocks.append(table("run.summary", rows, columns=brief(rows), each=each))
    if found.cuts:
        blocks.append(table("run.cuts", found.cuts, columns=brief(found.cuts)))
    if found.variability:
        blocks.append(table("run.variability", found.variability, columns=brief(found.variability)))
    if found.likelihood:
        blocks.append(table("run.likelihood", found.likelihood))
    return section("run.summary", blocks)


def calibration_section(found: Evaluation) -> Section | None:
    """Show whether probabilities mean what they say; None where there is nothing to compare."""
    if not found.calibration:
        return None
    blocks: list[Block] = []
    for row in found.calibration:
        curve = reliability_of([r for r in found.reliability if r["of"] == row["of"]])
        name = f"reliability_{row['of']}".replace(" ", "_")
        drawn = plots.reliability(curve)
        blocks.append(figure(f"run.{name}", drawn, _calibration_said(row, curve)))
    columns = brief(found.calibration)
    blocks.append(table("run.calibration", found.calibration, columns=columns))
    return section("run.calibration", blocks)


def reliability_of(rows: Sequence[Row]) -> ReliabilityCurve:
    """Turn the bins of `Evaluation.reliability` into a curve.

    Example:
        >>> reliability_of([{"labels": 2, "confidence": 0.6, "accuracy": 0.5}]).counts.tolist()
        [2]
    """

    def column(name: str) -> list[float]:
        return [float("nan") if row[name] is None else float(row[name]) for row in rows]

    counts = np.array([row["labels"] for row in rows], np.int64)
    return ReliabilityCurve(np.array(column("confidence")), np.array(column("accuracy")), counts)


def score_name(score: str) -> str:
    """Return what a main score is.

    Example:
        >>> score_name("dice, reference"), score_name("accuracy, mean over raters")
        ('Dice against the reference', 'Accuracy against the raters (their mean)')
    """
    fit, of = score.split(", ", 1)
    whom = REFERENCE if of == REFERENCE else "raters (their mean)"
    return f"{fit.capitalize()} against the {whom}"


def raters_together(rows: Sequence[Row]) -> list[Row]:
    """Average the rows of raters into one per class; those of the reference stay as they are.

    Example:
        >>> rows = [{"against": "a", "class": "all", "cases": 3, "dice": 0.5},
        ...         {"against": "b", "class": "all", "cases": 3, "dice": 0.7}]
        >>> raters_together(rows)
        [{'against': 'all raters', 'class': 'all', 'dice': 0.6}]
    """
    kept = [row for row in rows if row["against"] == REFERENCE]
    groups: dict[object, list[Row]] = {}
    for row in rows:
        if row["against"] != REFERENCE:
            groups.setdefault(row.get("class"), []).append(row)
    for own in groups.values():
        new: Row = {"against": ALL_RATERS}
        for name, value in own[0].items():
            numbers = [row[name] for row in own if isinstance(row.get(name), float)]
            if name.endswith(("_low", "_high")) or name == "against":
                continue
            if numbers:
                new[name] = float(np.mean(numbers))
            elif isinstance(value, str):
                new[name] = value
        kept.append(new)
    return kept


def brief(rows: Sequence[Row]) -> list[str]:
    """Return the columns to show: of the intervals only that of the first score.

    Example:
        >>> brief([{"a": 1, "d": 2, "d_low": 1, "d_high": 3, "e": 1, "e_low": 0, "e_high": 2}])
        ['a', 'd', 'd_low', 'd_high', 'e']
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    first = next((name for name in names if f"{name}_low" in names), "")
    kept = (f"{first}_low", f"{first}_high")
    return [n for n in names if not n.endswith(("_low", "_high")) or n in kept]


def _calibration_said(row: Row, curve: ReliabilityCurve) -> str:
    total = curve.counts.sum()
    sure = float(np.nan_to_num(curve.confidence) @ curve.counts / total)
    right = float(np.nan_to_num(curve.accuracy) @ curve.counts / total)
    small = row["ece"] is None or row["ece"] < _WELL
    of = {"reference": row["against"] == REFERENCE, "ece": with_interval(row, "ece")}
    return say("calibration", small=small, sure=sure, right=right, **of)


_MOST_COLUMNS = 8


def as_rater_section(found: Evaluation) -> Section | None:
    """Show how well 'as rater X' fits X and the others; None without raters."""
    if not found.raters:
        return None
    fit = "dice" if "dice" in found.raters[0] else "accuracy"
    blocks: list[Block] = [TextBlock(text) for text in _own_said(found.raters, fit)]
    names = [row["rater"] for row in found.raters]
    if found.as_rater and len(names) <= _MOST_COLUMNS:
        heads = ["as", *(f"against {name}" for name in names)]
        rows = _pivot(found.as_rater, fit)
        blocks.append(table("run.as_rater_matrix", rows, columns=heads, fit=fit))
    blocks.append(table("run.as_rater_own", found.raters, fit=fit))
    blocks += [table("run.as_rater", found.as_rater, fit=fit)] if found.as_rater else []
    return section("run.as_rater_own", blocks)


def _pivot(rows: Sequence[Row], fit: str) -> list[Row]:
    table: dict[str, Row] = {}
    for row in rows:
        own = table.setdefault(row["as"], {"as": row["as"]})
        own[f"against {row['against']}"] = row[fit]
    return list(table.values())


def _own_said(rows: Sequence[Row], fit: str) -> list[str]:
    """Report for which raters 'as X' fits X better than 'as another' does."""
    key = f"{fit}_better"
    compared = [row for row in rows if row.get(key) is not None]
    if not compared:
        return []
    lows = [(row["rater"], row.get(f"{key}_low"), row[key]) for row in compared]
    least = {rater: value if low is None else low for rater, low, value in lows}
    weak = [rater for rater, low in least.items() if not low > 0]
    return [say("own", better=len(compared) - len(weak), compared=len(compared), weak=weak)]


def comparison_section(found: Comparison) -> Section:
    """Show this run beside others, with paired differences."""
    score = found.runs[0].score
    rows = [{**row, "score": NAMES.get(row["score"], score)} for row in found.differences]
    blocks: list[Block] = [TextBlock(text) for text in _compared(found.differences, score)]
    groups = 0 if found.runs[0].sums is None else len(set(found.runs[0].sums.groups))
    if groups < LEAST_GROUPS:
        text = f"Only {groups} groups (patients) were compared: so few have no intervals."
        blocks.append(TextBlock(text, "note"))
    run, columns = found.runs[0].run, brief(found.rows)
    blocks.append(table("run.comparison", found.rows, columns=columns, score=score))
    blocks.append(table("run.differences", rows, run=run))
    return section("run.comparison", blocks, run=run)


def _compared(rows: Sequence[Row], score: str) -> Sequence[str]:
    """Return for each other run whether its main score is really different."""
    said = []
    for row in rows:
        if row["score"] != "score" or row["difference"] is None:
            continue
        ends = {end: row.get(f"difference_{end}") for end in ("low", "high")}
        names = {name: row[name] for name in ("run", "against", "difference")}
        said.append(say("compared", **names, **ends, score=score))
    return said

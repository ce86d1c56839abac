"""Whether a run has learnt how each rater labels, as a section of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raters.report.blocks import Block, Section, TableBlock, TextBlock
from raters.rows import Row

if TYPE_CHECKING:
    from raters.prediction.evaluate_result import RunScores

_MOST_COLUMNS = 8


def as_rater_section(found: RunScores) -> Section | None:
    """Show how well 'as rater X' fits X and the others; None without raters."""
    if not found.raters:
        return None
    fit = "dice" if "dice" in found.raters[0] else "accuracy"
    blocks: list[Block] = [TextBlock(text) for text in _own_said(found.raters, fit)]
    names = [row["rater"] for row in found.raters]
    if found.as_rater and len(names) <= _MOST_COLUMNS:
        headings = {"as": "as", **{f"against {n}": f"against {n}" for n in names}}
        caption = (
            f"{fit.capitalize()} of what the model predicts as a rater (rows) with what raters "
            "said (columns). The highest value of a column should be in the rater's own row."
        )
        blocks.append(TableBlock("as_rater_matrix", _pivot(found.as_rater, fit), caption, headings))
    caption = (
        "Of each rater: how well 'as X' fits the labels of X, how well 'as another' does, and how "
        "much better the first one is, with its interval."
    )
    blocks.append(TableBlock("as_rater_own", found.raters, caption, _own_columns(fit)))
    if found.as_rater:
        caption = "Every pair in full, with intervals."
        columns = ["as", "against", "cases", fit, f"{fit}_low", f"{fit}_high", "log_likelihood"]
        blocks.append(TableBlock("as_rater", found.as_rater, caption, columns))
    return Section("As rater X", "Has the model learnt how each rater labels?", blocks)


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
    better: list[str] = []
    weak: list[str] = []
    for row in compared:
        low = row.get(f"{key}_low")
        (better if (row[key] if low is None else low) > 0 else weak).append(row["rater"])
    said = (
        f"'As X' fits X better than 'as another' does for {len(better)} of {len(compared)} raters."
    )
    if weak:
        more = ", ..." if len(weak) > 5 else ""
        said += (
            f" Not for {', '.join(weak[:5])}{more}: too few of their labels, too short a training, "
            "or they label like the others."
        )
    return [said]


def _own_columns(fit: str) -> dict[str, str]:
    better = f"{fit}_better"
    return {
        "rater": "rater",
        "labels": "labels",
        fit: f"{fit}, as X",
        f"{fit}_of_others": f"{fit}, as another",
        better: "better by",
        f"{better}_low": "low",
        f"{better}_high": "high",
        "log_likelihood": "log likelihood, as X",
        "log_likelihood_of_others": "as another",
        "as_the_truth": "as the truth",
    }

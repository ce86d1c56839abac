"""A run beside other runs, as a section of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raters.report.blocks import Block, Section, TableBlock, TextBlock
from raters.report.run_scores import brief
from raters.rows import Row
from raters.scores.bootstrap import LEAST_GROUPS

if TYPE_CHECKING:
    from raters.prediction.compare_runs import Comparison

NAMES = {
    "joint": "joint likelihood of labels",
    "marginal": "marginal likelihood of labels",
    "ece": "calibration error",
    "as_rater": "'as rater' against the rater",
    "as_rater_ece": "calibration error of 'as rater'",
    "confusion_error": "error of the matrices",
}


def comparison_section(found: Comparison) -> Section:
    """Show this run beside others, with paired differences."""
    score = found.runs[0].score
    rows = [{**row, "score": name_of(row["score"], score)} for row in found.differences]
    blocks: list[Block] = [TextBlock(text) for text in _compared(found.differences, score)]
    groups = 0 if found.runs[0].sums is None else len(set(found.runs[0].sums.groups))
    if groups < LEAST_GROUPS:
        text = f"Only {groups} groups (patients) were compared: so few have no intervals."
        blocks.append(TextBlock(text, "note"))
    about_rows = (
        f"Each run on the same cases with 95 % intervals. 'score' is {score}; calibration errors "
        "and the error of the matrices are better when lower, all others when higher."
    )
    about_differences = (
        f"How much higher each score is than that of {found.runs[0].run}, with the interval of a "
        "paired bootstrap over groups: what makes a case hard cancels. An interval on one side of "
        "0 is significant."
    )
    blocks.append(TableBlock("comparison", found.rows, about_rows, brief(found.rows)))
    blocks.append(TableBlock("differences", rows, about_differences))
    return Section("Other runs", f"Is {found.runs[0].run} better than others?", blocks)


def name_of(name: str, score: str) -> str:
    """Return a score's name for people."""
    return NAMES.get(name, score)


def _compared(rows: Sequence[Row], score: str) -> list[str]:
    """Return for each other run whether its main score is really different."""
    said = []
    for row in rows:
        if row["score"] != "score" or row["difference"] is None:
            continue
        low, high = row.get("difference_low"), row.get("difference_high")
        better = "higher" if row["difference"] > 0 else "lower"
        begun = f"{row['run']} scores {abs(row['difference']):.3f} {better} than {row['against']}"
        if low is None or high is None:
            ends = "no interval: too few groups"
        elif low > 0 or high < 0:
            ends = f"95 % CI {low:+.3f} to {high:+.3f}: significant"
        else:
            ends = f"95 % CI {low:+.3f} to {high:+.3f}: not significant, more cases would tell"
        said.append(f"{begun} ({score}; {ends}).")
    return said

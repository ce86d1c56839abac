"""The scores of a run as sections of the report: the truth, and whether it is calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raters import plots
from raters.evaluation.result import REFERENCE
from raters.report.blocks import Block, FigureBlock, Section, TableBlock, TextBlock
from raters.report.fusion_words import ALL_RATERS
from raters.rows import Row
from raters.scores.calibration import ReliabilityCurve

if TYPE_CHECKING:
    from raters.prediction.evaluate_result import RunScores

_WELL = 0.05  # calibration errors below it are small


def score_section(found: RunScores, anonymous: bool = False) -> Section:
    """Show how well the truth and 'as rater' fit references and raters.

    Args:
        found: The scores.
        anonymous: Whether raters are anonymous: their rows become one.
    """
    blocks: list[Block] = []
    if "score" in found.main:
        blocks.append(
            TextBlock(f"{score_name(found.score)}: {with_interval(found.main, 'score')}.")
        )
    rows = raters_together(found.summary) if anonymous else found.summary
    each = "all raters together" if anonymous else "each rater"
    blocks.append(
        TableBlock(
            "summary",
            rows,
            f"The predicted consensus against the references and against {each}, as means over "
            "cases with 95 % intervals. Trust the rows of the reference; a row of raters says how "
            "far they are from the predicted consensus.",
            brief(rows),
        )
    )
    if found.cuts:
        blocks.append(TableBlock("cuts", found.cuts, _CUTS, brief(found.cuts)))
    if found.likelihood:
        blocks.append(TableBlock("likelihood", found.likelihood, _LIKELIHOOD))
    return Section("Scores", "How good is the predicted consensus?", blocks)


_CUTS = (
    "Dice where the probability of a class is above 0.5, above the best cut (chosen on held-out "
    "cases with a reference), and above the cut at which as much is predicted as raters draw. "
    "Where a cut other than 0.5 gives much more, predict with it (raters predict --cut), and "
    "compare methods at their own cuts."
)
_LIKELIHOOD = (
    "Mean log-likelihood of a label (nearer to 0 is better): one truth explaining all raters "
    "(joint), each rater alone (marginal), and as if raters never erred (as the truth). Matrices "
    "that are right bring the first two above the last."
)


def calibration_section(found: RunScores) -> Section | None:
    """Show whether probabilities mean what they say; None where there is nothing to compare."""
    if not found.calibration:
        return None
    blocks: list[Block] = []
    for row in found.calibration:
        curve = reliability_of([r for r in found.reliability if r["of"] == row["of"]])
        figure = plots.reliability(curve)
        name = f"reliability_{row['of']}".replace(" ", "_")
        blocks.append(FigureBlock(name, figure, _calibration_said(row, curve)))
    blocks.append(
        TableBlock(
            "calibration",
            found.calibration,
            "Expected calibration error, Brier score and log loss of the prediction against the "
            "reference and of 'as rater X' against X (lower is better), with 95 % intervals.",
            brief(found.calibration),
        )
    )
    return Section("Calibration", "Do the probabilities mean what they say?", blocks)


def reliability_of(rows: Sequence[Row]) -> ReliabilityCurve:
    """Turn the bins of `RunScores.reliability` into a curve.

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


def with_interval(row: Row, name: str) -> str:
    """Return a score with its interval.

    Example:
        >>> with_interval({"dice": 0.5, "dice_low": 0.4, "dice_high": 0.61}, "dice")
        '0.500 (0.400 to 0.610)'
    """
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    ends = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
    return f"{row[name]:.3f}{ends}"


def _calibration_said(row: Row, curve: ReliabilityCurve) -> str:
    what = "the prediction against the reference" if row["against"] == REFERENCE else (
        "'as rater X' against the labels of X"
    )  # fmt: skip
    total = curve.counts.sum()
    sure = float(np.nan_to_num(curve.confidence) @ curve.counts / total)
    right = float(np.nan_to_num(curve.accuracy) @ curve.counts / total)
    begun = f"Reliability of {what}: on the line, probabilities mean what they say. "
    if row["ece"] is None or row["ece"] < _WELL:
        return f"{begun}The error is small (ECE {with_interval(row, 'ece')})."
    way = "too sure" if sure > right else "too unsure"
    return (
        f"{begun}The model is {way} (ECE {with_interval(row, 'ece')}): mean confidence {sure:.2f}, "
        f"right {right:.2f}. Do not read its probabilities as they are."
    )

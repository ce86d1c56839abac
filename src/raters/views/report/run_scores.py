"""The scores of a run, and how its training went, as sections of the report.

Scores are of the truth, of calibration, of 'as rater X', and beside other runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.evaluation.case import REFERENCE
from raters.evaluation.result import as_matrix, raters_together
from raters.io.rows import Row, with_interval
from raters.learning.evaluation.runs import (
    Part,
    Seen,
    compare_runs,
    held_out_notes,
    shown_part,
    warnings_of,
)
from raters.learning.evaluation.watch import finite, lost_dominance, trend_of
from raters.metrics.bootstrap import LEAST_GROUPS
from raters.metrics.calibration import ReliabilityCurve, reliability_of
from raters.views import plots
from raters.views.report.blocks import (
    Block,
    Section,
    TextBlock,
    TextKind,
    figure,
    note,
    section,
    table,
)
from raters.views.report.study import study_notes
from raters.views.texts.say import filled_in, joined, plain, say, sentence, texts

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study

_WELL = 0.05  # calibration errors below it are small
_CLEAR = 0.02  # differences that are clear where there is no interval
_MOST_COLUMNS = 8


def part_said(part: Part) -> str:
    """Return which cases a report shows, in a sentence."""
    return say("part", name=part.name, taken=len(part.study), all=part.all)


def score_section(found: Evaluation, part: Part, seen: Seen) -> Section:
    """Show how well the truth and 'as rater' fit references and raters.

    First comes of which cases the scores are, and what makes them worth less. Raters who are
    anonymous have one row.
    """
    anonymous = part.study.anonymous
    chosen = held_out_notes(part.study, seen) if part.name != "held-out" else []  # said already
    notes = [*found.notes, *chosen, *study_notes(part.study)]
    errors = [str(error) for error in found.failures]
    main = None
    if "score" in found.main:
        main = TextBlock(f"{score_name(found.score)}: {with_interval(found.main, 'score')}.")
    rows = raters_together(found.summary) if anonymous else found.summary
    further = {"cuts": found.cuts, "variability": found.variability}
    return section(
        "run.summary",
        TextBlock(part_said(part)),
        *(TextBlock(f"{text}.", "warning") for text in warnings_of(part.study, seen)),
        *(TextBlock(sentence(text), "note") for text in notes),
        note("failed", "warning", number=len(errors), errors=errors[:3]) if errors else None,
        main,
        table("run.summary", rows, columns=brief(rows), anonymous=anonymous, score=found.score),
        *(table(f"run.{k}", v, columns=brief(v), has=list(v[0])) for k, v in further.items() if v),
        table("run.likelihood", found.likelihood) if found.likelihood else None,
    )


def calibration_section(found: Evaluation) -> Section | None:
    """Show whether probabilities mean what they say; None where there is nothing to compare."""
    if not found.calibration:
        return None
    blocks: list[Block] = []
    for row in found.calibration:
        curve = reliability_of([r for r in found.reliability if r["of"] == row["of"]])
        name = f"reliability_{row['of']}".replace(" ", "_")
        said = _calibration_said(row, curve)
        blocks.append(figure(f"run.{name}", plots.reliability(curve), said))
    measures = table("run.calibration", found.calibration, columns=brief(found.calibration))
    return section("run.calibration", *blocks, measures)


def score_name(score: str) -> str:
    """Return what a main score is.

    Example:
        >>> score_name("dice, reference"), score_name("accuracy, mean over raters")
        ('Dice against the reference', 'Accuracy against the raters (their mean)')
    """
    fit, of = score.split(", ", 1)
    whom = REFERENCE if of == REFERENCE else "raters (their mean)"
    return f"{fit.capitalize()} against the {whom}"


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
    # Chance alone gives this error in 5 % of draws, labels being independent: half-normal bins.
    spread = np.sqrt(np.nan_to_num(curve.confidence * (1 - curve.confidence)) * curve.counts)
    chance = (0.798 * spread.sum() + 0.992 * np.sqrt(spread @ spread)) / total
    low = row["overconfidence_low"]
    high = row["overconfidence_high"]
    error = row["ece"] or 0.0
    clear = abs(sure - right) >= _CLEAR if low is None else not low <= 0 <= high
    of = {"reference": row["against"] == REFERENCE, "ece": with_interval(row, "ece")}
    of |= {"small": error < _WELL, "chance": error <= chance, "clear": clear, "labels": int(total)}
    return say("calibration", sure=sure, right=right, **of)


def as_rater_section(found: Evaluation) -> Section | None:
    """Show how well 'as rater X' fits X and the others; None without raters."""
    if not found.raters:
        return None
    fit = "dice" if "dice" in found.raters[0] else "accuracy"
    own = table("run.as_rater_own", found.raters, fit=fit)
    every = table("run.as_rater", found.as_rater, fit=fit) if found.as_rater else None
    matrix = None
    if found.as_rater and len(found.raters) <= _MOST_COLUMNS:
        heads = ["as", *(f"against {row['rater']}" for row in found.raters)]
        rows = as_matrix(found.as_rater, fit, "against ")
        matrix = table("run.as_rater_matrix", rows, columns=heads, fit=fit)
    return section("run.as_rater_own", _own_said(found.raters, fit), matrix, own, every)


def _own_said(rows: Sequence[Row], fit: str) -> TextBlock | None:
    """Report for which raters 'as X' fits X better than 'as another' does."""
    key = f"{fit}_better"
    compared = [row for row in rows if row.get(key) is not None]
    lows = [(row["rater"], row.get(f"{key}_low"), row[key]) for row in compared]
    weak = [who for who, low, gain in lows if not (gain - _CLEAR if low is None else low) > 0]
    of = {"better": len(compared) - len(weak), "compared": len(compared), "weak": weak}
    return note("own", "plain", **of) if compared else None


def comparison_section(runs: Sequence[Path], study: Study, progress: bool) -> Section:
    """Show a run beside others, on cases that none was trained on, with paired differences."""
    part = shown_part(study, [Seen.by_run(run) for run in runs])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are shown below
        found = compare_runs(list(runs), part.study, progress=progress)
    first = found.runs[0]
    run = first.run
    score = first.score
    names = texts()["run.differences"]["scores"]
    rows = [
        {**row, "score": plain(filled_in(names.get(row["score"], row["score"]), score=score))}
        for row in found.differences
    ]
    groups = 0 if first.sums is None else len(set(first.sums.groups))
    return section(
        "run.comparison",
        TextBlock(joined(say("shared_cases", number=len(part.study)), part_said(part))),
        *(TextBlock(f"{text}.", "warning") for text in found.warnings),
        *_compared(found.differences, score),
        note("few_groups", groups=groups) if groups < LEAST_GROUPS else None,
        table("run.comparison", found.rows, columns=brief(found.rows), score=score),
        table("run.differences", rows, run=run),
        run=run,
    )


def _compared(rows: Sequence[Row], score: str) -> Iterator[TextBlock]:
    """Return for each other run whether its main score is really different."""
    for row in rows:
        if row["score"] == "score" and row["difference"] is not None:
            of = {name: row[name] for name in ("run", "against", "difference")}
            of |= {end: row.get(f"difference_{end}") for end in ("low", "high")}
            yield note("compared", "plain", **of, score=score)


# How the training went

_NOT_DRAWN = ("epoch", "phase", "seconds", "waiting")
_MUCH_WAITING = 0.3
_FEW_STEPS = 200


def training_section(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> Section:
    """Show the curves of a run, and a sentence or more on them.

    `history` has a row per epoch, `scores` is `scores.json`, `steps` are those per epoch, if known.
    """
    if not history:
        return section("run.training", note("no_history"))
    best = int(scores.get("best_epoch", 0))
    warm_up = sum(row.get("phase") == "warm-up" for row in history)
    drawn: dict[str, None] = {}
    for row in history:
        drawn |= dict.fromkeys(name for name in row if name not in _NOT_DRAWN)
    curves = plots.curves(history, warm_up, best or None, list(drawn))
    shown = figure("run.training_curves", curves, say("curves", warm_up=warm_up, drawn=list(drawn)))
    return section("run.training", *told(history, scores, steps), shown)


def epochs_section(history: Sequence[Row]) -> Section | None:
    """Show the numbers of all epochs, if there are any."""
    return section("run.history", table("run.history", history)) if history else None


def told(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> list[TextBlock]:
    """Return what the curves mean and what to do about it.

    Example:
        >>> rows = [{"epoch": k, "loss": 1 / k, "held_out": 10 - k} for k in range(1, 9)]
        >>> print(told(rows, {"best_epoch": 8})[0].text)
        The held-out loss was still falling at the end (epoch 8): train longer (--epochs 16).
    """
    best = int(scores.get("best_epoch", 0))
    last = int(history[-1].get("epoch", len(history)))
    said = []
    if any(finite(row.get("loss", 0.0)) is None for row in history):
        said.append(note("no_loss", "warning"))
    trend = trend_of(history, bool(scores.get("stopped_early")))
    if trend:
        kind: TextKind = "note" if trend["trend"] in ("still", "overfit") else "plain"
        said.append(note("trend", kind, last=last, **trend))
    if steps is not None and steps * len(history) < _FEW_STEPS:
        said.append(note("few_steps", total=steps * len(history), steps=steps))
    if best:
        said.append(note("kept", "plain", best=best, last=last))
    swapped = lost_dominance(history, best)
    if swapped:
        kind = "note" if swapped["lost"] else "plain"
        kind = kind if swapped["margin"] is None else "warning"
        said.append(note("dominance", kind, **swapped))
    waiting = float(scores.get("waiting", 0.0))
    if waiting > _MUCH_WAITING:
        said.append(note("waiting", share=waiting))
    return said

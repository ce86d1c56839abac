"""How the training of a run went: its curves, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raters import plots
from raters.report.blocks import Section, TextBlock, figure, section
from raters.report.say import say
from raters.rows import Row

_NOT_DRAWN = ("epoch", "phase", "seconds", "waiting")
_MUCH_WAITING = 0.3
_FEW_STEPS = 200
_TRENDS = {
    "held_out": (1.0, "held-out loss", "falling"),
    "reference": (-1.0, "score by the reference", "rising"),
}
_RISE = 0.1  # of the whole way, from which on a loss rises again


def training_section(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> Section:
    """Show the curves of a run, and a sentence or more on them.

    Args:
        history: A row per epoch.
        scores: `scores.json` of the run.
        steps: Steps per epoch; None if unknown.
    """
    if not history:
        missing = "The folder has no history.csv: how the training went is unknown."
        return section("run.training", [TextBlock(missing, "note")])
    best = int(scores.get("best_epoch", 0))
    warm_up = sum(row.get("phase") == "warm-up" for row in history)
    drawn = dict.fromkeys(k for row in history for k in row if k not in _NOT_DRAWN)
    curves = plots.curves(history, warm_up, best or None, list(drawn))
    shown = figure("run.training_curves", curves, say("curves", warm_up=warm_up))
    return section("run.training", [*told(history, scores, steps), shown])


def told(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> list[TextBlock]:
    """Return what the curves mean and what to do about it.

    Example:
        >>> rows = [{"epoch": k, "loss": 1 / k, "held_out": 10 - k} for k in range(1, 9)]
        >>> print(told(rows, {"best_epoch": 8})[0].text)
        The held-out loss was still falling at the end (epoch 8): train longer (--epochs 16).
    """
    best, last = int(scores.get("best_epoch", 0)), int(history[-1].get("epoch", len(history)))
    said = []
    if any(_number(row.get("loss", 0.0)) is None for row in history):
        said.append(TextBlock("The loss was not a number in some epoch: lower --lr.", "warning"))
    said += _trend(history, last, bool(scores.get("stopped_early")))
    if steps is not None and steps * len(history) < _FEW_STEPS:
        text = say("few_steps", total=steps * len(history), steps=steps)
        said.append(TextBlock(text, "note"))
    if best:
        said.append(TextBlock(f"The weights of epoch {best} of {last} were kept."))
    said += _dominance(history, best)
    waiting = float(scores.get("waiting", 0.0))
    return said + [TextBlock(say("waiting", share=waiting), "note")] * (waiting > _MUCH_WAITING)


def _trend(history: Sequence[Row], last: int, stopped: bool) -> list[TextBlock]:
    """Return whether longer training would help."""
    trained = [row for row in history if row.get("phase") != "warm-up"]
    column = "reference" if _values(trained, "reference") else "held_out"  # it chooses by default
    sign, name, way = _TRENDS[column]
    values = [sign * value for value in _values(trained, column)]
    loss = _values(history, "held_out")
    trend = "settled" if len(values) >= 3 else ""
    if trend and loss and loss[-1] > min(loss) + _RISE * (max(loss) - min(loss)):
        trend = "overfit"
    trend = "stopped" if stopped else "still" if still_falling(values) else trend
    ends = {"best": min(loss, default=None), "end": loss[-1] if loss else None}
    text = say("trend", trend=trend, name=name, way=way, last=last, **ends)
    kind = "note" if trend in ("still", "overfit") else "plain"
    return [TextBlock(text, kind)] if trend else []  # type: ignore[arg-type]


def still_falling(values: Sequence[float]) -> bool:
    """Return whether values were falling up to the end.

    The last third must be well below the third before it (by a tenth of the whole way that they
    went), and its own second half below its first one (by a twentieth): else they have settled.

    Example:
        >>> still_falling([9, 8, 7, 6, 5, 4, 3, 2]), still_falling([9, 4, 2, 1, 1, 1, 1, 1])
        (True, False)
        >>> still_falling([9, 8, 7, 6, 5, 4, 1, 1, 1])  # it fell late, and settled
        False
    """
    if len(values) < 3:
        return False
    part, way = len(values) // 3, max(values) - min(values)
    before, after = values[-2 * part : -part], values[-max(2, part) :]
    if (sum(before) - sum(values[-part:])) / part <= 0.1 * way:
        return False
    half = len(after) // 2
    return (sum(after[:half]) - sum(after[-half:])) / half > 0.05 * way


def _values(history: Sequence[Row], column: str) -> list[float]:
    found = [_number(row.get(column)) for row in history]
    return [value for value in found if value is not None]


def _dominance(history: Sequence[Row], best: int) -> list[TextBlock]:
    """Return whether truth and errors may be swapped."""
    found = {row.get("epoch"): _number(row.get("dominance")) for row in history}
    margins = {epoch: margin for epoch, margin in found.items() if margin is not None}
    if not margins:
        return []
    lost = [epoch for epoch, margin in margins.items() if margin <= 0]
    margin = margins[best] if best in lost else None
    first = lost[0] if lost else None
    text = say("dominance", margin=margin, lost=len(lost), epochs=len(margins), first=first)
    return [TextBlock(text, "warning" if margin is not None else "note" if lost else "plain")]


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]

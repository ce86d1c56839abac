"""How a training went: its curves, and what to do about them in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raters import plots
from raters.report.blocks import Block, FigureBlock, Section, TableBlock, TextBlock
from raters.rows import Row

_NOT_DRAWN = ("epoch", "phase", "seconds", "waiting")
_CAPTION = (
    "One panel per number, by epoch: the loss on the training cases and on the held-out ones "
    "(lower is better), the score by the reference, the trace of the raters' matrices, and the "
    "dominance margin, which must stay above 0. The dashed line is the epoch that was kept."
)
_HELP = "try a longer --warm-up, a smaller --trace, a larger --prior (pixel-cm), or global-cm."
_MUCH_WAITING = 0.3
_FEW_STEPS = 200
_TRENDS = {
    "held_out": ("held_out", 1.0, "held-out loss", "falling"),
    "reference": ("reference", -1.0, "score by the reference", "rising"),
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
        return Section("Training", blocks=[TextBlock(missing, "note")])
    best = int(scores.get("best_epoch", 0))
    warm_up = sum(row.get("phase") == "warm-up" for row in history)
    drawn = dict.fromkeys(k for row in history for k in row if k not in _NOT_DRAWN)
    shaded = " The shaded epochs are the warm-up." if warm_up else ""
    blocks: list[Block] = [*told(history, scores, steps)]
    figure = plots.curves(history, warm_up, best or None, list(drawn))
    blocks.append(FigureBlock("training_curves", figure, _CAPTION + shaded))
    return Section("Training", "How did it go, and would longer training help?", blocks)


def epoch_section(history: Sequence[Row]) -> Section:
    """Show the numbers of all epochs."""
    caption = "All numbers of all epochs; 'waiting' is the share of the time that data took."
    return Section("Epochs", blocks=[TableBlock("history", list(history), caption)])


def told(
    history: Sequence[Row], scores: Mapping[str, Any], steps: int | None = None
) -> list[TextBlock]:
    """Return what the curves mean and what to do about it.

    Example:
        >>> rows = [{"epoch": k, "loss": 1 / k, "held_out": 10 - k} for k in range(1, 9)]
        >>> told(rows, {"best_epoch": 8})[0].text
        'The held-out loss was still falling at the end (epoch 8): train longer (--epochs 16).'
    """
    best, last = int(scores.get("best_epoch", 0)), int(history[-1].get("epoch", len(history)))
    said = []
    if any(_number(row.get("loss", 0.0)) is None for row in history):
        text = "The loss was not a number in some epoch: lower --lr."
        said.append(TextBlock(text, "warning"))
    said += _trend_told(history, last, bool(scores.get("stopped_early")))
    if steps is not None and steps * len(history) < _FEW_STEPS:
        text = (
            f"It took only {steps * len(history):,} steps in all ({steps} per epoch): more "
            "--epochs or a smaller --batch-size would teach it more."
        )
        said.append(TextBlock(text, "note"))
    if best:
        said.append(TextBlock(f"The weights of epoch {best} of {last} were kept."))
    said += _dominance_told(history, best)
    waiting = float(scores.get("waiting", 0.0))
    if waiting > _MUCH_WAITING:
        text = (
            f"It waited for data {100 * waiting:.0f} % of the time: more --num-workers or a larger "
            "--cache make it faster."
        )
        said.append(TextBlock(text, "note"))
    return said


def _trend_told(history: Sequence[Row], last: int, stopped: bool) -> list[TextBlock]:
    """Return whether longer training would help."""
    if stopped:
        text = f"It stopped early, after epoch {last}: none had been better for --patience epochs."
        return [TextBlock(text)]
    trained = [row for row in history if row.get("phase") != "warm-up"]
    by_reference = bool(_values(trained, "reference"))  # it chooses by default
    column, sign, name, way = _TRENDS["reference" if by_reference else "held_out"]
    values = [sign * value for value in _values(trained, column)]
    if still_falling(values):
        text = f"The {name} was still {way} at the end (epoch {last}): train longer"
        return [TextBlock(f"{text} (--epochs {2 * last}).", "note")]
    if len(values) < 3:
        return []
    loss = _values(history, "held_out")
    if loss and loss[-1] > min(loss) + _RISE * (max(loss) - min(loss)):
        text = (
            f"The held-out loss was {min(loss):.3g} at its best and {loss[-1]:.3g} at the end: it "
            "began to overfit. More cases, --augment full or less --width help."
        )
        return [TextBlock(text, "note")]
    return [TextBlock(f"The {name} had settled at the end: longer training gains little.")]


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


def _dominance_told(history: Sequence[Row], best: int) -> list[TextBlock]:
    """Return whether truth and errors may be swapped."""
    found = {row.get("epoch"): _number(row.get("dominance")) for row in history}
    margins = {epoch: margin for epoch, margin in found.items() if margin is not None}
    if margins.get(best, 1.0) <= 0:
        text = (
            f"The raters' mean matrix is not diagonally dominant (margin {margins[best]:.2f}): "
            f"truth and errors may be swapped, so do not trust this run; {_HELP}"
        )
        return [TextBlock(text, "warning")]
    lost = [epoch for epoch, margin in margins.items() if margin <= 0]
    if lost:
        text = (
            f"Rater matrices were not diagonally dominant in {len(lost)} of {len(margins)} epochs "
            f"(first in {lost[0]}), but are in the one that was kept. If that worries you, {_HELP}"
        )
        return [TextBlock(text, "note")]
    if margins:
        text = "Rater matrices stayed diagonally dominant: no sign of label swapping."
        return [TextBlock(text)]
    return []


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]

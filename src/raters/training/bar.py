"""A progress bar of training: loss, trace, dominance and the time left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lightning
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from rich.progress import TaskID

    from raters.training.engine import Learner

SHOWN = {"loss": "loss", "trace": "trace", "held_out": "held-out", "dominance": "dominance"}
FIRST_TO_GO = ("trace", "dominance", "loss")
"""What is left out where a terminal is too narrow, in this order."""

_BAR, _TIME, _GAPS = 10, 7, 4


def shown_terms(row: Mapping[str, Any], room: int) -> str:
    """Show what an epoch gave, in so many characters.

    Example:
        >>> row = {"loss": 0.4718, "trace": 1.25, "held_out": 0.481, "dominance": 0.8}
        >>> shown_terms(row, 80)
        'loss 0.472 trace 1.250 held-out 0.481 dominance 0.80'
        >>> shown_terms(row, 40)
        'loss 0.472 held-out 0.481 dominance 0.80'
    """
    names = [name for name in SHOWN if name in row]
    for gone in (None, *FIRST_TO_GO):
        names = [name for name in names if name != gone]
        said = " ".join(f"{SHOWN[name]} {_short(name, row[name])}" for name in names)
        if len(said) <= room:
            return said
    return ""


def _short(name: str, value: float) -> str:
    text = f"{value:.2f}" if name == "dominance" else f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


class TrainingBar(lightning.Callback):
    """Shows one bar over all epochs.

    Args:
        epochs: How many there are.
        steps: Batches of one epoch, to train on and held out.
        console: Where it is shown.
    """

    def __init__(self, epochs: int, steps: int, console: Console | None = None) -> None:
        self.epochs, self.total = epochs, epochs * steps
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002
        """Show the bar; a resumed run starts where it was."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[terms]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        # The steps of an epoch are unlike those that score it: look back over many of both.
        self._bar = Progress(*columns, console=self._console, speed_estimate_period=300)
        self._bar.start()
        done = len(pl_module.history)
        self._task = self._bar.add_task(
            self._epoch(pl_module, done),
            total=self.total,
            completed=self.total * done // self.epochs,
            terms="",
        )

    def _epoch(self, learner: Learner, epoch: int) -> str:
        warm_up = " warm-up" if epoch < learner.method.warm_up else ""
        return f"epoch {epoch + 1}/{self.epochs}{warm_up}"

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:  # noqa: ANN401
        """Go one step on."""
        if self._bar is not None and self._task is not None:
            epoch = self._epoch(pl_module, trainer.current_epoch)
            self._bar.update(self._task, advance=1, description=epoch)

    def on_validation_batch_end(self, *_: Any) -> None:  # noqa: ANN401
        """Go one step on: held-out batches take their time too."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1)

    def show_row(self, learner: Learner) -> None:
        """Show what the epoch gave."""
        if self._bar is not None and self._task is not None:
            row = learner.history[-1]
            words = len(self._epoch(learner, row["epoch"] - 1))
            room = self._console.width - words - _BAR - _TIME - _GAPS
            self._bar.update(self._task, terms=shown_terms(row, room))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ANN401, ARG002
        """Leave the bar as it is, also after an error or Ctrl-C."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

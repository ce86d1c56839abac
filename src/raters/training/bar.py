"""A progress bar of training: loss, trace, dominance and the time left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from rich.progress import TaskID

SHOWN = {"loss": "loss", "trace": "trace", "held_out": "held-out", "dominance": "dominance"}


class TrainingBar(lightning.Callback):
    """Shows one bar over all epochs."""

    def __init__(self, epochs: int, steps: int) -> None:
        self.epochs, self.total = epochs, steps
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002
        """Show the bar."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[terms]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._bar.start()
        self._task = self._bar.add_task(f"epoch 1/{self.epochs}", total=self.total, terms="")

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:  # noqa: ANN401
        """Go one step on."""
        if self._bar is not None and self._task is not None:
            epoch = f"epoch {trainer.current_epoch + 1}/{self.epochs}"
            self._bar.update(self._task, advance=1, description=epoch)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002
        """Show what the epoch gave."""
        if self._bar is not None and self._task is not None and pl_module.history:
            row = pl_module.history[-1]
            terms = [f"{name} {row[key]:.3f}" for key, name in SHOWN.items() if key in row]
            self._bar.update(self._task, terms="  ".join(terms))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ANN401, ARG002
        """Leave the bar as it is, also after an error or Ctrl-C."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

"""Writes a run down while it trains: checkpoints, history, scores, and a log for people."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from raters.errors import RatersError
from raters.rows import Row
from raters.training.config import write_config
from raters.training.run import (
    CHECKPOINT,
    CONFIG,
    WEIGHTS,
    first_process,
    log,
    read_scores,
    room_for,
    write_progress,
    write_splits,
)
from raters.version import __version__

if TYPE_CHECKING:
    from raters.training.engine import Learner
    from raters.training.model import Model
    from raters.training.prepare import Planned

_STOPPED: dict[type[BaseException], str] = {
    KeyboardInterrupt: "by Ctrl-C",
    SystemExit: "from outside (SIGTERM)",
}


class Record:
    """Keeps the folder of a run up to date; of several processes only the first writes.

    Args:
        folder: The folder.
        planned: What is trained on what.
        notes: Warnings that are not in the log yet.
        resume: Whether to resume from an existing checkpoint; no other is ever read.
    """

    def __init__(
        self, folder: Path, planned: Planned, notes: list[str], resume: bool = False
    ) -> None:
        self.folder, self.planned, self.notes, self._resume = folder, planned, notes, resume
        training = planned.config.training
        # A process that trains alone may have a number of another work: it writes all the same.
        alone = training.devices * training.num_nodes == 1
        self._writes, self._started = alone or first_process(), False

    @property
    def checkpoint(self) -> Path:
        """The last checkpoint, there or not."""
        return self.folder / CHECKPOINT

    @property
    def earlier(self) -> Path | None:
        """The checkpoint to resume from, if asked to resume and there is one."""
        return self.checkpoint if self._resume and self.checkpoint.exists() else None

    def log(self, text: str) -> None:
        """Add a line to the log, after the warnings that came before."""
        while self._writes and self.notes:
            log(self.folder, f"warning: {self.notes.pop(0)}")
        if self._writes:
            log(self.folder, text)

    def start(self, learner: Learner) -> None:
        """Write what is known before the first step; also where the run is resumed."""
        if not self._writes:
            return
        config, self._started = self.planned.config, True
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / CONFIG).exists():
            with room_for(self.folder / CONFIG):
                write_config(self.folder, config)
        write_splits(self.folder, self.planned.splits)
        self._write_progress(learner)
        done = len(learner.history)
        self.log(f"resumed after epoch {done}" if done else f"started {config.method}")
        trained, held_out = map(len, self.planned.parts)
        self.log(
            f"{trained} cases to train on, {held_out} held out, {len(config.raters)} raters, "
            f"{len(config.classes)} classes"
        )
        versions = f"raters {__version__}, torch {torch.__version__}"
        self.log(f"{versions}, python {platform.python_version()}")

    def epoch(self, learner: Learner) -> None:
        """Write down an epoch: first the checkpoint, as all else can be made from it."""
        learner.trainer.save_checkpoint(self.checkpoint)  # all processes take part
        if self._writes:
            self._write_progress(learner)
            self.log(epoch_line(learner.history[-1], self.planned.config.training.epochs))

    def finish(self, model: Model, learner: Learner) -> None:
        """Write the weights of the best epoch, then say that it is finished."""
        if not self._writes:
            return
        with room_for(self.folder / WEIGHTS):
            model.save(self.folder)
        self._write_progress(learner, finished=True)
        early = " early" if learner.stopped else ""
        self.log(f"finished{early}: epoch {model.best_epoch} of {len(model.history)} is the best")
        waiting = read_scores(self.folder).get("waiting", 0.0)
        self.log(f"waited for data {100 * waiting:.0f} % of the time")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Report in the log why a run did not come to its end."""
        try:
            yield
        except BaseException as error:
            if not self._started:
                raise  # the folder is as it was before
            why = _STOPPED.get(type(error), f"by an error: {error}")
            with suppress(OSError, RatersError):  # a full disk takes no more lines
                self.log(f"stopped {why}; --resume continues after the last whole epoch")
            raise

    def _write_progress(self, learner: Learner, finished: bool = False) -> None:
        write_progress(
            self.folder,
            learner.history,
            max(learner.best.epoch, 0),
            self.planned.config.training.epochs,
            finished=finished,
            stopped_early=learner.stopped,
        )


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Return a list that warnings are added to; they are shown all the same."""
    notes: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def noted(message: Any, category: Any, *rest: Any) -> None:  # noqa: ANN401
            notes.append(str(message))
            show(message, category, *rest)

        warnings.showwarning = noted  # type: ignore[assignment]
        yield notes


def told_by(tell: Callable[[str], None], epochs: int) -> Callable[[Learner], None]:
    """Report one line per epoch, as the log has it; of several processes the first does."""

    def told(learner: Learner) -> None:
        if first_process():
            tell(epoch_line(learner.history[-1], epochs))

    return told


def epoch_line(row: Row, epochs: int) -> str:
    """Report in a line what an epoch gave."""
    numbers = [f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float)]
    return f"epoch {row['epoch']}/{epochs} ({row['phase']}): {', '.join(numbers)}"

"""Runs the epochs, on Lightning's trainer as we need it: quiet, with a bar, stopped by Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.exceptions import SIGTERMException
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from raters.core.errors import RatersError
from raters.learning.training.engine import Learner, set_precision
from raters.learning.training.epochs import WholeCheckpoints, read_checkpoint
from raters.learning.training.options import TrainingOptions
from raters.learning.training.prepare import Planned, make_loader
from raters.learning.training.run import Record, epoch_line, first_process

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

    from raters.learning.methods.base import Method
    from raters.learning.training.config import ModelConfig

Progress = bool | Callable[[str], None] | None
"""Whether to show a bar (None: on a terminal), or a function called with one line per epoch."""

_LOST = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
"""What those who talk between processes say when one of them is gone."""


def make_trainer(
    training: TrainingOptions, bar: TrainingBar | None, loggers: list[Any]
) -> lightning.Trainer:
    """Make a trainer; several devices or machines train as one, by 'ddp'.

    Raises:
        RatersError: This machine has not so many devices.
    """
    try:
        return lightning.Trainer(
            accelerator="auto",
            devices=training.devices,
            num_nodes=training.num_nodes,
            # In the warm-up the matrices have no gradient, which plain 'ddp' does not forgive.
            strategy="ddp_find_unused_parameters_true" if training.processes > 1 else "auto",
            # Of Lightning's precision we need only the scaling of gradients, for 16.
            precision="16-mixed" if training.precision == "16" else "32-true",
            max_epochs=training.epochs,
            logger=loggers or False,
            plugins=[WholeCheckpoints()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            callbacks=[bar] if bar else [],
        )
    except MisconfigurationException as error:
        why = " ".join(str(error).split())
        raise RatersError(
            f"found devices={training.devices} and num_nodes={training.num_nodes}, expected what "
            f"there is here: {why}",
            kind="devices",
        ) from None


def wants_bar(progress: Progress) -> bool:
    """Return whether a bar is wanted: by default on a terminal; one process shows it."""
    if callable(progress) or not first_process():
        return False
    return Console(stderr=True).is_terminal if progress is None else progress


def own_randomness() -> AbstractContextManager[None]:
    """Return the caller's random numbers back as they were, whatever happens."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt: Lightning exits, and leaves further ones ignored.

    And let who ends the process by SIGTERM (a queue, at the end of the time) see that it did not
    finish: Lightning ends it as if all were well. A GPU out of memory, and a process that died
    beside this one, are said in words.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except torch.OutOfMemoryError as error:
        why = str(error).split(". ")[0]
        raise RatersError(
            f"found no memory on the GPU ({why}), expected some: try a smaller batch_size, patch "
            "or width, or precision='bf16'",
            kind="full",
        ) from None
    except RuntimeError as error:
        if not any(words in str(error) for words in _LOST):
            raise
        why = str(error).splitlines()[0].strip()[:200]
        raise RatersError(
            f"found a process of this training gone ({why}), expected all of them "
            "until the end: the run is whole up to the epoch before, use --resume",
            kind="process",
        ) from None
    except SIGTERMException:
        raise SystemExit(128 + signal.SIGTERM) from None
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
        raise KeyboardInterrupt from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Lightning from talking about devices and workers: the user did not ask."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


SHOWN = {"loss": "loss", "trace": "trace", "held_out": "held-out", "dominance": "dominance"}
FIRST_TO_GO = ("trace", "dominance", "loss")
"""What is left out where a terminal is too narrow, in this order."""

_BAR = 10
_TIME = 7
_GAPS = 4


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
        digits = {name: 2 if name == "dominance" else 3 for name in names}
        said = " ".join(f"{SHOWN[name]} {row[name]:.{digits[name]}f}" for name in names)
        if len(said) <= room:
            return said
    return ""


class TrainingBar(lightning.Callback):
    """Shows one bar over all epochs; that of Lightning starts again in each, without the time left.

    Args:
        epochs: How many there are.
        steps: Batches of one epoch, to train on and held out.
        console: Where it is shown.
    """

    def __init__(self, epochs: int, steps: int, console: Console | None = None) -> None:
        self.epochs = epochs
        self.total = epochs * steps
        self._console = console or Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[terms]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        # The steps of an epoch are unlike those that score it: look back over many of both.
        self._bar = Bar(*columns, console=self._console, speed_estimate_period=300)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002
        """Show the bar; a resumed run starts where it was."""
        self._bar.start()
        done = len(pl_module.history)
        completed = self.total * done // self.epochs
        said = self._epoch(pl_module, done)
        self._task = self._bar.add_task(said, total=self.total, completed=completed, terms="")

    def _epoch(self, learner: Learner, epoch: int) -> str:
        phase = learner.method.phase(epoch)
        shown = "" if phase == "main" else f" {phase}"
        return f"epoch {epoch + 1}/{self.epochs}{shown}"

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:  # noqa: ANN401
        """Go one step on."""
        epoch = self._epoch(pl_module, trainer.current_epoch)
        self._bar.update(self._task, advance=1, description=epoch)

    def on_validation_batch_end(self, *_: Any) -> None:  # noqa: ANN401
        """Go one step on: held-out batches take their time too."""
        self._bar.update(self._task, advance=1)

    def show_row(self, learner: Learner) -> None:
        """Show what the epoch gave."""
        row = learner.history[-1]
        words = len(self._epoch(learner, row["epoch"] - 1))
        room = self._console.width - words - _BAR - _TIME - _GAPS
        self._bar.update(self._task, terms=shown_terms(row, room))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ANN401, ARG002
        """Leave the bar as it is, also after an error or Ctrl-C."""
        if self._bar.live.is_started:
            self._bar.stop()


def _logger(name: str, folder: Path) -> Logger:
    """Make a logger of Lightning that writes into the folder of a run."""
    from lightning.pytorch import loggers

    if name == "tensorboard":
        return loggers.TensorBoardLogger(
            folder, name="", version="tensorboard", default_hp_metric=False
        )
    if name == "wandb":
        return loggers.WandbLogger(project="raters", name=folder.name, save_dir=folder)
    own: dict[str, Any] = {
        "tracking_uri": f"sqlite:///{folder / 'mlflow.db'}",
        "artifact_location": str(folder / "mlruns"),
    }
    server = os.environ.get("MLFLOW_TRACKING_URI")  # MLflow's own way to name one
    return loggers.MLFlowLogger("raters", run_name=folder.name, **({} if server else own))


def refuse_loggers(names: Sequence[str], folder: Path | None) -> None:
    """Refuse loggers that are not installed, or that have no folder to write to."""
    for name in names:
        if find_spec(name) is None:
            raise RatersError(f"found no {name}, expected pip install 'raters[{name}]'")
        if folder is None:
            raise RatersError(f"found the logger {name!r} and no folder, expected folder='run'")


def make_loggers(names: Sequence[str], folder: Path | None, config: ModelConfig) -> list[Logger]:
    """Make loggers that write into the folder of the run, and tell them what is trained."""
    if folder is None:
        return []
    loggers = [_logger(name, folder.absolute()) for name in names]
    chosen: dict[str, Any] = {"method": config.method, **config.options}
    chosen |= config.training.model_dump(mode="json")
    for logger in loggers:
        logger.log_hyperparams(chosen)
    return loggers


def log_row(learner: Learner) -> None:
    """Tell all loggers the numbers of the last epoch."""
    row = learner.history[-1]
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    for logger in learner.trainer.loggers:
        logger.log_metrics(numbers, step=row["epoch"])
        logger.save()


def run_epochs(
    method: Method,
    planned: Planned,
    record: Record | None = None,
    progress: Progress = None,
    cache: Path | None = None,
    known_truth: bool = False,
) -> Learner:
    """Train a method that is ready, from the start or from the checkpoint of its record."""
    config = planned.config
    folder = record.folder if record else None
    training = config.training
    with quiet():
        data = make_loader(planned, method, "train", cache)
        kept = len(planned.parts.held_out)
        held_out = make_loader(planned, method, "tiles", cache) if kept else None
        learner = Learner(method, training, len(data), planned.parts)
        learner.known_truth = known_truth
        checkpoint = record.earlier if record else None
        if checkpoint:
            learner.on_load_checkpoint(read_checkpoint(checkpoint))
        loggers = [] if learner.done else make_loggers(training.loggers, folder, config)
        if record:
            record.start(learner)
            learner.after_epoch.append(record.epoch)
        if learner.done:
            return learner
        each = len(data) + (len(held_out) if held_out else 0)
        bar = TrainingBar(training.epochs, each) if wants_bar(progress) else None
        if callable(progress) and first_process():
            epochs = training.epochs
            learner.after_epoch.append(lambda one: progress(epoch_line(one.history[-1], epochs)))
        trainer = make_trainer(training, bar, loggers)
        learner.after_epoch += [log_row, *([bar.show_row] if bar else [])]
        set_precision(method, training.precision)
        try:
            with interruptible():
                trainer.fit(learner, data, held_out, ckpt_path=checkpoint)
        finally:
            set_precision(method, "32")  # a model predicts as one that was loaded does
    return learner

"""Makes Lightning's trainer as we need it: quiet, on any devices, and stopped by Ctrl-C."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.exceptions import SIGTERMException
from rich.console import Console

from raters.errors import RatersError
from raters.training.bar import TrainingBar
from raters.training.checkpoint import WholeCheckpoints
from raters.training.options import TrainingOptions
from raters.training.precision import for_trainer
from raters.training.run import first_process

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
        return _trainer(training, bar, loggers)
    except MisconfigurationException as error:
        why = " ".join(str(error).split())
        raise RatersError(
            f"found devices={training.devices} and num_nodes={training.num_nodes}, expected what "
            f"there is here: {why}",
            kind="devices",
        ) from None


def _trainer(
    training: TrainingOptions, bar: TrainingBar | None, loggers: list[Any]
) -> lightning.Trainer:
    several = training.devices * training.num_nodes > 1
    return lightning.Trainer(
        accelerator="auto",
        devices=training.devices,
        num_nodes=training.num_nodes,
        # In the warm-up the matrices have no gradient, which plain 'ddp' does not forgive.
        strategy="ddp_find_unused_parameters_true" if several else "auto",
        precision=for_trainer(training.precision),
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


def make_bar(progress: Progress, epochs: int, steps: int) -> TrainingBar | None:
    """Make a bar if it is wanted."""
    return TrainingBar(epochs, steps) if wants_bar(progress) else None


def wants_bar(progress: Progress) -> bool:
    """Return whether a bar is wanted: by default on a terminal; one process shows it."""
    if callable(progress) or not first_process():
        return False
    return Console(stderr=True).is_terminal if progress is None else progress


@contextmanager
def own_randomness() -> Iterator[None]:
    """Return the caller's random numbers back as they were, whatever happens."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield


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
        raise RatersError(
            f"found a process of this training gone ({_first_line(error)}), expected all of them "
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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].strip()[:200]


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

"""Tells TensorBoard, MLflow or Weights & Biases how training goes; imported if asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

    from raters.training.config import ModelConfig
    from raters.training.engine import Learner


def _tensorboard(folder: Path) -> Logger:
    from lightning.pytorch.loggers import TensorBoardLogger

    return TensorBoardLogger(folder, name="", version="tensorboard", default_hp_metric=False)


def _mlflow(folder: Path) -> Logger:
    from lightning.pytorch.loggers import MLFlowLogger

    if os.environ.get("MLFLOW_TRACKING_URI"):  # MLflow's own way to name a server
        return MLFlowLogger("raters", run_name=folder.name)
    return MLFlowLogger(
        "raters",
        run_name=folder.name,
        tracking_uri=f"sqlite:///{folder / 'mlflow.db'}",
        artifact_location=str(folder / "mlruns"),
    )


def _wandb(folder: Path) -> Logger:
    from lightning.pytorch.loggers import WandbLogger

    return WandbLogger(project="raters", name=folder.name, save_dir=folder)


LOGGERS: dict[str, Callable[[Path], Logger]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
}


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
    loggers = [LOGGERS[name](folder.absolute()) for name in names]
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

"""`raters.fit`: a model that learns the truth from raters who disagree."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from raters.errors import RatersError
from raters.methods.base import refuse_unlabelled
from raters.methods.registry import learning_method
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.training.config import ModelConfig
from raters.training.dataset import CaseDataset, loader
from raters.training.model import Model
from raters.training.partition import Partition, partition
from raters.training.plan import checked_options, plan

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from raters.methods.base import Method
    from raters.training.engine import Learner

MOST_COUNTED = 500  # cases whose labels decide the weights of classes


def fit(
    study: Study,
    method: str = "pixel-cm",
    progress: bool | None = None,
    **options: Any,  # noqa: ANN401
) -> Model:
    """Train a model on a study.

    Cases of the split 'train' are trained on (all cases without a split, if there is none), and
    those of 'val' held out to choose the best epoch (a share of groups, if there is none).

    Args:
        study: A study with images or features.
        method: A name of `raters.methods.METHODS`.
        progress: Show a progress bar; by default on a terminal.
        options: Those of the method and of `raters.training.options.TrainingOptions`.

    Returns:
        A `Model`: `model.truth(image)`, `model.confusion(image)`, `model.as_rater(image, name)`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(0, 2, 60)
        >>> labels = np.where(rng.random((60, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
        >>> from raters.study.study import Study
        >>> features = truth[:, None] + rng.normal(0, 0.1, (60, 1))
        >>> study = Study.from_arrays(labels=labels, images=features)
        >>> model = fit(study, "global-cm", epochs=5, progress=False)
        >>> model.labels(np.array([1.0])).item()
        1
    """
    training = checked_options(method, options)[1]
    parts = partition(study, training.held_out, training.seed)
    used = study.select(cases=list(study.index.ids[np.concatenate(parts)]))
    parts = _within(study, used, parts)
    train = _part(used, parts.train)
    config = plan(used, train, method, options)
    if learning_method(method).raters:
        refuse_unlabelled(train)
    _refuse_choice(_part(used, parts.held_out), training.select)
    torch.manual_seed(config.training.seed)
    learner = config.build()
    learner.prepare(used)
    _weigh_classes(learner, train, config)
    engine = _run(learner, used, parts, config, progress)
    learner.load_state_dict(engine.best)
    model = Model(learner.eval(), config, engine.history, engine.best_epoch)
    model.warn_if_not_dominant()
    return model


def _refuse_choice(held_out: Study, select: str) -> None:
    """Refuse to choose the best epoch by what is not there."""
    if select in ("likelihood", "reference") and not len(held_out):
        raise RatersError(f"found select={select!r} and no held-out cases, expected select='last'")
    if select == "reference" and all(case.reference is None for case in held_out.iter_cases()):
        raise RatersError(
            "found select='reference' and no reference of a held-out case, "
            "expected select='likelihood' or 'last'"
        )


def _within(study: Study, used: Study, parts: Partition) -> Partition:
    """Give positions in the part of the study that is used."""
    position = {name: k for k, name in enumerate(used.index.ids)}
    return Partition(
        *(np.array([position[n] for n in study.index.ids[rows]], np.intp) for rows in parts)
    )


def _part(study: Study, positions: np.ndarray[Any, np.dtype[np.intp]]) -> Study:
    return study.select(cases=list(study.index.ids[positions]))


def _weigh_classes(method: Method, train: Study, config: ModelConfig) -> None:
    """Weigh classes by how rare they are among the raters' labels."""
    if config.training.class_weights == "none":
        return
    counts = np.zeros(len(train.classes))
    for k in np.linspace(0, len(train) - 1, min(len(train), MOST_COUNTED)).astype(int):
        labels = train[int(k)].labels
        counts += np.bincount(labels[labels != MISSING].ravel(), minlength=len(counts))
    weights = counts.sum() / (len(counts) * np.maximum(counts, 1))
    method.class_weights.copy_(torch.from_numpy(np.where(counts > 0, weights, 1.0)))


def _loader(
    method: Method,
    study: Study,
    config: ModelConfig,
    mode: Any,  # noqa: ANN401
) -> DataLoader[Any]:
    training, train = config.training, mode == "train"
    dataset = CaseDataset(
        study,
        config.normaliser(),
        patch=config.patch,
        augment=training.augment if train else "none",
        mode=mode,
        seed=training.seed,
        patches_per_case=training.patches_per_case if config.patch else 1,
        foreground_share=training.foreground,
        targets=partial(method.target, study) if method.has_targets else None,
    )
    return loader(dataset, training.batch_size, train, training.seed, training.workers)


def _run(
    method: Method, study: Study, parts: Partition, config: ModelConfig, progress: bool | None
) -> Learner:
    import lightning

    from raters.training.engine import Learner

    with _quiet():
        data = _loader(method, _part(study, parts.train), config, "train")
        held_out = None
        if len(parts.held_out):
            held_out = _loader(method, _part(study, parts.held_out), config, "tiles")
        epochs = config.training.epochs
        engine = Learner(method, config.training, epochs * len(data), parts)
        trainer = lightning.Trainer(
            accelerator="auto",
            devices=1,
            max_epochs=epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            callbacks=_callbacks(progress, epochs, epochs * len(data)),
        )
        with _interruptible():
            trainer.fit(engine, data, held_out)
    return engine


def _callbacks(progress: bool | None, epochs: int, steps: int) -> list[Any]:
    from rich.console import Console

    from raters.training.bar import TrainingBar

    show = Console(stderr=True).is_terminal if progress is None else progress
    return [TrainingBar(epochs, steps)] if show else []


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt: Lightning exits, and leaves further ones ignored."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
        raise KeyboardInterrupt from None


@contextmanager
def _quiet() -> Iterator[None]:
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

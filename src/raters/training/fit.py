"""`raters.fit`: a model that learns the truth from raters who disagree."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError
from raters.study.lock import only_one
from raters.study.places import RUN_FILES, Inputs
from raters.study.readable import all_named
from raters.study.study import Study
from raters.training.checkpoint import read_checkpoint
from raters.training.checks import refuse_foreign
from raters.training.cuts import Cuts, find_cuts
from raters.training.engine import Learner
from raters.training.going_on import is_writer
from raters.training.loggers import log_row, make_loggers, refuse_loggers
from raters.training.model import Model
from raters.training.options import DEFAULT_METHOD
from raters.training.precision import set_precision
from raters.training.prepare import Planned, make_loader, make_method, plan_training
from raters.training.record import Record, noted_warnings, told_by
from raters.training.resume import earlier_run, plan_again
from raters.training.run import finished, first_process
from raters.training.store import cache_folder
from raters.training.trainer import (
    Progress,
    interruptible,
    make_bar,
    make_trainer,
    own_randomness,
    quiet,
    wants_bar,
)

if TYPE_CHECKING:
    from raters.methods.base import Method


def fit(
    study: Study,
    method: str | None = None,
    progress: Progress = None,
    folder: str | Path | None = None,
    resume: bool = False,
    **options: Any,  # noqa: ANN401
) -> Model:
    """Train a model on a study.

    Cases of the split 'train' are trained on (all cases without a split, if there is none), and
    those of 'val' held out to choose the best epoch (a share of groups, if there is none).

    Args:
        study: A study with images or features.
        method: A name of `raters.methods.METHODS`; by default 'pixel-cm', or that of the run.
        progress: Show a progress bar; by default on a terminal. Or a function called with one line
            per epoch.
        folder: Where the run is written: options, splits, history, a checkpoint after each epoch,
            and the weights; a new folder, unless `resume`.
        resume: Go on with the run in `folder` after its last whole epoch; it ends with the same
            weights as if nothing had happened. Options that are not given are those of the run.
        options: Those of the method and of `raters.training.options.TrainingOptions`.

    Returns:
        A `Model`: `model.truth(image)`, `model.confusion(image)`, `model.as_rater(image, name)`.

    Example:
        >>> import numpy as np
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
    path = None if folder is None else Path(folder)
    with (
        noted_warnings() as notes,
        own_randomness(),
        _alone_in(path, options) as said,
        all_named(study),
    ):
        for text in said:
            warnings.warn(text, stacklevel=2)
        planned = _planned(study, method, options, path, resume)
        record = None if path is None else Record(path, planned, notes, resume)
        if record and resume and finished(record.folder):
            record.log("nothing to resume: the run is finished")
            return Model.load(record.folder)
        return _trained(planned, record, progress)


def _alone_in(folder: Path | None, options: dict[str, Any]) -> AbstractContextManager[list[str]]:
    """Lock the folder of a run; of several processes that train as one the first does."""
    return only_one(folder) if folder and is_writer(folder, options) else nullcontext([])


def _planned(
    study: Study, method: str | None, options: dict[str, Any], folder: Path | None, resume: bool
) -> Planned:
    writer = bool(folder and is_writer(folder, options))
    if folder and writer:
        refuse_foreign(folder)
        Inputs.of(study).refuse(folder, RUN_FILES)
    # Of several processes only the first looks: when the others come it has written already.
    earlier = earlier_run(folder, resume or not writer) if folder else None
    if earlier is None or folder is None:
        planned = plan_training(study, method or DEFAULT_METHOD, options)
    else:
        planned = plan_again(study, method, options, earlier, folder)
    refuse_loggers(planned.config.training.loggers, folder)
    return planned


def _trained(planned: Planned, record: Record | None, progress: Progress) -> Model:
    with record.told() if record else nullcontext():
        method = make_method(planned)
        with cache_folder(record.folder if record else None) as cache:
            learner = run_epochs(method, planned, record, progress, cache)
        method.load_state_dict(learner.best.weights)
        method.finish(planned.study)
        model = Model(method.eval(), planned.config, learner.history, learner.best.epoch)
        model.cuts = _cuts(model, planned, progress)
        model.warn_if_not_dominant()
        if record:
            record.finish(model, learner)
    return model


def _cuts(model: Model, planned: Planned, progress: Progress) -> Cuts | None:
    """Choose cuts on the held-out cases; a case that cannot be read does not cost the run."""
    training = planned.config.training
    alone = training.devices * training.num_nodes == 1
    if planned.config.kind != "segmentation" or not (alone or first_process()):
        return None
    kept = len(planned.parts.held_out)
    try:
        part, on = (planned.held_out, "held-out") if kept else (planned.train, "train")
        return find_cuts(model, part, on, wants_bar(progress))
    except RatersError as error:
        warnings.warn(f"no cuts were chosen for the model: {error}", stacklevel=2)
        return None


def run_epochs(
    method: Method,
    planned: Planned,
    record: Record | None = None,
    progress: Progress = None,
    cache: Path | None = None,
) -> Learner:
    """Train a method that is ready, from the start or from the checkpoint of its record."""
    config, folder = planned.config, record.folder if record else None
    training = config.training
    with quiet():
        data = make_loader(planned, method, "train", cache)
        kept = len(planned.parts.held_out)
        held_out = make_loader(planned, method, "tiles", cache) if kept else None
        steps = training.epochs * len(data)
        learner = Learner(method, training, steps, planned.parts)
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
        bar = make_bar(progress, training.epochs, each)
        if callable(progress):
            learner.after_epoch.append(told_by(progress, training.epochs))
        trainer = make_trainer(training, bar, loggers)
        learner.after_epoch += [log_row, *([bar.show_row] if bar else [])]
        set_precision(method, training.precision)
        try:
            with interruptible():
                trainer.fit(learner, data, held_out, ckpt_path=checkpoint)
        finally:
            set_precision(method, "32")  # a model predicts as one that was loaded does
    return learner

"""`raters.fit`: a model that learns the truth from raters who disagree."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from raters.core.errors import RatersError
from raters.io.results import only_one
from raters.learning.methods.options import MethodOptions
from raters.learning.methods.registry import method_of_options
from raters.learning.training.model import Model
from raters.learning.training.options import (
    DEFAULT_METHOD,
    Checked,
    TrainingOptions,
    checked_options,
    earlier_run,
    is_writer,
    plan_again,
)
from raters.learning.training.prepare import Planned, make_method, plan_training
from raters.learning.training.run import Record, finished, noted_warnings, refuse_foreign
from raters.learning.training.store import cache_folder
from raters.learning.training.trainer import (
    Progress,
    own_randomness,
    refuse_loggers,
    run_epochs,
    wants_bar,
)
from raters.metrics.chosen_cut import Cuts
from raters.study.check import all_named
from raters.study.places import RUN_FILES, Inputs
from raters.study.read import study_of
from raters.study.study import Study


def fit(
    study: Study | Any,  # noqa: ANN401
    method: str | MethodOptions | Checked | None = None,
    *,
    progress: Progress = None,
    folder: str | Path | None = None,
    resume: bool = False,
    training: TrainingOptions | None = None,
    on_plan: Callable[[Planned], None] | None = None,
    **options: Any,  # noqa: ANN401
) -> Model:
    """Train a model on a study.

    Cases of the split 'train' are trained on (all cases without a split, if there is none), and
    those of 'val' held out to choose the best epoch (a share of groups, if there is none).

    Args:
        study: A study with images or features, or what `raters.read` takes.
        method: A name of `raters.learning.methods.METHODS`, or its options
            (`raters.learning.methods.PixelOptions`); by default 'pixel-cm', or that of the run. Or
            all options together, as `raters.learning.training.options.checked_options` returns
            them.
        progress: Show a progress bar; by default on a terminal. Or a function called with one line
            per epoch.
        folder: Where the run is written: options, splits, history, a checkpoint after each epoch,
            and the weights; a new folder, unless `resume`.
        resume: Go on with the run in `folder` after its last whole epoch; it ends with the same
            weights as if nothing had happened. Options that are not given are those of the run.
        training: The options of training, in place of naming them one by one.
        on_plan: Is called with what will be trained on what, before the first epoch.
        options: Those of the method and of `raters.learning.training.options.TrainingOptions`.

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
        >>> model.predict(np.array([1.0])).item()
        1
    """
    study = study_of(study)
    path = None if folder is None else Path(folder)
    checked: Checked | None = None
    if isinstance(method, Checked):
        checked = method
        options = dict(method.given)
        method = method.method
    elif isinstance(method, MethodOptions):
        method, chosen = method_of_options(method)
        options = {**chosen, **options}
    options = {**(training.model_dump(exclude_unset=True) if training else {}), **options}
    # Of several processes that train as one only the first looks and locks: when the others come it
    # has written already.
    writer = path is not None and is_writer(path, options)
    lock: AbstractContextManager[list[str]] = only_one(path) if path and writer else nullcontext([])
    with noted_warnings() as notes, own_randomness(), lock as said, all_named(study):
        for text in said:
            warnings.warn(text, stacklevel=2)
        if path and writer:
            refuse_foreign(path)
            Inputs.of(study).refuse(path, RUN_FILES)
        earlier = earlier_run(path, resume or not writer) if path else None
        if earlier is None or path is None:
            if checked is None:
                checked = checked_options(method or DEFAULT_METHOD, options)
            planned = plan_training(study, checked)
        else:
            planned = plan_again(study, method, options, earlier, path)
        refuse_loggers(planned.config.training.loggers, path)
        if on_plan is not None:
            on_plan(planned)
        record = None if path is None else Record(path, planned, notes, resume)
        if record and resume and finished(record.folder):
            record.log("nothing to resume: the run is finished")
            return Model.load(record.folder, planned.config.own)
        if record and earlier is not None:
            record.refuse_other_data()
        return _trained(planned, record, progress)


def _trained(planned: Planned, record: Record | None, progress: Progress) -> Model:
    with record.log_on_error() if record else nullcontext():
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
    if planned.config.kind != "segmentation" or not planned.config.training.writes:
        return None
    kept = len(planned.parts.held_out)
    if kept:
        part = planned.held_out
        on = "held-out"
    else:
        part = planned.train
        on = "train"

    # The package `prediction` builds on this one.
    from raters.learning.prediction.find_cuts import find_cuts

    try:
        return find_cuts(model, part, on, wants_bar(progress))
    except RatersError as error:
        warnings.warn(f"no cuts were chosen for the model: {error}", stacklevel=2)
        return None

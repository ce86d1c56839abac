"""`raters.extend`: a rater who comes later is added to a trained model; all else stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raters.core.errors import RatersError, one_of
from raters.core.wording import listing
from raters.io.results import only_one
from raters.io.rows import Row
from raters.learning.methods.base import Method
from raters.learning.methods.entry import parse_options
from raters.learning.methods.registry import learning_method
from raters.learning.training.config import ModelConfig, refuse_other_study
from raters.learning.training.engine import Learner, precision_of
from raters.learning.training.model import Model, load
from raters.learning.training.options import FREE, TrainingOptions
from raters.learning.training.partition import Partition, by_split, partition, warn_of_unlabelled
from raters.learning.training.prepare import Planned, image_shape, plan_parts, weigh_classes
from raters.learning.training.run import (
    SPLITS,
    Split,
    epoch_line,
    first_process,
    log,
    read_splits,
    refuse_used,
    write_progress,
    write_splits,
)
from raters.learning.training.trainer import Progress, own_randomness, run_epochs
from raters.study.read import study_of
from raters.study.study import Study
from raters.study.survey import labelled, survey

SETTLED = ("network", "width", "depth", "norm", "dropout", "normalise", "patch_size")
"""Options of training that are part of the trained network: they cannot change any more."""

FASTER = 10.0
"""How much faster than a network matrices learn: the truth cannot go astray while it is fixed."""


def extend(
    model: Model,
    study: Study | Any,  # noqa: ANN401
    *,
    progress: Progress = None,
    **options: Any,  # noqa: ANN401
) -> Model:
    """Add the raters of a study that a model does not know yet.

    The truth network and all raters that the model knows stay as they are, bit for bit. Of the new
    raters a matrix or head is fitted to their labels (global-cm, pixel-cm, low-rank-cm), or
    their matrix is counted against what the model predicts (methods that train on a target).

    Args:
        model: A trained model.
        study: Cases that the new raters labelled, or what `raters.read` takes; splits count as in
            `raters.fit`.
        progress: As for `raters.fit`.
        options: Those of `raters.learning.training.options.TrainingOptions`; by default those of
            the model, but for what belongs to the machine that it was trained on.

    Returns:
        A new model; `model` itself does not change.

    Raises:
        RatersError: There is no new rater, the study is unlike that of the model, or the method
            has nothing that a rater could be added to.
    """
    return _extended(model, study_of(study), progress, options)[0]


def _extended(
    model: Model, study: Study, progress: Progress, options: Mapping[str, Any]
) -> tuple[Model, list[Split]]:
    """Return the longer model, and what each case of the study was used for."""
    reason = model.method.not_extended
    if reason:
        name = model.config.method
        raise RatersError(f"found a model of {name}, which cannot be extended: {reason}")
    training = _training(model.config.training, options)
    new = [name for name in study.raters if name not in model.config.raters]
    if not new:
        known = listing(study.raters) or "none"
        raise RatersError(f"found the raters {known}, expected one that the model does not know")
    chosen = study.select(raters=new)
    _refuse_unlike(model.config, chosen)
    planned = _planned(model, chosen, training)
    with own_randomness():
        if model.method.counts_raters:
            method = _counted(model, planned)
            history = model.history
            best_epoch = model.best_epoch
        else:
            method, learner = _fitted(model, planned, progress)
            history = learner.history
            best_epoch = learner.best.epoch
        return _longer(model, planned, method, history, best_epoch), planned.splits


def extend_run(
    run: str | Path,
    study: Study | Any,  # noqa: ANN401
    folder: str | Path,
    progress: Progress = None,
    **options: Any,  # noqa: ANN401
) -> tuple[Model, list[str]]:
    """Add new raters to the model of a run, and write the longer run to a new folder.

    Args:
        run: The folder of the run.
        study: As for `extend`.
        folder: Where to write; a new folder.
        progress: As for `extend`.
        options: As for `extend`.

    Returns:
        The longer model, and the names of the raters that were added.
    """
    path = Path(folder)
    with only_one(path) if first_process() else nullcontext():
        refuse_used(path)
        model = load(run)
        longer, later = _extended(model, study_of(study), progress, options)
        added = [name for name in longer.config.raters if name not in model.config.raters]
        longer.save(path)
        epochs = len(longer.history)
        if epochs:
            write_progress(path, longer.history, longer.best_epoch, epochs, finished=True)
        earlier = read_splits(Path(run)) if (Path(run) / SPLITS).exists() else []
        write_splits(path, both_splits(earlier, later))
        log(path, f"extended {run} by {', '.join(added)}")
        for row in longer.history:
            log(path, epoch_line(row, epochs))
        log(path, f"finished: epoch {longer.best_epoch} of {epochs} is the best")
    return longer, added


def both_splits(earlier: Sequence[Split], later: Sequence[Split]) -> list[Split]:
    """Return what a case was used for by either: who trained on it once has seen it for good.

    Example:
        >>> both_splits([("a", "train", "a"), ("b", "left-out", "b")], [("a", "held-out", "a")])
        [('a', 'train', 'a'), ('b', 'left-out', 'b')]
    """
    order = ("train", "held-out", "left-out")
    found: dict[str, Split] = {}
    for split in (*earlier, *later):
        before = found.get(split[0])
        if before is None or order.index(split[1]) < order.index(before[1]):
            found[split[0]] = split
    return list(found.values())


def _training(trained: TrainingOptions, given: Mapping[str, Any]) -> TrainingOptions:
    for name in given:
        if name in SETTLED:
            raise RatersError(f"found the option {name!r}, expected none: the network is trained")
        if name not in TrainingOptions.model_fields:
            known = [field for field in TrainingOptions.model_fields if field not in SETTLED]
            one_of(known, name, "the option")
    kept = {name: value for name, value in trained if name not in (*FREE, "precision")}
    chosen = parse_options(TrainingOptions, {**kept, "confusion_lr_scale": FASTER, **given})
    return chosen.model_copy(update={"precision": precision_of(chosen.precision)})


def _refuse_unlike(config: ModelConfig, study: Study) -> None:
    refuse_other_study(config, study)
    if study.drawn:
        entry = learning_method(config.method)
        entry.refuse_drawings(config.method, study.annotations, study.classes.names)
    if not len(study):
        raise RatersError("found no cases, expected some that the new raters labelled")
    channels, space = image_shape(study)
    if (channels, len(space)) != (config.channels, config.spatial_dims):
        raise RatersError(
            f"found images of {channels} channels and {len(space)} spatial axes, expected "
            f"{config.channels} and {config.spatial_dims} as in the model"
        )


def _planned(model: Model, study: Study, training: TrainingOptions) -> Planned:
    """Plan as the model was, for the new raters alone; there is nothing to warm up."""
    config = model.config
    select = training.select
    if model.method.counts_raters:  # no epoch is chosen: all are counted
        usable = np.concatenate(by_split(study))
        parts = Partition(usable[labelled(study)[usable]], np.zeros(0, np.intp))
        if not len(parts.train):
            raise RatersError("found no labels by the new raters, expected at least one")
    else:
        parts = partition(study, training.val_fraction, training.seed, config.method)
    if select in ("auto", "reference"):  # the truth stays as it is: no reference tells epochs apart
        select = "likelihood" if len(parts.held_out) else "last"
    # Matrices of the new raters start near the identity, whatever brought the others there.
    started = {"warm_up": 0, "warm_up_on": "labels"}
    kept = {name: value for name, value in started.items() if name in config.options}
    alone = {
        "raters": study.raters,
        "unlabelled": (),
        "options": {**config.options, **kept},
        "training": training.model_copy(update={"select": select}),
        "annotations": tuple(study.annotations.values()) if study.drawn else (),
        "unmarked": study.unmarked if study.drawn else None,
    }
    return plan_parts(study, parts, config.model_copy(update=alone))


def _counted(model: Model, planned: Planned) -> Method:
    """Count the matrices of new raters against what the model predicts."""
    method: Method = planned.config.build()
    say = model.truth if planned.config.options.get("soft") else model.predict
    cases = (planned.study[int(position)] for position in planned.parts.train)
    method.count_raters((case, say(case)) for case in cases)
    return method


def _fitted(model: Model, planned: Planned, progress: Progress) -> tuple[Method, Learner]:
    """Fit the rater model of the new raters behind the trained network."""
    torch.manual_seed(planned.config.training.seed)
    method: Method = planned.config.build()
    networks = zip(method.truth_networks(), model.method.truth_networks(), strict=True)
    for network, trained in networks:
        network.load_state_dict(trained.state_dict())
        network.requires_grad_(False)
    method.has_regions = False  # the trained networks say what the truth is
    method.prepare(planned.study)
    weigh_classes(method, planned.train, planned.config)
    learner = run_epochs(method, planned, progress=progress, known_truth=True)
    method.load_state_dict(learner.best.weights)
    return method, learner


def _longer(
    model: Model, planned: Planned, method: Method, history: list[Row], best_epoch: int
) -> Model:
    """Make the model with the new raters too, and note who of them labelled nothing."""
    before = model.config
    new = planned.config
    silent = survey(planned.train).without_labels()
    update: dict[str, Any] = {"raters": (*before.raters, *new.raters)}
    if before.annotations or new.annotations:
        kinds = (c.annotations or ("mask",) * len(c.raters) for c in (before, new))
        update["annotations"] = tuple(chain.from_iterable(kinds))
        update["unmarked"] = new.unmarked if new.annotations else before.unmarked
    config = before.model_copy(update=update)
    longer = config.build()
    longer.load_state_dict({**model.method.state_dict(), **model.method.joined(method)})
    warn_of_unlabelled(silent)
    config = config.model_copy(update={"unlabelled": (*before.unlabelled, *silent)})
    return Model(longer.to(model.device).eval(), config, history, best_epoch, model.cuts)

"""`raters.extend`: a rater who comes later is added to a trained model; all else stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raters.errors import RatersError
from raters.methods.confusion_method import ConfusionMethod
from raters.methods.registry import parse_options
from raters.methods.supervised import SupervisedMethod
from raters.methods.tally import count_case, rows_of
from raters.rows import Row
from raters.study.study import Study
from raters.training.checks import labelled, warn_of_unlabelled, without_labels
from raters.training.config import ModelConfig
from raters.training.frozen import FrozenTruth, join_raters
from raters.training.going_on import FREE
from raters.training.model import Model
from raters.training.options import TrainingOptions
from raters.training.partition import Partition, by_split, partition
from raters.training.plan import image_shape
from raters.training.precision import precision_of
from raters.training.prepare import Planned, plan_parts, weigh_classes
from raters.training.run import Split
from raters.training.same_study import refuse_other_study
from raters.training.trainer import Progress, own_randomness
from raters.wording import expected_one_of

SETTLED = ("network", "width", "depth", "norm", "dropout", "normalise", "patch_size")
"""Options of training that are part of the trained network: they cannot change any more."""

FASTER = 10.0
"""How much faster than a network matrices learn: the truth cannot go astray while it is fixed."""


def extend(
    model: Model,
    study: Study,
    progress: Progress = None,
    **options: Any,  # noqa: ANN401
) -> Model:
    """Add the raters of a study that a model does not know yet.

    The truth network and all raters that the model knows stay as they are, bit for bit. Of the new
    raters a matrix or head is fitted to their labels (global-cm, pixel-cm, low-rank-cm), or
    their matrix is counted against what the model predicts (methods that train on a target).

    Args:
        model: A trained model.
        study: Cases that the new raters labelled; splits count as in `raters.fit`.
        progress: As for `raters.fit`.
        options: Those of `raters.training.options.TrainingOptions`; by default those of the model,
            but for what belongs to the machine that it was trained on.

    Returns:
        A new model; `model` itself does not change.

    Raises:
        RatersError: There is no new rater, the study is unlike that of the model, or the method
            has nothing that a rater could be added to.
    """
    _refuse_method(model.config)
    training = _training(model.config.training, options)
    new = tuple(name for name in study.raters if name not in model.config.raters)
    if not new:
        known = ", ".join(study.raters[:20]) or "none"
        raise RatersError(f"found the raters {known}, expected one that the model does not know")
    chosen = study.select(raters=new)
    _refuse_unlike(model.config, chosen)
    if isinstance(model.method, SupervisedMethod):
        state = {"rater_matrices": _counted(model, chosen)}
        longer = _longer(model, new, state, model.history, model.best_epoch)
        seen = chosen.select(cases=list(chosen.index.ids[np.concatenate(by_split(chosen))]))
        return _without(longer, without_labels(seen))
    return _fitted(model, chosen, new, training, progress)


def extension_splits(model: Model, study: Study, **options: Any) -> list[Split]:  # noqa: ANN401
    """Return what `extend` uses each case of a study for; the arguments are those of `extend`."""
    new = tuple(name for name in study.raters if name not in model.config.raters)
    chosen, training = study.select(raters=new), _training(model.config.training, options)
    if isinstance(model.method, SupervisedMethod):  # no epoch is chosen: all are counted
        usable = np.concatenate(by_split(chosen))
        whole = Partition(usable[labelled(chosen)[usable]], np.zeros(0, np.intp))
        return plan_parts(chosen, whole, model.config).splits
    return _planned(model.config, chosen, new, training).splits


def _refuse_method(config: ModelConfig) -> None:
    why = {
        "single-cm": "all raters share one matrix, so there is nothing to add",
        "separate": "each rater has a network of their own: train again with all raters",
        "oracle-cm": "matrices are counted against references, not learnt: train again",
    }
    reason = why.get(config.method)
    if config.options.get("shared"):
        reason = "all raters share one head (shared=True), so there is nothing to add"
    if config.options.get("annotator") == "cnn":
        reason = "one network gives the matrices of all raters (annotator='cnn'): train again"
    if reason:
        raise RatersError(f"found a model of {config.method}, which cannot be extended: {reason}")


def _training(trained: TrainingOptions, given: Mapping[str, Any]) -> TrainingOptions:
    for name in given:
        if name in SETTLED:
            raise RatersError(f"found the option {name!r}, expected none: the network is trained")
        if name not in TrainingOptions.model_fields:
            known = [field for field in TrainingOptions.model_fields if field not in SETTLED]
            raise RatersError(f"found the option {name!r}, {expected_one_of(known, name)}")
    of_machine = {*FREE, "precision"}
    kept = {name: value for name, value in trained if name not in of_machine}
    chosen = parse_options(TrainingOptions, {**kept, "confusion_lr_scale": FASTER, **given})
    return chosen.model_copy(update={"precision": precision_of(chosen.precision)})


def _refuse_unlike(config: ModelConfig, study: Study) -> None:
    refuse_other_study(config, study)
    if not len(study):
        raise RatersError("found no cases, expected some that the new raters labelled")
    channels, space = image_shape(study[0], study.kind)
    if (channels, len(space)) != (config.channels, config.spatial_dims):
        raise RatersError(
            f"found images of {channels} channels and {len(space)} spatial axes, expected "
            f"{config.channels} and {config.spatial_dims} as in the model"
        )


def _counted(model: Model, study: Study) -> Tensor:
    """Count the matrices of new raters against what the model predicts."""
    task = replace(model.config.task(), raters=study.raters)
    usable = np.concatenate(by_split(study))
    usable = usable[labelled(study)[usable]]
    if not len(usable):
        raise RatersError("found no labels by the new raters, expected at least one")
    counts = np.zeros((len(study.raters), task.num_classes, task.num_classes))
    soft = bool(model.config.options.get("soft"))
    for position in usable:
        case = study[int(position)]
        target = model.truth(case) if soft else model.labels(case)
        counts += count_case(case, target, task)
    return torch.from_numpy(rows_of(counts, 1 / task.num_classes)).float()


def _fitted(
    model: Model,
    study: Study,
    new: tuple[str, ...],
    training: TrainingOptions,
    progress: Progress,
) -> Model:
    """Fit the rater model of the new raters behind the trained network."""
    from raters.training.fit import run_epochs

    planned = _planned(model.config, study, new, training)
    with own_randomness():
        torch.manual_seed(training.seed)
        frozen = FrozenTruth(planned.config.build(), model.method)
        weigh_classes(frozen.method, planned.train, planned.config)
        learner = run_epochs(frozen, planned, progress=progress)
    frozen.load_state_dict(learner.best.weights)
    assert isinstance(model.method, ConfusionMethod)  # others were refused or counted
    raters = join_raters(model.method.raters, frozen.method.raters)
    state = {f"raters.{name}": value for name, value in raters.items()}
    longer = _longer(model, new, state, learner.history, learner.best.epoch)
    return _without(longer, without_labels(planned.train))


def _planned(
    config: ModelConfig, study: Study, new: tuple[str, ...], training: TrainingOptions
) -> Planned:
    """Plan as the model was, for the new raters alone; there is nothing to warm up."""
    whole = partition(study, training.val_fraction, training.seed, config.method)
    select = training.select
    if select in ("auto", "reference"):  # the truth stays as it is: no reference tells epochs apart
        select = "likelihood" if len(whole.held_out) else "last"
    shorter = config.model_copy(
        update={
            "raters": new,
            "unlabelled": (),
            # Matrices of the new raters start near the identity, whatever brought the others there.
            "options": {**config.options, "warm_up": 0, "warm_up_on": "labels"},
            "training": training.model_copy(update={"select": select}),
        }
    )
    return plan_parts(study, whole, shorter)


def _longer(
    model: Model,
    new: tuple[str, ...],
    state: dict[str, Tensor],
    history: list[Row],
    best_epoch: int,
) -> Model:
    """Make the model with more raters: what `state` does not name is taken as it is."""
    before = model.method.state_dict()
    if "rater_matrices" in state:
        old = before["rater_matrices"]
        state = {"rater_matrices": torch.cat([old, state["rater_matrices"].to(old)])}
    config = model.config.model_copy(update={"raters": (*model.config.raters, *new)})
    with torch.random.fork_rng(devices=[]):
        method = config.build()
    method.load_state_dict({**before, **state})
    return Model(method.to(model.device).eval(), config, history, best_epoch, model.cuts)


def _without(model: Model, silent: tuple[str, ...]) -> Model:
    """Note which of the new raters labelled nothing."""
    warn_of_unlabelled(silent)
    unlabelled = (*model.config.unlabelled, *silent)
    model.config = model.config.model_copy(update={"unlabelled": unlabelled})
    return model

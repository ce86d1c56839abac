"""`raters.extend`: a rater who comes later is added to a trained model; all else stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raters.errors import RatersError
from raters.methods.base import Batch, HeldOut, Method, Step, Target
from raters.methods.entry import parse_options
from raters.methods.registry import learning_method
from raters.rows import Row
from raters.study.case import Case
from raters.study.lock import only_one
from raters.study.read import study_of
from raters.study.study import Study
from raters.training.config import ModelConfig, refuse_other_study
from raters.training.model import Model, load
from raters.training.options import TrainingOptions
from raters.training.prepare import Planned, image_shape, plan_parts, weigh_classes
from raters.training.resume import FREE
from raters.training.run import (
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
from raters.training.survey import (
    Partition,
    by_split,
    labelled,
    partition,
    survey,
    warn_of_unlabelled,
)
from raters.training.trainer import Progress, own_randomness, precision_of
from raters.wording import expected_one_of

SETTLED = ("network", "width", "depth", "norm", "dropout", "normalise", "patch_size")
"""Options of training that are part of the trained network: they cannot change any more."""

FASTER = 10.0
"""How much faster than a network matrices learn: the truth cannot go astray while it is fixed."""


def extend(
    model: Model,
    study: Study | Any,  # noqa: ANN401
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
        options: Those of `raters.training.options.TrainingOptions`; by default those of the model,
            but for what belongs to the machine that it was trained on.

    Returns:
        A new model; `model` itself does not change.

    Raises:
        RatersError: There is no new rater, the study is unlike that of the model, or the method
            has nothing that a rater could be added to.
    """
    study, reason = study_of(study), model.method.not_extended
    if reason:
        name = model.config.method
        raise RatersError(f"found a model of {name}, which cannot be extended: {reason}")
    training = _training(model.config.training, options)
    new = tuple(name for name in study.raters if name not in model.config.raters)
    if not new:
        known = ", ".join(study.raters[:20]) or "none"
        raise RatersError(f"found the raters {known}, expected one that the model does not know")
    chosen = study.select(raters=new)
    _refuse_unlike(model.config, chosen)
    if model.method.counts_raters:
        counted = _counted(model, chosen)
        longer = _longer(model, chosen, counted, model.history, model.best_epoch)
        seen = chosen.select(cases=list(chosen.index.ids[np.concatenate(by_split(chosen))]))
        return _without(longer, survey(seen).without_labels())
    return _fitted(model, chosen, new, training, progress)


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
        model, study = load(run), study_of(study)
        longer = extend(model, study, progress, **options)
        added = [name for name in longer.config.raters if name not in model.config.raters]
        longer.save(path)
        epochs = len(longer.history)
        if epochs:
            write_progress(path, longer.history, longer.best_epoch, epochs, finished=True)
        earlier = read_splits(Path(run)) if (Path(run) / SPLITS).exists() else []
        write_splits(path, both_splits(earlier, extension_splits(model, study, **options)))
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


def extension_splits(model: Model, study: Study, **options: Any) -> list[Split]:  # noqa: ANN401
    """Return what `extend` uses each case of a study for; the arguments are those of `extend`."""
    new = tuple(name for name in study.raters if name not in model.config.raters)
    chosen, training = study.select(raters=new), _training(model.config.training, options)
    if model.method.counts_raters:  # no epoch is chosen: all are counted
        usable = np.concatenate(by_split(chosen))
        whole = Partition(usable[labelled(chosen)[usable]], np.zeros(0, np.intp))
        return plan_parts(chosen, whole, model.config).splits
    return _planned(model.config, chosen, new, training).splits


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


def _counted(model: Model, study: Study) -> Method:
    """Count the matrices of new raters against what the model predicts."""
    alone = {"raters": study.raters, "unlabelled": (), **_drawn(study)}
    config = model.config.model_copy(update=alone)
    usable = np.concatenate(by_split(study))
    usable = usable[labelled(study)[usable]]
    if not len(usable):
        raise RatersError("found no labels by the new raters, expected at least one")
    with torch.random.fork_rng(devices=[]):
        method: Method = config.build()
    soft = bool(config.options.get("soft"))
    cases = (study[int(position)] for position in usable)
    method.count_raters(
        (case, model.truth(case) if soft else model.predict(case)) for case in cases
    )
    return method


def _fitted(
    model: Model, study: Study, new: tuple[str, ...], training: TrainingOptions, progress: Progress
) -> Model:
    """Fit the rater model of the new raters behind the trained network."""
    from raters.training.fit import run_epochs

    planned = _planned(model.config, study, new, training)
    with own_randomness():
        torch.manual_seed(training.seed)
        frozen = FrozenTruth(planned.config.build(), model.method)
        frozen.method.prepare(planned.study)
        weigh_classes(frozen.method, planned.train, planned.config)
        learner = run_epochs(frozen, planned, progress=progress)
    frozen.load_state_dict(learner.best.weights)
    longer = _longer(model, study, frozen.method, learner.history, learner.best.epoch)
    return _without(longer, survey(planned.train).without_labels())


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
            "options": _without_warm_up(config.options),
            "training": training.model_copy(update={"select": select}),
            **_drawn(study),
        }
    )
    return plan_parts(study, whole, shorter)


def _without_warm_up(options: Mapping[str, Any]) -> dict[str, Any]:
    """Matrices of the new raters start near the identity, whatever brought the others there."""
    started = {"warm_up": 0, "warm_up_on": "labels"}
    return {**options, **{name: value for name, value in started.items() if name in options}}


def _drawn(study: Study) -> dict[str, Any]:
    """Return what the labels of the raters of a study mean, as a model notes it."""
    if not study.drawn:
        return {"annotations": (), "unmarked": None}
    return {"annotations": tuple(study.annotations.values()), "unmarked": study.unmarked}


def _all_drawn(config: ModelConfig, study: Study) -> dict[str, Any]:
    """Return what the labels of the raters of a model mean, and of those of a study after them."""
    if not (config.annotations or study.drawn):
        return {}
    before = config.annotations or ("mask",) * len(config.raters)
    unmarked = study.unmarked if study.drawn else config.unmarked
    return {"annotations": (*before, *study.annotations.values()), "unmarked": unmarked}


def _longer(
    model: Model, study: Study, method: Method, history: list[Row], best_epoch: int
) -> Model:
    """Make the model with the raters of `method` too; all else is taken as it is."""
    state = {**model.method.state_dict(), **model.method.joined(method)}
    names = {"raters": (*model.config.raters, *study.raters)}
    config = model.config.model_copy(update=names | _all_drawn(model.config, study))
    with torch.random.fork_rng(devices=[]):
        longer = config.build()
    longer.load_state_dict(state)
    return Model(longer.to(model.device).eval(), config, history, best_epoch, model.cuts)


def _without(model: Model, silent: tuple[str, ...]) -> Model:
    """Note which of the new raters labelled nothing."""
    warn_of_unlabelled(silent)
    unlabelled = (*model.config.unlabelled, *silent)
    model.config = model.config.model_copy(update={"unlabelled": unlabelled})
    return model


class FrozenTruth(Method):
    """A method for new raters whose truth network is trained already and stays as it is.

    Attributes:
        method: The method for the new raters.
    """

    def __init__(self, method: Method, trained: Method) -> None:
        super().__init__(method.task, method.options)
        self._fixed = method.truth_networks()
        for network, known in zip(self._fixed, trained.truth_networks(), strict=True):
            network.load_state_dict(known.state_dict())
            network.requires_grad_(False)
        self.method = method

    def train(self, mode: bool = True) -> FrozenTruth:
        """Train the rater model only: the network drops nothing out and counts no moments."""
        super().train(mode)
        for network in self._fixed:
            network.eval()
        return self

    def start_epoch(self, epoch: int) -> None:
        """Tell the method which epoch begins."""
        self.method.seed = self.seed
        self.method.start_epoch(epoch)

    def extra(self, case: Case) -> Mapping[str, Target]:
        """Return what else of a case goes into its batches."""
        return self.method.extra(case)

    def needs_pass(self, epoch: int) -> bool:
        """Return whether the method wants to see all cases."""
        return self.method.needs_pass(epoch)

    def see_all(self, batches: Iterable[Batch]) -> None:
        """Show the method all cases."""
        self.method.see_all(batches)

    def matrix_parameters(self) -> list[torch.nn.Parameter]:
        """Return the parameters of matrices that all pixels share."""
        return self.method.matrix_parameters()

    def step(self, batch: Batch) -> Step:
        """Return the loss of a batch."""
        return self.method.step(batch)

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the held-out likelihood alone: with a fixed truth nothing must be dominant."""
        return replace(self.method.held_out(batch), confusion=None, pixels=None)

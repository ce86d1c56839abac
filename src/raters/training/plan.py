"""From a study and options to a complete configuration: what the user left open is chosen here."""

from __future__ import annotations

from math import prod
from typing import Any

from raters.errors import RatersError
from raters.methods.options import MethodOptions
from raters.methods.registry import learning_method
from raters.study.case import Case
from raters.study.study import Study
from raters.training.checks import check_classes, warn_of_unlabelled, without_labels
from raters.training.config import ClassEntry, ModelConfig, NetworkEntry
from raters.training.normalise import fit_normalisation, image_of, in_case
from raters.training.options import TrainingOptions
from raters.training.overlap import SEVERAL, VOTES, labels_a_pixel
from raters.training.precision import precision_of

LARGEST_WHOLE = {1: 65536, 2: 256 * 256, 3: 64**3}
WARM_UP = {"segmentation": 0.4, "classification": 2}
WARM_UP_ALONE = 2  # where a pixel has one label there is no vote, only a rater's errors
PATCH_SIDE = {1: 4096, 2: 128, 3: 64}


def plan(
    study: Study,
    train: Study,
    method: str,
    options: MethodOptions,
    training: TrainingOptions,
    normalisation: dict[str, Any] | None = None,
) -> ModelConfig:
    """Choose what the user left open.

    Args:
        study: All cases.
        train: The cases that are trained on: only they decide.
        method: The name of a method.
        options: Options of the method.
        training: Options of training.
        normalisation: What images go through, if that is known already.
    """
    _refuse_study(study, learning_method(method).raters)
    channels, space = image_shape(train[0], study.kind)
    patch = _patch(training, study, space)
    config = ModelConfig(
        method=method,
        options=_in_epochs(options.model_dump(), training.epochs, train),
        training=training.model_copy(update=_chosen(training, options, study.kind)),
        network=_network(training, study, channels, patch or space),
        kind=study.kind,
        raters=study.raters,
        classes=tuple(ClassEntry(name=c.name, value=c.value) for c in study.classes),
        channels=channels,
        spatial_dims=len(space),
        patch_size=patch,
        normalisation=normalisation or fit_normalisation(train, training.normalise).to_dict(),
        unlabelled=without_labels(train),
    )
    if config.labelled and learning_method(method).raters:  # nobody at all: that is said elsewhere
        warn_of_unlabelled(config.unlabelled)
    check_classes(train, method)
    return config


def _in_epochs(options: dict[str, Any], epochs: int, train: Study) -> dict[str, Any]:
    """Settle the warm-up: a number of epochs that leaves one for matrices, and what it is on."""
    if "warm_up" not in options:
        return options
    share, learns_from = options["warm_up"], options["warm_up_on"]
    labels = labels_a_pixel(train) if share is None or learns_from is None else 0.0
    if share is None:
        share = WARM_UP[train.kind] if labels >= SEVERAL else WARM_UP_ALONE
    if learns_from is None:
        two = train.kind == "segmentation" and SEVERAL <= labels < VOTES
        learns_from = "labels" if two else "vote"
    wanted = round(share * epochs) if share < 1 else round(share)
    return {**options, "warm_up": min(wanted, epochs - 1), "warm_up_on": learns_from}


def _refuse_study(study: Study, needs_raters: bool) -> None:
    if needs_raters and not study.raters:
        raise RatersError("found no raters, expected labels to learn from")
    if len(study.classes) < 2:
        found = ", ".join(study.classes.names) or "none"
        raise RatersError(f"found the classes: {found}; expected at least two to tell apart")


def image_shape(case: Case, kind: str) -> tuple[int, tuple[int, ...]]:
    """Return the channels and the spatial shape of an image; masks need one that has a shape."""
    image = image_of(case)
    channels, *space = image.array.shape
    if kind == "segmentation" and not space:
        features = RatersError(f"found {channels} features, expected an image, as there are masks")
        raise in_case(features, case.id, image.source)
    return channels, tuple(space)


def _patch(
    training: TrainingOptions, study: Study, space: tuple[int, ...]
) -> tuple[int, ...] | None:
    if isinstance(training.patch_size, tuple):
        if study.kind == "classification" or len(training.patch_size) != len(space):
            sides = len(space) if study.kind == "segmentation" else 0
            raise RatersError(
                f"found a patch of {len(training.patch_size)} sides {training.patch_size}, "
                f"expected {sides}"
            )
        if min(training.patch_size) < 1:
            raise RatersError(f"found the patch {training.patch_size}, expected positive sides")
        return training.patch_size
    whole = training.patch_size == "whole" or study.kind == "classification"
    if whole or prod(space) <= LARGEST_WHOLE[len(space)]:
        return None
    side = PATCH_SIDE[len(space)]
    return tuple(min(side, 8 * ((length + 7) // 8)) for length in space)


def _chosen(training: TrainingOptions, options: MethodOptions, kind: str) -> dict[str, Any]:
    """Return the options of training that depend on what is labelled, and how it is learnt from."""
    masks = kind == "segmentation"
    plain = masks or getattr(options, "form", "own") == "paper"
    augment = "flip" if masks else "none"
    return {
        "augment": augment if training.augment == "auto" else training.augment,
        "confusion_lr_scale": training.confusion_lr_scale or (1.0 if plain else 10.0),
        "precision": precision_of(training.precision),
    }


def _network(
    training: TrainingOptions, study: Study, channels: int, space: tuple[int, ...]
) -> NetworkEntry:
    from raters.networks import NETWORKS, choose_network

    chosen = choose_network(study.kind, channels, space)
    name = training.network or chosen.name
    given: dict[str, Any] = {
        "width": training.width,
        "depth": training.depth,
        "norm": training.norm,
    }
    for size in given if name in NETWORKS else ():  # else it is refused when it is built
        suits = getattr(chosen, size) if name == chosen.name else None
        own = getattr(NETWORKS[name], size)
        given[size] = next(s for s in (given[size], suits, own) if s is not None)
    return NetworkEntry(name=name, dropout=training.dropout, **given)

"""From a study and options to a complete configuration: what the user left open is chosen here."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from raters.errors import RatersError
from raters.methods.registry import learning_method, parse_options
from raters.study.case import Case
from raters.study.study import Study
from raters.training.config import ClassEntry, ModelConfig, NetworkEntry
from raters.training.normalise import fit_normalisation
from raters.training.options import TrainingOptions

LARGEST_WHOLE = {1: 65536, 2: 256 * 256, 3: 64**3}
PATCH_SIDE = {1: 4096, 2: 128, 3: 64}


def plan(study: Study, train: Study, method: str, given: Mapping[str, Any]) -> ModelConfig:
    """Choose what the user left open.

    Args:
        study: All cases.
        train: The cases that are trained on: only they decide.
        method: The name of a method.
        given: Options of the method and of training.
    """
    entry = learning_method(method)
    of_method = {k: v for k, v in given.items() if k in entry.options.model_fields}
    of_training = {k: v for k, v in given.items() if k in TrainingOptions.model_fields}
    for name in given:
        if name not in of_method and name not in of_training:
            known = ", ".join([*entry.options.model_fields, *TrainingOptions.model_fields])
            raise RatersError(f"found the option {name!r}, expected one of: {known}")
    options = entry.parse(of_method)
    training = parse_options(TrainingOptions, of_training)
    _refuse_study(study)
    first = train[0]
    channels, space = _image_shape(first)
    patch = _patch(training, study, space)
    return ModelConfig(
        method=method,
        options=_in_epochs(options.model_dump(), training.epochs),
        training=training.model_copy(update={"augment": _augment(training, study)}),
        network=_network(training, study, channels, patch or space),
        kind=study.kind,
        raters=study.raters,
        classes=tuple(ClassEntry(name=c.name, value=c.value) for c in study.classes),
        channels=channels,
        dims=len(space),
        patch=patch,
        normalisation=fit_normalisation(train, training.normalise).to_dict(),
    )


def _in_epochs(options: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Give a warm-up that is a share of the epochs as their number."""
    share = options.get("warm_up", 0)
    return {**options, "warm_up": round(share * epochs)} if 0 < share < 1 else options


def _refuse_study(study: Study) -> None:
    if not study.raters:
        raise RatersError("found no raters, expected labels to learn from")
    if len(study.classes) < 2:
        found = ", ".join(study.classes.names) or "none"
        raise RatersError(f"found the classes: {found}; expected at least two to tell apart")


def _image_shape(case: Case) -> tuple[int, tuple[int, ...]]:
    if case.image is None:
        raise RatersError(
            f"found no image of case {case.id!r}, expected images (or features) to learn from",
            case=case.id,
        )
    return case.image.shape[0], tuple(case.image.shape[1:])


def _patch(
    training: TrainingOptions, study: Study, space: tuple[int, ...]
) -> tuple[int, ...] | None:
    if isinstance(training.patch, tuple):
        if study.kind == "classification" or len(training.patch) != len(space):
            sides = len(space) if study.kind == "segmentation" else 0
            raise RatersError(
                f"found a patch of {len(training.patch)} sides {training.patch}, expected {sides}"
            )
        if min(training.patch) < 1:
            raise RatersError(f"found the patch {training.patch}, expected positive sides")
        return training.patch
    whole = training.patch == "whole" or study.kind == "classification"
    if whole or prod(space) <= LARGEST_WHOLE[len(space)]:
        return None
    side = PATCH_SIDE[len(space)]
    return tuple(min(side, 8 * ((length + 7) // 8)) for length in space)


def _augment(training: TrainingOptions, study: Study) -> str:
    if training.augment != "auto":
        return training.augment
    return "flip" if study.kind == "segmentation" else "none"


def _network(
    training: TrainingOptions, study: Study, channels: int, space: tuple[int, ...]
) -> NetworkEntry:
    from raters.networks import choose_network

    chosen = choose_network(study.kind, channels, space)
    same = training.network in (None, chosen.name)
    return NetworkEntry(
        name=training.network or chosen.name,
        width=training.width or (chosen.width if same else None),
        depth=training.depth if training.depth is not None else (chosen.depth if same else None),
        norm=training.norm,
        dropout=training.dropout,
    )

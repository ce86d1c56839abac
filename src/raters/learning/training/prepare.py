"""All that comes before the first step: cases are parted, options completed, the method is made."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from raters.core.errors import RatersError, in_case
from raters.learning.methods.base import Method
from raters.learning.methods.options import MethodOptions, trusts_masks
from raters.learning.methods.registry import learning_method
from raters.learning.networks.normalise import fit_normalisation
from raters.learning.networks.options import NetworkOptions, is_own, network_error
from raters.learning.training.config import ClassEntry, ModelConfig, refuse_too_large
from raters.learning.training.dataset import CaseDataset
from raters.learning.training.engine import precision_of
from raters.learning.training.loader import loader, refuse_small_batch
from raters.learning.training.options import Checked, TrainingOptions
from raters.learning.training.partition import (
    Partition,
    check_classes,
    left_out,
    left_out_note,
    partition,
    warn_of_unlabelled,
)
from raters.learning.training.run import Split
from raters.study.study import Study
from raters.study.survey import survey

LARGEST_WHOLE = {1: 65536, 2: 256 * 256, 3: 64**3}
WARM_UP = {"segmentation": 0.4, "classification": 2}
SEVERAL = 1.5  # labels per pixel from which on most pixels have several
VOTES = 2.5  # labels per pixel from which on most pixels have a majority
WARM_UP_ALONE = 2  # where a pixel has one label there is no vote, only a rater's errors
PATCH_SIDE = {1: 4096, 2: 128, 3: 64}


@dataclass(frozen=True)
class Planned:
    """What is trained on what.

    Attributes:
        config: The model, with nothing left to choose.
        study: The cases that are used.
        parts: Which of them are trained on, and which held out.
        splits: What each case of the whole study is used for.
        notes: What the user should know of it.
    """

    config: ModelConfig
    study: Study
    parts: Partition
    splits: list[Split]
    notes: tuple[str, ...] = ()

    @cached_property
    def train(self) -> Study:
        """The cases that are trained on."""
        return self.study.take(np.sort(self.parts.train))

    @cached_property
    def held_out(self) -> Study:
        """The cases that the best epoch is chosen on."""
        return self.study.take(np.sort(self.parts.held_out))


def plan_training(
    study: Study, checked: Checked, normalisation: dict[str, Any] | None = None
) -> Planned:
    """Part the cases and complete the options; a normalisation that is known is kept."""
    method = checked.method
    training = checked.training
    refuse_small_batch(training.batch_size, training.processes)
    parts = partition(study, training.val_fraction, training.seed, method)
    used = study.take(np.sort(np.concatenate(parts)))
    train = study.take(np.sort(parts.train))
    config = _completed(used, train, checked, normalisation)
    notes = left_out_note(left_out(study, used.index.ids), method)
    planned = plan_parts(study, parts, config, tuple(notes))
    _refuse_choice(planned.held_out, training.select, training.patience)
    return planned


def plan_parts(
    study: Study, parts: Partition, config: ModelConfig, notes: tuple[str, ...] = ()
) -> Planned:
    """Return which cases are used how, for a model that is settled already."""
    used = np.sort(np.concatenate(parts))
    within = Partition(*(np.searchsorted(used, rows) for rows in parts))
    part = np.full(len(study), "left-out", object)
    part[parts.train] = "train"
    part[parts.held_out] = "held-out"
    each = zip(study.index.ids, part, study.index.groups, strict=True)
    splits = [(str(case), str(use), str(group)) for case, use, group in each]
    return Planned(config, study.take(used), within, splits, notes)


def make_method(planned: Planned) -> Method:
    """Make the method with fresh weights, and let it look at the cases."""
    train = planned.train
    config = planned.config
    if learning_method(config.method).raters:
        survey(train).refuse_unlabelled()
    refuse_too_large(config)
    torch.manual_seed(config.training.seed)
    method: Method = config.build()
    several = config.training.processes > 1
    if several and any(isinstance(module, _BatchNorm) for module in method.modules()):
        warnings.warn(
            f"the network {config.network.name!r} has batch norm, which is not the same in all "
            "processes: each one sees its part of a batch only; group or instance norm is safe",
            stacklevel=2,
        )
    method.prepare(planned.study)
    weigh_classes(method, train, config)
    return method


def make_loader(
    planned: Planned,
    method: Method,
    mode: Literal["train", "tiles"],
    cache_folder: Path | None = None,
) -> DataLoader[Any]:
    """Make batches of cases to train on, or all tiles of held-out cases.

    Args:
        planned: What is trained on what.
        method: The method; it may have targets.
        mode: To train on, or held out.
        cache_folder: Where decoded cases are kept that do not fit into memory.
    """
    config = planned.config
    train = mode == "train"
    training = config.training
    study = planned.train if train else planned.held_out
    room = training.cache * 1e9 * len(study) / len(planned.study)  # both parts share it
    dataset = CaseDataset(
        study,
        config.normaliser(),
        patch_size=config.patch_size,
        augment=training.augment if train else "none",
        mode=mode,
        seed=training.seed,
        patches_per_case=training.patches_per_case if config.patch_size else 1,
        foreground_share=training.foreground,
        targets=method.target if method.has_targets else None,
        regions=method.regions if method.has_regions else None,
        cache_bytes=int(room),
        cache_folder=cache_folder,
        extra=method.extra,
    )
    return loader(dataset, training.batch_size, train, training.seed, training.num_workers)


def _refuse_choice(held_out: Study, select: str, patience: int | None) -> None:
    """Refuse to choose the best epoch by what is not there."""
    if select in ("likelihood", "reference") and not len(held_out):
        raise RatersError(f"found select={select!r} and no held-out cases, expected select='last'")
    if patience is not None and (select == "last" or not len(held_out)):
        why = "select='last'" if select == "last" else "no held-out cases"
        raise RatersError(f"found patience={patience} and {why}, expected scores to wait for")
    if select == "reference" and not survey(held_out).any_reference():
        raise RatersError(
            "found select='reference' and no reference of a held-out case, "
            "expected select='likelihood' or 'last'"
        )


def weigh_classes(method: Method, train: Study, config: ModelConfig) -> None:
    """Weigh classes by how rare they are among the raters' labels."""
    if config.training.class_weights == "none":
        return
    counts = survey(train).class_counts().astype(float)
    weights = counts.sum() / (len(counts) * np.maximum(counts, 1))
    method.class_weights.copy_(torch.from_numpy(np.where(counts > 0, weights, 1.0)))


def _completed(
    study: Study, train: Study, checked: Checked, normalisation: dict[str, Any] | None
) -> ModelConfig:
    """Choose what the user left open; only the cases that are trained on decide."""
    method, options, training, own, _ = checked
    entry = learning_method(method)
    one_class = entry.takes_one_class or getattr(options, "share", None) is not None
    channels, space = image_shape(train)
    if len(study.classes) < 2:
        names = ", ".join(study.classes.names) or "none"
        raise RatersError(f"found the classes: {names}; expected at least two to tell apart")
    entry.refuse_study(method, study.kind, len(study.raters))
    if study.drawn:
        entry.refuse_drawings(method, study.annotations, study.classes.names)
        if entry.raters and not one_class:
            survey(train).refuse_one_class()
    first = vars(survey(train)).pop("first_image")  # it is not needed for longer
    if not normalisation:
        normalisation = fit_normalisation(train, training.normalise, first).to_dict()
    # After the pass over all cases that normalising took: a rater without labels is none, and where
    # there is nobody at all, that is said elsewhere.
    unlabelled = survey(train).without_labels()
    labelled = len(study.raters) - len(unlabelled)
    if labelled == 0:
        labelled = len(study.raters)
    entry.refuse_study(method, study.kind, labelled)
    patch = _patch(training, study, space)
    settled = _in_epochs(options, training.epochs, train)
    if getattr(settled, "trust_masks", False) is None:  # raters who come later must not change it
        trusted = trusts_masks(study.annotations.values())
        settled = settled.model_copy(update={"trust_masks": trusted})
    config = ModelConfig(
        method=method,
        options=settled.model_dump(),
        training=training.model_copy(update=_chosen(training, options, study.kind)),
        network=_network(training, study, channels, patch or space),
        kind=study.kind,
        raters=study.raters,
        classes=tuple(ClassEntry(name=c.name, value=c.value) for c in study.classes),
        channels=channels,
        spatial_dims=len(space),
        patch_size=patch,
        normalisation=normalisation,
        unlabelled=unlabelled,
        image_size=space if training.network and is_own(training.network) else None,
        annotations=tuple(study.annotations.values()) if study.drawn else (),
        unmarked=study.unmarked if study.drawn else None,
    )
    if config.labelled and entry.raters:
        warn_of_unlabelled(config.unlabelled)
    check_classes(train, method, one_class)
    return config.with_network(own).with_parsed(settled)


def _in_epochs(options: MethodOptions, epochs: int, train: Study) -> MethodOptions:
    """Settle the warm-up: a number of epochs that leaves one for matrices, and what it is on."""
    given = {name: value for name, value in options if name in ("warm_up", "warm_up_on")}
    if "warm_up" not in given:
        return options
    share = given["warm_up"]
    learns_from = given.get("warm_up_on", "")
    unsettled = share is None or learns_from is None
    labels = survey(train).labels_per_pixel() if unsettled else 0.0
    if share is None:
        share = WARM_UP[train.kind] if labels >= SEVERAL else WARM_UP_ALONE
    if learns_from is None:
        two = train.kind == "segmentation" and SEVERAL <= labels < VOTES
        learns_from = "labels" if two else "vote"
    wanted = round(share * epochs) if share < 1 else round(share)
    settled = {"warm_up": min(wanted, epochs - 1), "warm_up_on": learns_from}
    return options.model_copy(update={name: settled[name] for name in given})


def image_shape(study: Study) -> tuple[int, tuple[int, ...]]:
    """Return the channels and the spatial shape of the first image; masks need one with a shape."""
    image = survey(study).first_image
    channels, *space = image.array.shape
    if study.kind == "segmentation" and not space:
        with in_case(study.index.ids[0], image.source):
            raise RatersError(f"found {channels} features, expected an image, as there are masks")
    return channels, tuple(space)


def _patch(
    training: TrainingOptions, study: Study, space: tuple[int, ...]
) -> tuple[int, ...] | None:
    if isinstance(training.patch_size, tuple):
        patch = training.patch_size
        sides = len(space) if study.kind == "segmentation" else 0
        if not patch or len(patch) != sides:
            raise RatersError(f"found a patch of {len(patch)} sides {patch}, expected {sides}")
        if min(patch) < 1:
            raise RatersError(f"found the patch {patch}, expected positive sides")
        return patch
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
) -> NetworkOptions:
    from raters.learning.networks.registry import NETWORKS, choose_network

    sizes = {name: getattr(training, name) for name in ("width", "depth", "norm")}
    if training.network and is_own(training.network):
        for name, value in (*sizes.items(), ("dropout", training.dropout or None)):
            if value is not None:
                raise network_error(
                    f"found {name}={value} with the network {training.network!r}, expected none: "
                    "sizes are those of the networks of raters"
                )
        return NetworkOptions(training.network)
    chosen = choose_network(study.kind, channels, space)
    name = training.network or chosen.name
    asked = NetworkOptions(name, **sizes, dropout=training.dropout)
    if name not in NETWORKS:
        return asked  # it is refused when it is built
    suits = {size: getattr(chosen, size) for size in sizes} if name == chosen.name else {}
    return NETWORKS[name].filled(asked, **suits)

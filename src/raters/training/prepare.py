"""All that comes before the first step: cases are parted, options completed, the method is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from raters.errors import RatersError
from raters.methods.base import refuse_unlabelled
from raters.methods.registry import learning_method
from raters.study.study import Study
from raters.training.config import ModelConfig
from raters.training.dataset import CaseDataset
from raters.training.given import checked_options
from raters.training.loader import loader
from raters.training.partition import Partition, partition
from raters.training.plan import plan
from raters.training.room import refuse_too_large
from raters.training.run import Split
from raters.training.sampler import refuse_small_batch

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from raters.methods.base import Method

MOST_COUNTED = 500  # cases whose labels decide the weights of classes


@dataclass(frozen=True)
class Planned:
    """What is trained on what.

    Attributes:
        config: The model, with nothing left to choose.
        study: The cases that are used.
        parts: Which of them are trained on, and which held out.
        splits: What each case of the whole study is used for.
    """

    config: ModelConfig
    study: Study
    parts: Partition
    splits: list[Split]

    @property
    def train(self) -> Study:
        """The cases that are trained on."""
        return _part(self.study, self.parts.train)

    @property
    def held_out(self) -> Study:
        """The cases that the best epoch is chosen on."""
        return _part(self.study, self.parts.held_out)


def plan_training(
    study: Study,
    method: str,
    given: Mapping[str, Any],
    normalisation: dict[str, Any] | None = None,
) -> Planned:
    """Part the cases and complete the options; a normalisation that is known is kept."""
    options, training = checked_options(method, given)
    refuse_small_batch(training.batch_size, training.devices * training.num_nodes)
    whole = partition(study, training.val_fraction, training.seed, method)
    used = study.select(cases=list(study.index.ids[np.concatenate(whole)]))
    parts = _within(study, used, whole)
    train = _part(used, parts.train)
    config = plan(used, train, method, options, training, normalisation)
    planned = Planned(config, used, parts, _splits(study, whole))
    _refuse_choice(planned.held_out, training.select, training.patience)
    return planned


def plan_parts(study: Study, parts: Partition, config: ModelConfig) -> Planned:
    """Return which cases are used how, for a model that is settled already."""
    used = study.select(cases=list(study.index.ids[np.concatenate(parts)]))
    return Planned(config, used, _within(study, used, parts), _splits(study, parts))


def make_method(planned: Planned) -> Method:
    """Make the method with fresh weights, and let it look at the cases."""
    train, config = planned.train, planned.config
    if learning_method(config.method).raters:
        refuse_unlabelled(train)
    refuse_too_large(config)
    torch.manual_seed(config.training.seed)
    method: Method = config.build()
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
    config, train = planned.config, mode == "train"
    training, study = config.training, planned.train if train else planned.held_out
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
        cache_bytes=int(room),
        cache_folder=cache_folder,
    )
    return loader(dataset, training.batch_size, train, training.seed, training.num_workers)


def _refuse_choice(held_out: Study, select: str, patience: int | None) -> None:
    """Refuse to choose the best epoch by what is not there."""
    if select in ("likelihood", "reference") and not len(held_out):
        raise RatersError(f"found select={select!r} and no held-out cases, expected select='last'")
    if patience is not None and (select == "last" or not len(held_out)):
        why = "select='last'" if select == "last" else "no held-out cases"
        raise RatersError(f"found patience={patience} and {why}, expected scores to wait for")
    if select == "reference" and all(case.reference is None for case in held_out.iter_cases()):
        raise RatersError(
            "found select='reference' and no reference of a held-out case, "
            "expected select='likelihood' or 'last'"
        )


def _splits(study: Study, parts: Partition) -> list[Split]:
    used = np.full(len(study), "left-out", object)
    used[parts.train], used[parts.held_out] = "train", "held-out"
    index = study.index
    return [
        (str(case), str(part), str(group))
        for case, part, group in zip(index.ids, used, index.groups, strict=True)
    ]


def _within(study: Study, used: Study, parts: Partition) -> Partition:
    """Return positions in the part of the study that is used."""
    position = {name: k for k, name in enumerate(used.index.ids)}
    return Partition(
        *(np.array([position[n] for n in study.index.ids[rows]], np.intp) for rows in parts)
    )


def _part(study: Study, positions: np.ndarray[Any, np.dtype[np.intp]]) -> Study:
    return study.select(cases=list(study.index.ids[positions]))


def weigh_classes(method: Method, train: Study, config: ModelConfig) -> None:
    """Weigh classes by how rare they are among the raters' labels."""
    if config.training.class_weights == "none":
        return
    counts = np.zeros(len(train.classes))
    for k in np.linspace(0, len(train) - 1, min(len(train), MOST_COUNTED)).astype(int):
        counts += np.bincount(train[int(k)].given, minlength=len(counts))
    weights = counts.sum() / (len(counts) * np.maximum(counts, 1))
    method.class_weights.copy_(torch.from_numpy(np.where(counts > 0, weights, 1.0)))

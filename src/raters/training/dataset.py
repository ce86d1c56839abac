"""Training data: the cases of a study as whole images, random patches or tiles, in batches."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from raters.errors import RatersError
from raters.study.classes import MISSING
from raters.study.study import Study
from raters.training.augment import augmentation_of
from raters.training.cases import CaseReader, DecodedCase
from raters.training.collate import Item, collate, unknown
from raters.training.normalise import Normalisation
from raters.training.patches import Corner, cut, random_corner, tile_corners

__all__ = ["CaseDataset", "EpochSampler", "Item", "collate", "loader", "set_epoch"]

Targets = Callable[[int], NDArray[Any]]


class CaseDataset(Dataset[Item]):
    """The cases of a study, for training.

    Item k of epoch e depends on `(seed, e, k)` only, so that it is the same in every worker and
    after a restart.

    Args:
        study: The cases; each needs an image or features.
        normalisation: What images go through.
        patch: The shape of patches, for masks only; None for whole images.
        augment: A key of `AUGMENTATIONS`.
        mode: 'train' gives `patches_per_case` random patches of each case, 'tiles' all tiles of
            each case, which cover it without overlap. Without `patch` both give whole images.
        seed: Where randomness starts.
        patches_per_case: How many patches of a case make an epoch.
        foreground_share: How often a patch is centred on what some rater sees as foreground.
        targets: Gives what else is to be learned from a case by position: floats
            `(classes, *space)` or integers `(*space)` with MISSING; it is cut and augmented with
            the rest. Where a soft target is unknown it is 0 for all classes.
        cache_bytes: Memory for decoded cases; what does not fit is read each time.

    Example:
        >>> images = np.arange(32, dtype=float).reshape(2, 1, 4, 4)
        >>> study = Study.from_arrays(images, (images > 8).astype(int))
        >>> data = CaseDataset(study, Normalisation("none"), patch=(2, 2), mode="tiles")
        >>> len(data), data.place(5)
        (8, (1, (0, 2)))
        >>> data[5]["image"].tolist(), data[5]["labels"].tolist()
        ([[[18.0, 19.0], [22.0, 23.0]]], [[[1, 1], [1, 1]]])
    """

    def __init__(
        self,
        study: Study,
        normalisation: Normalisation,
        *,
        patch: tuple[int, ...] | None,
        augment: str = "none",
        mode: Literal["train", "tiles"] = "train",
        seed: int = 0,
        patches_per_case: int = 1,
        foreground_share: float = 0.5,
        targets: Targets | None = None,
        cache_bytes: int = 2 * 2**30,
    ) -> None:
        self.study, self.patch, self.mode = study, patch, mode
        self.seed, self.epoch = seed, 0
        self.patches_per_case = patches_per_case if mode == "train" and patch is not None else 1
        self.foreground_share, self.targets = foreground_share, targets
        self.cases = CaseReader(
            study,
            normalisation,
            reference=mode == "tiles" or study.backend.holds()["reference"],
            foreground=mode == "train" and patch is not None,
            cache_bytes=cache_bytes,
        )
        self.axes = self.cases.first.image.ndim - 1
        self._refuse_bad_patch()
        if mode == "tiles" and augment != "none":
            raise RatersError(f"found the augmentation {augment!r} of tiles, expected 'none'")
        self._augment = augmentation_of(augment, self.axes)
        self._random = augment != "none"
        self._tiles = self._all_tiles() if mode == "tiles" and patch is not None else None

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes: it decides about patches and augmentation."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.study) * self.patches_per_case if self._tiles is None else len(self._tiles)

    def __getitem__(self, k: int) -> Item:
        k = range(len(self))[k]
        rng = self._generator(k)
        position, corner = self._place(k, rng)
        found = self._decoded(position)
        image, maps = found.image, self._maps(position, found)
        if corner is not None and self.patch is not None:
            image = cut(image, corner, self.patch, 0)
            maps = {name: cut(m, corner, self.patch, unknown(m)) for name, m in maps.items()}
        if rng is not None and self._random:
            # The answers of a table have no axes that could move with the image.
            moving = [] if found.raters is not None else list(maps)
            image, moved = self._augment(image, [maps[name] for name in moving], rng)
            maps |= dict(zip(moving, moved, strict=True))
        return cast("Item", {"image": image, "case": position, **maps})

    def place(self, k: int) -> tuple[int, Corner | None]:
        """Say which case item k is of, and where its patch starts (None for whole images)."""
        k = range(len(self))[k]
        return self._place(k, self._generator(k))

    @cached_property
    def labelled_cases(self) -> NDArray[np.intp]:
        """The positions of cases that some rater labelled somewhere; reads all masks once."""
        if self.study.kind == "classification":
            triplets = self.study.triplets
            return np.unique(triplets.task[triplets.label != MISSING]).astype(np.intp)
        said = [bool((self._decoded(k).labels != MISSING).any()) for k in range(len(self.study))]
        return np.flatnonzero(said)

    def preload(self) -> None:
        """Read cases into memory on all cores, as far as there is room."""
        self.cases.preload()

    def _generator(self, k: int) -> np.random.Generator | None:
        if not self._random and (self.patch is None or self.mode == "tiles"):
            return None
        return np.random.default_rng((self.seed, self.epoch, k))

    def _place(self, k: int, rng: np.random.Generator | None) -> tuple[int, Corner | None]:
        if self._tiles is not None:
            return self._tiles[k]
        position = k // self.patches_per_case
        if self.patch is None or rng is None:
            return position, None
        found = self._decoded(position)
        space = found.image.shape[1:]
        share = self.foreground_share
        return position, random_corner(rng, found.foreground, space, self.patch, share)

    def _decoded(self, position: int) -> DecodedCase:
        worker = get_worker_info()
        return self.cases(position, 1 if worker is None else worker.num_workers)

    def _maps(self, position: int, found: DecodedCase) -> dict[str, NDArray[Any]]:
        """Give what belongs to the image: labels and whatever else there is."""
        maps = {"labels": found.labels}
        if found.raters is not None:
            maps["raters"] = found.raters
        if found.reference is not None:
            maps["reference"] = found.reference
        if self.targets is not None:
            space = found.labels.shape[1:] if found.raters is None else ()
            maps["target"] = self._target(position, space)
        return maps

    def _target(self, position: int, space: tuple[int, ...]) -> NDArray[Any]:
        assert self.targets is not None
        target = np.asarray(self.targets(position))
        soft = target.dtype.kind == "f"
        expected = (len(self.study.classes), *space) if soft else space
        if target.shape != expected:
            name, kind = self.study.index.ids[position], "soft" if soft else "hard"
            raise RatersError(
                f"found a {kind} target of shape {target.shape} for case {name!r}, "
                f"expected {expected}",
                case=name,
            )
        return target.astype(np.float32, copy=False) if soft else target

    def _all_tiles(self) -> list[tuple[int, Corner]]:
        assert self.patch is not None
        places = []
        for position in range(len(self.study)):
            shape = self.cases.shape(position, self.axes)
            places += [(position, corner) for corner in tile_corners(shape, self.patch)]
        return places

    def _refuse_bad_patch(self) -> None:
        if self.patch is None:
            return
        patch = " x ".join(map(str, self.patch))
        if self.study.kind == "classification":
            raise RatersError(f"found a patch of {patch} for class labels, expected masks")
        if len(self.patch) != self.axes or min(self.patch) < 1:
            raise RatersError(
                f"found a patch of {patch}, expected {self.axes} sides of 1 or more, as the image "
                f"of case {self.study.index.ids[0]!r} has {self.axes} spatial axes"
            )


class EpochSampler(Sampler[int]):
    """The order of items: a new permutation each epoch, from `(seed, epoch)` only.

    Example:
        >>> sampler = EpochSampler(5, seed=1)
        >>> first = list(sampler)
        >>> sampler.set_epoch(1)
        >>> first, list(sampler)
        ([...], [...])
        >>> sampler.set_epoch(0)
        >>> list(sampler) == first
        True
    """

    def __init__(self, length: int, seed: int = 0, shuffle: bool = True) -> None:
        self.length, self.seed, self.shuffle = length, seed, shuffle
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        if not self.shuffle:
            return iter(range(self.length))
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.length)
        return iter(order.tolist())


class LateLoader(DataLoader[Item]):
    """A loader whose workers start when the first batch is asked for, not before.

    Lightning makes the iterator of a resumed run before it says which epoch comes: workers that
    started there would give the data of epoch 0.
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        yield from super().__iter__()


def loader(
    dataset: CaseDataset, batch_size: int, shuffle: bool, seed: int = 0, workers: int = 0
) -> DataLoader[Item]:
    """Make a loader of batches; call `set_epoch` before every epoch.

    With workers, cases are read into memory first, where all workers see them: each is a fork that
    lives for one epoch, and what it reads itself is lost with it.

    Example:
        >>> study = Study.from_arrays(np.ones((5, 1, 4, 4)), np.zeros((5, 3, 4, 4), int))
        >>> data = CaseDataset(study, Normalisation("none"), patch=None)
        >>> [tuple(batch["labels"].shape) for batch in loader(data, 2, shuffle=True)]
        [(2, 3, 4, 4), (2, 3, 4, 4), (1, 3, 4, 4)]
    """
    if workers:
        dataset.preload()
    return LateLoader(
        dataset,
        batch_size,
        sampler=EpochSampler(len(dataset), seed, shuffle),
        num_workers=workers,
        collate_fn=collate,
        # A loader draws a seed each epoch: not from the stream that dropout draws from.
        generator=torch.Generator().manual_seed(seed),
        multiprocessing_context=multiprocessing.get_context("fork") if workers else None,
    )


def set_epoch(batches: DataLoader[Item], epoch: int) -> None:
    """Tell the data set and the order of a loader which epoch comes."""
    for part in (batches.dataset, batches.sampler):
        if isinstance(part, CaseDataset | EpochSampler):
            part.set_epoch(epoch)

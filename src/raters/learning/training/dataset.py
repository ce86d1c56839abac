"""Training data: the cases of a study as whole images, random patches or tiles, in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, get_worker_info

from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.learning.networks.normalise import Normalisation
from raters.learning.training.cases import CaseReader, DecodedCase, Targets
from raters.learning.training.patches import (
    Corner,
    augmentation_of,
    cut,
    pad_to,
    random_corner,
    tile_corners,
)
from raters.study.case import Case
from raters.study.study import Study


class Item(TypedDict, total=False):
    """What a `CaseDataset` gives: arrays that must not be written to, as they may be cached.

    Attributes:
        image: `(channels, *space)` or `(features,)`, float32.
        labels: `(raters, *space)`, or `(answers,)` for tables, with MISSING.
        raters: `(answers,)` positions in `study.raters`; for tables only.
        case: The position of the case in the study.
        reference: `(*space)` with MISSING; where the study has references, and in tiles.
        target: `(classes, *space)` floats or `(*space)` integers; where targets are given.
        regions: `(*space)` numbers of regions; where a method parts images into some.
        corner: `(axes,)`, where the image starts in the whole one; where all cases are shown whole.
        space: `(axes,)`, the sides of the whole image; there too.

    A method may add arrays of its own, each of one shape (`Method.extra`).
    """

    image: NDArray[np.float32]
    labels: NDArray[Any]
    raters: NDArray[np.int64]
    case: int
    reference: NDArray[Any]
    target: NDArray[Any]
    regions: NDArray[np.int32]
    corner: NDArray[np.int64]
    space: NDArray[np.int64]


_MAPS = ("labels", "reference", "target", "regions")
"""What moves with the image."""


def collate(items: Sequence[Item]) -> dict[str, torch.Tensor]:
    """Stack items; what is smaller than the largest of the batch is filled up at its ends.

    Images and soft targets are filled with 0; labels, references and hard targets with MISSING,
    answers with MISSING by rater 0 (one at least, so that no axis is empty).

    Returns:
        'image' and soft 'target' as float32; 'labels', 'raters', 'case', 'reference' and hard
        'target' as int64; each with the batch in front.

    Example:
        >>> small = Item(image=np.ones((1, 2), "f"), labels=np.array([[0, 1]]), case=3)
        >>> large = Item(image=np.ones((1, 3), "f"), labels=np.array([[1, 1, 1]]), case=5)
        >>> batch = collate([small, large])
        >>> batch["image"].tolist(), batch["labels"].tolist(), batch["case"].tolist()
        ([[[1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0]]], [[[0, 1, -1]], [[1, 1, 1]]], [3, 5])
    """
    first = items[0]
    axes = first["labels"].ndim - 1  # 0 for tables, whose labels are (answers,)
    differ = {"image": first["image"].ndim - 1, **dict.fromkeys(_MAPS, axes)}
    batch = {}
    for name in first:
        parts = [np.asarray(item[name]) for item in items]  # type: ignore[literal-required]
        if "raters" in first and name in ("labels", "raters"):
            longest = max(1, *(len(answers) for answers in parts))
            fill = 0 if name == "raters" else MISSING
            parts = [pad_to(answers, (longest,), fill) for answers in parts]
        batch[name] = _stacked(parts, differ.get(name, 0))
    return batch


def unknown(array: NDArray[Any]) -> int:
    """Return what stands outside an image: 0 in floats (images, soft labels), MISSING in labels."""
    return 0 if array.dtype.kind == "f" else MISSING


def _stacked(arrays: list[NDArray[Any]], axes: int) -> torch.Tensor:
    """Stack arrays that may differ along their last axes."""
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1 and axes:
        largest = np.max([shape[-axes:] for shape in shapes], axis=0).tolist()
        arrays = [pad_to(array, largest, unknown(array)) for array in arrays]
    # Numpy casts while it copies, on one thread; `.long()` wakes all and took 10 times as long.
    dtype = np.float32 if arrays[0].dtype.kind == "f" else np.int64
    return torch.from_numpy(np.stack(arrays, dtype=dtype))


Extra = Callable[[Case], Mapping[str, NDArray[Any]]]
NO_CASE = -1
"""The position of an item that belongs to no case: it has no labels and counts nowhere."""


class CaseDataset(Dataset[Item]):
    """The cases of a study, for training.

    Item k of epoch e depends on `(seed, e, k)` only, so that it is the same in every worker and
    after a restart.

    Args:
        study: The cases; each needs an image or features.
        normalisation: What images go through.
        patch_size: The shape of patches, for masks only; None for whole images.
        augment: A key of `AUGMENTATIONS`.
        mode: 'train' gives `patches_per_case` random patches of each case, 'tiles' all tiles of
            each case, which cover it without overlap. Without `patch_size` both give whole images.
        seed: Where randomness starts.
        patches_per_case: How many patches of a case make an epoch.
        foreground_share: How often a patch is centred on what some rater sees as foreground.
        targets: Gives what else is to be learned from a case: floats `(classes, *space)` or
            integers `(*space)` with MISSING; it is cut and augmented with the rest. Where a soft
            target is unknown it is 0 for all classes.
        regions: Gives the regions that a case is parted into, `(*space)` numbers from 0 on; they
            are cut and augmented with the rest, MISSING outside of the image.
        cache_bytes: Memory for decoded cases.
        cache_folder: Where cases that do not fit are kept, decoded; without it they are read each
            time.
        extra: Gives what else of a case goes into its items, by name.

    Example:
        >>> images = np.arange(32, dtype=float).reshape(2, 1, 4, 4)
        >>> study = Study.from_arrays(images, (images > 8).astype(int))
        >>> data = CaseDataset(study, Normalisation("none"), patch_size=(2, 2), mode="tiles")
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
        patch_size: tuple[int, ...] | None,
        augment: str = "none",
        mode: Literal["train", "tiles"] = "train",
        seed: int = 0,
        patches_per_case: int = 1,
        foreground_share: float = 0.5,
        targets: Targets | None = None,
        regions: Targets | None = None,
        cache_bytes: int = 2 * 2**30,
        cache_folder: Path | None = None,
        extra: Extra | None = None,
    ) -> None:
        self.study = study
        self.patch_size = patch_size
        self.mode = mode
        self.seed = seed
        self.epoch = 0
        random_patches = mode == "train" and patch_size is not None
        self.patches_per_case = patches_per_case if random_patches else 1
        self.foreground_share = foreground_share
        self.cases = CaseReader(
            study,
            normalisation,
            reference=mode == "tiles",  # no step of training looks at it
            foreground=random_patches,
            targets=targets,
            regions=regions,
            cache_bytes=cache_bytes,
            folder=cache_folder,
        )
        self.axes = self.cases.first.image.ndim - 1
        self._refuse_bad_patch()
        if mode == "tiles" and augment != "none":
            raise RatersError(f"found the augmentation {augment!r} of tiles, expected 'none'")
        self._augment = augmentation_of(augment, self.axes)
        self._random = augment != "none"
        self._tiles = self._all_tiles() if mode == "tiles" and patch_size is not None else None
        self._extra = _stacked_extra(study, extra)
        self._places = False

    def whole(self) -> CaseDataset:
        """Return the same cases whole and as they are, in tiles that say where they are.

        What was decoded of them is shared.
        """
        found = copy(self)
        found.mode = "tiles"
        found.patches_per_case = 1
        found._random = False
        found._places = True
        found._tiles = None if self.patch_size is None else found._all_tiles()
        return found

    @property
    def positions(self) -> list[int]:
        """The case that each item is of."""
        return [self._position(k) for k in range(len(self))]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that comes: it decides about patches and augmentation."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.study) * self.patches_per_case if self._tiles is None else len(self._tiles)

    def __getitem__(self, k: int | None) -> Item:
        """Return item k; for None one without labels, see `EpochSampler`."""
        if k is None:
            return self._padding()
        k = range(len(self))[k]
        rng = self._generator(k)
        position = self._position(k)
        found = self._decoded(position)
        corner = self._corner(k, rng, found)
        image, maps = self._cut(found, corner)
        if rng is not None and self._random:
            # The answers of a table have no axes that could move with the image.
            moving = [] if found.raters is not None else list(maps)
            image, moved = self._augment(image, [maps[name] for name in moving], rng)
            maps |= dict(zip(moving, moved, strict=True))
        maps |= {name: values[position] for name, values in self._extra.items()}
        if self._places:
            start = (0,) * self.axes if corner is None else corner
            maps |= {"corner": np.array(start, int), "space": np.array(found.space, int)}
        return cast("Item", {"image": image, "case": position, **maps})

    def _padding(self) -> Item:
        """Return the image of the first case without labels, reference and target."""
        corner = None if self.patch_size is None else (0,) * self.axes
        image, maps = self._cut(self.cases.first, corner)
        nothing = {n: np.full_like(m, unknown(m)) for n, m in maps.items() if n != "raters"}
        extra = {name: np.zeros_like(values[0]) for name, values in self._extra.items()}
        return cast("Item", {**maps, **nothing, **extra, "image": image, "case": NO_CASE})

    def place(self, k: int) -> tuple[int, Corner | None]:
        """Return which case item k is of, and where its patch starts (None for whole images)."""
        k = range(len(self))[k]
        position = self._position(k)
        return position, self._corner(k, self._generator(k), self._decoded(position))

    def _generator(self, k: int) -> np.random.Generator | None:
        if not self._random and (self.patch_size is None or self.mode == "tiles"):
            return None
        return np.random.default_rng((self.seed, self.epoch, k))

    def _position(self, k: int) -> int:
        return k // self.patches_per_case if self._tiles is None else int(self._tiles[k, 0])

    def _corner(self, k: int, rng: np.random.Generator | None, found: DecodedCase) -> Corner | None:
        if self._tiles is not None:
            return tuple(self._tiles[k, 1:].tolist())
        if self.patch_size is None or rng is None:
            return None
        share = self.foreground_share
        return random_corner(rng, found.foreground, found.space, self.patch_size, share)

    def _decoded(self, position: int) -> DecodedCase:
        worker = get_worker_info()
        return self.cases(position, 0 if worker is None else worker.num_workers)

    def _cut(
        self, found: DecodedCase, corner: Corner | None
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Return the image and what belongs to it, all of it or a patch."""
        maps = {name: array for name, array in found.arrays.items() if name in (*_MAPS, "raters")}
        if corner is None or self.patch_size is None:
            return found.pixels(), maps
        image = found.pixels(corner, self.patch_size)
        return image, {n: cut(m, corner, self.patch_size, unknown(m)) for n, m in maps.items()}

    def _all_tiles(self) -> NDArray[np.int32]:
        """Return the case and the corner of each tile, one row per tile: there may be millions."""
        assert self.patch_size is not None
        places = []
        for position in range(len(self.study)):
            corners = tile_corners(self.cases.shape(position, self.axes), self.patch_size)
            places.append(np.insert(np.array(corners, np.int32), 0, position, axis=1))
        return np.concatenate(places)

    def _refuse_bad_patch(self) -> None:
        if self.patch_size is None:
            return
        patch = " x ".join(map(str, self.patch_size))
        if self.study.kind == "classification":
            raise RatersError(f"found a patch of {patch} for class labels, expected masks")
        if len(self.patch_size) != self.axes or min(self.patch_size) < 1:
            raise RatersError(
                f"found a patch of {patch}, expected {self.axes} sides of 1 or more, as the image "
                f"of case {self.study.index.ids[0]!r} has {self.axes} spatial axes"
            )


def _stacked_extra(study: Study, extra: Extra | None) -> dict[str, NDArray[Any]]:
    """Return what else there is of all cases, with the cases in front."""
    found: list[dict[str, NDArray[Any]]] = []
    for case in study.iter_cases() if extra else ():
        more = {name: np.asarray(value) for name, value in extra(case).items()} if extra else {}
        if not more and not found:
            return {}
        found.append(more)
        first, shapes = ({n: value.shape for n, value in of.items()} for of in (found[0], more))
        taken = shapes.keys() & Item.__annotations__.keys()
        if taken or first != shapes:
            expected = "other names" if taken else f"{first} as in the first case"
            why = f"found {shapes} beside the image of case {case.id!r}, expected {expected}"
            raise RatersError(why, case=case.id)
    return {name: np.stack([more[name] for more in found]) for name in (found[0] if found else ())}

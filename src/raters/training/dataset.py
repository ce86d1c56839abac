"""Training data: the cases of a study as whole images, random patches or tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset, get_worker_info

from raters.errors import RatersError
from raters.study.study import Study
from raters.training.augment import augmentation_of
from raters.training.cases import CaseReader, Targets
from raters.training.collate import Item, unknown
from raters.training.decoded import DecodedCase
from raters.training.normalise import Normalisation
from raters.training.patches import Corner, cut, random_corner, tile_corners

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
        cache_bytes: Memory for decoded cases.
        cache_folder: Where cases that do not fit are kept, decoded; without it they are read each
            time.

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
        cache_bytes: int = 2 * 2**30,
        cache_folder: Path | None = None,
    ) -> None:
        self.study, self.patch_size, self.mode = study, patch_size, mode
        self.seed, self.epoch = seed, 0
        self.patches_per_case = (
            patches_per_case if mode == "train" and patch_size is not None else 1
        )
        self.foreground_share = foreground_share
        self.cases = CaseReader(
            study,
            normalisation,
            reference=mode == "tiles",  # no step of training looks at it
            foreground=mode == "train" and patch_size is not None,
            targets=targets,
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

    def set_epoch(self, epoch: int) -> None:
        """Return which epoch comes: it decides about patches and augmentation."""
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
        image, maps = self._cut(found, self._corner(k, rng, found))
        if rng is not None and self._random:
            # The answers of a table have no axes that could move with the image.
            moving = [] if found.raters is not None else list(maps)
            image, moved = self._augment(image, [maps[name] for name in moving], rng)
            maps |= dict(zip(moving, moved, strict=True))
        return cast("Item", {"image": image, "case": position, **maps})

    def _padding(self) -> Item:
        """Return the image of the first case without labels, reference and target."""
        first = self.cases.first
        image, maps = self._cut(first, None if self.patch_size is None else (0,) * self.axes)
        nothing = {
            name: np.full_like(m, unknown(m)) for name, m in maps.items() if name != "raters"
        }
        return cast("Item", {**maps, **nothing, "image": image, "case": NO_CASE})

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
        every = {name: getattr(found, name) for name in ("labels", "raters", "reference", "target")}
        maps = {name: array for name, array in every.items() if array is not None}
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

"""The 2D slices of BraTS 2019 that pixel-cm learns from: chosen, cropped and normalised.

The paper (section 4.2, appendix A.3) says: axial slices of the 259 cases of high grade, split by
case into 1,600 for training, 300 for validation and 500 for testing; all four modalities; the
centre of 192 x 192; zero mean and unit variance per case and modality. It does not say which
slices, nor over which voxels the mean is taken. Here slices are drawn at random, with a fixed seed,
from those with tumour, and mean and variance are those of the brain (voxels other than 0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Array, Ints
from raters.datasets.base import Dataset, Lazy, of_all
from raters.datasets.brats import CLASSES, MODALITIES, volumes
from raters.errors import RatersError
from raters.progress import ordered_map
from raters.study.backend import Axes, Image, RawMask
from raters.study.backend_files import CaseFiles, FilesBackend, refuse_other_grid
from raters.study.cases import CaseIndex, assign_splits
from raters.study.geometry import Geometry, plane
from raters.study.study import Study

SIDE = 192
"""How many rows and columns are kept."""

SPLITS = {"train": 1600, "val": 300, "test": 500}
"""How many slices the paper has in each split."""

SEED = 0

Place = tuple[int, int]
"""Where a slice is: the number of its case, and its number along the third axis."""


def slice_study(dataset: Dataset, cases: Mapping[str, CaseFiles], *notes: str) -> Study:
    """Make the study of chosen slices; all references are read once, one at a time, to choose."""
    names, store = list(cases), volumes(list(cases.values()))
    places = choose(names, list(ordered_map(lambda k: _with_tumour(store, k), range(len(names)))))
    chosen = [place for split in places.values() for place in split]
    index = CaseIndex.of(
        [f"{names[case]}/{k:03d}" for case, k in chosen],
        [names[case] for case, _ in chosen],
        [split for split, found in places.items() for _ in found],
    )
    about = dataset.about(
        f"slices with tumour, drawn with the seed {SEED}; images have zero mean and unit variance "
        "over the brain of their case",
        of_all(len(chosen), sum(SPLITS.values()), "slices"),
        *notes,
    )
    backend = SlicesBackend(store, chosen)
    return Study(backend, index, (), channels=MODALITIES, about=about, _classes=CLASSES)


def choose(names: Sequence[str], slices: Sequence[Ints]) -> dict[str, list[Place]]:
    """Choose slices for each split: cases are dealt to splits first, then slices are drawn.

    Args:
        names: The names of the cases.
        slices: The numbers of the slices with tumour, for each case.

    Returns:
        The slices of each split, at most as many as `SPLITS` says, in the order of the cases.

    Example:
        >>> found = choose(["a", "b", "c"], [np.arange(9)] * 3)
        >>> {split: {case for case, _ in places} for split, places in found.items()}
        {'train': {2}, 'val': {0}, 'test': {1}}
    """
    split_of = assign_splits(names, SPLITS, SEED)
    rng = np.random.default_rng(SEED)
    found = {}
    for split, wanted in SPLITS.items():
        cases = [k for k, own in enumerate(split_of) if own == split]
        pool = [(case, int(k)) for case in cases for k in slices[case]]
        found[split] = [pool[n] for n in sorted(rng.permutation(len(pool))[:wanted].tolist())]
    return found


def _with_tumour(store: FilesBackend, case: int) -> NDArray[np.intp]:
    """Return the numbers of the slices whose centre has tumour."""
    mask = store.mask(case, None)
    assert mask is not None  # every case has a reference
    return np.flatnonzero(centre(mask.values, mask.source).any(axis=(0, 1)))


def centre(volume: Array, file: str) -> Array:
    """Return the centre of all slices, `(..., rows, columns, slices)`.

    Raises:
        RatersError: The slices are smaller than that.
    """
    rows, columns = _corner(volume.shape[-3:], file)
    return volume[..., rows : rows + SIDE, columns : columns + SIDE, :]


def _corner(shape: tuple[int, ...], file: str) -> tuple[int, int]:
    if len(shape) != 3 or min(shape[:2]) < SIDE:
        found = " x ".join(map(str, shape))
        message = f"found shape {found}, expected slices of at least {SIDE} x {SIDE}"
        raise RatersError(message, kind="dataset", file=file)
    return (shape[0] - SIDE) // 2, (shape[1] - SIDE) // 2


def standardised(volume: Array, slices: Sequence[int], file: str) -> Array:
    """Return slices of one modality with zero mean and unit variance over the whole brain.

    The brain is where voxels are not 0; outside it stays 0. Over all voxels, the mean would tell
    how much of the volume is empty more than how bright the brain is.

    Example:
        >>> volume = np.array([[[0, 2], [4, 6]]])
        >>> standardised(volume, [1], "")[..., 0].round(2)
        array([[-1.22,  1.22]], dtype=float32)
    """
    brain = volume[volume != 0]
    if not brain.size or brain.min() == brain.max():
        found = f"nothing but {brain[0]} in the brain" if brain.size else "nothing but 0"
        raise RatersError(f"found {found}, expected an image", kind="dataset", file=file)
    mean, deviation = brain.mean(dtype=np.float64), brain.std(dtype=np.float64)
    part = volume[..., list(slices)]
    return np.where(part != 0, (part - mean) / deviation, 0).astype(np.float32)


@dataclass(frozen=True)
class _Chosen:
    """The chosen slices of one case: `(slices, channels, rows, columns)`, `(slices, rows, ...)`."""

    images: Array
    masks: Array
    grid: Geometry
    image_file: str
    mask_file: str


class SlicesBackend:
    """Slices that are cut from volumes when they are asked for.

    A case is read once for all of its slices that come one after another. Only the chosen slices
    of the last few cases are kept.
    """

    def __init__(self, store: FilesBackend, places: Sequence[Place]) -> None:
        self._store, self._places = store, places
        self._slices: dict[int, list[int]] = defaultdict(list)
        for case, k in places:
            self._slices[case].append(k)
        self._read = Lazy(len(store.cases), self._cut)
        self._lock = Lock()  # two threads would read the same volumes at once

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Return the reference of a slice; there are no raters."""
        if rater is not None:
            return None
        chosen, n = self._of(case)
        return RawMask(chosen.masks[n], chosen.grid, chosen.mask_file)

    def image(self, case: int, ndim: Axes) -> Image:  # noqa: ARG002
        """Return all modalities of a slice."""
        chosen, n = self._of(case)
        return Image(chosen.images[n], chosen.grid, chosen.image_file)

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str]:  # noqa: ARG002
        """Return the grid of a slice."""
        chosen, _ = self._of(case)
        return chosen.grid, chosen.image_file

    def files(self, case: int) -> list[Path]:
        """List the files of the case that a slice is of."""
        return self._store.files(self._places[case][0])

    def holds(self) -> dict[str, bool]:
        """Return that every slice has an image and a reference."""
        return {"images": True, "reference": True}

    def _of(self, case: int) -> tuple[_Chosen, int]:
        volume, k = self._places[case]
        with self._lock:
            return self._read[volume], self._slices[volume].index(k)

    def _cut(self, case: int) -> _Chosen:
        """Read a case, and keep the chosen slices of it."""
        slices = self._slices[case]
        image, mask = self._store.image(case), self._store.mask(case, None)
        assert image is not None and mask is not None  # every case has both
        refuse_other_grid(mask.geometry, mask.source, image.geometry, image.source, "one grid")
        paths = self._store.cases[case].images
        parts = [
            standardised(channel, slices, str(paths[name]))
            for name, channel in zip(MODALITIES, image.array, strict=True)
        ]
        images = centre(np.stack(parts), image.source)
        return _Chosen(
            np.moveaxis(images, -1, 0),
            np.moveaxis(centre(mask.values, mask.source)[..., slices], -1, 0),
            _grid(image),
            image.source,
            mask.source,
        )


def _grid(image: Image) -> Geometry:
    """Return the grid of a slice of an image, moved to the corner of the centre."""
    corner = np.eye(3)
    corner[:2, 2] = _corner(image.geometry.shape, image.source)
    affine = image.geometry.affine
    return Geometry((SIDE, SIDE), None if affine is None else plane(affine) @ corner)

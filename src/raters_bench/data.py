"""Where the studies of benchmarks come from: public data sets, digits in noise, and drawings.

A source makes a study with splits 'train', 'val' and 'test' from a seed; raters are simulated on it
unless it has its own. `SOURCES` lists them: a new one is a function and a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError, one_of
from raters.datasets import DATASETS, find, open_dataset
from raters.io.rows import to_json
from raters.metrics.confusion import dominance_margin
from raters.simulation import disc_study, simulate, streak_study, true_confusion
from raters.simulation.classes import SPREAD
from raters.simulation.specs import parse_raters
from raters.simulation.study import matrices_of
from raters.study.backend import Backend, RawMask
from raters.study.case import Case
from raters.study.read import read
from raters.study.study import Study
from raters_bench.studies import (
    dealt,
    drawn_classes,
    drawn_crowd,
    drawn_masks,
    drawn_with_raters,
    in_memory,
)

Places = Mapping[str, Path]
"""Folders of data sets by name; '' is the folder that holds one folder for each."""

CLEAR = 0.01
"""The margin by which dominance must hold or fail where that is asked for."""

_PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class BenchData:
    """A study to train on, and what is known of its raters.

    Attributes:
        study: With splits 'train', 'val' and 'test'.
        known: The matrices `(raters, L, L)` of each validation case; one '' for all cases of a
            table; empty if raters are real.
    """

    study: Study
    known: Mapping[str, Floats]


@dataclass(frozen=True)
class Source:
    """A kind of data.

    Attributes:
        make: Makes the study from where data lie, the seed and the options.
        needs: The data sets that it reads, by the options.
    """

    make: Callable[..., Study]
    needs: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda _: ()


def make_data(
    data: Mapping[str, Any], raters: Mapping[str, Any], seed: int, places: Places
) -> BenchData:
    """Make the study of a cell; the last two are kept, as many cells share one.

    Args:
        data: A `source` and its options.
        raters: Options of `raters.simulate`, with `dominance` (yes or no: the mean matrix of class
            raters is, or is not, column-dominant); empty leaves the raters of the data.
        seed: All randomness.
        places: Where data sets lie.

    Raises:
        RatersError: For unknown sources and options, or data that are not there.
    """
    return _made(to_json(data), to_json(raters), seed, tuple(sorted(places.items())))


@lru_cache(maxsize=2)
def _made(data: str, raters: str, seed: int, places: tuple[tuple[str, Path], ...]) -> BenchData:
    import json

    options = json.loads(data)
    how = json.loads(raters)
    source = source_of(options)
    name = options.pop("source")
    try:
        study = source.make(dict(places), seed, **options)
    except TypeError as error:
        raise RatersError(
            f"found options of the source {name!r} that do not fit: {error}"
        ) from None
    if not how:
        return BenchData(study, {})
    try:
        drawn = _with_raters(study, how, seed)
    except TypeError as error:
        raise RatersError(f"found options of the raters that do not fit: {error}") from None
    if drawn.kind == "classification":
        return BenchData(drawn, {"": true_confusion(drawn, 0)})
    kept = drawn.select(split="val")
    known = {str(case): true_confusion(kept, case) for case in kept.index.ids}
    return BenchData(in_memory(drawn), known)


def source_of(data: Mapping[str, Any]) -> Source:
    """Return the source that the data of a specification name.

    Raises:
        RatersError: that lists them.
    """
    return SOURCES[one_of(SOURCES, str(data.get("source", "")), "the source")]


def place_of(name: str, places: Places) -> Path:
    """Return where a data set lies.

    Raises:
        RatersError: that says where it was looked for and what to do.
    """
    if name in places:
        return find(name).need(places[name]) if name in DATASETS else places[name]
    root = places.get("", Path("data"))
    candidates = [root / folder for folder in dict.fromkeys((name, name.replace("-", "_")))]
    for folder in candidates:
        if folder.exists():
            return folder
    looked = " or ".join(map(str, candidates))
    has_it = f"{find(name).where} has it" if name in DATASETS else "it cannot be downloaded"
    raise RatersError(
        f"found no data set {name!r} at {looked}, expected it there: --data {name}=FOLDER says "
        f"where it is; {has_it}",
        kind="missing-file",
    )


def opened(name: str, places: Places, at: str = "") -> Study:
    """Open a data set, or a study where raters has no reader of that name.

    Args:
        name: The data set.
        places: Where data sets lie.
        at: The name that it lies under, where that is another.

    Raises:
        RatersError: It is not there, or something else is.
    """
    place = place_of(at or name, places)
    return open_dataset(name, place) if name in DATASETS else read(place)


def _with_raters(study: Study, how: Mapping[str, Any], seed: int) -> Study:
    """Simulate raters; groups are drawn until dominance clearly holds (or fails) if asked for."""
    options = dict(how)
    dominance = options.pop("dominance", None)
    if dominance is None:
        return simulate(study, seed=seed, **options)
    raters = parse_raters(options["raters"])
    spread = options.get("spread", SPREAD)
    for attempt in range(1000):
        drawn = 1000 * seed + attempt
        matrices = matrices_of(raters, len(study.classes), drawn, spread)
        margin = dominance_margin(np.stack(list(matrices.values())))
        if margin > CLEAR if dominance else margin < -CLEAR:
            return simulate(study, seed=drawn, **options)
    with_or_without = "with" if dominance else "without"
    raise RatersError(
        f"found no group of {options} {with_or_without} dominance in 1,000 draws, expected one"
    )


def digit_masks(
    places: Places, seed: int, images: int, val: int = 200, test: int = 400, noise: float = 0.3
) -> Study:
    """Return MNIST digits in noise with the masks of their strokes as references."""
    whole = opened("mnist-masks", places, at="mnist")
    cases = [whole[k] for k in _chosen(seed, len(whole), images + val + test)]
    random = np.random.default_rng(seed + 2000)
    pictures = np.stack([_image(case) for case in cases]).astype(np.float32) / 255
    pictures += random.normal(0, noise, pictures.shape).astype(np.float32)
    return Study.from_arrays(
        images=pictures,
        reference=np.stack([_reference(case) for case in cases]),
        splits=dealt(seed, images, val, test),
    )


def _chosen(seed: int, number: int, wanted: int) -> list[int]:
    if wanted > number:
        raise RatersError(f"found {number:,} images, expected {wanted:,} for train, val and test")
    return sorted(np.random.default_rng(seed).permutation(number)[:wanted].tolist())


def _image(case: Case) -> Array:
    if case.image is None:  # it is kept, where `needed_image` reads it each time
        raise RatersError("found no image, expected one", case=case.id)
    return case.image


def _reference(case: Case) -> Array:
    if case.reference is None:
        raise RatersError("found no reference, expected one", case=case.id)
    return case.reference


def class_images(
    places: Places,
    seed: int,
    name: str,
    images: int,
    val: int = 300,
    test: int = 1000,
    flat: bool = False,
) -> Study:
    """Return images with one true class each, of MNIST or CIFAR-10; flat: pixels as features."""
    whole = opened(name, places).select(raters=[])
    cases = [whole[k] for k in _chosen(seed, len(whole), images + val + test)]
    pictures = np.stack([_image(case) for case in cases]) / np.float32(255)
    return Study.from_arrays(
        images=pictures.reshape(len(cases), -1) if flat else pictures,
        reference=np.array([int(_reference(case)) for case in cases]),
        classes=whole.classes,
        splits=dealt(seed, images, val, test),
    )


def public(
    places: Places,
    seed: int,
    name: str,
    split: Mapping[str, float] | None = None,
    cases: int | None = None,
    labels: str = "all",
    shrink: int = 1,
    truth: str = "",
) -> Study:
    """Return a data set with its own raters, split by group anew for each seed.

    Args:
        places: Where data sets lie.
        seed: Of the splits, and of who labels what.
        name: The data set; one that raters has no reader for is a study that it has imported.
        split: Shares of 'train', 'val' and 'test'; None keeps the splits of the data set.
        cases: At most so many cases, drawn by group.
        labels: 'all', or 'one' random rater of those who labelled a case (not on test cases).
        shrink: Average images over squares of this side, and keep the label in the middle of each.
        truth: The rater whose masks are the references; there are no other raters then.
    """
    study = opened(name, places)
    if cases is not None and cases < len(study):
        share = study.split(seed=seed, kept=cases, rest=len(study) - cases)
        study = share.select(split="kept")
    if split:
        study = study.split(seed=seed, **{part: float(split[part]) for part in _PARTS})
    if truth:
        return replace(study, backend=_OneTrusted(study.backend, truth), raters=())
    if labels == "all" and shrink == 1:
        return study
    if study.kind != "segmentation":
        raise RatersError("found class labels, expected masks for one label per image")
    return _thinned(study, labels, shrink, seed)


def _thinned(study: Study, labels: str, shrink: int, seed: int) -> Study:
    """Keep one rater per case, and make images and masks smaller."""
    random = np.random.default_rng(seed + 3000)
    read = list(study.iter_cases())
    drawn = []
    for case, split in zip(read, study.index.splits, strict=True):
        found = middles(case.drawings, shrink).astype(np.int8)
        if labels == "one" and split != "test":
            there = np.flatnonzero((found != MISSING).reshape(len(found), -1).any(axis=1))
            kept = random.choice(there) if len(there) else 0
            found[np.arange(len(found)) != kept] = MISSING
        drawn.append(found)
    masks = [case.reference for case in read]
    return in_memory(
        study,
        read,
        images=[averages(_image(case), shrink) for case in read],
        labels=drawn,
        reference=[None if mask is None else middles(mask, shrink) for mask in masks],
        about=study.about,
    )


def averages(image: Array, side: int) -> Array:
    """Average an image `(channels, rows, columns)` over squares; what is left over is cut off.

    Example:
        >>> averages(np.arange(12.0).reshape(1, 2, 6), 2).tolist()
        [[[3.5, 5.5, 7.5]]]
    """
    rows, columns = (length // side for length in image.shape[1:])
    kept = image[:, : rows * side, : columns * side]
    squares = kept.reshape(len(image), rows, side, columns, side)
    return np.asarray(squares.mean(axis=(2, 4)), np.float32)


def middles(masks: Labels, side: int) -> Labels:
    """Take the label in the middle of each square of masks `(..., rows, columns)`.

    Example:
        >>> middles(np.arange(12).reshape(2, 6), 2).tolist()
        [[7, 9, 11]]
    """
    rows, columns = (length // side for length in masks.shape[-2:])
    middle = (slice(side // 2, None, side),) * 2
    return masks[(..., *middle)][..., :rows, :columns]


class _OneTrusted:
    """Masks of a data set of which those of one rater are the reference."""

    def __init__(self, backend: Backend, rater: str) -> None:
        self._backend = backend
        self._rater = rater
        self.image = backend.image
        self.image_grid = backend.image_grid
        self.files = backend.files

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Return the mask of the trusted rater; there are no others."""
        return self._backend.mask(case, self._rater) if rater is None else None

    def holds(self) -> dict[str, bool]:
        """Return that there are references."""
        return {**self._backend.holds(), "reference": True}


def _named(options: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(options.get("name", "")),)


SOURCES: dict[str, Source] = {
    "mnist-masks": Source(digit_masks, lambda _: ("mnist",)),
    "class-images": Source(class_images, _named),
    "public": Source(public, _named),
    "drawn-masks": Source(drawn_masks),
    "streaks": Source(drawn_with_raters(streak_study, 40)),
    "discs": Source(drawn_with_raters(disc_study, 64)),
    "drawn-classes": Source(drawn_classes),
    "drawn-crowd": Source(drawn_crowd),
}


def needed(parts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the data sets that several settings read, each once."""
    return list(dict.fromkeys(name for data in parts for name in source_of(data).needs(data)))


def missing_data(parts: Iterable[Mapping[str, Any]], places: Places) -> list[RatersError]:
    """Return what is wrong with the data of several settings, each data set once.

    Each is opened: in a folder that is there may lie something else.
    """
    found = []
    for name in needed(parts):
        try:
            opened(name, places)
        except RatersError as error:
            found.append(error)
    return found

"""What every store of a study answers: a rater's mask, a case's image; studies held in arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array
from raters.core.classes import MISSING, Classes, named_values
from raters.core.errors import RatersError
from raters.core.geometry import Geometry
from raters.core.whole_numbers import MOST_VALUES, value_counts
from raters.core.wording import first_repeated
from raters.study.triplets import TableBackend, Triplets

if TYPE_CHECKING:
    from raters.study.data import Kind

Absent = Literal["missing", "empty"]
Overlap = Literal["error", "priority", "combine"]
Resample = Literal["nearest"]
WORDS = {"absent": get_args(Absent), "overlap": get_args(Overlap), "resample": get_args(Resample)}
"""What rules of these names may be."""
Axes = int | Callable[[], int | None] | None
"""How many spatial axes masks have, where they tell; a function where a mask must be read to know.

Only images that are plain arrays need it, to find their channel axis.
"""
_WHITE = 255  # the highest value of pictures of 8 bits
_MOST = 65535  # the highest value of pictures of 16 bits


@dataclass(frozen=True)
class LabelRules:
    """How mask files are to be understood.

    Attributes:
        ignore: Values that mean 'not labelled here' (MISSING).
        absent: What an absent file means: 'missing' (not labelled) or 'empty' (drew nothing).
        threshold: Where to cut grey masks; masks of 0 and 1 stay as they are.
        overlap: With one file per class, what a pixel in several classes gets: 'error',
            'priority' (the class listed last wins), 'combine' (a class of its own, 'disc+cup').
        resample: 'nearest' puts masks on the grid of the image; None makes other grids an error.
    """

    ignore: tuple[int, ...] = ()
    absent: Absent = "missing"
    threshold: float | None = None
    overlap: Overlap = "error"
    resample: Resample | None = None

    def __post_init__(self) -> None:
        for name, words in WORDS.items():
            found = getattr(self, name)
            if found not in words and (name != "resample" or found is not None):
                expected = " or ".join(map(repr, words))
                raise RatersError(f"found {name}={found!r}, expected {expected}")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise RatersError(f"found the threshold {self.threshold}, expected a finite number")


@dataclass(frozen=True)
class RawMask:
    """One rater's mask before its values are turned into classes.

    Attributes:
        values: Whole numbers as the file holds them, or class numbers if `coded`.
        geometry: The grid of the mask.
        source: The file, or words that say where the mask comes from.
        coded: Whether `values` are class numbers (and MISSING) already.
        names: Names that the file itself gives to values.
        covered: With one file per class, the classes that are drawn and wholly hidden by others.
    """

    values: Array
    geometry: Geometry
    source: str
    coded: bool = False
    names: Mapping[int, str] = field(default_factory=dict)
    covered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Image:
    """An image `(channels, *space)` with its grid and where it comes from."""

    array: Array
    geometry: Geometry
    source: str


class Backend(Protocol):
    """Reads one thing at a time; `case` counts from 0 in the order of the whole store."""

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Read the mask of a rater, or the reference for None; None if there is none."""
        ...

    def image(self, case: int, ndim: Axes) -> Image | None:
        """Read the image; `ndim` is the number of spatial axes where the masks tell."""
        ...

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image and its file without reading its voxels."""
        ...

    def files(self, case: int) -> list[Path]:
        """List the files that this case is read from."""
        ...

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        ...


class Arrays(Protocol):
    """One array per case, or None: a list, an array with one row per case, or a view of one."""

    def __len__(self) -> int: ...

    def __getitem__(self, case: int, /) -> Array | None: ...


class ArraysBackend:
    """Masks and images that are arrays already, class numbers and MISSING in the masks.

    Args:
        raters: The names along the second axis of `labels`.
        labels: `(cases, raters, *space)`, or a sequence of `(raters, *space)`; None for none.
        images: `(cases, channels, *space)`, or a sequence of `(channels, *space)` or None.
        reference: `(cases, *space)`, or a sequence of `(*space)` or None.
        affines: One affine per case, or None.
        names: What cases are called in messages, by row; by default their rows.
    """

    def __init__(
        self,
        raters: Sequence[str],
        labels: Arrays | None,
        images: Arrays | None = None,
        reference: Arrays | None = None,
        affines: Arrays | None = None,
        names: Sequence[str] | Mapping[int, str] | NDArray[np.object_] = (),
    ) -> None:
        self._column = {name: k for k, name in enumerate(raters)}
        self._labels = labels
        self._images = images
        self._reference = reference
        self._affines = affines
        self._names = names

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Return the labels of one rater, or the reference."""
        if rater is None:
            array = None if self._reference is None else self._reference[case]
        else:
            labels = None if self._labels is None else self._labels[case]
            array = None if labels is None else labels[self._column[rater]]
        if array is None:
            return None
        values = np.asarray(array)
        who = self._called("the reference" if rater is None else f"rater {rater!r}", case)
        return RawMask(values, self._grid(case, values.shape), who, coded=True)

    def labelled(self, case: int, rater: str | None) -> bool:
        """Return whether a rater (None: the reference) labelled anything; often one look tells."""
        store = self._reference if rater is None else self._labels
        if store is None:
            return False
        array = getattr(store, "look", store.__getitem__)(case)
        if array is None:
            return False
        mask = array if rater is None else array[self._column[rater]]
        return bool(mask.size) and bool(mask.flat[0] != MISSING or (mask != MISSING).any())

    def image(self, case: int, ndim: Axes) -> Image | None:  # noqa: ARG002
        """Return the image of a case."""
        array = None if self._images is None else self._images[case]
        if array is None:
            return None
        array = np.asarray(array)
        return Image(array, self._grid(case, array.shape[1:]), self._called("the image", case))

    def image_grid(self, case: int, ndim: Axes) -> tuple[Geometry, str] | None:
        """Return the grid of the image."""
        image = self.image(case, ndim)
        return None if image is None else (image.geometry, image.source)

    def files(self, case: int) -> list[Path]:  # noqa: ARG002
        """Arrays come from no files."""
        return []

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        return {"images": self._images is not None, "reference": self._reference is not None}

    def _called(self, what: str, case: int) -> str:
        return f"{what} of case {self._names[case] if len(self._names) else case!r}"

    def _grid(self, case: int, shape: tuple[int, ...]) -> Geometry:
        return Geometry(shape, None if self._affines is None else self._affines[case])


def arrays_backend(
    ids: NDArray[np.object_],
    images: Any,  # noqa: ANN401
    labels: Any,  # noqa: ANN401
    reference: Any,  # noqa: ANN401
    affines: Any,  # noqa: ANN401
    raters: Sequence[str] | None,
    classes: Any,  # noqa: ANN401
) -> tuple[Backend, Kind, tuple[str, ...], Classes]:
    """Make the store of `Study.from_arrays`; also give the kind, the raters and the classes."""
    names = _rater_names(labels, raters)
    found, labels, reference = _coded(classes, labels, reference)
    if not _is_classification(labels, reference):
        masks = ArraysBackend(names, labels, images, reference, affines, ids)
        return masks, "segmentation", names, found
    dense = np.zeros((len(ids), 0), np.int16) if labels is None else np.asarray(labels, np.int16)
    table = TableBackend(
        Triplets.of_dense(dense, ids, names, found.values),
        None if images is None else ArraysBackend([], None, images, names=ids),
        None
        if reference is None
        else np.array([MISSING if truth is None else truth for truth in reference], np.int16),
    )
    return table, "classification", names, found


def _rater_names(labels: Any, given: Sequence[str] | None) -> tuple[str, ...]:  # noqa: ANN401
    if labels is not None and len(labels) and not np.ndim(labels[0]):
        raise RatersError("found one label of each case, expected labels (cases, raters, *space)")
    number = 0 if labels is None or not len(labels) else len(labels[0])
    names = tuple(str(name) for name in (range(number) if given is None else given))
    if len(names) != number or len(set(names)) < number or "" in names:
        raise RatersError(f"found rater names {names}, expected {number} different ones")
    for case, masks in enumerate(() if labels is None else labels):
        if len(masks) != number:
            raise RatersError(
                f"found labels by {len(masks)} raters in case {case}, expected {number} as in "
                "case 0 (-1 stands for what a rater did not label)"
            )
    return names


def names_of_cases(given: Sequence[str] | None, number: int) -> list[str]:
    """Return the names of cases, by default '0', '1', ...; refuse one that is there twice."""
    names = [str(name) for name in (range(number) if given is None else given)]
    wrong = "" if "" in names else first_repeated(names)
    if wrong is not None:
        raise RatersError(f"found the case name {wrong!r} twice or empty, expected each once")
    return names


def same_length(**given: Any) -> int:  # noqa: ANN401
    """Return the number of cases, which all arrays must have."""
    lengths = {what: len(array) for what, array in given.items() if array is not None}
    if not {"images", "labels", "reference"} & set(lengths):
        raise RatersError("found no arrays, expected images, labels or a reference")
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {what}" for what, length in lengths.items())
        raise RatersError(f"found {found}, expected one for each case")
    return next(iter(lengths.values()))


def _is_classification(labels: Any, reference: Any) -> bool:  # noqa: ANN401
    if labels is not None and len(labels):
        return np.ndim(labels[0]) == 1
    known = [r for r in reference if r is not None] if reference is not None else []
    return bool(known) and np.ndim(known[0]) == 0


def _coded(given: Any, labels: Any, reference: Any) -> tuple[Classes, Any, Any]:  # noqa: ANN401
    """Return the classes, and labels and reference as class numbers.

    As in files, few values with gaps up to 255 or more are the classes in order, and values of the
    classes that were given stand for these.
    """
    groups = {"labels": labels, "reference labels": reference}
    seen = []
    for what, group in groups.items():
        for case, labels_of_case in enumerate(() if group is None else group):
            if labels_of_case is None:
                continue
            array = np.asarray(labels_of_case)
            distinct = set(value_counts(array) if array.size > 64 else array.ravel().tolist())
            seen.append((what, case, distinct))
    values = set[int]().union(*(found for *_, found in seen)) - {MISSING}
    highest = max(values, default=1)
    if highest > _MOST:
        raise RatersError(f"found the label {highest}, expected class numbers up to {_MOST}")
    sparse = highest >= _WHITE and len(values) <= MOST_VALUES and min(values) >= 0
    usual = values | {0} if sparse else range(max(highest, 1) + 1)
    classes = named_values(usual) if given is None else Classes.of(given)
    codes = [value for one in classes for value in (one.value, *one.also)]
    if codes != list(range(len(codes))) and not isinstance(given, Classes) and values <= {*codes}:
        return classes, *(_encoded(classes, group) for group in groups.values())
    for what, case, found in seen:
        if found and not MISSING <= min(found) <= max(found) < len(classes):
            raise RatersError(
                f"found {what} from {min(found)} to {max(found)} in case {case}, "
                f"expected -1 (missing) to {len(classes) - 1} for {len(classes)} classes"
            )
    return classes, labels, reference


def _encoded(classes: Classes, group: Any) -> Any:  # noqa: ANN401
    if group is None:
        return None
    return [None if one is None else classes.encode(np.asarray(one), [MISSING]) for one in group]

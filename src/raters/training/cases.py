"""Cases for training: checked, decoded, kept in memory as far as they fit, and else on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError, placed
from raters.study.backend import Image
from raters.study.case import Case
from raters.study.classes import MISSING
from raters.study.paths import written_whole
from raters.study.study import Study
from raters.training.normalise import Normalisation, image_of, in_case, scaled
from raters.training.patches import foreground_positions, inside, pad_to

MARK = b"raters-1"
ALIGNED = 64
RESERVE = 0.1  # the share of a disk's free space that is left to others
TEMPORARY = "raters-cache-"
KEY = 16  # letters of the name of a store


class CaseStore:
    """Arrays of cases by position in a folder.

    Example:
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = CaseStore(Path(folder.name))
        >>> store.read(3) is None, store.write(3, {"labels": np.array([[1, 2]], np.int8)})
        (True, True)
        >>> store.read(3)
        {'labels': array([[1, 2]], dtype=int8)}
        >>> folder.cleanup()
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.full = folder, False

    def read(self, position: int) -> dict[str, NDArray[Any]] | None:
        """Map the arrays of a case; None if they are not there, or not whole."""
        try:
            whole = np.asarray(np.memmap(self._path(position), np.uint8, "r"))
            start = len(MARK) + 4
            size = int(whole[len(MARK) : start].view("<u4")[0])
            header = json.loads(whole[start : start + size].tobytes())
            if whole[: len(MARK)].tobytes() != MARK or header["bytes"] != len(whole):
                return None
            return {name: _array(whole, *place) for name, place in header["arrays"].items()}
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return None

    def write(self, position: int, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Write the arrays of a case; False where the disk is full."""
        if self.full:
            return False
        try:
            with written_whole(self._path(position), "wb") as file:
                file.writelines(_content(arrays))
        except OSError as error:
            self.full = True
            warnings.warn(
                f"the cache cannot be written ({error.strerror}): cases that are not in it are "
                "read from their files each time",
                stacklevel=2,
            )
            return False
        return True

    def has_room(self, needed: int) -> bool:
        """Return whether the disk can take so many bytes; warn if it cannot."""
        self.folder.mkdir(parents=True, exist_ok=True)
        there = sum(file.stat().st_size for file in self.folder.glob("*.case"))
        free = shutil.disk_usage(self.folder).free * (1 - RESERVE) + there
        if needed > free:
            warnings.warn(
                f"found {free / 1e9:.1f} GB of free space at {self.folder}, expected "
                f"{needed / 1e9:.1f} GB to keep decoded cases: files are read each time. A larger "
                "`cache` keeps more of them in memory",
                stacklevel=2,
            )
        return needed <= free

    def _path(self, position: int) -> Path:
        return self.folder / f"{position}.case"


def _content(arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """Return the parts of a file; the header is padded, as its length decides where arrays lie."""
    sizes = [array.nbytes for array in arrays.values()]
    begin = _aligned(len(MARK) + 4 + 200 * (len(arrays) + 1))
    places = np.cumsum([begin, *(_aligned(size) for size in sizes)]).tolist()
    described = {
        name: [array.dtype.str, list(array.shape), place]
        for (name, array), place in zip(arrays.items(), places[:-1], strict=True)
    }
    header = json.dumps({"bytes": places[-1], "arrays": described}).encode()
    header = header.ljust(begin - len(MARK) - 4)
    yield MARK + np.array(len(header), "<u4").tobytes() + header
    for array, size in zip(arrays.values(), sizes, strict=True):
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield bytes(_aligned(size) - size)


def _array(whole: NDArray[np.uint8], dtype: str, shape: list[int], place: int) -> NDArray[Any]:
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    return whole[place : place + size].view(kind).reshape(shape)


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def key_of(study: Study, *facts: Any) -> str:  # noqa: ANN401
    """Name what a store is of: the cases, how they are read, and the state of all their files.

    Args:
        study: The cases.
        facts: Whatever else decides what is stored.
    """
    kinds = (study.annotations, study.unmarked) if study.drawn else ()
    known = (study.raters, study.rules, study.classes, facts, *kinds)
    parts = hashlib.sha256(repr(known).encode())
    for position, name in enumerate(study.index.ids):
        stamps = [_stamp(file) for file in study.backend.files(study.row(position))]
        parts.update(repr((name, stamps)).encode())
    return parts.hexdigest()[:KEY]


def _stamp(file: Path) -> tuple[str, int, int]:
    try:
        state = file.stat()
    except (OSError, ValueError):
        return str(file), -1, -1
    return str(file), state.st_size, state.st_mtime_ns


@contextmanager
def cache_folder(run: Path | None = None) -> Iterator[Path]:
    """Return a folder for stores, which is removed at the end.

    With a run folder it is `cache` in there, and an error leaves it: who resumes finds it again.
    Else it is a temporary folder; those of processes that were killed are removed on the way.
    """
    if run is not None:
        folder = run / "cache"
        yield folder
        for store in folder.glob("[0-9a-f]" * KEY):  # nothing that somebody else put there
            shutil.rmtree(store, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()
        return
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY))
    lock = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_abandoned(place: Path) -> None:
    """Remove temporary caches that no process holds: their owners died without a last word."""
    for folder in place.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            lock = _locked(folder) if (folder / "lock").exists() else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """Lock a folder for as long as this process (or a worker of it) lives; None if it is taken."""
    try:
        import fcntl
    except ImportError:  # Windows: nobody locks, and nothing is ever taken for abandoned
        return None
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


Targets = Callable[[Case], NDArray[Any]]

Labels = NDArray[Any]
"""int8 or int16."""


@dataclass(frozen=True)
class DecodedCase:
    """A case as training needs it; the arrays cannot be written to, as they are used again.

    Attributes:
        image: `(channels, *space)` or `(features,)`: normalised, or as in the file if that is
            smaller; see `pixels`.
        labels: `(raters, *space)`, or `(answers,)` for tables; int8 where that is enough.
        moments: Mean and standard deviation of each channel, `(2, channels)`, if the image is
            still to be normalised by them.
        raters: Who gave each answer, for tables only.
        reference: `(*space)`, MISSING where it is unknown; None if not asked for.
        foreground: Flat positions of some foreground pixels; None if not asked for.
        target: `(classes, *space)` floats or `(*space)` integers; None if not asked for.
        regions: Numbers of regions, `(*space)`; None if not asked for.
    """

    image: NDArray[Any]
    labels: Labels
    moments: NDArray[np.float64] | None = None
    raters: NDArray[np.int64] | None = None
    reference: Labels | None = None
    foreground: NDArray[np.int32] | NDArray[np.int64] | None = None
    target: NDArray[Any] | None = None
    regions: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for array in self.arrays.values():
            array.setflags(write=False)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that there are, by name."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in every.items() if array is not None}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> DecodedCase:
        """Make a case from what `arrays` gave."""
        return cls(**arrays)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def space(self) -> tuple[int, ...]:
        """The spatial shape of the image."""
        return self.image.shape[1:]

    def pixels(
        self, corner: Sequence[int] | None = None, patch_size: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Return the normalised image, or a patch of it; outside the image it is 0.

        Example:
            >>> raw, moments = np.array([[1, 3, 5]], np.uint8), np.array([[3.0], [2.0]])
            >>> case = DecodedCase(raw, np.zeros((1, 3), np.int8), moments)
            >>> case.pixels().tolist(), case.pixels((2,), (2,)).tolist()
            ([[-1.0, 0.0, 1.0]], [[1.0, 0.0]])
        """
        whole = corner is None or patch_size is None
        part = self.image if whole else inside(self.image, corner or (), patch_size or ())
        normal = part if self.moments is None else scaled(part, *self.moments)
        return normal if whole else pad_to(normal, patch_size or (), 0)


class CaseReader:
    """Yields cases by position, decoded.

    They are remembered in memory until `cache_bytes` are full; the others go to a store in
    `folder`, if they come from files. What finds no place is read each time.

    Args:
        study: Where the cases are.
        normalisation: What the images go through.
        reference: Whether to read references.
        foreground: Whether to look for foreground pixels.
        targets: Gives what else is to be learned from a case.
        regions: Gives the regions that a case is parted into.
        cache_bytes: How much memory to take.
        folder: Where a store may be made.

    Example:
        >>> study = Study.from_arrays(np.ones((1, 1, 2, 2)), np.zeros((1, 3, 2, 2), int))
        >>> case = CaseReader(study, Normalisation("none"))(0)
        >>> case.image.shape, case.labels.shape, case.labels.dtype
        ((1, 2, 2), (3, 2, 2), dtype('int8'))
    """

    def __init__(
        self,
        study: Study,
        normalisation: Normalisation,
        *,
        reference: bool = False,
        foreground: bool = False,
        targets: Targets | None = None,
        regions: Targets | None = None,
        cache_bytes: int = 2**30,
        folder: Path | None = None,
    ) -> None:
        self.study, self.normalisation = study, normalisation
        self.cache_bytes, self.folder = cache_bytes, folder
        self._reference, self._foreground, self._targets = reference, foreground, targets
        self._regions = regions
        self.store: CaseStore | None = None
        self._asked_for_store = False
        self._kept: dict[int, DecodedCase] = {}
        self._bytes = 0

    def __call__(self, position: int, num_workers: int = 0) -> DecodedCase:
        """Return a case; `num_workers` that each have a memory of their own share it.

        What a worker remembers dies with it at the end of the epoch: it takes the store first.
        """
        found = self._kept.get(position)
        if found is None and self.store is not None:
            stored = self.store.read(position)
            found = None if stored is None else DecodedCase.of(stored)
        if found is not None:
            return found
        case = self._checked(position)
        places = (self._put, self._keep) if num_workers else (self._keep, self._put)
        _ = any(place(position, case, max(num_workers, 1)) for place in places)
        return case

    @property
    def kept(self) -> int:
        """How many cases are in memory."""
        return len(self._kept)

    @property
    def fits(self) -> bool:
        """Whether all cases fit in memory, if they are like the first."""
        return self.first.nbytes * len(self.study) <= self.cache_bytes

    def open_store(self) -> None:
        """Open the store, before workers start: not for arrays, and not where there is no space.

        Packed arrays are mapped already, and a row of them is read at once.
        """
        if self._asked_for_store:
            return
        self._asked_for_store = True
        if self.folder is None or not self.study.backend.files(self.study.row(0)):
            return
        # Targets come from what was fitted to all cases: they are never taken from another run.
        fitted = "" if self._targets is None and self._regions is None else uuid4().hex
        facts = self.normalisation, self._reference, self._foreground, fitted
        store = CaseStore(self.folder / key_of(self.study, *facts))
        if store.has_room(self.first.nbytes * len(self.study)):
            self.store = store

    def shape(self, position: int, axes: int) -> tuple[int, ...]:
        """Return the spatial shape of a case, from the header of its image if nothing else."""
        if position in self._kept:
            return self._kept[position].space
        row, name = self.study.row(position), self.study.index.ids[position]
        with placed(case=name):
            grid = self.study.backend.image_grid(row, axes)
        if grid is None:
            return image_of(self.study[position]).array.shape[1:]  # names the case without image
        if len(grid[0].shape) != axes:
            with in_case(name, grid[1]):
                raise _other_axes(len(grid[0].shape), axes, self.study.index.ids[0])
        return grid[0].shape

    @cached_property
    def first(self) -> DecodedCase:
        """The first case: the others must have as many channels and axes."""
        if not len(self.study):
            raise RatersError("found no cases, expected some to train on")
        return self._decode(self.study[0])

    def _keep(self, position: int, case: DecodedCase, sharers: int) -> bool:
        if self._bytes + case.nbytes > self.cache_bytes // sharers:
            return False
        self._kept[position] = case
        self._bytes += case.nbytes
        return True

    def _put(self, position: int, case: DecodedCase, sharers: int) -> bool:  # noqa: ARG002
        self.open_store()
        return self.store is not None and self.store.write(position, case.arrays)

    def _checked(self, position: int) -> DecodedCase:
        return self.first if position == 0 else self._decode(self.study[position], self.first)

    def _decode(self, case: Case, first: DecodedCase | None = None) -> DecodedCase:
        image = image_of(case)
        with in_case(case.id, image.source):
            if first is not None:
                self._refuse_unlike(image.array.shape, first.image.shape)
            arrays = self._image(image)
        arrays |= self._answers(case) if self.study.kind == "classification" else self._masks(case)
        space = arrays["image"].shape[1:]
        if "raters" not in arrays and arrays["labels"].shape[1:] != space:
            shapes = f"found {space}, expected {arrays['labels'].shape[1:]} as in the masks"
            with in_case(case.id, image.source):
                raise RatersError(shapes, kind="geometry")
        if self._targets is not None:
            arrays["target"] = self._target(case, () if "raters" in arrays else space)
        if self._regions is not None:
            arrays["regions"] = np.asarray(self._regions(case), np.int32)
        return DecodedCase.of(arrays)

    def _image(self, image: Image) -> dict[str, NDArray[Any]]:
        """Normalise an image, or say how: as it is in the file it may be smaller."""
        if image.array.dtype.itemsize >= 4 or image.array.dtype.kind not in "iu":
            return {"image": self.normalisation(image.array)}
        moments = np.stack(self.normalisation.moments(image.array))
        return {"image": np.ascontiguousarray(image.array).view(), "moments": moments}

    def _answers(self, case: Case) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {"labels": case.answers.label.copy()}
        found["raters"] = case.answers.rater.astype(np.int64)
        if self._reference:
            reference = MISSING if case.reference is None else case.reference
            found["reference"] = np.asarray(reference, np.int16)
        return found

    def _masks(self, case: Case) -> dict[str, NDArray[Any]]:
        labels = case.labels.astype(self._type)
        found: dict[str, NDArray[Any]] = {"labels": labels}
        if self._reference:
            unknown = np.full(labels.shape[1:], MISSING, self._type)
            known = case.reference
            found["reference"] = unknown if known is None else known.astype(self._type)
        if self._foreground:
            out = self.study.negatives  # what is not there is no foreground
            told = [k for k, rater in enumerate(self.study.raters) if rater not in out]
            places = foreground_positions(labels[told] if out else labels)
            found["foreground"] = places.astype(np.int32) if labels[0].size < 2**31 else places
        return found

    def _target(self, case: Case, space: tuple[int, ...]) -> NDArray[Any]:
        assert self._targets is not None
        target = np.asarray(self._targets(case))
        soft = target.dtype.kind == "f"
        expected = (len(self.study.classes), *space) if soft else space
        if target.shape != expected:
            kind = "soft" if soft else "hard"
            raise RatersError(
                f"found a {kind} target of shape {target.shape} for case {case.id!r}, "
                f"expected {expected}",
                case=case.id,
            )
        return target.astype(np.float32 if soft else self._type)

    @cached_property
    def _type(self) -> type[np.int8] | type[np.int16]:
        return np.int8 if len(self.study.classes) <= 127 else np.int16

    def _refuse_unlike(self, shape: tuple[int, ...], first: tuple[int, ...]) -> None:
        name = self.study.index.ids[0]
        if len(shape) != len(first):
            raise _other_axes(len(shape) - 1, len(first) - 1, name)
        if shape[0] != first[0]:
            what = "features" if len(shape) == 1 else "channels"
            raise RatersError(
                f"found {shape[0]} {what}, expected {first[0]} as in case {name!r}", kind="channels"
            )


def _other_axes(found: int, expected: int, first: str) -> RatersError:
    return RatersError(
        f"found an image with {found} spatial axes, expected {expected} as in case {first!r}",
        kind="geometry",
    )

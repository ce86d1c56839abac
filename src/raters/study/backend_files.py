"""Studies held in files: one mask per rater and case (or one per rater, case and class)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.core.arrays import Flags, Ints
from raters.core.classes import MISSING, Classes, named_values
from raters.core.errors import RatersError, placed
from raters.core.geometry import Geometry, Header, Volume, difference
from raters.core.whole_numbers import value_counts, whole_numbers
from raters.io import formats
from raters.study.backend import Axes, Image, LabelRules, RawMask

if TYPE_CHECKING:
    from raters.study.scan import MaskFacts

Files = Mapping[str, Path]
"""Files of one mask by class (or of one image by modality); the name '' where there is one only."""


@dataclass(frozen=True)
class CaseFiles:
    """The files of one case."""

    masks: dict[str, dict[str, Path]] = field(default_factory=dict)
    images: dict[str, Path] = field(default_factory=dict)
    reference: dict[str, Path] = field(default_factory=dict)

    def listed(self) -> list[Path]:
        """All files, masks first."""
        groups = [*self.masks.values(), self.reference, self.images]
        return [path for group in groups for path in group.values()]


class FilesBackend:
    """Reads masks and images from files when they are asked for.

    Args:
        cases: The files of each case.
        rules: How mask files are to be understood.
        class_names: With one file per class, the classes in order; else empty.
        modalities: With one file a modality, their names in order; else empty.
        channels_first: Whether arrays (.npy) surely have a channel axis in front.
        white: Whether a mask of nothing but 0 and 255 means 0 and 1.

    Attributes:
        known: What masks hold that were read once, by case and rater, for as long as this lives.
    """

    def __init__(
        self,
        cases: Sequence[CaseFiles],
        rules: LabelRules,
        class_names: Sequence[str] = (),
        modalities: Sequence[str] = (),
        channels_first: bool = False,
        white: bool = False,
    ) -> None:
        self.cases = cases
        self.rules = rules
        self.class_names = tuple(class_names)
        self.modalities = tuple(modalities)
        self._channels_first = channels_first
        self._white = white
        self.known: dict[tuple[int, str | None], MaskFacts] = {}
        self._grids: dict[int, tuple[Geometry, str]] = {}

    def files(self, case: int) -> list[Path]:
        """List the files that this case is read from."""
        return self.cases[case].listed()

    def holds(self) -> dict[str, bool]:
        """Return whether there are images and references at all, without reading any."""
        return {
            "images": any(case.images for case in self.cases),
            "reference": any(case.reference for case in self.cases),
        }

    def labelled(self, case: int, rater: str | None) -> bool:
        """Return whether there is a mask of a rater (None: a reference), without reading it."""
        found = self.cases[case]
        return bool(found.reference if rater is None else found.masks.get(rater))

    def mask(self, case: int, rater: str | None) -> RawMask | None:
        """Read one rater's mask, or the reference."""
        found = self.cases[case]
        files = found.reference if rater is None else found.masks.get(rater, {})
        if not files:
            return None
        mask = _read_mask(files[""], self.rules) if "" in files else self._read_by_class(files)
        white = np.asarray(mask.values == 255) if self._white else np.zeros(0, bool)
        # Where a mask holds 0 and 255 only, 255 is 1; beside 1 it may mean something else.
        if white.any() and (white | (mask.values == 0)).all():
            mask = replace(mask, values=white.astype(np.uint8))
        return self._embedded(mask, case) if mask.source.endswith(".dcm") else mask

    def _embedded(self, mask: RawMask, case: int) -> RawMask:
        """Put a DICOM segmentation, which stores only slices with content, on the image's grid.

        Where the image cannot be read, the mask stays as it is: whoever asks for the grid of the
        case gets the error of the image, not of the mask.
        """
        try:
            image = self.image_grid(case, mask.values.ndim)
        except RatersError:
            return mask
        if image is None or image[0].affine is None:
            return mask
        with placed(file=mask.source):
            volume = Volume(mask.values, mask.geometry.affine)
            whole = formats.embed(volume, image[0].shape, image[0].affine)
        return replace(mask, values=whole.array, geometry=image[0])

    def _read_by_class(self, files: Files) -> RawMask:
        """Put one file per class together as bits: class k sets bit k."""
        total: RawMask | None = None
        bits: Ints = np.zeros(0, np.int64)
        for bit, name in enumerate(self.class_names):
            if name not in files:
                continue
            part = _read_mask(files[name], self.rules)
            inside = _one_class(part, self.rules.ignore)
            if total is None:
                total = part
                bits = np.zeros(part.values.shape, np.int64)
                ignored = np.zeros(part.values.shape, bool)
            refuse_other_grid(part.geometry, part.source, total.geometry, total.source)
            bits |= inside.astype(np.int64) << bit
            ignored |= np.isin(part.values, self.rules.ignore)
        assert total is not None  # every class in `files` is among the class names
        values = _resolve_overlap(bits, self.class_names, self.rules, total.source)
        covered: tuple[str, ...] = ()
        if self.rules.overlap == "priority":
            drawn = int(np.bitwise_or.reduce(bits, axis=None))
            left = value_counts(values)
            named = enumerate(self.class_names)
            covered = tuple(n for k, n in named if drawn >> k & 1 and k + 1 not in left)
        whole = np.where(ignored, MISSING, values)
        return RawMask(whole, total.geometry, total.source, covered=covered)

    @cached_property
    def classes(self) -> Classes:
        """The classes that all masks hold; reads every mask once."""
        from raters.study.scan import find_classes

        return find_classes(self)

    @property
    def ignored(self) -> tuple[int, ...]:
        """The values in raw masks that mean MISSING."""
        return (MISSING,) if self.class_names else self.rules.ignore

    def classes_of(self, values: Iterable[int], file_names: Mapping[int, str]) -> Classes:
        """Name the classes that the values found in raw masks stand for.

        Args:
            values: All values that were found.
            file_names: Names that the files themselves give to values.
        """
        found = set(values) | {0}
        if not self.class_names:
            return named_values(found - set(self.rules.ignore), file_names)
        names = self.class_names
        if self.rules.overlap != "combine":
            return Classes.of({0: "background", **{k + 1: n for k, n in enumerate(names)}})
        found |= {1 << k for k in range(len(names))}
        by_size = sorted(found - {MISSING}, key=lambda v: (v.bit_count(), v))
        combined = ("+".join(n for k, n in enumerate(names) if v >> k & 1) for v in by_size)
        return Classes.of({v: n or "background" for v, n in zip(by_size, combined, strict=True)})

    def image_grid(self, case: int, ndim: Axes = None) -> tuple[Geometry, str] | None:
        """Return the grid of the image from its header, which is read once."""
        files = self.cases[case].images
        if files and case not in self._grids:
            path = next(iter(files.values()))
            header = formats.probe(path)
            axis = self._channel_axis(path, header, ndim)
            space = tuple(n for k, n in enumerate(header.shape) if k != axis)
            self._grids[case] = Geometry(space, header.affine), str(path)
        return self._grids.get(case)

    def image(self, case: int, ndim: Axes = None) -> Image | None:
        """Read the image; modalities become channels."""
        parts = [self._read_image(path, ndim) for path in self._ordered_images(case)]
        if not parts:
            return None
        first = parts[0]
        for part in parts[1:]:
            refuse_other_grid(part.geometry, part.source, first.geometry, first.source)
        array = first.array if len(parts) == 1 else np.concatenate([p.array for p in parts])
        self._grids.setdefault(case, (first.geometry, first.source))
        return Image(array, first.geometry, first.source)

    def _ordered_images(self, case: int) -> list[Path]:
        files = self.cases[case].images
        if not files or "" in files:
            return list(files.values())
        for modality in self.modalities:
            if modality not in files:
                have = next(iter(files.values()))
                raise RatersError(
                    f"found no {modality!r} image beside it, expected {', '.join(self.modalities)}",
                    kind="missing-modality",
                    file=have,
                )
        return [files[modality] for modality in self.modalities]

    def _read_image(self, path: Path, ndim: Axes) -> Image:
        volume = formats.read_image(path)
        array = volume.array
        if not volume.has_channels:
            header = Header(array.shape, array.dtype, volume.affine)
            axis = self._channel_axis(path, header, ndim)
            array = array[np.newaxis] if axis is None else np.moveaxis(array, axis, 0)
        return Image(array, Geometry(array.shape[1:], volume.affine), str(path))

    def _channel_axis(self, path: Path, header: Header, ndim: Axes) -> int | None:
        """Find the channel axis of a plain array: the first, or the last if that is shorter."""
        if header.channels is not None or header.affine is not None:
            return None
        if len(header.shape) == 2 and path.suffix.lower() != ".npy":
            return None  # a grey picture
        shape = header.shape
        ndim = ndim() if callable(ndim) else ndim
        if ndim is None:
            # Two axes are a grey picture: an array with channels in front has three at least.
            return 0 if self._channels_first and len(shape) > 2 else None
        if len(shape) != ndim + 1:
            return None
        return len(shape) - 1 if shape[-1] < shape[0] and not self._channels_first else 0


def add_names(known: dict[int, str], names: Mapping[int, str], file: str) -> None:
    """Add the names that a file gives to its values; files must agree on what a value means.

    Raises:
        RatersError: for a value with two names.
    """
    for value, name in names.items():
        if known.setdefault(value, name) != name:
            message = (
                f"found {name!r} as the name of value {value}, expected {known[value]!r} as in "
                "the files before it"
            )
            raise RatersError(message, kind="class-names", file=file)


def _read_mask(path: Path, rules: LabelRules) -> RawMask:
    volume = formats.read_labels(path)
    with placed(file=path):
        values = whole_numbers(volume.array, rules.threshold)
    # Only these formats name their values; for others the header need not be read again.
    named = path.name.endswith((".dcm", ".seg.nrrd"))
    names = formats.probe(path).names if named else {}
    return RawMask(values, Geometry(values.shape, volume.affine), str(path), names=names)


def _one_class(mask: RawMask, ignore: tuple[int, ...]) -> Flags:
    """Return where a file of one class has it; it may hold 0 and one other value."""
    others = sorted(set(value_counts(mask.values)) - {0} - set(ignore))
    if len(others) > 1:
        message = (
            f"found values {', '.join(map(str, others[:5]))}, expected 0 and one other value "
            "in a file of one class (a grey mask needs --threshold)"
        )
        raise RatersError(message, kind="unknown-value", file=mask.source)
    return np.asarray(mask.values == (others[0] if others else 1))


def _resolve_overlap(bits: Ints, names: tuple[str, ...], rules: LabelRules, source: str) -> Ints:
    """Turn bits into values: the bits themselves to combine, else 1 + the number of the class."""
    if rules.overlap == "combine":
        return bits
    if rules.overlap == "error":
        several = (bits & (bits - 1)) != 0
        if several.any():
            found = [n for k, n in enumerate(names) if (int(bits[several][0]) >> k) & 1]
            message = (
                f"found {int(several.sum())} pixels in the classes {' and '.join(found)} at once, "
                "expected one class per pixel: --overlap priority lets the class listed last win "
                "(list them with --values), --overlap combine makes it a class of its own"
            )
            raise RatersError(message, kind="overlap", file=source)
    # The highest bit that is set: 0 for background, k + 1 for class k.
    return np.frexp(bits.astype(np.float64))[1].astype(np.int64)


_RESAMPLE = (
    "--resample nearest puts masks on the grid of the image, or of the first mask where there is "
    "none"
)


def refuse_other_grid(
    own: Geometry, own_file: str, other: Geometry, other_file: str, hint: str = _RESAMPLE
) -> None:
    """Reject two files of one case that lie on different grids.

    Raises:
        RatersError: that names both files and both values.
    """
    found = difference(own, other)
    if found is not None:
        what, mine, theirs = found
        message = f"found {what} {mine}, expected {theirs} as in {other_file} ({hint})"
        raise RatersError(message, kind="geometry", file=own_file)

"""What `raters check` finds in one case: what its masks hold, and what drawings of it say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product

import numpy as np

from raters.core.arrays import Array
from raters.core.classes import MISSING
from raters.core.errors import RatersError, enough_memory
from raters.core.geometry import Geometry
from raters.core.whole_numbers import refuse_grey, value_counts
from raters.core.wording import many
from raters.study.annotations import Annotation, says_rest
from raters.study.case import Case
from raters.study.check_report import Problem
from raters.study.study import Study


@dataclass(frozen=True)
class MaskScan:
    """What one mask holds: how often which value, and a fingerprint to find copies."""

    counts: dict[int, int]
    file: str
    digest: bytes
    coded: bool
    names: Mapping[int, str]
    covered: tuple[str, ...] = ()


@dataclass
class CaseScan:
    """What one case holds; the case itself is not kept, so its arrays are freed."""

    case: str
    masks: dict[str | None, MaskScan] = field(default_factory=dict)
    grid: Geometry | None = None
    image: tuple[int, str] | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def broken(self) -> bool:
        """Whether something of the case could not be read."""
        return any(p.level == "error" for p in self.problems)


def scan_case(case: Case, study: Study) -> CaseScan:
    """Read all that a case has, one thing at a time, whatever is wrong with the others."""
    scan = CaseScan(case.id)
    masks = (*study.raters, None) if study.kind == "segmentation" else ()
    errors = [e.at(rater=rater) for rater in masks for e in _scan_mask(case, rater, study, scan)]
    errors += _scan_image(case, scan)
    errors += case.grid_errors()
    scan.problems += [Problem.of(error.at(case=case.id)) for error in errors]
    scan.problems += _empty(scan, study)
    scan.problems += _copies(scan)
    if study.drawn:
        scan.problems += contradictions(case, study, scan)
    return scan


def _scan_mask(
    case: Case, rater: str | None, study: Study, scan: CaseScan
) -> Iterator[RatersError]:
    try:
        mask = case.raw_mask(rater)
    except RatersError as error:
        yield error
        return
    if mask is None:
        return
    try:
        with enough_memory(case.id, rater):
            counts = value_counts(mask.values)
            if mask.coded and set(counts) <= {MISSING}:
                return  # arrays have a place for every rater, also for one who skipped the case
            if rater is not None and study.annotations[rater] == "box":
                study.encode_drawing(mask.values, mask.coded, rater)
            elif study.classes_named:
                study.encode(mask.values, mask.coded)
            elif not mask.coded:
                refuse_grey(counts, mask.source)
            digest = _digest(mask.values, counts)
    except RatersError as error:
        yield error.at(file=mask.source)
        return
    scan.masks[rater] = MaskScan(counts, mask.source, digest, mask.coded, mask.names, mask.covered)
    scan.grid = scan.grid or mask.geometry


def _digest(values: Array, counts: dict[int, int]) -> bytes:
    """Return a fingerprint of the values, whatever their type; by rows, as a copy may be large."""
    small = min(counts, default=0) >= 0 and max(counts, default=0) < 256
    hasher = sha256(repr(values.shape).encode())
    for row in values if values.ndim > 1 else (values,):
        hasher.update(np.ascontiguousarray(row, np.uint8 if small else np.int32).data)
    return hasher.digest()


def _scan_image(case: Case, scan: CaseScan) -> Iterator[RatersError]:
    try:
        image = case.raw_image()
    except RatersError as error:
        yield error
        return
    if image is None:
        return
    scan.grid = image.geometry
    scan.image = (image.array.shape[0], str(image.array.dtype))
    if image.array.dtype.kind == "f":
        bad = int(image.array.size - np.isfinite(image.array).sum())
        if bad:
            message = f"found {bad} values that are NaN or infinite, expected numbers"
            yield RatersError(message, kind="nan-image", file=image.source)


def _empty(scan: CaseScan, study: Study) -> Iterator[Problem]:
    for rater, mask in scan.masks.items():
        labelled = labelled_values(mask, study)
        if labelled <= {0}:
            what = "nothing but background" if labelled else "nothing but 'not labelled'"
            message = f"{what} in this mask"
            if rater is not None and study.annotations[rater] != "mask":
                message = empty_message(study, rater)
            yield Problem("warning", "empty-mask", message, mask.file, scan.case, rater)


def labelled_values(mask: MaskScan, study: Study) -> set[int]:
    """Return the values of a mask that are labels, MISSING left out."""
    return set(mask.counts) - set((MISSING,) if mask.coded else study.ignored)


def _copies(scan: CaseScan) -> Iterator[Problem]:
    """Find masks of two raters that are the same to the voxel; empty ones may well be."""
    first: dict[bytes, str] = {}
    for rater, mask in scan.masks.items():
        if rater is None or set(mask.counts) <= {0, MISSING}:
            continue
        other = first.setdefault(mask.digest, rater)
        if other != rater:
            message = f"the same mask as of rater {other!r} ({scan.masks[other].file}): a copy?"
            yield Problem("warning", "same-mask", message, mask.file, scan.case, rater)


_NOTHING = "it says nothing at all"
_EMPTY: dict[Annotation, str] = {
    "positive": "it says background everywhere",
    "negative": "nothing is ruled out, so that all is foreground",
    "scribble": _NOTHING,
    "box": "it says background everywhere",
}


def empty_message(study: Study, rater: str) -> str:
    """Return what a drawing without a mark says."""
    kind = study.annotations[rater]
    rest = says_rest(kind, study.unmarked, _num_classes(study))
    said = _EMPTY[kind] if rest else _NOTHING
    return f"found no mark, expected some: of the annotation {kind!r}, {said}"


def _num_classes(study: Study) -> int:
    """Return how many classes there are; files that do not tell are named elsewhere."""
    try:
        return len(study.classes)
    except RatersError:
        return 2


def contradictions(case: Case, study: Study, scan: CaseScan) -> Iterator[Problem]:
    """Count the pixels that one rater draws as a class and another as not of that class.

    They are the same person's, or two people's who disagree; both labels are used as they are.
    """
    by_kind: dict[str, list[str]] = {"positive": [], "negative": []}
    for rater in study.raters:
        if rater in scan.masks and study.annotations[rater] in by_kind:
            by_kind[study.annotations[rater]].append(rater)
    for positive, negative in product(*by_kind.values()):
        with suppress(RatersError):  # files that cannot be read or lie elsewhere are listed already
            drawn = case.drawing(positive)
            ruled_out = case.drawing(negative)
            if drawn is None or ruled_out is None:
                continue
            both = (drawn == ruled_out) & (drawn > 0)
            if both.any():
                named = study.classes.names[int(drawn[both][0])]
                message = (
                    f"found {many(int(both.sum()), 'pixel')} drawn as not of a class (such as "
                    f"{named!r}) that rater {positive!r} draws as of that class "
                    f"({scan.masks[positive].file}), expected none"
                )
                file = scan.masks[negative].file
                yield Problem("warning", "contradiction", message, file, case.id, negative)


class UnmarkedValues:
    """Notes what is unmarked in the drawings of each rater: 0, or the value that is ignored."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._zero: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()

    def add(self, scan: CaseScan) -> Iterator[Problem]:
        """Look at the drawings of one more case; name those that leave nothing unmarked."""
        study = self._study
        for rater, mask in scan.masks.items():
            if rater is None or study.annotations[rater] == "mask":
                continue
            if says_rest(study.annotations[rater], study.unmarked, _num_classes(study)):
                continue
            labelled = labelled_values(mask, study)
            ignored = labelled != set(mask.counts)
            zero = 0 in labelled
            self._ignored[rater] += int(ignored and zero)
            self._zero[rater] += int(zero and not ignored)
            if not zero and not ignored:
                message = (
                    "found no unmarked pixel, expected some: of the annotation "
                    f"{study.annotations[rater]!r}, only marks say something (a mask?)"
                )
                yield Problem("warning", "full-drawing", message, mask.file, scan.case, rater)

    def hints(self) -> Iterator[Problem]:
        """Name raters in whose files 0 means two things."""
        for rater, files in self._ignored.items():
            if files and self._zero[rater]:
                message = (
                    f"found 0 beside the value that is ignored in {many(files, 'file')}, where it "
                    "is a mark of background, and without it in "
                    f"{many(self._zero[rater], 'file')}, where it is unmarked; expected one of them"
                )
                yield Problem("warning", "unmarked", message, rater=rater)

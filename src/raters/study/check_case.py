"""Reads one case for `raters check` and keeps only what the report needs of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError, enough_memory
from raters.study.case import Case
from raters.study.check_report import Problem
from raters.study.classes import MISSING
from raters.study.geometry import Geometry
from raters.study.study import Study
from raters.study.whole_numbers import refuse_grey, value_counts


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
    except RatersError as error:
        yield error.at(file=mask.source)
        return
    if mask.coded and set(counts) <= {MISSING}:
        return  # arrays have a place for every rater, also for one who skipped the case
    try:
        with enough_memory(case.id, rater):
            if study.classes_named:
                study.encode(mask.values, mask.coded)
            elif not mask.coded:
                refuse_grey(counts, mask.source)
            digest = _digest(mask.values, counts)
    except RatersError as error:
        yield error.at(file=mask.source)
        return
    scan.masks[rater] = MaskScan(counts, mask.source, digest, mask.coded, mask.names, mask.covered)
    scan.grid = scan.grid or mask.geometry


def _digest(values: NDArray[Any], counts: dict[int, int]) -> bytes:
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

"""Reads the masks of a study once: which values they hold, how often, and on which grid."""

from __future__ import annotations

import multiprocessing
import os
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from raters.core.classes import Classes
from raters.core.errors import RatersError, enough_memory
from raters.core.geometry import Geometry
from raters.core.progress import ordered_map
from raters.core.whole_numbers import refuse_grey, value_counts
from raters.study.backend import RawMask
from raters.study.backend_files import FilesBackend, add_names

MANY = 1000
"""So many cases are worth processes."""


@dataclass(frozen=True)
class MaskFacts:
    """What is known of a mask once it was read; the mask itself need not be kept.

    Attributes:
        counts: How often each value occurs.
        labels: How many pixels are labelled.
        coded: Whether values are class numbers already.
        geometry: The grid of the mask.
        source: The file.
        names: Names that the file itself gives to values.
        missing: One bit per pixel, packed and compressed: where nothing was labelled; None where
            everything was.
    """

    counts: dict[int, int]
    labels: int
    coded: bool
    geometry: Geometry
    source: str
    names: Mapping[int, str]
    missing: bytes | None


def facts_of(mask: RawMask, ignored: Collection[int]) -> MaskFacts:
    """Count the values of a mask, and note where those are that mean 'not labelled'.

    Example:
        >>> mask = RawMask(np.array([[0, 255, 1, 1]]), Geometry((1, 4)), "a.png")
        >>> facts = facts_of(mask, ignored=[255])
        >>> facts.labels
        3
        >>> facts.counts, np.unpackbits(np.frombuffer(zlib.decompress(facts.missing), np.uint8))
        ({0: 1, 1: 2, 255: 1}, array([0, 1, 0, 0, 0, 0, 0, 0], dtype=uint8))
    """
    counts = value_counts(mask.values)
    open_ = [value for value in ignored if value in counts]
    bits = zlib.compress(np.packbits(np.isin(mask.values, open_)).tobytes(), 1) if open_ else None
    labels = sum(times for value, times in counts.items() if value not in open_)
    return MaskFacts(counts, labels, mask.coded, mask.geometry, mask.source, mask.names, bits)


def find_classes(backend: FilesBackend) -> Classes:
    """Find the classes of masks that were not named: the values in all files, in order.

    Files that cannot be read, and grey ones, are passed over here; whoever reads them later gets
    the error.

    Raises:
        RatersError: where not one mask could be read.
    """
    found: set[int] = set()
    names: dict[int, str] = {}
    failures: list[RatersError] = []
    read = 0
    for row, case in enumerate(_all_values(backend)):
        backend.known.update({(row, rater): facts for rater, facts in case.masks.items()})
        found |= case.values
        read += bool(case.values)
        failures += case.errors
        for named, source in case.names:
            try:
                add_names(names, named, source)
            except RatersError as error:
                failures.append(error)
    fatal = next((e for e in failures if e.kind == "class-names"), None)
    if fatal is not None:
        raise fatal
    if failures and not read:
        raise next((e for e in failures if e.kind == "grey"), failures[0])
    return backend.classes_of(found, names)


class _Found(NamedTuple):
    """What the masks of a case hold: facts, values, names that files give, and what failed."""

    masks: dict[str | None, MaskFacts]
    values: set[int]
    names: list[tuple[Mapping[int, str], str]]
    errors: list[RatersError]


def _all_values(backend: FilesBackend) -> Iterator[_Found]:
    """Read all masks: on threads, or by processes where there are so many that it pays.

    Small masks are decoded so fast that Python's lock, which threads share, is what they wait for.
    """
    cases = range(len(backend.cases))
    cores = os.cpu_count() or 1
    # A process that somebody made to be one of many must not make more.
    alone = cores == 1 or multiprocessing.current_process().daemon or sys.platform != "linux"
    if len(cases) < MANY or alone:
        yield from ordered_map(lambda case: _case_values(backend, case), cases)
        return
    with multiprocessing.get_context("fork").Pool(cores, _scanned.append, (backend,)) as pool:
        yield from pool.imap(_remembered_values, cases, chunksize=100)


_scanned: list[FilesBackend] = []  # in a process that reads for another: what it reads


def _remembered_values(case: int) -> _Found:
    return _case_values(_scanned[-1], case)


def _case_values(backend: FilesBackend, case: int) -> _Found:
    found = _Found({}, set(), [], [])
    for rater in (*backend.cases[case].masks, None):
        try:
            with enough_memory(rater=rater):
                facts = backend.known.get((case, rater))
                if facts is None:
                    mask = backend.mask(case, rater)
                    facts = None if mask is None else facts_of(mask, backend.ignored)
                if facts is not None:
                    refuse_grey(facts.counts, facts.source)
                    if facts.names:
                        found.names.append((facts.names, facts.source))
                    found.values.update(facts.counts)
                    found.masks[rater] = facts
        except RatersError as error:
            found.errors.append(error)
    return found

"""Reads the masks of a study once to find which values they hold."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from raters.errors import RatersError, no_memory
from raters.study.backend_files import FilesBackend, add_names
from raters.study.parallel import ordered_map
from raters.study.whole_numbers import refuse_grey, value_counts

if TYPE_CHECKING:
    from raters.study.classes import Classes

MANY = 1000
"""So many cases are worth processes."""


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
    for case in _all_values(backend):
        found |= case.values
        read += bool(case.values)
        failures += case.errors
        for named, source in case.names:
            try:
                add_names(names, named, source)
            except RatersError as error:
                failures.append(error)
    fatal = next((e for e in failures if e.kind == "class-names"), None)
    if fatal is not None or (failures and not read):
        raise fatal or next((e for e in failures if e.kind == "grey"), failures[0])
    return backend.classes_of(found, names)


class _Found(NamedTuple):
    """What the masks of a case hold: values, names that files give to them, and what failed."""

    values: set[int]
    names: list[tuple[Mapping[int, str], str]]
    errors: list[RatersError]


def _all_values(backend: FilesBackend) -> Iterator[_Found]:
    """Read all masks: on threads, or by processes where there are so many that it pays.

    Small masks are decoded so fast that Python's lock, which threads share, is what they wait for.
    """
    cases, cores = range(len(backend.cases)), os.cpu_count() or 1
    # A process that somebody made to be one of many must not make more.
    alone = cores == 1 or multiprocessing.current_process().daemon or sys.platform != "linux"
    if len(cases) < MANY or alone:
        yield from ordered_map(lambda case: _case_values(backend, case), cases)
        return
    with multiprocessing.get_context("fork").Pool(cores, _remember, (backend,)) as pool:
        yield from pool.imap(_remembered_values, cases, chunksize=100)


_scanned: list[FilesBackend] = []  # in a process that reads for another: what it reads


def _remember(backend: FilesBackend) -> None:
    _scanned[:] = [backend]


def _remembered_values(case: int) -> _Found:
    return _case_values(_scanned[0], case)


def _case_values(backend: FilesBackend, case: int) -> _Found:
    found = _Found(set(), [], [])
    for rater in (*backend.cases[case].masks, None):
        try:
            mask = backend.mask(case, rater)
            if mask is not None:
                counts = value_counts(mask.values)
                refuse_grey(counts, mask.source)
                if mask.names:
                    found.names.append((mask.names, mask.source))
                found.values.update(counts)
        except RatersError as error:
            found.errors.append(error)
        except MemoryError as error:
            found.errors.append(no_memory(error, None, rater))
    return found

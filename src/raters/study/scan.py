"""Reads the masks of a study once to find which values they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raters.errors import RatersError
from raters.study.backend_files import FilesBackend, add_names
from raters.study.parallel import ordered_map
from raters.study.whole_numbers import refuse_grey, value_counts

if TYPE_CHECKING:
    from raters.study.classes import Classes


def find_classes(backend: FilesBackend) -> Classes:
    """Find the classes of masks that nobody named: the values in all files, in order.

    Files that cannot be read, and grey ones, are passed over here; whoever reads them later gets
    the error.

    Raises:
        RatersError: where not one mask could be read.
    """
    found: set[int] = set()
    names: dict[int, str] = {}
    failures: list[RatersError] = []
    read = 0
    for values, errors in ordered_map(
        lambda k: _case_values(backend, k, names), range(len(backend.cases))
    ):
        found |= values
        read += bool(values)
        failures += errors
    fatal = next((e for e in failures if e.kind == "class-names"), None)
    if fatal is not None or (failures and not read):
        raise fatal or next((e for e in failures if e.kind == "grey"), failures[0])
    return backend.classes_of(found, names)


def _case_values(
    backend: FilesBackend, case: int, names: dict[int, str]
) -> tuple[set[int], list[RatersError]]:
    values: set[int] = set()
    errors: list[RatersError] = []
    for rater in (*backend.cases[case].masks, None):
        try:
            mask = backend.mask(case, rater)
            if mask is not None:
                counts = value_counts(mask.values)
                refuse_grey(counts, mask.source)
                add_names(names, mask.names, mask.source)
                values |= set(counts)
        except RatersError as error:
            errors.append(error)
    return values, errors

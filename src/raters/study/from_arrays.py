"""Makes a study from arrays: dense masks, or dense class labels that become a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.backend import Backend
from raters.study.backend_arrays import ArraysBackend, refuse_bad_labels, whole_labels
from raters.study.backend_table import TableBackend
from raters.study.classes import MISSING, Classes
from raters.study.study import Kind
from raters.study.triplets import Triplets


def arrays_backend(
    ids: NDArray[np.object_],
    images: Any,  # noqa: ANN401
    labels: Any,  # noqa: ANN401
    reference: Any,  # noqa: ANN401
    raters: Sequence[str] | None,
    classes: Any,  # noqa: ANN401
    affines: Any,  # noqa: ANN401
) -> tuple[Backend, Kind, tuple[str, ...], Classes]:
    """Make the store of `Study.from_arrays`; also give the kind, the raters and the classes."""
    names = _rater_names(labels, raters)
    found = _classes(classes, labels, reference)
    for what, arrays in (("labels", labels), ("reference labels", reference)):
        if arrays is not None:
            refuse_bad_labels(arrays, len(found), what)
    if not _is_classification(labels, reference):
        masks = ArraysBackend(names, labels, images, reference, affines)
        return masks, "segmentation", names, found
    table = TableBackend(
        _triplets(labels, ids, names, found),
        None if images is None else ArraysBackend([], None, images),
        None
        if reference is None
        else np.array([MISSING if truth is None else truth for truth in reference], np.int16),
    )
    return table, "classification", names, found


def _rater_names(labels: Any, given: Sequence[str] | None) -> tuple[str, ...]:  # noqa: ANN401
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
    """Return the names of cases, by default '0', '1', ...; each must be there once.

    Raises:
        RatersError: that names the one that comes twice or is empty.
    """
    names = [str(name) for name in (range(number) if given is None else given)]
    seen: set[str] = set()
    for name in names:
        if name in seen or not name:
            raise RatersError(f"found the case name {name!r} twice or empty, expected each once")
        seen.add(name)
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


def _classes(given: Any, labels: Any, reference: Any) -> Classes:  # noqa: ANN401
    if given is not None:
        return Classes.of(given)
    groups = {"labels": labels, "reference labels": reference}
    highest = max(
        (
            int(np.max(whole_labels(array, what, case)))
            for what, group in groups.items()
            for case, array in enumerate(() if group is None else group)
            if array is not None and np.size(array)
        ),
        default=1,
    )
    return Classes.from_values(range(max(highest, 1) + 1))


def _triplets(
    labels: Any,  # noqa: ANN401
    ids: NDArray[np.object_],
    raters: tuple[str, ...],
    classes: Classes,
) -> Triplets:
    dense = np.zeros((len(ids), 0), np.int16) if labels is None else np.asarray(labels, np.int16)
    task, rater = np.nonzero(dense >= 0)
    return Triplets(
        task.astype(np.int32),
        rater.astype(np.int32),
        dense[task, rater],
        ids,
        raters,
        classes.values,
    )

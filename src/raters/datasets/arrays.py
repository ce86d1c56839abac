"""Makes studies from arrays that loaders have in memory or read one case at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.arrays import Array
from raters.study.backend import ArraysBackend
from raters.study.classes import Classes
from raters.study.study import CaseIndex, Study, name_array

if TYPE_CHECKING:
    from raters.study.backend import Backend

Arrays = Any
"""An array, or a sequence of arrays (or None) by case."""


_REMEMBERED = 8


class Lazy(Sequence[Any]):
    """Arrays that are made when they are asked for; the last few are remembered.

    The masks of all raters of a case are made at once and asked for one by one.

    Example:
        >>> list(Lazy(3, lambda k: k * k))
        [0, 1, 4]
    """

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self._length, self._make = length, lru_cache(_REMEMBERED)(make)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: Any) -> Any:  # noqa: ANN401
        return self._make(range(self._length)[position])

    def __iter__(self) -> Iterator[Any]:
        return (self._make(k) for k in range(self._length))


class SourceArrays(ArraysBackend):
    """Arrays that know which files they were read from, so a changed file is imported again."""

    def __init__(self, sources: Sequence[Path], *args: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self._sources = list(sources)

    def files(self, case: int) -> list[Path]:  # noqa: ARG002
        """List the files of the whole data set: each holds all cases."""
        return self._sources


def masks_study(
    sources: Sequence[Path],
    index: CaseIndex,
    classes: Classes,
    about: dict[str, str],
    *,
    images: Arrays = None,
    labels: Arrays = None,
    reference: Arrays = None,
    raters: Sequence[str] = (),
    affines: Arrays = None,
) -> Study:
    """Make a study of masks; nothing is looked at before it is asked for."""
    backend = SourceArrays(sources, raters, labels, images, reference, affines)
    return Study(backend, index, tuple(raters), about=about, _classes=classes)


def class_study(
    inputs: Backend | None,
    index: CaseIndex,
    classes: Classes,
    about: dict[str, str],
    reference: Array,
    *,
    raters: Sequence[str] = (),
    answers: tuple[Any, Any, Any] = ((), (), ()),
) -> Study:
    """Make a study of class labels.

    Args:
        inputs: Where images or features come from.
        index: The cases.
        classes: The classes.
        about: Title, licence, citation.
        reference: The true class of each case, MISSING where unknown.
        raters: The names of the raters.
        answers: Positions of task, rater and label of each answer.
    """
    from raters.study.triplets import TableBackend, Triplets

    task, rater, label = (np.asarray(column, np.int32) for column in answers)
    triplets = Triplets(task, rater, label, index.ids, tuple(raters), classes.values)  # type: ignore[arg-type]
    backend = TableBackend(triplets, inputs, np.asarray(reference, np.int16))
    return Study(backend, index, tuple(raters), "classification", about=about, _classes=classes)


def grouped(study: Study, group: Callable[[str], str]) -> Study:
    """Return cases the group that their name tells."""
    groups = name_array(group(case) for case in study.index.ids)
    return replace(study, index=replace(study.index, groups=groups))


def rows_of_answers(dense: Array) -> tuple[Any, Any, Any]:
    """Turn `(cases, raters)` with negative numbers for 'no answer' into columns of answers.

    Example:
        >>> rows_of_answers(np.array([[1, -1], [-1, 0]]))
        (array([0, 1]), array([0, 1]), array([1, 0]))
    """
    task, rater = np.nonzero(dense >= 0)
    return task, rater, dense[task, rater]

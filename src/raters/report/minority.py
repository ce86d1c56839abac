"""Classes that only a minority of the raters drew: they are what a consensus can get wrong most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.report.words import begin, named, together


@dataclass(frozen=True)
class Minority:
    """A class that fewer than half of the raters of some cases drew.

    Attributes:
        number: The class.
        cases: Positions of these cases, the one with the largest region first.
        of: In how many cases anybody drew the class.
        who: Positions of the raters who drew it in the first case.
        labelled: How many raters labelled the first case.
        size: How much there is of it in the first case.
    """

    number: int
    cases: tuple[int, ...]
    of: int
    who: tuple[int, ...]
    labelled: int
    size: int


def minorities(
    drew: NDArray[np.bool_], labelled: NDArray[np.bool_], size: NDArray[Any]
) -> list[Minority]:
    """Find foreground classes that a minority drew, those of most cases first.

    Args:
        drew: Who drew which class in which case, `(cases, raters, L)`.
        labelled: Who labelled the case, `(cases, raters)`.
        size: How much there is of each class, `(cases, L)`; cases with none are left out.

    Example:
        >>> drew = np.array([[[1, 1, 0], [1, 1, 0], [1, 1, 1]]], bool)
        >>> found = minorities(drew, np.ones((1, 3), bool), np.array([[90, 8, 2]]))
        >>> [(one.number, one.who, one.labelled, one.size) for one in found]
        [(2, (2,), 3, 2)]
    """
    raters = labelled.sum(axis=1)
    found = []
    for number in range(1, drew.shape[2]):
        own = drew[:, :, number].sum(axis=1)
        there = (own > 0) & (size[:, number] > 0)
        few = np.flatnonzero(there & (2 * own < raters))
        if few.size:
            few = few[np.argsort(-size[few, number], kind="stable")]
            who = tuple(np.flatnonzero(drew[few[0], :, number]).tolist())
            found.append(
                Minority(
                    number,
                    tuple(few.tolist()),
                    int(there.sum()),
                    who,
                    int(raters[few[0]]),
                    int(size[few[0], number]),
                )
            )
    return sorted(found, key=lambda one: -len(one.cases) / one.of)


def minority_sentence(
    found: Sequence[Minority],
    cases: Sequence[str],
    raters: Sequence[str],
    classes: Sequence[str],
    unit: str,
    followed: str = "",
) -> str:
    """Return which class a minority drew, and who.

    Args:
        found: What `minorities` gives.
        cases: Names of the cases.
        raters: Names of the raters; none for raters without names.
        classes: Names of the classes.
        unit: Of the size: 'pixels', 'voxels', 'mm³'.
        followed: Who put it into the consensus all the same, such as 'staple'.

    Example:
        >>> one = Minority(2, (0,), 1, (0, 2), 5, 309)
        >>> minority_sentence([one], ["a7"], "ann bob cy dan eve".split(), "012", "voxels")
        'Class 2 was drawn by 2 of 5 raters only (ann and cy; 309 voxels in case a7): ask \
whether it is there before its border is discussed.'
    """
    if not found:
        return ""
    first = found[0]
    who = f"{together([named(raters[k]) for k in first.who])}; " if raters else ""
    case = f"case {cases[first.cases[0]]}"
    what = begin(named(classes[first.number], "class"))
    size = f"{first.size:,} {unit}"
    drew = f"{len(first.who)} of {first.labelled} raters"
    if len(cases) == 1:
        text = f"{what} was drawn by {drew} only ({who}{size} in {case})"
    else:
        all_ = len(first.cases) == first.of
        share = f"all {first.of:,}" if all_ else f"{len(first.cases):,} of the {first.of:,}"
        text = (
            f"{what} was drawn by fewer than half of the raters in {share} cases that have it, the "
            f"largest in {case} ({drew}: {who}{size})"
        )
    if followed:
        return f"{text}, and the consensus ({followed}) followed them: see whether you would."
    return f"{text}: ask whether it is there before its border is discussed."

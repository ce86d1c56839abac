"""What a consensus of two raters is: there is no majority among two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.report.words import named
from raters.study.classes import MISSING

KINDS = ("both", "either", "first", "second")


def kinds_of(labels: NDArray[Any], consensus: NDArray[Any]) -> dict[str, bool] | None:
    """Return what the consensus of two raters is in a case; None where they do not differ.

    Args:
        labels: Class numbers with MISSING, `(2, *space)`.
        consensus: That of the case, `(*space)`.

    Returns:
        Whether it is what both drew (intersection), what either drew (union), what the first drew,
        what the second drew.

    Example:
        >>> labels = np.array([[0, 1, 1, 0], [0, 0, 1, 1]])
        >>> kinds_of(labels, np.array([0, 0, 1, 0]))["both"]
        True
    """
    first, second = labels
    seen = (first != MISSING) & (second != MISSING) & (consensus != MISSING)
    a, b, c = first[seen], second[seen], consensus[seen]
    differ = a != b
    if not differ.any():
        return None
    both = np.where(differ, 0, a)
    either = np.where(differ & (a > 0) & (b > 0), c, np.maximum(a, b))
    ways = (both, either, a, b)
    return {kind: bool((c == way).all()) for kind, way in zip(KINDS, ways, strict=True)}


def two_sentence(kind: str, method: str, raters: Sequence[str]) -> str:
    """Return what a consensus of two raters is worth.

    Args:
        kind: One of `KINDS`, or '' for none of them.
        method: The name of the method.
        raters: The two names.

    Example:
        >>> two_sentence("both", "staple", ["ann", "bob"])[:64]
        'With two raters staple gives their intersection: the consensus i'
    """
    third = "Only a third rater or an expert can say who is right where they differ."
    one, other = (named(rater) for rater in raters)
    if kind == "both":
        return (
            f"With two raters {method} gives their intersection: the consensus is exactly what "
            f"both drew. So neither can miss any of it, and what {one} draws beyond it is what "
            f"{other} left out: no error. {third}"
        )
    if kind == "either":
        return (
            f"With two raters {method} gives their union: the consensus is exactly what either "
            f"drew. So neither can draw beyond it, and what {one} misses is what only {other} "
            f"drew: no error. {third}"
        )
    if kind:
        own, left = (one, other) if kind == "first" else (other, one)
        return (
            f"With two raters there is no majority: {method} follows {own} everywhere, so {own} "
            f"looks perfect and {left} bears all differences. {third}"
        )
    return f"With two raters there is no majority: the consensus is a guess. {third}"

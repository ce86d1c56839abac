"""Fewer cases of a grid that still hold every pair of values of any two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def all_pairs(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Choose cases of the full grid, greedily: each time the one with the most new pairs.

    A fault that two values cause together is then met as surely as in the full grid.
    """
    grid = list(product(*(range(len(values)) for values in parameters)))
    pairs_of = {case: set(combinations(enumerate(case), 2)) for case in grid}
    left = set().union(*pairs_of.values())
    chosen = []
    while left:
        best = max(grid, key=lambda case: len(pairs_of[case] & left))
        left -= pairs_of[best]
        chosen.append(tuple(values[k] for values, k in zip(parameters, best, strict=True)))
    return chosen

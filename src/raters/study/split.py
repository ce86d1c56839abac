"""Splits by group: no patient is ever in two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from raters.errors import RatersError


def assign_splits(
    groups: Iterable[str], fractions: Mapping[str, float], seed: int = 0
) -> list[str]:
    """Assign each case to a split, whole groups at a time, in an order drawn from the seed.

    The fractions are of cases and need not sum to one. Groups are dealt in random order, each to
    the split that is furthest below its share, so that every split with a share gets a group as
    long as there are groups.

    Example:
        >>> assign_splits(["p1", "p1", "p2", "p3"], {"train": 0.5, "test": 0.5}, seed=0)
        ['test', 'test', 'train', 'train']
    """
    total = sum(fractions.values())
    if not fractions or not all(0 < share < np.inf for share in fractions.values()):
        raise RatersError(
            f"found shares {dict(fractions)}, expected positive numbers such as train=0.8, test=0.2"
        )
    if seed < 0:
        raise RatersError(f"found the seed {seed}, expected 0 or more")
    group_of = [str(group) for group in groups]
    names, sizes = np.unique(group_of, return_counts=True)
    if len(names) < len(fractions):
        raise RatersError(
            f"found {len(names)} groups for {len(fractions)} splits, expected a group for each"
        )
    share = np.array(list(fractions.values())) / total * len(group_of)
    filled = np.zeros(len(share))
    split_of: dict[str, str] = {}
    for k in np.random.default_rng(seed).permutation(len(names)):
        goal = int(np.argmin(filled / share))
        filled[goal] += sizes[k]
        split_of[str(names[k])] = list(fractions)[goal]
    return [split_of[group] for group in group_of]

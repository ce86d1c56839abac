"""What to say of a fused table: whether methods differ, and whether raters have enough answers.

No method is the best on every table. Where they agree, it does not matter which one is taken;
where they differ on many tasks, some of them are wrong, and labels alone do not tell which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.fusion.answers import answers_of, vote_shares
from raters.fusion.dawid_skene import dawid_skene
from raters.fusion.one_coin import one_coin
from raters.fusion.result import Fusion
from raters.study.classes import MISSING
from raters.study.triplets import Triplets

ENOUGH = 10
"""Answers per rater and class above which one matrix per rater can be estimated well."""

MANY = 0.1
"""The share of tasks from which on differing methods are worth a note."""

MOST_ANSWERS = 1_000_000
"""Larger tables are not fused by other methods for the sake of a note."""

_METHODS = ("vote", "one-coin", "dawid-skene")


def table_notes(
    triplets: Triplets, num_classes: int, fusion: Fusion, method: str, options: Mapping[str, Any]
) -> list[str]:
    """Return notes on a table that was fused by a method.

    Example:
        >>> task, rater = np.divmod(np.arange(60), 3)
        >>> table = Triplets(task, rater, task % 2, list(map(str, range(20))), tuple("abc"), (0, 1))
        >>> table_notes(table, 2, dawid_skene(table, 2), "dawid-skene", {})
        []
    """
    notes = []
    if method == "dawid-skene" and not options.get("smoothing"):
        notes += _few_answers(triplets, num_classes)
    if method in _METHODS and 0 < len(triplets) <= MOST_ANSWERS:
        notes += _differ(triplets, num_classes, fusion, method)
    return notes


def _few_answers(triplets: Triplets, num_classes: int) -> list[str]:
    given = np.bincount(triplets.rater[triplets.label != MISSING])
    given = given[given > 0]
    if not given.size or np.median(given) >= ENOUGH * num_classes:
        return []
    return [
        f"half of the {len(given):,} raters have at most {np.median(given):,.0f} answers, and "
        f"dawid-skene estimates {num_classes * (num_classes - 1):,} numbers of each (it needs "
        f"about {ENOUGH} answers per class): compare with vote, one-coin and --option smoothing=2"
    ]


def _differ(triplets: Triplets, num_classes: int, fusion: Fusion, method: str) -> list[str]:
    shares = vote_shares(answers_of(triplets, num_classes))
    highest = shares.max(axis=1)
    clear = ((shares == highest[:, np.newaxis]).sum(axis=1) == 1) & (fusion.labels != MISSING)
    if not clear.any():
        return []
    others: dict[str, Callable[[], NDArray[Any]]] = {
        "vote": lambda: shares.argmax(axis=1),
        "one-coin": lambda: one_coin(triplets, num_classes).labels,
        "dawid-skene": lambda: dawid_skene(triplets, num_classes).labels,
    }
    differ = {
        name: float((labels() != fusion.labels)[clear].mean())
        for name, labels in others.items()
        if name != method
    }
    if max(differ.values()) <= MANY:
        return []
    shown = " and ".join(f"from {name} on {share:.0%}" for name, share in differ.items())
    return [
        f"the labels differ {shown} of the tasks (ties of the vote left out): no method is safe "
        "here; check some of these tasks by hand before you choose one"
    ]

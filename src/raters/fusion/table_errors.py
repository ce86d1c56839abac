"""Standard errors of raters' measures in tables, by a bootstrap over groups of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raters.fusion.performance import measures
from raters.fusion.result import Fusion
from raters.study.triplets import Triplets

if TYPE_CHECKING:
    from raters.study.study import Study

MOST_LABELS = 300_000
"""Larger tables are fitted once: hundreds of fits would take too long."""


def bootstrap_table(
    study: Study, fuse: Callable[[Triplets], Fusion], repeats: int, seed: int = 0
) -> NDArray[np.float64] | None:
    """Give the raters' measures, `(repeats, raters, 4, L)`, of tables with groups drawn anew.

    NaN in repeats without the rater. None for large tables, or one group only.
    """
    triplets = study.triplets
    names, group = np.unique(study.index.groups.astype(str), return_inverse=True)
    if len(triplets) > MOST_LABELS or len(names) < 2:
        return None
    starts = np.searchsorted(triplets.task, np.arange(len(study) + 1))
    members = [np.flatnonzero(group == g) for g in range(len(names))]
    random = np.random.default_rng(seed)
    found = []
    for _ in range(repeats):
        drawn = random.integers(len(names), size=len(names))
        tasks = np.concatenate([members[g] for g in drawn])
        found.append(_measures(fuse, _taken(triplets, tasks, starts)))
    return np.array(found)


def _taken(triplets: Triplets, tasks: NDArray[np.intp], starts: NDArray[np.intp]) -> Triplets:
    """Make a table of some tasks, each as often as it is named."""
    sizes = starts[tasks + 1] - starts[tasks]
    first = np.repeat(starts[tasks] - (np.cumsum(sizes) - sizes), sizes)
    rows = first + np.arange(sizes.sum())
    number = np.repeat(np.arange(len(tasks)), sizes).astype(np.int32)
    names = np.arange(len(tasks)).astype(str).astype(object)
    return Triplets(
        number, triplets.rater[rows], triplets.label[rows], names, triplets.raters, triplets.values
    )


def _measures(fuse: Callable[[Triplets], Fusion], triplets: Triplets) -> NDArray[np.float64]:
    fusion = fuse(triplets)
    assert fusion.confusion is not None and fusion.prior is not None  # asked of these only
    values = np.stack([measures(matrix, fusion.prior) for matrix in fusion.confusion])
    given = np.bincount(triplets.rater, minlength=len(triplets.raters)) > 0
    return np.where(given[:, np.newaxis, np.newaxis], values, np.nan)

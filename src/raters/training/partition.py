"""Which cases are trained on, which are held out, and which can teach nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.methods.registry import learning_method
from raters.study.study import Study
from raters.training.checks import has_reference, learnable

HELD_OUT = ("val", "valid", "validate", "validation", "dev")


class Partition(NamedTuple):
    """Positions of cases in a study.

    Attributes:
        train: Cases that are trained on.
        held_out: Cases that the best epoch is chosen on; may be empty.
    """

    train: NDArray[np.intp]
    held_out: NDArray[np.intp]


def partition(study: Study, share: float, seed: int, method: str | None = None) -> Partition:
    """Take the splits 'train' and 'val' (or 'validation', ...), or hold out a share of groups.

    Cases of other splits, such as 'test', are never touched.

    Args:
        study: All cases.
        share: The share of groups to hold out if no split says so.
        seed: Randomness of that.
        method: Leave out cases that this method cannot learn from: that no rater labelled, or
            without reference for `truth`. A held-out case needs either.

    Example:
        >>> study = Study.from_arrays(labels=np.zeros((10, 1, 2, 2), int))
        >>> [len(part) for part in partition(study, 0.2, seed=0)]
        [8, 2]
    """
    train, held_out = by_split(study)
    chosen = len(held_out) > 0
    if method is not None:
        teaches = learnable(study, method)
        if not teaches[train].any():
            raise _nothing_to_learn(study, method)
        scores = teaches | has_reference(study)
        train, held_out = train[teaches[train]], held_out[scores[held_out]]
    if not chosen and share > 0 and len(set(study.index.groups[train])) > 1:
        rest = study.select(cases=list(study.index.ids[train]))
        names = rest.split(seed=seed, train=1 - share, val=share).index.splits
        train, held_out = train[names != "val"], train[names == "val"]
    return Partition(train, held_out)


def left_out(study: Study, used: Sequence[str] | NDArray[np.object_]) -> int:
    """Return how many cases of the splits that are used at all are not among those used."""
    return len(set(study.index.ids[np.concatenate(by_split(study))]) - set(used))


def by_split(study: Study) -> Partition:
    """Return the cases of the splits 'train' and 'val'; all are of 'train' by default."""
    splits = study.index.splits
    train = np.flatnonzero(splits == "train")
    held_out = np.flatnonzero(np.isin(splits, HELD_OUT))
    if not len(train):
        train = np.flatnonzero(splits == "")
    if not len(train):
        found = ", ".join(sorted(set(splits))) or "none"
        raise RatersError(f"found only cases of the splits {found}, expected some of 'train'")
    return Partition(train, held_out)


def _nothing_to_learn(study: Study, method: str) -> RatersError:
    if not learning_method(method).raters:
        return RatersError(
            f"found no reference of case {study.index.ids[0]!r} or any other to train on, "
            f"expected some: {method} trains on references "
            '(--reference "truth/{case}.png")'
        )
    if not study.raters:
        return RatersError("found no raters, expected labels to learn from")
    return RatersError("found no labels in the cases to train on, expected at least one")

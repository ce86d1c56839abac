"""Which cases are trained on and which are held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.study import Study

HELD_OUT = ("val", "valid", "validate", "validation", "dev")


class Partition(NamedTuple):
    """Positions of cases in a study.

    Attributes:
        train: Cases that are trained on.
        held_out: Cases that the best epoch is chosen on; may be empty.
    """

    train: NDArray[np.intp]
    held_out: NDArray[np.intp]


def partition(study: Study, share: float, seed: int) -> Partition:
    """Take the splits 'train' and 'val' (or 'validation', ...), or hold out a share of groups.

    Cases of other splits, such as 'test', are never touched.

    Example:
        >>> study = Study.from_arrays(labels=np.zeros((10, 1, 2, 2), int))
        >>> [len(part) for part in partition(study, 0.2, seed=0)]
        [8, 2]
    """
    splits = study.index.splits
    train = np.flatnonzero(splits == "train")
    held_out = np.flatnonzero(np.isin(splits, HELD_OUT))
    if not len(train):
        train = np.flatnonzero(splits == "")
    if not len(train):
        found = ", ".join(sorted(set(splits)))
        raise RatersError(f"found only cases of the splits {found}, expected some of 'train'")
    if not len(held_out) and share > 0 and len(set(study.index.groups[train])) > 1:
        rest = study.select(cases=list(study.index.ids[train]))
        names = rest.split(seed=seed, train=1 - share, val=share).index.splits
        train, held_out = train[names != "val"], train[names == "val"]
    return Partition(train, held_out)

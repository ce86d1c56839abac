"""Folds of one's own study: they go by group; each is held out once, and 'test' is left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from raters.core.errors import RatersError
from raters.core.wording import many
from raters.study.cases import assign_splits
from raters.study.study import Study


def without_test(study: Study) -> Study:
    """Leave out the cases of the split 'test': what chooses a method must not see them."""
    return study.take(np.flatnonzero(study.index.splits != "test"))


def folded(study: Study, fold: int, folds: int, val_fraction: float = 0.15) -> Study:
    """Deal cases into folds by group; one is 'test', of the others a share is 'val'.

    Raises:
        RatersError: There are fewer groups than folds, or none is left to choose the epoch by.

    Example:
        >>> study = Study.from_arrays(labels=np.zeros((6, 2, 1, 1), int))
        >>> [list(folded(study, fold, 3).index.splits) for fold in range(2)]
        [['val', 'train', 'train', 'test', 'test', 'train'],
         ['test', 'train', 'test', 'val', 'train', 'train']]
    """
    groups = study.index.groups
    number = len(set(groups))
    if number < max(folds, 3):
        raise RatersError(
            f"found {many(number, 'group')} for {many(folds, 'fold')}, expected at least "
            f"{max(folds, 3)}: a group (patient) is in one fold only, and some choose the epoch",
            kind="groups",
        )
    dealt = np.array(assign_splits(groups, dict.fromkeys(map(str, range(folds)), 1.0)))
    splits = np.where(dealt == str(fold), "test", "").astype(object)
    rest = splits == ""
    splits[rest] = assign_splits(
        groups[rest], {"train": 1 - val_fraction, "val": val_fraction}, seed=fold
    )
    return replace(study, index=replace(study.index, splits=splits))

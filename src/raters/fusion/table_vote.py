"""Majority vote and mean label of a table of answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.fusion.result import Fusion
from raters.fusion.vote import Ties, decide
from raters.study.classes import MISSING
from raters.study.triplets import Triplets


def vote(triplets: Triplets, num_classes: int, *, ties: Ties = "lowest") -> Fusion:
    """Return each task the class that most of its answers say; repeated readings count each.

    Example:
        >>> tasks = np.array(["a", "b"], object)
        >>> names = tasks, ("ann", "bob", "cy"), (0, 1)
        >>> vote(Triplets([0, 0, 0, 1], [0, 1, 2, 0], [1, 1, 0, 0], *names), num_classes=2).labels
        array([1, 0], dtype=int16)
    """
    votes = _votes(triplets, num_classes)
    best = np.where(votes > 0, votes == votes.max(axis=1, keepdims=True), 0)
    return _fusion(votes, best, ties)


def mean(triplets: Triplets, num_classes: int, *, ties: Ties = "lowest") -> Fusion:
    """Return each task the share of its answers that say each class."""
    votes = _votes(triplets, num_classes)
    return _fusion(votes, votes, ties)


def _votes(triplets: Triplets, num_classes: int) -> NDArray[np.int64]:
    seen = triplets.label != MISSING
    cells = triplets.task[seen].astype(np.int64) * num_classes + triplets.label[seen]
    return np.bincount(cells, minlength=len(triplets.tasks) * num_classes).reshape(-1, num_classes)


def _fusion(votes: NDArray[np.int64], shares: NDArray[np.int64], ties: Ties) -> Fusion:
    total = shares.sum(axis=1, keepdims=True)
    truth = np.where(total > 0, shares / np.maximum(total, 1), 1 / votes.shape[1])
    labels = decide(votes.T.astype(np.float64), ties)
    return Fusion(truth, labels, voxels=int((votes.sum(axis=1) > 0).sum()))

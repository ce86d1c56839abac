"""Majority vote and mean label, of masks and of tables: all raters count alike."""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import check_choice
from raters.fusion.columns import Columns, answers_of, columns_of, shares_of, votes_of
from raters.fusion.result import Fusion
from raters.study.triplets import Triplets

Ties = Literal["lowest", "highest", "undecided"]


def vote(labels: Array, num_classes: int, *, ties: Ties = "lowest") -> Fusion:
    """Return each voxel the class that most of its raters say.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        ties: Where several classes have most votes: 'lowest' takes the one listed first
            (background before all), 'highest' the one listed last, 'undecided' leaves MISSING.

    Example:
        >>> labels = np.array([[0, 1, 1, -1], [0, 1, 0, -1]])
        >>> vote(labels, num_classes=2).labels, vote(labels, num_classes=2, ties="undecided").labels
        (array([ 0,  1,  0, -1], dtype=int16), array([ 0,  1, -1, -1], dtype=int16))
    """
    columns = columns_of(labels, num_classes)
    votes = count_votes(columns, num_classes)
    best = np.where(votes > 0, votes == votes.max(axis=0), 0.0)
    return voted(columns, best, decide(votes, ties), np.shape(labels)[1:])


def mean(labels: Array, num_classes: int, *, ties: Ties = "lowest") -> Fusion:
    """Return each voxel the share of its raters who say each class (a soft label).

    The hard label is the class with the largest share, ties as in `vote`. Where nobody labelled,
    all classes are equally likely.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        ties: What a voxel with a tie gets, as in `vote`.

    Example:
        >>> mean(np.array([[0, 1, 1], [0, 1, 0]]), num_classes=2).truth[1]
        array([0. , 1. , 0.5], dtype=float32)
    """
    columns = columns_of(labels, num_classes)
    votes = count_votes(columns, num_classes)
    return voted(columns, votes, decide(votes, ties), np.shape(labels)[1:])


def count_votes(columns: Columns, num_classes: int, weights: Array | None = None) -> Floats:
    """Count the (weighted) raters who say each class, `(L, columns)`."""
    votes = np.zeros((num_classes, columns.size))
    for k, row in enumerate(columns.labels):
        weight = 1.0 if weights is None else float(weights[k])
        for c in range(num_classes):
            votes[c] += weight * (row == c)
    return votes


def decide(votes: Floats, ties: Ties) -> Labels:
    """Return the class with most votes; MISSING where nobody voted, and for undecided ties."""
    check_choice("ties", ties, get_args(Ties))
    most = votes.max(axis=0)
    best = np.isclose(votes, most, rtol=1e-12, atol=0)
    first = best.argmax(axis=0)
    last = len(votes) - 1 - best[::-1].argmax(axis=0)
    winner = last if ties == "highest" else first
    unclear = (most <= 0) | ((ties == "undecided") & (first != last))
    return np.where(unclear, MISSING, winner).astype(np.int16)


def _shared(votes: Array) -> NDArray[np.float32]:
    """Make the votes of each column sum to one."""
    total = votes.sum(axis=0)
    return np.where(total > 0, votes / np.where(total > 0, total, 1), 1 / len(votes)).astype(
        np.float32
    )


def voted(
    columns: Columns,
    votes: Array,
    hard: Labels,
    space: tuple[int, ...],
    converged: bool = True,
    skills: Floats | None = None,
) -> Fusion:
    """Map votes of columns back to voxels; the truth is the share of votes."""
    weights = np.broadcast_to(columns.weights, columns.size)
    labelled = (columns.labels != MISSING).any(axis=0)
    return Fusion(
        partial(columns.on_grid, _shared(votes), space),
        columns.to_voxels(hard[np.newaxis])[0].reshape(space),
        converged=converged,
        voxels=int(weights[labelled].sum()),
        skills=skills,
    )


def vote_table(triplets: Triplets, num_classes: int, *, ties: Ties = "lowest") -> Fusion:
    """Return each task the class that most of its answers say; repeated readings count each.

    Args:
        triplets: The answers.
        num_classes: The number of classes.
        ties: What a task with a tie gets, as in `vote`.

    Example:
        >>> tasks = np.array(["a", "b"], object)
        >>> names = tasks, ("ann", "bob", "cy"), (0, 1)
        >>> table = Triplets([0, 0, 0, 1], [0, 1, 2, 0], [1, 1, 0, 0], *names)
        >>> vote_table(table, num_classes=2).labels
        array([1, 0], dtype=int16)
    """
    votes = votes_of(answers_of(triplets, num_classes))
    best = np.where(votes > 0, votes == votes.max(axis=1, keepdims=True), 0.0)
    return _table_fusion(votes, best, ties)


def mean_table(triplets: Triplets, num_classes: int, *, ties: Ties = "lowest") -> Fusion:
    """Return each task the share of its answers that say each class.

    Args:
        triplets: The answers.
        num_classes: The number of classes.
        ties: What a task with a tie gets, as in `vote`.
    """
    votes = votes_of(answers_of(triplets, num_classes))
    return _table_fusion(votes, votes, ties)


def _table_fusion(votes: Floats, counted: Floats, ties: Ties) -> Fusion:
    number = int(votes.any(axis=1).sum())
    return Fusion(shares_of(counted), decide(votes.T, ties), voxels=number)

"""SIMPLE: vote, leave out raters who fit the vote badly, weigh the others, and again.

T. R. Langerak et al., Label fusion in atlas-based segmentation using a selective and iterative
method for performance level estimation (SIMPLE), IEEE TMI 29(12), 2010.
"""

from __future__ import annotations

import numpy as np

from raters.assessment.agreement_case import joint_counts
from raters.core.arrays import Array, Floats, Labels
from raters.fusion._vote import Ties, count_votes, decide, voted
from raters.fusion.columns import Columns, columns_of
from raters.fusion.option_values import Count, NotNegative
from raters.fusion.result import Fusion
from raters.metrics.overlap import dice_from_counts


def simple(
    labels: Array,
    num_classes: int,
    *,
    alpha: NotNegative = 1.0,
    max_iter: Count = 20,
    ties: Ties = "lowest",
) -> Fusion:
    """Fuse masks by SIMPLE.

    Start from the majority vote. Then, until nothing changes: the performance of a rater is the
    mean Dice over foreground classes against the current fusion; raters below `mean - alpha *
    standard deviation` of those still in are left out for good (two always stay); the others
    vote with their performance as weight.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        alpha: How far below the mean a rater may be, in standard deviations.
        max_iter: At most so many rounds.
        ties: What a voxel with a tie gets, as in `vote`.

    Example:
        >>> good = [0, 0, 1, 1, 1, 0]
        >>> labels = np.array([good, good, [0, 0, 1, 1, 0, 0], [1, 1, 0, 0, 0, 1]])
        >>> simple(labels, num_classes=2).labels
        array([0, 0, 1, 1, 1, 0], dtype=int16)
    """
    columns = columns_of(labels, num_classes)
    weights = np.ones(len(labels))
    winner = decide(count_votes(columns, num_classes), ties)
    converged = False
    for _ in range(max_iter):
        inside = weights > 0
        weights = _selected(_performance(columns, winner, num_classes) * inside, alpha)
        again = decide(count_votes(columns, num_classes, weights), ties)
        converged = bool((again == winner).all() and ((weights > 0) == inside).all())
        winner = again
        if converged:
            break
    votes = count_votes(columns, num_classes, weights)
    return voted(columns, votes, winner, np.shape(labels)[1:], converged, weights)


def _performance(columns: Columns, winner: Labels, num_classes: int) -> Floats:
    """Return the mean Dice of each rater with the fusion; 0 for a rater without labels."""
    weights = np.broadcast_to(columns.weights, columns.size)
    scores = []
    for row in columns.labels:
        dice = dice_from_counts(joint_counts(winner, row, weights, num_classes))
        scores.append(0.0 if np.isnan(dice).any() else float(dice.mean()))
    return np.array(scores)


def _selected(weights: Floats, alpha: float) -> Floats:
    """Leave out raters far below the mean of those that are in; the best two always stay."""
    inside = weights > 0
    if inside.sum() <= 2:
        return weights if inside.any() else np.ones_like(weights)
    limit = weights[inside].mean() - alpha * weights[inside].std()
    keep = weights >= min(limit, np.sort(weights)[-2])
    return np.where(keep, weights, 0.0)

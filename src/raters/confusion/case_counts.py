"""Confusion of all raters on one case, of masks and of answers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raters.arrays import Array, Floats
from raters.confusion.counts import count

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.triplets import CaseAnswers

Counts = Floats


def count_case(case: Case, target: Array, num_classes: int) -> Counts:
    """Count how often each rater of a study said `o` where the target says `t`.

    Args:
        case: The case, of masks or of a table.
        target: Class numbers `(*space)` with MISSING, or probabilities `(L, *space)`.
        num_classes: The number of classes `L`.

    Returns:
        Counts `(raters, L, L)`, `[r, t, o]`, on the axis of `study.raters`.
    """
    if case.kind == "classification":
        return count_answers(case.answers, target, num_classes)
    if not np.issubdtype(target.dtype, np.floating):
        return count(case.labels, target, num_classes).astype(np.float64)
    soft, counts = (
        target.reshape(num_classes, -1),
        np.zeros((len(case.labels), num_classes, num_classes)),
    )
    for own, labels in zip(counts, case.labels, strict=True):
        flat = labels.reshape(-1)
        for observed in range(num_classes):
            own[:, observed] = soft[:, flat == observed].sum(axis=1)
    return counts


def count_answers(answers: CaseAnswers, target: Array, num_classes: int) -> Counts:
    """Count the answers to one task; a rater who answered several times counts several times.

    Args:
        answers: Who said what.
        target: The class number of the task, `()`, or probabilities `(L,)`.
        num_classes: The number of classes `L`.

    Returns:
        Counts `(raters, L, L)`, on the axis of all raters; zeros for those who did not answer.

    Example:
        >>> from raters.study.triplets import CaseAnswers
        >>> answers = CaseAnswers(np.array([1, 1]), np.array([0, 1]), ("ann", "bob"))
        >>> count_answers(answers, np.array(1), num_classes=2).tolist()
        [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]]
    """
    soft = np.issubdtype(target.dtype, np.floating)
    weights = target if soft else np.arange(num_classes) == target  # all zero where it is MISSING
    counts = np.zeros((len(answers.raters), num_classes, num_classes))
    np.add.at(counts.transpose(0, 2, 1), (answers.rater, answers.label), weights)
    return counts

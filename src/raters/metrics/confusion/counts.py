"""Confusion counted from labels and a reference: of masks, of tables, of one case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from raters.core.arrays import Array, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.triplets import CaseAnswers

Unseen = Literal["nan", "identity", "uniform"]


def count(labels: Array, reference: Array, num_classes: int) -> Ints:
    """Count how often each rater said `o` where the reference says `t`.

    Pixels that are MISSING in the labels of a rater or in the reference count for nothing.

    Args:
        labels: Class numbers `(raters, *space)`.
        reference: Class numbers `(*space)`.
        num_classes: The number of classes `L`.

    Returns:
        Counts `(raters, L, L)`, `[r, t, o]`.

    Example:
        >>> count(np.array([[0, 1, 1, -1]]), np.array([0, 0, 1, 1]), num_classes=2)
        array([[[1, 1],
                [0, 1]]])
    """
    if labels.shape[1:] != reference.shape:
        raise RatersError(
            f"found labels of shape {labels.shape[1:]}, expected {reference.shape} of the reference"
        )
    for what, array in (("labels", labels), ("reference labels", reference)):
        if array.size and not (array.min() >= MISSING and array.max() < num_classes):
            found = f"from {array.min()} to {array.max()}"
            raise RatersError(f"found {what} {found}, expected -1 to {num_classes - 1}")
    truth = reference.ravel().astype(np.int64) * num_classes
    counts = np.zeros((len(labels), num_classes * num_classes), np.int64)
    for own, row in zip(counts, labels, strict=True):
        observed = row.ravel()
        seen = (observed != MISSING) & (truth >= 0)
        own += np.bincount(truth[seen] + observed[seen], minlength=len(own))
    return counts.reshape(-1, num_classes, num_classes)


def count_triplets(
    task: Array, rater: Array, label: Array, reference: Array, raters: int, num_classes: int
) -> Ints:
    """Count the confusion of raters in a table of answers; repeated readings count each.

    Args:
        task: Position of the task of each answer in `reference`.
        rater: Number of the rater of each answer.
        label: Class number of each answer.
        reference: The true class of each task, MISSING where unknown.
        raters: The number of raters.
        num_classes: The number of classes `L`.

    Returns:
        Counts `(raters, L, L)`, `[r, t, o]`.

    Example:
        >>> task, rater, label = np.array([0, 1]), np.array([0, 0]), np.array([1, 1])
        >>> count_triplets(task, rater, label, np.array([1, 0]), raters=1, num_classes=2)
        array([[[0, 1],
                [0, 1]]])
    """
    truth = reference[task].astype(np.int64)
    seen = truth >= 0
    cell = (rater[seen].astype(np.int64) * num_classes + truth[seen]) * num_classes + label[seen]
    flat = np.bincount(cell, minlength=raters * num_classes * num_classes)
    return flat.reshape(raters, num_classes, num_classes)


def normalise(counts: Array, unseen: Unseen = "nan", smoothing: float = 0.0) -> Floats:
    """Turn counts into `p(o | t)`: `C[t, o] = (n[t, o] + s) / (sum_o n[t, o] + s L)`.

    A true class that never occurred says nothing about the rater: without smoothing its row is
    what `unseen` says, NaN by default so that it is not taken for knowledge.

    Example:
        >>> normalise(np.array([[3, 1], [0, 0]]), unseen="identity")
        array([[0.75, 0.25],
               [0.  , 1.  ]])
    """
    smoothed = np.asarray(counts, np.float64) + smoothing
    total = smoothed.sum(axis=-1, keepdims=True)
    size = smoothed.shape[-1]
    rows = {"nan": np.full((size, size), np.nan), "identity": np.eye(size)}
    empty = rows.get(unseen, np.full((size, size), 1 / size))
    return np.where(total > 0, smoothed / np.where(total > 0, total, 1), empty)


def pool(counts: Array, axis: int | tuple[int, ...] = 0) -> Array:
    """Add counts over cases (or raters): the matrix of all labels together.

    Pooling counts weighs every label alike; averaging matrices would weigh every case alike.

    Example:
        >>> pool(np.array([[[8, 2], [0, 1]], [[1, 0], [1, 0]]]))
        array([[9, 2],
               [1, 1]])
    """
    return np.asarray(np.sum(counts, axis=axis))


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
    soft = target.reshape(num_classes, -1)
    counts = np.zeros((len(case.labels), num_classes, num_classes))
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


_FEW = 1 << 20
_BLOCK = 1 << 18  # voxels


@dataclass(frozen=True)
class Patterns:
    """The patterns of labels that occur, with how often each does.

    Attributes:
        labels: Class numbers with MISSING, `(patterns, raters)`.
        counts: How many pixels have each pattern, `(patterns,)`.
    """

    labels: Labels
    counts: Ints

    def votes(self, num_classes: int) -> Ints:
        """Count how many raters say each class, `(patterns, classes)`."""
        return np.stack([(self.labels == c).sum(axis=1) for c in range(num_classes)], axis=1)


def count_patterns(labels: Array, num_classes: int) -> Patterns:
    """Count the patterns of labels over all pixels.

    (`raters.fusion.columns` also notes which pattern each pixel has, which EM has to know, and is
    compiled: importing numba takes longer than counting a small study.)

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.

    Example:
        >>> patterns = count_patterns(np.array([[0, 1, 1, 1], [0, 1, 1, -1]]), num_classes=2)
        >>> patterns.labels.tolist(), patterns.counts.tolist()
        ([[0, 0], [1, -1], [1, 1]], [1, 1, 2])
    """
    raters = len(labels)
    if raters == 0:
        size = int(np.prod(labels.shape[1:]))
        return Patterns(np.zeros((1, 0), np.int16), np.array([size], np.int64))
    flat = np.ascontiguousarray(labels.reshape(raters, -1), np.int16)
    base = num_classes + 1
    if base**raters > _FEW:  # too many for a table
        return Patterns(*np.unique(np.ascontiguousarray(flat.T), axis=0, return_counts=True))
    counts = np.zeros(0, np.int64)
    for start in range(0, flat.shape[1], _BLOCK):  # numpy counts in 8 bytes per voxel
        part = flat[:, start : start + _BLOCK]
        code = np.zeros(part.shape[1], np.int32)
        for row in part:
            code *= base
            code += row
            code += 1
        short, counts = sorted((counts, np.bincount(code)), key=len)
        counts[: len(short)] += short
    found = np.flatnonzero(counts)
    powers = base ** np.arange(raters - 1, -1, -1)
    digits = found[:, np.newaxis] // powers % base - 1
    return Patterns(digits.astype(np.int16), counts[found])

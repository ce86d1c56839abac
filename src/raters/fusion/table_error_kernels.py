"""Compiled passes over a table of answers for `table_errors`: many draws at once.

Draws lie along the last axis, so that the innermost loops run over neighbours in memory.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(nogil=True, cache=True)
def weighted_counts(
    starts: NDArray[np.int64],
    rater: NDArray[np.int32],
    label: NDArray[np.int16],
    posteriors: NDArray[np.float64],
    weights: NDArray[np.float64],
    counts: NDArray[np.float64],
    tasks: NDArray[np.float64],
) -> None:
    """Sum posteriors over answers and tasks, each task with its weight.

    Args:
        starts: Where the answers of each task begin, `(tasks + 1,)`.
        rater: The rater of each answer.
        label: The class number of each answer.
        posteriors: `(tasks, L)`.
        weights: `(tasks, draws)`.
        counts: `(raters, o, t, draws)`, added to.
        tasks: `(t, draws)`, added to: over tasks that have answers.
    """
    classes, draws = posteriors.shape[1], weights.shape[1]
    part = np.empty((classes, draws))
    for task in range(posteriors.shape[0]):
        if starts[task + 1] == starts[task]:
            continue
        for t in range(classes):
            for b in range(draws):
                part[t, b] = posteriors[task, t] * weights[task, b]
        _add(starts, rater, label, task, part, counts, tasks)


@numba.njit(nogil=True, cache=True)
def moved_counts(
    starts: NDArray[np.int64],
    rater: NDArray[np.int32],
    label: NDArray[np.int16],
    posteriors: NDArray[np.float64],
    moved: NDArray[np.float64],
    moved_prior: NDArray[np.float64],
    counts: NDArray[np.float64],
    tasks: NDArray[np.float64],
) -> None:
    """Sum the changes of the posteriors where log matrices and log prior move (an E step's slope).

    `dw(t) = w(t) (a(t) - sum_t' w(t') a(t'))`, with `a(t)` the change of the log prior and of the
    log probabilities of the answers to a task.

    Args:
        starts: Where the answers of each task begin, `(tasks + 1,)`.
        rater: The rater of each answer.
        label: The class number of each answer.
        posteriors: `(tasks, L)`.
        moved: `(raters, o, t, draws)`.
        moved_prior: `(t, draws)`.
        counts: `(raters, o, t, draws)`, added to.
        tasks: `(t, draws)`, added to.
    """
    classes, draws = moved_prior.shape
    part, mean = np.empty((classes, draws)), np.empty(draws)
    for task in range(posteriors.shape[0]):
        if starts[task + 1] == starts[task] or posteriors[task].max() > 1 - 1e-12:
            continue  # nothing can move the truth of a task that is certain
        part[:] = moved_prior
        for k in range(starts[task], starts[task + 1]):
            row = moved[rater[k], label[k]]
            for t in range(classes):
                for b in range(draws):
                    part[t, b] += row[t, b]
        mean[:] = 0.0
        for t in range(classes):
            for b in range(draws):
                mean[b] += posteriors[task, t] * part[t, b]
        for t in range(classes):
            for b in range(draws):
                part[t, b] = posteriors[task, t] * (part[t, b] - mean[b])
        _add(starts, rater, label, task, part, counts, tasks)


@numba.njit(nogil=True, cache=True)
def _add(
    starts: NDArray[np.int64],
    rater: NDArray[np.int32],
    label: NDArray[np.int16],
    task: int,
    part: NDArray[np.float64],
    counts: NDArray[np.float64],
    tasks: NDArray[np.float64],
) -> None:
    classes, draws = part.shape
    for k in range(starts[task], starts[task + 1]):
        row = counts[rater[k], label[k]]
        for t in range(classes):
            for b in range(draws):
                row[t, b] += part[t, b]
    for t in range(classes):
        for b in range(draws):
            tasks[t, b] += part[t, b]

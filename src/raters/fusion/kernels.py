"""One pass over labels, compiled: pattern codes, the E and M step of EM, and mapping back.

All kernels work on a stretch of voxels and run outside Python's lock, so threads share the work.
`o + 1` is used as the index of a label `o`: index 0 is MISSING, whose log probability is 0 for
every true class.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Ints

if TYPE_CHECKING:
    from raters.fusion.columns import Answers

_BLOCK = 4096
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)


@numba.njit(nogil=True, cache=True)
def encode(
    labels: Array,
    base: Any,  # noqa: ANN401
    start: int,
    stop: int,
    codes: Array,
    counts: Ints,
) -> None:
    """Number the pattern of each voxel, `sum_r (o_r + 1) base^(R - 1 - r)`, and count patterns.

    Args:
        labels: `(raters, n)`.
        base: The number of classes + 1, in the type of `codes`: arithmetic in that type alone is
            what lets the compiler work on many voxels at once.
        start: The first voxel.
        stop: The voxel behind the last.
        codes: `(n,)`, written.
        counts: `(4, patterns)`, added to: neighbours often have the same pattern, and four
            tables let their counts not wait for each other.
    """
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        part = codes[first:last]
        size = last - first
        row = labels[0, first:last]
        for i in range(size):
            part[i] = part.dtype.type(row[i] + 1)
        for r in range(1, labels.shape[0]):
            row = labels[r, first:last]
            for i in range(size):
                part[i] = part.dtype.type(part[i] * base + part.dtype.type(row[i] + 1))
        whole = size - size % 4
        for i in range(0, whole, 4):
            counts[0, part[i]] += 1
            counts[1, part[i + 1]] += 1
            counts[2, part[i + 2]] += 1
            counts[3, part[i + 3]] += 1
        for i in range(whole, size):
            counts[0, part[i]] += 1


@numba.njit(nogil=True, cache=True)
def collect(
    labels: Array,
    base: Any,  # noqa: ANN401
    exact: bool,
    start: int,
    stop: int,
    codes: Array,
    slots: NDArray[np.int32],
    keys: NDArray[np.uint64],
    firsts: Ints,
    counts: Ints,
) -> int:
    """Find the patterns that occur and count them, in a hash table with open addressing.

    Args:
        labels: `(raters, n)`.
        base: What the key `sum_r (o_r + 1) base^(R - 1 - r)` is made with, in 64 bits.
        exact: Whether keys cannot overflow; else columns of one key are compared.
        start: The first voxel.
        stop: The voxel behind the last.
        codes: `(n,)`, written: the number of each voxel's pattern, in order of appearance.
        slots: The table, -1 where it is free; its length is a power of two.
        keys: The key of each pattern, written; its length is the most patterns there may be.
        firsts: Where each pattern occurs first, written.
        counts: How often each occurs, added to.

    Returns:
        The number of patterns; -1 if they are too many, or nearly as many as voxels.
    """
    block = np.empty(_BLOCK, np.uint64)
    mask = np.uint64(slots.shape[0] - 1)
    found = 0
    last_key = np.uint64(0)
    last = -1
    for first in range(start, stop, _BLOCK):
        size = min(first + _BLOCK, stop) - first
        row = labels[0, first : first + size]
        for i in range(size):
            block[i] = np.uint64(row[i] + 1)
        for r in range(1, labels.shape[0]):
            row = labels[r, first : first + size]
            for i in range(size):
                block[i] = block[i] * base + np.uint64(row[i] + 1)
        for i in range(size):
            key = block[i]
            if last < 0 or key != last_key or not (exact or _same(labels, firsts[last], first + i)):
                mixed = key * _MIXER
                slot = (mixed ^ (mixed >> _SHIFT)) & mask
                last = slots[slot]
                while last >= 0 and not (
                    keys[last] == key and (exact or _same(labels, firsts[last], first + i))
                ):
                    slot = (slot + _ONE) & mask
                    last = slots[slot]
                if last < 0:
                    if found == keys.shape[0]:
                        return -1
                    slots[slot] = found
                    keys[found] = key
                    firsts[found] = first + i
                    last = found
                    found += 1
                last_key = key
            counts[last] += 1
            codes[first + i] = last
        if found > _BLOCK and 2 * found > first + size - start:
            return -1
    return found


@numba.njit(nogil=True, cache=True)
def _same(labels: Array, a: int, b: int) -> bool:
    """Return whether two voxels have the same pattern."""
    for r in range(labels.shape[0]):  # noqa: SIM110
        if labels[r, a] != labels[r, b]:
            return False
    return True


@numba.njit(nogil=True, cache=True)
def expand(codes: Array, table: Array, out: Array, start: int, stop: int) -> None:
    """Write the value of its pattern to each voxel."""
    own = codes[start:stop]
    written = out[start:stop]
    for i in range(own.shape[0]):
        written[i] = table[own[i]]


@numba.njit(nogil=True, cache=True)
def em_pass(
    labels: Array,
    weights: Floats,
    log_prior: Floats,
    log_confusion: Floats,
    start: int,
    stop: int,
    counts: Floats,
) -> float:
    """Do an E step and gather the counts of the M step; give the log-likelihood.

    Args:
        labels: `(raters, n)`.
        weights: How often each column occurs, `(n,)`; or `(1,)` for all alike.
        log_prior: `(L, n)`, or `(L, 1)` where the prior does not vary.
        log_confusion: `(raters, L + 1, L)`, `[r, o + 1, t]`.
        start: The first column.
        stop: The column behind the last.
        counts: `(2, raters, L + 1, L)`, added to: sums, and what rounding took from them.
    """
    raters = labels.shape[0]
    classes = log_prior.shape[0]
    sums = counts[0]
    lost = counts[1]
    weighted = weights.shape[0] > 1
    posterior = np.empty(classes)
    total = 0.0
    for i in range(start, stop):
        weight = weights[i] if weighted else weights[0]
        if not _log_posterior(labels, log_prior, log_confusion, i, posterior):
            continue  # nobody labelled it: it says nothing on the prior either
        total += weight * _normalise(posterior)
        for t in range(classes):
            posterior[t] *= weight
        for r in range(raters):
            o = labels[r, i] + 1
            _add(posterior, sums[r, o], lost[r, o])
    return total


@numba.njit(nogil=True, cache=True)
def posterior_pass(
    labels: Array, log_prior: Floats, log_confusion: Floats, start: int, stop: int, out: Array
) -> None:
    """Write the posterior of each column, `(L, n)`; the arguments are those of `em_pass`."""
    classes = log_prior.shape[0]
    posterior = np.empty(classes)
    for i in range(start, stop):
        _log_posterior(labels, log_prior, log_confusion, i, posterior)
        _normalise(posterior)
        for t in range(classes):
            out[t, i] = posterior[t]


@numba.njit(nogil=True, cache=True)
def answers_pass(
    answers: Answers,
    log_prior: Floats,
    log_confusion: Floats,
    hard: bool,
    start: int,
    stop: int,
    posteriors: Floats,
) -> float:
    """Do the E step of a table: tasks `start` to `stop`, whose answers lie in a row.

    Args:
        answers: The table.
        log_prior: `(L,)`.
        log_confusion: `(raters, L, L)`, `[r, o, t]`.
        hard: Whether the most likely class gets all weight.
        start: The first task.
        stop: The task behind the last.
        posteriors: `(tasks, L)`, written.

    Returns:
        The log-likelihood of these tasks.
    """
    classes = log_prior.shape[0]
    posterior = np.empty(classes)
    total = 0.0
    for task in range(start, stop):
        posterior[:] = log_prior
        first = answers.starts[task]
        last = answers.starts[task + 1]
        for k in range(first, last):
            row = log_confusion[answers.rater[k], answers.label[k]]
            for t in range(classes):
                posterior[t] += row[t]
        log_likelihood = _normalise(posterior)
        if last > first:
            total += log_likelihood
        if hard:
            likely = posterior.argmax()
            posterior[:] = 0.0
            posterior[likely] = 1.0
        posteriors[task] = posterior
    return total


@numba.njit(nogil=True, cache=True)
def count_answers(
    answers: Answers, posteriors: Floats, start: int, stop: int, counts: Floats, shares: Floats
) -> None:
    """Gather what the M step of a table needs; the other arguments are those of `answers_pass`.

    Added to, each as sums and what rounding took from them: `counts`, `(2, raters, L, L)`, `[.., r,
    o, t]`, the posteriors of all answers; `shares`, `(2, L)`, those of all tasks that have answers.
    """
    for task in range(start, stop):
        first = answers.starts[task]
        last = answers.starts[task + 1]
        for k in range(first, last):
            r = answers.rater[k]
            o = answers.label[k]
            _add(posteriors[task], counts[0, r, o], counts[1, r, o])
        if last > first:
            _add(posteriors[task], shares[0], shares[1])


@numba.njit(nogil=True, cache=True)
def _log_posterior(
    labels: Array, log_prior: Floats, log_confusion: Floats, i: int, out: Floats
) -> bool:
    """Write the log weights of a column, `(L,)`; return whether anybody labelled it."""
    seen = False
    place = i if log_prior.shape[1] > 1 else 0
    for t in range(out.shape[0]):
        out[t] = log_prior[t, place]
    for r in range(labels.shape[0]):
        o = labels[r, i] + 1
        if o > 0:
            seen = True
            for t in range(out.shape[0]):
                out[t] += log_confusion[r, o, t]
    return seen


@numba.njit(nogil=True, cache=True)
def _add(values: Floats, sums: Floats, lost: Floats) -> None:
    """Add values to sums; gather what rounding takes (Knuth's two-sum), so order is no matter."""
    for t in range(values.shape[0]):
        old = sums[t]
        new = values[t]
        both = old + new
        part = both - old
        lost[t] += (old - (both - part)) + (new - part)
        sums[t] = both


@numba.njit(nogil=True, cache=True)
def _normalise(values: Floats) -> float:
    """Turn log weights into probabilities in place; give the log of their sum."""
    highest = values.max()
    if highest == -math.inf:  # impossible under the model: nothing is known
        values[:] = 1.0 / values.shape[0]
        return float(highest)
    total = 0.0
    for t in range(values.shape[0]):
        values[t] = math.exp(values[t] - highest)
        total += values[t]
    for t in range(values.shape[0]):
        values[t] /= total
    return float(highest + math.log(total))

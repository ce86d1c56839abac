"""Expectation maximisation for rater matrices: one truth at a voxel explains all raters together.

    E   w_i(t) ~ pi_t prod_r C_r[t, o_ir]                       over the labels that there are
    M   C_r[t, o] = sum_i w_i(t) [o_ir = o] / sum_i w_i(t) [o_ir is there]

Dawid and Skene (1979); Warfield, Zou and Wells (2004) for masks (STAPLE). All in log space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats
from raters.fusion.columns import Columns, in_stretches
from raters.fusion.kernels import em_pass, posterior_pass


@dataclass(frozen=True)
class EMOptions:
    """How EM runs.

    Attributes:
        max_iter: At most so many.
        tol: Stop when no entry of a matrix changes by more.
        update_prior: Whether the prior of the classes is estimated too (Dawid-Skene) or kept
            (STAPLE).
        smoothing: Counts added to each entry of a matrix (a Dirichlet prior), so that a rater
            with few labels is not believed blindly.
    """

    max_iter: int = 100
    tol: float = 1e-7
    update_prior: bool = False
    smoothing: float = 0.0


@dataclass
class EMState:
    """Where EM stands.

    Attributes:
        prior: `(L, 1)`, or a map `(L, columns)`.
        confusion: `(raters, L, L)`, `C[t, o]`.
        log_likelihoods: At each step, of the parameters before it.
        converged: Whether the last step changed less than the tolerance.
    """

    prior: Floats
    confusion: Floats
    log_likelihoods: list[float] = field(default_factory=list)
    converged: bool = False


def start_matrices(raters: int, num_classes: int, init_accuracy: float) -> Floats:
    """Return matrices of raters who are right with one probability and else err evenly.

    Example:
        >>> start_matrices(1, 3, init_accuracy=0.8).round(2).tolist()
        [[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]]
    """
    wrong = (1 - init_accuracy) / max(num_classes - 1, 1)
    one = np.full((num_classes, num_classes), wrong)
    np.fill_diagonal(one, init_accuracy if num_classes > 1 else 1.0)
    return np.repeat(one[np.newaxis], raters, axis=0)


def log_columns(confusion: Floats) -> Floats:
    """Turn `(raters, t, o)` into log probabilities `(raters, o + 1, t)` with a row for MISSING."""
    with np.errstate(divide="ignore"):
        logs = np.log(confusion.transpose(0, 2, 1))
    # Not -inf: a label that a rater 'never' gives must not make every class impossible.
    logs = np.maximum(logs, -700.0)
    return np.concatenate([np.zeros((len(logs), 1, logs.shape[2])), logs], axis=1)


def _logs(state: EMState) -> list[Floats]:
    """Return the logs of prior and matrices, such that the order of raters is no matter."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(state.prior)
    return on_grid([log_prior, log_columns(state.confusion)], len(state.confusion) + 1)


Counts = Floats
EStep = Callable[[EMState], tuple[Counts, float]]
"""Returns the counts `(raters, o + 1, t)` that the posteriors make, and the log-likelihood."""


def e_step(columns: Columns, state: EMState) -> tuple[Counts, float]:
    """Return the counts `(raters, o + 1, t)` that the posteriors make, and the log-likelihood."""
    log_prior, log_confusion = _logs(state)

    def work(start: int, stop: int) -> tuple[Counts, float]:
        counts = np.zeros((2, *log_confusion.shape))
        log_likelihood = em_pass(
            columns.labels, columns.weights, log_prior, log_confusion, start, stop, counts
        )
        return counts, log_likelihood

    parts = in_stretches(work, columns.size)
    return total_of([c for c, _ in parts]), float(sum(ll for _, ll in parts))


def m_step(counts: Counts, old: Floats, smoothing: float) -> Floats:
    """Return the matrices `(raters, t, o)`; a row without any label stays as it was."""
    observed = counts[:, 1:].transpose(0, 2, 1) + smoothing
    total = observed.sum(axis=2, keepdims=True)
    return np.where(total > 0, observed / np.where(total > 0, total, 1), old)


S = TypeVar("S")


def iterate(
    step: Callable[[S], tuple[S, float, float]], state: S, max_iter: int, tol: float
) -> tuple[S, list[float], bool]:
    """Take steps of EM until one changes nothing by more than the tolerance: the loop of all EM.

    Args:
        step: Returns the next state, the log-likelihood of the one before, and the change.
        state: Where to start.
        max_iter: At most so many steps.
        tol: The tolerance.

    Returns:
        The last state, the log-likelihoods, and whether the last step changed that little.

    Example:
        >>> iterate(lambda x: (x / 2, -x, x / 2), 1.0, max_iter=9, tol=0.2)
        (0.125, [-1.0, -0.5, -0.25], True)
    """
    history: list[float] = []
    converged = False
    while len(history) < max_iter and not converged:
        state, log_likelihood, change = step(state)
        history.append(log_likelihood)
        converged = change <= tol
    return state, history, converged


def run_em(estimate: EStep, state: EMState, options: EMOptions) -> EMState:
    """Run EM to its end; the state that comes in is the start.

    Args:
        estimate: The E step over all data, for example `partial(e_step, columns)`.
        state: Where to start.
        options: How to run.
    """

    def step(state: EMState) -> tuple[EMState, float, float]:
        counts, log_likelihood = estimate(state)
        confusion = m_step(counts, state.confusion, options.smoothing)
        change = float(np.abs(confusion - state.confusion).max(initial=0.0))
        prior = state.prior
        if options.update_prior and counts.sum():
            # All raters' counts have the same sums but for the last bit, in which the order of
            # raters must not show: hence the largest, not the first.
            shares = counts.sum(axis=1).max(axis=0)
            prior = (shares / shares.sum())[:, np.newaxis]
            change = max(change, float(np.abs(prior - state.prior).max()))
        return EMState(prior, confusion), log_likelihood, change

    end, history, converged = iterate(step, state, options.max_iter, options.tol)
    return EMState(end.prior, end.confusion, history, converged)


def posteriors(columns: Columns, state: EMState) -> NDArray[np.float32]:
    """Return the truth `p(t | labels)` of each column, `(L, columns)`."""
    log_prior, log_confusion = _logs(state)
    out = np.empty((log_prior.shape[0], columns.size), np.float32)
    in_stretches(
        lambda a, b: posterior_pass(columns.labels, log_prior, log_confusion, a, b, out),
        columns.size,
    )
    return out


# EM at an exact tie is decided by the last bit of a sum, and so by the order of raters, cases and
# voxels. So logs lie on a grid on which their sums are exact, and counts are summed in twice the
# precision of a float.
_BITS = 52
_FEW_BITS = 20


def on_grid(logs: Sequence[Floats], terms: int) -> list[Floats]:
    """Round logs to a grid that is just fine enough for sums of so many of them to be exact.

    Args:
        logs: Arrays of logs; `-inf` stays.
        terms: At most so many are added.

    Example:
        >>> (logs,) = on_grid([np.log([0.1, 0.7, 0.3, 0.9])], terms=4)
        >>> bool(logs[0] + logs[1] + logs[2] + logs[3] == logs[3] + logs[1] + logs[2] + logs[0])
        True
        >>> float(abs(logs - np.log([0.1, 0.7, 0.3, 0.9])).max()) < 1e-13
        True
    """
    most = max(
        (
            float(np.abs(a, where=np.isfinite(a), out=np.zeros(a.shape)).max(initial=0.0))
            for a in logs
        ),
        default=0.0,
    )
    scale = 2.0 ** (_BITS - math.ceil(math.log2(max(most * max(terms, 1), 1.0))))
    return [np.rint(a * scale) / scale for a in logs]


def exact_shares(shares: Floats) -> Floats:
    """Round shares so that sums over up to four thousand million voxels are exact.

    Example:
        >>> exact_shares(np.array([0.0, 1 / 3, 1.0])).round(5).tolist()
        [0.0, 0.33333, 1.0]
    """
    scale = 2.0**_FEW_BITS
    return np.asarray(np.rint(shares * scale) / scale)


def total_of(parts: Sequence[Floats]) -> Floats:
    """Add sums that come as `(2, ...)`: what was summed, and what rounding took from it.

    Example:
        >>> total_of([np.array([[1e16], [1.0]]), np.array([[1.0], [0.0]])]).tolist()
        [1.0000000000000002e+16]
    """
    high, low = parts[0]
    for more, less in parts[1:]:
        both = high + more
        part = both - high
        low = low + less + ((high - (both - part)) + (more - part))
        high = both
    return np.asarray(high + low)

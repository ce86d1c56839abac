"""EM over masks from several starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.fusion.columns import Columns
from raters.fusion.em import (
    EMOptions,
    EMState,
    e_step,
    m_step,
    posteriors,
    run_em,
    start_matrices,
)
from raters.fusion.exact import exact_shares
from raters.fusion.starts import Choice, Solution, choose, guesses
from raters.study.classes import MISSING

START = 0.99999
"""How often raters are right at the start 'vote', as in ITK."""

_DOUBT = 0.1
"""The share of chance in other starts: EM never leaves a matrix that is sure of itself."""


def fit(
    columns: Columns,
    prior: NDArray[np.float64],
    options: EMOptions,
    kinds: Sequence[str],
    raters: Sequence[str] | None = None,
) -> Choice[EMState]:
    """Run EM from each start and keep the most likely dominant solution.

    Args:
        columns: The labels.
        prior: The share of each class, `(L, 1)` or a map `(L, columns)`.
        options: How EM runs.
        kinds: The kinds of starts, of `raters.fusion.starts.KINDS`.
        raters: The names of the raters; by default their numbers.

    Example:
        >>> labels = np.array([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]])
        >>> columns = Columns(labels, np.ones(5))
        >>> found = fit(columns, np.array([[0.6], [0.4]]), EMOptions(), ("vote", "mean"))
        >>> [row["start"] for row in found.rows], found.notes
        (['vote', 'mean'], [])
    """
    names = [str(r) for r in range(len(columns.labels))] if raters is None else raters
    ends = [
        (kind, name, run_em(partial(e_step, columns), start, options))
        for kind, name, start in _starts(columns, prior, options, kinds, names)
    ]
    if not ends:
        raise RatersError(f"found starts={list(kinds)}, expected some that these masks have")
    if tuple(kinds) == ("vote",):  # nothing to compare: nothing to count
        return alone(ends[0][2])
    return choose([_solution(columns, options, *end) for end in ends], _disputed(columns))


def alone(state: EMState) -> Choice[EMState]:
    """Take a state that there was no choice about."""
    nothing = np.zeros((0, 0)), np.zeros(0, np.int16)
    return Choice(Solution("vote", "vote", state, 0.0, *nothing), [], [])


def _starts(
    columns: Columns,
    prior: NDArray[np.float64],
    options: EMOptions,
    kinds: Sequence[str],
    raters: Sequence[str],
) -> Iterator[tuple[str, str, EMState]]:
    classes = len(prior)
    sure = start_matrices(len(columns.labels), classes, START)
    others = [kind for kind in kinds if kind != "vote"]
    if "vote" in kinds:
        yield "vote", "vote", EMState(prior, sure)
    if not others:
        return
    said = columns.labels[:, :, np.newaxis] == np.arange(classes)
    votes = said.sum(axis=0).astype(np.float64)
    for kind, name, guess in guesses(others, votes, said.__getitem__, raters):
        counted = m_step(_counts(columns, exact_shares(guess)), sure, options.smoothing)
        yield kind, name, EMState(prior, (1 - _DOUBT) * counted + _DOUBT / classes)


def _counts(columns: Columns, guess: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the counts `(raters, o + 1, t)` that posteriors `(columns, t)` make."""
    classes = guess.shape[1]
    weighted = np.broadcast_to(columns.weights, columns.size) * guess.T
    return np.stack(
        [
            np.stack([np.bincount(row, w, classes + 1) for w in weighted], axis=1)
            for row in columns.labels.astype(np.intp) + 1
        ]
    )


def _solution(
    columns: Columns, options: EMOptions, kind: str, name: str, state: EMState
) -> Solution[EMState]:
    counts, log_likelihood = e_step(columns, state)
    if options.smoothing:
        entries = np.maximum(state.confusion, np.finfo(float).tiny)
        log_likelihood += options.smoothing * float(np.log(entries).sum())
    labels = posteriors(columns, state).argmax(axis=0).astype(np.int16)
    return Solution(kind, name, state, log_likelihood, counts[:, 1:].sum(axis=0).T, labels)


def _disputed(columns: Columns) -> NDArray[np.float64]:
    """Return the weight of the columns that raters differ on, 0 for the others."""
    there = columns.labels != MISSING
    lowest = np.where(there, columns.labels, np.iinfo(np.int16).max).min(axis=0)
    weights = np.broadcast_to(columns.weights, columns.size)
    return np.where(there.any(axis=0) & (lowest != columns.labels.max(axis=0)), weights, 0.0)

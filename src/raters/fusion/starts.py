"""Where EM starts, and which of the solutions that it ends in is kept.

The likelihood of labels has several maxima, and EM climbs the one that it starts below. So it is
started from several guesses of the truth, and of the solutions whose raters are right more often
than wrong (column dominance, `raters.metrics.confusion.matrices`) the most likely is kept.

    vote     the class that most raters say
    mean     the share of raters who say each class
    union    foreground where anybody draws it (masks)
    raters   each rater in turn (up to 16), and the mean where that rater is silent
    random   the mean, disturbed at random, five times
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.columns import Columns, shares_of
from raters.fusion.em import (
    EMOptions,
    EMState,
    e_step,
    exact_shares,
    m_step,
    posteriors,
    run_em,
    start_matrices,
)
from raters.io.rows import Row
from raters.metrics.confusion.matrices import dominance_margin

Starts = str | Sequence[str]
S = TypeVar("S")

KINDS = ("vote", "mean", "union", "raters", "random")
SEVERAL = ("vote", "mean", "union", "raters")
MOST_RATERS = 16
"""With more raters, none of them is a start alone."""

_DRAWS = 5
_FEW = 0.05
"""Solutions are the same if their labels differ in at most this share of what is disputed."""
_NUMBERS = re.compile(r"its class number (\d+(?:, \d+)*)")  # as `_notes` says it
_EQUAL = 2.0
"""Log-likelihoods that differ by less are equal: no data decide by so little."""


@dataclass(frozen=True)
class Solution(Generic[S]):
    """Where EM ended from one start.

    Attributes:
        kind: What kind of start it was.
        start: Its name.
        state: What EM found.
        log_likelihood: Its log-likelihood (with smoothing: log posterior).
        counts: How often all raters together said `o` where `t` is true, `(t, o)`.
        labels: The most likely class of each column or task.
    """

    kind: str
    start: str
    state: S
    log_likelihood: float
    counts: Floats
    labels: Labels

    @property
    def dominance(self) -> float:
        """The dominance margin of the raters' mean matrix, each label weighing alike.

        Of the classes that occur: one that no column has says nothing about the raters.
        """
        there, rows = self._mean_matrix()
        return dominance_margin(rows) if len(there) > 1 else 1.0

    @property
    def weak(self) -> list[int]:
        """The classes that raters say at least as readily where another one is true."""
        there, rows = self._mean_matrix()
        others = np.where(np.eye(len(there), dtype=bool), -1.0, rows).max(axis=0, initial=-1.0)
        return [int(c) for c in there[np.diag(rows) <= others]]

    def _mean_matrix(self) -> tuple[NDArray[np.intp], Floats]:
        there = np.flatnonzero(self.counts.sum(axis=1) > 0)
        rows = self.counts[there] / self.counts[there].sum(axis=1, keepdims=True)
        return there, rows[:, there]


@dataclass(frozen=True)
class Choice(Generic[S]):
    """The solution that was kept, a row for each start, and what is to be said about them."""

    kept: Solution[S]
    rows: list[Row]
    notes: list[str]


def kinds_of(
    starts: Starts | None, default: Sequence[str], several: Sequence[str] = SEVERAL
) -> tuple[str, ...]:
    """Check the names of starts; None are the default ones, `several` stands for some.

    Example:
        >>> kinds_of("vote", SEVERAL), kinds_of(None, SEVERAL)
        (('vote',), ('vote', 'mean', 'union', 'raters'))
    """
    if starts is None:
        return tuple(default)
    if not isinstance(starts, Sequence):
        raise RatersError(f"found starts={starts}, expected several or: {', '.join(KINDS)}")
    named = (starts,) if isinstance(starts, str) else tuple(starts)
    named = tuple(several) if named == ("several",) else named
    for name in named:
        if name not in KINDS:
            raise RatersError(f"found starts={name}, expected several or: {', '.join(KINDS)}")
    if not named:
        raise RatersError("found no starts, expected at least one")
    return named


def guesses(
    kinds: Sequence[str], votes: Floats, said_by: Callable[[int], Array], raters: Sequence[str]
) -> Iterator[tuple[str, str, Floats]]:
    """Return the posteriors that EM starts from, with their kinds and names.

    Args:
        kinds: What starts to make.
        votes: How many raters say each class, `(n, L)`.
        said_by: Gives the shares of the classes that a rater says of each of the n, `(n, L)`;
            none where the rater is silent.
        raters: The names of the raters.

    Example:
        >>> votes = np.array([[2.0, 1.0], [0.0, 3.0]])
        >>> found = list(guesses(("vote", "mean", "union"), votes, np.zeros, ()))
        >>> [(name, guess[0].round(2).tolist()) for _, name, guess in found]
        [('vote', [1.0, 0.0]), ('mean', [0.67, 0.33]), ('union', [0.0, 1.0])]
    """
    mean = shares_of(votes)
    classes = votes.shape[1]
    for kind in kinds:
        if kind == "vote":
            yield kind, kind, shares_of((votes == votes.max(axis=1, keepdims=True)).astype(float))
        elif kind == "mean":
            yield kind, kind, mean
        elif kind == "union" and classes > 1:
            drawn = votes[:, 1:].any(axis=1, keepdims=True) & (np.arange(classes) == 0)
            yield kind, kind, shares_of(np.where(drawn, 0.0, votes))
        elif kind == "raters" and len(raters) <= MOST_RATERS:
            for r, name in enumerate(raters):
                said = said_by(r)
                silent = said.sum(axis=1, keepdims=True) == 0
                yield kind, f"rater {name}", np.where(silent, mean, shares_of(said))
        elif kind == "random":
            random = np.random.default_rng(0)
            for k in range(_DRAWS):
                drawn_votes = mean * random.gamma(1.0, size=mean.shape)
                yield kind, f"random {k + 1}", shares_of(drawn_votes)


def choose(solutions: Sequence[Solution[S]], disputed: Floats, what: str = "voxels") -> Choice[S]:
    """Keep the most likely dominant solution; of equals that of the first kind of start.

    Where none is dominant, the first kind of start is kept.

    Args:
        solutions: Where EM ended; the first is the one of the usual start.
        disputed: The weight of each column that raters differ on, `(n,)`.
        what: What columns are made of, in the notes.
    """
    margins = [solution.dominance for solution in solutions]
    sound = [k for k, margin in enumerate(margins) if margin > 0]
    likelihoods = np.array([solution.log_likelihood for solution in solutions])
    slack = _EQUAL + 1e-6 * float(np.abs(likelihoods[np.isfinite(likelihoods)]).max(initial=0.0))
    kinds = list(dict.fromkeys(solution.kind for solution in solutions))
    usual = [k for k, solution in enumerate(solutions) if solution.kind == kinds[0]]
    best = max(likelihoods[k] for k in sound or usual)

    def order(k: int) -> tuple[int, list[float]]:
        # The order of raters must not decide: of theirs, that with more of the first class.
        shares = -solutions[k].counts.sum(axis=1)
        return kinds.index(solutions[k].kind), shares.round(6).tolist()

    kept = min((k for k in sound or usual if likelihoods[k] >= best - slack), key=order)
    total = float(disputed.sum())
    differ = [
        float(disputed[solution.labels != solutions[kept].labels].sum()) / total if total else 0.0
        for solution in solutions
    ]
    rows = [
        {
            "start": solution.start,
            "log_likelihood": solution.log_likelihood,
            "dominance": margins[k],
            "differs": differ[k],
            "kept": k == kept,
        }
        for k, solution in enumerate(solutions)
    ]
    return Choice(solutions[kept], rows, _notes(rows, slack, what, solutions[kept].weak))


def with_names(notes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Name the classes in notes of functions on arrays, which know them by number only.

    Example:
        >>> with_names(["do not rely on its class number 0, 2"], ["benign", "3", "4"])
        ['do not rely on class benign, 4']
    """

    def name(found: re.Match[str]) -> str:
        return f"class {', '.join(names[int(k)] for k in found[1].split(', '))}"

    return [_NUMBERS.sub(name, note) for note in notes]


def _notes(rows: list[Row], slack: float, what: str, weak: list[int]) -> list[str]:
    """Return where starts disagree, and what they disagree on."""
    kept = next(row for row in rows if row["kept"])
    others = [row for row in rows if row["differs"] > _FEW]
    notes = []
    if weak:
        numbers = ", ".join(map(str, weak))
        notes.append(
            f"from no start does EM end where raters are right more often than wrong in every "
            f"class: that of '{kept['start']}' was kept, do not rely on its class number {numbers}"
        )
    if not others:
        return notes
    names = ", ".join(row["start"] for row in others)
    most = max(row["differs"] for row in others)
    start = (
        f"EM has several solutions: from {names} it ends elsewhere than from '{kept['start']}', "
        f"in up to {most:.0%} of the {what} that raters differ on"
    )
    better = kept["log_likelihood"] + slack
    equal = [
        row["start"]
        for row in others
        if (row["dominance"] > 0) == (kept["dominance"] > 0)
        if abs(row["log_likelihood"] - kept["log_likelihood"]) <= slack
    ]
    if equal:
        why = f"the labels do not decide between '{kept['start']}' and {', '.join(equal)}"
    elif any(row["log_likelihood"] > better for row in others):
        why = (
            "more likely ones in which raters are mostly wrong in some class were left out"
            if kept["dominance"] > 0
            else "raters are mostly wrong in some class in all of them: the usual start was kept"
        )
    else:
        why = "the most likely was kept"
    return [*notes, f"{start}; {why}"]


START = 0.99999
"""How often raters are right at the start 'vote', as in ITK."""

_DOUBT = 0.1
"""The share of chance in other starts: EM never leaves a matrix that is sure of itself."""


def fit(
    columns: Columns,
    prior: Floats,
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
    classes = len(prior)
    others = [kind for kind in kinds if kind != "vote"]
    sure = start_matrices(len(columns.labels), classes, START)
    starts = [("vote", "vote", sure)] if "vote" in kinds else []
    if others:
        said = columns.labels[:, :, np.newaxis] == np.arange(classes)
        votes = said.sum(axis=0).astype(np.float64)
        for kind, name, guess in guesses(others, votes, said.__getitem__, names):
            counted = m_step(_counts(columns, exact_shares(guess)), sure, options.smoothing)
            starts.append((kind, name, (1 - _DOUBT) * counted + _DOUBT / classes))
    ends = [
        (kind, name, run_em(partial(e_step, columns), EMState(prior, start), options))
        for kind, name, start in starts
    ]
    if not ends:
        raise RatersError(f"found starts={list(kinds)}, expected some that these masks have")
    if tuple(kinds) == ("vote",):  # nothing to compare: nothing to count
        return alone(ends[0][2])
    differ = (columns.agreed() == MISSING) & (columns.labels != MISSING).any(axis=0)
    disputed = np.where(differ, np.broadcast_to(columns.weights, columns.size), 0.0)
    return choose([_solution(columns, options, *end) for end in ends], disputed)


def alone(state: EMState) -> Choice[EMState]:
    """Take a state that there was no choice about."""
    nothing = np.zeros((0, 0)), np.zeros(0, np.int16)
    return Choice(Solution("vote", "vote", state, 0.0, *nothing), [], [])


def _counts(columns: Columns, guess: Floats) -> Floats:
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

"""EM over a table of answers: what `dawid_skene`, `one_coin` and `hierarchical` share.

    E   w_i(t) ~ pi_t prod_(r, o in answers to i) C_r[t, o]
    M   pi_t = mean_i w_i(t);   C by the model, from n_r(t, o) = sum of w_i(t) over answers (r, o)

Tasks lie one after the other with their answers in a row, so that both cores can each take a
stretch of them. A rater's repeated readings of a task are as many answers. All in log space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from raters.core.arrays import Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.columns import Answers, answers_of, in_stretches, vote_shares, votes_of
from raters.fusion.em import iterate, on_grid, start_matrices, total_of
from raters.fusion.kernels import answers_pass, count_answers
from raters.fusion.result import Fusion
from raters.fusion.starts import Solution, Starts, choose, guesses, kinds_of
from raters.io.rows import Row
from raters.study.triplets import Triplets

FLOOR = 1e-10
"""Expected counts of labels that a rater has given, and shares of classes that somebody has named,
are at least this (as in crowd-kit 1.4), so that no answer makes every class impossible."""

RIGHT_BEFORE = 0.75
"""How often raters are right in the answers that smoothing gives them in advance."""

MOST_SMOOTHING = 1e12
"""Far more than anybody has answers."""

SEVERAL_OF_TABLES = ("mean", "vote", "raters")

MOST_FOR_SEVERAL = 300_000
"""Tables with more answers are fitted from the mean alone, if nothing else is asked for."""

ANSWERS_A_PARAMETER = 10
"""And those with fewer: there the likelihood prefers solutions that fit the errors too."""

_DOUBT = 0.1


@dataclass(frozen=True)
class Parameters:
    """What EM estimates: the prior `(L,)` and the matrices `(R, L, L)`, `C[t, o]`.

    Variational methods also know a lower bound of the evidence; it is None for all others.
    """

    prior: Floats
    confusion: Floats
    bound: float | None = None

    def logs(self) -> tuple[Floats, Floats]:
        """Return what an E step adds up: log prior `(L,)` and log matrices `(R, o, t)`."""
        with np.errstate(divide="ignore"):
            by_label = np.ascontiguousarray(self.confusion.transpose(0, 2, 1))
            return np.log(self.prior), np.log(by_label)

    def change(self, other: Parameters) -> float:
        """Return the greatest difference of an entry."""
        return max(
            float(np.abs(self.prior - other.prior).max(initial=0.0)),
            float(np.abs(self.confusion - other.confusion).max(initial=0.0)),
        )


@dataclass(frozen=True)
class Options:
    """How EM over a table runs; `dawid_skene` says what each option means.

    (`raters.fuse` checks options by their types; functions may also be called without it.)
    """

    max_iter: int
    tol: float
    smoothing: float
    hard: bool

    def __post_init__(self) -> None:
        if self.max_iter < 0:
            raise RatersError(f"found max_iter={self.max_iter}, expected 0 or more")
        if not 0 <= self.smoothing <= MOST_SMOOTHING:
            raise RatersError(
                f"found the smoothing {self.smoothing}, expected 0 to {MOST_SMOOTHING:g}"
            )


MatrixStep = Callable[[Floats, Ints, float], Floats]
"""Returns matrices `(R, t, o)` from expected counts `(R, o, t)`, label counts and smoothing."""


def e_step(
    answers: Answers, parameters: Parameters, hard: bool = False, out: Floats | None = None
) -> tuple[Floats, float]:
    """Return the posteriors `(tasks, L)` and the log-likelihood of the answers.

    Args:
        answers: The table.
        parameters: The prior and the matrices.
        hard: Put all weight on the most likely class (the first of equals).
        out: Where to write the posteriors.
    """
    posteriors = np.empty((answers.tasks, answers.classes)) if out is None else out
    log_prior, log_confusion = on_grid(parameters.logs(), answers.most + 1)

    def work(start: int, stop: int) -> float:
        stretch = answers.task_stretch(start, stop)
        return float(answers_pass(answers, log_prior, log_confusion, hard, *stretch, posteriors))

    return posteriors, sum(in_stretches(work, len(answers.label)))


def expected_counts(answers: Answers, posteriors: Floats) -> tuple[Floats, Floats]:
    """Return how often each rater said `o` where `t` was true, `(R, o, t)`, and tasks by class.

    Both are sums of posteriors: over answers, and over the tasks that have answers, `(L,)`.
    """
    raters = answers.raters
    classes = answers.classes

    def work(start: int, stop: int) -> tuple[Floats, Floats]:
        counts = np.zeros((2, raters, classes, classes))
        tasks = np.zeros((2, classes))
        count_answers(answers, posteriors, *answers.task_stretch(start, stop), counts, tasks)
        return counts, tasks

    parts = in_stretches(work, len(answers.label))
    return total_of([counts for counts, _ in parts]), total_of([tasks for _, tasks in parts])


def class_shares(tasks: Floats, used: Ints) -> Floats:
    """Return the share of each class, `(L,)`, from the expected number of tasks of each.

    A class that a rater named keeps at least `FLOOR`; one that none named and that has no
    posterior stays at exactly 0, so that it can explain nothing. Without answers: 1 / L.

    Args:
        tasks: The expected number of tasks of each class.
        used: How often each rater gave each label, `(R, L)`.

    Example:
        >>> class_shares(np.array([3.0, 1.0, 0.0]), np.array([[4, 1, 0]])).tolist()
        [0.75, 0.25, 0.0]
    """
    total = tasks.sum()
    if total == 0:
        return np.full(len(tasks), 1 / len(tasks))
    shares = np.maximum(tasks / total, FLOOR * used.any(axis=0))
    return np.asarray(shares / shares.sum())


MStep = Callable[[Floats], Parameters]
"""Returns parameters from posteriors `(tasks, L)`."""


class Learner(Protocol):
    """What tells the methods apart."""

    @property
    def free(self) -> int:
        """How many numbers a rater has that are free."""

    def m_step(self, answers: Answers, options: Options, fixed: Floats | None) -> MStep:
        """Return the M step of one run of EM, with the prior fixed or estimated."""

    def evidence(self, answers: Answers, options: Options, found: Parameters) -> float:
        """Return what solutions are compared by."""


@dataclass(frozen=True)
class Model:
    """Point estimates: what tells `dawid_skene` and `one_coin` apart.

    Attributes:
        matrices: The M step.
        free: How many numbers a rater has that are free.
        rows: How many rows of a rater's matrix are free, as a share: smoothing weighs so much.
    """

    matrices: MatrixStep
    free: int
    rows: float = 1.0

    def m_step(self, answers: Answers, options: Options, fixed: Floats | None) -> MStep:
        """Return the step from posteriors to the prior and the matrices."""

        def step(posteriors: Floats) -> Parameters:
            counts, tasks = expected_counts(answers, posteriors)
            shares = class_shares(tasks, answers.used) if fixed is None else fixed
            return Parameters(shares, self.matrices(counts, answers.used, options.smoothing))

        return step

    def evidence(self, answers: Answers, options: Options, found: Parameters) -> float:
        """Return the log-likelihood; with smoothing, the log posterior."""
        _, log_likelihood = e_step(answers, found)
        if options.smoothing:
            before = start_matrices(1, answers.classes, RIGHT_BEFORE)
            logs = np.log(np.maximum(found.confusion, np.finfo(float).tiny))
            log_likelihood += options.smoothing * self.rows * float((before * logs).sum())
        return log_likelihood


@dataclass(frozen=True)
class TableState:
    """Where EM over a table ended."""

    posteriors: Floats
    parameters: Parameters
    log_likelihoods: list[float]
    converged: bool


def run(
    triplets: Triplets,
    num_classes: int,
    model: Learner,
    options: Options,
    prior: ArrayLike | None,
    start: ArrayLike | None,
    starts: Starts | None,
) -> Fusion:
    """Run EM over a table, from one start or several, and keep the most likely solution."""
    answers = answers_of(triplets, num_classes)
    found, rows, notes = solve(answers, triplets.raters, model, options, prior, start, starts)
    return fusion_of(answers, found, rows, notes)


def solve(
    answers: Answers,
    raters: Sequence[str],
    model: Learner,
    options: Options,
    prior: ArrayLike | None,
    start: ArrayLike | None,
    starts: Starts | None,
) -> tuple[TableState, list[Row], list[str]]:
    """Return where EM ended, a row for each of several starts, and what is to be said of them."""
    num_classes = answers.classes
    fixed = None if prior is None else _given("prior", prior, (num_classes,))

    def em(posteriors: Floats) -> TableState:
        """Take an M step, then E and M in turns until no parameter changes."""
        m_step = model.m_step(answers, options, fixed)

        def step(old: Parameters) -> tuple[Parameters, float, float]:
            _, log_likelihood = e_step(answers, old, options.hard, out=posteriors)
            new = m_step(posteriors)
            return new, log_likelihood if new.bound is None else new.bound, new.change(old)

        ended = iterate(step, m_step(posteriors), options.max_iter, options.tol)
        return TableState(posteriors, *ended)

    def solution(kind: str, name: str, guess: Floats) -> Solution[TableState]:
        if kind != "mean":  # EM does not leave certainty
            guess = (1 - _DOUBT) * guess + _DOUBT * vote_shares(answers)
        state = em(np.array(guess))
        evidence = model.evidence(answers, options, state.parameters)
        counts = expected_counts(answers, state.posteriors)[0].sum(axis=0).T
        return Solution(kind, name, state, evidence, counts, _hard(answers, state.posteriors))

    if start is not None:
        return em(_given("start", start, (answers.tasks, num_classes))), [], []
    enough = ANSWERS_A_PARAMETER * model.free * answers.raters
    several = enough <= len(answers.label) <= MOST_FOR_SEVERAL
    kinds = kinds_of(starts, SEVERAL_OF_TABLES if several else ("mean",), SEVERAL_OF_TABLES)
    if kinds == ("mean",):
        return em(vote_shares(answers)), [], []
    votes = votes_of(answers)

    def said_by(rater: int) -> Floats:
        return votes_of(answers, answers.rater == rater)

    solutions = [solution(*guess) for guess in guesses(kinds, votes, said_by, raters)]
    if not solutions:
        raise RatersError(f"found starts={starts}, expected some that this table has")
    disputed = ((votes > 0).sum(axis=1) > 1).astype(np.float64)
    choice = choose(solutions, disputed, "tasks")
    return choice.kept.state, choice.rows, choice.notes


def fusion_of(
    answers: Answers, found: TableState, rows: Sequence[Row] = (), notes: Sequence[str] = ()
) -> Fusion:
    """Return what was found as the result of a method."""
    hard = _hard(answers, found.posteriors)
    fit = found.parameters
    history = found.log_likelihoods
    number = int(answers.answered.sum())
    fitted = (fit.confusion, fit.prior, history, found.converged, number)
    return Fusion(found.posteriors, hard, *fitted, list(rows), list(notes))


def _hard(answers: Answers, posteriors: Floats) -> Labels:
    return np.where(answers.answered, posteriors.argmax(axis=1), MISSING).astype(np.int16)


def _given(what: str, weights: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Check weights of classes and make them sum to one."""
    given = np.asarray(weights, np.float64)
    if given.shape != shape:
        raise RatersError(f"found a {what} of shape {given.shape}, expected {shape}")
    if not (np.isfinite(given).all() and (given >= 0).all() and (given.sum(axis=-1) > 0).all()):
        raise RatersError(f"found a {what} that is no probability, expected weights from 0 up")
    return np.ascontiguousarray(given / given.sum(axis=-1, keepdims=True))

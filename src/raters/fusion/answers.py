"""EM over a table of answers: what `dawid_skene`, `one_coin` and `hierarchical` share.

    E   w_i(t) ~ pi_t prod_(r, o in answers to i) C_r[t, o]
    M   pi_t = mean_i w_i(t);   C by the model, from n_r(t, o) = sum of w_i(t) over answers (r, o)

Tasks lie one after the other with their answers in a row, so that both cores can each take a
stretch of them. A rater's repeated readings of a task are as many answers. All in log space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.arrays import Flags, Floats, Ints, Labels
from raters.errors import RatersError
from raters.fusion.columns import in_stretches
from raters.fusion.em import on_grid, start_matrices, total_of
from raters.fusion.kernels import answers_pass, count_answers
from raters.fusion.result import Fusion
from raters.fusion.starts import Solution, Starts, choose, guesses, kinds_of
from raters.rows import Row
from raters.study.classes import MISSING
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
class Answers:
    """A table with the answers to each task in a row.

    Attributes:
        starts: Where the answers to each task begin, `(tasks + 1,)`.
        rater: The rater of each answer.
        label: The class number of each answer.
        raters: The number of raters R.
        classes: The number of classes L.
        used: How often each rater gave each label, `(R, L)`.
    """

    starts: Ints
    rater: NDArray[np.int32]
    label: Labels
    raters: int
    classes: int
    used: Ints

    @property
    def tasks(self) -> int:
        """The number of tasks, those without answers too."""
        return len(self.starts) - 1

    @cached_property
    def most(self) -> int:
        """The largest number of answers to a task."""
        return int(np.diff(self.starts).max(initial=0))

    @property
    def answered(self) -> Flags:
        """Which tasks have an answer, `(tasks,)`."""
        return np.asarray(self.starts[1:] > self.starts[:-1])

    def task_stretch(self, start: int, stop: int) -> tuple[int, int]:
        """Turn a stretch of answers into the stretch of tasks that begin in it."""
        first, last = np.searchsorted(self.starts[:-1], [start, stop])
        return int(first), self.tasks if stop == len(self.label) else int(last)


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
    """How EM over a table runs; `dawid_skene` says what each option means."""

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


def answers_of(triplets: Triplets, num_classes: int) -> Answers:
    """Lay out a table task by task; answers that are MISSING are left out.

    Example:
        >>> table = Triplets([1, 0, 1], [0, 0, 1], [1, 0, 0], ["a", "b"], ("ann", "bob"), (0, 1))
        >>> answers = answers_of(table, num_classes=2)
        >>> answers.starts.tolist(), answers.rater.tolist(), answers.label.tolist()
        ([0, 1, 3], [0, 0, 1], [0, 1, 0])
    """
    _refuse_numbers(triplets, num_classes)
    task, rater, label = _in_task_order(triplets)
    tasks, raters = len(triplets.tasks), len(triplets.raters)
    starts = np.zeros(tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=tasks), out=starts[1:])
    cells = np.bincount(rater * np.int64(num_classes) + label, minlength=raters * num_classes)
    return Answers(starts, rater, label, raters, num_classes, cells.reshape(raters, num_classes))


def vote_shares(answers: Answers) -> Floats:
    """Return the share of each class among the answers to a task, `(tasks, L)`; 1 / L without any.

    Example:
        >>> table = Triplets([0, 0, 0], [0, 1, 2], [1, 0, 1], ["a", "b"], ("x", "y", "z"), (0, 1))
        >>> vote_shares(answers_of(table, 2)).round(2).tolist()
        [[0.33, 0.67], [0.5, 0.5]]
    """
    number = np.diff(answers.starts)
    shares = _votes(answers)
    shares /= np.maximum(number, 1)[:, np.newaxis]
    shares[number == 0] = 1 / answers.classes
    return shares


def _votes(answers: Answers, chosen: Flags | None = None) -> Floats:
    """Count the answers (or some of them) to each task by class, `(tasks, L)`."""
    number = np.diff(answers.starts)
    cell = np.repeat(np.arange(answers.tasks) * answers.classes, number) + answers.label
    if chosen is not None:
        cell = cell[chosen]
    votes = np.bincount(cell, minlength=answers.tasks * answers.classes).astype(np.float64)
    return votes.reshape(answers.tasks, answers.classes)


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
        first, last = answers.task_stretch(start, stop)
        return float(
            answers_pass(
                answers.starts,
                answers.rater,
                answers.label,
                log_prior,
                log_confusion,
                hard,
                first,
                last,
                posteriors,
            )
        )

    return posteriors, sum(in_stretches(work, len(answers.label)))


def expected_counts(answers: Answers, posteriors: Floats) -> tuple[Floats, Floats]:
    """Return how often each rater said `o` where `t` was true, `(R, o, t)`, and tasks by class.

    Both are sums of posteriors: over answers, and over the tasks that have answers, `(L,)`.
    """
    raters, classes = answers.raters, answers.classes

    def work(start: int, stop: int) -> tuple[Floats, Floats]:
        counts, tasks = np.zeros((2, raters, classes, classes)), np.zeros((2, classes))
        first, last = answers.task_stretch(start, stop)
        count_answers(
            answers.starts, answers.rater, answers.label, posteriors, first, last, counts, tasks
        )
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
    if start is not None:
        guess = _given("start", start, (answers.tasks, num_classes))
        return _em(answers, model, options, fixed, guess), [], []
    enough = ANSWERS_A_PARAMETER * model.free * answers.raters
    several = enough <= len(answers.label) <= MOST_FOR_SEVERAL
    kinds = kinds_of(starts, SEVERAL_OF_TABLES if several else ("mean",), SEVERAL_OF_TABLES)
    if kinds == ("mean",):
        return _em(answers, model, options, fixed, vote_shares(answers)), [], []
    votes = _votes(answers)

    def said_by(rater: int) -> Floats:
        return _votes(answers, answers.rater == rater)

    solutions = [
        _solution(answers, model, options, (kind, name), fixed, guess)
        for kind, name, guess in guesses(kinds, votes, said_by, raters)
    ]
    if not solutions:
        raise RatersError(f"found starts={starts}, expected some that this table has")
    disputed = ((votes > 0).sum(axis=1) > 1).astype(np.float64)
    choice = choose(solutions, disputed, "tasks")
    return choice.kept.state, choice.rows, choice.notes


def _em(
    answers: Answers, model: Learner, options: Options, fixed: Floats | None, posteriors: Floats
) -> TableState:
    """Take an M step, then E and M in turns until no parameter changes."""
    m_step = model.m_step(answers, options, fixed)
    parameters, converged = m_step(posteriors), False
    history: list[float] = []
    while len(history) < options.max_iter and not converged:
        old = parameters
        posteriors, log_likelihood = e_step(answers, old, options.hard, out=posteriors)
        parameters = m_step(posteriors)
        history.append(log_likelihood if parameters.bound is None else parameters.bound)
        converged = parameters.change(old) <= options.tol
    return TableState(posteriors, parameters, history, converged)


def _solution(
    answers: Answers,
    model: Learner,
    options: Options,
    name: tuple[str, str],
    fixed: Floats | None,
    guess: Floats,
) -> Solution[TableState]:
    """Run EM from one guess; all but the mean are mixed with it, as EM does not leave certainty."""
    if name[0] != "mean":
        guess = (1 - _DOUBT) * guess + _DOUBT * vote_shares(answers)
    state = _em(answers, model, options, fixed, np.array(guess))
    evidence = model.evidence(answers, options, state.parameters)
    counts = expected_counts(answers, state.posteriors)[0].sum(axis=0).T
    return Solution(*name, state, evidence, counts, _hard(answers, state.posteriors))


def fusion_of(
    answers: Answers, found: TableState, rows: Sequence[Row] = (), notes: Sequence[str] = ()
) -> Fusion:
    """Return what was found as the result of a method."""
    hard, fit = _hard(answers, found.posteriors), found.parameters
    history, number = found.log_likelihoods, int(answers.answered.sum())
    fitted = (fit.confusion, fit.prior, history, found.converged, number)
    return Fusion(found.posteriors, hard, *fitted, list(rows), list(notes))


def _hard(answers: Answers, posteriors: Floats) -> Labels:
    return np.where(answers.answered, posteriors.argmax(axis=1), MISSING).astype(np.int16)


def _in_task_order(triplets: Triplets) -> tuple[NDArray[np.int32], NDArray[np.int32], Labels]:
    """Return task, rater and label of the answers that there are, sorted by task."""
    task, rater, label = triplets.task, triplets.rater, triplets.label
    if label.size and label.min() == MISSING:
        there = label != MISSING
        task, rater, label = task[there], rater[there], label[there]
    if (task[1:] < task[:-1]).any():
        order = np.argsort(task, kind="stable")
        task, rater, label = task[order], rater[order], label[order]
    return task, np.ascontiguousarray(rater), np.ascontiguousarray(label)


def _refuse_numbers(triplets: Triplets, num_classes: int) -> None:
    """Reject numbers that are out of range: compiled code would read memory that is not its own."""
    if num_classes < 1:
        raise RatersError(f"found {num_classes} classes, expected at least 1")
    for what, numbers, size, lowest in (
        ("class", triplets.label, num_classes, MISSING),
        ("task", triplets.task, len(triplets.tasks), 0),
        ("rater", triplets.rater, len(triplets.raters), 0),
    ):
        if numbers.size and not (numbers.min() >= lowest and numbers.max() < size):
            raise RatersError(
                f"found {what} numbers from {numbers.min()} to {numbers.max()}, "
                f"expected {lowest} to {size - 1}",
                kind="unknown-value",
            )


def _given(what: str, weights: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Check weights of classes and make them sum to one."""
    given = np.asarray(weights, np.float64)
    if given.shape != shape:
        raise RatersError(f"found a {what} of shape {given.shape}, expected {shape}")
    if not (np.isfinite(given).all() and (given >= 0).all() and (given.sum(axis=-1) > 0).all()):
        raise RatersError(f"found a {what} that is no probability, expected weights from 0 up")
    return np.ascontiguousarray(given / given.sum(axis=-1, keepdims=True))

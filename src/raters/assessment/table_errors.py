r"""Standard errors of raters' measures in tables, by what each group of tasks says.

Where a group `g` counted `1 + x_g` times, with `x_g` drawn at random with variance 1, the estimate
would move by `(1 - M)^-1 b`: `b` is what one M step makes of the weights, and `M` the slope of a
step of EM, which carries a change of matrices to posteriors and back (A. P. Dempster et al., 1977;
X.-L. Meng, D. B. Rubin, 1991). The spread of these moves over some draws is the error of the
estimate: a bootstrap over groups in which nothing is fitted anew. `1 - M` is solved by conjugate
gradients in the inner product of the expected counts, in which it is symmetric.

A tenth of a label in each row keeps it solvable where the answers do not tell a rater's matrix;
such errors come out so large that there is no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from raters.assessment.information import HALF_A_LABEL
from raters.assessment.performance import FAR, MEASURES, Errors, effective_groups, moved_measures
from raters.core.arrays import Array, Floats
from raters.fusion.answers import Parameters, e_step, expected_counts
from raters.fusion.columns import Answers, answers_of
from raters.fusion.result import Fusion
from raters.study.triplets import Triplets

DRAWS = 50
_AT_ONCE = 10
_MOST_STEPS = 100
_TOLERANCE = 0.01
_TENTH_OF_A_LABEL = 0.1


@dataclass(frozen=True)
class Moves:
    """Changes of log matrices `(R, o, t, draws)` and of the log prior `(t, draws)`."""

    matrices: Floats
    prior: Floats

    def plus(self, other: Moves, times: Floats) -> Moves:
        """Add so many times another, one number per draw."""
        return Moves(self.matrices + times * other.matrices, self.prior + times * other.prior)


@dataclass(frozen=True)
class Model:
    """The fit of a table, and how its matrices and its prior can move.

    Attributes:
        answers: The table.
        parameters: The fit.
        posteriors: The truth that follows from it, `(tasks, L)`.
        metric: How many labels each entry of a matrix rests on, `(R, o, t, 1)`.
        classes: How many tasks each class of the prior rests on, `(t, 1)`; 0 where it is known.
        fit: The slope of the M step: turns changes of counts into changes of log matrices.
        ridge: A tenth of a label beside what a row rests on, `(R, 1, t or 1, 1)`.
    """

    answers: Answers
    parameters: Parameters
    posteriors: Floats
    metric: Floats
    classes: Floats
    fit: Callable[[Floats], Floats]
    ridge: Floats

    def from_counts(self, counts: Floats, tasks: Floats) -> Moves:
        """Return the changes that changes of counts make."""
        change = np.divide(tasks, self.classes, out=np.zeros_like(tasks), where=self.classes > 0)
        total = max(self.classes.sum(), HALF_A_LABEL)
        mean = np.where(self.classes > 0, tasks, 0).sum(axis=0) / total
        return Moves(self.fit(counts), np.where(self.classes > 0, change - mean, 0))

    def of_weights(self, weights: Floats) -> Moves:
        """Return what an M step makes of weights of tasks, `(tasks, draws)`."""
        counts, tasks = self._empty(weights.shape[1])
        weighted_counts(self.answers, self.posteriors, weights, counts, tasks)
        return self.from_counts(counts, tasks)

    def without_step(self, moves: Moves) -> Moves:
        """Return `1 - M` times some changes, with the tenth of a label."""
        counts, tasks = self._empty(moves.prior.shape[1])
        moved_counts(self.answers, self.posteriors, moves.matrices, moves.prior, counts, tasks)
        step = self.from_counts(counts, tasks)
        return Moves((1 + self.ridge) * moves.matrices - step.matrices, moves.prior - step.prior)

    def inner(self, first: Moves, second: Moves) -> Floats:
        """Return the inner product of changes, one number per draw."""
        matrices = np.einsum(
            "rotb,rotb,rot->b", first.matrices, second.matrices, self.metric[..., 0]
        )
        prior = np.einsum("tb,tb,t->b", first.prior, second.prior, self.classes[:, 0])
        return np.asarray(matrices + prior)

    def _empty(self, draws: int) -> tuple[Floats, Floats]:
        return np.zeros((*self.metric.shape[:3], draws)), np.zeros((len(self.classes), draws))


def table_errors(
    triplets: Triplets,
    groups: Array,
    fusion: Fusion,
    kind: str,
    options: Mapping[str, Any],
    seed: int = 0,
) -> Errors | None:
    """Return the errors of the raters' measures; None where the method has none.

    Args:
        triplets: The answers.
        groups: The group of each task.
        fusion: What `dawid_skene` or `one_coin` gave.
        kind: What was fitted: 'rows' (one matrix per rater) or 'coin' (one accuracy per rater).
        options: Its options.
        seed: The same seed gives the same errors.
    """
    given = options.get("prior") is not None
    if options.get("hard") or options.get("smoothing"):
        return None
    if kind == "coin" and not given and not options.get("estimate_prior"):
        return None  # classes are taken as alike, which they are not
    assert fusion.confusion is not None and fusion.prior is not None  # these methods have both
    number = np.unique(groups.astype(str), return_inverse=True)[1]
    if number.max(initial=0) == 0:
        return None
    answers = answers_of(triplets, len(fusion.prior))
    parameters = Parameters(fusion.prior, fusion.confusion)
    model = _model(answers, parameters, kind, given)
    variance, left = _spread(model, number, np.random.default_rng(seed))
    if variance is None:
        return None
    worth = effective_tasks(answers, model.posteriors, number)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(worth > 1, 1 / (1 / DRAWS + 1 / (worth - 1)), 0)
        variance = variance * worth / (worth - 1)
        error = np.sqrt(np.where((variance > 1e-18) & (freedom >= 1), variance, np.nan))
        return Errors(np.where(np.abs(left) <= FAR * error, error, np.nan), freedom)


def _model(answers: Answers, parameters: Parameters, kind: str, known: bool) -> Model:
    posteriors, _ = e_step(answers, parameters)
    counts, tasks = expected_counts(answers, posteriors)
    by_label = parameters.confusion.transpose(0, 2, 1)
    if kind == "coin":
        labels = answers.used.sum(axis=1)[:, np.newaxis, np.newaxis].astype(np.float64)
        metric = by_label * labels / answers.classes
        fit = _coin_step(by_label, labels)
    else:
        labels = counts.sum(axis=1, keepdims=True)
        metric = np.where(by_label * labels > HALF_A_LABEL, by_label * labels, 0)
        fit = _row_step(metric[..., np.newaxis])
    ridge = _TENTH_OF_A_LABEL / np.maximum(labels, HALF_A_LABEL)
    classes = np.where(tasks > HALF_A_LABEL, tasks, 0)
    if known:
        classes = np.zeros_like(classes)
    return Model(
        answers,
        parameters,
        posteriors,
        metric[..., np.newaxis],
        classes[:, np.newaxis],
        fit,
        ridge[..., np.newaxis],
    )


def _row_step(metric: Floats) -> Callable[[Floats], Floats]:
    """Return the slope of an M step with one matrix per rater: entries by those of their row."""
    free = metric > 0
    inverse = np.divide(1, metric, out=np.zeros_like(metric), where=free)
    rows = metric.sum(axis=1, keepdims=True)
    share = np.divide(1, rows, out=np.zeros_like(rows), where=rows > 0)

    def fit(counts: Floats) -> Floats:
        counts = counts * free
        return np.asarray(counts * inverse - free * (counts.sum(axis=1, keepdims=True) * share))

    return fit


def _coin_step(by_label: Floats, labels: Floats) -> Callable[[Floats], Floats]:
    """Return the slope of an M step with one accuracy per rater."""
    classes = by_label.shape[1]
    right = by_label[:, :1, :1, np.newaxis]
    spread = np.where(labels > 0, right[..., 0] * (1 - right[..., 0]) / np.maximum(labels, 1e-9), 0)
    same = np.eye(classes, dtype=bool)[np.newaxis, ..., np.newaxis]
    slope = np.where(same, 1 / right, -1 / np.maximum(1 - right, 1e-12))

    def fit(counts: Floats) -> Floats:
        total = (counts * slope).sum(axis=(1, 2), keepdims=True)
        return np.asarray(slope * (spread[..., np.newaxis] * total))

    return fit


def _spread(
    model: Model, groups: NDArray[np.intp], random: np.random.Generator
) -> tuple[Floats | None, Floats]:
    """Return the variance of the measures `(R, 4, L)`, and how far EM is from its end."""
    solved = _solve(model, model.of_weights(np.ones((len(groups), 1))))
    if solved is None:
        return None, np.zeros(0)
    (left,) = _measures(model, solved)
    variance = np.zeros_like(left)
    for first in range(0, DRAWS, _AT_ONCE):
        draws = min(_AT_ONCE, DRAWS - first)
        weights = random.standard_normal((groups.max() + 1, draws))[groups]
        drawn = model.of_weights(weights)
        noise = random.standard_normal((*model.metric.shape[:3], draws)) * np.sqrt(model.metric)
        pushed = drawn.matrices + np.sqrt(model.ridge) * model.fit(noise)
        solved = _solve(model, Moves(pushed, drawn.prior))
        if solved is None:
            return None, left
        variance += sum(np.square(m) for m in _measures(model, solved)) / DRAWS
    return variance, left


def _measures(model: Model, moves: Moves) -> list[Floats]:
    """Return how the measures move, `(R, 4, L)`, a draw."""
    confusion = model.parameters.confusion
    prior = model.parameters.prior
    changed = confusion[..., np.newaxis] * moves.matrices.transpose(0, 2, 1, 3)
    shares = prior[:, np.newaxis] * moves.prior
    return [
        moved_measures(confusion, prior, changed[..., b], shares[:, b])
        for b in range(shares.shape[1])
    ]


def _solve(model: Model, right: Moves) -> Moves | None:
    """Solve `(1 - M) x = right` by conjugate gradients; None where the fit is at no maximum."""
    found = Moves(np.zeros_like(right.matrices), np.zeros_like(right.prior))
    rest = right
    way = right
    size = model.inner(rest, rest)
    enough = np.maximum(size * _TOLERANCE**2, 1e-30)
    for _ in range(_MOST_STEPS):
        if (size <= enough).all():
            return found
        applied = model.without_step(way)
        bend = model.inner(way, applied)
        active = size > enough
        if (bend[active] <= 0).any():
            return None
        length = np.where(active, size / np.where(active, bend, 1), 0)
        found = found.plus(way, length)
        rest = rest.plus(applied, -length)
        before = size
        size = model.inner(rest, rest)
        way = rest.plus(way, np.where(active, size / before, 0))
    return found if (size <= 100 * enough).all() else None


def effective_tasks(answers: Answers, posteriors: Floats, groups: NDArray[np.intp]) -> Floats:
    """Return how many groups of one size each measure of a rater rests on, `(R, 4, L)`."""
    classes = answers.classes
    task = np.repeat(np.arange(answers.tasks), np.diff(answers.starts))
    pair, number = np.unique(
        answers.rater * np.int64(len(groups)) + groups[task], return_inverse=True
    )
    rater = pair // len(groups)
    total = np.bincount(number, minlength=len(pair)).astype(np.float64)
    found = np.zeros((answers.raters, len(MEASURES), classes))
    for c in range(classes):
        is_class = np.bincount(number, posteriors[task, c], len(pair))
        says = np.bincount(number, answers.label == c, len(pair))
        for m, size in enumerate((is_class, total - is_class, says, total - says)):
            sums = (np.bincount(rater, part, answers.raters) for part in (size, size**2))
            found[:, m, c] = effective_groups(*(np.asarray(s, np.float64) for s in sums))
    return found


# Draws lie along the last axis, so that the innermost loops run over neighbours in memory.
@numba.njit(nogil=True, cache=True)
def weighted_counts(
    answers: Answers, posteriors: Floats, weights: Floats, counts: Floats, tasks: Floats
) -> None:
    """Sum posteriors over answers and tasks, each task with its weight.

    Args:
        answers: The table.
        posteriors: `(tasks, L)`.
        weights: `(tasks, draws)`.
        counts: `(raters, o, t, draws)`, added to.
        tasks: `(t, draws)`, added to: over tasks that have answers.
    """
    classes = posteriors.shape[1]
    draws = weights.shape[1]
    part = np.empty((classes, draws))
    for task in range(posteriors.shape[0]):
        if answers.starts[task + 1] == answers.starts[task]:
            continue
        for t in range(classes):
            for b in range(draws):
                part[t, b] = posteriors[task, t] * weights[task, b]
        _add(answers, task, part, counts, tasks)


@numba.njit(nogil=True, cache=True)
def moved_counts(
    answers: Answers,
    posteriors: Floats,
    moved: Floats,
    moved_prior: Floats,
    counts: Floats,
    tasks: Floats,
) -> None:
    """Sum the changes of the posteriors where log matrices and log prior move (an E step's slope).

    `dw(t) = w(t) (a(t) - sum_t' w(t') a(t'))`, with `a(t)` the change of the log prior and of the
    log probabilities of the answers to a task: `moved_prior`, `(t, draws)`, and `moved`, `(raters,
    o, t, draws)`. The other arguments are those of `weighted_counts`.
    """
    classes, draws = moved_prior.shape
    part = np.empty((classes, draws))
    mean = np.empty(draws)
    for task in range(posteriors.shape[0]):
        first = answers.starts[task]
        last = answers.starts[task + 1]
        if last == first or posteriors[task].max() > 1 - 1e-12:
            continue  # nothing can move the truth of a task that is certain
        part[:] = moved_prior
        for k in range(first, last):
            row = moved[answers.rater[k], answers.label[k]]
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
        _add(answers, task, part, counts, tasks)


@numba.njit(nogil=True, cache=True)
def _add(answers: Answers, task: int, part: Floats, counts: Floats, tasks: Floats) -> None:
    classes, draws = part.shape
    for k in range(answers.starts[task], answers.starts[task + 1]):
        row = counts[answers.rater[k], answers.label[k]]
        for t in range(classes):
            for b in range(draws):
                row[t, b] += part[t, b]
    for t in range(classes):
        for b in range(draws):
            tasks[t, b] += part[t, b]

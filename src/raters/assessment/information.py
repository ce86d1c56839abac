"""How sharply labels of masks tell the raters' matrices: scores and observed information.

With `w(t)` the posterior of a column, `a_t` the slopes of `log pi_t + sum_r log C_r[t, o_r]` by the
parameters and `n` how often the column occurs, the score of a column is `s = sum_t w(t) a_t`, and
the observed information, in which the truth is summed out (T. A. Louis, 1982), is

    I = sum n (s s' - sum_t w(t) a_t a_t')       without the part of a_t a_t' within one row

as `log C` is straight in its own entries but for that part, which cancels. Parameters move only
along directions in which rows of matrices (and the prior, where it is estimated) still sum to one
and no entry moves that rests on less than half a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Flags, Floats
from raters.core.classes import MISSING
from raters.fusion.columns import Columns
from raters.fusion.em import EMState, log_columns

MOST_DIRECTIONS = 400
HALF_A_LABEL = 0.5
_BLOCK = 4096
_SMALLEST = 1e-12
_SINGULAR = 1e-9


@dataclass(frozen=True)
class Directions:
    """Ways in which the parameters may move.

    Attributes:
        rater: The rater of each direction, `(D,)`; -1 for the prior.
        true: The true class of the row that moves (of the prior: the class that grows).
        grows: The label (of the prior: the class) whose share grows.
        falls: The one whose share falls as much.
    """

    rater: NDArray[np.intp]
    true: NDArray[np.intp]
    grows: NDArray[np.intp]
    falls: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.rater)

    @property
    def of_prior(self) -> Flags:
        """Which directions move the prior."""
        return np.asarray(self.rater < 0)

    def moved(self, rater: int, num_classes: int) -> tuple[Floats, Floats]:
        """Return how a rater's matrix moves by direction, `(D, L, L)`, and the prior, `(D, L)`."""
        matrix = np.zeros((len(self), num_classes, num_classes))
        prior = np.zeros((len(self), num_classes))
        own = np.flatnonzero(self.rater == rater)
        matrix[own, self.true[own], self.grows[own]] = 1
        matrix[own, self.true[own], self.falls[own]] = -1
        shares = np.flatnonzero(self.of_prior)
        prior[shares, self.grows[shares]] = 1
        prior[shares, self.falls[shares]] = -1
        return matrix, prior


@dataclass(frozen=True)
class Information:
    """What the labels tell.

    Attributes:
        directions: The ways in which parameters may move.
        matrix: The observed information along them, `(D, D)`.
        scores: The score of each group of columns, `(groups, D)`; they sum to 0 at a maximum.
    """

    directions: Directions
    matrix: Floats
    scores: Floats

    @cached_property
    def covariance(self) -> Floats | None:
        """The inverse of the information; None where labels do not tell all matrices apart."""
        strengths = np.sqrt(np.maximum(np.diag(self.matrix), 0))
        if not len(strengths) or not (strengths > 0).all():
            return None
        scaled = self.matrix / np.outer(strengths, strengths)
        if np.linalg.eigvalsh(scaled)[0] <= _SINGULAR:
            return None
        return np.asarray(np.linalg.inv(scaled) / np.outer(strengths, strengths))

    def over_groups(self, inverse: Floats) -> Floats:
        """Return the covariance by what groups say (a sandwich; P. J. Huber, 1967)."""
        steps = self.scores @ inverse
        return np.asarray(steps.T @ steps)


def exact_posteriors(labels: NDArray[np.integer], state: EMState) -> Floats:
    """Return `p(t | labels)` of columns `(raters, n)` in double precision, `(L, n)`."""
    with np.errstate(divide="ignore"):
        logs = np.repeat(np.log(state.prior[:, :1]), labels.shape[1], axis=1)
    for row, table in zip(labels, log_columns(state.confusion), strict=True):
        logs += table[row.astype(np.intp) + 1].T
    weights = np.exp(logs - logs.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def directions_of(state: EMState, counts: Floats, estimated_prior: bool) -> Directions:
    """Return the ways in which the parameters may move.

    `counts` are how many labels each rater gave of each true class, as expected, `(raters, L)`.
    """
    expected = state.confusion * counts[..., np.newaxis]
    moves = []
    for rater, true_class in np.ndindex(counts.shape):
        expected_counts = expected[rater, true_class]
        dependent = int(expected_counts.argmax())  # rows sum to one: the largest entry follows
        for observed_class in np.flatnonzero(expected_counts > HALF_A_LABEL):
            if observed_class != dependent:
                moves.append((rater, true_class, observed_class, dependent))
    if estimated_prior:
        shares = state.prior[:, 0]
        full = int(shares.argmax())
        labelled = counts.max(axis=0) > HALF_A_LABEL
        moves += [(-1, t, t, full) for t in np.flatnonzero(labelled & (shares > 0)) if t != full]
    table = np.array(moves, np.intp).reshape(-1, 4)
    return Directions(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def information(
    columns: Columns, state: EMState, estimated_prior: bool, groups: Floats | None = None
) -> Information | None:
    """Return the observed information and the scores; None where there are too many parameters.

    Args:
        columns: The labels.
        state: The matrices `(raters, L, L)` and the prior `(L, 1)` that maximise the likelihood.
        estimated_prior: Whether the prior was estimated too, or is known.
        groups: How often each column occurs in each group, `(groups, n)`; None for one group.
    """
    every = np.broadcast_to(columns.weights, columns.size)
    kept = np.flatnonzero((every > 0) & (columns.labels != MISSING).any(axis=0))
    used = Columns(columns.labels[:, kept], every[kept])
    by_group = used.weights[np.newaxis] if groups is None else groups[:, kept]
    truth = exact_posteriors(used.labels, state)
    weighted = used.weights * truth
    counts = np.stack([weighted[:, row != MISSING].sum(axis=1) for row in used.labels])
    ways = directions_of(state, counts, estimated_prior)
    if not 0 < len(ways) <= MOST_DIRECTIONS:
        return None
    total = np.zeros((len(ways),) * 2)
    scores = np.zeros((len(by_group), len(ways)))
    for first in range(0, used.size, _BLOCK):
        part = slice(first, first + _BLOCK)
        weights = used.weights[part]
        score = np.zeros((len(ways), len(weights)))
        for t, posterior in enumerate(truth[:, part]):
            own, slopes = _slopes(used.labels[:, part], state, ways, t)
            cross = (slopes * (weights * posterior)) @ slopes.T
            cross[ways.rater[own][:, np.newaxis] == ways.rater[own]] = 0
            total[np.ix_(own, own)] -= cross
            score[own] += slopes * posterior
        total += (score * weights) @ score.T
        scores += by_group[:, part] @ score.T
    return Information(ways, total, scores)


def _slopes(
    labels: NDArray[np.integer], state: EMState, ways: Directions, true: int
) -> tuple[NDArray[np.intp], Floats]:
    """Return the directions that matter where one class is true, and slopes, `(some, columns)`."""
    own = np.flatnonzero((ways.true == true) | ways.of_prior)
    slopes = np.zeros((len(own), labels.shape[1]))
    for k, way in enumerate(own):
        rater = ways.rater[way]
        grows = ways.grows[way]
        falls = ways.falls[way]
        if rater < 0:
            share = max(state.prior[true, 0], _SMALLEST)
            slopes[k] = (float(grows == true) - float(falls == true)) / share
        else:
            row = np.maximum(state.confusion[rater, true], _SMALLEST)
            said = labels[rater]
            slopes[k] = (said == grows) / row[grows] - (said == falls) / row[falls]
    return own, slopes

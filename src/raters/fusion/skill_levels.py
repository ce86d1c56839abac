"""The prior that `hierarchical` draws raters' matrices to, and how it is found from their counts.

A rater has one of nine levels of skill `u_k`. A row of the matrix is drawn in two parts: how often
the rater is right where `t` is true, and what is said instead.

    C_r[t, t] ~ Beta(kappa s_k(t), kappa (1 - s_k(t))),   s_k(t) = 1 / (1 + exp(-b_t - u_k))
    C_r[t, o] / (1 - C_r[t, t]), o != t  ~  Dirichlet(lambda E_t)

Matrices are summed out: `n_r(t, o)`, how often a rater said `o` where `t` is true, then has the
log evidence

    log sum_k w_k prod_t B(n_tt + kappa s_k(t), n_t - n_tt + kappa (1 - s_k(t))) / B(...)
      + the same of n_r(t, o), o != t, under Dirichlet(lambda E_t)

`climb` raises it in `w`, `b`, `kappa`, `E` and `lambda` together: `log G(n + a) / G(a)` is at least
`a' (psi(n + a') - psi(a')) log a` and a constant (T. Minka, Estimating a Dirichlet distribution,
2000) for counts of 1 and more, so each has a step that cannot lower it. Expected counts below 1 are
outside of the proof; no step of thousands that were tried lowered it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numba
import numpy as np

from raters.core.arrays import Flags, Floats

LEVELS = np.arange(-4.0, 5.0)
"""Levels of skill, in log odds of being right."""

START = (1.5, 8.0, 4.0)
"""Where `b`, `kappa` and `lambda` start."""

ALIKE = 0.5
"""The spread of `b_t`, the log odds of classes, about their mean."""

USUAL = (1.5, 2.0)
"""Mean and spread of that mean."""

EVEN = 10.0
"""So many wrong answers of each class are spread evenly over the other classes in advance."""

BEFORE = 5.0
"""So many tasks of each class are given in advance (a Dirichlet prior of the shares)."""

RATERS = 3.0
"""So many raters are spread over the levels in advance, most of them near the middle."""

FEW = 0.1
"""`kappa` and `lambda` have the density `x exp(-FEW x)`: hardly any opinion."""

_STEPS = 3
_NEWTON = 5
_NOTHING = 1e-12


@dataclass(frozen=True)
class Prior:
    """What raters have in common.

    Attributes:
        weights: The share of raters of each level, `(K,)`.
        ease: `b`, the log odds of being right of a rater of level 0, by class, `(L,)`.
        errors: `E`, what is said where a rater is wrong, `(t, o)`, 0 on the diagonal.
        right: `kappa`: how many answers of each class `s_k(t)` counts as.
        wrong: `lambda`: how many wrong answers of each class `E` counts as.
    """

    weights: Floats
    ease: Floats
    errors: Floats
    right: float
    wrong: float

    @property
    def shares(self) -> Floats:
        """`s_k(t)`: how often raters of a level are right, `(K, L)`."""
        return _sigmoid(self.ease + self.levels[:, np.newaxis])

    @property
    def levels(self) -> Floats:
        """The levels `u_k`, `(K,)`; with one weight only, 0."""
        return LEVELS if len(self.weights) == len(LEVELS) else np.zeros(1)


@dataclass(frozen=True)
class Counts:
    """Expected counts of a rater's answers: right and wrong ones `(R, t)`, all `(R, o, t)`."""

    right: Floats
    wrong: Floats
    all: Floats

    @classmethod
    def of(cls, counts: Floats) -> Counts:
        """Take counts `(R, o, t)`."""
        right = np.ascontiguousarray(np.einsum("rtt->rt", counts))
        return cls(right, np.maximum(counts.sum(axis=1) - right, 0.0), counts)


@dataclass(frozen=True)
class Rows:
    """What is known of the raters' rows, given the prior and the counts.

    Attributes:
        mean: The posterior mean of the matrices, `(R, t, o)`.
        logs: The posterior mean of their logs, `(R, o, t)`.
        evidence: The log evidence of the counts, with the density of the prior's parameters.
    """

    mean: Floats
    logs: Floats
    evidence: float


def first_prior(named: Flags) -> Prior:
    """Return the prior to start from; labels that nobody gave are never said."""
    ease, right, wrong = START
    return Prior(
        _usual_levels(len(LEVELS)), np.full(len(named), ease), _spread_evenly(named), right, wrong
    )


def _usual_levels(number: int) -> Floats:
    """Return the weights that levels have before any answer."""
    weights = np.exp(-0.125 * LEVELS**2) if number == len(LEVELS) else np.ones(number)
    return np.asarray(weights / weights.sum())


def _spread_evenly(named: Flags) -> Floats:
    """Return rows that are even over all labels that were given but the right one."""
    others = ~np.eye(len(named), dtype=bool)
    rows = others & named
    rows = np.where(rows.any(axis=1, keepdims=True), rows, others)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def climb(prior: Prior, counts: Counts, named: Flags) -> Prior:
    """Return a prior under which the counts have a higher evidence.

    Example:
        >>> said = np.array([[[8.0, 1.0], [2.0, 9.0]], [[3.0, 3.0], [7.0, 7.0]]])
        >>> named, counts = np.array([True, True]), Counts.of(said)
        >>> first = first_prior(named)
        >>> better = climb(first, counts, named)
        >>> rows_of(better, counts, named).evidence > rows_of(first, counts, named).evidence
        True
    """
    for _ in range(_STEPS):
        prior = _wrong_step(_right_step(prior, counts, named), counts, named)
    return prior


def levels_of(prior: Prior, counts: Counts) -> tuple[Floats, float]:
    """Return the probability of each level of each rater, `(R, K)`, and the log evidence."""
    logs = np.log(prior.weights)
    return levels_pass(counts.right, counts.wrong, prior.shares, prior.right, logs)


def _right_step(prior: Prior, counts: Counts, named: Flags) -> Prior:
    """Raise the evidence in weights, `b` and `kappa`."""
    of_level, _ = levels_of(prior, counts)
    right, wrong, rate = level_sums(counts.right, counts.wrong, prior.shares, prior.right, of_level)
    ease = prior.ease
    for _ in range(_NEWTON):
        ease = _ease_step(ease, prior.levels, right, wrong, named)
    weights = of_level.sum(axis=0) + RATERS * _usual_levels(len(prior.weights))
    strength = (1 + right.sum() + wrong.sum()) / (FEW + rate)
    return replace(prior, weights=weights / weights.sum(), ease=ease, right=float(strength))


def _ease_step(ease: Floats, levels: Floats, right: Floats, wrong: Floats, named: Flags) -> Floats:
    """Take a step up `sum_k right log s + wrong log(1 - s)` and the prior of `b`.

    The curvature of a logistic likelihood is at most a quarter of its counts (D. Boehning, 1992).
    """
    shares = _sigmoid(ease + levels[:, np.newaxis])
    mean = ease[named].mean()
    number = named.sum()
    slope = (right * (1 - shares) - wrong * shares).sum(axis=0)
    slope -= (ease - mean) / ALIKE**2 + (mean - USUAL[0]) / USUAL[1] ** 2 / number
    bend = (right + wrong).sum(axis=0) / 4 + 1 / ALIKE**2 + 1 / USUAL[1] ** 2
    return np.where(named, ease + slope / bend, ease)


def _wrong_step(prior: Prior, counts: Counts, named: Flags) -> Prior:
    """Raise the evidence in `E` and `lambda`."""
    sums, rate, _ = wrong_sums(counts.all, counts.wrong, prior.wrong * prior.errors, prior.wrong)
    errors = sums + EVEN * _spread_evenly(named)
    strength = (1 + sums.sum()) / (FEW + rate)
    rows = errors.sum(axis=1, keepdims=True)
    return replace(prior, errors=errors / rows, wrong=float(strength))


def rows_of(prior: Prior, counts: Counts, named: Flags) -> Rows:
    """Return what the counts say of the raters' rows."""
    of_level, of_right = levels_of(prior, counts)
    share, log_right, log_wrong = level_means(
        counts.right, counts.wrong, prior.shares, prior.right, of_level
    )
    pull = prior.wrong * prior.errors
    _, _, of_wrong = wrong_sums(counts.all, counts.wrong, pull, prior.wrong)
    directions, logs = wrong_means(counts.all, counts.wrong, pull, prior.wrong)
    same = np.eye(len(prior.ease), dtype=bool)
    mean = np.where(same, share[..., np.newaxis], (1 - share)[..., np.newaxis] * directions)
    return Rows(
        mean,
        np.where(same, log_right[:, np.newaxis], log_wrong[:, np.newaxis] + logs),
        of_right + of_wrong + _density(prior, named),
    )


def _density(prior: Prior, named: Flags) -> float:
    """Return the log density of the parameters of the prior, but for a constant."""
    ease = prior.ease[named]
    mean = ease.mean()
    logs = np.log(prior.errors, where=prior.errors > 0, out=np.zeros_like(prior.errors))
    return float(
        RATERS * (_usual_levels(len(prior.weights)) * np.log(prior.weights)).sum()
        + EVEN * (_spread_evenly(named) * logs).sum()
        - ((ease - mean) ** 2).sum() / (2 * ALIKE**2)
        - (mean - USUAL[0]) ** 2 / (2 * USUAL[1] ** 2)
        + math.log(prior.right)
        + math.log(prior.wrong)
        - FEW * (prior.right + prior.wrong)
    )


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


@numba.njit(nogil=True, cache=True)
def psi(x: float) -> float:
    """Return the digamma function of a positive number.

    By its recurrence up to 6 and the asymptotic series beyond: to 1e-11. (Importing scipy takes
    longer than most fits.)
    """
    found = 0.0
    while x < 6.0:
        found -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return found + math.log(x) - 0.5 / x - series


@numba.njit(nogil=True, cache=True)
def levels_pass(
    right: Floats, wrong: Floats, shares: Floats, strength: float, log_weights: Floats
) -> tuple[Floats, float]:
    """Do the work of `levels_of`.

    Args:
        right: Right answers by class, `(R, L)`.
        wrong: Wrong ones.
        shares: How often raters of a level are right, `(K, L)`.
        strength: How many answers that counts as.
        log_weights: The log share of raters of each level, `(K,)`.
    """
    raters, classes = right.shape
    levels = len(log_weights)
    found = np.empty((raters, levels))
    before = np.empty((levels, classes))
    for k in range(levels):
        for t in range(classes):
            a = strength * shares[k, t]
            before[k, t] = math.lgamma(a) + math.lgamma(strength - a) - math.lgamma(strength)
    total = 0.0
    for r in range(raters):
        found[r] = log_weights
        for t in range(classes):
            number = right[r, t] + wrong[r, t]
            if number <= _NOTHING:
                continue
            after = math.lgamma(number + strength)
            for k in range(levels):
                a = strength * shares[k, t]
                found[r, k] += (
                    math.lgamma(right[r, t] + a)
                    + math.lgamma(wrong[r, t] + strength - a)
                    - after
                    - before[k, t]
                )
        highest = found[r].max()
        found[r] = np.exp(found[r] - highest)
        weight = found[r].sum()
        found[r] /= weight
        total += highest + math.log(weight)
    return found, total


@numba.njit(nogil=True, cache=True)
def level_sums(
    right: Floats, wrong: Floats, shares: Floats, strength: float, of_level: Floats
) -> tuple[Floats, Floats, float]:
    """Return what Minka's bound weighs `log s` and `log(1 - s)` by, `(K, L)`, and `kappa`."""
    raters, classes = right.shape
    levels = len(shares)
    up = np.zeros((levels, classes))
    down = np.zeros((levels, classes))
    rate = 0.0
    first = np.empty((levels, classes))
    second = np.empty((levels, classes))
    for k in range(levels):
        for t in range(classes):
            first[k, t] = psi(strength * shares[k, t])
            second[k, t] = psi(strength * (1 - shares[k, t]))
    for r in range(raters):
        for t in range(classes):
            number = right[r, t] + wrong[r, t]
            if number <= _NOTHING:
                continue
            rate += psi(number + strength) - psi(strength)
            for k in range(levels):
                if of_level[r, k] > _NOTHING:
                    a = strength * shares[k, t]
                    b = strength * (1 - shares[k, t])
                    up[k, t] += of_level[r, k] * a * (psi(right[r, t] + a) - first[k, t])
                    down[k, t] += of_level[r, k] * b * (psi(wrong[r, t] + b) - second[k, t])
    return up, down, rate


@numba.njit(nogil=True, cache=True)
def level_means(
    right: Floats, wrong: Floats, shares: Floats, strength: float, of_level: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the mean of how often raters are right, and the means of both logs, `(R, L)`."""
    raters, classes = right.shape
    levels = len(shares)
    mean = np.zeros((raters, classes))
    log_right = np.zeros((raters, classes))
    log_wrong = np.zeros((raters, classes))
    for r in range(raters):
        for t in range(classes):
            number = right[r, t] + wrong[r, t] + strength
            whole = psi(number)
            for k in range(levels):
                q = of_level[r, k]
                if q > _NOTHING:
                    a = right[r, t] + strength * shares[k, t]
                    b = wrong[r, t] + strength * (1 - shares[k, t])
                    mean[r, t] += q * a / number
                    log_right[r, t] += q * (psi(a) - whole)
                    log_wrong[r, t] += q * (psi(b) - whole)
    return mean, log_right, log_wrong


@numba.njit(nogil=True, cache=True)
def wrong_sums(
    counts: Floats, wrong: Floats, pull: Floats, strength: float
) -> tuple[Floats, float, float]:
    """Return what Minka's bound weighs `log E` by, `(t, o)`, and `lambda`; and the log evidence.

    Args:
        counts: Answers, `(R, o, t)`.
        wrong: Wrong answers by class, `(R, t)`.
        pull: `lambda E`, `(t, o)`.
        strength: `lambda`.
    """
    raters, classes = wrong.shape
    sums = np.zeros((classes, classes))
    rate = 0.0
    evidence = 0.0
    whole = psi(strength)
    log_whole = math.lgamma(strength)
    for r in range(raters):
        for t in range(classes):
            if wrong[r, t] > _NOTHING:
                rate += psi(wrong[r, t] + strength) - whole
                evidence += log_whole - math.lgamma(wrong[r, t] + strength)
    for t in range(classes):
        for o in range(classes):
            a = pull[t, o]
            if o == t or a <= 0:
                continue
            before = psi(a)
            log_before = math.lgamma(a)
            for r in range(raters):
                if counts[r, o, t] > _NOTHING:
                    sums[t, o] += a * (psi(counts[r, o, t] + a) - before)
                    evidence += math.lgamma(counts[r, o, t] + a) - log_before
    return sums, rate, evidence


@numba.njit(nogil=True, cache=True)
def wrong_means(
    counts: Floats, wrong: Floats, pull: Floats, strength: float
) -> tuple[Floats, Floats]:
    """Return the mean of what is said instead, `(R, t, o)`, and that of its log, `(R, o, t)`."""
    raters, classes = wrong.shape
    mean = np.zeros((raters, classes, classes))
    logs = np.zeros((raters, classes, classes))
    for r in range(raters):
        for t in range(classes):
            number = wrong[r, t] + strength
            whole = psi(number)
            for o in range(classes):
                if o != t:
                    a = counts[r, o, t] + pull[t, o]
                    mean[r, t, o] = a / number
                    logs[r, o, t] = psi(a) - whole if a > 0 else -np.inf
    return mean, logs

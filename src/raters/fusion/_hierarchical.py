"""Hierarchical Dawid-Skene: matrices drawn to what raters have in common, as far as they do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma

import numpy as np

from raters.assessment.performance import LEAST, MEASURES, Errors, measures, parts
from raters.core.arrays import Flags, Floats, Labels
from raters.core.classes import MISSING
from raters.fusion._dawid_skene import dawid_skene
from raters.fusion.answers import (
    MOST_FOR_SEVERAL,
    MStep,
    Options,
    Parameters,
    expected_counts,
    fusion_of,
    solve,
)
from raters.fusion.columns import Answers, answers_of
from raters.fusion.option_values import Count, NotNegative, Shares
from raters.fusion.result import Fusion
from raters.fusion.skill_levels import (
    BEFORE,
    Counts,
    Prior,
    climb,
    first_prior,
    levels_of,
    psi,
    rows_of,
)
from raters.fusion.starts import Starts
from raters.study.triplets import Triplets

_TIE = 1e-9  # sums over answers in another order differ by 1e-13 or so
DEFAULT_STARTS = ("mean", "vote")


@dataclass(frozen=True, kw_only=True)
class Expected(Parameters):
    """Posterior means, with what an E step needs: the means of the logs.

    Attributes:
        log_prior: Of the shares of classes, `(L,)`.
        log_confusion: Of the matrices, `(R, o, t)`.
        common: What raters have in common.
        tasks: The number of tasks with answers.
    """

    log_prior: Floats
    log_confusion: Floats
    common: Prior
    tasks: int

    def logs(self) -> tuple[Floats, Floats]:
        """Return the means of the logs."""
        return self.log_prior, self.log_confusion

    def change(self, other: Parameters) -> float:
        """Return by how much the bound differs, by task."""
        assert self.bound is not None and other.bound is not None
        return abs(self.bound - other.bound) / max(self.tasks, 1)


@dataclass(frozen=True)
class Hierarchy:
    """The steps of `hierarchical`.

    Attributes:
        known: What raters have in common, if that is not to be found.
        free: As rows have a prior, starts can be compared however few answers there are.
    """

    known: Prior | None = None
    free: int = 0

    def m_step(self, answers: Answers, options: Options, fixed: Floats | None) -> MStep:  # noqa: ARG002
        """Return the step from posteriors to matrices; it continues from the prior found last."""
        named: Flags = answers.used.any(axis=0) | (answers.used.sum() == 0)
        common = self.known or first_prior(named)
        number = int(answers.answered.sum())

        def step(posteriors: Floats) -> Expected:
            nonlocal common
            all_counts, tasks = expected_counts(answers, posteriors)
            counts = Counts.of(all_counts)
            if self.known is None:
                common = climb(common, counts, named)
            rows = rows_of(common, counts, named)
            shares, log_shares, of_shares = _shares(tasks, np.where(named, BEFORE, 0.0), fixed)
            known = posteriors[answers.answered]  # whose entropy is a part of the bound
            logs = np.log(known, where=known > 0, out=np.zeros_like(known))
            return Expected(
                prior=shares,
                confusion=rows.mean,
                bound=rows.evidence + of_shares - float((known * logs).sum()),
                log_prior=log_shares,
                log_confusion=rows.logs,
                common=common,
                tasks=number,
            )

        return step

    def evidence(self, answers: Answers, options: Options, found: Parameters) -> float:  # noqa: ARG002
        """Return the bound."""
        assert found.bound is not None
        return found.bound


def _shares(tasks: Floats, before: Floats, fixed: Floats | None) -> tuple[Floats, Floats, float]:
    """Return the mean of the classes' shares and of their logs, and the evidence of the tasks.

    Example:
        >>> mean, logs, evidence = _shares(np.array([3.0, 1.0]), np.array([1.0, 1.0]), None)
        >>> mean.round(3).tolist(), round(float(np.exp(evidence)), 3)       # 3! 1! / 5!
        ([0.667, 0.333], 0.05)
    """
    if fixed is not None:
        with np.errstate(divide="ignore"):
            logs = np.log(fixed)
        return fixed, logs, float((tasks[tasks > 0] * logs[tasks > 0]).sum())
    after = tasks + before
    total = after.sum()
    logs = np.array([psi(a) if a > 0 else -np.inf for a in after]) - psi(total)
    there = after > 0
    before = np.where(before > 0, before, np.finfo(float).eps)  # a start may bring in a class
    evidence = sum(lgamma(a) - lgamma(b) for a, b in zip(after[there], before[there], strict=True))
    return after / total, logs, evidence + lgamma(before[there].sum()) - lgamma(total)


def difficulties(answers: Answers, posteriors: Floats, confusion: Floats) -> Floats:
    """Return how many times as many answers to a task are wrong as its raters' skills make likely.

        (1 + sum_a (1 - w_i(o_a))) / (1 + sum_a sum_t w_i(t) (1 - C_r(a)[t, t]))

    over the answers `a` to task `i`: 1 for a usual task, above for a hard one. The ones are a
    gamma prior: tasks with few answers stay near 1. NaN without answers. Where all raters fall
    for the same wrong class, so does the consensus, and nothing shows.

    Example:
        >>> task, rater, said = [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]
        >>> table = Triplets(task, rater, said, ["a", "b"], ("x", "y"), (0, 1))
        >>> sure = np.array([[1.0, 0.0], [1.0, 0.0]])
        >>> matrices = np.full((2, 2, 2), [[0.75, 0.25], [0.25, 0.75]])
        >>> difficulties(answers_of(table, 2), sure, matrices).round(2).tolist()
        [0.67, 1.33]
    """
    number = np.diff(answers.starts)
    task = np.repeat(np.arange(answers.tasks), number)
    wrong = 1 - posteriors[task, answers.label]
    likely = 1 - np.einsum(
        "at,at->a", posteriors[task], np.einsum("rtt->rt", confusion)[answers.rater]
    )
    sums = [1 + np.bincount(task, part, answers.tasks) for part in (wrong, likely)]
    return np.where(number > 0, sums[0] / sums[1], np.nan)


def hierarchical(
    triplets: Triplets,
    num_classes: int,
    *,
    max_iter: Count = 200,
    tol: NotNegative = 1e-3,
    prior: Shares | None = None,
    start: Shares | None = None,
    starts: Starts | None = None,
) -> Fusion:
    """Estimate true classes, with raters' matrices drawn to what raters have in common.

    The model of `dawid_skene`, in which matrices are not free: a rater has a level of skill, and
    rows are drawn about those of raters of that level, by `kappa` and `lambda` answers.

        C_r[t, t] ~ Beta(kappa s_k(t), kappa (1 - s_k(t))),   s_k(t) = 1 / (1 + exp(-b_t - u_k))
        C_r[t, o] / (1 - C_r[t, t]), o != t  ~  Dirichlet(lambda E_t)

    Skills, `b`, `E` and both strengths are found from the table: raters with few answers are taken
    for usual ones of their level, those with many have matrices of their own. It is fitted by
    variational Bayes (H.-C. Kim, Z. Ghahramani: Bayesian classifier combination, AISTATS 2012, have
    Dirichlet rows with a fixed prior; M. Venanzi et al.: Community-based Bayesian aggregation
    models for crowdsourcing, WWW 2014, groups of raters): the E step of `dawid_skene` with means of
    logs, the M step sums out the matrices, and no step lowers the bound of the evidence.

    Shares of classes have a Dirichlet prior of 5 tasks each. A class that nobody named has truth
    0; tasks without answers have the shares as truth and MISSING as label.

    Args:
        triplets: The answers; label numbers are class numbers. Order of tasks is the fastest.
        num_classes: The number of classes L.
        max_iter: At most so many E steps.
        tol: Stop when a step raises the bound by no more than this for each task. Answers to
            a task depend on each other more than any such model knows, and what it climbs slowly
            is often that: smaller values made real and simulated tables worse.
        prior: The share of each class `(L,)`, if known; else it is estimated.
        start: Posteriors `(tasks, L)` to start from, in place of `starts`.
        starts: Where EM starts: `mean` (the vote shares), `vote`, `raters` (each in turn, up to
            16), `random`, a list of them, or `several` for the first three. The solution with the
            highest bound is kept in which raters are right more often than wrong. By default
            `mean` and `vote`; `mean` alone with more than 300,000 answers.

    Returns:
        truth `(tasks, L)`; posterior means as confusion and prior; the bounds as
        log-likelihoods; `difficulty` of tasks; `common`, what raters have in common.

    Raises:
        RatersError: for numbers of classes, tasks or raters that are out of range.

    Example:
        >>> task, rater = np.divmod(np.arange(18), 3)
        >>> said = [0, 0, 1,  0, 0, 0,  1, 1, 0,  1, 1, 1,  1, 1, 0,  0, 0, 1]
        >>> names = np.array(list("abcdef"), object)
        >>> table = Triplets(task, rater, said, names, ("ann", "bob", "cyd"), (0, 1))
        >>> fused = hierarchical(table, num_classes=2)
        >>> fused.labels.tolist()
        [0, 0, 1, 1, 1, 0]
        >>> fused.skill_of_raters().round(2).tolist()     # not 1, 1 and 0.33: there are 6 tasks
        [0.96, 0.96, 0.41]
    """
    if num_classes == 1:
        return dawid_skene(triplets, 1, max_iter=max_iter, prior=prior, start=start)
    answers = answers_of(triplets, num_classes)
    options = Options(max_iter, tol, 0.0, False)
    several = len(answers.label) <= MOST_FOR_SEVERAL
    kinds = starts
    if kinds is None:
        kinds = DEFAULT_STARTS if several else "mean"
    found, rows, notes = solve(answers, triplets.raters, Hierarchy(), options, prior, start, kinds)
    fitted = found.parameters
    assert isinstance(fitted, Expected)
    fusion = fusion_of(answers, found, rows, notes)
    return replace(
        fusion,
        labels=_without_rounding(fusion.labels, found.posteriors),
        difficulty=difficulties(answers, found.posteriors, fitted.confusion),
        common=fitted.common,
    )


def _without_rounding(labels: Labels, posteriors: Floats) -> Labels:
    """Give tasks with a tie the class that is listed first, as `vote` does, and not by rounding.

    Example:
        >>> tie = np.array([[0.2, 0.4, 0.4 + 1e-13], [0.2, 0.3, 0.5]])
        >>> _without_rounding(np.array([2, 2], np.int16), tie).tolist()
        [1, 2]
    """
    highest = posteriors.max(axis=1, keepdims=True)
    first = (posteriors >= highest - _TIE).argmax(axis=1)
    return np.where(labels == MISSING, MISSING, first).astype(np.int16)


DRAWS = 100
_NORMAL = 1.96
_EDGE = 1e-6


def posterior_errors(
    triplets: Triplets, fusion: Fusion, prior_known: bool = False
) -> Errors | None:
    """Return the posterior spread and the 95 % intervals of the raters' measures, by drawing.

    Each draw takes a true class of each task by its posterior, counts the raters' answers by it,
    and draws a level, the rows of the matrix and the shares of the classes given the counts: one
    sweep of a Gibbs sampler from the variational posterior. So an interval knows that the truth is
    not known, that a rater has few answers, and what raters have in common. It takes tasks as
    independent.

    Intervals are those of a normal distribution of the log odds of a measure; they end at 0 or 1
    where less than half an answer speaks for anything else.

    Args:
        triplets: The answers.
        fusion: What `hierarchical` gave.
        prior_known: Whether the shares of classes were given.
    """
    if fusion.common is None or fusion.prior is None:
        return None
    answers = answers_of(triplets, len(fusion.prior))
    random = np.random.default_rng(0)
    # Means of the draws: values, their squares, log odds, their squares, answers for and against.
    sums = np.zeros((6, answers.raters, len(MEASURES), answers.classes))
    for _ in range(DRAWS):
        counts, tasks = draw_counts(answers, fusion.truth.astype(np.float64), random)
        shares = fusion.prior
        if not prior_known:
            named = answers.used.any(axis=0)
            shares = _shares_of(random.standard_gamma(tasks + BEFORE * named))
        drawn = measures(draw_matrices(fusion.common, counts, random), shares)
        values = np.clip(drawn, _EDGE, 1 - _EDGE)
        odds = np.log(values / (1 - values))
        part, whole = parts(counts.all.transpose(0, 2, 1))
        for mean, new in zip(
            sums, (drawn, drawn**2, odds, odds**2, part, whole - part), strict=True
        ):
            mean += new / DRAWS
    error, half = (np.sqrt(np.maximum(sums[k + 1] - sums[k] ** 2, 0)) for k in (0, 2))
    low, high = (1 / (1 + np.exp(-sums[2] - sign * _NORMAL * half)) for sign in (-1, 1))
    low = np.where(sums[4] < LEAST, 0, low)
    high = np.where(sums[5] < LEAST, 1, high)
    return Errors(error, np.full(error.shape, np.inf), low, high)


def draw_counts(
    answers: Answers, posteriors: Floats, random: np.random.Generator
) -> tuple[Counts, Floats]:
    """Draw the truth; return how often raters said what where what is true, and tasks by class."""
    classes = answers.classes
    number = np.diff(answers.starts)
    below = np.cumsum(posteriors, axis=1)[:, :-1] < random.random(answers.tasks)[:, np.newaxis]
    truth = below.sum(axis=1)
    cell = (answers.rater * np.int64(classes) + answers.label) * classes + np.repeat(truth, number)
    counts = np.bincount(cell, minlength=answers.raters * classes**2).astype(np.float64)
    tasks = np.bincount(truth[answers.answered], minlength=classes).astype(np.float64)
    return Counts.of(counts.reshape(answers.raters, classes, classes)), tasks


def draw_matrices(prior: Prior, counts: Counts, random: np.random.Generator) -> Floats:
    """Draw the raters' matrices `(R, t, o)` given the prior and counts of a known truth."""
    of_level, _ = levels_of(prior, counts)
    below = np.cumsum(of_level, axis=1)[:, :-1] < random.random(len(of_level))[:, np.newaxis]
    shares = prior.shares[below.sum(axis=1)]
    right = random.beta(
        counts.right + prior.right * shares, counts.wrong + prior.right * (1 - shares)
    )
    pull = counts.all.transpose(0, 2, 1) + prior.wrong * prior.errors
    same = np.eye(right.shape[1], dtype=bool)
    wrong = _shares_of(random.standard_gamma(np.where(same, 0, pull)))
    found = np.where(same, right[..., np.newaxis], (1 - right)[..., np.newaxis] * wrong)
    return np.asarray(found, np.float64)


def _shares_of(weights: Floats) -> Floats:
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / np.maximum(total, np.finfo(float).tiny))

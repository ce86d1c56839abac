"""How sure the raters' measures of `hierarchical` are, by drawing from what is known of them.

Each draw takes a true class of each task by its posterior, counts the raters' answers by it, and
draws a level, the rows of the matrix and the shares of the classes given the counts: one sweep of
a Gibbs sampler from the variational posterior. So an interval knows that the truth is not known,
that a rater has few answers, and what raters have in common. It takes tasks as independent.
"""

from __future__ import annotations

import numpy as np

from raters.arrays import Floats
from raters.fusion.answers import Answers, answers_of
from raters.fusion.performance import LEAST, MEASURES, Errors, measures, parts
from raters.fusion.result import Fusion
from raters.fusion.skill_levels import BEFORE, Counts, Prior, levels_pass
from raters.study.triplets import Triplets

DRAWS = 100
_NORMAL = 1.96
_EDGE = 1e-6


def posterior_errors(
    triplets: Triplets, fusion: Fusion, prior_known: bool = False, seed: int = 0
) -> Errors | None:
    """Return the posterior spread and the 95 % intervals of the raters' measures.

    Intervals are those of a normal distribution of the log odds of a measure; they end at 0 or 1
    where less than half an answer speaks for anything else.

    Args:
        triplets: The answers.
        fusion: What `hierarchical` gave.
        prior_known: Whether the shares of classes were given.
        seed: The same seed gives the same errors.
    """
    if fusion.common is None or fusion.prior is None:
        return None
    answers = answers_of(triplets, len(fusion.prior))
    random = np.random.default_rng(seed)
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
    low, high = np.where(sums[4] < LEAST, 0, low), np.where(sums[5] < LEAST, 1, high)
    return Errors(error, np.full(error.shape, np.inf), low, high)


def draw_counts(
    answers: Answers, posteriors: Floats, random: np.random.Generator
) -> tuple[Counts, Floats]:
    """Draw the truth; return how often raters said what where what is true, and tasks by class."""
    classes, number = answers.classes, np.diff(answers.starts)
    below = np.cumsum(posteriors, axis=1)[:, :-1] < random.random(answers.tasks)[:, np.newaxis]
    truth = below.sum(axis=1)
    cell = (answers.rater * np.int64(classes) + answers.label) * classes + np.repeat(truth, number)
    counts = np.bincount(cell, minlength=answers.raters * classes**2).astype(np.float64)
    tasks = np.bincount(truth[answers.answered], minlength=classes).astype(np.float64)
    return Counts.of(counts.reshape(answers.raters, classes, classes)), tasks


def draw_matrices(prior: Prior, counts: Counts, random: np.random.Generator) -> Floats:
    """Draw the raters' matrices `(R, t, o)` given the prior and counts of a known truth."""
    of_level, _ = levels_pass(
        counts.right, counts.wrong, prior.shares, prior.right, np.log(prior.weights)
    )
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

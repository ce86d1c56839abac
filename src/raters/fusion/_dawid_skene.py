"""Dawid-Skene: true classes behind answers, with one matrix or one accuracy per rater."""

from __future__ import annotations

import numpy as np

from raters.core.arrays import Floats, Ints
from raters.core.classes import MISSING
from raters.fusion.answers import FLOOR, RIGHT_BEFORE, Model, Options, run
from raters.fusion.em import start_matrices
from raters.fusion.option_values import Count, NotNegative, Shares
from raters.fusion.result import Fusion
from raters.fusion.starts import Starts
from raters.study.triplets import Triplets


def _m_step(counts: Floats, used: Ints, smoothing: float) -> Floats:
    """Return matrices `(R, t, o)` from expected counts `(R, o, t)`.

    Args:
        counts: `sum_i w_i(t)` over the answers of rater r that say o.
        used: How often each rater gave each label, `(R, L)`.
        smoothing: Answers that each row is given in advance.

    Example:
        >>> counts = np.array([[[6.0, 1.0], [2.0, 1.0]]])
        >>> _m_step(counts, np.array([[7, 3]]), smoothing=0.0).tolist()
        [[[0.75, 0.25], [0.5, 0.5]]]
        >>> _m_step(np.zeros((1, 2, 2)), np.array([[0, 0]]), smoothing=0.0).tolist()
        [[[0.5, 0.5], [0.5, 0.5]]]
    """
    before = smoothing * start_matrices(1, used.shape[1], RIGHT_BEFORE)
    observed = counts.transpose(0, 2, 1) + before
    observed = np.maximum(observed, FLOOR * (used > 0)[:, np.newaxis])
    observed[observed.sum(axis=2) == 0] = 1.0  # without labels, without smoothing
    return np.asarray(observed / observed.sum(axis=2, keepdims=True))


def dawid_skene(
    triplets: Triplets,
    num_classes: int,
    *,
    max_iter: Count = 100,
    tol: NotNegative = 1e-5,
    smoothing: NotNegative = 0.0,
    hard: bool = False,
    prior: Shares | None = None,
    start: Shares | None = None,
    starts: Starts | None = None,
) -> Fusion:
    r"""Estimate the true classes of a table of labels, and the confusion of each rater, by EM.

        E   w_i(t) ~ pi_t prod_(r, o in answers to i) C_r[t, o]
        M   C_r[t, o] = (n_r(t, o) + s B[t, o]) / (sum_o' n_r(t, o') + s),   pi_t = mean_i w_i(t)

    with `n_r(t, o)` the sum of `w_i(t)` over the answers `o` of rater `r`, and `B` as under
    `smoothing`; a rater's repeated readings of a task are as many answers. EM starts with an M
    step on a guess of the truth (`starts`).

    What the formulas leave open:

    - Counts of labels that the rater has given are at least 1e-10, as are shares of classes that
      somebody has named: no answer makes every class impossible. So a row of a class that none
      of a rater's tasks can have is uniform over the labels that this rater has given.
      (crowd-kit 1.4 does the same: posteriors agree after equally many iterations.)
    - Where a rater has no labels, rows are uniform: nothing is known. (With smoothing: `B`.)
    - A class that nobody named has prior 0 and truth 0 (unless `start` or `prior` gives it some).
    - Tasks without answers have the prior as truth and MISSING as label, and count for nothing.
    - Of equally likely classes the first is the label.

    A. P. Dawid, A. M. Skene: Maximum likelihood estimation of observer error-rates using the EM
    algorithm. Applied Statistics 28(1), 1979. `hard`: V. B. Sinha, S. Rao, V. N. Balasubramanian:
    Fast Dawid-Skene: a fast vote aggregation scheme for sentiment classification. 2018.

    Args:
        triplets: The answers; label numbers are class numbers. Order of tasks is the fastest.
        num_classes: The number of classes L.
        max_iter: At most so many E steps.
        tol: Stop when no entry of a matrix or of the prior changes by more.
        smoothing: So many answers `s` are added to each row of a matrix (a Dirichlet prior), 3 in 4
            of them right and the rest even over the other classes (`B`), so that raters with few
            labels are not believed blindly; 1 to 5 does good where many have below 10 labels per
            class. (Not drawn to uniform rows: that was worse than none on real and simulated
            tables.) It is then the posterior of the parameters that EM raises at each step.
        hard: Put all weight of a task on its most likely class in each E step
            (classification EM): fewer steps, a truth of zeros and ones.
        prior: The share of each class `(L,)`, if known; else it is estimated.
        start: Posteriors `(tasks, L)` to start from, in place of `starts`.
        starts: Where EM starts: `mean` (the vote shares), `vote`, `raters` (each in turn, up to
            16), `random`, a list of them, or `several` for the first three. The most likely
            solution is kept in which raters are right more often than wrong. By default several
            where there are ten answers for each free number of the model (and no more than
            300,000), else `mean`: with fewer, the likelihood prefers what fits the errors too.

    Returns:
        truth `(tasks, L)` and log-likelihoods of the E steps; confusion and prior of the M step
        after the last.

    Raises:
        RatersError: for numbers of classes, tasks or raters that are out of range.

    Example:
        >>> task, rater = np.divmod(np.arange(18), 3)
        >>> said = [0, 0, 1,  0, 0, 0,  1, 1, 0,  1, 1, 1,  1, 1, 0,  0, 0, 1]
        >>> names = np.array(list("abcdef"), object)
        >>> table = Triplets(task, rater, said, names, ("ann", "bob", "cyd"), (0, 1))
        >>> fused = dawid_skene(table, num_classes=2)
        >>> fused.labels.tolist()
        [0, 0, 1, 1, 1, 0]
        >>> fused.confusion[2].round(2).tolist()          # cyd says the opposite, 2 times in 3
        [[0.33, 0.67], [0.67, 0.33]]
    """
    options = Options(max_iter, tol, smoothing, hard)
    model = Model(_m_step, num_classes * (num_classes - 1))
    return run(triplets, num_classes, model, options, prior, start, starts)


def _m_step_one_coin(counts: Floats, used: Ints, smoothing: float) -> Floats:
    """Return matrices `(R, t, o)` of one accuracy per rater from expected counts `(R, o, t)`.

    Example:
        >>> counts = np.array([[[6.0, 1.0], [2.0, 1.0]]])
        >>> _m_step_one_coin(counts, np.array([[7, 3]]), smoothing=0.0).round(2).tolist()
        [[[0.7, 0.3], [0.3, 0.7]]]
    """
    classes = used.shape[1]
    right = np.einsum("rtt->r", counts) + smoothing * RIGHT_BEFORE
    total = used.sum(axis=1) + smoothing
    accuracy = np.where(total > 0, right / np.where(total > 0, total, 1), 1 / classes)
    if classes == 1:
        return np.ones((len(used), 1, 1))
    accuracy = np.clip(accuracy, FLOOR, 1 - FLOOR)
    wrong = (1 - accuracy) / (classes - 1)
    same = np.eye(classes, dtype=bool)
    return np.asarray(np.where(same, accuracy[:, None, None], wrong[:, None, None]))


def _alike(triplets: Triplets, num_classes: int) -> Floats | None:
    """Return the same share to each class that a rater named; None without any answer."""
    named = np.unique(triplets.label[triplets.label != MISSING])
    if not named.size or not 0 <= named[0] <= named[-1] < num_classes:
        return None  # numbers that are no classes are rejected later
    return np.asarray(np.isin(np.arange(num_classes), named) / named.size)


def one_coin(
    triplets: Triplets,
    num_classes: int,
    *,
    max_iter: Count = 100,
    tol: NotNegative = 1e-5,
    smoothing: NotNegative = 0.0,
    hard: bool = False,
    prior: Shares | None = None,
    start: Shares | None = None,
    starts: Starts | None = None,
    estimate_prior: bool = False,
) -> Fusion:
    """Estimate the true classes of a table of labels, and the accuracy of each rater, by EM.

    The model of `dawid_skene` with one number per rater, for tables with few labels per rater:

        C_r[t, t] = p_r,   C_r[t, o] = (1 - p_r) / (L - 1)
        M   p_r = (3/4 s + sum of w_i(o) over the answers o of r) / (s + number of answers of r)

    All classes that a rater named count as equally frequent. Where shares are estimated too
    (`estimate_prior`, as crowd-kit does), a class that raters say too often is taken for a
    frequent one, then more tasks are given to it, and so on: on tables whose raters share such a
    habit accuracy falls far below the vote's. Where raters err evenly and classes are not alike
    in size, estimated shares are a little better.

    Accuracies stay within 1e-10 and 1 - 1e-10, as in crowd-kit; a rater without labels has
    1 / L, or 3/4 with smoothing. All else is as in `dawid_skene`.

    Y. Zhang, X. Chen, D. Zhou, M. I. Jordan: Spectral methods meet EM: a provably optimal
    algorithm for crowdsourcing. Journal of Machine Learning Research 17, 2016.

    Args:
        triplets: The answers; label numbers are class numbers. Order of tasks is the fastest.
        num_classes: The number of classes L.
        max_iter: At most so many E steps.
        tol: Stop when no entry of a matrix or of the prior changes by more.
        smoothing: So many answers `s` are given to each rater in advance, 3 in 4 of them right.
        hard: Put all weight of a task on its most likely class in each E step.
        prior: The share of each class `(L,)`, if known; by default classes are alike.
        start: Posteriors `(tasks, L)` to start from, in place of `starts`.
        starts: Where EM starts: `mean` (the vote shares), `vote`, `raters` (each in turn, up to
            16), `random`, a list of them, or `several` for the first three. The most likely
            solution is kept in which raters are right more often than wrong. By default several
            where there are ten answers for each free number of the model (and no more than
            300,000), else `mean`: with fewer, the likelihood prefers what fits the errors too.
        estimate_prior: Estimate the share of each class too.

    Returns:
        truth `(tasks, L)`; `confusion[:, 0, 0]` are the accuracies.

    Raises:
        RatersError: for numbers of classes, tasks or raters that are out of range.

    Example:
        >>> task, rater = np.divmod(np.arange(12), 3)
        >>> said = [0, 0, 1,  1, 1, 1,  2, 2, 2,  0, 0, 0]
        >>> table = Triplets(task, rater, said, list("abcd"), ("ann", "bob", "cyd"), (0, 1, 2))
        >>> fused = one_coin(table, num_classes=3)
        >>> fused.labels.tolist(), fused.confusion[:, 0, 0].round(2).tolist()
        ([0, 1, 2, 0], [1.0, 1.0, 0.75])
    """
    options = Options(max_iter, tol, smoothing, hard)
    if prior is None and not estimate_prior:
        prior = _alike(triplets, num_classes)
    model = Model(_m_step_one_coin, 1, rows=1 / num_classes)
    return run(triplets, num_classes, model, options, prior, start, starts)

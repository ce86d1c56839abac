"""One-coin Dawid-Skene: the true class behind answers, with one accuracy per rater."""

from __future__ import annotations

import numpy as np

from raters.arrays import Floats, Ints
from raters.fusion.answers import FLOOR, RIGHT_BEFORE, Model, Options, run
from raters.fusion.option_values import Count, NotNegative, Shares
from raters.fusion.result import Fusion
from raters.fusion.starts import Starts
from raters.study.classes import MISSING
from raters.study.triplets import Triplets


def _m_step(counts: Floats, used: Ints, smoothing: float) -> Floats:
    """Return matrices `(R, t, o)` of one accuracy per rater from expected counts `(R, o, t)`.

    Example:
        >>> counts = np.array([[[6.0, 1.0], [2.0, 1.0]]])
        >>> _m_step(counts, np.array([[7, 3]]), smoothing=0.0).round(2).tolist()
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
    if (
        not named.size or not 0 <= named[0] <= named[-1] < num_classes
    ):  # the latter is rejected later
        return None
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
    model = Model(_m_step, 1, rows=1 / num_classes)
    return run(triplets, num_classes, model, options, prior, start, starts)

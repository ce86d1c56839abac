"""Coefficients of agreement that correct for chance, from counts: kappas and alpha."""

from __future__ import annotations

import numpy as np

from raters.core.arrays import Array, Floats


def cohen_kappa(counts: Array) -> float:
    """Return Cohen's kappa of two raters.

    `kappa = (p_o - p_e) / (1 - p_e)`, with `p_o` the share of labels that agree and `p_e =
    sum_c p_a(c) p_b(c)` the share expected by chance. Cohen (1960), "A Coefficient of Agreement
    for Nominal Scales". Where both raters use one and the same class only, nothing can differ:
    kappa is then 1. Without a common label it is NaN.

    Args:
        counts: Joint counts `(L, L)`.

    Example:
        >>> cohen_kappa(np.array([[20, 5], [10, 15]]))
        0.4
    """
    table = np.asarray(counts, np.float64)
    total = table.sum()
    if total == 0:
        return float("nan")
    observed = np.trace(table) / total
    expected = float(table.sum(axis=0) @ table.sum(axis=1)) / total**2
    return _corrected(float(observed), expected)


def _corrected(observed: float, expected: float) -> float:
    """Correct an agreement for chance; where chance leaves nothing to differ, agreement is 1."""
    if expected >= 1 - 1e-15:
        return 1.0
    return float(round((observed - expected) / (1 - expected), 15))


def fleiss_kappa(votes: Array, weights: Array | None = None, own: Array | None = None) -> float:
    """Return Fleiss' kappa in the form for a varying number of raters.

    With `n_ij` the raters who gave item `i` the class `j` and `n_i = sum_j n_ij`:

        p_o = mean over items with n_i >= 2 of  sum_j (n_ij^2 - own_ij) / (n_i (n_i - 1))
        p_e = sum_j pi_j^2,   pi_j = mean over the same items of  n_ij / n_i

    and `kappa = (p_o - p_e) / (1 - p_e)`. With equal `n_i` this is Fleiss (1971), where `own_ij =
    n_ij`: a rater's agreement with themselves does not count. Gwet (2014),
    "Handbook of Inter-Rater Reliability", chapter 2, but for items with one label: they say
    nothing on agreement and must not move what is expected by chance either. One class only: 1.
    No item with two labels: NaN.

    Args:
        votes: `n_ij`, `(items, classes)`.
        weights: How often each row of `votes` occurs; once by default.
        own: `sum_r p_r(j)^2` where raters repeat readings and `p_r(j)` is the share of rater r's
            readings of the item that say j (then `n_ij = sum_r p_r(j)`); `votes` by default.

    Example:
        >>> fleiss_kappa(np.array([[3, 0], [2, 1], [0, 2]]))
        0.55
    """
    votes = np.asarray(votes, np.float64)
    weights = np.ones(len(votes)) if weights is None else np.asarray(weights, np.float64)
    size = votes.sum(axis=1)
    several = size > 1.5  # whole numbers, but for rounding
    if not weights[several].sum():
        return float("nan")
    same = votes if own is None else own
    pairs = (votes**2 - same).sum(axis=1)[several] / (size * (size - 1))[several]
    observed = float(np.average(pairs, weights=weights[several]))
    shares = votes[several] / size[several, np.newaxis]
    shares = np.average(shares, axis=0, weights=weights[several])
    return _corrected(observed, float((shares**2).sum()))


def krippendorff_alpha(votes: Array, weights: Array | None = None) -> float:
    """Return Krippendorff's alpha for nominal data.

    With the coincidences `o_ck = sum_u n_uc (n_uk - [c = k]) / (n_u - 1)` over units with at
    least two labels, `n_c = sum_k o_ck` and `n = sum_c n_c`:

        alpha = 1 - (n - 1) sum_{c != k} o_ck / sum_{c != k} n_c n_k

    Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability". One class only: 1 (nothing
    differs; the coefficient itself is 0 / 0). No unit with two labels: NaN.

    Args:
        votes: `n_uc`, `(units, classes)`.
        weights: How often each row of `votes` occurs; once by default.

    Example:
        >>> krippendorff_alpha(np.array([[2, 0], [0, 2], [1, 1]]))
        0.444...
    """
    votes = np.asarray(votes, np.float64)
    weights = np.ones(len(votes)) if weights is None else np.asarray(weights, np.float64)
    size = votes.sum(axis=1)
    paired = size >= 2
    votes = votes[paired]
    weight = weights[paired] / (size[paired] - 1)
    return alpha_of_coincidences(
        (votes * weight[:, np.newaxis]).T @ votes - np.diag(weight @ votes)
    )


def alpha_of_coincidences(coincidence: Floats) -> float:
    """Return Krippendorff's alpha from the coincidences `o_ck`, `(L, L)`."""
    marginal = coincidence.sum(axis=0)
    total = marginal.sum()
    if total == 0:
        return float("nan")
    differ = total - np.trace(coincidence)
    expected = (total**2 - (marginal**2).sum()) / (total - 1)
    return 1.0 if expected <= 1e-12 * total else float(round(1 - differ / expected, 15))


def one_against_rest(votes: Array, chosen: int) -> Array:
    """Merge all classes but one, for coefficients of a single class.

    Example:
        >>> one_against_rest(np.array([[1, 2, 3]]), chosen=1)
        array([[4, 2]])
    """
    own = votes[:, chosen]
    return np.stack([votes.sum(axis=1) - own, own], axis=1)

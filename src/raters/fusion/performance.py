"""How far each rater can be trusted: sensitivity, specificity, predictive values; how sure it is.

Of a class `t`, with the matrices `C_r` and the prior `pi`:

    sensitivity   p(says t | is t)           C[t, t]
    specificity   p(says other | is other)   1 - sum_{s != t} pi_s C[s, t] / (1 - pi_t)
    ppv           p(is t | says t)           pi_t C[t, t] / sum_s pi_s C[s, t]
    npv           p(is other | says other)   likewise for all other classes together

Standard errors come from the likelihood in which the truth is summed out, and not from counts with
a known truth, which would be too sure; the measures follow by the delta method. Of a case alone
they are those of independent voxels: neighbours are not, so they are a lower bound there. Over
cases that share their matrices they are by what whole groups of cases say, however alike the
voxels of a case are. There are none where the model is not the one that made the labels:
`known_prior` says where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from raters.fusion.columns import Columns
from raters.fusion.em import EMState
from raters.fusion.information import Information, exact_posteriors, information
from raters.fusion.intervals import effective_groups, share_interval
from raters.rows import Row
from raters.study.classes import MISSING

Array = NDArray[np.float64]

MEASURES = ("sensitivity", "specificity", "ppv", "npv")

LEAST = 0.5
"""A measure has an error if more labels than this are expected to be right, and to be wrong."""

FAR = 0.5
"""EM that stopped more than this share of a standard error short of the maximum has no error."""


@dataclass(frozen=True)
class Errors:
    """Standard errors of the measures `(raters, 4, L)`, NaN where there is none.

    Attributes:
        error: The standard errors.
        freedom: The degrees of freedom that they were estimated with.
    """

    error: Array
    freedom: Array


def measures(confusion: Array, prior: Array) -> Array:
    """Return sensitivity, specificity, PPV and NPV of each class, `(..., 4, L)`, from matrices.

    NaN where a value does not exist: nobody ever says the class, or the prior leaves it out.

    Example:
        >>> measures(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5]))[:, 1].round(3)
        array([0.8  , 0.9  , 0.889, 0.818])
    """
    part, whole = _parts(prior[:, np.newaxis] * confusion)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = part / whole
    values[..., 0, :] = np.where(
        prior > 0, np.diagonal(confusion, axis1=-2, axis2=-1), values[..., 0, :]
    )
    return np.where(np.isfinite(values), values, np.nan)


def _parts(joint: Array) -> tuple[Array, Array]:
    """Return what each measure divides by what, `(..., 4, L)` each, from `p(is, says)`."""
    right = np.diagonal(joint, axis1=-2, axis2=-1)
    is_class, says = joint.sum(axis=-1), joint.sum(axis=-2)
    total = joint.sum(axis=(-2, -1))[..., np.newaxis]
    neither = total - is_class - says + right
    part = np.stack([right, neither, right, neither], axis=-2)
    return part, np.stack([is_class, total - is_class, says, total - says], axis=-2)


def moved_measures(confusion: Array, prior: Array, moved: Array, moved_prior: Array) -> Array:
    """Return how the measures move, `(..., 4, L)`, where matrices `(..., L, L)` and prior move.

    Example:
        >>> matrix, prior = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5])
        >>> by = np.array([[0.0, 0.0], [-0.01, 0.01]])
        >>> moved_measures(matrix, prior, by, np.zeros(2))[:, 1].round(4)
        array([0.01  , 0.    , 0.0012, 0.0074])
    """
    joint = prior[:, np.newaxis] * confusion
    change = moved_prior[..., np.newaxis] * confusion + prior[:, np.newaxis] * moved
    part, whole = _parts(joint)
    moved_part, moved_whole = _parts(change)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((moved_part - part / whole * moved_whole) / whole)


def smooths(options: Mapping[str, Any]) -> bool:
    """Return whether matrices are drawn to a prior."""
    return bool(options.get("smoothing"))


def known_prior(method: str, options: Mapping[str, Any]) -> Literal["given", "estimated"] | None:
    """Return where the prior of a fusion of masks comes from, if errors can be given; else None.

    STAPLE takes the share of each class among all labels for the prior (Warfield et al.). That is
    not the share of the class: where 10 % are foreground, it may be 17 %, matrices and predictive
    values follow it, and no interval knows. A map as prior, `restrict` and matrices that vary over
    the image are other models than the one whose information is known here.

    Example:
        >>> known_prior("staple", {}), known_prior("staple", {"estimate_prior": True})
        (None, 'estimated')
    """
    if method not in ("staple", "dawid-skene") or options.get("restrict") or smooths(options):
        return None
    given = options.get("prior")
    if given is not None and np.ndim(given) > 1:
        return None
    if options.get("estimate_prior"):
        return "estimated"
    return None if given is None else "given"


def case_errors(
    columns: Columns, state: EMState, prior: Literal["given", "estimated"]
) -> Errors | None:
    """Return the errors of one case from the observed information; None where there are none."""
    found = information(columns, state, prior == "estimated")
    inverse = None if found is None else found.covariance
    if found is None or inverse is None:
        return None
    return _errors(found, inverse, inverse, state, np.array(np.inf))


def group_errors(columns: Columns, state: EMState, groups: Array) -> Errors | None:
    """Return the errors of matrices (and a prior) that all groups share, by what each group says.

    Args:
        columns: The patterns of labels of all groups together.
        state: What was estimated from them.
        groups: How often each pattern occurs in each group, `(groups, patterns)`.
    """
    found = information(columns, state, True, groups)
    inverse = None if found is None else found.covariance
    if found is None or inverse is None:
        return None
    worth = effective_groups(_group_sizes(columns, state, groups))
    return _errors(found, inverse, found.over_groups(inverse), state, worth - 1)


def _group_sizes(columns: Columns, state: EMState, groups: Array) -> Array:
    """Return how many labels each measure of a rater rests on, `(groups, raters, 4, L)`."""
    truth = exact_posteriors(columns.labels, state)
    sizes = []
    for row in columns.labels:
        there = groups * (row != MISSING)
        is_class = there @ truth.T
        says = np.stack([groups @ (row == c) for c in range(len(truth))], axis=-1)
        total = there.sum(axis=1, keepdims=True)
        sizes.append(np.stack([is_class, total - is_class, says, total - says], axis=1))
    return np.asarray(np.maximum(np.stack(sizes, axis=1), 0))


def _errors(
    found: Information, inverse: Array, spread: Array, state: EMState, freedom: Array
) -> Errors:
    """Return errors of all measures from the spread of the parameters, `(D, D)`.

    Few groups spread less about what they gave themselves than about the truth: with `g` of them
    the variance is `g / (g - 1)` times as large.
    """
    raters, classes = state.confusion.shape[:2]
    left = inverse @ found.scores.sum(axis=0)  # what a Newton step would still change
    variances, steps = [], []
    for r, matrix in enumerate(state.confusion):
        ways = found.directions.moved(r, classes)
        slopes = moved_measures(matrix, state.prior[:, 0], *ways).reshape(len(left), -1)
        slopes = np.where(np.isfinite(slopes), slopes, np.nan)
        variances.append(np.einsum("im,ij,jm->m", slopes, spread, slopes))
        steps.append(left @ slopes)
    shape = (raters, len(MEASURES), classes)
    freedom = np.broadcast_to(freedom, shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.where(np.isinf(freedom), 1, (freedom + 1) / freedom)
        variance = np.array(variances).reshape(shape) * wider
        # An entry at 0 (or a rater who never gave it) has no error, which is not an error of 0.
        known = (variance > 1e-18) & (freedom >= 1)
        error = np.sqrt(np.where(known, variance, np.nan))
        arrived = np.abs(np.array(steps).reshape(shape)) <= FAR * error
    return Errors(np.where(arrived, error, np.nan), freedom)


def _rest_on_labels(confusion: Array, prior: Array, labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which measures rest on labels on both sides, `(raters, 4, L)`.

    Where a rater was never wrong, nothing tells how sure that is: an entry at 0 has no error,
    which is not an error of 0.
    """
    part, whole = _parts(prior[:, np.newaxis] * confusion)
    rarer = np.minimum(part, whole - part) * labels[:, np.newaxis, np.newaxis]
    return np.asarray(rarer > LEAST)


def performance_rows(
    raters: tuple[str, ...],
    classes: tuple[str, ...],
    confusion: Array,
    prior: Array,
    errors: Errors | None = None,
    labels: NDArray[Any] | None = None,
) -> list[Row]:
    """Return one row per rater and class: measures, their standard errors and 95 % intervals.

    With the number of `labels` of each rater: those without any have no measures. Errors need
    them.
    """
    values = measures(confusion, prior)
    error = np.full_like(values, np.nan)
    if labels is not None:
        values[labels == 0] = np.nan
        if errors is not None:
            error = np.where(_rest_on_labels(confusion, prior, labels), errors.error, np.nan)
    low, high = share_interval(values, error, np.inf if errors is None else errors.freedom)
    error = np.where(np.isnan(low), np.nan, error)
    names = [m + end for m in MEASURES for end in ("", "_se", "_low", "_high")]
    cells = np.stack([values, error, low, high], axis=2)  # (raters, 4, 4 columns, L)
    table = cells.transpose(0, 3, 1, 2).reshape(-1, len(names)).tolist()
    keys = [{"rater": rater, "class": name} for rater in raters for name in classes]
    return [
        key | {n: None if v != v else v for n, v in zip(names, row, strict=True)}
        for key, row in zip(keys, table, strict=True)
    ]

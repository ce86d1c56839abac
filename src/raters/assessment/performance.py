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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from raters.assessment.information import Information, exact_posteriors, information
from raters.core.arrays import Array, Floats
from raters.core.classes import MISSING
from raters.fusion.columns import Columns
from raters.fusion.em import EMState
from raters.io.rows import Row, known
from raters.metrics.bootstrap import wilson

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
        low: The lower ends of the intervals, where they do not follow from the errors.
        high: The upper ends.
    """

    error: Floats
    freedom: Floats
    low: Floats | None = None
    high: Floats | None = None


def measures(confusion: Floats, prior: Floats) -> Floats:
    """Return sensitivity, specificity, PPV and NPV of each class, `(..., 4, L)`, from matrices.

    NaN where a value does not exist: nobody ever says the class, or the prior leaves it out.

    Example:
        >>> measures(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5]))[:, 1].round(3)
        array([0.8  , 0.9  , 0.889, 0.818])
    """
    part, whole = parts(prior[:, np.newaxis] * confusion)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = part / whole
    values[..., 0, :] = np.where(
        prior > 0, np.diagonal(confusion, axis1=-2, axis2=-1), values[..., 0, :]
    )
    return np.where(np.isfinite(values), values, np.nan)


def parts(joint: Floats) -> tuple[Floats, Floats]:
    """Return what each measure divides by what, `(..., 4, L)` each, from `p(is, says)`."""
    right = np.diagonal(joint, axis1=-2, axis2=-1)
    is_class = joint.sum(axis=-1)
    says = joint.sum(axis=-2)
    total = joint.sum(axis=(-2, -1))[..., np.newaxis]
    neither = total - is_class - says + right
    part = np.stack([right, neither, right, neither], axis=-2)
    return part, np.stack([is_class, total - is_class, says, total - says], axis=-2)


def moved_measures(confusion: Floats, prior: Floats, moved: Floats, moved_prior: Floats) -> Floats:
    """Return how the measures move, `(..., 4, L)`, where matrices `(..., L, L)` and prior move.

    Example:
        >>> matrix, prior = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5])
        >>> by = np.array([[0.0, 0.0], [-0.01, 0.01]])
        >>> moved_measures(matrix, prior, by, np.zeros(2))[:, 1].round(4)
        array([0.01  , 0.    , 0.0012, 0.0074])
    """
    joint = prior[:, np.newaxis] * confusion
    change = moved_prior[..., np.newaxis] * confusion + prior[:, np.newaxis] * moved
    part, whole = parts(joint)
    moved_part, moved_whole = parts(change)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((moved_part - part / whole * moved_whole) / whole)


def known_prior(options: Mapping[str, Any]) -> Literal["given", "estimated"] | None:
    """Return where the prior of STAPLE comes from, if errors can be given; else None.

    STAPLE takes the share of each class among all labels for the prior (Warfield et al.). That is
    not the share of the class: where 10 % are foreground, it may be 17 %, matrices and predictive
    values follow it, and no interval knows. A map as prior, `restrict` and matrices that vary over
    the image are other models than the one whose information is known here.

    Example:
        >>> known_prior({}), known_prior({"estimate_prior": True})
        (None, 'estimated')
    """
    if options.get("restrict") or options.get("smoothing"):
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
    return _errors(information(columns, state, prior == "estimated"), state)


def group_errors(columns: Columns, state: EMState, groups: Floats) -> Errors | None:
    """Return the errors of matrices (and a prior) that all groups share, by what each group says.

    Args:
        columns: The patterns of labels of all groups together.
        state: What was estimated from them.
        groups: How often each pattern occurs in each group, `(groups, patterns)`.
    """
    sizes = _group_sizes(columns, state, groups)
    worth = effective_groups(sizes.sum(axis=0), (sizes**2).sum(axis=0))
    return _errors(information(columns, state, True, groups), state, worth - 1)


def _group_sizes(columns: Columns, state: EMState, groups: Floats) -> Floats:
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
    found: Information | None, state: EMState, freedom: Floats | None = None
) -> Errors | None:
    """Return errors of all measures; with degrees of freedom, those by what groups say.

    Few groups spread less about what they gave themselves than about the truth: with `g` of them
    the variance is `g / (g - 1)` times as large.
    """
    inverse = None if found is None else found.covariance
    if found is None or inverse is None:
        return None
    spread = inverse if freedom is None else found.over_groups(inverse)
    raters, classes = state.confusion.shape[:2]
    left = inverse @ found.scores.sum(axis=0)  # what a Newton step would still change
    variances = []
    steps = []
    for r, matrix in enumerate(state.confusion):
        ways = found.directions.moved(r, classes)
        slopes = moved_measures(matrix, state.prior[:, 0], *ways).reshape(len(left), -1)
        slopes = np.where(np.isfinite(slopes), slopes, np.nan)
        variances.append(np.einsum("im,ij,jm->m", slopes, spread, slopes))
        steps.append(left @ slopes)
    shape = (raters, len(MEASURES), classes)
    freedom = np.full(shape, np.inf) if freedom is None else freedom
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.where(np.isinf(freedom), 1, (freedom + 1) / freedom)
        variance = np.array(variances).reshape(shape) * wider
        # An entry at 0 (or a rater who never gave it) has no error, which is not an error of 0.
        known = (variance > 1e-18) & (freedom >= 1)
        error = np.sqrt(np.where(known, variance, np.nan))
        arrived = np.abs(np.array(steps).reshape(shape)) <= FAR * error
    return Errors(np.where(arrived, error, np.nan), freedom)


def performance_rows(
    raters: tuple[str, ...],
    classes: tuple[str, ...],
    confusion: Floats,
    prior: Floats,
    errors: Errors | None = None,
    labels: Array | None = None,
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
            # Where a rater was never wrong, nothing tells how sure that is: an entry at 0 has no
            # error, which is not an error of 0. So measures must rest on labels on both sides.
            part, whole = parts(prior[:, np.newaxis] * confusion)
            rarer = np.minimum(part, whole - part) * labels[:, np.newaxis, np.newaxis]
            error = np.where(rarer > LEAST, errors.error, np.nan)
    low, high = share_interval(values, error, np.inf if errors is None else errors.freedom)
    if errors is not None and errors.low is not None and errors.high is not None:
        there = np.isfinite(values)
        error, low, high = (
            np.where(there, x, np.nan) for x in (errors.error, errors.low, errors.high)
        )
    error = np.where(np.isnan(low), np.nan, error)
    names = [m + end for m in MEASURES for end in ("", "_se", "_low", "_high")]
    cells = np.stack([values, error, low, high], axis=2)  # (raters, 4, 4 columns, L)
    table = cells.transpose(0, 3, 1, 2).reshape(-1, len(names)).tolist()
    keys = [{"rater": rater, "class": name} for rater in raters for name in classes]
    return [
        key | {n: known(v) for n, v in zip(names, row, strict=True)}
        for key, row in zip(keys, table, strict=True)
    ]


LEAST_LABELS = 1.0
"""A share that is no surer than one label makes it has no interval: the labels do not tell it."""

# Quantiles 0.975 of Student's t; importing scipy for them would take longer than most fits.
_FREEDOM = np.array([1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 120, np.inf])
_QUANTILES = np.array(
    [
        12.7062,
        8.0280,
        6.0167,
        4.3027,
        3.5747,
        3.1824,
        2.7764,
        2.5706,
        2.4469,
        2.3060,
        2.2281,
        2.1314,
        2.0860,
        2.0423,
        2.0003,
        1.9799,
        1.9600,
    ]
)


def t_quantile(freedom: ArrayLike) -> Floats:
    """Return the 97.5 % quantile of Student's t by its degrees of freedom; NaN below 1.

    Example:
        >>> t_quantile([1, 5, 50, np.inf]).round(2).tolist()
        [12.71, 2.57, 2.01, 1.96]
    """
    given = np.asarray(freedom, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.exp(np.interp(-1 / given, -1 / _FREEDOM, np.log(_QUANTILES)))
    return np.where(given >= 1, found, np.nan)


def share_interval(
    share: ArrayLike, error: ArrayLike, freedom: ArrayLike = np.inf
) -> tuple[Floats, Floats]:
    """Return both ends of the 95 % interval of a share by its standard error; NaN where none is.

    A share `p` with the standard error `e` is as sure as one counted from `n = p (1 - p) / e^2`
    labels whose truth is known. Its interval is Wilson's of that many labels (E. B. Wilson, 1927;
    with an effective number: E. L. Korn, B. I. Graubard, 1998), with Student's quantile where the
    error comes from few groups. Unlike `p +- 1.96 e` it stays within 0 and 1 and holds the truth
    near both. `benchmarks/interval_coverage.py` measures how often.

    Args:
        share: The estimate, 0 to 1.
        error: Its standard error.
        freedom: The degrees of freedom that the error was estimated with.

    Example:
        >>> low, high = share_interval(0.9, np.sqrt(0.9 * 0.1 / 50))     # 45 of 50 labels
        >>> round(float(low), 3), round(float(high), 3)
        (0.786, 0.957)
    """
    p = np.asarray(share, np.float64)
    e = np.asarray(error, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        labels = p * (1 - p) / e**2
        low, high = wilson(p, labels, t_quantile(freedom))
        known = (labels >= LEAST_LABELS) & np.isfinite(low)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def effective_groups(total: Floats, squares: Floats) -> Floats:
    """Return how many groups of one size those of sizes n are worth: `(sum n)^2 / sum n^2`.

    The degrees of freedom of an error over groups are one less (F. E. Satterthwaite, 1946): where
    one case has nearly all of the labels, there are hardly any. 0 where there is nothing.

    Example:
        >>> sizes = np.array([[10.0, 100.0], [10.0, 1.0]])
        >>> effective_groups(sizes.sum(axis=0), (sizes**2).sum(axis=0)).round(2).tolist()
        [2.0, 1.02]
    """
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


def worst_first(rows: list[Row]) -> list[Row]:
    """Put the raters whose worst class is named worst first; each keeps the order of classes.

    Example:
        >>> rows = [{"rater": "ann", "sensitivity": 0.9}, {"rater": "bob", "sensitivity": 0.4}]
        >>> [row["rater"] for row in worst_first(rows)]
        ['bob', 'ann']
    """
    worst: dict[str, float] = {}
    for row in rows:
        found = row.get("sensitivity")
        value = math.inf if found is None or found != found else float(found)
        worst[row["rater"]] = min(worst.get(row["rater"], math.inf), value)
    return sorted(rows, key=lambda row: worst[row["rater"]])

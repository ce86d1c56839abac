"""STAPLE: the truth and one matrix per rater from masks alone, binary and multi-class alike.

    log L = sum_i log sum_t pi_t prod_r C_r[t, o_ir]

is maximised over the raters' matrices `C_r` by EM; the prior `pi` is kept. S. K. Warfield, K. H.
Zou, W. M. Wells, Simultaneous truth and performance level estimation (STAPLE), IEEE TMI 23, 2004.
With `estimate_prior` it is Dawid and Skene's model (1979) on voxels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from raters.core.arrays import Array, Floats, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.fusion.columns import Columns, blocks, columns_of
from raters.fusion.em import EMOptions, EMState, posteriors
from raters.fusion.option_values import Count, NotNegative, Shares
from raters.fusion.result import Fusion
from raters.fusion.starts import Choice, Starts, fit, kinds_of


def staple(
    labels: Array,
    num_classes: int,
    *,
    prior: Shares | None = None,
    estimate_prior: bool = False,
    restrict: bool = False,
    smoothing: NotNegative = 0.0,
    max_iter: Count = 200,
    tol: NotNegative = 1e-7,
    starts: Starts = "vote",
    patterns: bool = True,
) -> Fusion:
    """Fuse masks by STAPLE.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes `L`.
        prior: The share of each class, `(L,)`, or a map `(L, *space)`; by default the share of
            each class among all labels (Warfield's global prior).
        estimate_prior: Estimate the prior too (Dawid-Skene).
        restrict: Let only voxels that raters differ on take part; where all agree, that is the
            truth. Large backgrounds then do not decide on the raters' specificity.
        smoothing: Counts added to each entry of a matrix.
        max_iter: At most so many steps.
        tol: Stop when no entry of a matrix changes by more.
        starts: Where EM starts: `vote` (as in ITK), `mean`, `union`, `raters`, `random`, a list of
            them, or `several` for all but the last. The most likely solution is kept in which
            raters are right more often than wrong; with `pool`, `several` is the default.
        patterns: Count patterns of labels where they are few; False takes voxels one by one
            (the same result, slower).

    Example:
        >>> labels = np.array([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]])
        >>> fused = staple(labels, num_classes=2)
        >>> fused.labels, fused.converged
        (array([0, 0, 1, 1, 0], dtype=int16), True)
    """
    given = _given_prior(prior, num_classes, np.shape(labels)[1:])
    varies = given is not None and given.shape[1] > 1
    columns = columns_of(labels, num_classes, patterns and not varies)
    agreed = columns.agreed() if restrict else None
    used = columns
    if agreed is not None:
        weights = np.where(agreed == MISSING, np.broadcast_to(columns.weights, columns.size), 0.0)
        used = replace(columns, weights=np.atleast_1d(weights))
    shares = label_shares(used, num_classes) if given is None else given
    options = EMOptions(max_iter, tol, estimate_prior and not varies, smoothing)
    found = fit(used, shares, options, kinds_of(starts, ("vote",)))
    return fused(columns, found, np.shape(labels)[1:], agreed)


def label_shares(columns: Columns, num_classes: int) -> Floats:
    """Return the share of each class among all labels, `(L, 1)`; even where there are none."""
    weights = np.broadcast_to(columns.weights, columns.size)
    counts = np.zeros(num_classes + 1)
    for part in blocks(columns.size):
        for row in columns.labels:
            index = row[part].astype(np.intp) + 1  # MISSING comes first
            counts += np.bincount(index, weights=weights[part], minlength=num_classes + 1)
    counts = counts[1:]
    total = counts.sum()
    return (counts / total if total else np.full(num_classes, 1 / num_classes))[:, np.newaxis]


def _given_prior(prior: Shares | None, num_classes: int, space: tuple[int, ...]) -> Floats | None:
    """Check a prior and make its classes sum to one: `(L, 1)` or `(L, voxels)`."""
    if prior is None:
        return None
    array = np.asarray(prior, np.float64)
    if array.shape not in ((num_classes,), (num_classes, *space)):
        raise RatersError(
            f"found a prior of shape {array.shape}, expected ({num_classes},) or "
            f"{(num_classes, *space)}"
        )
    flat = array.reshape(num_classes, -1)
    total = flat.sum(axis=0)
    if not (np.isfinite(flat).all() and (flat >= 0).all() and (total > 0).all()):
        raise RatersError("found a prior with negative or no weight, expected shares of classes")
    return np.asarray(flat / total)


def fused(
    columns: Columns, found: Choice[EMState], space: tuple[int, ...], agreed: Labels | None = None
) -> Fusion:
    """Map the posteriors of columns back to voxels."""
    state = found.kept.state
    truth = posteriors(columns, state)
    if agreed is not None:
        known = agreed != MISSING
        truth[:, known] = np.arange(len(truth))[:, np.newaxis] == agreed[known]
    hard = np.empty(columns.size, np.int16)
    for part in blocks(columns.size):
        nobody = (columns.labels[:, part] == MISSING).all(axis=0)
        hard[part] = np.where(nobody, MISSING, truth[:, part].argmax(axis=0))
    weights = np.broadcast_to(columns.weights, columns.size)
    return Fusion(
        partial(columns.on_grid, truth, space),
        columns.to_voxels(hard[np.newaxis])[0].reshape(space),
        state.confusion,
        state.prior[:, 0] if state.prior.shape[1] == 1 else state.prior.mean(axis=1),
        state.log_likelihoods,
        state.converged,
        int(weights[hard != MISSING].sum()),
        found.rows,
        found.notes,
    )

"""Spatial STAPLE: the truth, and matrices of the raters that vary over the image, from masks alone.

    E   w_x(t) ~ pi_t prod_r C_r,x[t, o_rx]                      over the labels that there are
    M   C_r,x[t, o] = (N_r,x[t, o] + k G_r[t, o]) / (M_r,x[t] + k)

`N` sums `w(t)` over the voxels of the window around `x` that rater `r` labelled `o`, `M` over those
that `r` labelled at all. `G` is the rater's whole-image matrix from the same `w`; it counts for `k`
voxels, so that a window in which a class hardly occurs falls back to it.

A. J. Asman, B. A. Landman, Formulating spatially varying performance in the statistical fusion
framework, IEEE TMI 31(6), 2012. That a window shares its voxels with its neighbours' makes this no
exact EM: the log-likelihood need not rise at each step. It stops when no posterior changes by more
than a tolerance, or after a number of steps. `docs/spatial-staple.md` tells more.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Ints, Labels
from raters.core.classes import MISSING
from raters.core.errors import RatersError
from raters.core.progress import ordered_map
from raters.fusion._staple import staple
from raters.fusion.box_sums import (
    add_log_columns,
    as_planes,
    channels_of,
    count_pass,
    normalise_pass,
    rounder,
    write_shares,
)
from raters.fusion.columns import in_stretches
from raters.fusion.em import iterate, m_step
from raters.fusion.option_values import NotNegative, Shares, Sizes
from raters.fusion.result import Fusion
from raters.metrics.conventions import label_array

_SMALL = 1 << 14


@dataclass(frozen=True)
class _Volume:
    """The labels `(raters, planes, rows, columns)`, and by rater which labels occur."""

    labels: Labels
    classes: int
    channels: list[tuple[Ints, Ints]]

    @property
    def flat(self) -> Labels:
        return self.labels.reshape(len(self.labels), -1)


class _Window(NamedTuple):
    """What `k` is, and how far a window goes to each side `(planes, rows, columns)`."""

    prior_weight: float
    reach: tuple[int, int, int]
    rounding: float


@dataclass(frozen=True)
class _Step:
    """Where the algorithm stands: posteriors `(L, n)` and what they come from.

    Attributes:
        truth: The posteriors.
        before: Those of the step before, which the matrices were counted from.
        whole: The raters' whole-image matrices, `(raters, L, L)`.
    """

    truth: Floats
    before: Floats
    whole: Floats


def spatial_staple(
    labels: Array,
    num_classes: int,
    *,
    window: Sizes = 31,
    spacing: Sizes | None = None,
    prior_weight: NotNegative | None = None,
    class_prior: Shares | None = None,
    max_iter: Annotated[int, Ge(0)] = 100,
    tol: NotNegative = 1e-3,
    maps: bool = False,
) -> Fusion:
    """Fuse masks by Spatial STAPLE.

    Memory: 16 bytes per class and voxel while it runs, and the labels. `maps` takes
    `4 raters classes^2` bytes per voxel more: 21 MB for 5 raters, 2 classes and 512 x 512; 0.6 GB
    for 192^3, and four times that for 4 classes.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`; one to three space axes.
        num_classes: The number of classes `L`.
        window: The edge of the window, one for all axes or one per axis: a voxel counts whose
            centre is at most half of it away. In the unit of `spacing`: millimetres for files
            that state the size of their voxels, else voxels (an even edge acts as the next odd
            one). Windows are cut at the edge of the image.
        spacing: The size of a voxel by axis; by default the file's, and 1 for arrays and for files
            that state none. `1` makes windows count voxels whatever the file says.
        prior_weight: `k`: for how many voxels the whole-image matrix counts; by default as many
            as a whole window has. Much less frees the matrices and lets regions of one class turn
            into another. With 0, windows without a class still fall back to it.
        class_prior: The share of each class, `(L,)`, or a map `(L, *space)`; it is kept. By
            default the share of each class among all labels.
        max_iter: At most so many steps; with 0 the result is plain STAPLE's, which is the start.
        tol: Stop when no posterior changes by more.
        maps: Give the local matrices, `(raters, L, L, *space)` in float32, instead of the
            whole-image ones, `(raters, L, L)`.

    Returns:
        The truth in float32; where nobody labelled, it is the prior. `confusion` are the matrices
        that it follows from.

    Raises:
        RatersError: that names the value found and what was expected.

    Example:
        Rater 3 does not see the right half; there, the others decide.

        >>> truth = np.indices((24, 24)).sum(axis=0) % 8 < 4
        >>> labels = np.array([truth] * 3, np.int16)
        >>> labels[2, :, 12:] = 0
        >>> fused = spatial_staple(labels, num_classes=2, window=9, prior_weight=2, maps=True)
        >>> bool((fused.labels == truth).all()), fused.confusion.shape
        (True, (3, 2, 2, 24, 24))
        >>> fused.confusion[2, 1, 1, 12, [4, 20]].round(1).tolist()
        [1.0, 0.0]
    """
    volume = _volume(labels, num_classes)
    space = np.shape(labels)[1:]
    local = _window(window, spacing, prior_weight, space)
    plain = staple(volume.labels.reshape(-1, *space), num_classes, prior=class_prior)
    assert plain.prior is not None and plain.confusion is not None
    prior = np.asarray(plain.prior if class_prior is None else class_prior, np.float64)
    shares = prior.reshape(num_classes, -1)
    with np.errstate(divide="ignore"):
        log_prior: Floats = np.log(shares / shares.sum(axis=0))
    truth = plain.truth.reshape(num_classes, -1).astype(np.float64)
    spare = np.empty_like(truth) if max_iter > 0 else truth

    def take(old: _Step) -> tuple[_Step, float, float]:
        nonlocal spare
        whole = _m_step(volume, old.truth, old.whole)
        out = spare
        log_likelihood, change = _e_step(volume, local, log_prior, old.truth, whole, out)
        spare = old.truth
        return _Step(out, old.truth, whole), log_likelihood, change

    start = _Step(truth, truth, plain.confusion)
    step, history, converged = iterate(take, start, max_iter, tol)
    confusion: Array = step.whole
    if maps:
        confusion = _confusion_maps(volume, local, step.before, step.whole).reshape(
            *step.whole.shape, *space
        )
    nobody = (volume.flat == MISSING).all(axis=0)
    hard = np.where(nobody, MISSING, step.truth.argmax(axis=0)).astype(np.int16)
    return Fusion(
        soft=step.truth.astype(np.float32).reshape(num_classes, *space),
        labels=hard.reshape(space),
        confusion=confusion,
        prior=plain.prior,
        log_likelihoods=history,
        converged=converged,
        voxels=int((~nobody).sum()),
    )


def local_accuracy(fusion: Fusion) -> NDArray[np.float32]:
    """Return how likely each rater is right at each place, `sum_t p(t) C_r,x[t, t]`.

    Args:
        fusion: A result of `spatial_staple` with `maps`, or of plain STAPLE (which knows one
            matrix per rater: its accuracy varies with the truth only).

    Returns:
        `(raters, *space)`.

    Example:
        >>> fused = spatial_staple(np.array([[[0, 1, 1]], [[0, 1, 0]]]), 2, maps=True)
        >>> local_accuracy(fused).shape
        (2, 1, 3)
    """
    if fusion.confusion is None:
        raise RatersError("found a result without matrices, expected one of a method that has them")
    right = np.einsum("rtt...->rt...", fusion.confusion)
    right = right.reshape(*right.shape, *[1] * (fusion.truth.ndim + 1 - right.ndim))
    return np.asarray((right * fusion.truth).sum(axis=1), np.float32)


def reach_of(
    window: float | Sequence[float], spacing: float | Sequence[float] | None, space: Sequence[int]
) -> tuple[int, ...]:
    """Return how many voxels a window goes to each side, by axis; never beyond the image.

    Example:
        >>> reach_of(25, None, (512, 512)), reach_of(25, None, (512, 8))
        ((12, 12), (12, 7))
        >>> reach_of(10, (0.5, 0.5, 3.0), (512, 512, 40))
        (10, 10, 1)
    """
    edges = _by_axis(window, space, "window")
    sizes = _by_axis(1.0 if spacing is None else spacing, space, "spacing")
    # A hair more: an edge of 0.3 mm holds three voxels of 0.1 mm whatever floats make of it.
    reach = [math.floor(edge / (2 * size) + 1e-9) for edge, size in zip(edges, sizes, strict=True)]
    return tuple(min(r, max(n - 1, 0)) for r, n in zip(reach, space, strict=True))


def _by_axis(value: float | Sequence[float], space: Sequence[int], name: str) -> list[float]:
    given = np.asarray(value, np.float64)
    if given.shape not in ((), (len(space),)):
        raise RatersError(f"found {given.size} values of {name}, expected 1 or {len(space)}")
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise RatersError(f"found the {name} {value}, expected more than 0")
    return [float(v) for v in np.broadcast_to(given, len(space))]


def _window(
    window: float | Sequence[float],
    spacing: float | Sequence[float] | None,
    prior_weight: float | None,
    space: tuple[int, ...],
) -> _Window:
    reach = reach_of(window, spacing, space)
    if prior_weight is None:
        prior_weight = math.prod(min(2 * r + 1, n) for r, n in zip(reach, space, strict=True))
    if not 0 <= prior_weight < math.inf:
        raise RatersError(f"found the prior weight {prior_weight}, expected 0 or more")
    planes, rows, columns = (n - 1 for n in as_planes([r + 1 for r in reach]))
    return _Window(float(prior_weight), (planes, rows, columns), rounder(reach, space))


def _volume(labels: Array, num_classes: int) -> _Volume:
    """Check the labels and take them as planes."""
    labels = label_array(labels, num_classes)
    if not 2 <= labels.ndim <= 4 or labels.size == 0:
        raise RatersError(
            f"found labels of shape {labels.shape}, expected (raters, *space) with one to three "
            "space axes, and at least one rater and voxel"
        )
    planes = np.ascontiguousarray(labels, np.int16).reshape(-1, *as_planes(labels.shape[1:]))
    return _Volume(planes, num_classes, [channels_of(own, num_classes) for own in planes])


def _m_step(volume: _Volume, truth: Floats, old: Floats) -> Floats:
    """Count the whole-image matrices `(raters, L, L)`; a row without any label stays as it was.

    The local ones are never stored: the E step counts the entry that a voxel needs.
    """

    def count(start: int, stop: int) -> Floats:
        counts = np.zeros((len(volume.labels), volume.classes + 1, volume.classes))
        count_pass(volume.flat, truth, start, stop, counts)
        return counts

    return m_step(np.sum(in_stretches(count, truth.shape[1]), axis=0), old, smoothing=0.0)


def _e_step(
    volume: _Volume, window: _Window, log_prior: Floats, truth: Floats, whole: Floats, out: Floats
) -> tuple[float, float]:
    """Write the posteriors `(L, n)` that the local matrices of `truth` make.

    Returns:
        The log-likelihood, and the largest change against `truth`.
    """
    out[:] = log_prior
    planes = volume.labels.shape[1:]
    weights = truth.reshape(-1, *planes)
    logs = out.reshape(-1, *planes)

    def work(t: int, start: int, stop: int) -> None:
        for labels, (used, channel), matrix in zip(
            volume.labels, volume.channels, whole, strict=True
        ):
            row = matrix[t, used]
            add_log_columns(labels, weights[t], channel, row, *window, start, stop, logs[t])

    possible = np.flatnonzero((log_prior > -math.inf).any(axis=1))
    _in_stripes(work, possible.tolist(), planes)
    parts = in_stretches(lambda a, b: normalise_pass(out, truth, a, b), truth.shape[1])
    return float(sum(ll for ll, _ in parts)), float(max(change for _, change in parts))


def _confusion_maps(
    volume: _Volume, window: _Window, truth: Floats, whole: Floats
) -> NDArray[np.float32]:
    """Count the local matrices, `(raters, L, L, planes, rows, columns)`."""
    planes = volume.labels.shape[1:]
    weights = truth.reshape(-1, *planes)
    out = np.zeros((*whole.shape, *planes), np.float32)

    def work(t: int, start: int, stop: int) -> None:
        for r, (labels, (used, channel)) in enumerate(
            zip(volume.labels, volume.channels, strict=True)
        ):
            row = channel, used, whole[r, t]
            write_shares(labels, weights[t], *row, *window, start, stop, out[r, t])

    _in_stripes(work, list(range(volume.classes)), planes)
    return out


def _in_stripes(
    work: Callable[[int, int, int], None], classes: list[int], planes: tuple[int, ...]
) -> None:
    """Call `work(t, start, stop)` for each class and stripe of planes, on all cores.

    A stripe must first read the planes around its start: there are no more than cores need.
    """
    workers = 1 if math.prod(planes) < _SMALL else os.cpu_count() or 1
    stripes = min(planes[0], math.ceil(workers / max(len(classes), 1)))
    edges = [planes[0] * k // stripes for k in range(stripes + 1)]
    jobs = [(t, a, b) for t in classes for a, b in pairwise(edges)]
    list(ordered_map(lambda job: work(*job), jobs, workers))

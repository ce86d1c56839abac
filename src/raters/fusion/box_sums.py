"""Sums of weights over a window around each voxel, by label, and the local matrices from them.

    S_o(x) = sum of w(y) over the voxels y of the window around x whose label is o

Images are taken as `(planes, rows, columns)`. One plane of sums slides along the first axis (a
plane enters, a plane leaves), one row of sums slides within it, one number slides along the row:
each voxel is added and subtracted once per axis, however large the window is.

Adding and taking away floats leaves crumbs: where a window has no weight, 1e-13 would remain, and
a share of crumbs is nonsense. So weights are rounded to multiples of a power of two that is small
enough (2^-32, or more in windows of millions of voxels) for each sum to be exact in float64. Zero
is zero, no sum is negative, and the result does not depend on where threads divide the image.

The kernels that call each other stay in one file: numba's cache sees changes of a kernel's own file
only. `labels` are `(planes, rows, columns)` of one rater, `weights` of one true class. All run
outside Python's lock, on a stretch of planes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Array, Floats, Ints, Labels

_MANTISSA = 52
_FINEST = 32
_LEAST_LOG = -700.0
"""Not -inf: a label that a rater 'never' gives must not make every class impossible."""


def as_planes(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return one to three axes the form `(planes, rows, columns)`; a picture's rows are planes.

    Example:
        >>> as_planes((7,)), as_planes((5, 7)), as_planes((3, 5, 7))
        ((1, 1, 7), (5, 1, 7), (3, 5, 7))
    """
    first = shape[0] if len(shape) > 1 else 1
    last = shape[-1]
    return first, (shape[1] if len(shape) > 2 else 1), last


def rounder(reach: Sequence[int], shape: Sequence[int]) -> float:
    """Return the number `m` for which `(w + m) - m` rounds `w` so that all sums are exact.

    Args:
        reach: How far a window goes to each side, by axis.
        shape: The shape of the image.

    Example:
        >>> m = rounder((12, 12), (512, 512))
        >>> (1 / 3 + m) - m == round(2**32 / 3) / 2**32
        True
    """
    voxels = math.prod(min(2 * r + 1, n) for r, n in zip(reach, shape, strict=True))
    bits = min(_FINEST, _MANTISSA - 1 - math.ceil(math.log2(voxels + 1)))
    return 1.5 * 2.0 ** (_MANTISSA - bits)


@numba.njit(nogil=True, cache=True)
def slide_plane(
    labels: Labels, weights: Floats, channel: Ints, rounding: float, sign: float, sums: Floats
) -> None:
    """Let a plane enter (`sign` 1) or leave (-1) the sums `(channels, rows, columns)`.

    Args:
        labels: The labels of the plane, `(rows, columns)`.
        weights: Its weights, of the same shape.
        channel: The channel of label `o` at `o + 1`; -1 for labels that are not summed.
        rounding: The number of `rounder`.
        sign: 1 or -1.
        sums: Added to.
    """
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            c = channel[labels[y, x] + 1]
            if c >= 0:
                sums[c, y, x] += sign * ((weights[y, x] + rounding) - rounding)


@numba.njit(nogil=True, cache=True)
def next_plane(
    labels: Labels,
    weights: Floats,
    channel: Ints,
    rounding: float,
    z: int,
    start: int,
    reach: int,
    sums: Floats,
) -> None:
    """Move the window from plane `z - 1` to `z`; at the first, `start`, all of it enters."""
    if z == start:
        for first in range(max(0, start - reach), min(start + reach, labels.shape[0])):
            slide_plane(labels[first], weights[first], channel, rounding, 1.0, sums)
    if z + reach < labels.shape[0]:
        slide_plane(labels[z + reach], weights[z + reach], channel, rounding, 1.0, sums)
    gone = z - reach - 1
    if z > start and gone >= 0:
        slide_plane(labels[gone], weights[gone], channel, rounding, -1.0, sums)


@numba.njit(nogil=True, cache=True)
def next_row(sums: Floats, y: int, reach: int, rows: Floats) -> None:
    """Move the window over the rows of a plane to row `y`; from 0 upwards, one by one.

    Args:
        sums: `(channels, rows, columns)`, summed over planes.
        y: The row.
        reach: How many rows the window goes to each side.
        rows: `(channels, columns)`, written at row 0, then moved along.
    """
    size = sums.shape[1]
    if y == 0:
        rows[:] = 0.0
        for first in range(min(reach, size)):
            rows += sums[:, first]
    if y + reach < size:
        rows += sums[:, y + reach]
    if y > reach:
        rows -= sums[:, y - reach - 1]


@numba.njit(nogil=True, cache=True)
def box_row(values: Floats, reach: int, out: Floats) -> None:
    """Sum along a row: `out[x] = values[x - reach] + .. + values[x + reach]`, cut at the ends."""
    size = values.shape[0]
    total = 0.0
    for x in range(min(reach, size)):
        total += values[x]
    for x in range(size):
        entering = values[x + reach] if x + reach < size else 0.0
        leaving = values[x - reach - 1] if x > reach else 0.0
        total += entering - leaving
        out[x] = total


def channels_of(labels: Array, num_classes: int) -> tuple[Ints, Ints]:
    """Number the labels that occur: which they are, and the channel of `o` at `o + 1`.

    Example:
        >>> used, channel = channels_of(np.array([3, -1, 0, 3]), num_classes=5)
        >>> used.tolist(), channel.tolist()
        ([0, 3], [-1, 0, -1, -1, 1, -1])
    """
    counts = np.bincount(labels.reshape(-1) + 1, minlength=num_classes + 1)
    used = np.flatnonzero(counts[1:])
    channel = np.full(num_classes + 1, -1, np.int64)
    channel[used + 1] = np.arange(len(used))
    return used, channel


@numba.njit(nogil=True, cache=True)
def add_log_columns(
    labels: Labels,
    weights: Floats,
    channel: Ints,
    whole: Floats,
    prior_weight: float,
    reach: tuple[int, int, int],
    rounding: float,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """Add `log C_x[t, o_x]`, the one entry of the rater's local matrix that a voxel needs.

    Args:
        labels: The rater's labels.
        weights: The posterior of the true class `t`.
        channel: The channel of label `o` at `o + 1` (`channels_of`).
        whole: The row `t` of the rater's whole-image matrix, at the labels that occur.
        prior_weight: How many voxels that row counts for.
        reach: How far the window goes to each side, by axis.
        rounding: The number of `rounder`.
        start: The first plane.
        stop: The plane behind the last.
        out: `(planes, rows, columns)`, added to; voxels without a label stay.
    """
    sums = np.zeros((whole.shape[0], labels.shape[1], labels.shape[2]))
    rows, boxes = np.empty((2, whole.shape[0], labels.shape[2]))
    for z in range(start, stop):
        next_plane(labels, weights, channel, rounding, z, start, reach[0], sums)
        for y in range(labels.shape[1]):
            next_row(sums, y, reach[1], rows)
            for c in range(whole.shape[0]):
                box_row(rows[c], reach[2], boxes[c])
            _add_log_row(labels[z, y], channel, boxes, whole, prior_weight, out[z, y])


@numba.njit(nogil=True, cache=True)
def _add_log_row(
    labels: Labels, channel: Ints, boxes: Floats, whole: Floats, prior_weight: float, out: Floats
) -> None:
    for x in range(labels.shape[0]):
        c = channel[labels[x] + 1]
        if c >= 0:
            total = 0.0
            for other in range(boxes.shape[0]):
                total += boxes[other, x]
            share = _share(boxes[c, x], total, whole[c], prior_weight)
            out[x] += math.log(share) if share > 1e-304 else _LEAST_LOG


@numba.njit(nogil=True, cache=True)
def _share(count: float, total: float, whole: float, prior_weight: float) -> float:
    """Return `(N + k G) / (M + k)`; without any evidence that is `G`."""
    if total + prior_weight <= 0:
        return whole
    return (count + prior_weight * whole) / (total + prior_weight)


@numba.njit(nogil=True, cache=True)
def write_shares(
    labels: Labels,
    weights: Floats,
    channel: Ints,
    used: Ints,
    whole: Floats,
    prior_weight: float,
    reach: tuple[int, int, int],
    rounding: float,
    start: int,
    stop: int,
    out: NDArray[np.float32],
) -> None:
    """Write the row `C_x[t, :]` of the rater's local matrix, `(L, planes, rows, columns)`.

    `used` are the labels that occur and `whole` is a full row here; the other arguments are those
    of `add_log_columns`.
    """
    sums = np.zeros((used.shape[0], labels.shape[1], labels.shape[2]))
    rows, boxes = np.empty((2, used.shape[0], labels.shape[2]))
    for z in range(start, stop):
        next_plane(labels, weights, channel, rounding, z, start, reach[0], sums)
        for y in range(labels.shape[1]):
            next_row(sums, y, reach[1], rows)
            for c in range(used.shape[0]):
                box_row(rows[c], reach[2], boxes[c])
            _write_row(channel, boxes, whole, prior_weight, out[:, z, y])


@numba.njit(nogil=True, cache=True)
def _write_row(
    channel: Ints, boxes: Floats, whole: Floats, prior_weight: float, out: NDArray[np.float32]
) -> None:
    for x in range(out.shape[1]):
        total = boxes[:, x].sum()
        for o in range(out.shape[0]):
            c = channel[o + 1]
            count = boxes[c, x] if c >= 0 else 0.0
            out[o, x] = _share(count, total, whole[o], prior_weight)


@numba.njit(nogil=True, cache=True)
def count_pass(labels: Labels, weights: Floats, start: int, stop: int, counts: Floats) -> None:
    """Add up the whole-image counts `(raters, o + 1, t)` of labels `(raters, n)`."""
    for r in range(labels.shape[0]):
        for t in range(weights.shape[0]):
            for i in range(start, stop):
                counts[r, labels[r, i] + 1, t] += weights[t, i]


@numba.njit(nogil=True, cache=True)
def normalise_pass(logs: Floats, old: Floats, start: int, stop: int) -> tuple[float, float]:
    """Turn log weights `(L, n)` into posteriors in place.

    Returns:
        The log-likelihood, and the largest change against the posteriors `old`.
    """
    classes = logs.shape[0]
    log_likelihood = 0.0
    largest = 0.0
    for i in range(start, stop):
        highest = -math.inf
        for t in range(classes):
            highest = max(highest, logs[t, i])
        total = 0.0
        for t in range(classes):  # where no class is possible under the prior, nothing is known
            logs[t, i] = math.exp(logs[t, i] - highest) if highest > -math.inf else 1.0
            total += logs[t, i]
        for t in range(classes):
            logs[t, i] /= total
            largest = max(largest, abs(logs[t, i] - old[t, i]))
        log_likelihood += highest + math.log(total)
    return log_likelihood, largest

"""Where raters draw too much or too little: their foreground by distance to the consensus.

The signed distance of a voxel goes from its centre to the nearest voxel on the other side, less
half of the smallest spacing, so that the border between two neighbours is at 0; it is negative
inside of the consensus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raters.errors import RatersError
from raters.plots.names import all_shown
from raters.plots.style import (
    Theme,
    legend_below,
    look,
    new_figure,
    plain_axes,
    rater_colours,
    rater_lines,
)
from raters.progress import track
from raters.scores.inputs import Spacing, label_array, spacing_of
from raters.study.classes import MISSING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from raters.fusion.consensus import Consensus

DEFAULT_BINS = tuple(float(edge) for edge in range(-10, 11))


@dataclass(frozen=True)
class DistanceCounts:
    """Voxels by distance to the border of the consensus; counts of cases can be added.

    Attributes:
        edges: The edges of the bins.
        seen: How many voxels each rater labelled, `(raters, bins)`.
        drawn: How many of them the rater called foreground, `(raters, bins)`.
    """

    edges: NDArray[np.float64]
    seen: NDArray[np.int64]
    drawn: NDArray[np.int64]

    def __add__(self, other: DistanceCounts) -> DistanceCounts:
        return DistanceCounts(self.edges, self.seen + other.seen, self.drawn + other.drawn)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of foreground, `(raters, bins)`; NaN where a rater labelled nothing."""
        full = self.seen > 0
        return np.where(full, self.drawn / np.maximum(self.seen, 1), np.nan)


def signed_distance_counts(
    consensus: ArrayLike,
    labels: ArrayLike,
    spacing: Spacing | None = None,
    bins: ArrayLike = DEFAULT_BINS,
    number: int = 1,
) -> DistanceCounts:
    """Count what raters call foreground by the signed distance to the consensus, for one case.

    Where the consensus has no border (nothing or everything is foreground) nothing is counted.

    Args:
        consensus: Class numbers with MISSING, `(*space)`.
        labels: Those of raters, `(raters, *space)`.
        spacing: The size of a voxel by axis.
        bins: Edges, rising; a bin holds its lower edge, the last one both.
        number: The class that is foreground.

    Example:
        >>> counts = signed_distance_counts([0, 0, 1, 1], [[0, 1, 1, 1]], bins=[-2, -1, 0, 1, 2])
        >>> counts.seen.tolist(), counts.drawn.tolist()
        ([[1, 1, 1, 1]], [[1, 1, 1, 0]])
    """
    truth, given = label_array(consensus), label_array(labels)
    if given.shape[1:] != truth.shape or given.ndim != truth.ndim + 1:
        raise RatersError(
            f"found labels of shape {given.shape}, expected (raters, "
            f"{', '.join(map(str, truth.shape))}) as the consensus has"
        )
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise RatersError(f"found bins {edges.tolist()}, expected at least two rising edges")
    distance = _signed_distance(truth, number, spacing_of(truth.ndim, spacing))
    empty = np.zeros((len(given), len(edges) - 1), np.int64)
    if distance is None:
        return DistanceCounts(edges, empty, empty)
    seen = [np.histogram(distance[row != MISSING], edges)[0] for row in given]
    drawn = [np.histogram(distance[row == number], edges)[0] for row in given]
    shape = empty.shape
    return DistanceCounts(
        edges, np.array(seen, np.int64).reshape(shape), np.array(drawn, np.int64).reshape(shape)
    )


def _signed_distance(
    truth: NDArray[Any], number: int, spacing: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the signed distance, NaN where the consensus is MISSING; None without a border."""
    from scipy.ndimage import distance_transform_edt

    inside, outside = truth == number, (truth != number) & (truth != MISSING)
    if not inside.any() or not outside.any():
        return None
    to_inside = distance_transform_edt(~inside, sampling=spacing)
    to_outside = distance_transform_edt(~outside, sampling=spacing)
    half = float(spacing.min()) / 2
    signed = np.where(inside, half - to_outside, to_inside - half)
    return np.where(inside | outside, signed, np.nan)


def distance_counts(
    consensus: Consensus,
    bins: ArrayLike = DEFAULT_BINS,
    class_name: str | None = None,
    progress: bool = False,
) -> DistanceCounts:
    """Count over all cases of a consensus of masks (`raters.fuse`).

    Args:
        consensus: The fused study.
        bins: Edges of the distance, in mm (pixels where the spacing is unknown).
        class_name: The class; by default the first foreground class.
        progress: Show a progress bar.
    """
    study = consensus.study
    if study.kind == "classification":
        raise RatersError("found a table, expected masks: tables have no borders")
    names = study.classes.names
    if class_name is not None and class_name not in names:
        raise RatersError(f"found no class {class_name!r}, expected one of: {', '.join(names)}")
    number = 1 if class_name is None else names.index(class_name)
    empty = np.zeros((len(study.raters), np.size(bins) - 1), np.int64)
    total = DistanceCounts(np.asarray(bins, np.float64), empty, empty)
    for case, fusion in track(consensus.iter_cases(), len(study), "measuring", progress):
        total += signed_distance_counts(
            fusion.labels, case.labels, case.geometry.spacing, bins, number
        )
    return total


def bias(
    counts: DistanceCounts,
    raters: Sequence[str] | None = None,
    unit: str = "pixels",
    theme: Theme = "light",
) -> Figure:
    """Draw the share of foreground by distance to the border of the consensus, a curve per rater.

    A rater whose curve lies above the grey step outside (to the right) draws too much, one below
    it inside (to the left) too little.

    Args:
        counts: Of one case, or a sum.
        raters: Names of the raters.
        unit: Of the distance.
        theme: The page.

    Example:
        >>> counts = signed_distance_counts([0, 0, 1, 1], [[0, 1, 1, 1]], bins=[-2, -1, 0, 1, 2])
        >>> bias(counts, ["ann"]).axes[0].lines[1].get_ydata().tolist()
        [1.0, 1.0, 1.0, 0.0]
    """
    shares = counts.shares
    if not counts.seen.any():
        raise RatersError("found no border of a consensus, expected some foreground to compare")
    names = list(raters) if raters is not None else [str(k) for k in range(len(shares))]
    if len(names) != len(shares):
        raise RatersError(f"found {len(names)} names of raters, expected {len(shares)}")
    figure = new_figure(5.0, 3.4 + 0.12 * (len(names) > 8) * len(names) / 3)
    where = f"inside  ←  distance to the border of the consensus ({unit})  →  outside"
    axes = plain_axes(figure.subplots(), theme, x=where, y="share called foreground")
    low, high = float(counts.edges[0]), float(counts.edges[-1])
    step = axes.plot([low, 0, 0, high], [1, 1, 0, 0], color=look(theme).muted, lw=3, alpha=0.6)
    colours, lines = rater_colours(names), rater_lines(names)
    centres = (counts.edges[1:] + counts.edges[:-1]) / 2
    handles = list(step)
    for name, share in zip(names, shares, strict=True):
        handles += axes.plot(
            centres, share, color=colours[name], ls=lines[name], lw=1.5, marker="o", ms=2.5
        )
    axes.set(xlim=(low, high), ylim=(-0.03, 1.03))
    legend_below(figure, handles, ["consensus", *all_shown(names)], theme)
    return figure

"""Scores of labels against labels: overlap, surfaces, samples, calibration, and how sure they are.

Pure functions on numpy arrays. The truth comes first and the prediction second, as in
scikit-learn. Labels are class numbers and `MISSING` (-1) is left out; class 0 is background;
spacing is in mm by axis. `raters.scores.conventions` states what empty masks score.

Example:
    >>> from raters import scores
    >>> truth, predicted = [[0, 1, 1, 0]], [[0, 1, 1, 1]]
    >>> scores.dice(truth, predicted)
    array([0.8])
    >>> scores.hausdorff(truth, predicted, spacing=(1, 0.5))
    0.5
"""

from raters.scores.bootstrap import (
    GroupBootstrap,
    Interval,
    difference_interval,
    interval,
    mean_sums,
    ratio,
)
from raters.scores.calibration import (
    ReliabilityCurve,
    brier,
    calibration_error,
    calibration_error_from_sums,
    negative_log_likelihood,
    reliability_curve,
    reliability_sums,
)
from raters.scores.choose_cut import CutCounts, CutTally, area_cut, best_cut, search_cuts
from raters.scores.conventions import DefinedMean, defined_mean, diagonal
from raters.scores.cut import cut_labels, cuts_of, winning_cut
from raters.scores.overlap import (
    VolumeDifference,
    accuracy,
    all_iou_from_counts,
    balanced_accuracy,
    balanced_accuracy_from_counts,
    dice,
    dice_from_counts,
    iou,
    iou_from_counts,
    mean_dice,
    mean_iou,
    merged_counts,
    pair_counts,
    soft_counts,
    soft_dice,
    soft_dice_by_class,
    soft_dice_from_counts,
    volume_difference,
    volume_from_counts,
)
from raters.scores.samples import (
    best_dice,
    best_mean,
    energy_distance,
    energy_from_distances,
    matched_dice,
    matched_mean,
    overlap_from_sizes,
    overlap_matrix,
    overlap_sizes,
)
from raters.scores.surface import (
    SurfaceDistances,
    average_surface_distance,
    hausdorff,
    hd95,
    surface_distances,
    surface_distances_by_class,
)

__all__ = [
    "CutCounts",
    "CutTally",
    "DefinedMean",
    "GroupBootstrap",
    "Interval",
    "ReliabilityCurve",
    "SurfaceDistances",
    "VolumeDifference",
    "accuracy",
    "all_iou_from_counts",
    "area_cut",
    "average_surface_distance",
    "balanced_accuracy",
    "balanced_accuracy_from_counts",
    "best_cut",
    "best_dice",
    "best_mean",
    "brier",
    "calibration_error",
    "calibration_error_from_sums",
    "cut_labels",
    "cuts_of",
    "defined_mean",
    "diagonal",
    "dice",
    "dice_from_counts",
    "difference_interval",
    "energy_distance",
    "energy_from_distances",
    "hausdorff",
    "hd95",
    "interval",
    "iou",
    "iou_from_counts",
    "matched_dice",
    "matched_mean",
    "mean_dice",
    "mean_iou",
    "mean_sums",
    "merged_counts",
    "negative_log_likelihood",
    "overlap_from_sizes",
    "overlap_matrix",
    "overlap_sizes",
    "pair_counts",
    "ratio",
    "reliability_curve",
    "reliability_sums",
    "search_cuts",
    "soft_counts",
    "soft_dice",
    "soft_dice_by_class",
    "soft_dice_from_counts",
    "surface_distances",
    "surface_distances_by_class",
    "volume_difference",
    "volume_from_counts",
    "winning_cut",
]

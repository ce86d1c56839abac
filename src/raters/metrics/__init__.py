"""Scores of labels against labels: overlap, surfaces, samples, calibration, and how sure they are.

Pure functions on numpy arrays. The truth comes first and the prediction second, as in
scikit-learn. Labels are class numbers and `MISSING` (-1) is left out; class 0 is background;
spacing is in mm by axis. `raters.metrics.conventions` states what empty masks score.

Example:
    >>> from raters import metrics
    >>> truth, predicted = [[0, 1, 1, 0]], [[0, 1, 1, 1]]
    >>> metrics.dice(truth, predicted)
    array([0.8])
    >>> metrics.hausdorff(truth, predicted, spacing=(1, 0.5))
    0.5
"""

from raters.metrics.bootstrap import GroupBootstrap as GroupBootstrap
from raters.metrics.bootstrap import Interval as Interval
from raters.metrics.bootstrap import difference_interval as difference_interval
from raters.metrics.bootstrap import interval as interval
from raters.metrics.bootstrap import mean_sums as mean_sums
from raters.metrics.bootstrap import ratio as ratio
from raters.metrics.calibration import ReliabilityCurve as ReliabilityCurve
from raters.metrics.calibration import brier as brier
from raters.metrics.calibration import calibration_error as calibration_error
from raters.metrics.calibration import calibration_error_from_sums as calibration_error_from_sums
from raters.metrics.calibration import negative_log_likelihood as negative_log_likelihood
from raters.metrics.calibration import reliability_curve as reliability_curve
from raters.metrics.calibration import reliability_sums as reliability_sums
from raters.metrics.choose_cut import CutCounts as CutCounts
from raters.metrics.choose_cut import CutTally as CutTally
from raters.metrics.choose_cut import area_cut as area_cut
from raters.metrics.choose_cut import best_cut as best_cut
from raters.metrics.choose_cut import search_cuts as search_cuts
from raters.metrics.conventions import DefinedMean as DefinedMean
from raters.metrics.conventions import defined_mean as defined_mean
from raters.metrics.conventions import diagonal as diagonal
from raters.metrics.cut import cut_labels as cut_labels
from raters.metrics.cut import cuts_of as cuts_of
from raters.metrics.cut import winning_cut as winning_cut
from raters.metrics.overlap import VolumeDifference as VolumeDifference
from raters.metrics.overlap import accuracy as accuracy
from raters.metrics.overlap import all_iou_from_counts as all_iou_from_counts
from raters.metrics.overlap import balanced_accuracy as balanced_accuracy
from raters.metrics.overlap import balanced_accuracy_from_counts as balanced_accuracy_from_counts
from raters.metrics.overlap import dice as dice
from raters.metrics.overlap import dice_from_counts as dice_from_counts
from raters.metrics.overlap import iou as iou
from raters.metrics.overlap import iou_from_counts as iou_from_counts
from raters.metrics.overlap import mean_dice as mean_dice
from raters.metrics.overlap import mean_iou as mean_iou
from raters.metrics.overlap import merged_counts as merged_counts
from raters.metrics.overlap import pair_counts as pair_counts
from raters.metrics.overlap import soft_counts as soft_counts
from raters.metrics.overlap import soft_dice as soft_dice
from raters.metrics.overlap import soft_dice_by_class as soft_dice_by_class
from raters.metrics.overlap import soft_dice_from_counts as soft_dice_from_counts
from raters.metrics.overlap import volume_difference as volume_difference
from raters.metrics.overlap import volume_from_counts as volume_from_counts
from raters.metrics.samples import best_dice as best_dice
from raters.metrics.samples import best_mean as best_mean
from raters.metrics.samples import energy_distance as energy_distance
from raters.metrics.samples import energy_from_distances as energy_from_distances
from raters.metrics.samples import matched_dice as matched_dice
from raters.metrics.samples import matched_mean as matched_mean
from raters.metrics.samples import overlap_from_sizes as overlap_from_sizes
from raters.metrics.samples import overlap_matrix as overlap_matrix
from raters.metrics.samples import overlap_sizes as overlap_sizes
from raters.metrics.surface import SurfaceDistances as SurfaceDistances
from raters.metrics.surface import average_surface_distance as average_surface_distance
from raters.metrics.surface import hausdorff as hausdorff
from raters.metrics.surface import hd95 as hd95
from raters.metrics.surface import surface_distances as surface_distances
from raters.metrics.surface import surface_distances_by_class as surface_distances_by_class

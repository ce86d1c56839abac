"""What a trained model says of images: windows, files of predictions, scores of runs."""

from raters.prediction.compare_runs import Comparison, compare_runs
from raters.prediction.evaluate_result import RunScores
from raters.prediction.evaluate_run import evaluate_run

__all__ = ["Comparison", "RunScores", "compare_runs", "evaluate_run"]

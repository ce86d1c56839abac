"""Runs, models, folders of predictions and arrays against references and raters."""

from raters.evaluation.evaluate import evaluate
from raters.evaluation.result import Comparison, Evaluation
from raters.learning.evaluation.runs import compare_runs

__all__ = ["Comparison", "Evaluation", "compare_runs", "evaluate"]

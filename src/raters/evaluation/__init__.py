"""Models, folders of predictions and arrays against references and raters."""

from raters.evaluation.evaluate import evaluate
from raters.evaluation.result import Comparison, Evaluation

__all__ = ["Comparison", "Evaluation", "evaluate"]

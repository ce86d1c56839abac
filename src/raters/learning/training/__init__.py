"""Wiring to Lightning: data, normalisation, the loop, runs and models as folders."""

from raters.learning.training.options import TrainingOptions

__all__ = ["TrainingOptions"]

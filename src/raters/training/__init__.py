"""Wiring to Lightning: data, normalisation, the loop, runs and models as folders."""

from raters.training.options import TrainingOptions

__all__ = ["TrainingOptions"]

"""Learning methods: how a truth network learns from raters who disagree."""

from raters.methods.registry import METHODS, MethodEntry, learning_method

__all__ = ["METHODS", "MethodEntry", "learning_method"]

"""Predictions and consensus masks against raters and references."""

"""Trained runs against references and raters."""

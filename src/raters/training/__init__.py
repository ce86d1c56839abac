"""Wiring to Lightning: data, normalisation, checkpoints."""

"""Raters who leave out whole objects, or everything."""

from __future__ import annotations

import numpy as np

from raters.simulate.shape import Mask, Shape


def blank(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Hand in nothing with probability `severity`; from 1 on always (pixel-cm's fifth rater)."""
    return np.zeros_like(shape.mask) if rng.random() < severity else shape.mask.copy()


def miss_small(shape: Shape, severity: float, rng: np.random.Generator) -> Mask:
    """Miss small objects: one of radius `r` with probability `1 / (1 + (r / severity)^4)`.

    The radius is that of the disc (ball) of the same size: at `r = severity` half are missed,
    at twice that one in 17.
    """
    numbers, sizes = shape.objects
    radius = np.sqrt(sizes / np.pi) if shape.mask.ndim == 2 else np.cbrt(0.75 * sizes / np.pi)
    seen = rng.random(len(sizes)) >= 1 / (1 + (radius / severity) ** 4)
    return np.asarray(np.concatenate([[False], seen])[numbers])

"""What the marks of an annotation say of each pixel, as class numbers with MISSING."""

from __future__ import annotations

from typing import Literal

import numpy as np

from raters.arrays import Labels
from raters.simulate.specs import Annotation
from raters.study.classes import MISSING

Unmarked = Literal["rest", "unknown"]


def explicit(
    labels: Labels, annotation: Annotation, unmarked: Unmarked, num_classes: int
) -> Labels:
    """Return the same drawing, with MISSING wherever it says nothing."""
    if annotation == "box":
        return np.where(labels > 0, MISSING, labels)
    denies = annotation == "negative" and num_classes > 2
    silent = unmarked == "unknown" and annotation in ("positive", "negative")
    if not (denies or silent) or (labels == MISSING).any():
        return labels
    return np.where(labels == 0, MISSING, labels)


def reading(labels: Labels, annotation: Annotation, unmarked: Unmarked, num_classes: int) -> Labels:
    """Return the labels that marks stand for.

    Example:
        >>> marks = np.array([0, 1, 1])
        >>> [reading(marks, "positive", how, 2).tolist() for how in ("rest", "unknown")]
        [[0, 1, 1], [-1, 1, 1]]
        >>> [reading(marks, "negative", "rest", number).tolist() for number in (2, 3)]
        [[1, 0, 0], [-1, 1, 1]]
        >>> reading(marks, "box", "rest", 2).tolist()
        [0, -1, -1]
    """
    told = explicit(labels, annotation, unmarked, num_classes)
    if annotation != "negative" or num_classes != 2:
        return told
    return np.where(told == MISSING, told, 1 - told)

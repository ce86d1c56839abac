"""What the marks of an annotation say of each pixel, as class numbers with MISSING."""

from __future__ import annotations

from typing import Literal

import numpy as np

from raters.arrays import Labels
from raters.simulate.specs import Annotation
from raters.study.classes import MISSING

Unmarked = Literal["rest", "unknown"]


def read_marks(
    marks: Labels, annotation: Annotation, num_classes: int, unmarked: Unmarked = "rest"
) -> Labels:
    """Return the labels that marks stand for.

    Example:
        >>> marks = np.array([0, 1, 1])
        >>> read_marks(marks, "positive", 2), read_marks(marks, "positive", 2, "unknown")
        (array([0, 1, 1]), array([-1,  1,  1]))
        >>> read_marks(marks, "negative", 2), read_marks(marks, "negative", 3)
        (array([1, 0, 0]), array([-1,  1,  1]))
        >>> read_marks(marks, "box", 2)
        array([ 0, -1, -1])
    """
    drawn, unknown = marks > 0, unmarked == "unknown"
    if annotation == "positive" and unknown:
        return np.where(drawn, marks, MISSING)
    if annotation == "negative" and num_classes > 2:
        return np.where(drawn, marks, MISSING)
    if annotation == "negative":
        flipped = np.where(drawn, 0, MISSING if unknown else 1)
        return np.where(marks == MISSING, MISSING, flipped)
    if annotation == "box":
        return np.where(drawn, MISSING, marks)
    return marks

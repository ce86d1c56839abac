"""How many raters labelled the same pixels: it says whether there is a vote to begin with."""

from __future__ import annotations

import numpy as np

from raters.study.classes import MISSING
from raters.study.study import Study

_CASES = 50  # that are looked at
SEVERAL = 1.5
"""Labels per pixel, on average, above which most pixels have several."""
VOTES = 2.5
"""The same, from which on most pixels have a majority: two raters cannot outvote each other."""


def labels_a_pixel(study: Study) -> float:
    """Return the mean number of labels of a pixel that anybody labelled.

    Example:
        >>> labels = np.array([[[[0, 1]], [[1, 1]]], [[[0, 0]], [[-1, 0]]]])
        >>> labels_a_pixel(Study.from_arrays(labels=labels))
        1.75
    """
    labels, pixels = 0, 0
    for k in np.linspace(0, len(study) - 1, min(len(study), _CASES)).astype(int):
        case = study[int(k)]
        if case.kind == "classification":
            labels, pixels = labels + len(case.answers), pixels + (len(case.answers) > 0)
            continue
        there = case.labels != MISSING
        labels += int(there.sum())
        pixels += int(there.any(axis=0).sum())
    return labels / max(pixels, 1)

"""Whether raters labelled the same pixels: only then is there a vote to begin with."""

from __future__ import annotations

import numpy as np

from raters.study.classes import MISSING
from raters.study.study import Study

_CASES = 50  # that are looked at
_SEVERAL = 1.5  # labels a pixel, on average


def labels_overlap(study: Study) -> bool:
    """Say whether most labelled pixels have the labels of several raters.

    Example:
        >>> labels = np.array([[[[0, 1]], [[1, 1]]], [[[0, 0]], [[-1, 0]]]])
        >>> labels_overlap(Study.from_arrays(labels=labels))
        True
        >>> labels_overlap(Study.from_arrays(labels=labels[:, :1]))
        False
    """
    labels, pixels = 0, 0
    for k in np.linspace(0, len(study) - 1, min(len(study), _CASES)).astype(int):
        there = study[int(k)].labels != MISSING
        labels += int(there.sum())
        pixels += int(there.any(axis=0).sum())
    return labels >= _SEVERAL * max(pixels, 1)

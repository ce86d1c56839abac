"""Small tables of answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from raters.study.triplets import Triplets


def make_triplets(
    task: Any, rater: Any, label: Any, sizes: tuple[int, int, int] | None = None
) -> Triplets:
    """Make triplets; sizes are the numbers of tasks, raters and classes."""
    task = np.asarray(task, int)
    rater = np.asarray(rater, int)
    label = np.asarray(label, int)
    if sizes is None:
        sizes = (task.max() + 1, rater.max() + 1, label.max() + 1)
    tasks, raters, classes = sizes
    names = np.array([str(k) for k in range(tasks)], object)
    workers = tuple(str(k) for k in range(raters))
    return Triplets(task, rater, label, names, workers, tuple(range(classes)))

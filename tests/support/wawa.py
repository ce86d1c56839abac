"""A fusion method from outside the package: Worker Agreement With Aggregate, masks and tables.

A rater's skill is the share of labels that agree with the majority vote; then votes count as much
as the skill of who gives them, to a power.
"""

from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from raters.fusion import METHODS, Fusion, Method
from raters.study.triplets import Triplets

METHODS["wawa"] = Method(
    "votes weighed by agreement",
    masks="tests.support.wawa:wawa",
    table="tests.support.wawa:wawa_table",
)


def wawa(labels: NDArray[Any], num_classes: int, *, power: Annotated[float, Ge(0)] = 1.0) -> Fusion:
    """Fuse masks.

    Args:
        labels: Class numbers with MISSING, `(raters, *space)`.
        num_classes: The number of classes.
        power: How much skill counts.
    """
    rater, task = np.nonzero(labels.reshape(len(labels), -1) >= 0)
    flat = labels.reshape(len(labels), -1)
    found = _fused(task, rater, flat[rater, task], flat.shape[1], len(flat), num_classes, power)
    truth = found.truth.T.reshape(num_classes, *labels.shape[1:])
    return Fusion(truth, found.labels.reshape(labels.shape[1:]), skills=found.skills)


def wawa_table(
    triplets: Triplets, num_classes: int, *, power: Annotated[float, Ge(0)] = 1.0
) -> Fusion:
    """Fuse a table.

    Args:
        triplets: The answers.
        num_classes: The number of classes.
        power: How much skill counts.
    """
    sizes = len(triplets.tasks), len(triplets.raters), num_classes
    return _fused(triplets.task, triplets.rater, triplets.label, *sizes, power)


def _fused(task: Any, rater: Any, label: Any, *sizes: Any) -> Fusion:
    tasks, raters, num_classes, power = sizes
    votes = np.zeros((tasks, num_classes))
    np.add.at(votes, (task, label), 1)
    agrees = votes.argmax(axis=1)[task] == label
    given = np.bincount(rater, minlength=raters)
    skills = np.bincount(rater, agrees, raters) / np.maximum(given, 1)
    weighed = np.zeros((tasks, num_classes))
    np.add.at(weighed, (task, label), skills[rater] ** power)
    total = weighed.sum(axis=1, keepdims=True)
    truth = np.where(total > 0, weighed / np.where(total > 0, total, 1), 1 / num_classes)
    hard = np.where(total[:, 0] > 0, truth.argmax(axis=1), -1)
    return Fusion(truth, hard.astype(np.int16), skills=skills)

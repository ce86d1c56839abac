"""Drawn images with marks and boxes instead of masks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from raters.study.study import Study

Array = NDArray[Any]


def marked_case(seed: int, size: int = 48, noise: float = 0.0) -> tuple[Array, Array, Array]:
    """Draw a bright ellipse, a stroke in it and two beside it.

    Returns:
        The image `(1, size, size)`, the marks `(1, size, size)` and the true mask.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    y, x = rng.uniform(0.35, 0.65, 2) * size
    high, wide = rng.uniform(0.14, 0.3, 2) * size
    truth = ((rows - y) / high) ** 2 + ((columns - x) / wide) ** 2 < 1
    image = truth + rng.normal(0, 1, truth.shape) * noise
    marks = np.full(truth.shape, -1)
    marks[int(y), int(x - wide / 3) : int(x + wide / 3) + 1] = 1
    marks[1, size // 4 : 3 * size // 4] = 0
    marks[size // 4 : 3 * size // 4, 1] = 0
    return image[np.newaxis], marks[np.newaxis], truth


def weak_study(
    cases: int = 24,
    noise: float = 0.3,
    size: int = 48,
    what: Literal["marks", "boxes", "box masks"] = "marks",
    start: int = 0,
) -> Study:
    """Make a study with marks, boxes (background outside, nothing inside), or filled boxes."""
    drawn = [marked_case(start + seed, size, noise) for seed in range(cases)]
    images, marks = (np.stack([case[k] for case in drawn]) for k in (0, 1))
    truths = np.stack([case[2] for case in drawn])
    if what != "marks":
        marks = np.zeros_like(marks)
        for mask, truth in zip(marks, truths, strict=True):
            top, left, low, right = box_of(truth)
            mask[0, top:low, left:right] = -1 if what == "boxes" else 1
    return Study.from_arrays(images, marks, reference=truths.astype(int))


def box_of(truth: Array) -> tuple[int, int, int, int]:
    """Return the first row and column, and those after the last."""
    places = np.argwhere(truth)
    top, left = places.min(0)
    low, right = places.max(0) + 1
    return int(top), int(left), int(low), int(right)


def iou(one: Array, other: Array) -> float:
    """Return the intersection over union of two masks."""
    return float((one & other).sum() / max((one | other).sum(), 1))

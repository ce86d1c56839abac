"""Studies of benchmarks as arrays in memory, and the split of each of their cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raters.study.case import Case
from raters.study.study import Study


def in_memory(study: Study, cases: Sequence[Case] | None = None, **changes: Any) -> Study:  # noqa: ANN401
    """Hold a study of masks in memory: simulated masks are drawn again whenever a case is read.

    Args:
        study: The study.
        cases: Its cases, where they have been read already.
        **changes: Arguments of `Study.from_arrays` in place of what the study holds.

    Example:
        >>> study = Study.from_arrays(labels=np.ones((2, 3, 4, 4), int), cases=["a", "b"])
        >>> changed = in_memory(study, labels=np.zeros((2, 3, 2, 2), int))
        >>> changed, changed["b"].labels.shape
        (Study(segmentation, 2 cases, 3 raters, 2 classes), (3, 2, 2))
    """
    held = list(study.iter_cases()) if cases is None else cases
    parts: dict[str, Any] = {
        "images": [case.image for case in held],
        "labels": [case.drawings.astype(np.int8) for case in held] if study.raters else None,
        "reference": [case.reference for case in held],
        "raters": study.raters,
        "classes": study.classes,
        "cases": study.index.ids,
        "groups": study.index.groups,
        "splits": study.index.splits,
        "annotations": study.annotations,
        "unmarked": study.unmarked,
        **changes,
    }
    if any(mask is None for mask in parts["reference"]):
        parts["reference"] = None
    return Study.from_arrays(**parts)


def dealt(seed: int, images: int, val: int, test: int) -> list[str]:
    """Return the split of each case at random, so many of 'train', 'val' and 'test'.

    Example:
        >>> sorted(dealt(0, images=2, val=1, test=1))
        ['test', 'train', 'train', 'val']
    """
    splits = ["train"] * images + ["val"] * val + ["test"] * test
    return [str(name) for name in np.random.default_rng(seed + 1000).permutation(splits)]

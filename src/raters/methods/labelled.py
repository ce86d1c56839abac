"""Who labelled anything: nothing can be learnt of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from raters.study.study import Study


def who_labelled(study: Study) -> NDArray[np.bool_]:
    """Return which raters labelled anything in any case, `(raters,)`; it stops when all have.

    Example:
        >>> from raters.study.study import Study
        >>> masks = np.stack([np.zeros((2, 2)), np.full((2, 2), -1)]).astype(int)
        >>> who_labelled(Study.from_arrays(labels=masks[np.newaxis]))
        array([ True, False])
    """
    labelled = np.zeros(len(study.raters), bool)
    for case in study.iter_cases():
        if case.kind == "classification":
            labelled[case.answers.rater] = True
        elif study.rules.absent == "empty":
            labelled[:] = True
        else:
            masks = [case.mask_facts(name) for name in study.raters]
            labelled |= np.array([mask is not None and mask.labels > 0 for mask in masks])
        if labelled.all():
            break
    return labelled

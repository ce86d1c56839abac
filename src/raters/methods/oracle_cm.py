"""`oracle-cm`: the raters' matrices are known, only the truth network learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters import confusion as matrices
from raters.errors import RatersError
from raters.methods.confusion_method import ConfusionMethod
from raters.methods.options import OracleOptions
from raters.methods.tally import count_case
from raters.rater_models import FixedRaters, RaterModel

if TYPE_CHECKING:
    from raters.study.study import Study


class OracleCM(ConfusionMethod):
    """Known matrices: counted from the raters' labels against the reference.

    One matrix an image and rater (or a rater), not the answer at each pixel: that would leak the
    reference.
    """

    mean_matrices: Tensor

    def rater_model(self) -> RaterModel:
        """Make a place for the matrices; `prepare` fills it."""
        classes = self.task.classes
        even = torch.full((len(self.task.raters), classes, classes), 1 / classes)
        self.register_buffer("mean_matrices", even)
        return FixedRaters(even)

    def prepare(self, study: Study) -> None:
        """Count the matrices of all cases."""
        counts = []
        for case in study.iter_cases():
            if case.reference is None:
                raise RatersError(
                    f"found no reference of case {case.id!r}, "
                    "expected one: oracle-cm counts the raters' matrices against it",
                    case=case.id,
                )
            counts.append(count_case(case, case.reference, self.task))
        if cast(OracleOptions, self.options).by == "rater":
            known = _normalised(np.sum(counts, axis=0))
        else:
            known = np.stack([_normalised(count) for count in counts])
        self.raters = FixedRaters(torch.from_numpy(known))
        # At prediction time a new image has no known matrix: the raters' mean ones are kept.
        self.mean_matrices.copy_(torch.from_numpy(_normalised(np.sum(counts, axis=0))))

    def _matrices(self, features: Tensor) -> Tensor:
        space = (1,) * (features.ndim - 2)
        mean = self.mean_matrices
        return mean.view(1, *mean.shape, *space)


def _normalised(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Give matrices with rows that sum to one; a row that was never seen is even."""
    rows = matrices.normalise(counts)
    return np.where(np.isnan(rows), 1 / rows.shape[-1], rows)

"""`oracle-cm`: the raters' matrices are known, only the truth network learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.confusion import count_case
from raters.errors import RatersError
from raters.methods.base import rows_of
from raters.methods.confusion_method import ConfusionMethod
from raters.methods.options import OracleOptions
from raters.rater_models import FixedRaters, RaterModel
from raters.rater_models.confusion import Confusion, SharedConfusion

if TYPE_CHECKING:
    from raters.study.study import Study


class OracleCM(ConfusionMethod):
    """Known matrices: counted from the raters' labels against the reference.

    One matrix per image and rater (or per rater), not the answer at each pixel: that would leak the
    reference.
    """

    options: OracleOptions
    mean_matrices: Tensor

    def rater_model(self) -> RaterModel:
        """Make a place for the matrices; `prepare` fills it."""
        classes = self.task.num_classes
        even = torch.full((len(self.task.raters), classes, classes), 1 / classes)
        self.register_buffer("mean_matrices", even)
        return FixedRaters(even)

    @property
    def not_extended(self) -> str:
        """References of new raters' cases would be needed."""
        return "matrices are counted against references, not learnt: train again"

    def prepare(self, study: Study) -> None:
        """Count the matrices of all cases."""
        # A case of a table has few answers: its own matrix would tell the reference.
        by_case = self.options.by == "case" and self.task.spatial_dims > 0
        total, known = np.zeros(self.mean_matrices.shape), list[NDArray[np.float64]]()
        for case in study.iter_cases():
            if case.reference is None:
                raise RatersError(
                    f"found no reference of case {case.id!r}, "
                    "expected one: oracle-cm counts the raters' matrices against it",
                    case=case.id,
                )
            counts = count_case(case, case.reference, self.task.num_classes)
            total += counts
            if by_case:
                known.append(counts)
        mean = rows_of(total, 1 / self.task.num_classes)
        each = np.stack([rows_of(counts, mean) for counts in known]) if by_case else mean
        self.raters = FixedRaters(torch.from_numpy(each))
        # At prediction time a new image has no known matrix: the raters' mean ones are kept.
        self.mean_matrices.copy_(torch.from_numpy(mean))

    def _confusion(self, image: Tensor, features: Tensor) -> Confusion:  # noqa: ARG002
        mean = self.mean_matrices.to(features)
        return SharedConfusion(mean.clamp(min=torch.finfo(mean.dtype).tiny).log()[None])

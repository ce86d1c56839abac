"""`global-cm` and `single-cm`: one learnt matrix per rater, or one for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raters.core.errors import RatersError
from raters.learning.methods.base import Batch, HeldOut, Step
from raters.learning.methods.confusion_method import ConfusionMethod
from raters.learning.methods.options import GlobalOptions, OracleOptions, SingleOptions
from raters.learning.methods.targets import majority
from raters.learning.rater_models import FixedRaters, GlobalRaters, RaterModel, listing_trace
from raters.learning.rater_models.confusion import Confusion, Seen, SharedConfusion
from raters.metrics.confusion import count_case, normalise

if TYPE_CHECKING:
    from raters.study.study import Study


class GlobalCM(ConfusionMethod):
    """One learnt matrix per rater.

    Tanno et al., Learning from noisy labels by regularized estimation of annotator confusion,
    CVPR 2019. Their form is `form='paper'`, see `GLOBAL_PAPER`.
    """

    options: GlobalOptions

    def rater_model(self) -> RaterModel:
        """Make one matrix per rater, or one for all."""
        options = self.options
        raters = 1 if self.shares_matrix else len(self.task.raters)
        return GlobalRaters(
            raters, self.task.num_classes, options.init_accuracy, options.positivity, options.start
        )

    def _trace(self, confusion: Confusion, seen: Seen, labels: Tensor, truth: Tensor) -> Tensor:
        """Return the trace term; that of the paper's listing knows nothing of who labelled."""
        if self.options.trace_over != "listing":
            return super()._trace(confusion, seen, labels, truth)
        assert isinstance(confusion, SharedConfusion)
        return listing_trace(torch.diagonal(confusion.log_matrix[0], dim1=1, dim2=2), labels)


class SingleCM(GlobalCM):
    """One learnt matrix that all raters share: for anonymous raters.

    Sukhbaatar et al., Training convolutional networks with noisy labels, 2014. As a baseline of
    Tanno et al. (2019, section 3.3) it explains the vote (`on='vote'`) with a trace term.
    """

    options: SingleOptions
    shares_matrix = True

    def step(self, batch: Batch) -> Step:
        """Return the loss of every label, or of the vote."""
        return super().step(self._explained(batch))

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of every label, or of the vote."""
        return super().held_out(self._explained(batch))

    def fused(self, batch: Batch) -> Tensor:
        """Return the posterior of image and labels, or of image and vote."""
        return super().fused(self._explained(batch))

    def _explained(self, batch: Batch) -> Batch:
        if self.options.on == "labels":
            return batch
        vote = majority(batch["labels"], self.task.num_classes).unsqueeze(1)
        return {**{k: v for k, v in batch.items() if k != "raters"}, "labels": vote}


class OracleCM(ConfusionMethod):
    """Known matrices: counted from the raters' labels against the reference.

    One matrix per image and rater (or per rater), not the answer at each pixel: that would leak the
    reference.
    """

    options: OracleOptions
    # References of new raters' cases would be needed.
    not_extended = "matrices are counted against references, not learnt: train again"
    mean_matrices: Tensor

    def rater_model(self) -> RaterModel:
        """Make a place for the matrices; `prepare` fills it."""
        classes = self.task.num_classes
        even = torch.full((len(self.task.raters), classes, classes), 1 / classes)
        self.register_buffer("mean_matrices", even)
        return FixedRaters(even)

    def prepare(self, study: Study) -> None:
        """Count the matrices of all cases."""
        # A case of a table has few answers: its own matrix would tell the reference.
        by_case = self.options.by == "case" and self.task.spatial_dims > 0
        total = np.zeros(self.mean_matrices.shape)
        known = list[NDArray[np.float64]]()
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
        mean = normalise(total, "uniform")
        rows = np.stack([normalise(counts) for counts in known]) if by_case else mean
        each = np.where(np.isnan(rows), mean, rows)
        self.raters = FixedRaters(torch.from_numpy(each))
        # At prediction time a new image has no known matrix: the raters' mean ones are kept.
        self.mean_matrices.copy_(torch.from_numpy(mean))

    def _confusion(self, image: Tensor, features: Tensor) -> Confusion:  # noqa: ARG002
        mean = self.mean_matrices.to(features)
        return SharedConfusion(mean.clamp(min=torch.finfo(mean.dtype).tiny).log()[None])

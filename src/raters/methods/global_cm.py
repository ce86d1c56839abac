"""`global-cm` and `single-cm`: one learnt matrix per rater, or one for all."""

from __future__ import annotations

import torch
from torch import Tensor

from raters.methods.base import Batch, HeldOut, Step, majority
from raters.methods.confusion_method import ConfusionMethod
from raters.methods.options import GlobalOptions, SingleOptions
from raters.rater_models import GlobalRaters, RaterModel, listing_trace
from raters.rater_models.confusion import Confusion, Seen, SharedConfusion


class GlobalCM(ConfusionMethod):
    """One learnt matrix per rater.

    Tanno et al., Learning from noisy labels by regularized estimation of annotator confusion,
    CVPR 2019. Their form is `form='paper'`, see `GLOBAL_PAPER`.
    """

    options: GlobalOptions

    def rater_model(self) -> RaterModel:
        """Make one matrix per rater."""
        return self._matrices_of(len(self.task.raters))

    def _matrices_of(self, raters: int) -> RaterModel:
        options = self.options
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

    def rater_model(self) -> RaterModel:
        """Make one matrix for all."""
        return self._matrices_of(1)

    @property
    def shares_matrix(self) -> bool:
        """All raters share the matrix."""
        return True

    def step(self, batch: Batch) -> Step:
        """Return the loss of every label, or of the vote."""
        return super().step(self._explained(batch))

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the likelihood of every label, or of the vote."""
        return super().held_out(self._explained(batch))

    def _explained(self, batch: Batch) -> Batch:
        if self.options.on == "labels":
            return batch
        vote = majority(batch["labels"], self.task.num_classes).unsqueeze(1)
        return {**{k: v for k, v in batch.items() if k != "raters"}, "labels": vote}

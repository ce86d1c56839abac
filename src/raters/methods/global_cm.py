"""`global-cm` and `single-cm`: one learnt matrix a rater, or one for all."""

from __future__ import annotations

from raters.methods.confusion_method import ConfusionMethod
from raters.rater_models import GlobalRaters, RaterModel


class GlobalCM(ConfusionMethod):
    """One learnt matrix a rater.

    Tanno et al., Learning from noisy labels by regularized estimation of annotator confusion,
    CVPR 2019.
    """

    def rater_model(self) -> RaterModel:
        """Make one matrix a rater."""
        return GlobalRaters(len(self.task.raters), self.task.classes, self.choice.right)


class SingleCM(ConfusionMethod):
    """One learnt matrix that all raters share: for anonymous raters.

    Sukhbaatar et al., Training convolutional networks with noisy labels, 2014.
    """

    def rater_model(self) -> RaterModel:
        """Make one matrix for all."""
        return GlobalRaters(1, self.task.classes, self.choice.right)

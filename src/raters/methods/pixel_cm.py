"""`pixel-cm` and `low-rank-cm`: matrices that vary over images and pixels."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from raters.methods.confusion_method import ConfusionMethod
from raters.methods.options import LowRankOptions, PixelOptions
from raters.rater_models import LowRankRaters, PixelConfusion, PixelRaters, RaterModel, divergence
from raters.rater_models.confusion import Confusion


class PixelCM(ConfusionMethod):
    """Matrices at each pixel of each image, from a head on the truth network's features.

    Zhang et al., Disentangling human error from the ground truth in segmentation of medical
    images, NeurIPS 2020. Their exact form: `likelihood='marginal', trace=0.01,
    trace_over='all', prior=0`.
    """

    @property
    def varies(self) -> bool:
        """The matrices vary over images and pixels."""
        return True

    def rater_model(self) -> RaterModel:
        """Make a head on the network's features."""
        options = cast(PixelOptions, self.options)
        return PixelRaters(
            1 if options.shared else len(self.task.raters),
            self.task.classes,
            self.network.backbone.features,
            self.task.dims,
            options.right,
        )

    def extra_terms(
        self, confusion: Confusion, labels: Tensor, truth: Tensor, terms: dict[str, Tensor]
    ) -> Tensor:
        """Draw the matrices of pixels to the rater's own."""
        weight = cast(PixelOptions, self.options).prior
        common = self.raters.common()
        if not weight or not isinstance(confusion, PixelConfusion) or common is None:
            return super().extra_terms(confusion, labels, truth, terms)
        terms["prior"] = divergence(confusion.logits, common, labels, truth)
        return weight * terms["prior"]


class LowRankCM(ConfusionMethod):
    """Matrices `(1 - a_t) I + a_t U V` at each pixel: for many classes.

    After Zhang et al. (2020), appendix A.4, in a form whose rows are not all equal at rank 1.
    """

    @property
    def varies(self) -> bool:
        """The matrices vary over images and pixels."""
        return True

    def rater_model(self) -> RaterModel:
        """Make a head that gives the factors."""
        options = cast(LowRankOptions, self.options)
        return LowRankRaters(
            1 if options.shared else len(self.task.raters),
            self.task.classes,
            self.network.backbone.features,
            self.task.dims,
            options.rank,
            options.right,
        )

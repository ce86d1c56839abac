"""`pixel-cm` and `low-rank-cm`: matrices that vary over images and pixels."""

from __future__ import annotations

from typing import cast

from raters.methods.confusion_method import ConfusionMethod
from raters.methods.options import LowRankOptions, PixelOptions
from raters.rater_models import LowRankRaters, PixelRaters, RaterModel
from raters.rater_models.models import Compares


class PixelCM(ConfusionMethod):
    """Matrices at each pixel of each image, from a head on the truth network's features.

    Zhang et al., Disentangling human error from the ground truth in segmentation of medical
    images, NeurIPS 2020. Their form: `likelihood='marginal', trace=0.01, trace_over='all',
    prior=0, warm_up=2, warm_up_on='labels'`.

    By default the network first learns from the vote, and then one truth explains all raters
    (joint) with matrices that are drawn to each rater's own mean matrix (`OwnMatrices`): where
    raters share their mistakes, free matrices would make the mistake the truth, and matrices
    drawn to the identity (`prior_to='identity'`) leave a useless rater with a vote.
    """

    @property
    def varies(self) -> bool:
        """The matrices vary over images and pixels."""
        return True

    @property
    def prior(self) -> float:
        """The weight of the pull to each rater's own matrix, or to the identity."""
        return cast(PixelOptions, self.options).prior

    def rater_model(self) -> RaterModel:
        """Make a head on the network's features."""
        options = cast(PixelOptions, self.options)
        compares: Compares = "own" if options.prior_to == "own" else "start"
        return PixelRaters(
            1 if options.shared else len(self.task.raters),
            self.task.classes,
            self.network.backbone.features,
            self.task.dims,
            options.right,
            compares=compares if options.prior > 0 else None,
        )


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

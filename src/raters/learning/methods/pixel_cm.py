"""`pixel-cm` and `low-rank-cm`: matrices that vary over images and pixels."""

from __future__ import annotations

from typing import Any

from torch import nn

from raters.core.errors import RatersError
from raters.learning.methods.confusion_method import ConfusionMethod
from raters.learning.methods.options import HeadOptions, LowRankOptions, PixelOptions
from raters.learning.rater_models import LowRankRaters, PixelRaters, ProductRaters, RaterModel


class HeadMethod(ConfusionMethod):
    """Matrices that vary over images and pixels."""

    options: HeadOptions
    varies = True

    @property
    def shares_matrix(self) -> bool:
        """Whether all raters share one head."""
        return bool(getattr(self.options, "shared", False))

    @property
    def not_extended(self) -> str:
        """A head of each rater can be added to."""
        if self.options.annotator == "cnn":
            return "one network gives the matrices of all raters (annotator='cnn'): train again"
        if self.shares_matrix:
            return "all raters share one head (shared=True), so there is nothing to add"
        return ""

    def annotator_network(self) -> nn.Module | None:
        """Make a network of its own for the matrices, built like the truth network, if wanted."""
        if self.options.annotator == "head":
            return None
        network = self.task.network()
        network.head = nn.Identity()  # its features are wanted, not classes
        return network


class PixelCM(HeadMethod):
    """Matrices at each pixel of each image, from a head on the truth network's features.

    Zhang et al., Disentangling human error from the ground truth in segmentation of medical
    images, NeurIPS 2020. Their form is `form='paper'`, see `PIXEL_PAPER`.

    By default the network first learns from the vote, and then one truth explains all raters
    (joint) with matrices that are drawn to each rater's own mean matrix (`OwnMatrices`): where
    raters share their mistakes, free matrices would make the mistake the truth, and matrices
    drawn to the identity (`prior_to='identity'`) leave a useless rater with a vote.
    """

    options: PixelOptions

    @property
    def prior(self) -> float:
        """The weight of the pull to each rater's own matrix, or to the identity."""
        return self.options.prior

    def rater_model(self) -> RaterModel:
        """Make a head on the network's features."""
        return PixelRaters(1 if self.options.shared else len(self.task.raters), **self.of_head())

    def of_head(self) -> dict[str, Any]:
        """Return what the head is made with, whatever the raters."""
        options = self.options
        compares = "own" if options.prior_to == "own" else "start"
        return {
            "num_classes": self.task.num_classes,
            "features": self.network.backbone.features,
            "spatial_dims": self.task.spatial_dims,
            "init_accuracy": options.init_accuracy,
            "compares": compares if options.prior > 0 else None,
            "positivity": options.positivity,
            "network": self.annotator_network(),
        }


class LowRankCM(HeadMethod):
    """Matrices `(1 - a_t) I + a_t U V` at each pixel: for many classes.

    After Zhang et al. (2020), appendix A.4, in a form whose rows are not all equal at rank 1.
    Their own form is `form='paper'`, see `LOW_RANK_PAPER`.
    """

    options: LowRankOptions

    def rater_model(self) -> RaterModel:
        """Make a head that gives the factors."""
        options = self.options
        sizes = (
            1 if options.shared else len(self.task.raters),
            self.task.num_classes,
            self.network.backbone.features,
            self.task.spatial_dims,
            options.rank,
        )
        network = self.annotator_network()
        if options.factors == "product":
            if options.rank == 1:
                raise RatersError(
                    "found rank=1 with factors='product', expected 2 or more: all rows of a matrix "
                    "would be equal, so that labels teach the truth network nothing"
                )
            return ProductRaters(*sizes, options.positivity, network)
        if options.positivity != "softmax":
            raise RatersError(
                f"found positivity={options.positivity!r} with factors='mixture', expected "
                "'softmax': rows of both factors are normalised by it"
            )
        return LowRankRaters(*sizes, options.init_accuracy, network)

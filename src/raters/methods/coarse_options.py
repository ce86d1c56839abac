"""The options of `coarse`; no torch is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from raters.methods.options import PIXEL_PAPER, PixelOptions
from raters.study.annotations import Annotation


class CoarseOptions(PixelOptions):
    """Options of `coarse`."""

    warm_up: float | None = Field(
        default=0.4,
        ge=0,
        description="epochs (below 1: share of them) of the warm-up, in which matrices are held; M "
        "is not",
    )
    warm_up_on: Literal["vote", "labels", "consensus", "trace"] | None = Field(
        default="labels",
        description="what the network learns from meanwhile: every label through the matrices at "
        "their start, the vote, or a consensus (pooled Dawid-Skene); trace: the network waits, and "
        "the matrices learn to be the identity (paper). Complementary labels have neither a vote "
        "nor a consensus",
    )
    trust_masks: bool | None = Field(
        default=None,
        description="full masks are right: their matrix is the identity, and is not learnt; by "
        "default if any rater draws coarsely beside them",
    )
    transition: Literal["learnt", "uniform"] = Field(
        default="learnt",
        description="which class a negative drawing of more than two classes excludes, M: learnt "
        "for each rater, or any other class alike",
    )
    share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of all pixels that is any object, if it is known: the mean prediction "
        "is drawn to it. Positive drawings whose unmarked pixels are unknown need it",
    )


def trusts_masks(annotations: Iterable[Annotation]) -> bool:
    """Return whether masks are right, where nobody says: beside any other kind of drawing.

    Example:
        >>> trusts_masks(["mask", "positive"]), trusts_masks(["mask", "mask"])
        (True, False)
    """
    return any(kind != "mask" for kind in annotations)


COARSE_PAPER: Mapping[str, Any] = {
    **PIXEL_PAPER,  # equations 3 and 4 are those of Zhang et al. (2020), in words and notation
    "transition": "learnt",  # its Figure 2 shows estimated ones; how is not said
}
"""`coarse` as in the paper: equations 4 to 6, with what pixel-cm's paper says of the rest."""

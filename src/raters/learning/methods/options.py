"""The options of the learning methods: typed, with what each means; no torch is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from raters.study.annotations import Annotation


class MethodOptions(BaseModel):
    """Options that every method has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FusedOptions(MethodOptions):
    """Options of the methods that fuse the labels first."""

    fusion: str = Field(default="vote", description="fusion method, see `raters fuse`")
    soft: bool = Field(
        default=False, description="train on probabilities instead of the likeliest class"
    )
    pool: bool = Field(
        default=False, description="let all cases share the raters' matrices (staple)"
    )


class ConfusionOptions(MethodOptions):
    """Options of the methods that see labels through the raters' matrices."""

    likelihood: Literal["joint", "marginal"] = Field(
        default="joint",
        description="one truth explains all raters (joint), or each rater alone (marginal)",
    )
    trace: float = Field(
        default=0.0, ge=0, description="weight of the trace term (the papers' lambda)"
    )
    trace_over: Literal["truth", "all", "listing"] = Field(
        default="truth",
        description="rows weighted by the predicted truth, or all rows alike (papers); "
        "listing: also all raters alike, as in the code of global-cm's paper",
    )
    warm_up: float | None = Field(
        default=None,
        ge=0,
        description="epochs (below 1: share of them) of the warm-up, in which matrices are held; "
        "by default 0.4 of them for masks that raters share, else 2",
    )
    warm_up_on: Literal["vote", "labels", "consensus", "trace"] | None = Field(
        default=None,
        description="what the network learns from meanwhile: the vote, every label, or a consensus "
        "(pooled Dawid-Skene from several starts, whose matrices the learnt ones then start at); "
        "by default the vote, but for masks by two raters, who cannot outvote each other. "
        "trace: the network waits, and the matrices learn to be the identity (pixel-cm's paper)",
    )
    init_accuracy: float = Field(
        default=0.9, gt=0, lt=1, description="the diagonal of the matrices at the start"
    )


class LearntOptions(ConfusionOptions):
    """Options of the methods whose matrices are learnt."""

    form: Literal["own", "paper"] = Field(
        default="own",
        description="the defaults here, or all of them as in the method's paper; options that are "
        "given override both",
    )
    positivity: Literal["softmax", "softplus"] = Field(
        default="softmax", description="what makes entries positive before rows are normalised"
    )


class GlobalOptions(LearntOptions):
    """Options of `global-cm`."""

    start: Literal["accuracy", "listing"] = Field(
        default="accuracy",
        description="matrices start with `init_accuracy` on the diagonal, or at softplus(6 I - 5) "
        "as in the code of global-cm's paper",
    )


class SingleOptions(GlobalOptions):
    """Options of `single-cm`."""

    on: Literal["labels", "vote"] = Field(
        default="labels",
        description="what the matrix explains: every label, or the vote of each case (as in "
        "global-cm's paper); it is then the matrix of the vote, not of a rater",
    )


class HeadOptions(LearntOptions):
    """Options of the methods whose matrices vary over pixels."""

    trace_over: Literal["truth", "all"] = Field(
        default="truth",
        description="rows weighted by the predicted truth, or all rows alike (papers)",
    )
    annotator: Literal["head", "cnn"] = Field(
        default="head",
        description="what gives the matrices: a layer on the truth network's features, or a "
        "network of its own, built like the truth network (paper)",
    )


_SHARED = Field(default=False, description="one head for all raters: where they are anonymous")


class PixelOptions(HeadOptions):
    """Options of `pixel-cm`."""

    prior: float = Field(
        default=0.3,
        ge=0,
        description="weight of the pull (KL) of the matrices at pixels to a common one",
    )
    prior_to: Literal["own", "identity"] = Field(
        default="own",
        description="the common matrix: each rater's own mean, or one near the identity",
    )
    shared: bool = _SHARED


class LowRankOptions(HeadOptions):
    """Options of `low-rank-cm`."""

    rank: int = Field(
        default=1, ge=1, description="kinds of error; the number of classes gives any matrix"
    )
    factors: Literal["mixture", "product"] = Field(
        default="mixture",
        description="C is (1 - a) I + a U V, or B1 B2^T with normalised rows (paper): rows that "
        "are all equal at rank 1, and a start at random",
    )
    shared: bool = _SHARED


class OracleOptions(ConfusionOptions):
    """Options of `oracle-cm`."""

    by: Literal["case", "rater"] = Field(
        default="case",
        description="known matrices of each case and rater (masks), or of each rater",
    )
    warm_up: float = Field(default=0, ge=0, description="not used: the matrices are known")


# What a method is in its paper: `form='paper'`. What papers leave open is chosen here, and stated:
# it should not be taken for theirs.
GLOBAL_PAPER: Mapping[str, Any] = {
    "likelihood": "marginal",  # eq. 2 and 3
    "trace": 0.01,  # appendix A
    "trace_over": "listing",  # F.1
    "warm_up": 0,
    "positivity": "softplus",  # F.2
    "start": "listing",  # F.2: 6 I - 5
}
"""`global-cm` of Tanno et al. (2019): eq. 4 as their listings (appendix F) have it.

The matrices learn at the rate of the network (`confusion_lr_scale=1`)."""

SINGLE_PAPER: Mapping[str, Any] = {**GLOBAL_PAPER, "on": "vote"}
"""`single-cm` as the baseline of Tanno et al. (2019), section 3.3: on the vote, with the trace."""

_ZHANG: Mapping[str, Any] = {
    "likelihood": "marginal",  # eq. 1 to 3
    "trace": 0.01,  # ours: the paper sweeps 0 to 0.9 and names none
    "trace_over": "all",  # eq. 4
    "warm_up": 2,  # ours: the paper says 'sufficient iterations'
    # Section 3.4. Two epochs of a small study do not bring random matrices to the identity, which
    # is what it is for: here they also start near it (`init_accuracy`).
    "warm_up_on": "trace",
    "annotator": "cnn",  # section 3.2, appendix A.2
    "positivity": "softplus",  # ours: that of Tanno et al. (2019); the paper names none
}

PIXEL_PAPER: Mapping[str, Any] = {**_ZHANG, "prior": 0.0}
"""`pixel-cm` of Zhang et al. (2020)."""

LOW_RANK_PAPER: Mapping[str, Any] = {
    **_ZHANG,
    "factors": "product",  # appendix A.4
    "rank": 2,  # ours: theirs is 1, where rows are all equal and the truth network learns nothing
}
"""`low-rank-cm` of Zhang et al. (2020), appendix A.4."""


class CoarseOptions(PixelOptions):
    """Options of `coarse`."""

    warm_up: float | None = Field(
        default=None,
        ge=0,
        description="epochs (below 1: share of them) of the warm-up, in which matrices are held; M "
        "is not. By default 0.4 of them for masks that raters share, else 2",
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


class EMOptions(MethodOptions):
    """Options of `mbem`, and of both EM methods."""

    em_steps: int | None = Field(
        default=None,
        ge=1,
        description="rounds of EM (the papers' T), at most one for each epoch; by default 10 (gem) "
        "or 2 (mbem), or as many as `em_epochs` leaves room for",
    )
    em_epochs: int | None = Field(
        default=None,
        ge=1,
        description="epochs of a round (the papers' G, there in gradient steps), of which the last "
        "may have more; by default all epochs are shared out evenly",
    )


class GemOptions(EMOptions):
    """Options of `gem`."""

    order: Literal["network", "paper"] = Field(
        default="network",
        description="matrices are counted against what the network makes of images and labels "
        "once it has learnt from the mean label, or before, against the mean label itself "
        "(Algorithm 2 of global-cm's paper): with one label per image all stay the identity",
    )


class WdnOptions(MethodOptions):
    """Options of `wdn`."""

    weight_epochs: float = Field(
        default=0.25,
        gt=0,
        description="epochs (below 1: share of them) at the end in which the heads are frozen and "
        "the weights of the raters are learnt",
    )


class CrowdLayerOptions(MethodOptions):
    """Options of `crowd-layer`."""

    layer: Literal["MW", "VW", "VW+B"] = Field(
        default="MW",
        description="what a rater does to the classes: a matrix (MW), a weight of each class (VW), "
        "or a weight and a bias of each (VW+B)",
    )


class CountedOptions(ConfusionOptions):
    """Options of the methods that count the raters' matrices batch by batch."""

    warm_up_on: Literal["vote", "labels"] | None = Field(
        default=None,
        description="what the network learns from meanwhile: the vote, or every label; "
        "by default the vote, but for masks by two raters, who cannot outvote each other",
    )
    smoothing: float = Field(
        default=1.0,
        gt=0,
        description="labels that each row of a matrix has before any is counted, with "
        "`init_accuracy` of them right",
    )


class AggNetOptions(CountedOptions):
    """Options of `agg-net`."""


class MaxMigOptions(CountedOptions):
    """Options of `max-mig`."""


class BootstrapOptions(FusedOptions):
    """Options that both have."""

    on: Literal["labels", "vote"] = Field(
        default="vote",
        description="what the prediction is mixed with: the vote of each case (as in global-cm's "
        "paper), or every label",
    )


class SoftBootstrapOptions(BootstrapOptions):
    """Options of `soft-bootstrap`."""

    beta: float = Field(
        default=0.95, gt=0, le=1, description="weight of the label; the rest is the prediction's"
    )


class HardBootstrapOptions(BootstrapOptions):
    """Options of `hard-bootstrap`."""

    beta: float = Field(
        default=0.8, gt=0, le=1, description="weight of the label; the rest is the prediction's"
    )


class HypothesesOptions(MethodOptions):
    """Options of `multi-hypothesis`."""

    hypotheses: int = Field(default=4, ge=2, description="how many heads compete for each label")
    relaxation: float = Field(
        default=0.05,
        ge=0,
        lt=1,
        description="weight of the hypotheses that do not fit a label best, all together; "
        "the best has the rest",
    )


class LatentOptions(MethodOptions):
    """Options of `prob-unet` and `pionono`."""

    latent_size: int = Field(default=6, ge=1, description="numbers in the latent variable")
    beta: float = Field(
        default=1.0,
        ge=0,
        description="weight of the KL term of a mask, beside the cross entropy summed over its "
        "pixels",
    )

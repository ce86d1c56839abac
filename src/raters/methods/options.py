"""The options of the learning methods: typed, with what each means; no torch is needed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class MethodOptions(BaseModel):
    """Options that every method has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FusedOptions(MethodOptions):
    """Options of the methods that fuse the labels first."""

    fusion: str = Field("vote", description="fusion method, see `raters fuse`")
    soft: bool = Field(False, description="train on probabilities instead of the likeliest class")
    pool: bool = Field(False, description="let all cases share the raters' matrices (staple)")


class ConfusionOptions(MethodOptions):
    """Options of the methods that see labels through the raters' matrices."""

    likelihood: Literal["joint", "marginal"] = Field(
        "joint", description="one truth explains all raters (joint), or each rater alone (marginal)"
    )
    trace: float = Field(0.0, ge=0, description="weight of the trace term (the papers' lambda)")
    trace_over: Literal["truth", "all", "listing"] = Field(
        "truth",
        description="rows weighted by the predicted truth, or all rows alike (papers); "
        "listing: also all raters alike, as in the code of global-cm's paper",
    )
    warm_up: float | None = Field(
        None,
        ge=0,
        description="epochs (below 1: share of them) of the warm-up, in which matrices are held; "
        "by default 0.4 of them for masks that raters share, else 2",
    )
    warm_up_on: Literal["vote", "labels", "trace"] | None = Field(
        None,
        description="what the network learns from meanwhile: the vote, or every label; "
        "by default the vote, but for masks by two raters, who cannot outvote each other. "
        "trace: the network waits, and the matrices learn to be the identity (pixel-cm's paper)",
    )
    init_accuracy: float = Field(
        0.9, gt=0, lt=1, description="the diagonal of the matrices at the start"
    )


class LearntOptions(ConfusionOptions):
    """Options of the methods whose matrices are learnt."""

    form: Literal["own", "paper"] = Field(
        "own",
        description="the defaults here, or all of them as in the method's paper; options that are "
        "given override both",
    )
    positivity: Literal["softmax", "softplus"] = Field(
        "softmax", description="what makes entries positive before rows are normalised"
    )


class GlobalOptions(LearntOptions):
    """Options of `global-cm`."""

    start: Literal["accuracy", "listing"] = Field(
        "accuracy",
        description="matrices start with `init_accuracy` on the diagonal, or at softplus(6 I - 5) "
        "as in the code of global-cm's paper",
    )


class SingleOptions(GlobalOptions):
    """Options of `single-cm`."""

    on: Literal["labels", "vote"] = Field(
        "labels",
        description="what the matrix explains: every label, or the vote of each case (as in "
        "global-cm's paper); it is then the matrix of the vote, not of a rater",
    )


class HeadOptions(LearntOptions):
    """Options of the methods whose matrices vary over pixels."""

    trace_over: Literal["truth", "all"] = Field(
        "truth", description="rows weighted by the predicted truth, or all rows alike (papers)"
    )
    annotator: Literal["head", "cnn"] = Field(
        "head",
        description="what gives the matrices: a layer on the truth network's features, or a "
        "network of its own, built like the truth network (paper)",
    )


class PixelOptions(HeadOptions):
    """Options of `pixel-cm`."""

    prior: float = Field(
        0.3, ge=0, description="weight of the pull (KL) of the matrices at pixels to a common one"
    )
    prior_to: Literal["own", "identity"] = Field(
        "own", description="the common matrix: each rater's own mean, or one near the identity"
    )
    shared: bool = Field(False, description="one head for all raters: where they are anonymous")


class LowRankOptions(HeadOptions):
    """Options of `low-rank-cm`."""

    rank: int = Field(1, ge=1, description="kinds of error; the number of classes gives any matrix")
    factors: Literal["mixture", "product"] = Field(
        "mixture",
        description="C is (1 - a) I + a U V, or B1 B2^T with normalised rows (paper): rows that "
        "are all equal at rank 1, and a start at random",
    )
    shared: bool = Field(False, description="one head for all raters: where they are anonymous")


class OracleOptions(ConfusionOptions):
    """Options of `oracle-cm`."""

    by: Literal["case", "rater"] = Field(
        "case", description="known matrices of each case and rater (masks), or of each rater"
    )
    warm_up: float = Field(0, ge=0, description="not used: the matrices are known")

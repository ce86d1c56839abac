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
    trace_over: Literal["truth", "all"] = Field(
        "truth", description="rows weighted by the predicted truth, or all rows alike (papers)"
    )
    warm_up: float | None = Field(
        None,
        ge=0,
        description="epochs (below 1: share of them) in which the matrices are held; "
        "by default .4 of them for masks that raters share, else 2",
    )
    warm_up_on: Literal["vote", "labels"] | None = Field(
        None,
        description="what the network learns from meanwhile: the vote, or every label; "
        "by default the vote, but for masks by two raters, who cannot outvote each other",
    )
    right: float = Field(0.9, gt=0, lt=1, description="the diagonal of the matrices at the start")


class PixelOptions(ConfusionOptions):
    """Options of `pixel-cm`."""

    prior: float = Field(
        0.3, ge=0, description="weight of the pull (KL) of the matrices at pixels to a common one"
    )
    prior_to: Literal["own", "identity"] = Field(
        "own", description="the common matrix: each rater's own mean, or one near the identity"
    )
    shared: bool = Field(False, description="one head for all raters: where they are anonymous")


class LowRankOptions(ConfusionOptions):
    """Options of `low-rank-cm`."""

    rank: int = Field(1, ge=1, description="kinds of error; the number of classes gives any matrix")
    shared: bool = Field(False, description="one head for all raters: where they are anonymous")


class OracleOptions(ConfusionOptions):
    """Options of `oracle-cm`."""

    by: Literal["case", "rater"] = Field(
        "case", description="known matrices of each case and rater (masks), or of each rater"
    )
    warm_up: float = Field(0, ge=0, description="not used: the matrices are known")

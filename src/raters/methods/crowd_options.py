"""The options of `wdn`, `crowd-layer`, `agg-net` and `max-mig`; no torch is needed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from raters.methods.options import ConfusionOptions, MethodOptions


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

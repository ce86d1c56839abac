"""The options of `prism`; no torch is needed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from raters.methods.options import MethodOptions


class PrismOptions(MethodOptions):
    """Options of `prism`."""

    fuse_by: Literal["bayes", "weights"] = Field(
        default="weights",
        description="how labels are fused by confidences: a mean weighted by them (the authors' "
        "code), or the posterior by matrices at each pixel (the paper's proposition 4)",
    )
    recurrences: int = Field(
        default=3, ge=1, le=100, description="how often ConP and DivP take turns (tau)"
    )
    supervise: Literal["fuse", "self"] = Field(
        default="fuse",
        description="what ConP learns from in the second and later recurrences, and DivP compares "
        "with ConP: the labels fused by DivP's confidences (Algorithm 1), or what DivP thinks "
        "raters say, fused (equation 8)",
    )
    divp_loss: Literal["shuffle", "heads", "both"] = Field(
        default="shuffle",
        description="what DivP learns from beside the recurrence: fusions by shuffled confidences "
        "(equation 10; the paper's choice), the labels of each head's rater (equation 9), or both",
    )
    divp_weight: float = Field(
        default=0.3, ge=0, description="the weight of these losses of DivP (zeta)"
    )
    integration: Literal["attention", "concat", "convlstm"] = Field(
        default="attention", description="how ConP takes in the confidences of raters"
    )
    encoder: Literal["network", "resnet18", "resnet34", "resnet50"] = Field(
        default="network",
        description="what looks at the image: the encoder of the network (of a U-Net; below "
        "other networks a pyramid is built), or a ResNet of the network's width",
    )
    tolerance: float = Field(
        default=0.001,
        ge=0,
        description="a recurrence that changes an image's probabilities by less than this, on "
        "average, is the last one when predicting",
    )

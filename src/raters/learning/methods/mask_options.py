"""The options of the methods for masks alone: prism, marks and boxes; no torch is needed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from raters.learning.methods.options import MethodOptions


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
    warm_up: float = Field(
        default=0.5,
        ge=0,
        description="epochs (below 1: share of them) in which ConP learns by cross entropy instead "
        "of structural similarity, which may never find objects that are not told apart at once; "
        "0 is the paper's",
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


def _superpixels(number: int) -> Any:  # noqa: ANN401
    return Field(default=number, ge=1, description="superpixels of an image, about")


def _superpixel_size(pixels: int) -> Any:  # noqa: ANN401
    said = "pixels of a superpixel, about: small images have fewer superpixels"
    return Field(default=pixels, ge=1, description=said)


class RoundsOptions(MethodOptions):
    """Options of the methods that find labels of regions in turns with the network."""

    rounds: int = Field(
        default=3,
        ge=1,
        description="how often labels of regions are found, at most once for each epoch; the "
        "first time without the network",
    )
    superpixels: int = _superpixels(2000)
    superpixel_size: int = _superpixel_size(32)


class ScribbleSupOptions(RoundsOptions):
    """Options of `scribble-sup`."""

    smoothness: float = Field(
        default=1.0, ge=0, description="weight of what it costs to part superpixels that touch"
    )


class BoxSupOptions(RoundsOptions):
    """Options of `box-sup`."""

    superpixels: int = _superpixels(1000)
    superpixel_size: int = _superpixel_size(8)
    network_weight: float = Field(
        default=3.0,
        ge=0,
        description="weight of how badly a candidate fits the network, beside how badly it fills "
        "its box (the paper's lambda)",
    )
    candidates: int = Field(
        default=5,
        ge=1,
        description="so many best candidates of a box are kept; each epoch draws one of them",
    )


class CycleMixOptions(MethodOptions):
    """Options of `cycle-mix`."""

    global_consistency: float = Field(
        default=0.1,
        ge=0,
        description="weight of the distance between the prediction of a mixed image and the "
        "mixed predictions",
    )
    local_consistency: float = Field(
        default=0.1,
        ge=0,
        description="weight of the distance between a prediction and the largest connected part "
        "of each of its classes; 0 where images show several objects of a class",
    )

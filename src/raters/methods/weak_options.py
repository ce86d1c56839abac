"""The options of the methods that learn from marks and boxes; no torch is needed."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from raters.methods.options import MethodOptions


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

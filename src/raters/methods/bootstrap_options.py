"""The options of the bootstrapping methods; no torch is needed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from raters.methods.options import FusedOptions


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

"""The options of the methods that draw samples; no torch is needed."""

from __future__ import annotations

from pydantic import Field

from raters.methods.options import MethodOptions


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

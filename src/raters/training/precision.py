"""Numbers of 16 bits in the network, where they are fast; the likelihood always has 32."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from raters.errors import RatersError
from raters.networks import TruthNetwork

Precision = Literal["auto", "32", "bf16", "16"]
HALF = {"32": None, "bf16": torch.bfloat16, "16": torch.float16}


def precision_of(wish: Precision) -> Precision:
    """Choose a precision that this machine can compute in.

    Processors without a unit for bf16 are slower with it than without: 'auto' is 32 there.

    Example:
        >>> precision_of("bf16")
        'bf16'
    """
    on_gpu = torch.cuda.is_available()
    if wish == "16" and not on_gpu:
        raise RatersError("found precision='16' without a GPU, expected '32', 'bf16' or 'auto'")
    if wish == "auto":
        return "bf16" if on_gpu and torch.cuda.is_bf16_supported(False) else "32"
    return wish


def set_precision(method: nn.Module, precision: Precision) -> None:
    """Let all truth networks of a method compute in a precision."""
    for module in method.modules():
        if isinstance(module, TruthNetwork):
            module.half_type = HALF[precision]


def for_trainer(precision: Precision) -> Any:  # noqa: ANN401
    """Return Lightning's name: of it we need only the scaling of gradients, for 16."""
    return "16-mixed" if precision == "16" else "32-true"

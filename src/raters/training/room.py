"""Whether a network fits this machine's memory, checked before anything of its size is made."""

from __future__ import annotations

import math

import torch

from raters.errors import RatersError
from raters.study.formats.base import usable_memory
from raters.training.config import ModelConfig

COPIES = 4
"""Weights, their gradients, and the two means of AdamW."""

DEEPEST = 1000


def refuse_too_large(config: ModelConfig) -> None:
    """Refuse a network that takes more memory to train than there is.

    Raises:
        RatersError: that names width and depth, and how much they take.
    """
    size = weights_of(config) * 4.0 * COPIES
    if size <= usable_memory():
        return
    takes = f"{size / 1e9:,.0f} GB" if math.isfinite(size) else "more than can be counted"
    raise RatersError(
        f"found width={config.network.width} and depth={config.network.depth}, which take {takes} "
        f"to train, expected less than the {usable_memory() / 1e9:.0f} GB that may be used here: "
        "try a smaller width or depth",
        kind="network",
    )


def weights_of(config: ModelConfig) -> float:
    """Count the weights on a device that holds no numbers; infinity where they are uncountable."""
    if (config.network.depth or 0) > DEEPEST:
        return math.inf
    try:
        with torch.device("meta"):
            return float(sum(weights.numel() for weights in config.build().parameters()))
    except (RuntimeError, OverflowError, MemoryError, TypeError):
        return math.inf

"""A linear layer at each pixel: what heads on a network's features are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

LINEAR: dict[int, Callable[..., nn.Module]] = {
    0: nn.Linear,
    1: nn.Conv1d,
    2: nn.Conv2d,
    3: nn.Conv3d,
}


def pointwise(features: int, outputs: int, spatial_dims: int) -> nn.Module:
    """Make a linear layer over the channels of `(batch, features, *space)`.

    Args:
        features: Channels that come in.
        outputs: Channels that go out.
        spatial_dims: Spatial axes; 0 for `(batch, features)`.

    Example:
        >>> pointwise(8, 3, spatial_dims=2)(torch.zeros(1, 8, 5, 5)).shape
        torch.Size([1, 3, 5, 5])
    """
    size = () if spatial_dims == 0 else (1,)
    return LINEAR[spatial_dims](features, outputs, *size)


def constant_head(features: int, start: Tensor, spatial_dims: int) -> nn.Module:
    """Make a pointwise layer whose output is `start` (flattened) whatever the features are."""
    head = pointwise(features, start.numel(), spatial_dims)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.copy_(start.flatten() if name == "bias" else torch.zeros_like(parameter))
    return head

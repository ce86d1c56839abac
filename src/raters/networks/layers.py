"""The few layers that networks here share, by the number of spatial axes."""

from __future__ import annotations

from typing import Any

from torch import nn

from raters.networks.options import Norm

_CONVOLUTION: dict[int, type[nn.Conv1d | nn.Conv2d | nn.Conv3d]] = {
    1: nn.Conv1d,
    2: nn.Conv2d,
    3: nn.Conv3d,
}
_INSTANCE: dict[int, type[nn.InstanceNorm1d | nn.InstanceNorm2d | nn.InstanceNorm3d]] = {
    1: nn.InstanceNorm1d,
    2: nn.InstanceNorm2d,
    3: nn.InstanceNorm3d,
}
MOST_GROUPS = 8


def parameter_count(module: nn.Module) -> int:
    """Count the numbers that are learned.

    Example:
        >>> parameter_count(nn.Linear(16, 3))
        51
    """
    return sum(weights.numel() for weights in module.parameters() if weights.requires_grad)


def convolution(
    spatial_dims: int,
    in_channels: int,
    out_channels: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    bias: bool = True,
) -> nn.Module:
    """Make a convolution with the same kernel along each axis."""
    return _CONVOLUTION[spatial_dims](
        in_channels, out_channels, kernel, stride, padding, dilation, bias=bias
    )


def normalisation(norm: Norm, channels: int, spatial_dims: int) -> nn.Module:
    """Make the layer that normalises features, with a learned scale and shift."""
    if norm == "instance":
        return _INSTANCE[spatial_dims](channels, affine=True)
    if norm == "group":
        return nn.GroupNorm(group_count(channels), channels)
    return nn.Identity()


def group_count(channels: int) -> int:
    """Return the number of groups: at most 8, of at least two channels each where that can be.

    Groups of one channel would be instance norm.

    Example:
        >>> group_count(16), group_count(12), group_count(4), group_count(7)
        (8, 6, 2, 1)
    """
    most = min(MOST_GROUPS, max(channels // 2, 1))
    return max(groups for groups in range(1, most + 1) if channels % groups == 0)


def monai_norm(norm: Norm, width: int) -> Any:  # noqa: ANN401
    """Return the norm as MONAI wants it, where all layers have a multiple of `width` channels."""
    if norm == "instance":
        return ("instance", {"affine": True})
    if norm == "group":
        return ("group", {"num_groups": group_count(width)})
    return ""  # MONAI's blocks take None for the default in one place, and fail on it in another


def least_side(norm: Norm, divisor: int) -> int:
    """Return the smallest side of an image whose deepest level can be normalised."""
    return 2 * divisor if norm == "instance" else divisor

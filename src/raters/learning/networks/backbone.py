"""What all truth networks share: a few layers, what a backbone is, and the head on its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.learning.networks.options import Norm, network_error
from raters.learning.rater_models.start import pointwise

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
    kind: type[nn.Conv2d] = getattr(nn, f"Conv{spatial_dims}d")
    return kind(in_channels, out_channels, kernel, stride, padding, dilation, bias=bias)


def normalisation(norm: Norm, channels: int, spatial_dims: int) -> nn.Module:
    """Make the layer that normalises features, with a learned scale and shift."""
    if norm == "instance":
        kind: type[nn.InstanceNorm2d] = getattr(nn, f"InstanceNorm{spatial_dims}d")
        return kind(channels, affine=True)
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


class Backbone(nn.Module):
    """A network that turns an image `(B, channels, *space)` into features.

    `TruthNetwork` pads images to the sizes that `divisor` and `least` ask for, so only those who
    call a backbone by themselves must see to it.

    Attributes:
        features: Channels of the output.
        divisor: Each side of the image must be a multiple of it.
        least: Each side must have at least so many pixels. With instance norm the deepest level
            needs more than one pixel: the variance of one is nothing.
        dense: Whether the output is `(B, features, *space)`, else `(B, features)`.
    """

    features: int
    divisor: int = 1
    least: int = 1
    dense: bool

    def forward(self, image: Tensor) -> Tensor:
        """Return the features of images."""
        raise NotImplementedError


class TruthNetwork(nn.Module):
    """Computes features and logits of the true class, for images of any size.

    Images are padded, by repeating their edge on both sides, to a size that the backbone can take,
    and the features are cropped back. The head is linear at each pixel.

    Args:
        backbone: The network that gives features.
        num_classes: Number of classes.
        spatial_dims: Spatial axes of the output: those of the image, or 0 for one class per image.

    Attributes:
        half_type: A type of 16 bits that the backbone computes in; None for 32 bits. Features and
            logits have 32 all the same: a likelihood of 16 bits is not worth much.

    Raises:
        RatersError: The backbone gives features of pixels where one class per image is wanted, or
            the other way round.

    Example:
        >>> import torch
        >>> from raters.learning.networks import NetworkOptions, build_backbone
        >>> backbone = build_backbone(NetworkOptions("unet", width=4), channels=1, spatial_dims=2)
        >>> features, logits = TruthNetwork(backbone, 3, 2)(torch.zeros(1, 1, 33, 47))
        >>> features.shape, logits.shape
        (torch.Size([1, 4, 33, 47]), torch.Size([1, 3, 33, 47]))
    """

    def __init__(self, backbone: Backbone, num_classes: int, spatial_dims: int) -> None:
        super().__init__()
        if backbone.dense != (spatial_dims > 0):
            found = "each pixel" if backbone.dense else "a whole image"
            wanted = "segmentation" if spatial_dims > 0 else "classification"
            raise network_error(
                f"found a network that gives features of {found} ({type(backbone).__name__}), "
                f"expected one for {wanted}"
            )
        self.half_type: torch.dtype | None = None
        self.backbone = backbone
        self.head = pointwise(backbone.features, num_classes, spatial_dims)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return features `(B, features, *space)` and logits `(B, classes, *space)`.

        For classification both have no `space`.
        """
        before, after = margins(tuple(image.shape[2:]), self.backbone)
        features = self._features(repeat_edges(image, before, after) if any(after) else image)
        if self.backbone.dense:
            features = cropped(features, before, image.shape[2:])
        return features, self.head(features)

    def log_truth(self, image: Tensor) -> Tensor:
        """Return `log p(t | x)`, `(B, classes, *space)`."""
        logits: Tensor = self(image)[1]
        return logits.log_softmax(1)

    def _features(self, image: Tensor) -> Tensor:
        if self.half_type is None:
            found: Tensor = self.backbone(image)
            return found
        with torch.autocast(image.device.type, self.half_type):
            found = self.backbone(image)
        return found.float()


class TakesSizes(Protocol):
    """A network that takes images of some sizes only."""

    divisor: int
    least: int


def margins(space: tuple[int, ...], backbone: TakesSizes) -> tuple[list[int], list[int]]:
    """Return how many pixels are missing before and after each axis; sizes may be unknown yet."""
    step = backbone.divisor
    most = cast("Callable[[int, int], int]", torch.sym_max)
    missing = [most((side + step - 1) // step * step, backbone.least) - side for side in space]
    return [count // 2 for count in missing], [count - count // 2 for count in missing]


def cropped(maps: Tensor, before: list[int], space: Sequence[int]) -> Tensor:
    """Cut maps back to the space that they had before they were padded."""
    for axis, (margin, side) in enumerate(zip(before, space, strict=True), start=2):
        maps = maps.narrow(axis, margin, side)
    return maps


def repeat_edges(image: Tensor, before: list[int], after: list[int]) -> Tensor:
    """Pad an image; torch names the last axis first."""
    sides = [side for pair in zip(reversed(before), reversed(after), strict=True) for side in pair]
    return pad(image, sides, mode="replicate")

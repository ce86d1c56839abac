"""Encoders that give features at several resolutions, for decoders of their own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from raters.learning.networks.backbone import Backbone, convolution, cropped, margins, repeat_edges
from raters.learning.networks.backbones import BLOCKS, ResNet, UNet

LEVELS = 3
"""Levels of the pyramid below a network that gives features at full resolution only."""


class Encoder(nn.Module):
    """A network that turns an image `(B, channels, H, W)` into features at several resolutions.

    Attributes:
        channels: Channels of each level, the finest first.
        steps: By how much each level is smaller than the image: powers of 2.
        divisor: Each side of the image must be a multiple of it (`padded` sees to it).
        least: Each side must have at least so many pixels.
        half_type: A type of 16 bits to compute in; None for 32 bits. Features have 32 all the same.
    """

    channels: tuple[int, ...]
    steps: tuple[int, ...]
    divisor: int
    least: int = 1
    half_type: torch.dtype | None = None

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the features of images of a size that the encoder takes, the finest first."""
        if self.half_type is None:
            return self.levels(image)
        with torch.autocast(image.device.type, self.half_type):
            found = self.levels(image)
        return [features.float() for features in found]

    def levels(self, image: Tensor) -> list[Tensor]:
        """Return the features of all levels."""
        raise NotImplementedError

    def padded(self, maps: Tensor) -> Tensor:
        """Repeat the edges of maps until the encoder takes their size."""
        before, after = margins(tuple(maps.shape[2:]), self)
        return repeat_edges(maps, before, after) if any(after) else maps

    def cropped(self, maps: Tensor, space: tuple[int, ...]) -> Tensor:
        """Cut maps back to the size before `padded`."""
        return cropped(maps, margins(space, self)[0], space)


def _downwards(first: Tensor, layers: Iterable[nn.Module]) -> list[Tensor]:
    return list(accumulate(layers, lambda above, layer: layer(above), initial=first))


class UNetEncoder(Encoder):
    """The way down of a U-Net: `width * 2 ** level` channels at `1 / 2 ** level`.

    Example:
        >>> net = UNet(1, 2, width=4, depth=3, norm="instance", dropout=0.0)
        >>> [tuple(f.shape[1:]) for f in UNetEncoder(net)(torch.zeros(1, 1, 8, 12))]
        [(4, 8, 12), (8, 4, 6), (16, 2, 3)]
    """

    def __init__(self, net: UNet) -> None:
        super().__init__()
        self.first = net.first
        self.down = net.down
        self.steps = tuple(2**level for level in range(len(net.down) + 1))
        self.channels = tuple(net.features * step for step in self.steps)
        self.divisor = net.divisor
        self.least = net.least

    def levels(self, image: Tensor) -> list[Tensor]:
        """Return the features of all levels."""
        return _downwards(self.first(image), self.down)


class ResNetEncoder(Encoder):
    """The stages of a ResNet for large images, and what its first layer gives.

    Example:
        >>> net = ResNet(3, 2, width=4, depth=18, norm="group", dropout=0.0, coarse=True)
        >>> [tuple(f.shape[1:]) for f in ResNetEncoder(net, 18)(torch.zeros(1, 3, 32, 64))]
        [(4, 16, 32), (4, 8, 16), (8, 4, 8), (16, 2, 4), (32, 1, 2)]
    """

    def __init__(self, net: ResNet, depth: int) -> None:
        super().__init__()
        *first, self.pool = net.first
        self.first = nn.Sequential(*first)
        ends = pairwise(accumulate(BLOCKS[depth], initial=0))
        self.stages = nn.ModuleList(net.blocks[start:end] for start, end in ends)
        width = net.features // 2 ** (len(self.stages) - 1)
        kept = first[0]
        assert isinstance(kept, nn.Conv2d)
        self.channels = (kept.out_channels, *(width * 2**k for k in range(len(self.stages))))
        self.steps = (2, 4, 8, 16, 32)
        self.divisor = 32
        self.least = net.least

    def levels(self, image: Tensor) -> list[Tensor]:
        """Return the features of all levels."""
        finest = self.first(image)
        return [finest, *_downwards(self.pool(finest), self.stages)[1:]]


class PooledEncoder(Encoder):
    """Any network that gives features of pixels, and a pyramid of them below.

    A level is the one above it, averaged over 2 x 2 pixels and convolved (3 x 3).

    Example:
        >>> from raters.learning.networks.backbones import PatchCNN
        >>> net = PatchCNN(1, 2, width=2, depth=1, norm="none", dropout=0.0)
        >>> [tuple(f.shape[1:]) for f in PooledEncoder(net)(torch.zeros(1, 1, 8, 12))]
        [(16, 8, 12), (32, 4, 6), (64, 2, 3)]
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.steps = tuple(2**level for level in range(LEVELS))
        self.channels = tuple(backbone.features * step for step in self.steps)
        self.divisor = max(backbone.divisor, self.steps[-1])  # both are powers of 2
        self.least = max(backbone.least, self.divisor)
        self.down = nn.ModuleList(
            nn.Sequential(
                nn.AvgPool2d(2), convolution(2, above, below, 3, padding=1), nn.LeakyReLU(0.1)
            )
            for above, below in pairwise(self.channels)
        )

    def levels(self, image: Tensor) -> list[Tensor]:
        """Return the features of all levels."""
        return _downwards(self.backbone(image), self.down)


def encoder_of(backbone: Backbone) -> Encoder:
    """Return the encoder of a network: that of a U-Net, or a pyramid below any other.

    Example:
        >>> type(encoder_of(UNet(1, 2, 4, 2, "instance", 0.0))).__name__
        'UNetEncoder'
    """
    return UNetEncoder(backbone) if isinstance(backbone, UNet) else PooledEncoder(backbone)


def resnet_encoder(channels: int, width: int, depth: int) -> ResNetEncoder:
    """Make the encoder of a ResNet with group norm.

    Args:
        channels: Channels of an image.
        width: Channels of the first stage.
        depth: Layers of the ResNet: 18, 34 or 50.
    """
    net = ResNet(channels, 2, width=width, depth=depth, norm="group", dropout=0.0, coarse=True)
    return ResNetEncoder(net, depth)

"""The U-Net, of MONAI's blocks, with as many levels as wanted and features at full resolution."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from raters.networks.backbone import Backbone, least_side, monai_norm
from raters.networks.options import Norm

_ACTIVATION = ("LeakyReLU", {"negative_slope": 0.1, "inplace": True})


class UNet(Backbone):
    """Two convolutions per level, max-pooling down, transposed convolutions up, skips in between.

    O. Ronneberger, P. Fischer and T. Brox, U-Net: convolutional networks for biomedical image
    segmentation, MICCAI 2015. Channels double from level to level: `width * 2 ** level`.

    The blocks are those of MONAI's `BasicUNet`, which itself always has five levels. MONAI's `UNet`
    is cheaper (on a CPU a seventh with stride 2 in its first layer, a third with stride 1), but has
    no skip at full resolution in the first form and one convolution per level in both.

    Example:
        >>> import torch
        >>> net = UNet(1, 2, width=8, depth=3, norm="instance", dropout=0.0)
        >>> net.divisor, net.features, net(torch.zeros(1, 1, 16, 24)).shape
        (4, 8, torch.Size([1, 8, 16, 24]))
    """

    dense = True

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        from monai.networks.nets.basic_unet import Down, TwoConv, UpCat

        super().__init__()
        # A norm has a shift of its own, which makes the bias before it idle.
        rest = (_ACTIVATION, monai_norm(norm, width), norm == "none", dropout)
        widths = [width * 2**level for level in range(depth)]
        steps = list(pairwise(widths))
        self.first = TwoConv(spatial_dims, channels, widths[0], *rest)
        self.down = nn.ModuleList(Down(spatial_dims, upper, lower, *rest) for upper, lower in steps)
        self.up = nn.ModuleList(
            UpCat(spatial_dims, lower, upper, upper, *rest) for upper, lower in reversed(steps)
        )
        self.features = width
        self.divisor = 2 ** (depth - 1)
        self.least = least_side(norm, self.divisor)

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, width, *space)`."""
        features: Tensor = self.first(image)
        skipped = []
        for down in self.down:
            skipped.append(features)
            features = down(features)
        for up in self.up:
            features = up(features, skipped.pop())
        return features

"""MONAI's SegResNet without its last convolution, with as many levels as wanted."""

from __future__ import annotations

from torch import Tensor, nn

from raters.networks.backbone import Backbone, least_side, monai_norm
from raters.networks.options import Norm


class SegResNet(Backbone):
    """An encoder of residual blocks, deep at the bottom, and a light decoder.

    A. Myronenko, 3D MRI brain tumor segmentation using autoencoder regularization, BrainLes 2018.
    The encoder has 1, 2, ..., 2, 4 blocks by level, the decoder one. The paper has group norm and
    four levels, which are the defaults; its autoencoder branch is left out.

    Example:
        >>> import torch
        >>> net = SegResNet(1, 2, width=8, depth=3, norm="group", dropout=0.0)
        >>> net(torch.zeros(1, 1, 16, 24)).shape
        torch.Size([1, 8, 16, 24])
    """

    dense = True

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        from monai.networks.nets.segresnet import SegResNet as Whole

        super().__init__()
        self.net = Whole(
            spatial_dims=spatial_dims,
            init_filters=width,
            in_channels=channels,
            out_channels=1,
            dropout_prob=dropout or None,
            norm=monai_norm(norm, width),
            blocks_down=((1, *[2] * (depth - 2), 4) if depth > 1 else (1,)),
            blocks_up=(1,) * (depth - 1),
        )
        # The last convolution is the head's work; norm and activation before it stay.
        self.net.conv_final = nn.Sequential(*list(self.net.conv_final)[:-1])
        self.features = width
        self.divisor = 2 ** (depth - 1)
        self.least = least_side(norm, self.divisor)

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, width, *space)`."""
        features: Tensor = self.net(image)
        return features

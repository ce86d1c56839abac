"""Networks that give features of each pixel: U-Net, SegResNet, and a patch network run densely."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.networks.backbone import Backbone, convolution, least_side, monai_norm, normalisation
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


class PatchCNN(Backbone):
    """Classifies each pixel by the patch around it.

    S. Valverde et al., Improving automated multiple sclerosis lesion segmentation with a cascaded
    3D convolutional neural network approach, NeuroImage 155, 2017: two 3 x 3 x 3 convolutions of
    32 channels, max-pooling, two of 64, max-pooling, 256 fully connected units (with dropout 0.5),
    PReLU throughout. `width` is 32, `depth` the number of poolings, 2.

    A patch network repeats nearly all of its work at the next pixel. Here what follows a pooling
    is dilated instead of strided ('a trous'; A. Giusti et al., Fast image scanning with deep
    max-pooling convolutional neural networks, ICIP 2013), so that the features at a pixel are those
    of the strided network on the patch around it, where the patch lies within the image and the
    norm is 'none'. (Instance and group norm take their averages over the image, not the patch.)

    NicMSlesions pads its 11 x 11 x 11 patches with zeros before each convolution. No dense network
    can do that, as the zeros would be elsewhere for each patch: here convolutions see what is
    really there, which makes the patch `patch_side` = 20 wide: 10 pixels before, 9 after. Beyond
    the image features are zero. Batch norm is replaced as everywhere here, because processes on
    the CPU do not share its averages.

    Attributes:
        patch_side: Pixels along a side of the patch that features at a pixel depend on.
        before: How many of them come before the pixel.

    Example:
        >>> import torch
        >>> net = PatchCNN(1, 2, width=4, depth=2, norm="none", dropout=0.0)
        >>> net.patch_side, net(torch.zeros(1, 1, 9, 13)).shape
        (20, torch.Size([1, 32, 9, 13]))
    """

    dense = True

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        for stage in range(depth):
            out, step = width * 2**stage, 2**stage
            layers = []
            for _ in range(2):
                layers += [
                    convolution(spatial_dims, channels, out, 3, padding=step, dilation=step),
                    normalisation(norm, out, spatial_dims),
                    nn.PReLU(out),
                ]
                channels = out
            self.stages.append(nn.Sequential(*layers))
        step = 2**depth
        self.features = 8 * width
        self.connected = convolution(spatial_dims, channels, self.features, 2, dilation=step)
        self.activation = nn.PReLU(self.features)
        self.dropouts = nn.ModuleList([nn.Dropout(dropout) for _ in range(2)])
        self.least = 2 if norm == "instance" else 1
        self.patch_side = 6 * step - 4  # two convolutions, a pooling per stage; and the last layer
        self.before = 3 * step - 2

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, 8 * width, *space)`."""
        features = image
        spatial_dims = image.ndim - 2
        for stage, layers in enumerate(self.stages):
            features = _pool(layers(features), 2**stage)
        # The poolings looked ahead, so the last layer looks back: the pixel is in the middle.
        step = 2 ** len(self.stages)
        before, after = self.dropouts
        features = self.connected(pad(before(features), (step, 0) * spatial_dims))
        activated: Tensor = after(self.activation(features))
        return activated


def _pool(features: Tensor, step: int) -> Tensor:
    """Return at each pixel the largest of it and those `step` further on, by each axis."""
    for axis in range(2, features.ndim):
        length = features.shape[axis]
        ahead = pad(features, (0, 0) * (features.ndim - 1 - axis) + (0, step))
        features = torch.maximum(features, ahead.narrow(axis, step, length))
    return features

"""The patch network of NicMSlesions, run at all pixels at once instead of patch by patch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.networks.backbone import Backbone, convolution, normalisation
from raters.networks.options import Norm


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

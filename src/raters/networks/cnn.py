"""The small network for digits of global-cm: four convolutions and a global average."""

from __future__ import annotations

from torch import Tensor, nn

from raters.networks.backbone import Backbone, convolution, least_side, normalisation
from raters.networks.options import Norm

_POOL: dict[int, type[nn.MaxPool2d | nn.MaxPool3d]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}


class CNN(Backbone):
    """Four 3 x 3 convolutions with ReLU, of `width` (32) times 1, 1, 2, 2 channels.

    R. Tanno et al., Learning from noisy labels by regularized estimation of annotator confusion,
    CVPR 2019, appendix A: "After the first two convolution layers, we perform 2 x 2 max-pooling,
    and after the last one [...] Global Average Pooling prior to the final fully connected layer".
    That can mean one pooling behind the second layer, or one behind each of the first two. It is
    read as one here, `depth` 2 (levels of resolution); `depth` 3 is the other reading, with the
    same weights, four times as fast and a wider view. The text says nothing of padding (here
    images keep their size) and has no norm, so there is none unless asked for. For the paper's
    ultrasound data all layers have 128 channels; the nearest here is `width` 64.

    Example:
        >>> import torch
        >>> net = CNN(1, 2, width=32, depth=2, norm="none", dropout=0.0)
        >>> net(torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 64])
    """

    dense = False

    def __init__(
        self, channels: int, spatial_dims: int, width: int, depth: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        pooled = {1} if depth == 2 else {0, 1}
        layers: list[nn.Module] = []
        for layer, out in enumerate((width, width, 2 * width, 2 * width)):
            plain = norm == "none"
            layers.append(convolution(spatial_dims, channels, out, 3, padding=1, bias=plain))
            layers.append(normalisation(norm, out, spatial_dims))
            layers.append(nn.ReLU(inplace=True))
            if layer in pooled:
                layers.append(_POOL[spatial_dims](2))
            channels = out
        self.layers = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.features = channels
        self.least = least_side(norm, 2 ** len(pooled))

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, 2 * width)`."""
        features: Tensor = self.dropout(self.layers(image).flatten(2).mean(2))
        return features

"""Fully connected layers for feature vectors; with none of them, logistic regression."""

from __future__ import annotations

from torch import Tensor, nn

from raters.networks.backbone import Backbone
from raters.networks.options import Norm


class MLP(Backbone):
    """`depth` hidden layers of `width` units with ReLU and dropout.

    With `depth` 0 the features are the input, and the head on them is logistic regression.

    Example:
        >>> import torch
        >>> net = MLP(124, 0, width=128, depth=1, norm="none", dropout=0.5)
        >>> net(torch.zeros(3, 124)).shape
        torch.Size([3, 128])
    """

    dense = False

    def __init__(
        self, channels: int, *_: int, width: int, depth: int, dropout: float, **__: Norm
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        self.features = channels
        for _layer in range(depth):
            layers += [nn.Linear(self.features, width), nn.ReLU(inplace=True), nn.Dropout(dropout)]
            self.features = width
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        """Return features `(B, width)` of vectors `(B, channels)`."""
        features: Tensor = self.layers(image)
        return features

"""What all truth networks have in common: features of an image, and which sizes they take."""

from __future__ import annotations

from torch import Tensor, nn


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

"""The truth network: a backbone, and a head that turns its features into logits of the classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.errors import RatersError
from raters.networks.backbone import Backbone
from raters.rater_models.pointwise import pointwise


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
        >>> from raters.networks import NetworkOptions, build_backbone
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
            raise RatersError(
                f"found a network that gives features of {found} ({type(backbone).__name__}), "
                f"expected one for {wanted}",
                kind="network",
            )
        self.half_type: torch.dtype | None = None
        self.backbone = backbone
        self.head = pointwise(backbone.features, num_classes, spatial_dims)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return features `(B, features, *space)` and logits `(B, classes, *space)`.

        For classification both have no `space`.
        """
        before, after = _margins(tuple(image.shape[2:]), self.backbone)
        features = self._features(_repeat_edges(image, before, after))
        if self.backbone.dense:
            for axis, margin in enumerate(before, start=2):
                features = features.narrow(axis, margin, image.shape[axis])
        return features, self.head(features)

    def _features(self, image: Tensor) -> Tensor:
        if self.half_type is None:
            found: Tensor = self.backbone(image)
            return found
        with torch.autocast(image.device.type, self.half_type):
            found = self.backbone(image)
        return found.float()


def _margins(space: tuple[int, ...], backbone: Backbone) -> tuple[list[int], list[int]]:
    """Return how many pixels are missing before and after each axis."""
    step = backbone.divisor
    missing = [max(-(-side // step) * step, backbone.least) - side for side in space]
    return [count // 2 for count in missing], [count - count // 2 for count in missing]


def _repeat_edges(image: Tensor, before: list[int], after: list[int]) -> Tensor:
    """Pad an image; torch names the last axis first."""
    if not any(after):
        return image
    sides = [side for pair in zip(reversed(before), reversed(after), strict=True) for side in pair]
    return pad(image, sides, mode="replicate")

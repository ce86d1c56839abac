"""DivP of `prism`: what each rater would make of a truth, by attention with a head per rater."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from raters.networks.attention import Attention, AttentionBlock

STEP = 4
"""By how much DivP's own maps are smaller than the image along each side."""

WIDTH, HEADS, BLOCKS = 32, 4, 3
"""Channels, heads and number of the blocks before the last (section 5.2.1)."""

OF_RATER = 8
"""Channels of the last block that are one rater's."""


class DivP(nn.Module):
    """Diverges: maps of each rater from the truth of all.

    J. Wu et al., Multi-rater prism, 2022, section 4.2. A strided convolution and pooling (Table 5)
    bring the truth to a quarter of the resolution; blocks of self-attention follow, the last of
    them with a head per rater and layers that are each rater's own. Its maps come back to the
    image by bilinear interpolation, as logits. They start at zero.

    Args:
        num_classes: Number of classes.
        raters: Number of raters.
        outputs: Maps of each rater.

    Example:
        >>> import torch
        >>> found = DivP(num_classes=2, raters=3, outputs=4)(torch.rand(1, 2, 33, 18))
        >>> found.shape, bool(found.any())
        (torch.Size([1, 3, 4, 33, 18]), False)
    """

    def __init__(self, num_classes: int, raters: int, outputs: int) -> None:
        super().__init__()
        # A pixel of these maps lies in the middle of its 4 x 4 pixels: they come back unshifted.
        self.first = nn.Sequential(
            nn.Conv2d(num_classes, WIDTH, 8, 2, 3), nn.LeakyReLU(0.1), nn.MaxPool2d(2)
        )
        self.blocks = nn.ModuleList(AttentionBlock(WIDTH, HEADS) for _ in range(BLOCKS))
        self.attention = Attention(WIDTH, raters, raters * OF_RATER)
        self.own = nn.Conv2d(WIDTH, raters * OF_RATER, 1)
        self.norm = nn.GroupNorm(raters, raters * OF_RATER)
        self.layers = nn.Sequential(
            nn.Conv2d(raters * OF_RATER, raters * OF_RATER, 1, groups=raters),
            nn.LeakyReLU(0.1),
            nn.Conv2d(raters * OF_RATER, raters * outputs, 1, groups=raters),
        )
        self.raters = raters
        last = self.layers[-1]
        assert isinstance(last, nn.Conv2d) and last.bias is not None
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(self, truth: Tensor) -> Tensor:
        """Return logits `(B, raters, outputs, H, W)` of a truth `(B, L, H, W)`."""
        height, width = truth.shape[2:]
        features = self.first(pad(truth, (0, -width % STEP, 0, -height % STEP), mode="replicate"))
        for block in self.blocks:
            features = block(features, features)
        last = features.movedim(1, -1)
        heads = self.own(features) + self.attention(last, last).movedim(-1, 1)
        maps = self.layers(self.norm(heads))
        maps = interpolate(maps, scale_factor=STEP, mode="bilinear")[..., :height, :width]
        return maps.reshape(len(maps), self.raters, -1, height, width)

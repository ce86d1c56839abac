"""ConP and DivP, the decoders of `prism`, and the attention between patches that both have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, scaled_dot_product_attention

from raters.learning.networks.backbone import convolution, normalisation

GRID = 8
"""Patches along a side of a map, at most: the cost grows with the pixels, not with their square."""


def positions(height: int, width: int, channels: int, like: Tensor) -> Tensor:
    r"""Return the sine encodings of pixels, `(height, width, channels)`.

    .. math:: \sin(2 \pi y / 10000^{i / d}), \quad \cos(2 \pi y / 10000^{i / d})

    with y from 0 to 1 over the map, for rows in the first half of the channels and for columns in
    the second. N. Carion et al., End-to-end object detection with transformers, ECCV 2020.

    Example:
        >>> positions(4, 1, 2, torch.zeros(())).round().int()[:, 0].tolist()
        [[1, 0], [0, 1], [-1, 0], [0, -1]]
    """
    each = -(-channels // 4)
    scale = 10000.0 ** (-torch.arange(each, device=like.device, dtype=like.dtype) / each)

    def along(side: int) -> Tensor:
        place = torch.arange(side, device=like.device, dtype=like.dtype) / side
        angle = 2 * math.pi * place[:, None] * scale
        return torch.cat([angle.cos(), angle.sin()], 1)

    rows = along(height)
    columns = along(width)
    both = [rows[:, None].expand(-1, width, -1), columns[None].expand(height, -1, -1)]
    return torch.cat(both, 2)[..., :channels]


def to_patches(maps: Tensor, heads: int) -> Tensor:
    """Cut maps `(B, H, W, C)` into flattened patches `(B, heads, patches, values)`.

    The sides of a patch follow those of the map, so that there are at most `GRID` patches along
    each; maps are filled up with zeros behind their last row and column.

    Example:
        >>> to_patches(torch.zeros(1, 9, 16, 6), heads=2).shape  # patches of 2 x 2
        torch.Size([1, 2, 40, 12])
    """
    batch, height, width, channels = maps.shape
    p = -(-height // GRID)
    q = -(-width // GRID)
    maps = pad(maps, (0, 0, 0, -width % q, 0, -height % p))
    rows = maps.shape[1] // p
    columns = maps.shape[2] // q
    parts = maps.view(batch, rows, p, columns, q, heads, channels // heads)
    return parts.permute(0, 5, 1, 3, 2, 4, 6).flatten(4).flatten(2, 3)


def from_patches(patches: Tensor, height: int, width: int) -> Tensor:
    """Put patches back to maps `(B, H, W, C)`: the inverse of `to_patches`.

    Example:
        >>> maps = torch.randn(2, 9, 5, 6)
        >>> bool((from_patches(to_patches(maps, 3), 9, 5) == maps).all())
        True
    """
    batch, heads = patches.shape[:2]
    p = -(-height // GRID)
    q = -(-width // GRID)
    rows = -(-height // p)
    columns = -(-width // q)
    parts = patches.view(batch, heads, rows, columns, p, q, -1).permute(0, 2, 4, 3, 5, 1, 6)
    return parts.reshape(batch, rows * p, columns * q, -1)[:, :height, :width]


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """Return what patches of the query take from patches of the value, `(B, H, W, C)`."""
    height, width = value.shape[1:3]
    q, k, v = (to_patches(maps, heads) for maps in (query, key, value))
    return from_patches(scaled_dot_product_attention(q, k, v), height, width)


class Attention(nn.Module):
    """Dot-product attention between patches, with positions in query and key.

    Args:
        channels: Channels of what comes in.
        heads: Heads; each has its own share of the inner channels.
        inner: Channels of all heads together; by default as many as come in.

    Example:
        >>> attention = Attention(8, heads=2)
        >>> features = torch.zeros(1, 5, 7, 8)
        >>> attention(features, features).shape
        torch.Size([1, 5, 7, 8])
    """

    def __init__(self, channels: int, heads: int = 1, inner: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        inner = inner or channels
        self.query = nn.Linear(channels, inner)
        self.key = nn.Linear(channels, inner)
        self.value = nn.Linear(channels, inner)

    def forward(self, asking: Tensor, features: Tensor) -> Tensor:
        r"""Return what `asking` takes from features, both `(B, H, W, C)`.

        .. math:: \mathrm{Attention}(w + E, f + E, f)
        """
        _, height, width, channels = features.shape
        place = positions(height, width, channels, features)
        query = self.query(asking + place)
        key = self.key(features + place)
        return attend(query, key, self.value(features), self.heads)


class AttentionBlock(nn.Module):
    """Attention, add and norm, two linear layers at each pixel, add and norm (post-norm).

    Args:
        channels: Channels of the features, which stay.
        heads: Heads of the attention.

    Example:
        >>> block, features = AttentionBlock(8), torch.randn(1, 8, 5, 7)
        >>> block(features, features).shape
        torch.Size([1, 8, 5, 7])
    """

    def __init__(self, channels: int, heads: int = 1) -> None:
        super().__init__()
        self.attention = Attention(channels, heads)
        self.norm = nn.LayerNorm(channels)
        self.last_norm = nn.LayerNorm(channels)
        self.layers = nn.Sequential(
            nn.Linear(channels, channels), nn.LeakyReLU(0.1), nn.Linear(channels, channels)
        )

    def forward(self, asking: Tensor, features: Tensor) -> Tensor:
        """Return features `(B, C, H, W)` after what `asking`, of the same shape, took from them.

        What asks is kept beside them, unless it is them (self-attention).
        """
        kept = features if asking is features else features + asking
        asking, features, kept = (maps.movedim(1, -1) for maps in (asking, features, kept))
        features = self.norm(kept + self.attention(asking, features))
        found: Tensor = self.last_norm(features + self.layers(features))
        return found.movedim(-1, 1)


Integration = Literal["attention", "concat", "convlstm"]
_SLOPE = 0.1


class ConP(nn.Module):
    r"""Converges: one truth of features and the confidences that it is given.

    J. Wu et al., Multi-rater prism, 2022, section 4.1. At each level n of an encoder but that of
    the image's own resolution, features and embedded confidences are joined,

    .. math:: \bar f_n = f_n + w^e_n + \mathrm{Attention}(w^e_n + E, f_n + E, f_n)

    with norms and two linear layers (`AttentionBlock`). The paper does not say what the residual
    adds; without confidences in it they only choose which patches' features are mixed. Then come a
    2 x 2 deconvolution, the encoder's features of the level above, and a convolution with a
    residual.

    Args:
        channels: Channels of the encoder's levels, the finest first.
        steps: By how much each of them is smaller than the image.
        confidences: Channels of the confidences: raters times classes.
        num_classes: Number of classes.
        integration: How confidences come in: 'attention', or one of its rivals in Table 4.

    Example:
        >>> net = ConP((4, 8), (1, 2), confidences=6, num_classes=2)
        >>> levels = [torch.zeros(1, 4, 6, 10), torch.zeros(1, 8, 3, 5)]
        >>> net(levels, torch.zeros(1, 6, 6, 10)).shape
        torch.Size([1, 2, 6, 10])
    """

    def __init__(
        self,
        channels: Sequence[int],
        steps: Sequence[int],
        confidences: int,
        num_classes: int,
        integration: Integration = "attention",
    ) -> None:
        super().__init__()
        # All but full resolution (Table 5), unless there is nothing else.
        self.joined = [k for k, step in enumerate(steps) if step > 1] or [0]
        self.embed = ConfidenceEmbedding(
            confidences, [channels[k] for k in self.joined], [steps[k] for k in self.joined]
        )
        self.join = nn.ModuleList(_JOIN[integration](channels[k]) for k in self.joined)
        self.up = nn.ModuleList(UpSample(lower, upper) for upper, lower in pairwise(channels))
        if steps[0] > 1:
            self.last: nn.Module = nn.ConvTranspose2d(channels[0], num_classes, steps[0], steps[0])
        else:
            self.last = convolution(2, channels[0], num_classes, 1)

    def forward(self, levels: Sequence[Tensor], confidences: Tensor) -> Tensor:
        """Return logits of the truth at the image's resolution.

        Args:
            levels: What the encoder gave, the finest first.
            confidences: `(B, confidences, H, W)`, at the image's resolution.
        """
        embedded = dict(zip(self.joined, self.embed(confidences), strict=True))
        join = dict(zip(self.joined, self.join, strict=True))
        features = levels[-1]
        for level in reversed(range(len(levels))):
            if level in join:
                features = join[level](embedded[level], features)
            if level:
                features = self.up[level - 1](features, levels[level - 1])
        found: Tensor = self.last(features)
        return found


class ConfidenceEmbedding(nn.Module):
    """Separable convolutions that bring confidences to the size of features.

    Depth-wise ones halve the resolution (5 x 5, then 3 x 3), point-wise ones deepen the channels.
    The levels share one chain: what embeds a level starts at the one above.

    Args:
        inputs: Channels of the confidences.
        channels: Channels of each level, the finest first.
        steps: By how much each level is smaller than the confidences.

    Example:
        >>> found = ConfidenceEmbedding(6, [8, 16], [2, 8])(torch.zeros(1, 6, 16, 24))
        >>> [tuple(level.shape[1:]) for level in found]
        [(8, 8, 12), (16, 2, 3)]
    """

    def __init__(self, inputs: int, channels: Sequence[int], steps: Sequence[int]) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        before = 1
        for outputs, step in zip(channels, steps, strict=True):
            layers: list[nn.Module] = []
            while before < step:
                kernel = 5 if before == 1 else 3
                layers.append(nn.Conv2d(inputs, inputs, kernel, 2, kernel // 2, groups=inputs))
                before *= 2
            layers += [convolution(2, inputs, outputs, 1), nn.LeakyReLU(_SLOPE)]
            layers += [convolution(2, outputs, outputs, 1)]
            self.stages.append(nn.Sequential(*layers))
            inputs = outputs

    def forward(self, confidences: Tensor) -> list[Tensor]:
        """Return the embedded confidences of each level."""
        found = []
        for stage in self.stages:
            confidences = stage(confidences)
            found.append(confidences)
        return found


class UpSample(nn.Module):
    """A deconvolution, the encoder's features beside it, a convolution and norm, residual add."""

    def __init__(self, lower: int, upper: int) -> None:
        super().__init__()
        self.grow = nn.ConvTranspose2d(lower, upper, 2, 2)
        self.merge = nn.Sequential(
            convolution(2, 2 * upper, upper, 3, padding=1, bias=False),
            normalisation("group", upper, 2),
        )
        self.activation = nn.LeakyReLU(_SLOPE)

    def forward(self, features: Tensor, beside: Tensor) -> Tensor:
        """Return features of the next finer level."""
        features = self.grow(features)
        found: Tensor = self.activation(features + self.merge(torch.cat([features, beside], 1)))
        return found


class Concat(nn.Module):
    """Confidences beside features, and a convolution: the first rival of attention in Table 4."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            convolution(2, 2 * channels, channels, 3, padding=1, bias=False),
            normalisation("group", channels, 2),
            nn.LeakyReLU(_SLOPE),
        )

    def forward(self, embedded: Tensor, features: Tensor) -> Tensor:
        """Return features of the same shape."""
        found: Tensor = self.layers(torch.cat([embedded, features], 1))
        return found


class ConvLSTM(nn.Module):
    r"""One step of a convolutional LSTM: the second rival of attention in Table 4.

    X. Shi et al., Convolutional LSTM network, NeurIPS 2015. Features are the state of the cell,
    embedded confidences are what it is shown:

    .. math:: c = \sigma(g_f) f + \sigma(g_i) \tanh(g), \quad \bar f = \sigma(g_o) \tanh(c)

    with gates g by a 3 x 3 convolution of both.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gates = convolution(2, 2 * channels, 4 * channels, 3, padding=1)

    def forward(self, embedded: Tensor, features: Tensor) -> Tensor:
        """Return features of the same shape."""
        take, keep, give, new = self.gates(torch.cat([embedded, features], 1)).chunk(4, 1)
        cell = keep.sigmoid() * features + take.sigmoid() * new.tanh()
        found: Tensor = give.sigmoid() * cell.tanh()
        return found


_JOIN: dict[Integration, type[AttentionBlock | Concat | ConvLSTM]] = {
    "attention": AttentionBlock,
    "concat": Concat,
    "convlstm": ConvLSTM,
}


STEP = 4
"""By how much DivP's own maps are smaller than the image along each side."""

WIDTH = 32
HEADS = 4
BLOCKS = 3
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

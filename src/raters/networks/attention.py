"""Attention between patches of feature maps of any size, and the blocks made of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

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

    rows, columns = along(height), along(width)
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
    p, q = -(-height // GRID), -(-width // GRID)
    maps = pad(maps, (0, 0, 0, -width % q, 0, -height % p))
    rows, columns = maps.shape[1] // p, maps.shape[2] // q
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
    p, q = -(-height // GRID), -(-width // GRID)
    rows, columns = -(-height // p), -(-width // q)
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
        self.heads, inner = heads, inner or channels
        self.query = nn.Linear(channels, inner)
        self.key = nn.Linear(channels, inner)
        self.value = nn.Linear(channels, inner)

    def forward(self, asking: Tensor, features: Tensor) -> Tensor:
        r"""Return what `asking` takes from features, both `(B, H, W, C)`.

        .. math:: \mathrm{Attention}(w + E, f + E, f)
        """
        _, height, width, channels = features.shape
        place = positions(height, width, channels, features)
        query, key = self.query(asking + place), self.key(features + place)
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
        self.norm, self.last_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
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

"""ConP, the decoder of `prism`: features of an image and confidences of raters become a truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from raters.networks.attention import AttentionBlock
from raters.networks.backbone import convolution, normalisation

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

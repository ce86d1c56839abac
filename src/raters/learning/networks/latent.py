"""What a latent variable needs: an encoder that gives its Gaussian, and a head that reads it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from raters.learning.networks.backbone import convolution
from raters.learning.rater_models.start import pointwise

LEVELS = 4
"""Levels of resolution of an encoder; each has twice the channels of the one above."""

MOST_CHANNELS = 32
"""Channels of an encoder's first level, at most."""

MOST_LOG = 8.0
"""The largest logarithm of a variance, and minus the smallest: e^16 is far from an overflow."""

_SLOPE = 0.1


def bounded(log_variance: Tensor) -> Tensor:
    r"""Keep logarithms of variances within bounds, smoothly: :math:`m \tanh(v / m)`.

    Example:
        >>> bounded(torch.tensor([-1e9, 0.1, 1e9]))
        tensor([-8.0000,  0.1000,  8.0000])
    """
    return MOST_LOG * torch.tanh(log_variance / MOST_LOG)


class Gaussian(NamedTuple):
    """Gaussians whose axes are independent.

    Attributes:
        mean: `(batch, size)`.
        log_variance: `(batch, size)`.
    """

    mean: Tensor
    log_variance: Tensor

    def at(self, noise: Tensor) -> Tensor:
        """Return what standard normal noise becomes: `mean + exp(log_variance / 2) * noise`.

        Example:
            >>> Gaussian(torch.tensor([1.0]), torch.tensor([4.0]).log()).at(torch.tensor([3.0]))
            tensor([7.])
        """
        return self.mean + (self.log_variance / 2).exp() * noise


def gaussian_kl(of: Gaussian, to: Gaussian) -> Tensor:
    r"""Return the Kullback-Leibler divergence of Gaussians with independent axes, `(batch,)`.

    .. math:: \tfrac12 \sum_i \Big( \log \frac{s_i^2}{v_i^2} - 1
              + \frac{v_i^2 + (m_i - n_i)^2}{s_i^2} \Big)

    of means m and variances v² to means n and variances s².

    Example:
        >>> unit = Gaussian(torch.zeros(1, 2), torch.zeros(1, 2))
        >>> gaussian_kl(Gaussian(torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2)), unit)
        tensor([0.5000])
    """
    log_ratio = of.log_variance - to.log_variance
    shift = (of.mean - to.mean).square() * (-to.log_variance).exp()
    return (log_ratio.exp() + shift - 1 - log_ratio).sum(-1) / 2


class Halve(nn.Module):
    """Averages pairs of pixels along each axis, but for axes of less than eight.

    Norms need some pixels to tell images apart by.

    Example:
        >>> Halve()(torch.arange(9.0).view(1, 1, 9))
        tensor([[[0.5000, 2.5000, 4.5000, 6.5000, 8.0000]]])
        >>> Halve()(torch.ones(1, 1, 7, 8)).shape
        torch.Size([1, 1, 7, 4])
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return features `(batch, channels, *space)` at half of the resolution."""
        sides = [2 if side >= 8 else 1 for side in features.shape[2:]]
        pool: Callable[..., Tensor] = getattr(functional, f"avg_pool{len(sides)}d")
        return pool(features, sides, ceil_mode=True)


class GaussianEncoder(nn.Module):
    """Turns an image of any size into the Gaussian of a latent variable.

    Two 3 x 3 convolutions at each of `LEVELS` levels, average pooling in between and over all of
    the last one. Instance norm and a norm of what was pooled make masks of an image differ for the
    encoder from the start: without the former, what is pooled is nearly the same for all masks,
    and a latent that says nothing is soon out of use.

    Args:
        channels: Channels of the image, and of labels if they go in too.
        size: Of the latent variable.
        spatial_dims: Spatial axes.
        width: Channels of the first level; at most `MOST_CHANNELS` are taken.

    Example:
        >>> found = GaussianEncoder(1, 6, spatial_dims=2, width=4)(torch.zeros(3, 1, 5, 4))
        >>> found.mean.shape, found.log_variance.shape
        (torch.Size([3, 6]), torch.Size([3, 6]))
    """

    def __init__(self, channels: int, size: int, spatial_dims: int, width: int) -> None:
        super().__init__()
        widths = [min(width, MOST_CHANNELS) * 2**level for level in range(LEVELS)]
        layers: list[nn.Module] = []
        for before, after in pairwise([channels, *widths]):
            if layers:
                layers.append(Halve())
            for inputs in (before, after):
                layers.append(convolution(spatial_dims, inputs, after, 3, padding=1, bias=False))
                layers.append(nn.GroupNorm(after, after))  # instance norm, of any size
                layers.append(nn.LeakyReLU(_SLOPE))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(widths[-1])
        self.last = nn.Linear(widths[-1], 2 * size)
        _start(self.layers)

    def forward(self, image: Tensor) -> Gaussian:
        """Return the Gaussian of each image."""
        found = self.last(self.norm(self.layers(image).flatten(2).mean(2)))
        mean, log_variance = found.chunk(2, 1)
        return Gaussian(mean, bounded(log_variance))


class LatentHead(nn.Module):
    """Reads features together with a latent variable: three layers of 1 x 1 convolutions.

    The first one, on features joined with the latent at each pixel, is a sum of one on the features
    and one on the latent: many latents of an image share the former (`read`).

    Args:
        features: Channels of the features.
        size: Of the latent variable.
        num_classes: Number of classes.
        spatial_dims: Spatial axes.

    Example:
        >>> head = LatentHead(features=8, size=6, num_classes=3, spatial_dims=2)
        >>> read = head.read(torch.zeros(1, 8, 5, 4))
        >>> head(read, torch.zeros(1, 6)).shape
        torch.Size([1, 3, 5, 4])
    """

    def __init__(self, features: int, size: int, num_classes: int, spatial_dims: int) -> None:
        super().__init__()
        self.of_features = pointwise(features, features, spatial_dims)
        self.of_latent = nn.Linear(size, features, bias=False)
        self.middle = pointwise(features, features, spatial_dims)
        self.last = pointwise(features, num_classes, spatial_dims)
        self.activation = nn.LeakyReLU(_SLOPE)
        _start(self)

    def read(self, features: Tensor) -> Tensor:
        """Return what all latents of images share, from features `(batch, features, *space)`."""
        found: Tensor = self.of_features(features)
        return found

    def forward(self, read: Tensor, latents: Tensor) -> Tensor:
        """Return logits `(batch, classes, *space)` for one latent of each image, `(batch, size)`.

        Args:
            read: What `read` gave.
            latents: `(batch, size)`.
        """
        moved: Tensor = self.of_latent(latents)
        hidden = self.activation(read + moved.view(*moved.shape, *(1,) * (read.ndim - 2)))
        found: Tensor = self.last(self.activation(self.middle(hidden)))
        return found


def _start(module: nn.Module) -> None:
    """Draw weights so that features keep their size from layer to layer (He et al., 2015).

    Without a norm, torch's own start leaves a thousandth of what differs behind eight layers.
    """
    for part in module.modules():
        if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, a=_SLOPE)
            if part.bias is not None:
                nn.init.zeros_(part.bias)

"""The network that is exported: images in, class probabilities out, for any size of image."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raters.errors import RatersError
from raters.networks.backbone import Backbone, TruthNetwork
from raters.training.config import ModelConfig

Place = Literal["auto", "inside", "outside"]
PLACES = ("auto", "inside", "outside")

_CONSTANT = 1e-12  # as in training


class ExportNetwork(nn.Module):
    """Normalises, pads, runs one or several truth networks, and averages their probabilities.

    It gives what `TruthNetwork` gives, written without a branch on the size of the image: a branch
    would be frozen the way that the image of the export took it.

    Args:
        normalise: What an image goes through first.
        networks: The truth networks.

    Example:
        >>> from raters.networks import NetworkOptions, build_backbone
        >>> backbone = build_backbone(NetworkOptions("unet", width=2, depth=2), 1, 2)
        >>> network = ExportNetwork(nn.Identity(), [TruthNetwork(backbone, 3, 2)])
        >>> network(torch.zeros(2, 1, 9, 5)).shape
        torch.Size([2, 3, 9, 5])
    """

    def __init__(self, normalise: nn.Module, networks: list[TruthNetwork]) -> None:
        super().__init__()
        self.normalise = normalise
        self.networks = nn.ModuleList(networks)

    def forward(self, image: Tensor) -> Tensor:
        """Return `p(t | x)`, `(batch, classes, *space)`."""
        ready = self.normalise(image)
        found = [_truth(network, ready) for network in self.networks]
        return found[0] if len(found) == 1 else torch.stack(found).mean(0)


def _truth(network: nn.Module, image: Tensor) -> Tensor:
    assert isinstance(network, TruthNetwork)
    backbone = network.backbone
    before, after = _margins(image, backbone)
    if backbone.divisor > 1 or backbone.least > 1:
        # torch names the last axis first
        sides = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
        padded = pad(image, sides, mode="replicate") if sides else image
    else:
        padded = image
    truth: Tensor = network.head(backbone(padded)).softmax(1)
    if backbone.dense:
        for axis, margin in enumerate(before, start=2):
            truth = truth.narrow(axis, margin, image.shape[axis])
    return truth


def _margins(image: Tensor, backbone: Backbone) -> tuple[list[int], list[int]]:
    """Return how many pixels are missing before and after each axis."""
    step, before, after = backbone.divisor, [], []
    for side in image.shape[2:]:
        # sym_max is max for sizes that are not known yet
        padded: int = torch.sym_max(  # type: ignore[no-untyped-call]
            (side + step - 1) // step * step, backbone.least
        )
        missing = padded - side
        before.append(missing // 2)
        after.append(missing - missing // 2)
    return before, after


class StudyNormalise(nn.Module):
    """Takes off the mean of the training cases and divides by their standard deviation.

    Example:
        >>> normalise = StudyNormalise((1.0, 6.0), (0.5, 0.0), spatial_dims=1)
        >>> normalise(torch.tensor([[[0.0, 2.0], [7.0, 8.0]]])).tolist()
        [[[-2.0, 2.0], [0.0, 0.0]]]
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], spatial_dims: int) -> None:
        super().__init__()
        shape = (1, -1) + (1,) * spatial_dims
        self.register_buffer("mean", torch.tensor(mean).view(shape))
        scale = [1 / value if value > 0 else 0.0 for value in std]
        self.register_buffer("scale", torch.tensor(scale).view(shape))

    def forward(self, image: Tensor) -> Tensor:
        """Normalise `(batch, channels, *space)`."""
        return (image - self.mean) * self.scale


class CaseNormalise(nn.Module):
    """Takes each image's own mean and standard deviation, a channel at a time.

    It must see the whole image: of a window it would take the window's. Statistics are in
    float64, else a constant image would become noise.

    Example:
        >>> CaseNormalise()(torch.tensor([[[0.0, 2.0], [0.1, 0.1]]])).tolist()
        [[[-1.0, 1.0], [0.0, 0.0]]]
    """

    def forward(self, image: Tensor) -> Tensor:
        """Normalise `(batch, channels, *space)`."""
        exact = image.double()
        space = list(range(2, image.ndim))
        mean = exact.mean(space, keepdim=True)
        away = exact - mean
        std = away.square().mean(space, keepdim=True).sqrt()
        constant = std <= _CONSTANT * mean.abs()
        scale = torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, std))
        return (away * scale).float()


def goes_inside(config: ModelConfig, place: Place, possible: bool = True) -> bool:
    """Return whether the normalisation becomes part of the network.

    'auto' takes it in wherever that is right: a study's mean and standard deviation always, an
    image's own only where the model looks at whole images and not at windows.

    Raises:
        RatersError: 'inside' was asked for where it would be wrong.
    """
    mode = config.normaliser().mode
    if place not in PLACES:
        raise RatersError(f"found normalise={place!r}, expected one of {', '.join(PLACES)}")
    if place == "inside" and not possible:
        raise RatersError(
            "found normalise='inside', expected 'outside': a bundle's transforms do it"
        )
    windows = mode == "case" and config.patch_size is not None
    if place == "inside" and windows:
        raise RatersError(
            "found normalise='inside' for a model that normalises each image by its own mean and "
            "predicts in windows, expected 'outside': a window cannot know the whole image's mean"
        )
    return possible and place != "outside" and not windows and mode != "none"


def normalising_layer(config: ModelConfig) -> nn.Module:
    """Make the layer."""
    how = config.normaliser()
    if how.mode == "study":
        return StudyNormalise(how.mean, how.std, config.spatial_dims)
    return CaseNormalise() if how.mode == "case" else nn.Identity()

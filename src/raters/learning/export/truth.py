"""What is exported of a model: its truth network, what users must know of it, and a check."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from raters.core.errors import RatersError
from raters.learning.methods.base import Method
from raters.learning.networks.backbone import TruthNetwork, cropped, margins, repeat_edges
from raters.learning.training.config import ModelConfig
from raters.learning.training.engine import set_precision
from raters.learning.training.model import Model
from raters.version import __version__

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
        >>> from raters.learning.networks import NetworkOptions, build_backbone
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
    before, after = margins(tuple(image.shape[2:]), backbone)
    padded = image
    if before and (backbone.divisor > 1 or backbone.least > 1):
        padded = repeat_edges(image, before, after)
    truth: Tensor = network.head(backbone(padded)).softmax(1)
    return cropped(truth, before, image.shape[2:]) if backbone.dense else truth


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


TOLERANCE = 1e-4
"""A larger difference in a probability than this is no rounding."""


@dataclass(frozen=True)
class Truth:
    """A truth network on its way out.

    Attributes:
        network: Images in, `p(t | x)` out; on the CPU, in float32.
        config: What the model is.
        method: The method that it comes from; on the CPU, in float32.
        inside: Whether it normalises images itself.
        metadata: What users must know, as plain values.
    """

    network: ExportNetwork
    config: ModelConfig
    method: Method
    inside: bool
    metadata: dict[str, Any]


def truth_of(model: Model, place: Place = "auto", possible: bool = True) -> Truth:
    """Take the truth network out of a model.

    Args:
        model: The model.
        place: Whether the normalisation becomes part of the network.
        possible: Whether the format lets it.
    """
    config = model.config
    inside = goes_inside(config, place, possible)
    how = config.normaliser()
    normalise: nn.Module = nn.Identity()
    if inside:
        own = StudyNormalise(how.mean, how.std, config.spatial_dims)
        normalise = own if how.mode == "study" else CaseNormalise()
    method = deepcopy(model.method).cpu().float().eval()
    set_precision(method, "32")  # without the 16 bits that it may have been trained with
    networks = _networks(method)
    network = ExportNetwork(normalise, networks).eval().requires_grad_(False)
    backbone = networks[0].backbone
    metadata = describe(config, inside, backbone.divisor, backbone.least)
    return Truth(network, config, method, inside, metadata)


def example(truth: Truth, batch: int = 2, larger: int = 2, seed: int = 0) -> Tensor:
    """Draw images as the network takes them, of odd sides that differ.

    Args:
        truth: The network.
        batch: How many images.
        larger: How many times as large as the smallest that the network can do without padding.
        seed: Of the random pixels.
    """
    backbone = _networks(truth.method)[0].backbone
    least = max(backbone.divisor, backbone.least)
    space = [larger * least + 3 + 2 * axis for axis in range(truth.config.spatial_dims)]
    random = torch.Generator().manual_seed(seed)
    image = torch.randn(batch, truth.config.channels, *space, generator=random)
    how = truth.config.normaliser()
    if truth.inside and how.mode == "study":
        shape = (-1,) + (1,) * truth.config.spatial_dims
        image = image * torch.tensor(how.std).view(shape) + torch.tensor(how.mean).view(shape)
    return image


def _networks(method: Method) -> list[TruthNetwork]:
    found = method.truth_networks()
    if not found:
        raise RatersError(
            f"found the method {type(method).__name__}, whose truth is not the output of one "
            "network or a mean of several, expected one that can be exported",
            kind="export",
        )
    return found


def measured(truth: Truth, run: Callable[[Tensor], Tensor], what: str) -> float:
    """Return the largest difference of probabilities, over two sizes of images and batches.

    Args:
        truth: The network on its way out.
        run: The exported network.
        what: Its name, for the error.

    Raises:
        RatersError: The difference is more than rounding.
    """
    largest = 0.0
    normalise = truth.config.normaliser()
    for batch, larger in ((1, 1), (3, 2)):
        image = ready = example(truth, batch, larger, seed=batch)
        if truth.inside:
            ready = torch.from_numpy(np.stack([normalise(one) for one in image.numpy()]))
        with torch.inference_mode():
            expected = truth.method.truth(ready)
        largest = max(largest, float((run(image) - expected).abs().max()))
    if not largest <= TOLERANCE:
        raise RatersError(
            f"found probabilities that differ by {largest:.1e} between {what} and the model, "
            f"expected at most {TOLERANCE:.0e}: nothing was written",
            kind="export",
        )
    return largest


def describe(config: ModelConfig, inside: bool, divisor: int, least: int) -> dict[str, Any]:
    """Describe a truth network. Raters are not named: it is a network of the truth.

    Args:
        config: The model.
        inside: Whether it normalises images itself.
        divisor: What its sides are padded to a multiple of.
        least: The smallest side that it pads to.
    """
    mode = config.normaliser().mode
    raw = inside or mode == "none"
    space = [f"side_{axis}" for axis in range(config.spatial_dims)]
    out = space if config.label_spatial_dims else []
    return {
        "raters_version": __version__,
        "method": config.method,
        "network": config.network.name,
        "kind": config.kind,
        "classes": [{"name": c.name, "value": c.value} for c in config.classes],
        "input": {
            "name": "image" if raw else "normalised_image",
            "dtype": "float32",
            "shape": ["batch", config.channels, *space],
            "meaning": ("values as in the files" if raw else "normalised, see normalisation.how")
            + "; "
            + _sides(config.spatial_dims, divisor, least),
        },
        "output": {
            "name": "truth",
            "dtype": "float32",
            "shape": ["batch", len(config.classes), *out],
            "meaning": "the probability of each class, in the order of classes; they sum to one",
        },
        "normalisation": {**config.normalisation, "inside": inside, "how": _how(mode, inside)},
        "patch_size": None if config.patch_size is None else list(config.patch_size),
        "windows": _windows(config),
    }


def _sides(spatial_dims: int, divisor: int, least: int) -> str:
    if not spatial_dims:
        return "one vector of features per case"
    if divisor == least == 1:
        return "any sides"
    return (
        f"any sides: they are padded inside to multiples of {divisor}, at least {least}, by "
        "repeating the edge"
    )


def _how(mode: str, inside: bool) -> str:
    if mode == "none":
        return "none: the network takes the values of the files as they are"
    own = "each image's own, over all of its pixels" if mode == "case" else "given here"
    rule = f"(image - mean) / std, a channel at a time, mean and std {own}; 0 where std is 0"
    if not inside:
        return f"not part of the network, do it first: {rule}"
    whole = "; give whole images, not windows" if mode == "case" else ""
    return f"part of the network, give it the values of the files: {rule}{whole}"


def _windows(config: ModelConfig) -> str:
    if config.patch_size is None:
        return "none: give whole images"
    sides = " x ".join(map(str, config.patch_size))
    return (
        f"trained on patches of {sides}: larger images are predicted in windows of this size (or "
        "the image's own side, where that is smaller) that overlap by a quarter, blended by a "
        "Gaussian, as MONAI's sliding_window_inference does"
    )

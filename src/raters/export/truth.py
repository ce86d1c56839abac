"""What is exported of a model: its truth network, with what users must know of it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raters.errors import RatersError
from raters.export.metadata import describe
from raters.export.network import ExportNetwork
from raters.export.normalise import Place, goes_inside, normalising_layer
from raters.methods.base import Method, NetworkMethod
from raters.methods.separate import Separate
from raters.networks import TruthNetwork
from raters.training.config import ModelConfig
from raters.training.model import Model


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

    @property
    def input_name(self) -> str:
        """The name of the input, which says what it must be given."""
        return str(self.metadata["input"]["name"])


def truth_of(model: Model, place: Place = "auto", possible: bool = True) -> Truth:
    """Take the truth network out of a model.

    Args:
        model: The model.
        place: Whether the normalisation becomes part of the network.
        possible: Whether the format lets it.
    """
    config = model.config
    inside = goes_inside(config, place, possible)
    normalise = normalising_layer(config) if inside else torch.nn.Identity()
    method = _plain(model.method)
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


def _plain(method: Method) -> Method:
    """Copy a method to the CPU, without the 16 bits that it may have been trained with."""
    copy = deepcopy(method).cpu().float().eval()
    for module in copy.modules():
        if isinstance(module, TruthNetwork):
            module.half_type = None
    return copy


def _networks(method: Method) -> list[TruthNetwork]:
    if isinstance(method, Separate):
        there = method.labelled.tolist()
        return [n for n, used in zip(method.networks, there, strict=True) if used]  # type: ignore[misc]
    if isinstance(method, NetworkMethod) and type(method).truth is NetworkMethod.truth:
        return [method.network]
    raise RatersError(
        f"found the method {type(method).__name__}, whose truth is not the output of one network "
        "or a mean of several, expected one that can be exported",
        kind="export",
    )

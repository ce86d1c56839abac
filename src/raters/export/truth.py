"""What is exported of a model: its truth network, what users must know of it, and a check."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raters.errors import RatersError
from raters.export.network import ExportNetwork, Place, goes_inside, normalising_layer
from raters.methods.base import Method
from raters.networks.backbone import TruthNetwork
from raters.training.config import ModelConfig
from raters.training.model import Model
from raters.version import __version__

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
    largest, normalise = 0.0, truth.config.normaliser()
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

"""All truth networks: by name, with their defaults, or the user's own; and which suits the data."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn

from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters.learning.networks.backbone import Backbone
from raters.learning.networks.backbones import BLOCKS, CNN, MLP, PatchCNN, ResNet, SegResNet, UNet
from raters.learning.networks.options import (
    NetworkOptions,
    Norm,
    Own,
    allowed,
    network_error,
    own_name,
)

_STEPS = (1, 2, 4, 8, 16, 32, 64)
_SIDE = 33  # pixels of the smallest image that is tried


class OwnBackbone(Backbone):
    """A user's module as a backbone.

    The module takes images `(batch, channels, *space)` and gives features `(batch, features,
    *space)` at full resolution, or `(batch, features)` where whole images are classified. Heads for
    classes and raters are added behind it, so that `features` may be any number; a network that
    ends in logits works too. It may have attributes `divisor` (each side must be a multiple of it)
    and `least` (the smallest side); without them, the smallest divisor that works is found by
    trying. One that works for no such size, but for `size`, takes images of that size only.

    Args:
        net: The module.
        name: What it is called in messages.
        channels: Channels of an image, or the number of features.
        spatial_dims: Spatial axes of an image.
        dense: Whether features of each pixel are needed.
        size: The sides of the images or patches that are trained on, if they are known.

    Raises:
        RatersError: that shows the shape found and expected.

    Example:
        >>> net = OwnBackbone(nn.Conv2d(1, 6, 3, padding=1), "net", 1, 2, dense=True)
        >>> net.features, net.divisor, net(torch.zeros(2, 1, 5, 7)).shape
        (6, 1, torch.Size([2, 6, 5, 7]))
    """

    def __init__(
        self,
        net: nn.Module,
        name: str,
        channels: int,
        spatial_dims: int,
        dense: bool,
        size: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.net = net
        self.dense = dense
        self._name = name
        self._fixed: tuple[int, ...] = ()  # the only size that it takes
        given = getattr(net, "divisor", None)
        steps = _STEPS if given is None and spatial_dims else (int(given or 1),)
        failures: list[RatersError] = []
        for step in steps:
            count = -(-_SIDE // step)  # sides are odd multiples of the step
            space = (step * (count + 1 - count % 2),) * spatial_dims
            try:
                self.features = _features(net, name, channels, space, dense)
            except RatersError as error:
                failures.append(error)
                continue
            self.divisor = step
            self.least = int(getattr(net, "least", 2 * step if step > 1 else 1))
            break
        if size and (step == 1 or len(failures) == len(steps)):
            with suppress(RatersError):  # then only what was found above is known
                found = _features(net, name, channels, size, dense)
                if len(failures) == len(steps) or found != self.features:
                    self.features = found
                    self._fixed = size
                    failures = []
        if len(failures) == len(steps):
            raise failures[0]

    def forward(self, image: Tensor) -> Tensor:
        """Return what the module gives."""
        if self._fixed and tuple(image.shape[2:]) != self._fixed:
            raise network_error(
                f"found an image of {tuple(image.shape[2:])} pixels, expected {self._fixed}: the "
                f"network {self._name!r} takes no other size"
            )
        features: Tensor = self.net(image)
        return features


def _features(net: nn.Module, name: str, channels: int, space: tuple[int, ...], dense: bool) -> int:
    """Run the module on an empty image, and return how many features it gives."""
    first = next(iter(net.parameters()), torch.zeros(()))
    image = torch.zeros(2, channels, *space, device=first.device)
    expected = f"(2, features{''.join(f', {side}' for side in space) if dense else ''})"
    asked = f"an image of shape {tuple(image.shape)}"
    before = net.training
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            found = net.eval()(image)
    except Exception as error:  # whatever a module of the user's may raise
        why = " ".join(str(error).split())[:300]
        raise network_error(
            f"found {type(error).__name__} when the network {name!r} was given {asked} ({why}), "
            f"expected features of shape {expected}"
        ) from None
    finally:
        net.train(before)
    shape = tuple(found.shape) if isinstance(found, Tensor) else ()
    if shape[:1] + shape[2:] != (2, *(space if dense else ())):
        raise network_error(
            f"found {shape or type(found).__name__} as the output of the network {name!r} for "
            f"{asked}, expected {expected}"
        )
    if found.dtype != image.dtype:
        raise network_error(
            f"found an output of type {found.dtype} of the network {name!r} for {asked}, expected "
            f"{image.dtype}: --precision chooses the type that it computes in"
        )
    return shape[1]


def maker(network: Own, in_channels: int, spatial_dims: int) -> Callable[[], nn.Module]:
    """Return a function that makes one more of the user's networks.

    A module is copied with its weights. A factory is called with those of `in_channels` and
    `spatial_dims` that it takes.

    Raises:
        RatersError: It cannot be imported, or is no factory.
    """
    if isinstance(network, nn.Module):
        return lambda: copy.deepcopy(network)
    name = own_name(network)
    factory = _imported(network) if isinstance(network, str) else network
    if not callable(factory):
        raise network_error(
            f"found {type(factory).__name__} as the network {name!r}, expected a torch module, or "
            "a function or class that makes one"
        )
    known = {"in_channels": in_channels, "spatial_dims": spatial_dims}
    return lambda: _made(factory, name, known)


def _made(factory: Callable[..., Any], name: str, known: dict[str, int]) -> nn.Module:
    takes = inspect.signature(factory).parameters
    try:
        made = factory(**{key: value for key, value in known.items() if key in takes})
    except Exception as error:
        raise network_error(
            f"found {type(error).__name__} when the network {name!r} was made ({error}), expected "
            f"a module; a factory may take {' and '.join(known)}, and nothing else without default"
        ) from error
    if not isinstance(made, nn.Module):
        raise network_error(
            f"found {type(made).__name__} made by {name!r}, expected a torch module"
        )
    return made


def _imported(name: str) -> object:
    """Import 'package.module:factory', from the current folder where it is nowhere else."""
    module, _, path = name.partition(":")
    here = os.getcwd()  # noqa: PTH109
    try:
        found: object = None
        try:
            found = import_module(module)
        except ModuleNotFoundError:
            if here in sys.path:
                raise
            sys.path.append(here)
            found = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a module of the user's may raise
        raise network_error(
            f"found {type(error).__name__} on importing the network {name!r} ({error}), expected "
            "package.module:factory"
        ) from error
    return found


SMALL_IMAGE = 64  # pixels per side up to which the small network sees enough of an image
# Below so many pixels along the shortest side a U-Net has so many levels.
_LEVELS_2D = ((16, 2), (64, 3), (256, 4))
_LEVELS_3D = ((16, 3),)


@dataclass(frozen=True)
class NetworkKind:
    """A network that can be had by name.

    Args:
        build: Makes it.
        dense: Whether it gives features at each pixel (for segmentation), or of whole images.
        spatial_dims: The numbers of spatial axes that it can take; 0 is a feature vector.
        width: Its default.
        depth: Its default.
        norm: Its default.
        depths: The depths that it can have, if not any.
    """

    build: Callable[..., Backbone]
    dense: bool
    spatial_dims: tuple[int, ...]
    width: int
    depth: int
    norm: Norm
    depths: tuple[int, ...] | None = None

    def filled(self, options: NetworkOptions, **suits: Any) -> NetworkOptions:  # noqa: ANN401
        """Return options with nothing left open: as given, as suits the data, or the default.

        Raises:
            RatersError: The network cannot have that depth.
        """
        own = {size: getattr(self, size) for size in ("width", "depth", "norm")}
        own |= {size: value for size, value in suits.items() if value is not None}
        full = options.model_copy(
            update={k: value for k, value in own.items() if getattr(options, k) is None}
        )
        least = 0 if self.spatial_dims == (0,) else 1
        depth = full.depth or 0
        if depth not in (self.depths or (max(depth, least),)):
            expected = " or ".join(map(str, self.depths or (f"at least {least}",)))
            raise network_error(
                f"found depth {full.depth} for the network '{full.name}', expected {expected}"
            )
        return full


_LARGE = partial(ResNet, coarse=True)

NETWORKS: dict[str, NetworkKind] = {
    "unet": NetworkKind(UNet, True, (2, 3), 16, 4, "instance"),
    "segresnet": NetworkKind(SegResNet, True, (2, 3), 16, 4, "group"),
    "patch-cnn": NetworkKind(PatchCNN, True, (2, 3), 32, 2, "instance"),
    "cnn": NetworkKind(CNN, False, (2, 3), 32, 2, "none", (2, 3)),
    "resnet": NetworkKind(ResNet, False, (2, 3), 64, 50, "group", tuple(BLOCKS)),
    "resnet-large": NetworkKind(_LARGE, False, (2, 3), 64, 50, "group", tuple(BLOCKS)),
    "mlp": NetworkKind(MLP, False, (0,), 128, 1, "none"),
}


def build_backbone(
    options: NetworkOptions,
    channels: int,
    spatial_dims: int,
    *,
    dense: bool | None = None,
    own: Own | None = None,
    size: tuple[int, ...] | None = None,
) -> Backbone:
    """Make a network with fresh weights, drawn from torch's global seed.

    Args:
        options: Which one; what is None is the network's own default.
        channels: Channels of the image, or the number of features.
        spatial_dims: Spatial axes of the image; 0 for feature vectors.
        dense: Whether a network of the user's own is to give features of each pixel; by default
            wherever there are spatial axes.
        own: That network, where the name is not one of `NETWORKS` and was not `allowed` before.
        size: The sides that it is tried with, if it takes no others.

    Raises:
        RatersError: No network has that name, it cannot take such images, or a size is impossible.

    Example:
        >>> build_backbone(NetworkOptions("mlp"), channels=20, spatial_dims=0).features
        128
    """
    name = options.name
    if channels < 1:
        raise network_error(f"found {channels} channels, expected at least 1")
    if ":" in name:
        dense = spatial_dims > 0 if dense is None else dense
        make = maker(allowed(name) if own is None else own, channels, spatial_dims)
        with torch.device("cpu"):  # it is tried out, also where others are only outlined
            return OwnBackbone(make(), name, channels, spatial_dims, dense, size)
    if name not in NETWORKS:
        known = expected_one_of([*NETWORKS, "package.module:factory"], name)
        raise network_error(f"found the network {name!r}, {known}")
    entry = NETWORKS[name]
    if spatial_dims not in entry.spatial_dims:
        others = [other for other, kind in NETWORKS.items() if spatial_dims in kind.spatial_dims]
        raise network_error(
            f"found {_data(spatial_dims)} for the network '{name}', expected "
            f"{' or '.join(_data(axes) for axes in entry.spatial_dims)}; "
            f"{', '.join(others) or 'no network'} can take {_data(spatial_dims)}"
        )
    sizes = entry.filled(options).model_dump(exclude={"name"})
    return entry.build(channels, spatial_dims, **sizes)


def _data(spatial_dims: int) -> str:
    return "feature vectors" if spatial_dims == 0 else f"{spatial_dims}D images"


def choose_network(
    kind: Literal["segmentation", "classification"], channels: int, shape: tuple[int, ...]
) -> NetworkOptions:
    """Choose a network by what the data looks like.

    Feature vectors get a perceptron with a hidden layer, small images that are classified as a
    whole the small CNN of global-cm, larger ones a ResNet of 18 layers. Masks are drawn by a U-Net
    that has more levels the larger the images are.

    Args:
        kind: What is wanted.
        channels: Channels of the image, or the number of features.
        shape: Pixels along each spatial axis (of a patch, if patches are trained on); `()` for
            feature vectors.

    Example:
        >>> choose_network("segmentation", channels=1, shape=(28, 28)).depth
        3
        >>> choose_network("classification", channels=3, shape=(224, 224)).name
        'resnet-large'
    """
    if channels < 1 or any(side < 1 for side in shape):
        raise network_error(
            f"found images of {channels} channels and {shape} pixels, expected at least 1 of each"
        )
    if kind == "segmentation":
        if not shape:
            raise network_error("found feature vectors, expected images to segment")
        if len(shape) == 3:
            table: tuple[tuple[int, int], ...] = _LEVELS_3D
            most = 4
        else:
            table = _LEVELS_2D
            most = 5
        levels = next((levels for below, levels in table if min(shape) < below), most)
        return NetworkOptions("unet", width=16, depth=levels)
    if not shape:
        return NetworkOptions("mlp")
    if max(shape) <= SMALL_IMAGE:
        return NetworkOptions("cnn")
    return NetworkOptions("resnet-large", depth=18)

"""All truth networks by name, with their defaults, and the one that suits the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch

from raters.errors import RatersError
from raters.networks.backbone import Backbone
from raters.networks.cnn import CNN
from raters.networks.mlp import MLP
from raters.networks.options import NetworkOptions, Norm, Own, allowed
from raters.networks.own import OwnBackbone, maker
from raters.networks.patch_cnn import PatchCNN
from raters.networks.resnet import BLOCKS, ResNet
from raters.networks.segresnet import SegResNet
from raters.networks.unet import UNet

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
            raise RatersError(
                f"found depth {full.depth} for the network '{full.name}', expected {expected}",
                kind="network",
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
        raise RatersError(f"found {channels} channels, expected at least 1", kind="network")
    if ":" in name:
        dense = spatial_dims > 0 if dense is None else dense
        make = maker(allowed(name) if own is None else own, channels, spatial_dims)
        with torch.device("cpu"):  # it is tried out, also where others are only outlined
            return OwnBackbone(make(), name, channels, spatial_dims, dense, size)
    if name not in NETWORKS:
        known = ", ".join(NETWORKS)
        raise RatersError(
            f"found the network '{name}', expected one of {known}, or package.module:factory",
            kind="network",
        )
    entry = NETWORKS[name]
    if spatial_dims not in entry.spatial_dims:
        raise RatersError(
            f"found {_data(spatial_dims)} for the network '{name}', expected "
            f"{' or '.join(_data(axes) for axes in entry.spatial_dims)}; {_others(spatial_dims)}",
            kind="network",
        )
    sizes = entry.filled(options).model_dump(exclude={"name"})
    return entry.build(channels, spatial_dims, **sizes)


def _data(spatial_dims: int) -> str:
    return "feature vectors" if spatial_dims == 0 else f"{spatial_dims}D images"


def _others(spatial_dims: int) -> str:
    names = [name for name, entry in NETWORKS.items() if spatial_dims in entry.spatial_dims]
    return f"{', '.join(names) or 'no network'} can take {_data(spatial_dims)}"


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
        raise RatersError(
            f"found images of {channels} channels and {shape} pixels, expected at least 1 of each",
            kind="network",
        )
    if kind == "segmentation":
        return NetworkOptions("unet", width=16, depth=_levels(shape))
    if not shape:
        return NetworkOptions("mlp")
    if max(shape) <= SMALL_IMAGE:
        return NetworkOptions("cnn")
    return NetworkOptions("resnet-large", depth=18)


def _levels(shape: tuple[int, ...]) -> int:
    if not shape:
        raise RatersError("found feature vectors, expected images to segment", kind="network")
    table, most = (_LEVELS_3D, 4) if len(shape) == 3 else (_LEVELS_2D, 5)
    return next((levels for below, levels in table if min(shape) < below), most)

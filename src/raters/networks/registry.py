"""All truth networks by name, with their defaults; a new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from raters.errors import RatersError
from raters.networks.backbone import Backbone
from raters.networks.cnn import CNN
from raters.networks.mlp import MLP
from raters.networks.options import NORMS, NetworkOptions, Norm, Settings
from raters.networks.patch_cnn import PatchCNN
from raters.networks.resnet import BLOCKS, ResNet
from raters.networks.segresnet import SegResNet
from raters.networks.unet import UNet


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

    build: Callable[[Settings], Backbone]
    dense: bool
    spatial_dims: tuple[int, ...]
    width: int
    depth: int
    norm: Norm
    depths: tuple[int, ...] | None = None


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


def build_backbone(options: NetworkOptions, channels: int, spatial_dims: int) -> Backbone:
    """Make a network with fresh weights, drawn from torch's global seed.

    Args:
        options: Which one; what is None is the network's own default.
        channels: Channels of the image, or the number of features.
        spatial_dims: Spatial axes of the image; 0 for feature vectors.

    Raises:
        RatersError: No network has that name, it cannot take such images, or a size is impossible.

    Example:
        >>> build_backbone(NetworkOptions("mlp"), channels=20, spatial_dims=0).features
        128
    """
    name = options.name
    if name not in NETWORKS:
        known = ", ".join(NETWORKS)
        raise RatersError(f"found the network '{name}', expected one of {known}", kind="network")
    entry = NETWORKS[name]
    if spatial_dims not in entry.spatial_dims:
        raise RatersError(
            f"found {_data(spatial_dims)} for the network '{name}', expected "
            f"{' or '.join(_data(axes) for axes in entry.spatial_dims)}; {_others(spatial_dims)}",
            kind="network",
        )
    if channels < 1:
        raise RatersError(f"found {channels} channels, expected at least 1", kind="network")
    settings = Settings(
        channels=channels,
        spatial_dims=spatial_dims,
        width=_at_least(1, entry.width if options.width is None else options.width, "width", name),
        depth=_depth(options, entry),
        norm=_norm(options.norm or entry.norm),
        dropout=_dropout(options.dropout),
    )
    return entry.build(settings)


def _depth(options: NetworkOptions, entry: NetworkKind) -> int:
    depth = entry.depth if options.depth is None else options.depth
    if entry.depths is not None and depth not in entry.depths:
        expected = " or ".join(map(str, entry.depths))
        raise RatersError(
            f"found depth {depth} for the network '{options.name}', expected {expected}",
            kind="network",
        )
    return _at_least(0 if entry.spatial_dims == (0,) else 1, depth, "depth", options.name)


def _at_least(least: int, value: int, what: str, name: str) -> int:
    if value < least:
        raise RatersError(
            f"found {what} {value} for the network '{name}', expected at least {least}",
            kind="network",
        )
    return value


def _norm(norm: Norm) -> Norm:
    if norm not in NORMS:
        raise RatersError(
            f"found the norm '{norm}', expected one of {', '.join(NORMS)}", kind="network"
        )
    return norm


def _dropout(dropout: float) -> float:
    if not 0 <= dropout < 1:
        raise RatersError(
            f"found dropout {dropout}, expected at least 0 and less than 1", kind="network"
        )
    return dropout


def _data(spatial_dims: int) -> str:
    return "feature vectors" if spatial_dims == 0 else f"{spatial_dims}D images"


def _others(spatial_dims: int) -> str:
    names = [name for name, entry in NETWORKS.items() if spatial_dims in entry.spatial_dims]
    return f"{', '.join(names) or 'no network'} can take {_data(spatial_dims)}"

"""Which network and how large, as plain data; None leaves it to the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Norm = Literal["instance", "group", "none"]
NORMS: tuple[Norm, ...] = ("instance", "group", "none")


@dataclass(frozen=True)
class NetworkOptions:
    """A network by name.

    There is no batch norm: it is not synchronised between processes on the CPU, and its running
    averages mix raters' images of different scanners. Instance and group norm know one image only.

    Args:
        name: A name in `NETWORKS`.
        width: Channels of the first level (of a hidden layer for `mlp`).
        depth: Levels of resolution; for `resnet` the number of layers, for `mlp` hidden layers.
        norm: How features are normalised. `mlp` has no norm and takes no notice.
        dropout: The share of features left out in training.

    Example:
        >>> NetworkOptions("unet", depth=3)
        NetworkOptions(name='unet', width=None, depth=3, norm=None, dropout=0.0)
    """

    name: str
    width: int | None = None
    depth: int | None = None
    norm: Norm | None = None
    dropout: float = 0.0


@dataclass(frozen=True)
class Settings:
    """What a network is built from: options with nothing left open.

    Args:
        channels: Channels of the image, or the number of features.
        spatial_dims: Spatial axes of the image.
        width: As in `NetworkOptions`.
        depth: As in `NetworkOptions`.
        norm: As in `NetworkOptions`.
        dropout: As in `NetworkOptions`.
    """

    channels: int
    spatial_dims: int
    width: int
    depth: int
    norm: Norm
    dropout: float

"""Which network and how large, checked here and nowhere else; no torch is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raters.core.errors import RatersError
from raters.core.wording import worded

if TYPE_CHECKING:
    from torch import nn

Width = Annotated[int | None, Field(ge=1, description="channels of the network's first level")]
Depth = Annotated[int | None, Field(ge=0, description="levels of the network")]
Norm = Literal["instance", "group", "none"]
NormOrNone = Annotated[
    Norm | None, Field(description="what normalises features; None: the network's own")
]
Dropout = Annotated[float, Field(ge=0, lt=1, description="share of features left out in training")]


class NetworkOptions(BaseModel):
    """A network by name; what is None is left to the network.

    There is no batch norm: it is not synchronised between processes on the CPU, and its running
    averages mix raters' images of different scanners. Instance and group norm know one image only.

    Args:
        name: A name in `NETWORKS`, or 'package.module:factory' for a network of the user's own.
        width: Channels of the first level (of a hidden layer for `mlp`).
        depth: Levels of resolution; for `resnet` the number of layers, for `mlp` hidden layers.
        norm: How features are normalised. `mlp` has no norm and takes no notice.
        dropout: The share of features left out in training.

    Raises:
        RatersError: that names the size, the value found and what was expected.

    Example:
        >>> NetworkOptions("unet", depth=3)
        NetworkOptions(name='unet', width=None, depth=3, norm=None, dropout=0.0)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str
    width: Width = None
    depth: Depth = None
    norm: NormOrNone = None
    dropout: Dropout = 0.0

    def __init__(
        self,
        name: str,
        width: int | None = None,
        depth: int | None = None,
        norm: str | None = None,
        dropout: float = 0.0,
        **unknown: Any,  # noqa: ANN401
    ) -> None:
        sizes = {"width": width, "depth": depth, "norm": norm, "dropout": dropout}
        try:
            super().__init__(name=name, **sizes, **unknown)
        except ValidationError as error:
            raise network_error(f"{worded(error)} (network {name!r})") from None


def network_error(message: str) -> RatersError:
    """Return the error of a network that cannot be had, or be used for these data."""
    return RatersError(message, kind="network")


Own = Union[str, "nn.Module", Callable[..., "nn.Module"]]
"""'package.module:factory', a module, or a function or class that makes one."""

_allowed: dict[str, Own] = {}


def is_own(network: object) -> bool:
    """Return whether this is a network of the user's own, and not a name in `NETWORKS`.

    Example:
        >>> is_own("unet"), is_own("my_package.nets:make"), is_own(None)
        (False, True, False)
    """
    return ":" in network if isinstance(network, str) else callable(network)


def own_name(network: Own) -> str:
    """Return the name that a run remembers: 'package.module:factory'."""
    if isinstance(network, str):
        return network
    made = network if inspect.isroutine(network) or inspect.isclass(network) else type(network)
    return f"{made.__module__}:{made.__qualname__}"


def allow(network: Own) -> None:
    """Let this process build a network of one's own when a model folder names it.

    Loading a model folder never runs code that the folder names: whoever opens it says what may be
    imported, here or by `raters.load(folder, network=...)` (`--network` on the command line).

    Args:
        network: 'package.module:factory', or what was given to `raters.fit`.
    """
    _allowed[own_name(network)] = network


@contextmanager
def allowing(network: Own | None) -> Iterator[None]:
    """Allow a network within a block only; None allows nothing more."""
    before = dict(_allowed)
    if network is not None:
        allow(network)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


def allowed(name: str) -> Own:
    """Return the network that was allowed under a name.

    Raises:
        RatersError: Nobody allowed it.
    """
    if name not in _allowed:
        raise RatersError(
            f"found the network {name!r}, which is not part of raters, expected leave to import "
            f"and run it: --network {name}, or network=... in Python",
            kind="own-network",
        )
    return _allowed[name]

"""The user's own network: made from a module or factory, tried out, and wrapped as a backbone."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from raters.errors import RatersError
from raters.networks.backbone import Backbone
from raters.networks.options import Own, own_name

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
        self.net, self.dense = net, dense
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
                    self.features, self._fixed, failures = found, size, []
        if len(failures) == len(steps):
            raise failures[0]

    def forward(self, image: Tensor) -> Tensor:
        """Return what the module gives."""
        if self._fixed and tuple(image.shape[2:]) != self._fixed:
            raise RatersError(
                f"found an image of {tuple(image.shape[2:])} pixels, expected {self._fixed}: the "
                f"network {self._name!r} takes no other size",
                kind="network",
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
        raise RatersError(
            f"found {type(error).__name__} when the network {name!r} was given {asked} ({why}), "
            f"expected features of shape {expected}",
            kind="network",
        ) from None
    finally:
        net.train(before)
    shape = tuple(found.shape) if isinstance(found, Tensor) else ()
    if shape[:1] + shape[2:] != (2, *(space if dense else ())):
        raise RatersError(
            f"found {shape or type(found).__name__} as the output of the network {name!r} for "
            f"{asked}, expected {expected}",
            kind="network",
        )
    if found.dtype != image.dtype:
        raise RatersError(
            f"found an output of type {found.dtype} of the network {name!r} for {asked}, expected "
            f"{image.dtype}: --precision chooses the type that it computes in",
            kind="network",
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
        raise RatersError(
            f"found {type(factory).__name__} as the network {name!r}, expected a torch module, or "
            "a function or class that makes one",
            kind="network",
        )
    known = {"in_channels": in_channels, "spatial_dims": spatial_dims}
    return lambda: _made(factory, name, known)


def _made(factory: Callable[..., Any], name: str, known: dict[str, int]) -> nn.Module:
    takes = inspect.signature(factory).parameters
    try:
        made = factory(**{key: value for key, value in known.items() if key in takes})
    except Exception as error:
        raise RatersError(
            f"found {type(error).__name__} when the network {name!r} was made ({error}), expected "
            f"a module; a factory may take {' and '.join(known)}, and nothing else without default",
            kind="network",
        ) from error
    if not isinstance(made, nn.Module):
        raise RatersError(
            f"found {type(made).__name__} made by {name!r}, expected a torch module", kind="network"
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
        raise RatersError(
            f"found {type(error).__name__} on importing the network {name!r} ({error}), expected "
            "package.module:factory",
            kind="network",
        ) from error
    return found

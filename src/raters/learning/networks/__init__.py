"""Truth networks: what gives p(truth | image). Backbones by name, and the head that all share."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raters.learning.networks.options import NetworkOptions, allow

if TYPE_CHECKING:
    from raters.learning.networks.backbone import Backbone, TruthNetwork, parameter_count
    from raters.learning.networks.registry import NETWORKS, build_backbone, choose_network

__all__ = [
    "NETWORKS",
    "Backbone",
    "NetworkOptions",
    "TruthNetwork",
    "allow",
    "build_backbone",
    "choose_network",
    "parameter_count",
]
_SHARED = ("Backbone", "TruthNetwork", "parameter_count")


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what needs torch when it is first used: options are checked without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "backbone" if name in _SHARED else "registry"
    return getattr(import_module(f"{__name__}.{module}"), name)

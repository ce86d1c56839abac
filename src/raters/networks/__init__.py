"""Truth networks: what gives p(truth | image). Backbones by name, and the head that all share."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raters.networks.options import NetworkOptions, allow

if TYPE_CHECKING:
    from raters.networks.backbone import Backbone
    from raters.networks.layers import parameter_count
    from raters.networks.registry import NETWORKS, build_backbone, choose_network
    from raters.networks.truth import TruthNetwork

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
_WHERE = {"Backbone": "backbone", "parameter_count": "layers", "TruthNetwork": "truth"}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what needs torch when it is first used: options are checked without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'registry')}"), name)

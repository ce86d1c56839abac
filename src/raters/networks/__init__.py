"""Truth networks: what gives p(truth | image). Backbones by name, and the head that all share."""

from raters.networks.backbone import Backbone
from raters.networks.choose import choose_network
from raters.networks.layers import parameter_count
from raters.networks.options import NetworkOptions
from raters.networks.registry import NETWORKS, build_backbone
from raters.networks.truth import TruthNetwork

__all__ = [
    "NETWORKS",
    "Backbone",
    "NetworkOptions",
    "TruthNetwork",
    "build_backbone",
    "choose_network",
    "parameter_count",
]

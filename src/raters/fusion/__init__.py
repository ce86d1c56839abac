"""Consensus from labels alone: one file per method, each a function of its own name.

raters.fusion.staple(labels, num_classes=2)                 # one case, `(raters, *space)`
raters.fuse(study, raters.fusion.StapleOptions(restrict=True))
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from raters.fusion.methods import METHODS, FusionOptions, Method, options_class
from raters.rooms import Room

if TYPE_CHECKING:
    from raters.fusion.consensus import Consensus, fuse
    from raters.fusion.dawid_skene import dawid_skene
    from raters.fusion.methods import options_of
    from raters.fusion.one_coin import one_coin
    from raters.fusion.result import Fusion
    from raters.fusion.simple import simple
    from raters.fusion.spatial_staple import spatial_staple
    from raters.fusion.staple import staple
    from raters.fusion.vote import mean, vote
    from raters.fusion.write import write_consensus

    # As keyword arguments of the functions, for completion; checked when they are used.
    VoteOptions, MeanOptions = options_of(vote), options_of(mean)
    StapleOptions, SpatialStapleOptions = options_of(staple), options_of(spatial_staple)
    DawidSkeneOptions, OneCoinOptions = options_of(dawid_skene), options_of(one_coin)
    SimpleOptions = options_of(simple)

__all__ = [
    "METHODS",
    "Consensus",
    "DawidSkeneOptions",
    "Fusion",
    "FusionOptions",
    "MeanOptions",
    "Method",
    "OneCoinOptions",
    "SimpleOptions",
    "SpatialStapleOptions",
    "StapleOptions",
    "VoteOptions",
    "dawid_skene",
    "fuse",
    "mean",
    "one_coin",
    "simple",
    "spatial_staple",
    "staple",
    "vote",
    "write_consensus",
]

_WHERE = {
    "Consensus": "raters.fusion.consensus",
    "Fusion": "raters.fusion.result",
    "fuse": "raters.fusion.consensus",
    "mean": "raters.fusion.vote",
    "write_consensus": "raters.fusion.write",
}

sys.modules[__name__].__class__ = Room


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    for method in METHODS:
        if name == options_class(method):
            return METHODS[method].options_maker(method)
    if name in __all__:
        return import_module(f"raters.fusion.{name}")
    raise AttributeError(f"module 'raters.fusion' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "methods"]

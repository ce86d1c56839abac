"""Consensus from labels alone: one file per method, each a function of its own name.

raters.fusion.staple(labels, num_classes=2)                 # one case, `(raters, *space)`
raters.fuse(study, raters.fusion.StapleOptions(restrict=True))
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from raters.fusion.methods import METHODS as METHODS
from raters.fusion.methods import FusionOptions as FusionOptions
from raters.fusion.methods import Method as Method
from raters.fusion.methods import options_class, options_of
from raters.rooms import Room

if TYPE_CHECKING:
    from raters.consensus.consensus import Consensus as Consensus
    from raters.fusion._dawid_skene import dawid_skene as dawid_skene
    from raters.fusion._dawid_skene import one_coin as one_coin
    from raters.fusion._grabcut import grabcut as grabcut
    from raters.fusion._hierarchical import hierarchical as hierarchical
    from raters.fusion._lazy_snapping import lazy_snapping as lazy_snapping
    from raters.fusion._simple import simple as simple
    from raters.fusion._spatial_staple import spatial_staple as spatial_staple
    from raters.fusion._staple import staple as staple
    from raters.fusion._vote import mean as mean
    from raters.fusion._vote import vote as vote
    from raters.fusion.result import Fusion as Fusion

    # As keyword arguments of the functions, for completion; checked when they are used.
    VoteOptions, MeanOptions = options_of(vote), options_of(mean)
    StapleOptions, SpatialStapleOptions = options_of(staple), options_of(spatial_staple)
    DawidSkeneOptions, OneCoinOptions = options_of(dawid_skene), options_of(one_coin)
    HierarchicalOptions, SimpleOptions = options_of(hierarchical), options_of(simple)
    GrabcutOptions, LazySnappingOptions = options_of(grabcut), options_of(lazy_snapping)

_WHERE = {"Consensus": "consensus", "Fusion": "result", "mean": "vote"}

sys.modules[__name__].__class__ = Room


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _WHERE:
        return getattr(import_module(f"raters.fusion.{_WHERE[name]}"), name)
    for method, entry in METHODS.items():
        if name == options_class(method):
            return options_of(entry.function(entry.kinds[-1]), method)
        if name == method.replace("-", "_"):
            return import_module(f"raters.fusion.{name}")
    raise AttributeError(f"module 'raters.fusion' has no attribute {name!r}")


def __dir__() -> list[str]:
    methods = [name for m in METHODS for name in (m.replace("-", "_"), options_class(m))]
    return sorted({"METHODS", "Method", *_WHERE, *methods})

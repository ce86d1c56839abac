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
    from raters.fusion.consensus import Consensus as Consensus
    from raters.fusion.dawid_skene import dawid_skene as dawid_skene
    from raters.fusion.dawid_skene import one_coin as one_coin
    from raters.fusion.grabcut import grabcut as grabcut
    from raters.fusion.hierarchical import hierarchical as hierarchical
    from raters.fusion.lazy_snapping import lazy_snapping as lazy_snapping
    from raters.fusion.result import Fusion as Fusion
    from raters.fusion.simple import simple as simple
    from raters.fusion.spatial_staple import spatial_staple as spatial_staple
    from raters.fusion.staple import staple as staple
    from raters.fusion.vote import mean as mean
    from raters.fusion.vote import vote as vote

    # As keyword arguments of the functions, for completion; checked when they are used.
    VoteOptions = options_of(vote)
    MeanOptions = options_of(mean)
    StapleOptions = options_of(staple)
    SpatialStapleOptions = options_of(spatial_staple)
    DawidSkeneOptions = options_of(dawid_skene)
    OneCoinOptions = options_of(one_coin)
    HierarchicalOptions = options_of(hierarchical)
    SimpleOptions = options_of(simple)
    GrabcutOptions = options_of(grabcut)
    LazySnappingOptions = options_of(lazy_snapping)

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

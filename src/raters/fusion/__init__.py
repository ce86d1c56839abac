"""Consensus from labels alone: one file per method, each a function of arrays.

raters.fusion.staple(labels, num_classes=2)                 # one case, `(raters, *space)`
raters.fuse(study, raters.fusion.StapleOptions(restrict=True))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raters.fusion.methods import METHODS as METHODS
from raters.fusion.methods import FusionOptions as FusionOptions
from raters.fusion.methods import Method as Method
from raters.fusion.methods import options_class, options_of

if TYPE_CHECKING:
    from raters.fusion._dawid_skene import dawid_skene as dawid_skene
    from raters.fusion._dawid_skene import one_coin as one_coin
    from raters.fusion._grabcut import grabcut as grabcut
    from raters.fusion._hierarchical import hierarchical as hierarchical
    from raters.fusion._lazy_snapping import lazy_snapping as lazy_snapping
    from raters.fusion._simple import simple as simple
    from raters.fusion._spatial_staple import local_accuracy as local_accuracy
    from raters.fusion._spatial_staple import spatial_staple as spatial_staple
    from raters.fusion._staple import staple as staple
    from raters.fusion._vote import mean as mean
    from raters.fusion._vote import vote as vote
    from raters.fusion.result import Fusion as Fusion

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

# Names are imported when they are first used: a method may need what others do not.
_MODULE_OF_NAME = {
    "Fusion": "raters.fusion.result",
    "dawid_skene": "raters.fusion._dawid_skene",
    "grabcut": "raters.fusion._grabcut",
    "hierarchical": "raters.fusion._hierarchical",
    "lazy_snapping": "raters.fusion._lazy_snapping",
    "local_accuracy": "raters.fusion._spatial_staple",
    "mean": "raters.fusion._vote",
    "one_coin": "raters.fusion._dawid_skene",
    "simple": "raters.fusion._simple",
    "spatial_staple": "raters.fusion._spatial_staple",
    "staple": "raters.fusion._staple",
    "vote": "raters.fusion._vote",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _MODULE_OF_NAME:
        module = import_module(_MODULE_OF_NAME[name])
        return getattr(module, name)

    for method, entry in METHODS.items():
        if name == options_class(method):
            function = entry.function(entry.kinds[-1])
            return options_of(function, method)

    raise AttributeError(f"module 'raters.fusion' has no attribute {name!r}")


def __dir__() -> list[str]:
    options = [options_class(method) for method in METHODS]
    return sorted({"METHODS", "FusionOptions", "Method", *_MODULE_OF_NAME, *options})

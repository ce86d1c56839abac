"""Learning methods: how a truth network learns from raters who disagree."""

from raters.methods.entry import MethodEntry
from raters.methods.options import (
    AggNetOptions,
    CrowdLayerOptions,
    FusedOptions,
    GlobalOptions,
    LowRankOptions,
    MaxMigOptions,
    MethodOptions,
    OracleOptions,
    PixelOptions,
    SingleOptions,
    WdnOptions,
)
from raters.methods.registry import METHODS, learning_method

__all__ = [
    "METHODS",
    "AggNetOptions",
    "CrowdLayerOptions",
    "FusedOptions",
    "GlobalOptions",
    "LowRankOptions",
    "MaxMigOptions",
    "MethodEntry",
    "MethodOptions",
    "OracleOptions",
    "PixelOptions",
    "SingleOptions",
    "WdnOptions",
    "learning_method",
]

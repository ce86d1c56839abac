"""The learning methods by name; a new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from raters.errors import RatersError
from raters.methods import options as o

if TYPE_CHECKING:
    from raters.methods.base import Method

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class MethodEntry:
    """A learning method as it is listed.

    Attributes:
        about: What it does, in a few words.
        where: Where its class is, `module:name`; imported when it is used.
        options: The class of its options.
        fixed: Options that make the method what it is.
        raters: Whether it learns from raters; else a reference is enough.
    """

    about: str
    where: str
    options: type[o.MethodOptions] = o.MethodOptions
    fixed: Mapping[str, Any] = field(default_factory=dict)
    raters: bool = True

    def load(self) -> type[Method]:
        """Import the class."""
        module, name = self.where.split(":")
        found: type[Method] = getattr(import_module(module), name)
        return found

    def parse(self, given: Mapping[str, Any]) -> o.MethodOptions:
        """Check options and fill in the defaults.

        Raises:
            RatersError: that names the option, the value found and what was expected.
        """
        for name in given:
            if name in self.fixed:
                fixed = f"{name}={self.fixed[name]!r}"
                raise RatersError(f"found the option {name!r}, expected none: it is {fixed} here")
        return parse_options(self.options, {**self.fixed, **given})


def parse_options(model: type[T], given: Mapping[str, Any]) -> T:
    """Make options of a pydantic class; what is wrong with them is said in one sentence."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise RatersError(worded(error)) from None


def worded(error: ValidationError) -> str:
    """Say in one sentence what was found and what was expected first."""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or "the file"
    return f"found {name}={first.get('input')!r}, expected: {first['msg'].lower()}"


_FUSED = "raters.methods.supervised:FusedMethod"

METHODS: dict[str, MethodEntry] = {
    "vote": MethodEntry("train on the majority vote", _FUSED, o.FusedOptions, {"fusion": "vote"}),
    "mean": MethodEntry(
        "train on the mean label", _FUSED, o.FusedOptions, {"fusion": "mean", "soft": True}
    ),
    "staple": MethodEntry("train on STAPLE", _FUSED, o.FusedOptions, {"fusion": "staple"}),
    "spatial-staple": MethodEntry(
        "train on Spatial STAPLE", _FUSED, o.FusedOptions, {"fusion": "spatial-staple"}
    ),
    "dawid-skene": MethodEntry(
        "train on Dawid-Skene", _FUSED, o.FusedOptions, {"fusion": "dawid-skene"}
    ),
    "truth": MethodEntry(
        "train on the reference: the ceiling",
        "raters.methods.supervised:TruthMethod",
        raters=False,
    ),
    "separate": MethodEntry(
        "one network a rater, outputs averaged", "raters.methods.separate:Separate"
    ),
    "global-cm": MethodEntry(
        "one learnt matrix a rater", "raters.methods.global_cm:GlobalCM", o.ConfusionOptions
    ),
    "single-cm": MethodEntry(
        "one learnt matrix for all raters", "raters.methods.global_cm:SingleCM", o.ConfusionOptions
    ),
    "pixel-cm": MethodEntry(
        "matrices at each pixel", "raters.methods.pixel_cm:PixelCM", o.PixelOptions
    ),
    "low-rank-cm": MethodEntry(
        "low-rank matrices at each pixel", "raters.methods.pixel_cm:LowRankCM", o.LowRankOptions
    ),
    "oracle-cm": MethodEntry(
        "the raters' matrices are known",
        "raters.methods.oracle_cm:OracleCM",
        o.OracleOptions,
        {"trace": 0.0, "trace_over": "truth", "warm_up": 0, "warm_up_on": "labels", "right": 0.9},
    ),
}


def learning_method(name: str) -> MethodEntry:
    """Give a method by name.

    Raises:
        RatersError: that lists the names.

    Example:
        >>> learning_method("pixel-cm").about
        'matrices at each pixel'
    """
    if name not in METHODS:
        close = get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise RatersError(f"found the method {name!r}, expected one of {', '.join(METHODS)}{hint}")
    return METHODS[name]

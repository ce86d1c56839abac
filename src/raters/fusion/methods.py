"""The fusion methods by name; a new one is a file and a line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from raters.errors import RatersError
from raters.fusion.option_values import refuse_value
from raters.fusion.result import Fusion


@dataclass(frozen=True)
class Method:
    """A way to fuse labels.

    Attributes:
        about: What it does, in a few words.
        masks: Where the function for masks is, `module:name`; None if there is none.
        table: Where the function for tables is; None if there is none.
        pools: Whether the raters' matrices can be shared by all cases.
        fixed: Options of the function for masks that make the method what it is.
    """

    about: str
    masks: str | None = None
    table: str | None = None
    pools: bool = False
    fixed: Mapping[str, Any] | None = None

    def function(self, kind: str) -> Callable[..., Fusion]:
        """Return the function for masks ('segmentation') or tables ('classification')."""
        where = self.masks if kind == "segmentation" else self.table
        if where is None:
            what = "masks" if kind == "segmentation" else "tables"
            raise RatersError(
                f"found {what}, expected the other kind: this method does not take them"
            )
        module, name = where.split(":")
        function: Callable[..., Fusion] = getattr(import_module(module), name)
        return function

    def check_options(self, kind: str, options: Mapping[str, Any]) -> None:
        """Reject options that the method does not have, and values that they cannot have."""
        known = {
            name: inspect.formatannotation(p.annotation).strip("'")
            for name, p in inspect.signature(self.function(kind)).parameters.items()
            if p.kind is inspect.Parameter.KEYWORD_ONLY and name not in (self.fixed or {})
        }
        for name, value in options.items():
            if name not in known:
                listed = ", ".join(known) or "no options"
                raise RatersError(f"found the option {name!r}, expected one of: {listed}")
            refuse_value(name, value, known[name])


METHODS: dict[str, Method] = {
    "vote": Method("majority vote", "raters.fusion.vote:vote", "raters.fusion.table_vote:vote"),
    "mean": Method("mean label (soft)", "raters.fusion.vote:mean", "raters.fusion.table_vote:mean"),
    "staple": Method("one matrix per rater, EM", "raters.fusion.staple:staple", pools=True),
    "dawid-skene": Method(
        "STAPLE with the class prior estimated; tables",
        "raters.fusion.staple:staple",
        "raters.fusion.dawid_skene:dawid_skene",
        pools=True,
        fixed={"estimate_prior": True},
    ),
    "one-coin": Method("one accuracy per rater; tables", table="raters.fusion.one_coin:one_coin"),
    "spatial-staple": Method(
        "matrices that vary over the image", "raters.fusion.spatial_staple:spatial_staple"
    ),
    "simple": Method("votes by performance, the worst left out", "raters.fusion.simple:simple"),
}


def method_of(name: str) -> Method:
    """Return a method by name.

    Raises:
        RatersError: that lists the names.
    """
    if name not in METHODS:
        close = get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise RatersError(f"found the method {name!r}, expected one of {', '.join(METHODS)}{hint}")
    return METHODS[name]

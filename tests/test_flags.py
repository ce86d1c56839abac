"""What is switched on or off is said by name, wherever the documentation shows a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import raters

MODULES = (
    "raters",
    *(f"raters.{name}" for name in raters._PACKAGES),
    "raters.learning.evaluation",
    "raters.learning.export",
    "raters.learning.methods",
    "raters.learning.networks",
    "raters.learning.rater_models",
    "raters.metrics.confusion",
    "raters.views.plots",
    "raters_bench.run",
)
OWN = ("raters.", "raters_bench.")
SWITCH = ("bool", "bool | None")


def public(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return functions and methods that a module shows; fields of data classes are no options."""
    for name in getattr(module, "__all__", None) or dir(module):
        found = getattr(module, name)
        if name.startswith("_") or not str(getattr(found, "__module__", "")).startswith(OWN):
            continue
        if inspect.isfunction(found):
            yield name, found
        if inspect.isclass(found):
            yield from methods(name, found)


def methods(name: str, found: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return the public methods of a class, and how it is made."""
    for own, member in vars(found).items():
        plain = getattr(member, "__func__", member)
        made_by_hand = own == "__init__" and not is_dataclass(found)
        if inspect.isfunction(plain) and (made_by_hand or not own.startswith("_")):
            yield f"{name}.{own}", plain


def flags_by_place(function: Callable[..., Any]) -> list[str]:
    """Return the flags that may be given without their names."""
    return [
        given.name
        for given in inspect.signature(function).parameters.values()
        if given.kind is given.POSITIONAL_OR_KEYWORD
        and (str(given.annotation) in SWITCH or given.name == "progress")
    ]


@pytest.mark.parametrize("module", MODULES)
def test_flags_are_given_by_name(module: str) -> None:
    found = {name: flags_by_place(function) for name, function in public(import_module(module))}
    assert {name: flags for name, flags in found.items() if flags} == {}


def test_a_flag_without_its_name_is_refused() -> None:
    with pytest.raises(TypeError, match="positional"):
        raters.agree([[0, 1], [1, 1]], True)  # type: ignore[misc]

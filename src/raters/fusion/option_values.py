"""Which values an option of a fusion method can have, by the type that its function asks for."""

from __future__ import annotations

import math
import numbers
from typing import get_args

import numpy as np

from raters.errors import RatersError
from raters.fusion.vote import Ties

_LEAST = {
    "alpha": 0,
    "class_prior": 0,
    "max_iter": 1,
    "prior": 0,
    "prior_weight": 0,
    "smoothing": 0,
    "spacing": 0,
    "tol": 0,
    "window": 0,
}
"""The least value of options, by their names; options of your own methods may be anything."""


def refuse_value(name: str, value: object, asked: str) -> None:
    """Reject a value that an option cannot have.

    Args:
        name: The option.
        value: What was given.
        asked: The type as the function writes it: bool, int, float, with None where it may be
            left to the method; arrays and sequences are numbers in some order, `Ties` words.

    Raises:
        RatersError: that names the option, the value, and what is expected.

    Example:
        >>> refuse_value("max_iter", 5, "int")
        >>> refuse_value("max_iter", 0, "int")
        Traceback (most recent call last):
        raters.errors.RatersError: found max_iter=0, expected a whole number from 1 on
    """
    if value is None and asked.endswith("| None"):
        return
    kind, least = asked.removesuffix(" | None"), _LEAST.get(name, -math.inf)
    numeric = _numbers(value, least)
    if kind == "bool":
        fits, expected = isinstance(value, bool | np.bool_), "yes or no"
    elif kind == "int":
        fits, expected = numeric and isinstance(value, numbers.Integral), "a whole number"
    elif kind == "float":
        fits, expected = numeric and isinstance(value, numbers.Real), "a number"
    elif "NDArray" in kind or "ArrayLike" in kind or "Sequence" in kind:
        fits, expected = numeric, "numbers"
    elif kind == "Ties":
        fits, expected = value in get_args(Ties), f"one of {', '.join(get_args(Ties))}"
    else:  # a type of its own: the method knows
        return
    if not fits:
        limit = f" from {least} on" if "number" in expected and name in _LEAST else ""
        raise RatersError(f"found {name}={value}, expected {expected}{limit}")


def _numbers(value: object, least: float) -> bool:
    """Return whether something is made of finite numbers that are large enough."""
    if isinstance(value, str | bool):
        return False
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(found).all() and (found >= least).all())

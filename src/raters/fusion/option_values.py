"""Which values an option of a fusion method can have, by the type that its function asks for."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from annotated_types import Ge

from raters.arrays import Array
from raters.errors import RatersError

Count = Annotated[int, Ge(1)]
NotNegative = Annotated[float, Ge(0)]
Shares = Annotated[Array | Sequence[float], Ge(0)]
"""Weights of classes, or a map of them."""


def refuse_value(name: str, value: object, asked: Any) -> None:  # noqa: ANN401
    """Reject a value that an option cannot have.

    Args:
        name: The option.
        value: What was given.
        asked: Its type: bool, int, float, arrays and sequences of numbers, words (`Literal`), also
            with None and with a least value (`Annotated[int, Ge(1)]`). Other types are not looked
            at: the method knows.

    Raises:
        RatersError: that names the option, the value, and what is expected.

    Example:
        >>> refuse_value("max_iter", 5, Count)
        >>> refuse_value("max_iter", 0, Count)
        Traceback (most recent call last):
        raters.errors.RatersError: found max_iter=0, expected a whole number from 1 on
    """
    kinds, least = _alternatives(asked)
    if value is None and NoneType in kinds:
        return
    numeric = _numbers(value, least)
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if words:
        fits, expected = value in words, f"one of {', '.join(words)}"
    elif bool in kinds:
        fits, expected = isinstance(value, bool | np.bool_), "yes or no"
    elif any(get_origin(k) is np.ndarray or k == Sequence[float] for k in kinds):
        fits, expected = numeric, "numbers"
    elif float in kinds:
        fits, expected = numeric and isinstance(value, numbers.Real), "a number"
    elif int in kinds:
        fits, expected = numeric and isinstance(value, numbers.Integral), "a whole number"
    else:
        return
    if not fits:
        limit = f" from {least:g} on" if "number" in expected and math.isfinite(least) else ""
        raise RatersError(f"found {name}={value}, expected {expected}{limit}")


def _alternatives(asked: Any) -> tuple[list[Any], float]:  # noqa: ANN401
    """Return the types that a type is one of, and the least number of all of them."""
    if get_origin(asked) is Annotated:
        kinds, least = _alternatives(asked.__origin__)
        limits = [float(mark.ge) for mark in asked.__metadata__ if isinstance(mark, Ge)]  # type: ignore[arg-type]
        return kinds, max([least, *limits])
    if get_origin(asked) in (Union, UnionType):
        parts = [_alternatives(part) for part in get_args(asked)]
        return [kind for kinds, _ in parts for kind in kinds], max(least for _, least in parts)
    return [asked], -math.inf


def _numbers(value: object, least: float) -> bool:
    """Return whether something is made of finite numbers that are large enough."""
    if isinstance(value, str | bool):
        return False
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(found).all() and (found >= least).all())

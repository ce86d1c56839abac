"""Which values an option of a fusion method can have, by the type that its function asks for."""

from __future__ import annotations

import numbers
from typing import get_args

import numpy as np

from raters.errors import RatersError
from raters.fusion.vote import Ties


def refuse_value(name: str, value: object, asked: str) -> None:
    """Refuse a value that an option cannot have.

    Args:
        name: The option.
        value: What was given.
        asked: The type as the function writes it: bool, int, float, with None where it may be
            left to the method; arrays and sequences are numbers in some order, `Ties` words.

    Raises:
        RatersError: that names the option, the value, and what is expected.

    Example:
        >>> refuse_value("iterations", 5, "int")
        >>> refuse_value("iterations", 0, "int")
        Traceback (most recent call last):
        raters.errors.RatersError: found iterations=0, expected a whole number from 1 on
    """
    if value is None and asked.endswith("| None"):
        return
    kind = asked.removesuffix(" | None")
    if kind == "bool":
        fits, expected = isinstance(value, bool | np.bool_), "yes or no"
    elif kind == "int":
        fits, expected = _whole(value) and value >= 1, "a whole number from 1 on"  # type: ignore[operator]
    elif kind == "float":
        fits, expected = _finite(value) and np.ndim(value) == 0, "a number from 0 on"  # type: ignore[arg-type]
    elif "NDArray" in kind or "ArrayLike" in kind or "Sequence" in kind:
        fits, expected = _finite(value), "numbers from 0 on"
    else:
        words = get_args(Ties)
        fits, expected = value in words, f"one of {', '.join(words)}"
    if not fits:
        raise RatersError(f"found {name}={value}, expected {expected}")


def _whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    """Say whether something is made of finite numbers that are not negative."""
    if isinstance(value, str | bool):
        return False
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(found).all() and (found >= 0).all())

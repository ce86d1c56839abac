"""The options that a user gave: parted, and checked before anything is read; no torch is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raters.errors import RatersError
from raters.methods.options import MethodOptions
from raters.methods.registry import METHODS, learning_method, parse_options
from raters.training.options import TrainingOptions
from raters.wording import expected_one_of


def checked_options(method: str, given: Mapping[str, Any]) -> tuple[MethodOptions, TrainingOptions]:
    """Part the options of a method from those of training, and check both.

    Raises:
        RatersError: that names the unknown option or the impossible value.

    Example:
        >>> checked_options("truth", {"epochs": 5})[1].epochs
        5
    """
    entry = learning_method(method)
    of_method = {k: v for k, v in given.items() if k in entry.options.model_fields}
    of_training = {k: v for k, v in given.items() if k in TrainingOptions.model_fields}
    for name in given:
        if name not in of_method and name not in of_training:
            raise _unknown_option(name, method)
    options, training = entry.parse(of_method), parse_options(TrainingOptions, of_training)
    _refuse_warm_up(getattr(options, "warm_up", None))
    return options, training


def _refuse_warm_up(share: float | None) -> None:
    if share is not None and share > 1 and share != round(share):
        raise RatersError(
            f"found warm_up={share}, expected a whole number of epochs, or a share of them below 1"
        )


def _unknown_option(name: str, method: str) -> RatersError:
    """Report who takes an option, or which one is nearest to it."""
    takers = [k for k, entry in METHODS.items() if name in entry.own_options]
    if takers:
        return RatersError(
            f"found the option {name!r} for {method}, expected it with: {', '.join(takers)}"
        )
    known = [*learning_method(method).own_options, *TrainingOptions.model_fields]
    return RatersError(f"found the option {name!r}, {expected_one_of(known, name)}")

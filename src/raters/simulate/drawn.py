"""Drawn studies that have raters of their own, by name; a new one is a function and a line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from raters.simulate.discs import disc_study
from raters.simulate.streaks import streak_study
from raters.study.study import Study

STUDIES: dict[str, tuple[str, Callable[..., Study]]] = {
    "streaks": ("streaks", streak_study),
    "discs": ("discs", disc_study),
    "discs-equal": ("discs", partial(disc_study, equal=True)),
}
"""The phantom of each study, and the function of number, shape, seed and `assign` that makes it."""

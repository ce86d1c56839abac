"""Cuts that were chosen for a model, at the raters' area and the best Dice, and those asked for.

They are chosen on the held-out cases at the end of training
(`raters.learning.prediction.find_cuts`) and kept beside the weights of the run, in `cuts.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Floats
from raters.core.classes import Classes
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters.io.paths import read_text
from raters.io.rows import write_json
from raters.metrics.cut import cuts_of

CUTS = "cuts.json"
AREA: Final = "area"
DRAWN: Final = "area-drawn"
BEST: Final = "best"
CutGiven = float | str | Sequence[float] | NDArray[np.float64]
"""A number, 'area', 'area-drawn', 'best', by class ('2=0.3,3=area'), or a number for each class."""


@dataclass(frozen=True)
class Cuts:
    """Cuts that were chosen for a model, each `(classes - 1,)`.

    Attributes:
        area: Where the predicted area is the raters' mean area; None if there were no raters.
        area_drawn: The same without blank masks.
        best: Where Dice against references is best; None if there were no references.
        cases: How many cases they were chosen on.
        on: What these were for: 'held-out', or 'train' where none was held out.
    """

    area: Floats | None
    area_drawn: Floats | None
    best: Floats | None
    cases: int
    on: str

    @property
    def by_word(self) -> dict[str, Floats | None]:
        """The cuts by what they are called."""
        return {AREA: self.area, DRAWN: self.area_drawn, BEST: self.best}

    def to_dict(self, classes: Classes) -> dict[str, Any]:
        """Return plain data, cuts by the name of the class."""
        found: dict[str, Any] = {"cases": self.cases, "on": self.on}
        for word, cuts in self.by_word.items():
            found[word] = None
            if cuts is not None:
                found[word] = dict(zip(classes.names[1:], cuts.tolist(), strict=True))
        return found


def write_cuts(folder: Path, cuts: Cuts, classes: Classes) -> None:
    """Write `cuts.json`, whole or not at all."""
    write_json(folder / CUTS, cuts.to_dict(classes))


def read_cuts(folder: Path, classes: Classes) -> Cuts | None:
    """Read `cuts.json`; None if there is none, as in runs of earlier versions."""
    path = folder / CUTS
    try:
        found = json.loads(read_text(path))
        area, drawn, best = (_by_class(found[name], classes) for name in (AREA, DRAWN, BEST))
        return Cuts(area, drawn, best, int(found["cases"]), str(found["on"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError, RatersError) as error:
        why = f"cannot be read ({type(error).__name__}: {error}), expected cuts by class"
        raise RatersError(why, file=path) from None


def _by_class(given: Any, classes: Classes) -> Floats | None:  # noqa: ANN401
    if given is None:
        return None
    return cuts_of([float(given[name]) for name in classes.names[1:]], len(classes))


def chosen_cut(given: CutGiven, classes: Classes, kind: str, known: Cuts | None) -> Floats:
    """Return the cut of each foreground class, `(classes - 1,)`.

    Args:
        given: A number, 'area', 'area-drawn', 'best', by class as in '2=0.3,3=area' (by value or
            name; the others are cut at 0.5), or a number for each foreground class.
        classes: The classes.
        kind: 'segmentation' or 'classification'.
        known: The cuts of the model, if it has any.

    Raises:
        RatersError: For what is no cut, or is not known of the model.

    Example:
        >>> classes = Classes.parse("0=background,2=core,3=edge")
        >>> chosen_cut("2=0.3", classes, "segmentation", None)
        array([0.3, 0.5])
    """
    if kind != "segmentation":
        given = given.tolist() if isinstance(given, np.ndarray) else given
        if given == 0.5 or given == "0.5":
            return np.full(len(classes) - 1, 0.5)
        raise RatersError(
            f"found the cut {given!r} for a model of class labels, expected none: cuts are for "
            "masks; take the probabilities"
        )
    if not isinstance(given, str):
        return cuts_of(given, len(classes))
    if "=" not in given:
        return cuts_of([_one(given, c, known) for c in range(len(classes) - 1)], len(classes))
    places = {str(c.value): k for k, c in enumerate(classes.items[1:])}
    places |= {c.name: k for k, c in enumerate(classes.items[1:])}
    cuts = np.full(len(classes) - 1, 0.5)
    for c, word in by_name(given, places, "class", "cut", "a foreground class, ").items():
        cuts[c] = _one(word, c, known)
    return cuts_of(cuts, len(classes))


def by_name(
    given: str | Mapping[str, Any],
    places: Mapping[str, int],
    name_is: str,
    what: str,
    known_as: str = "",
) -> dict[int, Any]:
    """Take '2=0.3,3=area' apart, or a mapping: what is given, by the place of its name.

    Args:
        given: The text or mapping.
        places: The place of each name that is known.
        name_is: What a name is of, for errors: 'rater'.
        what: What is given to it, for errors: 'weight'.
        known_as: What those that are known are, for errors.

    Example:
        >>> by_name("ann=0.7, bob=0.3", {"ann": 0, "bob": 1}, "rater", "weight")
        {0: '0.7', 1: '0.3'}
        >>> by_name("ann=0.7, bbo=0.3", {"ann": 0, "bob": 1}, "rater", "weight")
        Traceback (most recent call last):
        ...
        raters.core.errors.RatersError: found a weight of the rater 'bbo', expected one ...
    """
    parts = given.split(",") if isinstance(given, str) else [f"{k}={v}" for k, v in given.items()]
    found: dict[int, Any] = {}
    for part in parts:
        name, equals, word = (text.strip() for text in part.rpartition("="))
        known = expected_one_of(places, name or word).removeprefix("expected ")
        if not equals:
            raise RatersError(
                f"found {word!r} as a {what}, expected {name_is.upper()}={what.upper()}: the "
                f"{name_is} is {known}"
            )
        if name not in places:
            raise RatersError(
                f"found a {what} of the {name_is} {name!r}, expected {known_as}{known}"
            )
        if places[name] in found:
            raise RatersError(
                f"found two {what}s of the {name_is} {name!r}, expected one: {found[places[name]]} "
                f"or {word}"
            )
        found[places[name]] = word
    return found


def _one(word: str, c: int, known: Cuts | None) -> float:
    if word in (AREA, DRAWN, BEST):
        found = None if known is None else known.by_word[word]
        if found is None:
            raise RatersError(_unknown(word, known), kind="no-cut")
        return float(found[c])
    try:
        return float(word)
    except ValueError:
        raise RatersError(
            f"found the cut {word!r}, expected a number above 0 and below 1, '{AREA}', "
            f"'{DRAWN}', '{BEST}', or by class as in 2=0.3,3=area"
        ) from None


def _unknown(word: str, known: Cuts | None) -> str:
    if known is None:
        return (
            f"found no {CUTS} in the run, expected it for the cut {word!r}: runs of earlier "
            "versions have none; give a number"
        )
    lacks = "a reference" if word == BEST else "a mask of a rater"
    return (
        f"found no such cut in {CUTS}, expected one for the cut {word!r}: none of the cases that "
        f"it is chosen on had {lacks}; take a number"
    )

"""The cuts of a run: at the raters' area and at the best Dice; no torch is needed to read them.

They are chosen on the held-out cases at the end of training (`raters.scores.CutTally`) and kept
beside the weights, in `cuts.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from raters.arrays import Labels
from raters.errors import RatersError
from raters.progress import track
from raters.rows import write_json
from raters.scores.choose_cut import CutCounts, CutTally, search_cuts
from raters.scores.cut import cuts_of
from raters.study.classes import Classes
from raters.wording import expected_one_of

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model

CUTS = "cuts.json"
AREA: Final = "area"
DRAWN: Final = "area-drawn"
BEST: Final = "best"
MOST_KEPT = 1 << 26
"""Probabilities of several classes that are kept in memory while their cuts are searched."""
MOST_PREDICTED = 4
"""Passes over the cases where there are more of them, as each predicts all cases again."""
CutGiven = float | str | Sequence[float] | NDArray[np.float64]
"""A number, 'area', 'area-drawn', 'best', by class ('2=0.3,3=area'), or a number for each class."""

Floats = NDArray[np.float64]


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

    def to_dict(self, classes: Classes) -> dict[str, Any]:
        """Return plain data, cuts by the name of the class."""
        names = classes.names[1:]

        def by_name(cuts: Floats | None) -> dict[str, float] | None:
            return None if cuts is None else dict(zip(names, cuts.tolist(), strict=True))

        facts = {"cases": self.cases, "on": self.on, AREA: by_name(self.area)}
        return facts | {DRAWN: by_name(self.area_drawn), BEST: by_name(self.best)}


def find_cuts(model: Model, study: Study, on: str, progress: bool = False) -> Cuts:
    """Choose the cuts of a model on cases of a study; large images come in bands of rows.

    Args:
        model: A model of masks.
        study: The cases, with the raters' masks, and references if there are any.
        on: What the cases were for.
        progress: Show a progress bar.

    Raises:
        RatersError: A case cannot be read.
    """
    size = len(model.config.classes)
    cases = _Predicted(model, study.without_negatives(), progress)

    def look(tallies: list[CutTally]) -> bool:
        for reference, labels, bands in cases:
            counts = [CutCounts(size, reference, labels, one.around) for one in tallies]
            for truth, rows in bands:
                for one in counts:
                    one.add(truth, rows)
            for tally, one in zip(tallies, counts, strict=True):
                tally.take(one)
        return cases.kept is not None or cases.passes < MOST_PREDICTED

    best, area, drawn = search_cuts(size, (BEST, AREA, DRAWN), look)
    return Cuts(area, drawn, best, len(study), on)


_Band = tuple[NDArray[np.float32], slice]
_Seen = tuple[Labels | None, Labels, Iterable[_Band]]


class _Predicted:
    """Goes over what is predicted of cases; kept for further passes where it is not too large."""

    def __init__(self, model: Model, study: Study, progress: bool) -> None:
        self._model, self._study, self._progress = model, study, progress
        self.passes = 0
        self.kept: list[_Seen] | None = [] if len(model.config.classes) > 2 else None

    def __iter__(self) -> Iterator[_Seen]:
        self.passes += 1
        if self.passes > 1 and self.kept is not None:
            yield from self.kept
            return
        from raters.methods.base import Asked
        from raters.prediction.predict import predict_streams

        stream, number = predict_streams(self._model, self._study.iter_cases(), Asked()), 0
        for case, bands in track(stream, len(self._study), "choosing cuts", self._progress):
            if isinstance(bands, RatersError):
                raise bands
            parts = ((b.truth, slice(b.start, b.start + b.truth.shape[1])) for b in bands)
            if self.kept is None:
                yield case.reference, case.labels, parts
                continue
            held = list(parts)
            number += sum(truth.size for truth, _ in held)
            if number > MOST_KEPT:
                self.kept = None
            else:
                self.kept.append((case.reference, case.labels, held))
            yield case.reference, case.labels, held


def write_cuts(folder: Path, cuts: Cuts, classes: Classes) -> None:
    """Write `cuts.json`, whole or not at all."""
    write_json(folder / CUTS, cuts.to_dict(classes))


def read_cuts(folder: Path, classes: Classes) -> Cuts | None:
    """Read `cuts.json`; None if there is none, as in runs of earlier versions."""
    path = folder / CUTS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
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
    foreground = classes.items[1:]
    places = {str(c.value): k for k, c in enumerate(foreground)}
    places |= {c.name: k for k, c in enumerate(foreground)}
    cuts = np.full(len(classes) - 1, 0.5)
    for c, word in by_name(given, places, "cut", "CLASS=CUT with a foreground class").items():
        cuts[c] = _one(word, c, known)
    return cuts_of(cuts, len(classes))


def by_name(
    given: str | Mapping[str, Any], places: Mapping[str, int], what: str, expected: str
) -> dict[int, Any]:
    """Take '2=0.3,3=area' apart, or a mapping: what is given, by the place of its name.

    Example:
        >>> by_name("ann=0.7, bob=0.3", {"ann": 0, "bob": 1}, "weights", "RATER=WEIGHT")
        {0: '0.7', 1: '0.3'}
    """
    parts = given.split(",") if isinstance(given, str) else [f"{k}={v}" for k, v in given.items()]
    found: dict[int, Any] = {}
    for part in parts:
        name, _, word = (text.strip() for text in part.rpartition("="))
        if name not in places:
            raise RatersError(
                f"found {part.strip()!r} in the {what} {given!r}, expected {expected}: "
                f"{expected_one_of(list(places), name)}"
            )
        if places[name] in found:
            raise RatersError(f"found {name!r} twice in the {what} {given!r}, expected it once")
        found[places[name]] = word
    return found


def _one(word: str, c: int, known: Cuts | None) -> float:
    if word in (AREA, DRAWN, BEST):
        found = None
        if known is not None:
            found = {AREA: known.area, DRAWN: known.area_drawn, BEST: known.best}[word]
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

"""What `raters check` says of drawings: empty ones, full ones, and marks that contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING

from raters.errors import RatersError
from raters.study.annotations import Annotation, says_rest
from raters.study.case import Case
from raters.study.check_report import Problem
from raters.study.study import Study, many

if TYPE_CHECKING:
    from raters.study.check import CaseScan

_NOTHING = "it says nothing at all"
_EMPTY: dict[Annotation, str] = {
    "positive": "it says background everywhere",
    "negative": "nothing is ruled out, so that all is foreground",
    "scribble": _NOTHING,
    "box": "it says background everywhere",
}


def empty_message(study: Study, rater: str) -> str:
    """Return what a drawing without a mark says."""
    kind = study.annotations[rater]
    rest = says_rest(kind, study.unmarked, _num_classes(study))
    return f"found no mark, expected some: of the annotation {kind!r}, {_said(kind, rest)}"


def _num_classes(study: Study) -> int:
    """Return how many classes there are; files that do not tell are named elsewhere."""
    try:
        return len(study.classes)
    except RatersError:
        return 2


def _said(kind: Annotation, rest: bool) -> str:
    return _EMPTY[kind] if rest else _NOTHING


def contradictions(case: Case, study: Study, scan: CaseScan) -> Iterator[Problem]:
    """Count the pixels that one rater draws as a class and another as not of that class.

    They are the same person's, or two people's who disagree; both labels are used as they are.
    """
    by_kind: dict[str, list[str]] = {"positive": [], "negative": []}
    for rater in study.raters:
        if rater in scan.masks and study.annotations[rater] in by_kind:
            by_kind[study.annotations[rater]].append(rater)
    for positive, negative in product(*by_kind.values()):
        with suppress(RatersError):  # files that cannot be read or lie elsewhere are listed already
            drawn, ruled_out = case.drawing(positive), case.drawing(negative)
            if drawn is None or ruled_out is None:
                continue
            both = (drawn == ruled_out) & (drawn > 0)
            if both.any():
                named = study.classes.names[int(drawn[both][0])]
                message = (
                    f"found {many(int(both.sum()), 'pixel')} drawn as not of a class (such as "
                    f"{named!r}) that rater {positive!r} draws as of that class "
                    f"({scan.masks[positive].file}), expected none"
                )
                file = scan.masks[negative].file
                yield Problem("warning", "contradiction", message, file, case.id, negative)


class UnmarkedValues:
    """Notes what is unmarked in the drawings of each rater: 0, or the value that is ignored."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._zero: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()

    def add(self, scan: CaseScan) -> Iterator[Problem]:
        """Look at the drawings of one more case; name those that leave nothing unmarked."""
        from raters.study.check import labelled_values

        study = self._study
        for rater, mask in scan.masks.items():
            if rater is None or study.annotations[rater] == "mask":
                continue
            if says_rest(study.annotations[rater], study.unmarked, _num_classes(study)):
                continue
            labelled = labelled_values(mask, study)
            ignored, zero = labelled != set(mask.counts), 0 in labelled
            self._ignored[rater] += ignored and zero
            self._zero[rater] += zero and not ignored
            if not zero and not ignored:
                message = (
                    "found no unmarked pixel, expected some: of the annotation "
                    f"{study.annotations[rater]!r}, only marks say something (a mask?)"
                )
                yield Problem("warning", "full-drawing", message, mask.file, scan.case, rater)

    def hints(self) -> Iterator[Problem]:
        """Name raters in whose files 0 means two things."""
        for rater, files in self._ignored.items():
            if files and self._zero[rater]:
                message = (
                    f"found 0 beside the value that is ignored in {many(files, 'file')}, where it "
                    "is a mark of background, and without it in "
                    f"{many(self._zero[rater], 'file')}, where it is unmarked; expected one of them"
                )
                yield Problem("warning", "unmarked", message, rater=rater)

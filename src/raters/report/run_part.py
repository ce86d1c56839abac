"""Which cases the report of a run shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raters.errors import RatersError
from raters.evaluation.split import Seen, choose_split

if TYPE_CHECKING:
    from raters.study.study import Study

MOST_CASES = 300
"""Cases that are scored; of more, so many are taken in equal steps."""


@dataclass(frozen=True)
class Part:
    """The cases that a report shows.

    Attributes:
        study: Only these cases.
        name: 'test', 'held-out', or '' for all.
        said: Which cases they are, in a sentence.
    """

    study: Study
    name: str
    said: str


def shown_part(study: Study, runs: Sequence[Seen], most: int = MOST_CASES) -> Part:
    """Choose the cases to show: 'test' if there are any, else held-out ones, else all."""
    part, name = study, ""
    for split in ("test", "held-out"):
        try:
            part, name = choose_split(study, split, runs), split
            break
        except RatersError as error:
            if error.kind != "empty":
                raise
    said = {
        "test": "Scores are of the test cases, which the training has not seen.",
        "held-out": "There are no test cases: scores are of the held-out cases, which chose the "
        "epoch and so look a little too good. Keep some cases aside (split test) to know better.",
        "": "Neither test nor held-out cases are known: scores are of all cases of the study.",
    }[name]
    if len(part) > most:
        places = np.linspace(0, len(part) - 1, most).round().astype(int)
        said += f" {most} of {len(part):,} such cases were taken, in equal steps."
        part = part.select(cases=[part.index.ids[k] for k in places])
    return Part(part, name, said)

"""The cuts of a model, chosen on what it predicts of cases; large images come in bands of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from raters.core.arrays import Labels
from raters.core.errors import RatersError
from raters.core.progress import track
from raters.learning.prediction.predict import predict_streams
from raters.learning.training.model import Model
from raters.metrics.choose_cut import CutCounts, CutTally, search_cuts
from raters.metrics.chosen_cut import AREA, BEST, DRAWN, Cuts
from raters.study.study import Study

MOST_KEPT = 1 << 26
"""Probabilities of several classes that are kept in memory while their cuts are searched."""
MOST_PREDICTED = 4
"""Passes over the cases where there are more of them, as each predicts all cases again."""


def find_cuts(model: Model, study: Study, on: str, progress: bool = False) -> Cuts:
    """Choose the cuts of a model on cases of a study.

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
        self._model = model
        self._study = study
        self._progress = progress
        self.passes = 0
        self.kept: list[_Seen] | None = [] if len(model.config.classes) > 2 else None

    def __iter__(self) -> Iterator[_Seen]:
        self.passes += 1
        if self.passes > 1 and self.kept is not None:
            yield from self.kept
            return
        stream = predict_streams(self._model, self._study.iter_cases())
        number = 0
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

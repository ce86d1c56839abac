"""The files of one predicted case: labels, probabilities, entropy, raters' labels, matrices.

<case>.*                the labels, in the values of the study and on the grid of the image
soft/<case>.*           the probability of each class, as channels
entropy/<case>.*        the entropy of the truth, in bits
confusion/<case>.npy    the matrices of all raters, (raters, true, observed, *space)
as-<rater>/<case>.*     what a rater would draw; as-<rater>/soft/<case>.* its probabilities
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.evaluation.predictions import (
    CONFUSION_FOLDER,
    ENTROPY_FOLDER,
    SOFT_FOLDER,
    rater_folder,
)
from raters.prediction.predict import Asked, Predicted, entropy_bits, most_likely
from raters.prediction.sinks import RowsFile, Sink, image_sink, label_sink
from raters.prediction.windows import OVERLAP
from raters.scores.cut import cut_labels
from raters.study.paths import case_path
from raters.training.cuts import CutGiven

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.training.model import Model

Take = Callable[[Predicted], NDArray[Any]]


@dataclass(frozen=True)
class Outputs:
    """What is to be written beside the labels.

    Attributes:
        probabilities: The probability of each class.
        entropy: The entropy of the truth in bits.
        raters: What these raters would draw.
        confusion: The matrices of all raters.
        overlap: The share of a window that the next one covers again.
        cut: Where the truth is cut (`Model.cut`); what raters would draw is their likeliest label.
    """

    probabilities: bool = False
    entropy: bool = False
    raters: tuple[str, ...] = ()
    confusion: bool = False
    overlap: float = OVERLAP
    cut: CutGiven = 0.5

    def asked(self, model: Model) -> Asked:
        """Return what has to be asked of a model per case; matrices that never vary are not."""
        return Asked(self.raters, self.confusion and model.method.varies, self.overlap)


def refuse_case_names(cases: Iterable[str], outputs: Outputs) -> None:
    """Refuse cases whose labels would lie in the folder of other maps, and take their names.

    Example:
        >>> refuse_case_names(["a", "soft/a"], Outputs())
        >>> refuse_case_names(["a", "soft/a"], Outputs(probabilities=True))
        Traceback (most recent call last):
        ...
        raters.errors.RatersError: found the case 'soft/a', expected none in 'soft/': ...
    """
    places = [rater_folder(rater) for rater in outputs.raters]
    for folder, wanted in (
        (SOFT_FOLDER, outputs.probabilities),
        (ENTROPY_FOLDER, outputs.entropy),
        (CONFUSION_FOLDER, outputs.confusion),
    ):
        places += [folder] if wanted else []
    for case in cases:
        first, inside, _ = case_path(case).partition("/")
        if inside and first in places:
            raise RatersError(
                f"found the case {case!r}, expected none in {first + '/'!r}: other maps are "
                "written there",
                kind="folder-taken",
                case=case,
            )


class CaseWriter:
    """Writes what a model says of cases as files.

    Args:
        model: The model.
        folder: Where to write.
        outputs: What to write.
    """

    def __init__(self, model: Model, folder: Path, outputs: Outputs) -> None:
        self._folder, self._outputs = folder, outputs
        self._cut = model.cut(outputs.cut)
        self._classes = model.config.classes_of_study()
        self._varies = model.method.varies
        self._masks = model.config.kind == "segmentation"

    @property
    def kinds(self) -> list[str]:
        """The kinds of files that a case has when it is finished."""
        return [kind for kind, _, _ in self._wanted()]

    def write(self, case: Case, bands: Iterator[Predicted]) -> dict[str, str]:
        """Write the files of a case; give their paths in the folder by kind.

        All of them are there before any gets its name, but for a crash in between: then the case
        does not count as finished.
        """
        sinks: dict[str, Sink] = {}
        try:
            for band in bands:
                for kind, place, take in self._wanted():
                    rows = take(band)
                    if kind not in sinks:
                        sinks[kind] = self._sink(kind, place, case, rows, band.rows)
                    total = band.rows or (rows.shape[_front(kind)] if self._masks else len(rows))
                    sinks[kind].put(rows, band.start, total)
            paths = {kind: sink.finish() for kind, sink in sinks.items()}
        finally:
            for sink in sinks.values():
                sink.discard()
        return {kind: path.relative_to(self._folder).as_posix() for kind, path in paths.items()}

    def _wanted(self) -> Iterator[tuple[str, str, Take]]:
        """Return the kind of each file, its folder, and how it is made of a band."""
        outputs = self._outputs
        if outputs.confusion and self._varies:
            yield "confusion", CONFUSION_FOLDER, _matrices
        if not self._masks:
            return
        yield "labels", "", lambda band: self._classes.decode(cut_labels(band.truth, self._cut))
        if outputs.probabilities:
            yield "soft", SOFT_FOLDER, lambda band: band.truth
        if outputs.entropy:
            yield "entropy", ENTROPY_FOLDER, lambda band: entropy_bits(band.truth)[np.newaxis]
        for rater in outputs.raters:
            place = rater_folder(rater)
            yield f"labels as {rater}", place, lambda b, r=rater: self._values(b.as_rater[r])  # type: ignore[misc]
            if outputs.probabilities:
                yield f"soft as {rater}", f"{place}/{SOFT_FOLDER}", lambda b, r=rater: b.as_rater[r]  # type: ignore[misc]

    def _values(self, probabilities: NDArray[np.float32]) -> NDArray[Any]:
        return self._classes.decode(most_likely(probabilities))

    def _sink(
        self, kind: str, place: str, case: Case, rows: NDArray[Any], total: int | None
    ) -> Sink:
        folder, name = self._folder / place, case_path(case.id)
        if kind == "confusion":
            return RowsFile(folder / f"{name}.npy", _front(kind) if self._masks else 0)
        affine = case.geometry.affine
        if kind.startswith("labels"):
            return label_sink(folder, name, affine)
        space = (total or rows.shape[1], *rows.shape[2:])
        return image_sink(folder, name, (len(rows), *space), affine)


def _front(kind: str) -> int:
    """Return how many axes come before the rows of a map."""
    if kind == "confusion":
        return 3
    return 0 if kind.startswith("labels") else 1


def _matrices(band: Predicted) -> NDArray[np.float32]:
    assert band.confusion is not None  # it was asked for
    return band.confusion

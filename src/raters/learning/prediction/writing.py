"""What is written of predictions: the files of one case, and tables of classes and matrices.

<case>.*                the labels, in the values of the study and on the grid of the image
soft/<case>.*           the probability of each class, as channels
entropy/<case>.*        the entropy of the truth, in bits
confusion/<case>.npy    the matrices of all raters, (raters, true, observed, *space)
transition.csv          with them: which class negative drawings exclude
as-<rater>/<case>.*     what a rater would draw; as-<rater>/soft/<case>.* its probabilities
sample-<k>/<case>.*     sample k, from 0; sample-<k>/soft/<case>.* its probabilities
recurrence-<k>/<case>.* the labels of recurrence k, from 1; soft/ in it its probabilities
confidence/<case>.npy   the trust in raters after each recurrence, (recurrences, raters, *space)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from raters.core.arrays import Array
from raters.core.errors import RatersError
from raters.evaluation.prediction import AS, SAMPLE, Prediction, entropy_bits, most_likely
from raters.io import formats
from raters.io.formats.npy import write_header
from raters.io.paths import (
    CONFIDENCE_FOLDER,
    CONFUSION_FOLDER,
    ENTROPY_FOLDER,
    SOFT_FOLDER,
    case_path,
    map_folder,
    naming,
    temporary_beside,
)
from raters.io.results import Journal
from raters.io.rows import Row, write_csv
from raters.learning.methods.base import Asked
from raters.learning.prediction.predict import OVERLAP, same_confusion
from raters.learning.training.model import Model, Weights
from raters.metrics.chosen_cut import CutGiven
from raters.metrics.cut import cut_labels
from raters.study.case import Case

TABLE = "predictions.csv"
CONFUSION_TABLE = "confusion.csv"
TRANSITION_TABLE = "transition.csv"


@dataclass(frozen=True)
class Outputs:
    """What is to be written beside the labels.

    Attributes:
        probabilities: The probability of each class.
        entropy: The entropy of the truth in bits.
        raters: What these raters would draw.
        confusion: The matrices of all raters.
        overlap: The share of a window that the next one covers again.
        cut: Where the truth is cut (`Model.cut`); what raters would draw, and samples, are their
            most likely labels.
        samples: How many samples.
        seed: Where the randomness of samples starts.
        weights: How much each rater counts in the truth (`Model.weighting`).
        recurrences: The truth of each recurrence, and the trust in each rater after it.
    """

    probabilities: bool = False
    entropy: bool = False
    raters: tuple[str, ...] = ()
    confusion: bool = False
    overlap: float = OVERLAP
    cut: CutGiven = 0.5
    samples: int = 0
    seed: int = 0
    weights: Weights = None
    recurrences: bool = False

    def asked(self, model: Model) -> Asked:
        """Return what is asked of a model for each case; matrices that never vary are not."""
        confusion = self.confusion and model.method.varies
        weights = model.weighting(self.weights)
        return Asked(self.raters, confusion, self.samples, self.seed, weights, self.recurrences)

    @property
    def beside(self) -> list[str]:
        """The maps of labels beside the truth, by name."""
        return [AS + r for r in self.raters] + [f"{SAMPLE}{k}" for k in range(self.samples)]


class _File(NamedTuple):
    """A file of a case: its kind, its folder, how it is made of a band, axes before the rows."""

    kind: str
    place: str
    take: Callable[[Prediction], Array]
    front: int


class CaseWriter:
    """Writes what a model says of cases as files.

    Args:
        model: The model.
        folder: Where to write.
        outputs: What to write.
    """

    def __init__(self, model: Model, folder: Path, outputs: Outputs) -> None:
        self.model = model
        self.folder = folder
        self.outputs = outputs
        self._cut = model.cut(outputs.cut)
        self._classes = model.config.classes_of_study()
        self.masks = model.config.kind == "segmentation"
        self._files = list(self._wanted(outputs.confusion and model.method.varies))

    @property
    def kinds(self) -> list[str]:
        """The kinds of files that a case has when it is finished."""
        return [file.kind for file in self._files]

    def refuse_cases(self, cases: Iterable[str]) -> None:
        """Refuse cases whose labels would lie in the folder of other maps, and take their names."""
        places = {file.place.partition("/")[0] for file in self._files} - {""}
        for case in cases:
            first, inside, _ = case_path(case).partition("/")
            if inside and first in places:
                raise RatersError(
                    f"found the case {case!r}, expected none in {first + '/'!r}: other maps are "
                    "written there",
                    kind="folder-taken",
                    case=case,
                )

    def write(self, case: Case, bands: Iterable[Prediction]) -> dict[str, str]:
        """Write the files of a case; return their paths in the folder by kind.

        All of them are there before any gets its name, but for a crash in between: then the case
        does not count as finished.
        """
        sinks: dict[str, Sink] = {}
        try:
            for band in bands:
                for file in self._files:
                    rows = file.take(band)
                    total = band.rows or rows.shape[file.front]
                    if file.kind not in sinks:
                        sinks[file.kind] = self._sink(file, case, rows, total)
                    sinks[file.kind].put(rows, band.start, total)
            paths = {kind: sink.finish() for kind, sink in sinks.items()}
        finally:
            for sink in sinks.values():
                sink.discard()
        return {kind: path.relative_to(self.folder).as_posix() for kind, path in paths.items()}

    def _wanted(self, confusion: bool) -> Iterator[_File]:
        if confusion:
            front = 3 if self.masks else 0
            yield _File("confusion", CONFUSION_FOLDER, partial(_of, "confusion"), front)
        if not self.masks:
            return
        if self.outputs.entropy:
            yield _File("entropy", ENTROPY_FOLDER, lambda band: band.entropy[np.newaxis], 1)
        if self.outputs.recurrences:
            yield _File("confidence", CONFIDENCE_FOLDER, partial(_of, "confidence"), 2)
        number = getattr(self.model.method.options, "recurrences", 0)
        turns = [f"recurrence:{k + 1}" for k in range(number if self.outputs.recurrences else 0)]
        for name in ("truth", *self.outputs.beside, *turns):
            place = "" if name == "truth" else map_folder(name)
            words = "" if name == "truth" else " " + name.replace(":", " ", 1)
            yield _File(f"labels{words}", place, partial(self._labels, name), 0)
            if self.outputs.probabilities:
                soft = f"{place}/{SOFT_FOLDER}".lstrip("/")
                yield _File(f"soft{words}", soft, partial(_of, name), 1)

    def _labels(self, name: str, band: Prediction) -> Array:
        """Return the values of labels: of the truth at the cut, of others the most likely."""
        found = band.maps[name]
        numbers = cut_labels(found, self._cut) if name == "truth" else most_likely(found)
        return self._classes.decode(numbers)

    def _sink(self, file: _File, case: Case, rows: Array, total: int) -> Sink:
        folder = self.folder / file.place
        name = case_path(case.id)
        if file.kind in ("confusion", "confidence"):
            return RowsFile(folder / f"{name}.npy", file.front)
        affine = case.geometry.affine
        if not file.front:
            return label_sink(folder, name, affine)
        return image_sink(folder, name, (len(rows), total, *rows.shape[2:]), affine)


def _of(name: str, band: Prediction) -> Array:
    return band.maps[name]


def write_tables(
    model: Model, cases: list[str], folder: Path, outputs: Outputs, journal: Journal
) -> None:
    """Write the classes of cases, from what was kept of each of them now or before.

    `predictions.csv` has the columns case, label (a value of the study), and the probability of
    each class; `as-<rater>/predictions.csv` has what a rater would say, and
    `sample-<k>/predictions.csv` a sample.
    """
    if model.config.kind != "classification":
        return
    done = journal.cases
    kept = {name: journal.facts(name) for name in cases if name in done}
    if not kept:
        return
    # Exact, as `raters evaluate` reads them again by the names of cases.
    rows = _rows(model, {n: f["p"] for n, f in kept.items()}, outputs.entropy)
    write_csv(folder / TABLE, rows, exact=True)
    for key in outputs.beside:
        found = {n: f["maps"][key] for n, f in kept.items() if key in f.get("maps", {})}
        write_csv(folder / map_folder(key) / TABLE, _rows(model, found, False), exact=True)


def write_confusion(model: Model, folder: Path) -> None:
    """Write matrices that never vary as one table: rater, true, observed, p.

    Raters of whom no label was trained on are left out.
    """
    _write_matrices(model, same_confusion(model), folder / CONFUSION_TABLE, ("true", "observed"))


def write_transition(model: Model, folder: Path) -> None:
    """Write which class each negative drawing excludes as one table: rater, said, excluded, p."""
    matrices = model.transition()
    if matrices is not None:
        _write_matrices(model, matrices, folder / TRANSITION_TABLE, ("said", "excluded"))


def _write_matrices(model: Model, matrices: Array, path: Path, sides: tuple[str, str]) -> None:
    """Write matrices `(raters, L, L)` without those that are not known."""
    names = [c.name for c in model.config.classes]
    each = matrices.reshape(-1, len(names), len(names))
    rows: list[Row] = []
    for rater, matrix in zip(model.config.raters, each, strict=True):
        if not np.isfinite(matrix).all():
            continue
        for a, b in product(range(len(names)), repeat=2):
            classes = {sides[0]: names[a], sides[1]: names[b]}
            rows.append({"rater": rater, **classes, "p": float(matrix[a, b])})
    write_csv(path, rows)


def _rows(model: Model, found: dict[str, list[float]], entropy: bool) -> list[Row]:
    if not found:
        return []
    truth = np.array(list(found.values()), np.float32).T
    bits = entropy_bits(truth)
    best = truth.argmax(0)
    classes = model.config.classes
    rows = []
    for k, (name, p) in enumerate(found.items()):
        row: Row = {"case": name, "label": classes[best[k]].value}
        if entropy:
            row["entropy"] = round(float(bits[k]), 6)
        rows.append(row | {f"p_{c.name}": value for c, value in zip(classes, p, strict=True)})
    return rows


class RowsFile:
    """A .npy file that is written a band at a time and never held in memory.

    It is not mapped: mapped pages count as memory of the process, however large the file is.

    Args:
        path: The file; it gets its name when it is whole.
        front: How many axes come before the rows.
    """

    def __init__(self, path: Path, front: int) -> None:
        self._path = path
        self._front = front
        self._temporary = temporary_beside(path)
        self._file = open(self._temporary, "wb")  # noqa: SIM115
        self._offset = 0

    def put(self, rows: Array, start: int, total: int) -> None:
        """Write some rows where they belong, for each of the maps in front."""
        rows = np.ascontiguousarray(rows)
        leading = rows.shape[: self._front]
        rest = rows.shape[self._front + 1 :]
        if not self._offset:
            self._offset = write_header(self._file, (*leading, total, *rest), rows.dtype)
        row = int(np.prod(rest, dtype=np.int64)) * rows.itemsize
        for k, part in enumerate(rows.reshape(-1, *rows.shape[self._front :])):
            with naming(self._path):
                self._file.seek(self._offset + (k * total + start) * row)
                self._file.write(part.data)

    def finish(self) -> Path:
        """Return the file its name."""
        with naming(self._path):
            self._file.close()
            self._temporary.replace(self._path)
        return self._path

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


class Gathered:
    """Rows that are gathered in memory; formats other than .npy are written at once.

    Args:
        front: How many axes come before the rows.
        write: Writes the whole array and returns the path of the file.
    """

    def __init__(self, front: int, write: Callable[[Array], Path]) -> None:
        self._front = front
        self._write = write
        self._whole: Array | None = None

    def put(self, rows: Array, start: int, total: int) -> None:
        """Keep a copy of some rows: whoever gives them uses their memory again."""
        number = rows.shape[self._front]
        if self._whole is None:
            shape = (*rows.shape[: self._front], total, *rows.shape[self._front + 1 :])
            self._whole = np.empty(shape, rows.dtype)
        self._whole[(slice(None),) * self._front + (slice(start, start + number),)] = rows

    def finish(self) -> Path:
        """Write the file."""
        assert self._whole is not None  # there were rows
        return self._write(self._whole)

    def discard(self) -> None:
        """Nothing was written."""
        self._whole = None


Sink = RowsFile | Gathered
"""Takes the rows of one map, in order, and becomes a file when all are there."""


def image_sink(place: Path, name: str, shape: tuple[int, ...], affine: Array | None) -> Sink:
    """Make a sink for maps of floats `(channels, *space)`, in the format that keeps them."""
    like = np.broadcast_to(np.float32(0), shape)  # takes no memory
    path = place / f"{name}{formats.image_suffix(like, affine)}"
    if path.name.endswith(".npy"):
        return RowsFile(path, 1)

    def write(whole: Array) -> Path:
        formats.write_image(path, whole, affine)
        return path

    return Gathered(1, write)


def label_sink(place: Path, name: str, affine: Array | None) -> Sink:
    """Make a sink for the values of labels `(*space)`, in the format that keeps them."""

    def write(values: Array) -> Path:
        path = place / f"{name}{formats.label_suffix(values, affine)}"
        formats.write_labels(path, values, affine)
        return path

    return Gathered(0, write)

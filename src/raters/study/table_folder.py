"""The folder of a table: answers in Parquet, images or features beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError
from raters.study.backend import Backend
from raters.study.backend_arrays import ArraysBackend
from raters.study.backend_table import TableBackend
from raters.study.canonical import open_canonical
from raters.study.classes import MISSING
from raters.study.packed import PackedWriter, open_array, open_packed, with_gaps
from raters.study.study import CaseIndex, Study
from raters.study.study_file import CASES_FILE, StudyFile
from raters.study.triplets import Triplets
from raters.study.triplets_file import read_triplets, write_triplets
from raters.study.write import CaseArrays, Writer

LABELS_FILE = "labels.parquet"


class TableWriter:
    """Writes images by another writer, features as one array, and all answers at the end."""

    def __init__(self, study: Study, folder: Path, images: Writer) -> None:
        assert isinstance(study.backend, TableBackend)
        self.content, self.by_case = images.content, study.backend.has_inputs
        self._study, self._folder, self._images = study, folder, images
        self._features = PackedWriter(study, folder, images.content)

    def write(self, position: int, arrays: CaseArrays) -> None:
        """Write the image or the features of one task."""
        if arrays.image is not None and arrays.image.ndim == 1:
            self._features.put_features(position, arrays.image, arrays.id)
        else:
            self._images.write(position, arrays)

    def discard(self, case: str) -> None:
        """Remove the image of a task."""
        self._images.discard(case)

    def close(self) -> None:
        """Close the arrays."""
        self._images.close()
        self._features.close()

    def finish(self, positions: list[int]) -> dict[str, list[str]]:
        """Write the answers; the true labels become a column of `cases.csv`."""
        columns, rows = self._images.finish(positions), self._features.finish(positions)
        if (self._folder / "features.npy").exists():  # image files need no row
            columns |= rows
        kept = self._study
        if len(positions) < len(kept):
            kept = kept.select(cases=[kept.index.ids[p] for p in positions])
        # Where arrays keep a row for each case, the answers keep their places too.
        answers = self._study if "row" in columns else kept
        write_triplets(self._folder / LABELS_FILE, answers.triplets)
        truth = kept.reference_labels
        if truth is None:
            return columns
        values = [str(v) for v in kept.classes.values] + [""]
        return columns | {"reference": [values[label] for label in truth]}


def open_table(
    folder: Path,
    content: StudyFile,
    index: CaseIndex,
    rows: NDArray[np.intp],
    truth: list[str] | None,
) -> tuple[TableBackend, list[RatersError]]:
    """Open the answers with what lies beside them.

    Args:
        folder: The folder.
        content: What `study.yaml` says.
        index: The cases of `cases.csv`.
        rows: Where these cases are among all tasks.
        truth: The values of the reference column.
    """
    triplets = _with_class_numbers(read_triplets(folder / LABELS_FILE), content, folder)
    size = len(triplets.tasks)
    fits = len(rows) == 0 or int(rows.max()) < size
    if not fits or list(triplets.tasks[rows]) != list(index.ids):
        raise RatersError(
            f"found {size} tasks, expected the {len(index)} cases of cases.csv in order",
            kind="study-file",
            file=folder / LABELS_FILE,
        )
    inputs, problems = _inputs(folder, content, index, size)
    return TableBackend(triplets, inputs, _truth(folder, content, truth, rows, size)), problems


def _with_class_numbers(triplets: Triplets, content: StudyFile, folder: Path) -> Triplets:
    """Number the labels as `study.yaml` lists the classes."""
    classes = content.label_classes()
    unknown = [v for v in triplets.values if v not in classes.values]
    if unknown or triplets.raters != tuple(content.raters):
        found = f"the label {unknown[0]!r}" if unknown else f"raters {triplets.raters[:5]}"
        raise RatersError(
            f"found {found}, expected the classes and raters of study.yaml",
            kind="study-file",
            file=folder / LABELS_FILE,
        )
    position = {value: k for k, value in enumerate(classes.values)}
    table = np.array([position[v] for v in triplets.values] or [0], np.int16)
    return replace(triplets, label=table[triplets.label], values=classes.values)


def _inputs(
    folder: Path, content: StudyFile, index: CaseIndex, size: int
) -> tuple[Backend | None, list[RatersError]]:
    features = open_array(folder / "features.npy", size)
    if features is not None:
        there = open_array(folder / "has_image.npy", size)
        return ArraysBackend([], None, with_gaps(features, there)), []
    if (folder / "images.npy").exists():
        return open_packed(folder, content, size), []
    if (folder / "images").is_dir():
        return open_canonical(folder, content, index)
    return None, []


def _truth(
    folder: Path,
    content: StudyFile,
    values: list[str] | None,
    rows: NDArray[np.intp],
    size: int,
) -> NDArray[np.int16] | None:
    if values is None:
        return None
    known = {str(c.value): k for k, c in enumerate(content.classes)} | {"": MISSING}
    unknown = next((v for v in values if v not in known), None)
    if unknown is not None:
        raise RatersError(
            f"found the reference {unknown!r}, expected a class of study.yaml",
            kind="unknown-value",
            file=folder / CASES_FILE,
        )
    truth = np.full(size, MISSING, np.int16)
    truth[rows] = [known[value] for value in values]
    return truth

"""Where predictions come from: folders of masks, tables of classes, and arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raters.core.classes import MISSING
from raters.core.errors import RatersError, placed
from raters.core.whole_numbers import value_counts
from raters.core.wording import listing
from raters.evaluation.case import Drawn
from raters.evaluation.prediction import SAMPLE, Prediction
from raters.io import formats
from raters.io.paths import (
    CONFIDENCE_FOLDER,
    CONFUSION_FOLDER,
    ENTROPY_FOLDER,
    FUSE_JOURNAL,
    PREDICT_JOURNAL,
    SOFT_FOLDER,
    case_path,
    map_folder,
)
from raters.io.table_files import CellRules, open_table, reading
from raters.metrics.calibration import check_probabilities
from raters.metrics.conventions import label_array
from raters.study.backend import LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend, refuse_other_grid
from raters.study.case import Case
from raters.study.foreign import array_of
from raters.study.pattern import Pattern, is_pattern, there
from raters.study.study import Study
from raters.study.study_file import files_below
from raters.study.table_study import labels_of_tasks

Bands = Iterator[Prediction | Drawn] | RatersError
Stream = Iterator[tuple["Case", Bands]]
"""Cases with what is predicted of each, in bands of rows; or with what went wrong."""


class PredictedMasks:
    """Masks predicted for the cases of a study, one file per case.

    Args:
        source: A folder with files named as the cases are (`<case>.nii.gz`), or a pattern with
            `{case}`; further names in it must be those of the study's cases.
        study: The study that the predictions are for.

    Attributes:
        missing: Cases of the study without a prediction.
        strange: Files that belong to no case of the study.
        samples: Of each sample that `raters predict --samples` wrote for all, the files by case.
    """

    def __init__(self, source: str | Path, study: Study) -> None:
        found = _found(os.fspath(source))
        names = [str(case) for case in study.index.ids]
        self._study = study
        # `raters fuse` writes 255 where it is undecided; elsewhere 0 and 255 are black and white.
        fused = (_folder(source) / FUSE_JOURNAL).exists()
        self._white = study.classes.values == (0, 1) and not (fused or 255 in study.ignored)
        self._files = {case: found[case_path(case)] for case in names if case_path(case) in found}
        self.missing = [case for case in names if case not in self._files]
        known = {case_path(case) for case in names}
        self.strange = [str(path) for name, path in found.items() if name not in known]
        samples = _samples(_folder(source), names)
        lacks = (
            [k for k, files in enumerate(samples) if case not in files] for case in self._files
        )
        number, self._uneven = _common([min(first, default=len(samples)) for first in lacks])
        self.samples = samples[:number]
        if not self._files:
            raise RatersError(
                f"found no prediction for any of {len(names):,} cases, expected files named as the "
                f"cases are, such as {case_path(names[0])!r}; {there(_folder(source))}",
                kind="empty",
                file=source,
            )

    def __contains__(self, case: str) -> bool:
        return case in self._files

    @property
    def notes(self) -> list[str]:
        """What was left out."""
        texts = _left_out("cases", "files that belong to no case", self.missing, self.strange)
        return texts + self._uneven

    def stream(self) -> Stream:
        """Return the cases that have a prediction; each is read when it is asked for."""
        for case in self._study.iter_cases():
            if case.id in self:
                yield case, self._bands(case)

    def _bands(self, case: Case) -> Iterator[Prediction | Drawn]:
        samples = (files[case.id] for files in self.samples)
        yield Drawn(self.read(case), [self._read(case, path) for path in samples])

    def read(self, case: Case) -> NDArray[np.int16]:
        """Read the prediction for a case as class numbers on the grid of the case."""
        return self._read(case, self._files[case.id])

    def _read(self, case: Case, path: Path) -> NDArray[np.int16]:
        classes = self._study.classes
        ignore = self._study.ignored or (classes.free_value(),)
        files = [CaseFiles(masks={"": {"": path}})]
        mask = FilesBackend(files, LabelRules(ignore=ignore), white=self._white).mask(0, "")
        assert mask is not None  # its file is known
        refuse_other_grid(mask.geometry, mask.source, case.geometry, f"case {case.id!r}")
        with placed(file=mask.source, case=case.id):
            return self._encode(mask.values, ignore)

    def _encode(self, values: NDArray[Any], ignore: tuple[int, ...]) -> NDArray[np.int16]:
        """Take values as those of the study's files, else as class numbers where that is plain."""
        try:
            return self._study.encode(values, coded=False, ignore=ignore)
        except RatersError:
            if not self._numbers_are_plain(values, ignore):
                raise
            numbers = np.where(np.isin(values, ignore), MISSING, values)
            return self._study.encode(numbers, coded=True)

    def _numbers_are_plain(self, values: NDArray[Any], ignore: tuple[int, ...]) -> bool:
        """Return whether values can only be class numbers: no class has the number of another."""
        classes = self._study.all_classes
        numbers = {v: k for k, c in enumerate(classes) for v in (c.value, *c.also)}
        clash = any(numbers.get(k, k) != k or k in ignore for k in range(len(classes)))
        return not clash and set(value_counts(values)) <= {*range(len(classes)), *ignore}


_BESIDE = ("as-*", "sample-*", "recurrence-*")


def _folder(source: str | Path) -> Path:
    text = os.fspath(source)
    return Pattern(text).root if is_pattern(text) else Path(text)


def _found(source: str) -> dict[str, Path]:
    """Return all files by the name that a case would have."""
    if not is_pattern(source):
        if not Path(source).is_dir():
            raise RatersError(
                "no such folder, expected a folder of predictions or a pattern with {case}",
                kind="missing-folder",
                file=source,
            )
        # Soft maps and more lie beside the masks that `raters fuse` and `raters predict` write.
        beside: tuple[str, ...] = (f"{SOFT_FOLDER}/",)
        if (Path(source) / PREDICT_JOURNAL).exists():
            maps = (p for kind in _BESIDE for p in Path(source).glob(kind))
            folders = (f"{p.name}/" for p in maps if p.is_dir())
            arrays = (f"{name}/" for name in (ENTROPY_FOLDER, CONFUSION_FOLDER, CONFIDENCE_FOLDER))
            beside = (*beside, *arrays, *folders)
        return {
            name: path
            for name, path in files_below(Path(source))
            if formats.is_supported(path) and not name.startswith(beside)
        }
    pattern = Pattern(source)
    problems: list[RatersError] = []
    matches = list(pattern.walk(problems))
    if not matches:
        raise problems[0] if problems else pattern.nothing_found()
    return {case_path("/".join(m.fields.values())): m.path for m in matches}


def _samples(folder: Path, cases: list[str]) -> list[dict[str, Path]]:
    """Find the samples of a folder of `raters predict`, in order: the files by case."""
    if not (folder / PREDICT_JOURNAL).exists():
        return []
    found: list[dict[str, Path]] = []
    while (place := folder / map_folder(f"sample:{len(found)}")).is_dir():
        inside = {n: p for n, p in files_below(place) if formats.is_supported(p)}
        found.append({case: inside[case_path(case)] for case in cases if case_path(case) in inside})
    return found


def _common(counts: Sequence[int]) -> tuple[int, list[str]]:
    """Return how many samples all cases have, and a note if some have more.

    Scores of samples depend on their number: means over cases are of the same number.
    """
    least = min(counts, default=0)
    most = max(counts, default=0)
    text = f"found {least} to {most} samples per case: the first {least} of each are scored"
    return least, [text] if least < most else []


def _left_out(what: str, others: str, missing: list[str], strange: list[str]) -> list[str]:
    notes = []
    for text, names in ((f"{what} without a prediction", missing), (others, strange)):
        if names:
            notes.append(f"{len(names):,} {text} (left out): {listing(names, 3)}")
    return notes


# Tables of classes


def read_classes(
    source: str | Path, study: Study, task: str, label: str
) -> tuple[NDArray[np.int16], list[str]]:
    """Read predictions as class numbers in the order of the study; MISSING where there is none."""
    path, task = _table(Path(source), task)
    found = labels_of_tasks(path, list(study.index.ids), task, label)
    known = {str(c.value): k for k, c in enumerate(study.classes)}
    known |= {c.name: k for k, c in enumerate(study.classes) if c.name not in known}
    predicted = class_numbers(found, known, study, path)
    missing = int((predicted == MISSING).sum())
    if missing == len(study):
        raise _nothing(found, study, "tasks").at(file=path)
    strange = len(set(found) - set(study.index.ids))
    notes = [f"{missing:,} tasks without a prediction (left out)"] if missing else []
    return predicted, notes + ([f"{strange:,} predictions for unknown tasks"] if strange else [])


def _nothing(found: Iterable[str], study: Study, what: str) -> RatersError:
    # Some names of both, to be compared by eye.
    both = (list(map(str, names)) for names in (found, study.index.ids))
    there, expected = (listing(names, 3, repr) for names in both)
    return RatersError(
        f"found no prediction for any of {len(study):,} {what}: there are {there or 'none'}, "
        f"expected {expected or 'none'}",
        kind="empty",
    )


def class_numbers(
    found: Mapping[str, str], known: Mapping[str, int], study: Study, path: Path
) -> NDArray[np.int16]:
    """Return the class of each task of a study, `(tasks,)`; MISSING where there is none.

    Args:
        found: The label of each task, as it was written.
        known: The class of each label.
        study: The tasks, and the classes that are expected.
        path: Where the labels were found, for messages.

    Raises:
        RatersError: that names the first label that stands for no class.
    """
    labels = np.full(len(study), MISSING, np.int16)
    for k, task in enumerate(study.index.ids):
        value = found.get(task, "").strip()
        if value and value not in known:
            raise RatersError(
                f"found the label {value!r} for task {task!r}, "
                f"expected one of {listing(study.classes.names)}",
                kind="unknown-value",
                file=path,
            )
        labels[k] = known[value] if value else MISSING
    return labels


def _table(path: Path, task: str) -> tuple[Path, str]:
    """Find the table in a folder that `raters predict` or `raters fuse` wrote, and its column."""
    for name in ("predictions.csv", "labels.csv") if path.is_dir() else ():
        if (path / name).exists():
            path = path / name
            break
    if task == "task" and path.name == "predictions.csv" and path.exists():
        with reading(path):
            names = open_table(path, wide=False, header=True, rules=CellRules()).names
        task = "case" if "case" in names and "task" not in names else task
    return path, task


# Arrays


class PredictedArrays:
    """Predictions in memory: labels or probabilities of each case.

    Args:
        given: By the name of the case: class numbers `(*space)`, probabilities
            `(classes, *space)`, or a `Prediction`. Or all of these in the order of the study, such
            as an array `(cases, *space)` or `(cases, classes, *space)`.
        study: The study that the predictions are for.

    Attributes:
        notes: What was left out.
    """

    def __init__(self, given: Any, study: Study) -> None:  # noqa: ANN401
        self._study = study
        names = [str(case) for case in study.index.ids]
        if not isinstance(given, Mapping):
            given = given if isinstance(given, list | tuple) else array_of(given)
            if not np.ndim(given[:1]) or len(given) != len(names):
                raise RatersError(
                    f"found {len(given):,} predictions, expected one for each of {len(names):,} "
                    "cases, in their order; or a dictionary by case"
                )
            given = dict(zip(names, given, strict=True))
        self._given = {str(case): value for case, value in given.items()}
        missing = [name for name in names if name not in self._given]
        if len(missing) == len(names):
            raise _nothing(self._given, study, "cases")
        strange = sorted(set(self._given) - set(names))
        said = [self._given[name] for name in names if name in self._given]
        counts = [len(one.samples) if isinstance(one, Prediction) else 0 for one in said]
        self._samples, uneven = _common(counts)
        self.notes = _left_out("cases", "predictions of unknown cases", missing, strange) + uneven

    def stream(self) -> Stream:
        """Return the cases that have a prediction."""
        for case in self._study.iter_cases():
            if case.id in self._given:
                yield case, self._bands(case)

    def _bands(self, case: Case) -> Iterator[Prediction | Drawn]:
        yield self._one(case.id, case.geometry.shape)

    def _one(self, case: str, space: tuple[int, ...]) -> Prediction | Drawn:
        """Return labels or probabilities, whichever the shape says."""
        given = self._given[case]
        size = len(self._study.classes)
        array = given.truth if isinstance(given, Prediction) else array_of(given)
        with placed(case=case):
            if array.shape == (size, *space):
                check_probabilities(array.astype(np.float64))
                if isinstance(given, Prediction):
                    more = [n for n in given.maps if n.startswith(SAMPLE)][self._samples :]
                    kept = {name: m for name, m in given.maps.items() if name not in more}
                    return replace(given, maps=kept)
                return Prediction({"truth": array.astype(np.float32)})
            if array.shape == space and array.dtype.kind in "biu":
                return Drawn(label_array(array, size).astype(np.int16))
        raise RatersError(
            f"found a prediction of shape {array.shape} and type {array.dtype}, expected labels "
            f"{space} (whole numbers) or probabilities {(size, *space)}",
            case=case,
        )

    def classes(self) -> NDArray[np.int16] | None:
        """Return class numbers in the order of the study; None if there are probabilities."""
        labels = np.full(len(self._study), MISSING, np.int16)
        for k, case in enumerate(self._study.index.ids):
            if case in self._given:
                found = self._one(str(case), ())
                if isinstance(found, Prediction):
                    return None
                labels[k] = int(found.labels)
        return labels

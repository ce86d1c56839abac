"""`study.yaml`, `cases.csv`, checksums and the canonical folder: what `raters` writes as files."""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from raters.core.arrays import Array, Labels
from raters.core.classes import MISSING, Classes, LabelClass
from raters.core.errors import RatersError, placed
from raters.core.geometry import Geometry
from raters.io import formats
from raters.io.paths import (
    case_path,
    file_name,
    from_file_name,
    read_text,
    refuse_special,
    written_whole,
)
from raters.io.plain_yaml import read_plain_yaml, write_yaml
from raters.io.rows import read_cells, write_cells
from raters.study.annotations import Annotation, Unmarked, checked
from raters.study.backend import LabelRules
from raters.study.backend_files import CaseFiles, FilesBackend
from raters.study.cases import CaseIndex
from raters.study.study import Study

STUDY_FILE = "study.yaml"
CASES_FILE = "cases.csv"
FORMAT = "raters-study/1"
PART = ".part"
"""What arrays end with until they are whole."""

Form = Literal["canonical", "packed"]


class ClassEntry(BaseModel):
    """A class in `study.yaml`."""

    model_config = ConfigDict(extra="forbid")

    name: str
    value: int | str
    also: list[int | str] = []


class StudyFile(BaseModel):
    """The content of `study.yaml`."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["raters-study/1"]
    form: Form
    kind: Literal["segmentation", "classification"]
    raters: list[str]
    classes: list[ClassEntry]
    ignore: int | None = None
    channels: list[str] = []
    about: dict[str, str] = {}
    annotations: dict[str, Annotation] = {}
    unmarked: Unmarked | None = None

    def label_classes(self) -> Classes:
        """Return the classes."""
        return Classes(tuple(LabelClass(c.name, c.value, tuple(c.also)) for c in self.classes))


def write_study_file(folder: Path, content: StudyFile) -> None:
    """Write `study.yaml`, whole or not at all."""
    plain = content.model_dump()
    plain["classes"] = [{k: v for k, v in c.items() if v != []} for c in plain["classes"]]
    plain = {k: v for k, v in plain.items() if v not in (None, [], {}) or k == "raters"}
    write_yaml(folder / STUDY_FILE, plain, width=100)


def read_study_file(folder: Path) -> StudyFile:
    """Read `study.yaml` and reject what is not understood.

    Raises:
        RatersError: that names the key and what was expected.
    """
    content = read_plain_yaml(folder / STUDY_FILE, StudyFile, FORMAT)
    with placed(file=folder / STUDY_FILE):
        classes = content.label_classes()
        if content.kind == "segmentation":
            classes.refuse_text()
        checked(content.annotations, content.raters, content.kind)
    return content


def write_cases_file(folder: Path, index: CaseIndex, columns: Mapping[str, Iterable[str]]) -> None:
    """Write `cases.csv`: case, group, split, any diagnosis and any further columns."""
    own = {"case": index.ids, "group": index.groups, "split": index.splits}
    if any(index.diagnoses):
        own["diagnosis"] = index.diagnoses
    rows = zip(*own.values(), *columns.values(), strict=True)
    write_cells(folder / CASES_FILE, [(*own, *columns), *rows])


def read_cases_file(folder: Path) -> tuple[CaseIndex, dict[str, list[str]]]:
    """Read `cases.csv`; give the index of cases and the further columns.

    Raises:
        RatersError: for a missing column or a case that is listed twice.
    """
    path = folder / CASES_FILE
    columns, rows = read_cells(path)
    if "case" not in columns:
        found = ", ".join(columns) or "no header"
        raise RatersError(f"found {found}, expected a column 'case'", kind="columns", file=path)
    cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
    table = {column: list(values) for column, values in zip(columns, cells, strict=True)}
    if len(set(table["case"])) < len(rows) or "" in table["case"]:
        case = next(case for case, n in Counter(table["case"]).items() if n > 1 or not case)
        what = f"case {case!r} twice" if case else "a row without a case"
        raise RatersError(f"found {what}, expected each case once", kind="duplicate", file=path)
    groups = (
        [g or c for g, c in zip(table["group"], table["case"], strict=True)]
        if "group" in table
        else None
    )
    splits = table.pop("split", None)
    diagnoses = table.pop("diagnosis", None)
    index = CaseIndex.of(table.pop("case"), groups, splits, diagnoses)
    table.pop("group", None)
    return index, table


WRITTEN = (".nii.gz", ".nrrd", ".npy", ".png")
"""The endings that `formats.image_suffix` and `formats.label_suffix` choose from."""


@dataclass(frozen=True)
class CaseArrays:
    """All of one case in memory, for as long as it takes to write it."""

    id: str
    labels: Labels | None
    image: Array | None
    reference: Labels | None
    geometry: Geometry


class Writer:
    """Writes cases in one form.

    Attributes:
        content: What `study.yaml` will say.
        by_case: Whether there is anything to write case by case.
    """

    by_case = True

    def __init__(self, study: Study, folder: Path, content: StudyFile) -> None:
        self._study = study
        self._folder = folder
        self.content = content

    def write(self, position: int, arrays: CaseArrays) -> None:
        """Write one case; called again for the same case, it writes the same."""
        raise NotImplementedError

    def discard(self, case: str) -> None:
        """Remove what was written of a case that cannot be read any more."""

    def finish(self, positions: list[int]) -> dict[str, list[str]]:  # noqa: ARG002
        """Write what is left when all cases are there; give further columns of `cases.csv`."""
        return {}

    def close(self) -> None:
        """Let go of files, however the import ended."""


class CanonicalWriter(Writer):
    """Writes cases as files below `images/`, `labels/<rater>/` and `reference/`."""

    def write(self, position: int, arrays: CaseArrays) -> None:  # noqa: ARG002
        """Write the masks of all raters who labelled something, the image and the reference."""
        name = case_path(arrays.id)
        affine = arrays.geometry.affine
        suffix = None
        if arrays.image is not None:
            suffix = formats.image_suffix(arrays.image, affine)
            formats.write_image(self._folder / f"images/{name}{suffix}", arrays.image, affine)
        self._remove(f"images/{name}", suffix)
        labels = [] if arrays.labels is None else list(arrays.labels)
        masks = zip(self._study.raters, labels, strict=bool(labels))
        folders = {f"labels/{file_name(rater)}": mask for rater, mask in masks}
        if arrays.reference is not None:
            folders["reference"] = arrays.reference
        said = [folder for folder, mask in folders.items() if (mask != MISSING).any()]
        if not said and arrays.image is None:
            said = list(folders)[:1]  # one mask that says nothing still keeps the grid
        for folder, mask in (folders | {"reference": arrays.reference}).items():
            suffix = None
            if mask is not None and folder in said:
                values = self._study.classes.decode(mask, self.content.ignore)
                suffix = formats.label_suffix(values, affine)
                formats.write_labels(self._folder / f"{folder}/{name}{suffix}", values, affine)
            self._remove(f"{folder}/{name}", suffix)

    def _remove(self, place: str, but: str | None) -> None:
        """Remove what an earlier import wrote for a case that has changed since."""
        for suffix in WRITTEN:
            if suffix != but:
                (self._folder / f"{place}{suffix}").unlink(missing_ok=True)

    def discard(self, case: str) -> None:
        """Remove the files of a case."""
        labels = [f"labels/{file_name(rater)}" for rater in self._study.raters]
        for folder in ("images", "reference", *labels):
            self._remove(f"{folder}/{case_path(case)}", None)


def open_canonical(
    folder: Path, content: StudyFile, index: CaseIndex
) -> tuple[FilesBackend, list[RatersError]]:
    """Find the files of a canonical folder; give the backend and files that belong to no case."""
    position = {case_path(case): k for k, case in enumerate(index.ids)}
    cases = [CaseFiles() for _ in index.ids]
    problems: list[RatersError] = []
    places = [("images", None), ("reference", None), *_rater_folders(folder, content, problems)]
    for place, rater in places:
        for name, path in files_below(folder / place):
            if name not in position:
                message = "found a file of a case that is not in cases.csv"
                problems.append(RatersError(message, kind="stray-file", file=path))
                continue
            case = cases[position[name]]
            if rater is not None:
                files = case.masks.setdefault(rater, {})
            else:
                files = case.images if place == "images" else case.reference
            if "" in files:
                message = f"found a second file of one case beside {files['']}, expected one"
                problems.append(RatersError(message, kind="duplicate", file=path))
            files[""] = path
    ignore = () if content.ignore is None else (content.ignore,)
    return FilesBackend(cases, LabelRules(ignore=ignore), channels_first=True), problems


def _rater_folders(
    folder: Path, content: StudyFile, problems: list[RatersError]
) -> list[tuple[str, str]]:
    known = {file_name(rater): rater for rater in content.raters}
    labels = folder / "labels"
    for name in sorted(os.listdir(labels)) if labels.is_dir() else []:
        if name not in known and not name.startswith("."):
            message = f"found labels by {from_file_name(name)!r}, who is not a rater in study.yaml"
            problems.append(RatersError(message, kind="stray-file", file=labels / name))
    return [(f"labels/{name}", rater) for name, rater in known.items()]


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Return all files below a folder with their path from it, without the suffix."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if not name.startswith("."):
                path = Path(parent, name)
                relative = path.relative_to(folder).as_posix()
                yield relative.removesuffix(formats.suffix_of(path)), path


SUMS_FILE = "sums.json"
_BLOCK = 1 << 20  # bytes


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write size and CRC-32 of those files that are there; no file if none is."""
    there = [name for name in sorted(names) if (folder / name).is_file()]
    if not there:
        (folder / SUMS_FILE).unlink(missing_ok=True)
        return
    sums = {name: _sum(folder / name) for name in there}
    with written_whole(folder / SUMS_FILE) as file:
        file.write(json.dumps(sums, indent=2) + "\n")


def _sum(path: Path) -> dict[str, int]:
    check = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            check = zlib.crc32(block, check)
        return {"bytes": file.tell(), "crc32": check}


def sum_errors(folder: Path) -> Iterator[RatersError]:
    """Compare files with what was written; a folder without sums says nothing."""
    path = folder / SUMS_FILE
    if not path.exists():
        return
    try:
        expected = _expected(path)
    except RatersError as error:
        yield error
        return
    for name, known in expected.items():
        file = folder / name
        try:
            refuse_special(file)
            found = _sum(file)
        except OSError as error:
            message = f"{error.strerror or error}, expected {known['bytes']:,} bytes as written"
            yield RatersError(message, kind="missing-file", file=file)
            continue
        except RatersError as error:
            yield error
            continue
        if found["bytes"] != known["bytes"]:
            message = f"found {found['bytes']:,} bytes, expected {known['bytes']:,} as written"
            yield RatersError(message, kind="damaged", file=file)
        elif found["crc32"] != known["crc32"]:
            message = "found other content than was written, expected the same checksum"
            yield RatersError(message, kind="damaged", file=file)


def _expected(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
        return {
            # A stranger's file may name anything: only what lies in the folder is read.
            Path(name).name: {key: int(known[key]) for key in ("bytes", "crc32")}
            for name, known in content.items()
        }
    except RatersError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"cannot be read ({type(error).__name__}), expected sizes and checksums by file"
        raise RatersError(message, kind="unreadable", file=path) from None

"""`study.yaml` and `cases.csv`: what a folder written by `raters` says of itself."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from raters.errors import RatersError
from raters.study.classes import Classes, LabelClass
from raters.study.files_index import read_cells
from raters.study.paths import written_whole
from raters.study.plain_yaml import read_plain_yaml
from raters.study.study import CaseIndex

STUDY_FILE = "study.yaml"
CASES_FILE = "cases.csv"
FORMAT = "raters-study/1"

Form = Literal["canonical", "packed"]


class _Plain(csv.unix_dialect):
    quoting = csv.QUOTE_MINIMAL


class _Quoted(csv.unix_dialect):
    quoting = csv.QUOTE_ALL


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

    def label_classes(self) -> Classes:
        """Return the classes."""
        return Classes(tuple(LabelClass(c.name, c.value, tuple(c.also)) for c in self.classes))


class _Dumper(yaml.SafeDumper):
    """Puts texts with unusual line breaks into double quotes, where YAML keeps them."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if set(text) & set("\r\x85\u2028\u2029\ufeff") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent)


def write_study_file(folder: Path, content: StudyFile) -> None:
    """Write `study.yaml`, whole or not at all."""
    plain = content.model_dump()
    plain["classes"] = [{k: v for k, v in c.items() if v != []} for c in plain["classes"]]
    plain = {k: v for k, v in plain.items() if v not in (None, [], {}) or k == "raters"}
    with written_whole(folder / STUDY_FILE) as file:
        yaml.dump(plain, file, _Dumper, sort_keys=False, allow_unicode=True, width=100)


def read_study_file(folder: Path) -> StudyFile:
    """Read `study.yaml` and reject what is not understood.

    Raises:
        RatersError: that names the key and what was expected.
    """
    content = read_plain_yaml(folder / STUDY_FILE, StudyFile, FORMAT)
    try:
        classes = content.label_classes()
        if content.kind == "segmentation":
            classes.refuse_text()
    except RatersError as error:
        raise error.at(file=folder / STUDY_FILE) from None
    return content


def write_cases_file(folder: Path, index: CaseIndex, **columns: Iterable[str]) -> None:
    """Write `cases.csv`: case, group, split and any further columns."""
    with written_whole(folder / CASES_FILE) as file:
        rows = list(zip(index.ids, index.groups, index.splits, *columns.values(), strict=True))
        # The writer does not see that a carriage return needs quotes.
        odd = any("\r" in cell for row in rows for cell in row)
        writer = csv.writer(file, _Quoted if odd else _Plain)
        writer.writerow(["case", "group", "split", *columns])
        writer.writerows(rows)


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
    index = CaseIndex.of(table.pop("case"), groups, table.pop("split", None))
    table.pop("group", None)
    return index, table

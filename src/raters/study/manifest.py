"""A manifest: a CSV that lists mask and image files, one row per mask."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from raters.errors import RatersError
from raters.study.backend_files import CaseFiles
from raters.study.files_index import FilesIndex
from raters.study.paths import refuse_special
from raters.study.pattern import natural_key

COLUMNS = ("case", "rater", "mask", "image", "reference", "group", "split", "modality", "class")
"""The columns of a manifest; `case` is needed, and `rater` with `mask` where there are masks."""


def read_cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read a CSV file with a header; give its columns and the cells of its rows.

    Raises:
        RatersError: that names the line where a row has too many or too few cells.
    """
    refuse_special(path)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            columns = [c.strip() for c in next(reader, [])]
            rows = list(_whole_rows(reader, len(columns), path))
    except OSError as error:
        raise RatersError(error.strerror or str(error), kind="unreadable", file=path) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RatersError(f"not a CSV file: {error}", kind="unreadable", file=path) from None
    return columns, rows


def _whole_rows(reader: Iterator[list[str]], expected: int, path: Path) -> Iterator[list[str]]:
    for line, cells in enumerate(reader, start=2):
        if cells and len(cells) != expected:
            message = f"found {len(cells)} cells in row {line}, expected {expected}"
            raise RatersError(message, kind="columns", file=path)
        if cells:
            yield cells


def is_manifest(columns: list[str]) -> bool:
    """Return whether a table lists files of masks (and not class labels)."""
    # A slip such as 'masks' or semicolons is for the manifest's reader to name.
    lower = [part.strip().lower() for column in columns for part in column.split(";")]
    return "mask" in lower or ({"case", "rater"} <= set(lower) and "masks" in lower)


def index_manifest(path: Path) -> FilesIndex:
    """Read a manifest; paths in it are relative to the folder it is in."""
    columns, cells = read_cells(path)
    rows = [dict(zip(columns, (c.strip() for c in row), strict=True)) for row in cells]
    _refuse_bad_columns(columns, path)
    files: dict[str, CaseFiles] = {}
    facts: dict[str, dict[str, str]] = {}
    found = FilesIndex([], None, None, [], [])
    for line, row in enumerate(rows, start=2):
        if not row["case"]:
            raise RatersError(f"found no case in row {line}, expected a name", file=path)
        case = files.setdefault(row["case"], CaseFiles())
        _add_row(row, case, path, line, found.problems)
        _add_facts(row, facts.setdefault(row["case"], {}), path, line)
    if not files:
        raise RatersError("found no rows, expected a row per mask", kind="empty", file=path)
    return _index(files, facts, columns, found.problems)


def _refuse_bad_columns(columns: list[str], path: Path) -> None:
    if len(columns) == 1 and (";" in columns[0] or "\t" in columns[0]):
        raise RatersError(
            f"found the header {columns[0]!r}, expected commas between the columns of a manifest",
            kind="columns",
            file=path,
        )
    for column in columns:
        close = get_close_matches(column.lower(), COLUMNS, n=1, cutoff=0.75)
        if column not in COLUMNS and close:
            message = (
                f"found column {column!r}, expected {close[0]!r} "
                f"(the columns of a manifest are {', '.join(COLUMNS)})"
            )
            raise RatersError(message, kind="columns", file=path)
    only_images = "image" in columns and "mask" not in columns
    for needed in ("case",) if only_images else ("case", "rater"):
        if needed not in columns:
            message = (
                f"found columns {', '.join(columns)}, expected a column {needed!r} "
                f"(the columns of a manifest are {', '.join(COLUMNS)})"
            )
            raise RatersError(message, kind="columns", file=path)


def _add_row(
    row: dict[str, str], case: CaseFiles, path: Path, line: int, problems: list[RatersError]
) -> None:
    """Add the files of one row; the same image may be named again, another one may not."""
    name = row.get("class", "")
    if row.get("mask"):
        if not row["rater"]:
            raise RatersError(f"found a mask without a rater in row {line}", file=path)
        given = case.masks.setdefault(row["rater"], {})
        _put(given, name, path.parent / row["mask"], path, line, problems, again=False)
    if row.get("image"):
        modality = row.get("modality", "")
        _put(case.images, modality, path.parent / row["image"], path, line, problems)
    if row.get("reference"):
        _put(case.reference, name, path.parent / row["reference"], path, line, problems)


def _put(
    files: dict[str, Path],
    name: str,
    file: Path,
    path: Path,
    line: int,
    problems: list[RatersError],
    again: bool = True,
) -> None:
    if name in files and not (again and files[name] == file):
        message = (
            f"row {line} repeats an earlier row"
            if files[name] == file
            else f"found {file} in row {line}, expected {files[name]} as in an earlier row"
        )
        problems.append(RatersError(message, kind="duplicate", file=path))
        return
    files[name] = file


def _add_facts(row: dict[str, str], facts: dict[str, str], path: Path, line: int) -> None:
    for column in ("group", "split"):
        value = row.get(column)
        if value and facts.setdefault(column, value) != value:
            raise RatersError(
                f"found {column} {value!r} for case {row['case']!r} in row {line}, "
                f"expected {facts[column]!r} as in an earlier row",
                file=path,
            )


def _index(
    files: dict[str, CaseFiles],
    facts: dict[str, dict[str, str]],
    columns: list[str],
    problems: list[RatersError],
) -> FilesIndex:
    ids = sorted(files, key=natural_key)
    masks = [classes for case in files.values() for classes in case.masks.values()]
    named = {name for by_class in masks for name in by_class} | {
        name for case in files.values() for name in case.reference
    }
    modalities = {name for case in files.values() for name in case.images}
    return FilesIndex(
        ids=ids,
        groups=[facts[c].get("group", c) for c in ids] if "group" in columns else None,
        splits=[facts[c].get("split", "") for c in ids] if "split" in columns else None,
        files=[files[case] for case in ids],
        raters=sorted({r for case in files.values() for r in case.masks}, key=natural_key),
        class_names=sorted(named - {""}, key=natural_key),
        modalities=sorted(modalities - {""}, key=natural_key),
        problems=problems,
    )

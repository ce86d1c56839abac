"""A table whose columns are not called task, worker and label: guessed, and said in one line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raters.core.errors import RatersError
from raters.io import table_files
from raters.io.table_files import CellRules, TableFile
from raters.study.files_index import is_manifest
from raters.study.table_columns import ROLES, Columns, guess_columns, rater_columns
from raters.study.table_study import one_per_task, read_texts

_SAMPLE = 2000
_FEWEST_ROWS = 20
_MOST_RATER_COLUMNS = 50


def guess_table(path: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `raters.read` that name the columns of a table; {} for none.

    Args:
        path: The table.
        given: Arguments of `raters.read`; columns that are given, or called as usual, are kept.

    Raises:
        RatersError: Several columns may be meant, or the table has a column per rater; it names
            the command.
    """
    if given.get("wide") or given.get("header") is False:
        return {}
    source = _opened(path, given.get("header"))
    if source is None:
        return {}
    with table_files.reading(path):
        names = source.names
        known = _known(names, given)
        if is_manifest(names) or all(known.values()) or _missing_given(names, given):
            return {}
        columns = _without_texts(source, guess_columns(names, known))
        if not columns.is_complete:
            _refuse_incomplete(path, source, columns)
            return {}
    arguments: dict[str, Any] = {role: columns.only(role) for role in ROLES}
    truth = columns.only("truth")
    if truth is not None and given.get("reference") is None:
        task = str(columns.only("task"))
        if _is_one_per_task(path, task, truth):
            arguments["reference"] = str(path)
    return arguments


def _opened(path: Path, header: bool | None) -> TableFile | None:
    """Open a table; None for what cannot be read, which its reader will say."""
    try:
        with table_files.reading(path):
            return table_files.open_table(path, False, header, CellRules())
    except RatersError as error:
        if error.kind == "missing-package":
            raise
        return None


def said(path: Path, arguments: Mapping[str, Any]) -> str:
    """Return in one line how a table was taken."""
    columns = ", ".join(f"{role}={arguments[role]}" for role in ROLES)
    reference = arguments.get("reference")
    if reference is None:
        return f"taken as {path} with {columns}"
    names = column_names(Path(reference))
    truth = truth_column(names, str(arguments["task"]))
    where = "" if Path(reference) == path else f" of {reference}"
    return f"taken as {path} with {columns}, reference={truth}{where}"


def truth_column(names: Sequence[str], task: str) -> str | None:
    """Return the column of a table that holds the truth of each task, if its name says so."""
    return guess_columns(names, {"task": task}).only("truth")


def is_truth(path: Path) -> bool:
    """Return whether a table holds a true label per task and nobody's labels."""
    columns = guess_columns(column_names(path), {})
    has_truth = columns.only("truth") is not None
    return has_truth and columns.only("task") is not None and not columns.found["worker"]


def is_labels(path: Path) -> bool:
    """Return whether the columns of a table name task, rater and label."""
    names = column_names(path)
    return guess_columns(names, _known(names, {})).is_complete


def may_hold_labels(path: Path) -> bool:
    """Return whether a table may hold labels, in long or in wide form."""
    names = column_names(path)
    numbers = len(names) > 2 and all(table_files.number(name) is not None for name in names)
    return is_labels(path) or numbers or len(rater_columns(names)) > 1


def column_names(path: Path) -> list[str]:
    """Return the names of the columns of a table."""
    with table_files.reading(path):
        return table_files.open_table(path, False, None, CellRules()).names


def _known(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the columns that are given, or called as usual, by role."""
    known: dict[str, str | None] = {}
    for role in ROLES:
        name = given.get(role, role)
        known[role] = name if name in names else None
    return known


def _missing_given(names: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Return whether a column is given that the table lacks: its reader says so."""
    return any(given.get(role, role) not in (role, *names) for role in ROLES)


def _without_texts(source: TableFile, columns: Columns) -> Columns:
    """Leave out columns of labels in which no text comes twice: comments, and the like."""
    if len(columns.found["label"]) < 2:
        return columns
    kept = []
    for name in columns.found["label"]:
        batch = next(iter(source.batches([source.names.index(name)])), None)
        texts = [] if batch is None else batch[0].slice(0, _SAMPLE).to_pylist()
        if len(texts) < _FEWEST_ROWS or len(set(texts)) < len(texts):
            kept.append(name)
    return Columns({**columns.found, "label": tuple(kept)})


def _refuse_incomplete(path: Path, source: TableFile, columns: Columns) -> None:
    """Reject a table whose columns are not clear, with the command that may be meant."""
    raters = rater_columns(source.names)
    numbers = all(table_files.number(name) is not None for name in source.names)
    if numbers and len(source.names) > 2:
        extra = ["--wide", *_missing_option(source)]
        hint = f"a table with one column per rater needs --wide: {_command(path, extra)}"
        raise _refused(f"found numbers in its first row, expected names of columns; {hint}", path)
    task = columns.only("task")
    if not columns.found["worker"] and task and 1 < len(raters) <= _MOST_RATER_COLUMNS:
        extra = ["--wide", "--task", task, "--raters", ",".join(raters)]
        truth = columns.only("truth") or columns.only("label")
        if truth is not None:
            extra += ["--reference", str(path)]
        hint = f"if each of {', '.join(raters)} is a rater: {_command(path, extra)}"
        raise _refused(f"found no column that names the rater; {hint}", path)
    labelled = columns.found["label"] or columns.found["truth"]
    if task and labelled and not columns.found["worker"]:
        raise _refused(
            f"found no column that names the rater beside {task!r} and {labelled[0]!r}, expected "
            "one (--worker NAME); true labels are given beside a table of raters: --reference "
            f"{shlex.quote(str(path))}",
            path,
        )
    several = {role: columns.found[role] for role in ROLES if len(columns.found[role]) > 1}
    if several and all(columns.found[role] for role in ROLES):
        role, names = next(iter(several.items()))
        commands = []
        for name in names:
            chosen = {r: columns.found[r][0] for r in ROLES} | {role: name}
            options = [part for r in ROLES for part in (f"--{r}", chosen[r])]
            commands.append(f"\n  {_command(path, options)}")
        listed = " and ".join(map(repr, names))
        what = "rater" if role == "worker" else role
        raise _refused(
            f"found the columns {listed}, each of which may hold the {what}; one of "
            f"{''.join(commands)}",
            path,
        )


def _missing_option(source: TableFile) -> list[str]:
    """Return the option for cells of -1, if they are many."""
    return ["--missing=-1"] if "-1" in source.names else []


def _command(path: Path, options: Sequence[str]) -> str:
    return shlex.join(["raters", "check", str(path), *options])


def _refused(message: str, path: Path) -> RatersError:
    return RatersError(message, kind="columns", file=path)


def _is_one_per_task(path: Path, task: str, truth: str) -> bool:
    """Return whether a column says one thing of each task, and something of any."""
    tasks, values = read_texts(path, lambda _: (task, truth))
    if not np.any([value != "" for value in values]):
        return False
    try:
        one_per_task(tasks, values, truth, path)
    except RatersError:
        return False
    return True

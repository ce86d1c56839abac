"""Which columns of a table to read, and what is wrong with their names."""

from __future__ import annotations

from typing import NoReturn

from raters.errors import RatersError
from raters.study.table_files import TableFile

_SHOWN = 6
_PANDAS_INDEX = ("", "__index_level_0__")


def position(source: TableFile, name: str) -> int:
    """Find a column by its name."""
    found = [k for k, other in enumerate(source.names) if other == name]
    if len(found) == 1:
        return found[0]
    if found:
        _refuse_repeated_column(source, name)
    columns = ", ".join(map(repr, source.names[:_SHOWN]))
    left = len(source.names) - _SHOWN
    more = f" and {left:,} more" if left > 0 else ""
    raise RatersError(
        f"has no column {name!r}; found {columns}{more}. "
        "Columns of labels are set by --task NAME --worker NAME --label NAME "
        "(a table with one column per rater needs --wide); "
        "a manifest of mask files needs the columns case, rater, mask",
        kind="columns",
    )


def identity_column(source: TableFile, task: str) -> int | None:
    """Find the column that names the tasks of a wide table, if it has one."""
    if source.header and task not in source.names:
        for index in _PANDAS_INDEX:
            if source.names.count(index) == 1:
                return source.names.index(index)
    # The default name is no demand: a table need not name its tasks.
    if task == "task" and (not source.header or task not in source.names):
        return None
    return position(source, task)


def refuse_bad_raters(source: TableFile, raters: list[str]) -> None:
    """Reject columns of a wide table that do not name different raters."""
    if not raters:
        raise RatersError("has no column of a rater", kind="columns")
    if "" in raters:
        column = source.names.index("") + 1
        raise RatersError(
            f"column {column} has no name, expected the name of a rater "
            "(if the first row is data, say that there is no header)",
            kind="columns",
        )
    repeated = _first_repeated(raters)
    if repeated is not None:
        _refuse_repeated_column(source, repeated)


def refuse_bad_ids(source: TableFile, task: str, ids: list[str]) -> None:
    """Reject rows of a wide table that do not name different tasks."""
    if "" in ids:
        refuse_empty_name(source, task, ids.index("") + 1)
    repeated = _first_repeated(ids)
    if repeated is not None:
        first = ids.index(repeated)
        again = ids.index(repeated, first + 1)
        raise RatersError(
            f"found task {repeated!r} in rows {first + 1} and {again + 1}, "
            "expected one row per task in a wide table",
            kind="table",
        )


def _first_repeated(names: list[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _refuse_repeated_column(source: TableFile, name: str) -> NoReturn:
    raise RatersError(
        f"found {source.names.count(name)} columns named {name!r}, expected one",
        kind="columns",
    )


def refuse_empty_name(source: TableFile, column: str, row: int) -> NoReturn:
    """Report that a task or a rater has no name; rows count from 1."""
    counted = " (the header not counted)" if source.header else ""
    raise RatersError(
        f"found nothing in column {column!r} of row {row}{counted}, expected a name",
        kind="value",
    )

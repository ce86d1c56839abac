"""Tables of the page: cells as texts to show and values to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real

import numpy as np

from raters.core.wording import ALL_RATERS
from raters.io.rows import Row

SHOWN_ROWS = 200
"""Rows that are shown at a time."""
MOST_ROWS = 5000
"""Rows that are searched and sorted in the page; the CSV file has all."""

_LEAST = 0.0001  # smaller numbers are not told apart; the CSV file has them in full

Cell = str | tuple[str, float] | None


def headings(rows: Sequence[Row], columns: Sequence[str] | Mapping[str, str] | None) -> Row:
    """Return `{column: heading}` of the columns to show.

    Example:
        >>> headings([{"a": 1}, {"b_c": 2}], None)
        {'a': 'a', 'b_c': 'b c'}
    """
    if isinstance(columns, Mapping):
        return dict(columns)
    names = dict.fromkeys(c for row in rows for c in row) if columns is None else columns
    return {name: str(name).replace("_", " ") for name in names}


_RATERS = ("rater", "rater_a", "rater_b")
LINKS = {"case": "case", "task": "case", "sheet": "sheet", "who": "said"}
LINKS |= dict.fromkeys((*_RATERS, "as", "against"), "rater")
"""What the names in a column open; of 'said', raters in texts such as 'cat: ann, bob; dog: cy'."""


def rater_names(tables: Iterable[Sequence[Row]]) -> set[str]:
    """Return the names in columns of raters: 'against' and 'as' name others too, such as runs.

    Example:
        >>> sorted(rater_names([[{"rater": "ann"}, {"rater": "all raters"}], [{"against": "run"}]]))
        ['ann']
    """
    found: set[str] = set()
    for rows in tables:
        for row in rows:
            found.update(str(row[column]) for column in _RATERS if row.get(column))
    return found - {ALL_RATERS}


def table_view(
    rows: Sequence[Row], columns: Sequence[str] | Mapping[str, str] | None = None
) -> Row:
    """Return what the template needs of a table; `data` is for the script.

    Cells are a text, a number as (text, value), or None for no value.

    Example:
        >>> rows = [{"rater": "ann", "dice": 0.91234, "n": 1200}, {"rater": "bob"}]
        >>> table_view(rows, ["rater", "dice", "n"])["rows"]
        [['ann', ('0.912', 0.91234), ('1,200', 1200.0)], ['bob', None, None]]
        >>> table_view([{"p": 0.9999, "dice": 0.9999}])["rows"]
        [[('>0.999', 0.9999), ('1.000', 0.9999)]]
    """
    heads = headings(rows, columns)
    cells = [[cell(row.get(column), column == "p") for column in heads] for row in rows[:MOST_ROWS]]
    opens = [LINKS.get(column, "") for column in heads]
    data = {"columns": list(heads.values()), "links": opens, "rows": cells, "shown": SHOWN_ROWS}
    return {
        "heads": [(text, _numeric(cells, k)) for k, text in enumerate(heads.values())],
        "links": opens,
        "rows": cells[:SHOWN_ROWS],
        "count": len(rows),
        "held": len(cells),
        "data": data,
    }


def cell(value: object, sure: bool = False) -> Cell:
    """Return one cell; `sure` is how sure something is, and never wholly."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Real) and np.isfinite(float(value)):
        return ">0.999" if sure and 0.9995 <= float(value) < 1 else _number(value), float(value)
    if isinstance(value, list | tuple):
        return ", ".join(shown_value(part) for part in value)
    return str(value)


def shown_value(value: object) -> str:
    """Return a value as text.

    Example:
        >>> shown_value(0.5), shown_value(None), shown_value(1234), shown_value(1e-9)
        ('0.500', '–', '1,234', '<0.0001')
    """
    one = cell(value)
    if one is None:
        return "–"
    return one if isinstance(one, str) else one[0]


def _numeric(table: Sequence[Sequence[Cell]], column: int) -> bool:
    """Return whether a column holds numbers only, and at least one."""
    found = [row[column] for row in table if row[column] is not None]
    return bool(found) and all(isinstance(one, tuple) for one in found)


def _number(value: Real) -> str:
    if isinstance(value, Integral):
        return f"{int(value):,}"
    number = float(value)
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    if 0 < abs(number) < _LEAST:
        return f"<{_LEAST}" if number > 0 else f">-{_LEAST}"
    if 0 < abs(number) < 0.01:
        return f"{number:.4f}"
    return f"{number:.3f}" if abs(number) < 10 else f"{number:.1f}"

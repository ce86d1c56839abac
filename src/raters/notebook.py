"""Small tables of HTML for notebooks, with nothing fetched and nothing run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from raters.wording import printable

MOST_ROWS = 10
MOST_COLUMNS = 12


def html(title: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return a title and tables below it; long tables are cut, and say so.

    Example:
        >>> html("Study", {"raters": [{"name": "<ann>", "cases": 3}]})
        '<p><b>Study</b></p><p>raters</p><table><tr><th>name</th><th>cases</th></tr><tr><td>&lt;ann&gt;</td><td>3</td></tr></table>'
    """
    shown = "".join(_table(name, rows) for name, rows in tables.items() if rows)
    return f"<p><b>{_cell(title)}</b></p>{shown}"


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows[:MOST_ROWS] for column in row))
    lines = [_line("th", columns[:MOST_COLUMNS])]
    lines += [_line("td", [row.get(c) for c in columns[:MOST_COLUMNS]]) for row in rows[:MOST_ROWS]]
    more = f" (the first {MOST_ROWS} of {len(rows):,})" if len(rows) > MOST_ROWS else ""
    return f"<p>{_cell(name)}{more}</p><table>{''.join(lines)}</table>"


def _line(tag: str, cells: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_cell(cell)}</{tag}>' for cell in cells)}</tr>"


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return escape(printable(text if len(text) <= 80 else f"{text[:77]}..."))

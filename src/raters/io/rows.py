"""Tables as lists of rows: CSV, JSON, Markdown and HTML; files are written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import IO, Any

from raters.core.errors import RatersError, placed
from raters.core.wording import cut_text, printable
from raters.io.paths import refuse_special, written_whole

Row = dict[str, Any]

_FORMULA = tuple("=+-@\t\r\n")


def write_csv(path: Path, rows: Sequence[Row], exact: bool = False) -> None:
    """Write rows as CSV; a value that does not exist (None, NaN) is an empty cell.

    Names may come from anyone. A text that a spreadsheet would run as a formula gets a `'` in
    front, as OWASP advises; the JSON file beside a table has the names as they are.

    Args:
        path: The file.
        rows: The rows.
        exact: Leave texts as they are, in files that are read again.
    """
    write_long_csv(path, rows, _columns(rows), exact)


def write_long_csv(
    path: Path, rows: Iterable[Row], columns: Sequence[str], exact: bool = False
) -> None:
    """Write rows that need not be in memory together, as CSV with these columns."""
    with written_whole(path) as file:
        _write_lines(file, _cells(rows, columns, exact))


def write_cells(path: Path, lines: Iterable[Sequence[Any]]) -> None:
    """Write lines of cells as CSV, as they are."""
    with written_whole(path) as file:
        _write_lines(file, lines)


def read_cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read a CSV file with a header; give its columns and the cells of its rows.

    (pandas would turn 'NA' and 007 into other values, and takes long to import. Tables of labels,
    which may be large, are read by pyarrow: `raters.io.table_files`.)

    Raises:
        RatersError: that names the line where a row has too many or too few cells.
    """
    refuse_special(path)
    try:
        with placed(file=path), open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            columns = [c.strip() for c in next(reader, [])]
            return columns, list(_whole_rows(reader, len(columns)))
    except OSError as error:
        raise RatersError(error.strerror or str(error), kind="unreadable", file=path) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RatersError(f"not a CSV file: {error}", kind="unreadable", file=path) from None


def _whole_rows(reader: Iterator[list[str]], expected: int) -> Iterator[list[str]]:
    for line, cells in enumerate(reader, start=2):
        if cells and len(cells) != expected:
            message = f"found {len(cells)} cells in row {line}, expected {expected}"
            raise RatersError(message, kind="columns")
        if cells:
            yield cells


def to_csv(rows: Sequence[Row]) -> str:
    """Return rows as the text that `write_csv` writes.

    Example:
        >>> to_csv([{"row": "vote", "dice": 91.5}, {"row": "=1+1", "dice": None}]).splitlines()
        ['row,dice', 'vote,91.5', "'=1+1,"]
    """
    text = io.StringIO()
    _write_lines(text, _cells(rows, _columns(rows), False))
    return text.getvalue()


def _columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns, in the order in which rows bring them."""
    return list(dict.fromkeys(column for row in rows for column in row))


def _cells(rows: Iterable[Row], columns: Sequence[str], exact: bool) -> Iterator[list[Any]]:
    cell = _plain if exact else _harmless
    for line in chain([columns], ([row.get(c) for c in columns] for row in rows)):
        yield [cell(value) for value in line]


def _write_lines(file: IO[str], lines: Iterable[Sequence[Any]]) -> None:
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for cells in lines:
        # The writer does not see that a carriage return needs quotes.
        odd = any("\r" in text for text in cells if isinstance(text, str))
        (quoted if odd else plain).writerow(cells)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401
    """Write plain data as JSON; a number that does not exist is null."""
    with written_whole(path) as file:
        file.write(to_json(content) + "\n")


def write_long_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as JSON; iterators in it become lists, those of pairs objects.

    What they give need not be in memory together; the text is that of `write_json`.
    """
    with written_whole(path) as file:
        for k, (name, value) in enumerate(content.items()):
            file.write(f"{',' if k else '{'}\n  {json.dumps(name, ensure_ascii=False)}: ")
            for part in _json_parts(value) if isinstance(value, Iterator) else [to_json(value)]:
                file.write(part.replace("\n", "\n  "))
        file.write("\n}\n" if content else "{}\n")


def _json_parts(items: Iterator[Any]) -> Iterator[str]:
    ends = "[]"
    k = -1
    for k, item in enumerate(items):
        name = ""
        if isinstance(item, tuple):
            ends = "{}"
            name = f"{json.dumps(item[0], ensure_ascii=False)}: "
            item = item[1]
        text = to_json(item).replace("\n", "\n  ")
        yield f"{',' if k else ends[0]}\n  {name}{text}"
    yield f"\n{ends[1]}" if k >= 0 else ends


def to_json(content: Any) -> str:  # noqa: ANN401
    """Return plain data as JSON text.

    Example:
        >>> import numpy as np
        >>> to_json({"dice": float("nan"), "cases": np.int64(3)}).split()
        ['{', '"dice":', 'null,', '"cases":', '3', '}']
    """
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)


def to_markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    r"""Return lines of cells as a Markdown table.

    Example:
        >>> print(to_markdown(["rater", "Dice"], [["ann|bob", "0.9"]]), end="")
        | rater | Dice |
        | --- | --- |
        | ann\|bob | 0.9 |
    """
    whole = [header, ["---"] * len(header), *lines]
    return "".join(f"| {' | '.join(_markdown_cell(cell) for cell in line)} |\n" for line in whole)


def _markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _harmless(value: Any) -> Any:  # noqa: ANN401
    """Return a cell that no spreadsheet runs; numbers stay numbers, also as texts.

    Example:
        >>> _harmless("=cmd|'/c calc'!A1"), _harmless("-1.5"), _harmless(-1.5), _harmless("ann")
        ("'=cmd|'/c calc'!A1", '-1.5', -1.5, 'ann')
    """
    plain = _plain(value)
    if isinstance(plain, str) and plain[:1] in _FORMULA and not _is_number(plain):
        return f"'{plain}"
    return plain


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # of numpy, which takes a tenth of a second to import
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def known(value: Any) -> float | None:  # noqa: ANN401
    """Return None for a number that does not exist (NaN), else the number."""
    return None if value is None or value != value else float(value)


def interval(row: Row, name: str, form: str = ".3f") -> str | None:
    """Return the ends of a score's interval, its columns `_low` and `_high`; None without any."""
    low = row.get(f"{name}_low")
    high = row.get(f"{name}_high")
    return None if low is None or high is None else f"{low:{form}} to {high:{form}}"


def with_interval(row: Row, name: str, form: str = ".3f") -> str:
    """Return a score with its interval.

    Example:
        >>> with_interval({"dice": 0.5, "dice_low": 0.4, "dice_high": 0.61}, "dice")
        '0.500 (0.400 to 0.610)'
        >>> with_interval({"gain": 0.1, "gain_low": -0.0001, "gain_high": 0.2}, "gain", "+z.3f")
        '+0.100 (+0.000 to +0.200)'
    """
    ends = interval(row, name, form)
    return f"{row[name]:{form}}" + (f" ({ends})" if ends else "")


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
    columns = _columns(rows[:MOST_ROWS])[:MOST_COLUMNS]
    lines = [_line("th", columns)]
    lines += [_line("td", [row.get(c) for c in columns]) for row in rows[:MOST_ROWS]]
    more = f" (the first {MOST_ROWS} of {len(rows):,})" if len(rows) > MOST_ROWS else ""
    return f"<p>{_cell(name)}{more}</p><table>{''.join(lines)}</table>"


def _line(tag: str, cells: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_cell(cell)}</{tag}>' for cell in cells)}</tr>"


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return escape(printable(cut_text(text, 80)))

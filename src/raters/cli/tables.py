"""What verbs print: tables and notes, and at once what is happening."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

from raters.rows import Row
from raters.wording import printable

if TYPE_CHECKING:
    from raters.study.study import Study

WIDTH = 80


def say(text: str) -> None:
    """Print a line about what comes now, beside the results; of several processes one does."""
    from raters.training.run import first_process

    if first_process():
        typer.echo(printable(text), err=True)


def wrapped(text: str, indent: int = 2) -> str:
    """Break a text into lines that a terminal of 80 columns shows; names are never broken.

    Example:
        >>> print(wrapped("paper: " + "a word " * 14, indent=7))
        paper: a word a word a word a word a word a word a word a word a word a word a
               word a word a word a word
    """
    return textwrap.fill(
        text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


MOST_ROWS = 20


def show_rows(title: str, rows: Sequence[Row], total: int | None = None) -> None:
    """Print rows as a table; what does not exist is a dash, and a column of dashes is left out.

    Args:
        title: What the table shows.
        rows: The rows; more than 20 are cut.
        total: How many rows there are in all, if `rows` are the first of them.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not rows:
        return
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    named = dict.fromkeys(column for row in rows for column in row)
    columns = [c for c in named if any(row.get(c) is not None for row in rows)]
    for column in columns:
        number = any(isinstance(row.get(column), int | float) for row in rows)
        side: Literal["left", "right"] = "right" if number else "left"
        # A name is never cut: it is folded where it does not fit.
        table.add_column(escape(printable(column.replace("_", " "))), justify=side, overflow="fold")
    for row in rows[:MOST_ROWS]:
        table.add_row(*(escape(shown(row.get(column))) for column in columns))
    console.print(f"\n[bold underline]{escape(title)}[/]")
    console.print(table)
    left = (total or len(rows)) - min(len(rows), MOST_ROWS)
    if left > 0:
        console.print(f"and {left:,} more")


def shown(value: Any) -> str:  # noqa: ANN401
    """Show a value in few characters.

    Example:
        >>> shown(0.77652), shown(12345.6), shown(None), shown(1200), shown("ann")
        ('0.777', '12,346', '-', '1,200', 'ann')
    """
    if value is None or value != value:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def study_notes(study: Study) -> list[str]:
    """Return what has to be said of a study beside any result from it."""
    facts = [study.about["note"]] if "note" in study.about else []
    return [*study.notes, *facts]


def show_notes(notes: Sequence[str]) -> None:
    """Print what has to be said about the tables."""
    from rich.console import Console

    console = Console(highlight=False)
    for note in notes[:MOST_ROWS]:
        console.print(f"note: {printable(note)}", markup=False, soft_wrap=True)
    if len(notes) > MOST_ROWS:
        console.print(f"and {len(notes) - MOST_ROWS:,} more notes")

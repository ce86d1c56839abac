"""What verbs print: tables that fit a terminal, notes, failed cases, and what is happening."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from raters.errors import RatersError
from raters.rows import Row
from raters.wording import many, printable

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study


MOST_ROWS = 20


def show_rows(
    title: str, rows: Sequence[Row], total: int | None = None, most: int = MOST_ROWS
) -> None:
    """Print rows as a table; what does not exist is a dash, and a column of dashes is left out.

    Args:
        title: What the table shows.
        rows: The rows.
        total: How many rows there are in all, if `rows` are the first of them.
        most: How many are shown; what is cut is counted.
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
    for row in rows[:most]:
        table.add_row(*(escape(shown(row.get(column))) for column in columns))
    console.print(f"\n[bold underline]{escape(title)}[/]")
    console.print(table)
    left = (total or len(rows)) - min(len(rows), most)
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
    return [*study.notes, *study.readings(), *facts]


def show_notes(notes: Sequence[str]) -> None:
    """Print what has to be said about the tables."""
    from rich.console import Console

    console = Console(highlight=False)
    for note in notes[:MOST_ROWS]:
        console.print(f"note: {printable(note)}", markup=False, soft_wrap=True)
    if len(notes) > MOST_ROWS:
        console.print(f"and {len(notes) - MOST_ROWS:,} more notes")


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


T = TypeVar("T")

LEFT_OUT = "left out because of unreadable files"

_SHOWN = 20


def go_on(
    work: Callable[[Study], T], study: Study, need: Callable[[Case], object]
) -> tuple[T, list[RatersError]]:
    """Do something with a study; if a case cannot be read, without all that cannot.

    Args:
        work: What is done with the study.
        study: The study; all of it is read once more only where a case could not be read.
        need: Reads what is needed of a case.

    Returns:
        What the work gives, and an error for each case that was left out.
    """
    from raters.study.check import readable_part

    try:
        return work(study), []
    except RatersError as error:
        if error.case is None:
            raise
        kept, failures = readable_part(study, need, sys.stderr.isatty())
        if not failures:
            raise
    if not len(kept):
        end_with_failures(failures, LEFT_OUT, "raters check lists all")
    return work(kept), failures


def end_with_failures(
    failures: Sequence[RatersError], what: str, all_in: str = "", of: str = "case"
) -> None:
    """List what failed on the error stream and end with exit code 2; say nothing if nothing did.

    Args:
        failures: The errors, one for each that failed.
        what: What happened to them, after their number: 'left out because of unreadable files'.
        all_in: Where all of them are listed, if more than 20 are not shown here.
        of: What failed: 'case', 'cell'.
    """
    if not failures:
        return
    typer.echo(f"{many(len(failures), of)} {what}:", err=True)
    for error in failures[:_SHOWN]:
        typer.echo(f"  {error}", err=True)
    if len(failures) > _SHOWN:
        hint = f" ({all_in})" if all_in else ""
        typer.echo(f"  and {len(failures) - _SHOWN:,} more{hint}", err=True)
    raise typer.Exit(2)

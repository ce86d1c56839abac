"""What verbs show: tables that fit a terminal, notes, failed cases, and what is happening."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from raters.core.errors import RatersError
from raters.core.wording import many, printable
from raters.io.rows import Row, interval

if TYPE_CHECKING:
    from rich.table import Table

    from raters.learning.training.model import Model
    from raters.study.case import Case
    from raters.study.study import Study


MOST_ROWS = 20


def rows(title: str, rows: Sequence[Row], total: int | None = None, most: int = MOST_ROWS) -> None:
    """Print rows as a table with a title; nothing without rows.

    Args:
        title: What the table shows.
        rows: The rows.
        total: How many rows there are in all, if `rows` are the first of them.
        most: How many are shown; what is cut is counted.
    """
    from rich.console import Console
    from rich.markup import escape

    if not rows:
        return
    console = Console(highlight=False)
    console.print(f"\n[bold underline]{escape(title)}[/]")
    console.print(table_of(rows, most))
    left = (total or len(rows)) - min(len(rows), most)
    if left > 0:
        console.print(f"and {left:,} more")


def table_of(rows: Sequence[Row], most: int = MOST_ROWS, right: Sequence[str] = ()) -> Table:
    """Return rows as a table; what does not exist is a dash, a column of dashes is left out.

    Args:
        rows: The rows.
        most: How many are shown.
        right: Columns to set to the right, beside those of numbers.
    """
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    named = dict.fromkeys(column for row in rows for column in row)
    columns = [c for c in named if any(row.get(c) is not None for row in rows)]
    for column in columns:
        number = any(isinstance(row.get(column), int | float) for row in rows)
        side: Literal["left", "right"] = "right" if number or column in right else "left"
        # A name is never cut: it is folded where it does not fit.
        table.add_column(escape(printable(column.replace("_", " "))), justify=side, overflow="fold")
    for row in rows[:most]:
        table.add_row(*(escape(shown(row.get(column))) for column in columns))
    return table


def shown(value: Any) -> str:  # noqa: ANN401
    """Show a value in few characters.

    (Pages give small numbers a digit more: their columns are sorted by the values behind.)

    Example:
        >>> shown(0.77652), shown(12345.6), shown(None), shown(1200), shown("ann")
        ('0.777', '12,346', '-', '1,200', 'ann')
    """
    if value is None or value != value:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def without(columns: Collection[str], rows: Sequence[Row]) -> list[Row]:
    """Return rows without some columns."""
    return [{k: v for k, v in row.items() if k not in columns} for row in rows]


def brief(row: Row, score: str, head: str = "interval", form: str = ".3f") -> Row:
    """Put its interval behind a score, and leave out the ends and errors of all scores.

    Example:
        >>> brief({"dice": 0.5, "dice_low": 0.4, "dice_high": 0.6, "iou": 0.3}, "dice")
        {'dice': 0.5, 'interval': '0.400 to 0.600', 'iou': 0.3}
    """
    short: Row = {}
    for name, value in row.items():
        if not name.endswith(("_se", "_low", "_high")):
            short[name] = value
        if name == score:
            short[head] = interval(row, score, form)
    return short


def notes(notes: Sequence[str]) -> None:
    """Print what has to be said about the tables."""
    from rich.console import Console

    console = Console(highlight=False)
    for note in notes[:MOST_ROWS]:
        console.print(f"note: {printable(note)}", markup=False, soft_wrap=True)
    if len(notes) > MOST_ROWS:
        console.print(f"and {many(len(notes) - MOST_ROWS, 'more note')}")


def there_already(skipped: int) -> str:
    """Return how many were done before, as the end of a sentence.

    Example:
        >>> there_already(0), there_already(1), there_already(1200)
        ('', ', 1 was there already', ', 1,200 were there already')
    """
    return f", {skipped:,} {'was' if skipped == 1 else 'were'} there already" if skipped else ""


def say(text: str) -> None:
    """Print a line about what comes now, beside the results; of several processes one does."""
    from raters.learning.training.run import first_process

    if first_process():
        typer.echo(printable(text), err=True)


def loaded(run: str) -> Model:
    """Load a trained model, which takes a while, and say so."""
    from raters.learning.training.run import refuse_no_model

    refuse_no_model(run)
    say("loading the model")
    import raters

    return raters.load(run)


def text(words: str, indent: int = 2) -> None:
    """Print lines that a terminal of 80 columns shows; names are never broken.

    Example:
        >>> text("paper: " + "a word " * 14, indent=7)
        paper: a word a word a word a word a word a word a word a word a word a word a
               word a word a word a word
    """
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    typer.echo(textwrap.fill(words, 80, subsequent_indent=" " * indent, **options))


def json(content: Any) -> None:  # noqa: ANN401
    """Print plain data as JSON."""
    from raters.io.rows import to_json

    typer.echo(to_json(content))


T = TypeVar("T")


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
        end_with_unreadable(failures)
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
    for error in failures[:MOST_ROWS]:
        typer.echo(f"  {error}", err=True)
    if len(failures) > MOST_ROWS:
        hint = f" ({all_in})" if all_in else ""
        typer.echo(f"  and {len(failures) - MOST_ROWS:,} more{hint}", err=True)
    raise typer.Exit(2)


def end_with_unreadable(failures: Sequence[RatersError]) -> None:
    """End with exit code 2 if cases were left out as they cannot be read."""
    end_with_failures(failures, "left out because of unreadable files", "raters check lists all")

"""Lists the cases that failed while the others continued, the same in every verb."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from raters.errors import RatersError
from raters.wording import many

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

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
    from raters.study.readable import readable_part

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


def end_with_failures(failures: Sequence[RatersError], what: str, all_in: str = "") -> None:
    """List what failed on the error stream and end with exit code 2; say nothing if nothing did.

    Args:
        failures: The errors, one per case.
        what: What happened to them, after their number: 'left out because of unreadable files'.
        all_in: Where all of them are listed, if more than 20 are not shown here.
    """
    if not failures:
        return
    typer.echo(f"{many(len(failures), 'case')} {what}:", err=True)
    for error in failures[:_SHOWN]:
        typer.echo(f"  {error}", err=True)
    if len(failures) > _SHOWN:
        hint = f" ({all_in})" if all_in else ""
        typer.echo(f"  and {len(failures) - _SHOWN:,} more{hint}", err=True)
    raise typer.Exit(2)

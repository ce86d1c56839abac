"""Lists the cases that failed while the others went on, the same in every verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from raters.errors import RatersError

_SHOWN = 20


def end_with_failures(failures: Sequence[RatersError], what: str, all_in: str = "") -> None:
    """List what failed on the error stream and end with exit code 2; say nothing if nothing did.

    Args:
        failures: The errors, one per case.
        what: What happened to them, after their number: 'left out, for what could not be read'.
        all_in: Where all of them are listed, if more than 20 are not shown here.
    """
    if not failures:
        return
    from raters.study.study import many

    typer.echo(f"{many(len(failures), 'case')} {what}:", err=True)
    for error in failures[:_SHOWN]:
        typer.echo(f"  {error}", err=True)
    if len(failures) > _SHOWN:
        hint = f" ({all_in})" if all_in else ""
        typer.echo(f"  and {len(failures) - _SHOWN:,} more{hint}", err=True)
    raise typer.Exit(2)

"""`raters import`: write a study as a folder that opens at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.study_options import OpenStudy, Out, takes_study
from raters.cli.tables import LEFT_OUT, end_with_failures, show_notes
from raters.errors import RatersError
from raters.wording import many

if TYPE_CHECKING:
    from raters.study.write import ImportResult

_ONE = 1.015  # shares are often rounded: 0.67, 0.17, 0.17


@takes_study
def import_(
    opened: OpenStudy,
    out: Out,
    form: Annotated[
        str, typer.Option(help="canonical (files) or packed (arrays, for many small images).")
    ] = "canonical",
    new_split: Annotated[
        str, typer.Option(help="Split by group: 'train=0.8,test=0.2'.", metavar="NAME=SHARE,...")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of --new-split.")] = 0,
    overwrite: Annotated[bool, typer.Option(help="Write all cases again.")] = False,
) -> None:
    """Convert a study to raters' native format; called again, it resumes where it stopped.

    raters import "masks/{rater}/{case}.nii.gz" --images "images/{case}.nii.gz" -o study/
    """
    from raters.study.write import import_study

    study = opened()
    for note in study.notes:
        typer.echo(f"note: {note}", err=True)
    if new_split:
        study = study.split(seed=seed, **_fractions(new_split))
    report(import_study(study, out, form, overwrite, progress=sys.stderr.isatty()))


def _fractions(text: str) -> dict[str, float]:
    try:
        pairs = [part.split("=") for part in text.split(",")]
        shares = [(name.strip(), float(share)) for name, share in pairs]
    except ValueError:
        shares = []
    fractions = dict(shares)
    if not shares or {"", "seed", "self"} & set(fractions) or len(fractions) < len(shares):
        raise RatersError(
            f"--new-split: found {text!r}, "
            "expected different names with shares, such as 'train=0.7,val=0.1,test=0.2'"
        )
    total = sum(fractions.values())
    if total > _ONE and all(share < 1 for share in fractions.values()):
        raise RatersError(
            f"--new-split: found shares that sum to {total:g} in {text!r}, expected 1 in all"
        )
    return fractions


def report(result: ImportResult) -> None:
    """Return what was written; cases that failed end with exit code 2."""
    there = f", {result.skipped:,} there already" if result.skipped else ""
    show_notes(result.notes)
    typer.echo(f"{many(result.written, 'case')} written{there}: {result.folder}")
    end_with_failures(result.failures, LEFT_OUT, "raters check lists all")

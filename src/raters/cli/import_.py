"""`raters import` and `raters prepare`: write a study, or a public data set, as a folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from raters.cli.study_options import OpenStudy, Out, Overwrite, takes_study
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.views import terminal

if TYPE_CHECKING:
    from raters.study.write import ImportResult

_ONE = 1.015  # shares are often rounded: 0.67, 0.17, 0.17

_FORM = "canonical (files) or packed (arrays, for many small images)."
_NEW_SPLIT = "Split by group: 'train=0.8,test=0.2'."


@takes_study
def import_(
    opened: OpenStudy,
    out: Out,
    form: Annotated[str, Option(help=_FORM)] = "canonical",
    new_split: Annotated[str, Option(help=_NEW_SPLIT, metavar="NAME=SHARE,...")] = "",
    seed: Annotated[int, Option(help="Seed of --new-split.")] = 0,
    overwrite: Overwrite = False,
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
    report(import_study(study, out, form, overwrite=overwrite, progress=sys.stderr.isatty()))


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


_DOWNLOAD = "Fetch it to SOURCE first, where that is allowed."


def prepare(
    name: Annotated[str, Argument(help="The data set; see --list.")] = "",
    source: Annotated[str, Argument(help="The folder or file it is in.")] = "",
    out: Annotated[str, Option("-o", "--out", help="The folder to write.")] = "",
    form: Annotated[str, Option(help="canonical or packed; by default what suits it.")] = "",
    download: Annotated[bool, Option(help=_DOWNLOAD)] = False,
    overwrite: Overwrite = False,
    list_all: Annotated[bool, Option("--list", help="List the data sets.")] = False,
) -> None:
    """Turn a public data set into a study.

    raters prepare lidc LIDC-crops/ -o study/
    """
    if list_all or not name:
        _show_all()
        return
    if not source or not out:
        raise RatersError(
            f"expected a source and a folder to write: raters prepare {name} SOURCE -o study/"
        )
    from raters.datasets import prepare as prepare_dataset

    progress = sys.stderr.isatty()
    report(
        prepare_dataset(
            name,
            source,
            out,
            form or None,
            overwrite=overwrite,
            download=download,
            progress=progress,
        )
    )


def _show_all() -> None:
    from rich.console import Console

    from raters.datasets import DATASETS

    rows = [
        {"name": name, "data set": one.title, "raters": one.raters, "licence": one.licence}
        for name, one in DATASETS.items()
    ]
    Console(highlight=False).print(terminal.table_of(rows, len(rows)))


def report(result: ImportResult) -> None:
    """Print what was written; cases that failed end with exit code 2."""
    there = terminal.there_already(result.skipped)
    terminal.notes(result.notes)
    typer.echo(f"{many(result.written, 'case')} written{there}: {result.folder}")
    terminal.end_with_unreadable(result.failures)

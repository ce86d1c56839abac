"""`raters report`: one HTML file on a study, a fusion or a run, to send to a colleague."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.study_options import USUAL, OpenStudy, read_options, takes_study
from raters.cli.tables import LEFT_OUT, end_with_failures, go_on
from raters.wording import many

if TYPE_CHECKING:
    from pathlib import Path

    from raters.study.case import Case
    from raters.study.study import Study


@takes_study
def report(
    opened: OpenStudy,
    path: Annotated[
        str, typer.Argument(help="A study, a fusion (raters fuse -o) or a run (raters train -o).")
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="The folder to write.")] = "report",
    study: Annotated[
        str,
        typer.Option(
            "--study",
            help="The study of the fusion or run, if it is no longer where it was.",
            metavar="STUDY",
        ),
    ] = "",
    against: Annotated[
        list[str], typer.Option("--against", help="Compare a run with this one; can be repeated.")
    ] = [],  # noqa: B006
    cases_shown: Annotated[
        int, typer.Option("--cases-shown", help="How many cases the viewer shows.", min=0)
    ] = 24,
    all_cases: Annotated[
        bool, typer.Option("--all-cases", help="Write all other cases beside it, in cases/.")
    ] = False,
    sheets: Annotated[
        bool, typer.Option("--sheets", help="Write a sheet per rater beside it, in sheets/.")
    ] = False,
    order: Annotated[
        str,
        typer.Option(
            "--order",
            help="When cases were read, for drift in sheets: a column of the study's table, "
            "FILE:COLUMN, or 'listed'.",
            metavar="COLUMN",
        ),
    ] = "",
    gold: Annotated[
        bool, typer.Option("--gold", help="Score raters on cases with references, in sheets.")
    ] = False,
    open_: Annotated[
        str, typer.Option("--open", help="Open it in the browser: yes or no.", metavar="yes|no")
    ] = "no",
) -> None:
    """Write a report as one HTML file, with its figures and tables beside it.

    raters report "masks/{rater}/{case}.nii.gz" --images "images/{case}.nii.gz" -o report/

    raters report consensus/

    raters report run/ --against run2/

    raters report study/ --sheets --order date --gold
    """
    from raters.errors import RatersError

    if open_ not in ("yes", "no"):
        raise RatersError(f"--open: found {open_!r}, expected 'yes' or 'no'")
    from raters.report.dispatch import (
        kind_of,
        make_report,
        refuse_place,
        refuse_without_sheets,
        sheets_of,
    )
    from raters.report.page import write
    from raters.report.sheet import with_sheets

    refuse_without_sheets(sheets, order, gold)
    kind = kind_of(path)
    if study and kind == "study":
        raise RatersError(f"found --study with the study {path}, expected a fusion or a run")
    found, why_not = _study(opened, path if kind == "study" else study, path)
    refuse_place(out, path, found, against)
    if why_not:
        typer.echo(f"note: {why_not}", err=True)
    progress = sys.stderr.isatty()

    def work(part: Study | None) -> Path:
        files = sheets_of(part, out, order, gold, progress) if sheets else None
        made = make_report(path, part, against, cases_shown, progress, why_not)
        if files is not None:
            made = with_sheets(made, files)
            typer.echo(files.note or f"{many(len(files.files), 'sheet')}: {out}/sheets", err=True)
        return write(made, out, all_cases, progress)

    def need(case: Case) -> object:
        return case.given, case.reference, case.image  # all that a report may show

    page, failures = (work(None), []) if found is None else go_on(work, found, need)
    typer.echo(f"the report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    if open_ == "yes":
        typer.launch(page.resolve().as_uri())
    end_with_failures(failures, LEFT_OUT, "raters check lists all")


def _study(opened: OpenStudy, study: str, folder: str) -> tuple[Study | None, str]:
    """Open the study that is named, else the one that the folder remembers."""
    from raters.report.dispatch import study_of

    if study:
        return opened(study=study), ""
    assert isinstance(opened, partial)  # made by `takes_study`
    changed = {name: value for name, value in opened.keywords.items() if value != USUAL[name]}
    return study_of(folder, read_options(changed))

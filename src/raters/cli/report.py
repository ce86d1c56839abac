"""`raters report`: one HTML file on a study, a fusion or a run, to send to a colleague."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from raters.cli.study_options import SELDOM, OpenStudy, read_options, takes_study
from raters.core.wording import many
from raters.views import terminal

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

_PATH = "A study, a fusion (raters fuse -o) or a run (raters train -o)."
_STUDY = "The study of the fusion or run, if it is no longer where it was."
_AGAINST = "Compare a run with this one; can be repeated."
_CASES_SHOWN = "How many cases the viewer shows."
_ALL_CASES = "Write all other cases beside it, in cases/."
_SHEETS = "Write a sheet per rater beside it, in sheets/."
_ORDER = (
    "When cases were read, for drift in sheets: a column of the study's table, FILE:COLUMN, or "
    "'listed'."
)
_GOLD = "Score raters on cases with references, in sheets."
_OPEN = "Open it in the browser: yes or no."


@takes_study
def report(
    opened: OpenStudy,
    path: Annotated[str, Argument(help=_PATH)],
    out: Annotated[str, Option("-o", "--out", help="The folder to write.")] = "report",
    study: Annotated[str, Option("--study", help=_STUDY, metavar="STUDY")] = "",
    against: Annotated[list[str], Option("--against", help=_AGAINST)] = [],  # noqa: B006
    cases_shown: Annotated[
        int, Option("--cases-shown", help=_CASES_SHOWN, min=0, rich_help_panel=SELDOM)
    ] = 24,
    all_cases: Annotated[bool, Option("--all-cases", help=_ALL_CASES)] = False,
    sheets: Annotated[bool, Option("--sheets", help=_SHEETS)] = False,
    order: Annotated[
        str, Option("--order", help=_ORDER, metavar="COLUMN", rich_help_panel=SELDOM)
    ] = "",
    gold: Annotated[bool, Option("--gold", help=_GOLD)] = False,
    open_: Annotated[str, Option("--open", help=_OPEN, metavar="yes|no")] = "no",
) -> None:
    """Write a report as one HTML file, with its figures and tables beside it.

    raters report "masks/{rater}/{case}.nii.gz" --images "images/{case}.nii.gz" -o report/

    raters report consensus/

    raters report run/ --against run2/

    raters report study/ --sheets --order date --gold
    """
    from raters.core.errors import RatersError
    from raters.io.results import only_one

    if open_ not in ("yes", "no"):
        raise RatersError(f"--open: found {open_!r}, expected 'yes' or 'no'")
    from raters import api
    from raters.views.report import page, sheet

    api.refuse_without_sheets(sheets, order, gold)
    kind = api.kind_of(path)
    if study and kind == "study":
        raise RatersError(f"found --study with the study {path}, expected a fusion or a run")
    named = path if kind == "study" else study  # else the one that the folder remembers
    options = read_options(opened.changed)
    if named:
        found: Study | None = opened(study=named)
        why_not = ""
    else:
        found, why_not = api.study_of(path, options)
    api.refuse_place(out, path, found, against, all_cases, sheets)
    if why_not:
        typer.echo(f"note: {why_not}", err=True)
    progress = sys.stderr.isatty()

    def work(part: Study | None) -> Path:
        files = api.sheets_of(part, out, order, gold, progress) if sheets else None
        made = api.make_report(path, part, against, cases_shown, progress, why_not)
        if files is not None:
            sheets_folder = Path(out) / "sheets"
            written = f"{many(len(files.files), 'sheet')}: {sheets_folder}"
            typer.echo(files.note or written, err=True)
        return page.write(sheet.with_sheets(made, files), out, all_cases, progress)

    def need(case: Case) -> object:
        return case.given, case.reference, case.image  # all that a report may show

    with only_one(out) as notes:
        terminal.notes(notes)
        if found is None:
            written = work(None)
            failures: list[RatersError] = []
        else:
            written, failures = terminal.go_on(work, found, need)
    typer.echo(f"the report: {written} ({written.stat().st_size / 1e6:.1f} MB)")
    if open_ == "yes":
        typer.launch(written.resolve().as_uri())
    terminal.end_with_unreadable(failures)

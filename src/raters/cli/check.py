"""`raters check`: what a study holds, and every problem, with the file."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from raters.cli.study_options import AsJson, OpenStudy, takes_study
from raters.core.wording import many, printable
from raters.io.rows import Row
from raters.views import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from raters.study.check_report import CheckReport, Problem

_MOST_PROBLEMS = 5
_SAVE = "Write what STUDY was taken as into a file that every verb takes as STUDY."


@takes_study
def check(
    opened: OpenStudy,
    as_json: AsJson = False,
    strict: Annotated[bool, Option(help="Exit with code 1 on warnings, too.")] = False,
    save: Annotated[str, Option(metavar="NAME.yaml", help=_SAVE, show_default=False)] = "",
) -> None:
    """Show what a study holds and every problem, with the file.

    Exit code 0: clean. 1: warnings, with --strict. 2: errors.

    raters check "masks/{rater}/{case}.nii.gz" --images "images/{case}.nii.gz"
    """
    from raters.study.check import check as check_study
    from raters.study.places import refuse_saving, write_source

    if save:
        refuse_saving(Path(save))
    report = check_study(opened(strict=False), progress=sys.stderr.isatty())
    if as_json:
        terminal.json(report.to_dict())
    else:
        _show(report)
    if save:
        write_source(Path(save), opened.described())
        typer.echo(f"saved: {save}", err=True)
    if report.errors:
        raise typer.Exit(2)
    if strict and report.warnings:
        raise typer.Exit(1)


def _show(report: CheckReport) -> None:
    """Print a report for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=False)
    grid = Table.grid(padding=(0, 2))
    for fact, found in _facts(report):
        grid.add_row(fact, found)
    console.print(grid)
    for note in report.notes:
        console.print(f"note: {printable(note)}", markup=False)
    _show_table(_rater_rows(report), ("",), console)
    _show_table(_class_rows(report), ("value", "share", "share of reference"), console)
    _show_problems(report, console)


def _facts(report: CheckReport) -> Iterator[tuple[str, str]]:
    for fact in ("title", "note"):
        if report.about.get(fact):
            yield fact, _cell(report.about[fact])
    yield "kind", report.kind
    groups = f" in {many(report.groups, 'group')}" if report.groups != report.cases else ""
    yield "cases", f"{report.cases:,}{groups}"
    if report.splits:
        yield "splits", _counted(report.splits)
    if report.diagnoses:
        without = report.cases - sum(report.diagnoses.values())
        unknown = f", none {without:,}" if without else ""
        yield "diagnoses", _counted(report.diagnoses) + unknown
    if report.unmarked:
        yield "unmarked", report.unmarked
    if report.images:
        kinds = ", ".join(f"{c} x {t}" for (c, t), _ in report.image_types.most_common(3))
        yield "images", f"{report.images:,} ({kinds})"
    if report.references:
        yield "reference", many(report.references, "case")
    for k, ((shape, spacing), n) in enumerate(report.grids.most_common(3)):
        size = " x ".join(map(str, shape))
        mm = "" if spacing is None else f", {' x '.join(f'{s:g}' for s in spacing)} mm"
        yield "grids" if k == 0 else "", f"{size}{mm} ({many(n, 'case')})"
    if len(report.grids) > 3:
        yield "", f"and {len(report.grids) - 3:,} more"
    if report.answers is not None:
        labels, again = report.answers
        readings = f" ({many(again, 'repeated reading')})" if again else ""
        yield "labels", f"{labels:,}{readings}"


def _counted(names: Mapping[str, int]) -> str:
    return ", ".join(f"{_cell(name)} {n:,}" for name, n in names.items())


def _cell(text: str) -> str:
    """Return a text of the user's as it stands, whatever is in it."""
    from rich.markup import escape

    return escape(printable(text))


def _rater_rows(report: CheckReport) -> list[Row]:
    rows: list[Row] = []
    for name, cases in report.raters.items():
        share = cases / max(report.cases, 1)
        row: Row = {"rater": name}
        row |= {"annotation": report.annotations[name]} if report.annotations else {}
        rows.append({**row, "cases": cases, "": f"{share:.0%}", " ": "█" * round(20 * share)})
    return rows


def _class_rows(report: CheckReport) -> list[Row]:
    share_of = "share" if report.raters or not report.reference_counts else "share of reference"
    known = any(report.shares)
    return [
        {"class": one.name, "value": str(one.value), share_of: f"{share:.2%}" if known else ""}
        for one, share in zip(report.classes or (), report.shares, strict=True)
    ]


def _show_table(rows: list[Row], right: tuple[str, ...], console: Console) -> None:
    if rows:
        console.print()
        console.print(terminal.table_of(rows, right=right))
    if len(rows) > terminal.MOST_ROWS:
        console.print(f"and {len(rows) - terminal.MOST_ROWS:,} more (--json shows all)")


def _show_problems(report: CheckReport, console: Console) -> None:
    by_kind: dict[tuple[str, str], list[Problem]] = defaultdict(list)
    for problem in report.problems:
        by_kind[problem.level, problem.kind].append(problem)
    for (level, kind), problems in sorted(by_kind.items()):
        colour = "red" if level == "error" else "yellow"
        console.print()
        console.print(f"[bold {colour}]{level}[/] {kind} ({len(problems):,})")
        for problem in problems[:_MOST_PROBLEMS]:
            console.print(f"  {printable(str(problem))}", markup=False, soft_wrap=True)
        if len(problems) > _MOST_PROBLEMS:
            console.print(f"  and {len(problems) - _MOST_PROBLEMS:,} more (--json shows all)")
    console.print()
    found = f"{many(report.errors, 'error')}, {many(report.warnings, 'warning')}"
    console.print(found if report.problems else "no problems")

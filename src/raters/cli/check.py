"""`raters check`: what a study holds, and every problem, with the file."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.study_options import AsJson, OpenStudy, takes_study
from raters.wording import many, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from raters.study.check_report import CheckReport, Problem

_MOST_ROWS = 20
_MOST_PROBLEMS = 5


@takes_study
def check(
    opened: OpenStudy,
    as_json: AsJson = False,
    strict: Annotated[bool, typer.Option(help="Exit with code 1 on warnings, too.")] = False,
) -> None:
    """Show what a study holds and every problem, with the file.

    Exit code 0: clean. 1: warnings, with --strict. 2: errors.

    raters check "masks/{rater}/{case}.nii.gz" --images "images/{case}.nii.gz"
    """
    from raters.study.check import check as check_study

    report = check_study(opened(strict=False), progress=sys.stderr.isatty())
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        show(report)
    if report.errors:
        raise typer.Exit(2)
    if strict and report.warnings:
        raise typer.Exit(1)


def show(report: CheckReport) -> None:
    """Print a report for people."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    _show_summary(report, console)
    for note in report.notes:
        console.print(f"note: {printable(note)}", markup=False)
    _show_raters(report, console)
    _show_classes(report, console)
    _show_problems(report, console)


def _show_summary(report: CheckReport, console: Console) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    groups = f" in {many(report.groups, 'group')}" if report.groups != report.cases else ""
    for fact in ("title", "note"):
        if report.about.get(fact):
            table.add_row(fact, _cell(report.about[fact]))
    table.add_row("kind", report.kind)
    table.add_row("cases", f"{report.cases:,}{groups}")
    if report.splits:
        table.add_row("splits", _counted(report.splits))
    if report.diagnoses:
        without = report.cases - sum(report.diagnoses.values())
        unknown = f", none {without:,}" if without else ""
        table.add_row("diagnoses", _counted(report.diagnoses) + unknown)
    if report.unmarked:
        table.add_row("unmarked", report.unmarked)
    if report.images:
        kinds = ", ".join(f"{c} x {t}" for (c, t), _ in report.image_types.most_common(3))
        table.add_row("images", f"{report.images:,} ({kinds})")
    if report.references:
        table.add_row("reference", many(report.references, "case"))
    for k, ((shape, spacing), n) in enumerate(report.grids.most_common(3)):
        size = " x ".join(map(str, shape))
        mm = "" if spacing is None else f", {' x '.join(f'{s:g}' for s in spacing)} mm"
        table.add_row("grids" if k == 0 else "", f"{size}{mm} ({many(n, 'case')})")
    if len(report.grids) > 3:
        table.add_row("", f"and {len(report.grids) - 3:,} more")
    if report.answers is not None:
        labels, again = report.answers
        readings = f" ({many(again, 'repeated reading')})" if again else ""
        table.add_row("labels", f"{labels:,}{readings}")
    console.print(table)


def _counted(names: Mapping[str, int]) -> str:
    return ", ".join(f"{_cell(name)} {n:,}" for name, n in names.items())


def _cell(text: str) -> str:
    """Return a text of the user's as it stands, whatever is in it."""
    from rich.markup import escape

    return escape(printable(text))


def _show_raters(report: CheckReport, console: Console) -> None:
    from rich.table import Table

    if not report.raters:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    kind = [("annotation", "left")] if report.annotations else []
    for column, side in (("rater", "left"), *kind, ("cases", "right"), ("", "right"), ("", "left")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    for name, cases in list(report.raters.items())[:_MOST_ROWS]:
        share = cases / max(report.cases, 1)
        own = [report.annotations[name]] if kind else []
        table.add_row(_cell(name), *own, f"{cases:,}", f"{share:.0%}", "█" * round(20 * share))
    console.print()
    console.print(table)
    _say_more(len(report.raters), console)


def _show_classes(report: CheckReport, console: Console) -> None:
    from rich.table import Table

    if report.classes is None:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    share_of = "share" if report.raters or not report.reference_counts else "share of reference"
    for column, side in (("class", "left"), ("value", "right"), (share_of, "right")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    known = report.counts or report.reference_counts
    shares = report.shares if known else [None] * len(report.classes)
    rows = list(zip(report.classes, shares, strict=True))
    for label_class, share in rows[:_MOST_ROWS]:
        shown = "" if share is None else f"{share:.2%}"
        table.add_row(_cell(label_class.name), _cell(str(label_class.value)), shown)
    console.print()
    console.print(table)
    _say_more(len(rows), console)


def _say_more(rows: int, console: Console) -> None:
    if rows > _MOST_ROWS:
        console.print(f"and {rows - _MOST_ROWS:,} more (--json shows all)")


def _show_problems(report: CheckReport, console: Console) -> None:
    by_kind: dict[tuple[str, str], list[Problem]] = defaultdict(list)
    for problem in report.problems:
        by_kind[problem.level, problem.kind].append(problem)
    for (level, kind), problems in sorted(by_kind.items()):
        colour = "red" if level == "error" else "yellow"
        console.print()
        console.print(f"[bold {colour}]{level}[/] {kind} ({len(problems):,})")
        for problem in problems[:_MOST_PROBLEMS]:
            console.print(f"  {printable(_line(problem))}", markup=False, soft_wrap=True)
        if len(problems) > _MOST_PROBLEMS:
            console.print(f"  and {len(problems) - _MOST_PROBLEMS:,} more (--json shows all)")
    console.print()
    found = f"{many(report.errors, 'error')}, {many(report.warnings, 'warning')}"
    console.print(found if report.problems else "no problems")


def _line(problem: Problem) -> str:
    who = [f"case {problem.case}"] if problem.case else []
    who += [f"rater {problem.rater}"] if problem.rater else []
    place = problem.file or ", ".join(who)
    return f"{place}: {problem.message}" if place else problem.message

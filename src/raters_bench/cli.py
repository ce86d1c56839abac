"""`raters bench`: the papers' tables and figures, and methods on your own study, run and shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from raters.cli.study_options import AsJson, OpenStudy, named_values, takes_study
from raters.cli.verbs import Verb
from raters.core.errors import RatersError
from raters.core.wording import duration, many
from raters.views import terminal
from raters_bench import cli_options as o

if TYPE_CHECKING:
    from raters.comparison.cell import Cell
    from raters.comparison.run import CellsRun
    from raters.study.study import Study
    from raters_bench.results import Collected
    from raters_bench.spec import Specification

bench = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})

VERB = Verb(bench, panel="Research", resumes=True)
"""What the entry point `bench` of the group `raters.verbs` names."""


@bench.callback()
def about() -> None:
    """Run the papers' tables and figures, or compare methods on your own study.

    raters bench run pixel-cm-table-1 --scale smoke
    """


# Listing.


@bench.command("list")
def list_(results: o.Folder = o.RESULTS, as_json: AsJson = False) -> None:
    """List the benchmarks: what each repeats, how many cells are done, and how long the rest takes.

    raters bench list -o docs/results
    """
    from raters_bench.results import progress_of
    from raters_bench.spec import builtin, read_spec

    rows = [progress_of(read_spec(name), Path(results)) for name in builtin()]
    if as_json:
        terminal.json(rows)
        return
    for row in rows:
        typer.echo()
        terminal.text(f"{row['name']}: {row['title']}")
        if row["paper"]:
            terminal.text(f"  {row['paper']}", indent=2)
        for scale in row["scales"]:
            left = scale["seconds_left"]
            time = f", about {duration(left)} left on one core" if left else ""
            cells = many(scale["cells"], "cell")
            typer.echo(f"  {scale['scale']}: {scale['done']:,} of {cells} done{time}")
    typer.echo(f"\nto run one: raters bench run NAME -o {results}")


# Running.


@bench.command("run")
@takes_study
def run(
    opened: OpenStudy,
    names: o.Names = None,
    results: o.Written = o.RESULTS,
    scale: o.Size = "smoke",
    data: o.Data = None,
    rows: o.Rows = None,
    settings: o.Settings = None,
    seeds: o.Seeds = "",
    workers: o.Workers = None,
    scheduler: o.Scheduler = "",
    again: o.Again = False,
    dry_run: o.DryRun = False,
    as_json: AsJson = False,
    study: o.OwnStudy = "",
    methods: o.Methods = "",
    folds: o.Folds = 3,
    option: o.Training = None,
) -> None:
    """Run benchmarks and show their tables; called again, finished cells are skipped.

    raters bench run pixel-cm-table-1

    raters bench run pixel-cm-table-1 --scale laptop --data datasets/ -o results/

    raters bench run --study "masks/{rater}/{case}.png" --images "images/{case}.png" -o results/
    """
    if bool(study) == bool(names):
        raise RatersError(
            "expected the name of a benchmark (raters bench list has them), or --study STUDY"
        )
    bar = sys.stderr.isatty()
    tell = terminal.say if scheduler or not bar else None
    if study:
        if dry_run or rows or settings or data:
            raise RatersError("found --study with options of benchmarks, expected it without them")
        own = opened(study=study)
        how: dict[str, Any] = {"seeds": o.seeds_of(seeds)} if seeds else {}
        how |= {"num_workers": workers, "scheduler": scheduler or None, "again": again}
        how |= {"folds": folds, "progress": bar, "tell": tell}
        _run_study(own, methods, results, as_json, how, o.of_training(named_values(option or [])))
        return
    if option or methods:
        raise RatersError("found --option or --methods without --study, expected both with it only")
    from raters_bench.claims import refuse_checks
    from raters_bench.spec import read_spec

    specs = [read_spec(name).with_seeds(scale, o.seeds_of(seeds)) for name in names or ()]
    for spec in specs:
        refuse_checks(spec)
    places = o.places_of(data or [])
    folder = Path(results)
    found = [cell for spec in specs for cell in o.chosen(spec, scale, rows or (), settings or ())]
    cells = list({cell.path(folder): cell for cell in found}.values())  # tables may share cells
    if dry_run:
        _dry_run(cells, folder, places, as_json)
        return
    from raters_bench.run import run_benchmarks

    done = run_benchmarks(
        cells, folder, places, workers, scheduler or None, again=again, progress=bar, tell=tell
    )
    _show_run(names or [], specs, scale, folder, done, as_json)


def _run_study(
    study: Study,
    methods: str,
    folder: str,
    as_json: bool,
    how: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Compare methods on a study of the user's own, without truth, and print the table."""
    from raters.comparison.own import compare_study

    names = [part.strip() for part in methods.split(",") if part.strip()] or None
    found = compare_study(study, names, folder, **how, **options)
    if as_json:
        terminal.json({"methods": found.rows, "notes": found.notes, "advice": found.advice})
    else:
        means, differences = found.tables()
        terminal.rows("methods on held-out cases", means)
        terminal.rows("difference to the baseline, 95 % intervals", differences)
        terminal.notes(found.notes)
        if found.advice:
            typer.echo(found.advice)
        typer.echo(f"\nthe table: {Path(folder) / 'comparison.md'}, .csv and .json")
    _end_with_failed_cells(found.run)


def _dry_run(cells: list[Cell], folder: Path, places: dict[str, Path], as_json: bool) -> None:
    """List the cells, and check all that can be checked without training."""
    from raters_bench.results import rough_seconds
    from raters_bench.run import check_cells

    rows, failures = check_cells(cells, folder, places)
    seconds = rough_seconds(cells, folder)
    if as_json:
        terminal.json({"cells": rows, "seconds": seconds, "problems": list(map(str, failures))})
    else:
        for row in rows:
            where = f", {row['setting']}" if row["setting"] else ""
            what = f"{row['benchmark']}: {row['row']}{where}, seed {row['seed']}"
            typer.echo(f"{what}: {row['state']}")
        left = sum(row["state"] == "to run" for row in rows)
        time = "unknown until some are done" if seconds is None else f"about {duration(seconds)}"
        typer.echo(f"{left:,} of {many(len(cells), 'cell')} to run; time on one core: {time}")
    terminal.end_with_failures(failures, "found before anything is run", of="problem")
    if not as_json:
        typer.echo("options and data are there")


def _show_run(
    names: Sequence[str],
    specs: Sequence[Specification],
    scale: str,
    folder: Path,
    done: CellsRun,
    as_json: bool,
) -> None:
    """Print the tables of a run, how to get more, and what failed; exit code 2 if something did."""
    from raters_bench.cells import cells_of
    from raters_bench.data import needed
    from raters_bench.results import collect
    from raters_bench.table import facts

    found = [collect(spec, scale, folder) for spec in specs]
    if as_json:
        counts = {"done": done.done, "skipped": done.skipped, "failed": len(done.failures)}
        failed = [{"cell": one.cell.name, "error": one.error} for one in done.failures]
        tables = [facts(one) for one in found]
        terminal.json({"cells": counts, "failures": failed, "notes": done.notes, "tables": tables})
    else:
        for one in found:
            _show_table(one)
        terminal.notes(done.notes)
        run_now = f"{many(done.done, 'cell')} run{terminal.there_already(done.skipped)}"
        typer.echo(f"\n{run_now}: {folder}")
        if scale == "smoke" and "laptop" in specs[0].scales:
            data = " --data FOLDER" if needed(c.data for c in cells_of(specs[0], "laptop")) else ""
            typer.echo(
                "these numbers only show that it runs; for real ones:\n"
                f"  raters bench run {names[0]} --scale laptop{data} -o {folder}"
            )
    _end_with_failed_cells(done)


def _end_with_failed_cells(done: CellsRun) -> None:
    """Name the cells that failed and end with exit code 2; say nothing if none did."""
    errors = [RatersError(f"{f.cell.benchmark}: {f.cell.name}: {f.error}") for f in done.failures]
    terminal.end_with_failures(errors, "failed", of="cell")


# Showing.


@bench.command("table")
def table(
    name: o.Name,
    results: o.Folder = o.RESULTS,
    scale: o.Scale = "",
    seeds: o.Seeds = "",
    form: o.Form = "",
    out: o.File = "",
) -> None:
    """Show the table of a benchmark: means over seeds, differences, and what the paper printed.

    raters bench table pixel-cm-table-1 -o results/ --out table.html
    """
    from raters.io.paths import written_whole
    from raters_bench.table import rendered

    form = form or Path(out).suffix[1:]
    if (form or out) and form not in o.FORMATS:
        option = "--format" if not out or form != Path(out).suffix[1:] else "--out"
        raise RatersError(f"{option}: found {form or out!r}, expected {', '.join(o.FORMATS)}")
    found = _collected(name, results, scale, seeds, out)
    if not form:
        _show_table(found)
    elif not out:
        typer.echo(rendered(found, form), nl=False)
    else:
        with written_whole(Path(out)) as file:
            file.write(rendered(found, form))
        typer.echo(f"the table: {out}")
    _end_with_problems(found)


def _show_table(found: Collected) -> None:
    """Print the tables of a benchmark, the claims of its paper, and what has no result."""
    from rich.console import Console

    from raters_bench.table import SMOKE, blocks, claim_blocks

    typer.echo(f"\n{found.spec.name}: {found.spec.title}")
    if found.spec.paper:
        terminal.text(f"paper: {found.spec.paper}", indent=7)
    done = f"{found.num_done:,} of {many(found.num_wanted, 'cell')}"
    time = duration(found.seconds)
    typer.echo(f"scale: {found.scale}; {done} done, {time} on one core")
    if not found.comparable:
        terminal.text(f"note: {SMOKE}", indent=6)
    for block in [*blocks(found, Console().width), *claim_blocks(found)]:
        # Heads as keys: blanks, which nobody sees, tell those apart that are the same.
        heads = [
            f"{head}{' ' * block.header[:k].count(head)}" for k, head in enumerate(block.header)
        ]
        lines = [[cell or None for cell in line] for line in block.lines]
        terminal.rows(block.title, [dict(zip(heads, line, strict=True)) for line in lines])
        terminal.notes(block.notes)


@bench.command("plot")
def plot(
    name: o.Name,
    results: o.Folder = o.RESULTS,
    scale: o.Scale = "",
    seeds: o.Seeds = "",
    out: o.Picture = "",
) -> None:
    """Draw a benchmark: each seed, the mean, and what the paper printed.

    raters bench plot pixel-cm-table-1 -o results/ --out table-1.png
    """
    from raters_bench.plot import write_plot

    found = _collected(name, results, scale, seeds, out)
    path = write_plot(found, Path(out or f"{found.spec.name}.png"))
    typer.echo(f"the plot: {path}")
    _end_with_problems(found)


def _collected(name: str, results: str, scale: str, seeds: str, out: str) -> Collected:
    """Return the results of a benchmark; refuse to write among them, as they are read."""
    from raters.study.places import Inputs
    from raters_bench.claims import refuse_checks
    from raters_bench.results import collect, largest_scale, no_results
    from raters_bench.spec import read_spec

    spec = read_spec(name)
    folder = Path(results)
    if out:
        Inputs(folders=(folder.absolute() / (spec.cells or spec.name),)).refuse_file(out)
    refuse_checks(spec)
    scale = scale or largest_scale(spec, folder)
    found = collect(spec.with_seeds(scale, o.seeds_of(seeds)), scale, folder)
    if not found.num_done and not found.problems:
        raise no_results(spec.name, folder)
    return found


def _end_with_problems(found: Collected) -> None:
    terminal.end_with_failures([RatersError(t) for t in found.problems], "left out", of="result")

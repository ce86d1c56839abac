"""`raters bench`: the papers' tables and figures, and methods on your own study, run and shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from raters.cli.bench_options import (
    FORMATS,
    RESULTS,
    Again,
    Data,
    DryRun,
    File,
    Folder,
    Folds,
    Form,
    Json,
    Methods,
    Name,
    Names,
    OwnStudy,
    Picture,
    Rows,
    Scale,
    Scheduler,
    Seeds,
    Settings,
    Size,
    Training,
    Workers,
    Written,
    chosen,
    of_training,
    places_of,
    seeds_of,
    with_seeds,
)
from raters.cli.bench_show import print_json, rendered, show_table
from raters.cli.fuse import named_values
from raters.cli.study_options import OpenStudy, takes_study
from raters.cli.tables import end_with_failures, say, show_notes, wrapped
from raters.errors import RatersError
from raters.wording import duration, many

if TYPE_CHECKING:
    from raters.benchmarks.cell import Cell
    from raters.benchmarks.results import Collected
    from raters.benchmarks.run import BenchRun
    from raters.benchmarks.spec import Specification
    from raters.rows import Row

bench = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@bench.callback()
def about() -> None:
    """Run the papers' tables and figures, or compare methods on your own study.

    raters bench run pixel-cm-table-1 --scale smoke
    """


# Listing.


@bench.command("list")
def list_(results: Folder = RESULTS, as_json: Json = False) -> None:
    """List the benchmarks: what each repeats, how many cells are done, and how long the rest takes.

    raters bench list -o docs/results
    """
    from raters.benchmarks.spec import builtin, read_spec

    rows = [_facts(read_spec(name), Path(results)) for name in builtin()]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        typer.echo("\n" + wrapped(f"{row['name']}: {row['title']}"))
        if row["paper"]:
            typer.echo(wrapped(f"  {row['paper']}", indent=2))
        for scale in row["scales"]:
            typer.echo(f"  {_scale_words(scale)}")
    typer.echo(f"\nto run one: raters bench run NAME -o {results}")


def _facts(spec: Specification, folder: Path) -> Row:
    from raters.benchmarks.cell import cells_of
    from raters.benchmarks.results import rough_seconds

    scales = []
    for scale in spec.scales:
        cells = cells_of(spec, scale)
        done = sum(cell.path(folder).exists() for cell in cells)
        seconds = rough_seconds(cells, folder) if done else None
        scales.append({"scale": scale, "done": done, "cells": len(cells), "seconds_left": seconds})
    return {"name": spec.name, "title": spec.title, "paper": spec.paper or None, "scales": scales}


def _scale_words(row: Row) -> str:
    left = row["seconds_left"]
    time = f", about {duration(left)} left on one core" if left else ""
    return f"{row['scale']}: {row['done']:,} of {many(row['cells'], 'cell')} done{time}"


# Running.


@bench.command("run")
@takes_study
def run(
    opened: OpenStudy,
    names: Names = None,
    results: Written = RESULTS,
    scale: Size = "smoke",
    data: Data = None,
    rows: Rows = None,
    settings: Settings = None,
    seeds: Seeds = "",
    workers: Workers = None,
    scheduler: Scheduler = "",
    again: Again = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    study: OwnStudy = "",
    methods: Methods = "",
    folds: Folds = 3,
    option: Training = None,
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
    if study:
        if dry_run or rows or settings or data:
            raise RatersError("found --study with options of benchmarks, expected it without them")
        from raters.cli.bench_study import run_study

        run_study(
            opened(study=study),
            methods,
            results,
            seeds_of(seeds) if seeds else None,
            as_json,
            folds=folds,
            num_workers=workers,
            scheduler=scheduler or None,
            again=again,
            **of_training(named_values(option or [])),
        )
        return
    if option or methods:
        raise RatersError("found --option or --methods without --study, expected both with it only")
    from raters.benchmarks.claims import refuse_checks
    from raters.benchmarks.spec import read_spec

    specs = [with_seeds(read_spec(name), scale, seeds) for name in names or ()]
    for spec in specs:
        refuse_checks(spec)
    places, folder = places_of(data or []), Path(results)
    found = [cell for spec in specs for cell in chosen(spec, scale, rows or (), settings or ())]
    cells = list({cell.path(folder): cell for cell in found}.values())  # tables may share cells
    if dry_run:
        _dry_run(cells, folder, places, as_json)
        return
    from raters.benchmarks.run import run_cells

    bar = sys.stderr.isatty()
    tell = say if scheduler or not bar else None
    done = run_cells(cells, folder, places, workers, scheduler or None, again, bar, tell)
    _show_run(names or [], specs, scale, folder, done, as_json)


def _dry_run(cells: list[Cell], folder: Path, places: dict[str, Path], as_json: bool) -> None:
    """List the cells, and check all that can be checked without training."""
    from raters.benchmarks.cell import refuse_options, result_of
    from raters.benchmarks.data import missing_data
    from raters.benchmarks.results import rough_seconds

    refuse_options(cells)
    failures = missing_data((cell.data for cell in cells), places)
    rows: list[Row] = []
    for cell in cells:
        try:
            state = "done" if result_of(cell, folder) is not None else "to run"
        except RatersError as error:
            state = str(error.kind).replace("-", " ")
            failures.append(error)
        names = ("benchmark", "scale", "setting", "row", "seed", "method")
        rows.append({**{k: getattr(cell, k) for k in names}, "state": state})
    seconds = rough_seconds(cells, folder)
    if as_json:
        print_json({"cells": rows, "seconds": seconds, "problems": list(map(str, failures))})
    else:
        for row in rows:
            where = f", {row['setting']}" if row["setting"] else ""
            typer.echo(
                f"{row['benchmark']}: {row['row']}{where}, seed {row['seed']}: {row['state']}"
            )
        left = sum(row["state"] == "to run" for row in rows)
        time = "unknown until some are done" if seconds is None else f"about {duration(seconds)}"
        typer.echo(f"{left:,} of {many(len(cells), 'cell')} to run; time on one core: {time}")
    end_with_failures(failures, "found before anything is run", of="problem")
    if not as_json:
        typer.echo("options and data are there")


def _show_run(
    names: Sequence[str],
    specs: Sequence[Specification],
    scale: str,
    folder: Path,
    done: BenchRun,
    as_json: bool,
) -> None:
    """Print the tables of a run, how to get more, and what failed; exit code 2 if something did."""
    from raters.benchmarks.cell import cells_of
    from raters.benchmarks.data import needed
    from raters.benchmarks.results import collect
    from raters.benchmarks.table import facts

    found = [collect(spec, scale, folder) for spec in specs]
    if as_json:
        counts = {"done": done.done, "skipped": done.skipped, "failed": len(done.failures)}
        failed = [{"cell": one.cell.name, "error": one.error} for one in done.failures]
        tables = [facts(one) for one in found]
        print_json({"cells": counts, "failures": failed, "notes": done.notes, "tables": tables})
    else:
        for one in found:
            show_table(one)
        show_notes(done.notes)
        was = "was" if done.skipped == 1 else "were"
        there = f", {done.skipped:,} {was} there already" if done.skipped else ""
        typer.echo(f"\n{many(done.done, 'cell')} run{there}: {folder}")
        if scale == "smoke" and "laptop" in specs[0].scales:
            data = " --data FOLDER" if needed(c.data for c in cells_of(specs[0], "laptop")) else ""
            typer.echo(
                "these numbers only show that it runs; for real ones:\n"
                f"  raters bench run {names[0]} --scale laptop{data} -o {folder}"
            )
    end_with_failed_cells(done)


def end_with_failed_cells(done: BenchRun) -> None:
    """Name the cells that failed and end with exit code 2; say nothing if none did."""
    errors = [RatersError(f"{f.cell.benchmark}: {f.cell.name}: {f.error}") for f in done.failures]
    end_with_failures(errors, "failed", of="cell")


# Showing.


@bench.command("table")
def table(
    name: Name,
    results: Folder = RESULTS,
    scale: Scale = "",
    seeds: Seeds = "",
    form: Form = "",
    out: File = "",
) -> None:
    """Show the table of a benchmark: means over seeds, differences, and what the paper printed.

    raters bench table pixel-cm-table-1 -o results/ --out table.html
    """
    from raters.study.paths import written_whole

    form = form or Path(out).suffix[1:]
    if (form or out) and form not in FORMATS:
        option = "--format" if not out or form != Path(out).suffix[1:] else "--out"
        raise RatersError(f"{option}: found {form or out!r}, expected {', '.join(FORMATS)}")
    _refuse_among(results, name, out)
    found = _collected(name, results, scale, seeds)
    if not form:
        show_table(found)
    elif not out:
        typer.echo(rendered(found, form), nl=False)
    else:
        with written_whole(Path(out)) as file:
            file.write(rendered(found, form))
        typer.echo(f"the table: {out}")
    _end_with_problems(found)


@bench.command("plot")
def plot(
    name: Name, results: Folder = RESULTS, scale: Scale = "", seeds: Seeds = "", out: Picture = ""
) -> None:
    """Draw a benchmark: each seed, the mean, and what the paper printed.

    raters bench plot pixel-cm-table-1 -o results/ --out table-1.png
    """
    from raters.benchmarks.plot import write_plot

    _refuse_among(results, name, out)
    found = _collected(name, results, scale, seeds)
    path = write_plot(found, Path(out or f"{found.spec.name}.png"))
    typer.echo(f"the plot: {path}")
    _end_with_problems(found)


def _refuse_among(results: str, name: str, out: str) -> None:
    """Refuse to write among the results of a benchmark, which are read."""
    from raters.benchmarks.spec import read_spec
    from raters.study.places import Inputs

    spec = read_spec(name)
    if out:
        Inputs(folders=(Path(results).absolute() / (spec.cells or spec.name),)).refuse_file(out)


def _collected(name: str, results: str, scale: str, seeds: str) -> Collected:
    from raters.benchmarks.claims import refuse_checks
    from raters.benchmarks.results import collect, largest_scale, no_results
    from raters.benchmarks.spec import read_spec

    spec, folder = read_spec(name), Path(results)
    refuse_checks(spec)
    scale = scale or largest_scale(spec, folder)
    found = collect(with_seeds(spec, scale, seeds), scale, folder)
    if not found.num_done and not found.problems:
        raise no_results(spec.name, folder)
    return found


def _end_with_problems(found: Collected) -> None:
    errors = [RatersError(text) for text in found.problems]
    end_with_failures(errors, "left out", of="result")

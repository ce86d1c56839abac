"""`raters bench`: the papers' tables and figures, and methods on your own study, run and shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raters.cli.bench_show import print_json, rendered, show_table
from raters.cli.fuse import named_values
from raters.cli.study_options import OpenStudy, takes_study
from raters.cli.tables import end_with_failures, say, show_notes, wrapped
from raters.errors import RatersError
from raters.wording import duration, expected_one_of, many

if TYPE_CHECKING:
    from raters.benchmarks.cell import Cell
    from raters.benchmarks.results import Collected
    from raters.benchmarks.run import BenchRun
    from raters.benchmarks.spec import Specification
    from raters.rows import Row

RESULTS = "results"
_FORMATS = ("md", "csv", "html", "json")

bench = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})

_Folder = Annotated[str, typer.Option("-o", "--results", help="The folder of results.")]
_Name = Annotated[
    str, typer.Argument(help="A benchmark (raters bench list) or a file.", metavar="NAME|FILE.yaml")
]
_Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
_Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        help="smoke, laptop or paper; by default the largest with results.",
        metavar="smoke|laptop|paper",
    ),
]
_Seeds = Annotated[
    str, typer.Option("--seeds", help="These seeds instead of the scale's: 0,1,2.", metavar="N,...")
]


@bench.callback()
def about() -> None:
    """Run the papers' tables and figures, or compare methods on your own study.

    raters bench run pixel-cm-table-1 --scale smoke
    """


# Listing.


@bench.command("list")
def list_(results: _Folder = RESULTS, as_json: _Json = False) -> None:
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
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Benchmarks (raters bench list) or files.", metavar="NAME|FILE.yaml"),
    ] = None,
    results: Annotated[
        str, typer.Option("-o", "--results", help="The folder of results, one JSON per cell.")
    ] = RESULTS,
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="smoke (seconds), laptop (hours), paper (GPU).",
            metavar="smoke|laptop|paper",
        ),
    ] = "smoke",
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="The folder that holds the data sets, or NAME=FOLDER of one; can be repeated.",
            metavar="FOLDER|NAME=FOLDER",
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--row",
            "--rows",
            help="Only these rows: 'vote;pixel-cm'; can be repeated.",
            metavar="ROW;...",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", help="Only these settings; can be repeated.", metavar="SETTING;..."
        ),
    ] = None,
    seeds: _Seeds = "",
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes; by default one per core.", min=1)
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Address of a Dask scheduler.")] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Run cells again whose result is of another version.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check options and data, list the cells, run nothing.")
    ] = False,
    as_json: _Json = False,
    study: Annotated[
        str,
        typer.Option("--study", help="Compare methods on a study of your own.", metavar="STUDY"),
    ] = "",
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            help="With --study: vote,pixel-cm,...; see `raters methods`.",
            metavar="NAME,...",
        ),
    ] = "",
    folds: Annotated[
        int,
        typer.Option("--folds", help="With --study: folds by group, each held out once.", min=2),
    ] = 3,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="With --study: an option of training: epochs=20."),
    ] = None,
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
            **_of_training(named_values(option or [])),
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


_OWN_OPTIONS = {
    name: f"--{name}" for name in ("study", "methods", "folds", "seeds", "scheduler", "again")
} | {"seed": "--seeds", "num_workers": "--workers", "folder": "-o", "results": "-o"}
"""What options of the command are called, where somebody looks for them among those of training."""


def _of_training(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is an option of the command."""
    for name in options:
        if name in (*_OWN_OPTIONS, "as_json", "progress", "tell"):
            instead = _OWN_OPTIONS.get(name, "none such")
            raise RatersError(f"--option: found {name!r}, expected {instead} for it")
    return options


def with_seeds(spec: Specification, scale: str, seeds: str) -> Specification:
    """Return a benchmark with other seeds at a scale; '' leaves those of the scale."""
    if not seeds:
        spec.scale(scale)
        return spec
    numbers = seeds_of(seeds)
    other = spec.scale(scale).model_copy(update={"seeds": numbers})
    return spec.model_copy(update={"scales": {**spec.scales, scale: other}})


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds that `--seeds 0,1,2` names."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 0:
        raise RatersError(f"--seeds: found {text!r}, expected whole numbers such as 0,1,2")
    return numbers


def chosen(
    spec: Specification, scale: str, rows: Sequence[str], settings: Sequence[str]
) -> list[Cell]:
    """Return the cells of some rows and settings; all by default.

    Raises:
        RatersError: for a row or a setting that the benchmark does not have, or without any cell.
    """
    from raters.benchmarks.cell import cells_of, why_empty

    wanted = _listed("--row", rows, spec.rows)
    places = _listed("--setting", settings, spec.settings)
    for name in wanted:
        reason = why_empty(spec.rows[name].method)
        if reason:
            raise RatersError(f"--row: found {name!r}, which is {reason}, expected one that runs")
    cells = [c for c in cells_of(spec, scale, wanted) if not places or c.setting in places]
    if not cells:
        raise RatersError(f"found no cells of {spec.name} at the scale {scale!r}, expected some")
    return cells


def _listed(option: str, given: Sequence[str], known: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Split names at semicolons (they may hold commas) and reject unknown ones."""
    found = [part.strip() for text in given for part in text.split(";") if part.strip()]
    for name in found:
        if name not in known:
            raise RatersError(f"{option}: found {name!r}, {expected_one_of(known, name)}")
    return tuple(dict.fromkeys(found))


def places_of(given: Sequence[str]) -> dict[str, Path]:
    """Return where data sets lie: '' is the folder that holds one folder for each.

    Example:
        >>> sorted(places_of(["mnist=/sets/digits", "/sets"]).items())
        [('', PosixPath('/sets')), ('mnist', PosixPath('/sets/digits'))]
    """
    places: dict[str, Path] = {}
    for text in given:
        name, sign, folder = text.partition("=")
        key, place = (name.strip(), folder) if sign else ("", text)
        if not place or (sign and not key):
            raise RatersError(f"--data: found {text!r}, expected FOLDER or NAME=FOLDER")
        if key in places:
            raise RatersError(f"--data: found {text!r} after {places[key]}, expected one of them")
        places[key] = Path(place)
    return places


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
    name: _Name,
    results: _Folder = RESULTS,
    scale: _Scale = "",
    seeds: _Seeds = "",
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="By default for the terminal, or by the name of --out.",
            metavar="md|csv|html|json",
        ),
    ] = "",
    out: Annotated[str, typer.Option("--out", help="The file to write.", metavar="FILE")] = "",
) -> None:
    """Show the table of a benchmark: means over seeds, differences, and what the paper printed.

    raters bench table pixel-cm-table-1 -o results/ --out table.html
    """
    from raters.study.paths import written_whole

    form = form or Path(out).suffix[1:]
    if (form or out) and form not in _FORMATS:
        option = "--format" if not out or form != Path(out).suffix[1:] else "--out"
        raise RatersError(f"{option}: found {form or out!r}, expected {', '.join(_FORMATS)}")
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
    name: _Name,
    results: _Folder = RESULTS,
    scale: _Scale = "",
    seeds: _Seeds = "",
    out: Annotated[
        str, typer.Option("--out", help="The picture; by default NAME.png.", metavar="PNG|SVG|PDF")
    ] = "",
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

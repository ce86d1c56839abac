"""The options of `raters bench`, and what their texts mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from raters.cli.study_options import SELDOM, whole_numbers
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of

if TYPE_CHECKING:
    from raters.comparison.cell import Cell
    from raters_bench.spec import Specification

RESULTS = "results"
FORMATS = ("md", "csv", "html", "json")

_NAMES = "NAME|FILE.yaml"
_SCALES = "smoke|laptop|paper"
_SHOWN = "smoke, laptop or paper; by default the largest with results."
_DATA = "The folder that holds the data sets, or NAME=FOLDER of one; can be repeated."
_SEEDS = "These seeds instead of the scale's: 0,1,2."
_STUDY = "Compare methods on a study of your own."
_METHODS = "With --study: vote,pixel-cm,...; see `raters methods`."
_FOLDS = "With --study: folds by group, each held out once."
_FORM = "By default for the terminal, or by the name of --out."
_PICTURE = "The picture; by default NAME.png."

Several = list[str] | None
Name = Annotated[str, Argument(help="A benchmark (raters bench list) or a file.", metavar=_NAMES)]
Names = Annotated[
    Several, Argument(help="Benchmarks (raters bench list) or files.", metavar=_NAMES)
]
Folder = Annotated[str, Option("-o", "--results", help="The folder of results.")]
Written = Annotated[
    str, Option("-o", "--results", help="The folder of results, one JSON per cell.")
]
Scale = Annotated[str, Option("--scale", help=_SHOWN, metavar=_SCALES)]
Size = Annotated[
    str, Option("--scale", help="smoke (seconds), laptop (hours), paper (GPU).", metavar=_SCALES)
]
Seeds = Annotated[str, Option("--seeds", help=_SEEDS, metavar="N,...", rich_help_panel=SELDOM)]
Data = Annotated[Several, Option("--data", help=_DATA, metavar="FOLDER|NAME=FOLDER")]
Rows = Annotated[
    Several,
    Option(
        "--row",
        "--rows",
        help="Only these rows: 'vote;pixel-cm'; can be repeated.",
        metavar="ROW;...",
    ),
]
Settings = Annotated[
    Several,
    Option(
        "--setting",
        help="Only these settings; can be repeated.",
        metavar="SETTING;...",
        rich_help_panel=SELDOM,
    ),
]
Workers = Annotated[
    int | None,
    Option("--workers", help="Processes; by default one per core.", min=1, rich_help_panel=SELDOM),
]
Scheduler = Annotated[str, Option(help="Address of a Dask scheduler.", rich_help_panel=SELDOM)]
Again = Annotated[
    bool,
    Option(
        "--again",
        help="Run cells again whose result is of another version.",
        rich_help_panel=SELDOM,
    ),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Check options and data, list the cells, run nothing.")
]
OwnStudy = Annotated[str, Option("--study", help=_STUDY, metavar="STUDY")]
Methods = Annotated[str, Option("--methods", help=_METHODS, metavar="NAME,...")]
Folds = Annotated[int, Option("--folds", help=_FOLDS, min=2, rich_help_panel=SELDOM)]
Training = Annotated[
    Several,
    Option(
        "--option", help="With --study: an option of training: epochs=20.", rich_help_panel=SELDOM
    ),
]
Form = Annotated[str, Option("--format", help=_FORM, metavar="|".join(FORMATS))]
File = Annotated[str, Option("--out", help="The file to write.", metavar="FILE")]
Picture = Annotated[str, Option("--out", help=_PICTURE, metavar="PNG|SVG|PDF")]

_COMMANDS_OWN = {
    name: f"--{name}" for name in ("study", "methods", "folds", "seeds", "scheduler", "again")
} | {"seed": "--seeds", "num_workers": "--workers", "folder": "-o", "results": "-o"}
"""What options of the command are called, where somebody looks for them among those of training."""


def of_training(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is an option of the command."""
    for name in options:
        if name in (*_COMMANDS_OWN, "as_json", "progress", "tell"):
            instead = _COMMANDS_OWN.get(name, "none such")
            raise RatersError(f"--option: found {name!r}, expected {instead} for it")
    return options


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds that `--seeds 0,1,2` names; none if there is no text."""
    numbers = whole_numbers("--seeds", text, "0,1,2")
    if min(numbers, default=0) < 0:
        raise RatersError(f"--seeds: found {text!r}, expected whole numbers such as 0,1,2")
    return tuple(dict.fromkeys(numbers))


def chosen(
    spec: Specification, scale: str, rows: Sequence[str], settings: Sequence[str]
) -> list[Cell]:
    """Return the cells of some rows and settings; all by default.

    Raises:
        RatersError: for a row or a setting that the benchmark does not have, or without any cell.
    """
    from raters.comparison.cell import why_empty
    from raters_bench.cells import cells_of

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


def _listed(option: str, given: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Split names at semicolons (they may hold commas) and reject unknown ones."""
    found = []
    for text in given:
        names = [part.strip() for part in text.split(";")]
        found += [name for name in names if name]
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
        if sign:
            key = name.strip()
            place = folder
        else:
            key = ""
            place = text
        if not place or (sign and not key):
            raise RatersError(f"--data: found {text!r}, expected FOLDER or NAME=FOLDER")
        if key in places:
            raise RatersError(f"--data: found {text!r} after {places[key]}, expected one of them")
        places[key] = Path(place)
    return places

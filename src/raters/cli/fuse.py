"""`raters fuse`: the truth from labels alone, and how far each rater can be trusted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raters.cli.failures import end_with_failures
from raters.cli.study_options import OpenStudy, described, takes_study
from raters.cli.tables import MOST_ROWS, show_notes, show_rows, study_notes
from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.rows import Row
    from raters.study.write import ImportResult


@takes_study
def fuse(
    opened: OpenStudy,
    out: Annotated[
        str, typer.Option("-o", "--out", help="The folder to write.", show_default=False)
    ],
    method: Annotated[
        str,
        typer.Option(
            "-m",
            "--method",
            help="vote, mean, staple, spatial-staple, dawid-skene, one-coin or simple.",
        ),
    ] = "staple",
    pool: Annotated[
        bool, typer.Option("--pool", help="All cases share the raters' matrices.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="An option of the method: restrict=true, ties=undecided."),
    ] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Also write probabilities.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Fuse everything anew.")] = False,
    engine: Annotated[str, typer.Option(help="local, or dask (with --scheduler).")] = "local",
    scheduler: Annotated[str, typer.Option(help="Address of a Dask scheduler.")] = "",
) -> None:
    """Find the truth from labels alone; called again, finished cases are skipped.

    raters fuse "masks/{rater}/{case}.nii.gz" -m staple -o consensus/
    """
    from raters.fusion.consensus import fuse as fuse_study
    from raters.fusion.write import write_consensus
    from raters.study.remember import remember_study

    _refuse_engine(engine, scheduler)
    progress = sys.stderr.isatty()
    consensus = fuse_study(opened(), method, pool, progress, **_options(option or []))
    result = write_consensus(consensus, out, soft, overwrite, progress, scheduler or None)
    remember_study(out, described(opened))
    if pool or consensus.study.kind == "classification":
        show_rows("raters", [_short(row) for row in consensus.rows][: 2 * MOST_ROWS])
    show_notes([*result.notes, *study_notes(consensus.study)])
    _report(result)


def _refuse_engine(engine: str, scheduler: str) -> None:
    if engine not in ("local", "dask"):
        raise RatersError(f"--engine: found {engine!r}, expected 'local' or 'dask'")
    if (engine == "dask") != bool(scheduler):
        raise RatersError("expected --engine dask together with --scheduler ADDRESS")


def _options(given: list[str]) -> dict[str, Any]:
    options = {}
    for part in given:
        name, sign, value = part.partition("=")
        if not sign:
            raise RatersError(f"--option: found {part!r}, expected NAME=VALUE")
        options[name.strip().replace("-", "_")] = _value(part, value)
    return options


def _value(part: str, text: str) -> Any:  # noqa: ANN401
    """Read a value as YAML, and numbers that YAML takes for text (1e-5) as numbers."""
    import yaml

    try:
        found = yaml.safe_load(text)
        return float(found) if isinstance(found, str) else found
    except yaml.YAMLError:
        raise RatersError(f"--option: found {part!r}, expected NAME=VALUE in YAML") from None
    except ValueError:
        return found


def _short(row: Row) -> Row:
    return {k: v for k, v in row.items() if not k.endswith("_se") or k.startswith("sensitivity")}


def _report(result: ImportResult) -> None:
    there = f", {result.skipped:,} were there already" if result.skipped else ""
    typer.echo(f"{result.written:,} cases fused{there}: {result.folder}")
    end_with_failures(result.failures, "could not be fused")

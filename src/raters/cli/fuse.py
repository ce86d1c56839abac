"""`raters fuse`: a consensus from labels, alone or with a model, and how far to trust raters."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raters.cli.study_options import OpenStudy, Out, described, takes_study
from raters.cli.tables import end_with_failures, say, show_notes, show_rows, study_notes
from raters.errors import RatersError
from raters.fusion.methods import METHODS
from raters.wording import many

if TYPE_CHECKING:
    from raters.rows import Row
    from raters.study.write import ImportResult


@takes_study
def fuse(
    opened: OpenStudy,
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--method",
            help=f"{', '.join(METHODS)}; see `raters methods`. With --model, its own method.",
            show_default="staple",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Folder of a trained model: labels are fused with what it says of the images.",
            metavar="RUN",
            show_default=False,
        ),
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="All cases share the raters' matrices.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="An option of the method: restrict=true, ties=undecided."),
    ] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Also write probabilities.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Fuse all cases again.")] = False,
    engine: Annotated[str, typer.Option(help="local, or dask (with --scheduler).")] = "local",
    scheduler: Annotated[str, typer.Option(help="Address of a Dask scheduler.")] = "",
) -> None:
    """Estimate a consensus from labels; called again, finished cases are skipped.

    Images are looked at only by a trained model (--model), grabcut and lazy-snapping.

    raters fuse "masks/{rater}/{case}.nii.gz" -m staple -o consensus/
    """
    from raters.fusion.consensus import fuse as fuse_study
    from raters.fusion.write import write_consensus
    from raters.study.places import remember_study

    _refuse_engine(engine, scheduler, model)
    _refuse_untrained(method, model)
    progress = sys.stderr.isatty()
    options = named_values(option or [])
    consensus = fuse_study(opened(), method, pool, progress, model, **options)
    result = write_consensus(consensus, out, soft, overwrite, progress, scheduler or None, say)
    remember_study(out, described(opened))
    if (pool or consensus.study.kind == "classification") and not consensus.study.anonymous:
        rows = worst_first([_short(row) for row in consensus.rows])
        show_rows("raters, the worst first", rows)
    show_notes([*result.notes, *study_notes(consensus.study)])
    _report(result)


def _refuse_engine(engine: str, scheduler: str, model: str | None) -> None:
    if engine not in ("local", "dask"):
        raise RatersError(f"--engine: found {engine!r}, expected 'local' or 'dask'")
    if (engine == "dask") != bool(scheduler):
        raise RatersError("expected --engine dask together with --scheduler ADDRESS")
    if scheduler and model is not None:
        raise RatersError("found --scheduler with --model, expected one of them")


def _refuse_untrained(method: str | None, model: str | None) -> None:
    """Name --model where a learning method is asked for without one."""
    if model is not None or method is None or method in METHODS:
        return
    from raters.methods.registry import METHODS as LEARNT

    if method in LEARNT:
        raise RatersError(
            f"found the method {method!r} without a model, expected --model RUN (a run of raters "
            f"train -m {method}) or one of: {', '.join(METHODS)}"
        )


def named_values(given: list[str]) -> dict[str, Any]:
    """Return what `--option NAME=VALUE` says.

    Example:
        >>> named_values(["max-iter=5", "tol=1e-5"])
        {'max_iter': 5, 'tol': 1e-05}
    """
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

    from raters.study.plain_yaml import load_plain

    try:
        found = load_plain(text)
        if isinstance(found, str) and "," in found:  # 0.5,0.5 as [0.5, 0.5]
            return [float(item) for item in found.split(",")]
        return float(found) if isinstance(found, str) else found
    except yaml.YAMLError:
        raise RatersError(f"--option: found {part!r}, expected NAME=VALUE in YAML") from None
    except ValueError:
        return found


def worst_first(rows: list[Row]) -> list[Row]:
    """Put the raters whose worst class is named worst first; each keeps the order of classes.

    Example:
        >>> rows = [{"rater": "ann", "sensitivity": 0.9}, {"rater": "bob", "sensitivity": 0.4}]
        >>> [row["rater"] for row in worst_first(rows)]
        ['bob', 'ann']
    """
    worst: dict[str, float] = {}
    for row in rows:
        found = row.get("sensitivity")
        value = math.inf if found is None or found != found else float(found)
        worst[row["rater"]] = min(worst.get(row["rater"], math.inf), value)
    return sorted(rows, key=lambda row: worst[row["rater"]])


def _short(row: Row) -> Row:
    """Put its interval beside the sensitivity and leave out what does not fit."""
    short: Row = {}
    for name, value in row.items():
        if not name.endswith(("_se", "_low", "_high")):
            short[name] = value
        if name == "sensitivity_high":
            low, high = row["sensitivity_low"], value
            short["95 %"] = None if low is None else f"{low:.2f} to {high:.2f}"
    return short


def _report(result: ImportResult) -> None:
    was = "was" if result.skipped == 1 else "were"
    there = f", {result.skipped:,} {was} there already" if result.skipped else ""
    typer.echo(f"{many(result.written, 'case')} fused{there}: {result.folder}")
    end_with_failures(result.failures, "could not be fused")

"""`raters fuse`: a consensus from labels, alone or with a model, and how far to trust raters."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer import Option

from raters.cli.study_options import SELDOM, OpenStudy, named_values, takes_study
from raters.core.errors import RatersError
from raters.core.wording import many
from raters.fusion.methods import METHODS
from raters.views import terminal

_METHOD = f"{', '.join(METHODS)}; see `raters methods`. With --model, its own method."
_USUAL = "staple for masks, hierarchical for tables"
_MODEL = "Folder of a trained model: labels are fused with what it says of the images."
_OPTION = "An option of the method: restrict=true, ties=undecided."


@takes_study
def fuse(
    opened: OpenStudy,
    out: Annotated[str, Option("-o", "--out", help="The folder to write.")] = "consensus",
    method: Annotated[
        str | None, Option("-m", "--method", help=_METHOD, show_default=_USUAL)
    ] = None,
    model: Annotated[str | None, Option(help=_MODEL, metavar="RUN", show_default=False)] = None,
    pool: Annotated[bool, Option("--pool", help="All cases share the raters' matrices.")] = False,
    option: Annotated[
        list[str] | None, Option("--option", help=_OPTION, rich_help_panel=SELDOM)
    ] = None,
    soft: Annotated[bool, Option("--soft", help="Also write probabilities.")] = False,
    overwrite: Annotated[
        bool, Option(help="Fuse all cases again.", rich_help_panel=SELDOM)
    ] = False,
    engine: Annotated[
        str, Option(help="local, or dask (with --scheduler).", rich_help_panel=SELDOM)
    ] = "local",
    scheduler: Annotated[
        str, Option(help="Address of a Dask scheduler.", rich_help_panel=SELDOM)
    ] = "",
) -> None:
    """Estimate a consensus from labels; called again, finished cases are skipped.

    Images are looked at only by a trained model (--model), grabcut and lazy-snapping.

    raters fuse "masks/{rater}/{case}.nii.gz" -o consensus/

    raters fuse answers.csv
    """
    from raters.consensus.consensus import fuse as fuse_study
    from raters.consensus.write import write_consensus
    from raters.study.places import remember_study

    _refuse_engine(engine, scheduler, model)
    _refuse_untrained(method, model)
    progress = sys.stderr.isatty()
    options = named_values(option or [])
    consensus = fuse_study(opened(), method, pool=pool, progress=progress, model=model, **options)
    result = write_consensus(
        consensus, out, soft, overwrite, progress, scheduler or None, terminal.say
    )
    remember_study(out, opened.described())
    if (pool or consensus.study.kind == "classification") and not consensus.study.anonymous:
        from raters.assessment.performance import worst_first

        rows = worst_first(
            [terminal.brief(row, "sensitivity", "95 %", ".2f") for row in consensus.rows]
        )
        terminal.rows("raters, the worst first", rows)
    terminal.notes([*result.notes, *consensus.study.all_notes()])
    done = f"{many(result.written, 'case')} fused{terminal.there_already(result.skipped)}"
    typer.echo(f"{done}: {result.folder}")
    terminal.end_with_failures(result.failures, "could not be fused")


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
    from raters.learning.methods.registry import METHODS as LEARNT

    if method in LEARNT:
        raise RatersError(
            f"found the method {method!r} without a model, expected --model RUN (a run of raters "
            f"train -m {method}) or one of: {', '.join(METHODS)}"
        )

"""`raters simulate`: raters who err on purpose, on given truth or on drawn phantoms."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from raters.cli.import_ import report
from raters.cli.study_options import SELDOM, OpenStudy, Out, Overwrite, takes_study
from raters.core.errors import RatersError

if TYPE_CHECKING:
    from raters.study.study import Study

_DRAW = "Drawn phantoms"

_RATERS = (
    "Who rates: 'good,over:2.5,under@0.7' (kind, :severity or @mean Dice); coarse "
    "'positive@0.5,negative,scribble,box,level3' (@share of the area); for classes "
    "'5xhammer-spammer:0.3' or 'cifar'."
)
_SEVERITY = "Severity, in pixels, of raters that name none."
_ASSIGN = (
    "Who labels a case: all, one, a number, shares '0.9,0.2,...', or teams of whom each case "
    "has one: 'ann=2,bob+cy=1'."
)
_DEMAND_DOMINANCE = "Mean matrix must be column-dominant."
_CONFUSION = "Also write the raters' true confusion here (.npz)."
_NUMBER = (
    "How many phantoms to draw: lesions, disc-cup, vessels, scenes; or with raters of their own "
    "streaks (most err alike), discs (five of seven are biased), discs-equal."
)
_SHAPE = "Shape of a phantom: 128x128, 64x64x32."


@takes_study
def simulate(
    opened: OpenStudy,
    out: Out,
    raters: Annotated[str, Option("--raters", help=_RATERS)] = "",
    severity: Annotated[float | None, Option(help=_SEVERITY, rich_help_panel=SELDOM)] = None,
    mean_dice: Annotated[
        float | None, Option(help="Mean Dice of raters that name none.", rich_help_panel=SELDOM)
    ] = None,
    assign: Annotated[str, Option(help=_ASSIGN)] = "all",
    target: Annotated[
        str, Option(help="The class that drawers err on, or mark.", rich_help_panel=SELDOM)
    ] = "",
    demand_dominance: Annotated[
        bool, Option("--demand-dominance", help=_DEMAND_DOMINANCE, rich_help_panel=SELDOM)
    ] = False,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    confusion: Annotated[str, Option(help=_CONFUSION, rich_help_panel=SELDOM)] = "",
    form: Annotated[
        str, Option(help="canonical or packed; by default that of STUDY.", rich_help_panel=SELDOM)
    ] = "",
    overwrite: Overwrite = False,
    number: Annotated[int, Option(help=_NUMBER, rich_help_panel=_DRAW)] = 24,
    shape: Annotated[str, Option(help=_SHAPE, rich_help_panel=_DRAW)] = "128x128",
) -> None:
    """Simulate raters on true masks or classes, or on drawn phantoms, such as lesions.

    raters simulate "truth/{case}.png" --images "images/{case}.png" -o study/ --raters good,over

    raters simulate lesions --number 50 -o study/ --assign one

    raters simulate streaks --number 200 --shape 40x40 -o study/    # most raters err alike

    raters simulate discs --number 200 --shape 64x64 -o study/      # five of seven are biased

    raters simulate scenes --raters positive@0.5,negative@0.5 --unmarked unknown -o study/
    """
    from raters.simulation.drawn import STUDIES
    from raters.simulation.specs import parse_assign
    from raters.simulation.study import PIXEL_CM, refuse_other_file, said_of, write_true_confusion
    from raters.simulation.study import simulate as make
    from raters.study.backend_files import FilesBackend
    from raters.study.places import Inputs
    from raters.study.write import import_study, refuse_taken

    named = opened.given["study"]
    truth = _truth(opened, named, number, shape, seed)
    refuse_taken(truth, Path(out))  # before raters are calibrated, which takes a while
    if confusion:
        Inputs.of(truth).refuse_file(confusion)
        refuse_other_file(confusion)
    if named in STUDIES and not raters:
        study = STUDIES[named][1](number, _space(shape), seed, parse_assign(assign))
    else:
        usual = PIXEL_CM if truth.kind == "segmentation" else "5xhammer-spammer:0.5"
        study = make(
            truth,
            raters or usual,
            severity=severity,
            mean_dice=mean_dice,
            assign=parse_assign(assign),
            seed=seed,
            target=target or None,
            require_dominance=demand_dominance,
            unmarked=opened.given["unmarked"] or None,
        )
    progress = sys.stderr.isatty()
    for line in said_of(study):
        typer.echo(line)
    # As the truth is held: arrays of one shape packed, files as files.
    held = isinstance(getattr(truth.backend, "inputs", truth.backend), FilesBackend)
    form = form or ("canonical" if held else "packed")
    result = import_study(study, out, form, overwrite=overwrite, progress=progress)
    if confusion:
        write_true_confusion(study, confusion, progress=progress)
        typer.echo(f"true confusion written: {confusion}")
    report(result)


def _truth(opened: OpenStudy, named: str, number: int, shape: str, seed: int) -> Study:
    """Open the truth, or draw phantoms if it is the name of one."""
    from raters.simulation.drawn import STUDIES
    from raters.simulation.phantoms import PHANTOMS, phantom_study

    kind = STUDIES[named][0] if named in STUDIES else named
    if kind not in PHANTOMS:
        return opened(truth=True)
    space = _space(shape)
    if number < 1:
        raise RatersError(f"--number: found {number}, expected at least 1")
    return phantom_study(kind, number, space, seed)


def _space(shape: str) -> list[int]:
    try:
        return [int(part) for part in shape.lower().split("x")]
    except ValueError:
        raise RatersError(f"--shape: found {shape!r}, expected a shape such as 128x128") from None

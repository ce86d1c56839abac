"""`raters evaluate`: predictions, consensus masks or trained runs against references and raters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.failures import end_with_failures
from raters.cli.study_options import OpenStudy, takes_study
from raters.cli.tables import show_notes, show_rows, study_notes
from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.rows import Row


@takes_study
def evaluate(
    opened: OpenStudy,
    predictions: Annotated[
        str,
        typer.Argument(
            help="Folder of a run, or of predictions; pattern with {case}; table of predictions."
        ),
    ],
    out: Annotated[
        str, typer.Option("-o", "--out", help="Write all tables here, as CSV and JSON.")
    ] = "",
    split: Annotated[
        str,
        typer.Option(
            help="Keep the cases of a split. For runs also: train, held-out (those that chose the "
            "epoch), test (those that the run has not seen)."
        ),
    ] = "",
    against: Annotated[
        list[str],
        typer.Option("--against", help="Compare with this run, case by case; can be repeated."),
    ] = [],  # noqa: B006
    cut: Annotated[
        str,
        typer.Option(
            help="Where the masks of a run are cut, as in raters predict: a number, area, best, by "
            "class. Dice at 0.5, best and area is shown anyway."
        ),
    ] = "0.5",
    surfaces: Annotated[bool, typer.Option(help="Measure surface distances.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Score predictions, consensus masks or trained runs against references and each rater.

    raters evaluate consensus/ "masks/{rater}/{case}.nii.gz" --reference "truth/{case}.nii.gz"

    raters evaluate run/ STUDY --split test

    raters evaluate run1/ STUDY --split test --against run2/ --against run3/ -o scores/
    """
    from raters.evaluation.evaluate import evaluate as score
    from raters.evaluation.evaluate import inputs_of
    from raters.evaluation.result import FILES
    from raters.rows import to_json

    if against or (Path(predictions) / "config.yaml").exists():
        from raters.cli.evaluate_run import evaluate_runs

        evaluate_runs([predictions, *against], opened, split, surfaces, out, as_json, cut)
        return
    if cut != "0.5":
        raise RatersError(
            f"--cut: found {cut!r} for predictions that are labels already, expected the folder of "
            "a run, or raters predict --cut before",
            file=predictions,
        )
    study = opened(split=split)
    if out:
        inputs_of(predictions, study).refuse(out, FILES)
    result = score(predictions, study, surfaces, progress=sys.stderr.isatty())
    if out:
        result.write(out)
    if as_json:
        typer.echo(to_json(result.to_dict()))
    else:
        show_summary(result.summary, bool(out))
        show_notes([*result.notes, *study_notes(study)])
        if out:
            typer.echo(f"\ntables written: {out}")
    end_with_failures(result.failures, "could not be scored")


def show_summary(summary: list[Row], written: bool) -> None:
    """Print the means over classes; all would not fit a terminal."""
    several = len({row.get("class") for row in summary}) > 1
    rows = [_short(row, several) for row in summary if not several or row["class"] == "all"]
    dull = set() if any(row.get("undefined") for row in rows) else {"undefined"}
    dull |= (
        {"dice_drawn"} if all(row.get("dice_drawn") == row.get("dice") for row in rows) else set()
    )
    intervals = any(row.get("interval") for row in rows)
    title = "scores, with 95 % intervals" if intervals else "scores"
    show_rows(title, [{k: v for k, v in row.items() if k not in dull} for row in rows])
    if several and not written:
        show_notes(["scores by class: -o FOLDER or --json"])


def _short(row: Row, several: bool) -> Row:
    """Put the interval beside the first score and leave out what does not fit."""
    first = next(name for name in row if f"{name}_low" in row)
    low, high = row[f"{first}_low"], row[f"{first}_high"]
    short: Row = {}
    for name, value in row.items():
        wide = name.endswith(("_low", "_high")) or "volume" in name or name == "class"
        if wide or (several and name == "iou"):
            continue
        short[name] = value
        if name == first:
            short["interval"] = None if low is None else f"{low:.3f} to {high:.3f}"
    return short

"""`raters evaluate`: runs, predictions or consensus masks against references and raters."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raters.cli.study_options import AsJson, OpenStudy, TablesOut, takes_study
from raters.cli.tables import MOST_ROWS, end_with_failures, say, show_notes, show_rows, study_notes
from raters.rows import Row, interval, with_interval
from raters.wording import many

if TYPE_CHECKING:
    from raters.evaluation.result import Comparison, Evaluation


MOST_COLUMNS = 6  # raters beside each other on a terminal
_SCORES = {
    "score_best": "dice at the best cut",
    "score_area": "dice at the area cut",
    "joint": "likelihood of labels, joint",
    "marginal": "likelihood of labels, marginal",
    "ece": "calibration error",
    "as_rater": "'as rater' against the rater",
    "as_rater_ece": "calibration error of 'as rater'",
    "confusion_error": "error of the matrices",
    "soft_dice": "soft dice, raters' mean label",
    "ged": "energy distance of samples",
    "matched_dice": "matched dice of samples",
}


@takes_study
def evaluate(
    opened: OpenStudy,
    predictions: Annotated[
        str,
        typer.Argument(
            help="Folder of a run, or of predictions; pattern with {case}; table of predictions."
        ),
    ],
    out: TablesOut = "",
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
    union: Annotated[
        list[str],
        typer.Option(
            "--union",
            help="Score classes as one too, by name or value: 'disc=1+2'; can be repeated.",
        ),
    ] = [],  # noqa: B006
    cut: Annotated[
        str,
        typer.Option(
            help="Where the masks of a run are cut, as in raters predict: a number, area, best, by "
            "class. Dice at 0.5, best and area is shown anyway."
        ),
    ] = "0.5",
    samples: Annotated[
        int,
        typer.Option(min=1, help="Samples to draw for each case, if the method of a run has them."),
    ] = 16,
    seed: Annotated[int, typer.Option(help="Where the randomness of samples starts.")] = 0,
    surfaces: Annotated[bool, typer.Option(help="Measure surface distances.")] = True,
    as_json: AsJson = False,
) -> None:
    """Score trained runs, predictions or consensus masks against references and each rater.

    raters evaluate consensus/ "masks/{rater}/{case}.nii.gz" --reference "truth/{case}.nii.gz"

    raters evaluate run/ STUDY --split test

    raters evaluate run1/ STUDY --split test --against run2/ --against run3/ -o scores/

    raters evaluate predictions/ STUDY --union "tumour core=1+4" --union "whole tumour=1+2+4"
    """
    from raters.evaluation import compare_runs
    from raters.evaluation import evaluate as score
    from raters.evaluation.evaluate import inputs_of
    from raters.evaluation.result import COMPARED, FILES, Comparison
    from raters.rows import to_json

    runs = [predictions, *against]
    is_run = bool(against) or (Path(predictions) / "config.yaml").exists()
    if is_run:
        from raters.training.run import refuse_no_model

        for run in runs:
            refuse_no_model(run)
        say("reading the study")
    study = opened() if is_run else opened(split=split)
    if out:
        for run in runs:
            inputs_of(run, study).refuse(out, COMPARED if against else FILES)
    options: dict[str, Any] = {"unions": union, "surfaces": surfaces, "samples": samples}
    options |= {"seed": seed, "progress": sys.stderr.isatty(), "cut": cut}
    result: Evaluation | Comparison
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are shown below, loudly
        if is_run:
            say("loading the models" if against else "loading the model")
        if against:
            result = compare_runs(runs, study, split or None, **options)
        else:
            result = score(predictions, study, split if is_run else None, **options)
    for text in result.warnings:
        typer.secho(f"WARNING: {text}", err=True, fg="red", bold=True)
    if out:
        result.write(out)
    if as_json:
        typer.echo(to_json(result.to_dict()))
    else:
        if isinstance(result, Comparison):
            _show_comparison(result)
        else:
            _show(result, bool(out))
        show_notes([*result.notes, *study_notes(study)])
        if out:
            typer.echo(f"\ntables written: {out}")
    end_with_failures(result.failures, "could not be scored")


def _show_summary(summary: list[Row], written: bool) -> None:
    several = len({row.get("class") for row in summary}) > 1
    rows = [_brief(row, ("iou",) if several else ()) for row in _without_classes(summary)]
    dull = set() if any(row.get("undefined") for row in rows) else {"undefined"}
    dull |= (
        {"dice_drawn"} if all(row.get("dice_drawn") == row.get("dice") for row in rows) else set()
    )
    intervals = any(row.get("interval") for row in rows)
    title = "scores, with 95 % intervals" if intervals else "scores"
    show_rows(title, [{k: v for k, v in row.items() if k not in dull} for row in rows])
    if several and len(rows) < len(summary) and not written:
        show_notes(["scores by class: -o FOLDER or --json"])


def _without_classes(rows: Sequence[Row]) -> list[Row]:
    """Keep the means over classes, and unions; all would not fit a terminal."""
    names = list(dict.fromkeys(row.get("class") for row in rows))
    if "all" in names:  # unions come after it; of class labels it is the first
        names = names[names.index("all") :] if names[0] != "all" else ["all"]
    kept = [row for row in rows if row.get("class") in names]
    return kept if len(names) > 1 else [{k: v for k, v in r.items() if k != "class"} for r in kept]


def _show(found: Evaluation, written: bool) -> None:
    if found.run:
        where = f", split {found.split}" if found.split else ""
        typer.echo(f"{found.run}: {found.method}, {many(found.scored, 'case')}{where}")
    _show_summary(found.summary, written)
    together = [_brief(row) for row in _without_classes(found.variability)]
    if not any(row.pop("samples") for row in together):
        show_rows("against the mean label of all raters", together)
    else:
        show_rows("samples against all raters, with the mean label of raters", together)
    show_rows("Dice by cut; best and area were chosen on held-out cases", _cuts(found.cuts))
    show_rows("likelihood of raters' labels, by label", [_brief(r) for r in found.likelihood])
    show_rows("calibration", [_brief(row) for row in found.calibration])
    if found.as_rater and len(found.raters) <= MOST_COLUMNS:
        show_rows("'as rater' (rows) against (columns): log-likelihood", _matrix(found, 0))
        show_rows(f"'as rater' (rows) against (columns): {_fit(found)}", _matrix(found, 1))
    show_rows("does 'as X' fit X better than 'as others' do?", [_own(r) for r in found.raters])
    if found.as_rater and len(found.raters) > MOST_COLUMNS and not written:
        show_notes(["'as rater' against each rater: -o FOLDER or --json"])
    if "confusion_error" in found.main:
        typer.echo(f"\nerror of the matrices: {with_interval(found.main, 'confusion_error')}")


def _cuts(rows: Sequence[Row]) -> list[Row]:
    """Name the columns as the options are; cuts stand behind their scores."""
    names = {"dice_half": "at 0.5", "dice_best": "at best", "dice_area": "at area"}
    names |= {"cut_best": "best cut", "cut_area": "area cut"}
    shown = [{k: v for k, v in row.items() if not k.endswith(("_low", "_high"))} for row in rows]
    return [{names.get(k, k): v for k, v in row.items()} for row in shown]


def _fit(found: Evaluation) -> str:
    return "dice" if "dice" in found.as_rater[0] else "accuracy"


def _matrix(found: Evaluation, which: int) -> list[Row]:
    score = ("log_likelihood", _fit(found))[which]
    table: dict[str, Row] = {}
    for row in found.as_rater:
        table.setdefault(row["as"], {"as": row["as"]})[row["against"]] = row[score]
    return list(table.values())


def _brief(row: Row, left_out: Sequence[str] = ()) -> Row:
    """Keep the interval of the first score only, and leave out what does not fit."""
    first = next(name for name in row if f"{name}_low" in row)
    short: Row = {}
    for name, value in row.items():
        if not name.endswith(("_low", "_high")) and "volume" not in name and name not in left_out:
            short[name] = value
        if name == first:
            short["interval"] = interval(row, first)
    return short


def _own(row: Row) -> Row:
    """Keep, of each rater, how much better 'as X' fits than 'as others' do on average."""
    fit = "dice" if "dice" in row else "accuracy"
    short: Row = {"rater": row["rater"], "log-lik.": row["log_likelihood"]}
    short |= {"others": row.get("log_likelihood_of_others")}
    short |= {"better by": _signed(row, "log_likelihood_better"), fit: row[fit]}
    return short | {f"others' {fit}": row.get(f"{fit}_of_others")}


def _show_comparison(found: Comparison) -> None:
    score = found.runs[0].score
    where = f"; split {found.runs[0].split}" if found.runs[0].split else ""
    typer.echo(f"score: {score}; likelihood: log, marginal, of a label{where}")
    rows: list[Row] = []
    for row in found.rows:
        short: Row = {"run": row["run"], "method": row["method"], "score": row.get("score")}
        short["interval"] = interval(row, "score")
        cuts = {"at best cut": row.get("score_best"), "at area cut": row.get("score_area")}
        short |= {name: value for name, value in cuts.items() if value is not None}
        short |= {"likelihood": row.get("marginal"), "ece": row.get("ece", row.get("as_rater_ece"))}
        rows.append(short | {"as_rater": row.get("as_rater")})
    show_rows("runs, with 95 % intervals", rows)
    lines: list[Row] = []
    for row in found.differences:
        name = _SCORES.get(row["score"], score)
        lines.append({"run": row["run"], "score": name, "difference": _signed(row, "difference")})
    show_rows(f"more than {found.runs[0].run}, paired", lines[:MOST_ROWS], len(lines))


def _signed(row: Row, name: str) -> str | None:
    value, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
    if value is None:
        return None
    ends = "" if low is None or high is None else f" ({_plus(low)} to {_plus(high)})"
    return f"{_plus(value)}{ends}"


def _plus(value: float) -> str:
    """Return a number with its sign; a rounded -0 plus 0 is 0."""
    return f"{round(value, 3) + 0.0:+.3f}"

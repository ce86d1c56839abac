"""`raters evaluate`: runs, predictions or consensus masks against references and raters."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from raters.cli.study_options import SELDOM, AsJson, OpenStudy, TablesOut, takes_study
from raters.core.wording import many
from raters.io.rows import Row, interval, with_interval
from raters.views import terminal

if TYPE_CHECKING:
    from raters.evaluation.result import Comparison, Evaluation


MOST_COLUMNS = 6  # raters beside each other on a terminal

_PREDICTIONS = "Folder of a run, or of predictions; pattern with {case}; table of predictions."
_SPLIT = (
    "Keep the cases of a split. For runs also: train, held-out (those that chose the epoch), "
    "test (those that the run has not seen)."
)
_AGAINST = "Compare with this run, case by case; can be repeated."
_UNION = "Score classes as one too, by name or value: 'disc=1+2'; can be repeated."
_CUT = (
    "Where the masks of a run are cut, as in raters predict: a number, area, best, by class. "
    "Dice at 0.5, best and area is shown anyway."
)
_SAMPLES = "Samples to draw for each case, if the method of a run has them."


@takes_study
def evaluate(
    opened: OpenStudy,
    predictions: Annotated[str, Argument(help=_PREDICTIONS)],
    out: TablesOut = "",
    split: Annotated[str, Option(help=_SPLIT)] = "",
    against: Annotated[list[str], Option("--against", help=_AGAINST)] = [],  # noqa: B006
    union: Annotated[list[str], Option("--union", help=_UNION)] = [],  # noqa: B006
    cut: Annotated[str, Option(help=_CUT)] = "0.5",
    samples: Annotated[int, Option(min=1, help=_SAMPLES, rich_help_panel=SELDOM)] = 16,
    seed: Annotated[
        int, Option(help="Where the randomness of samples starts.", rich_help_panel=SELDOM)
    ] = 0,
    surfaces: Annotated[
        bool, Option(help="Measure surface distances.", rich_help_panel=SELDOM)
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Score trained runs, predictions or consensus masks against references and each rater.

    raters evaluate consensus/ "masks/{rater}/{case}.nii.gz" --reference "truth/{case}.nii.gz"

    raters evaluate run/ STUDY --split test

    raters evaluate run1/ STUDY --split test --against run2/ --against run3/ -o scores/

    raters evaluate predictions/ STUDY --union "tumour core=1+4" --union "whole tumour=1+2+4"
    """
    from raters.evaluation import evaluate as score
    from raters.evaluation.evaluate import inputs_of, is_run
    from raters.evaluation.result import COMPARED, FILES, Comparison, refuse_place

    runs = [predictions, *against]
    trained = bool(against) or is_run(predictions)
    if trained:
        from raters.learning.training.run import refuse_no_model

        for run in runs:
            refuse_no_model(run)
        terminal.say("reading the study")
    study = opened() if trained else opened(split=split)
    if out:
        inputs = [inputs_of(run, study) for run in runs]
        refuse_place(inputs, out, COMPARED if against else FILES)
    options: dict[str, Any] = {"unions": union, "surfaces": surfaces, "samples": samples}
    options |= {"seed": seed, "progress": sys.stderr.isatty(), "cut": cut}
    result: Evaluation | Comparison
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are shown below, loudly
        if trained:
            terminal.say("loading the models" if against else "loading the model")
        if against:
            from raters.learning.evaluation import compare_runs

            result = compare_runs(runs, study, split or None, **options)
        else:
            result = score(predictions, study, split if trained else None, **options)
    for text in result.warnings:
        typer.secho(f"WARNING: {text}", err=True, fg="red", bold=True)
    if out:
        result.write(out)
    if as_json:
        terminal.json(result.to_dict())
    else:
        if isinstance(result, Comparison):
            _show_comparison(result)
        else:
            _show(result, bool(out))
        terminal.notes([*result.notes, *study.all_notes()])
        if out:
            typer.echo(f"\ntables written: {out}")
    terminal.end_with_failures(result.failures, "could not be scored")


def _show_summary(summary: list[Row], written: bool) -> None:
    several = len({row.get("class") for row in summary}) > 1
    rows = [_brief(row, ("iou",) if several else ()) for row in _without_classes(summary)]
    dull = set() if any(row.get("undefined") for row in rows) else {"undefined"}
    if all(row.get("dice_drawn") == row.get("dice") for row in rows):
        dull.add("dice_drawn")
    intervals = any(row.get("interval") for row in rows)
    title = "scores, with 95 % intervals" if intervals else "scores"
    terminal.rows(title, terminal.without(dull, rows))
    if several and len(rows) < len(summary) and not written:
        terminal.notes(["scores by class: -o FOLDER or --json"])


def _without_classes(rows: Sequence[Row]) -> list[Row]:
    """Keep the means over classes, and unions; all would not fit a terminal."""
    names = list(dict.fromkeys(row.get("class") for row in rows))
    if "all" in names:  # unions come after it; of class labels it is the first
        names = names[names.index("all") :] if names[0] != "all" else ["all"]
    kept = [row for row in rows if row.get("class") in names]
    return kept if len(names) > 1 else terminal.without(("class",), kept)


def _show(found: Evaluation, written: bool) -> None:
    if found.run:
        where = f", split {found.split}" if found.split else ""
        typer.echo(f"{found.run}: {found.method}, {many(found.scored, 'case')}{where}")
    _show_summary(found.summary, written)
    together = [_brief(row) for row in _without_classes(found.variability)]
    samples = []
    for row in together:
        samples.append(row.pop("samples"))

    title = "samples against all raters, with the mean label of raters"
    terminal.rows(title if any(samples) else "against the mean label of all raters", together)
    terminal.rows("Dice by cut; best and area were chosen on held-out cases", _cuts(found.cuts))
    terminal.rows("likelihood of raters' labels, by label", [_brief(r) for r in found.likelihood])
    terminal.rows("calibration", [_brief(row) for row in found.calibration])
    if found.as_rater and len(found.raters) <= MOST_COLUMNS:
        from raters.evaluation.result import as_matrix

        title = "'as rater' (rows) against (columns)"
        terminal.rows(f"{title}: log-likelihood", as_matrix(found.as_rater, "log_likelihood"))
        fit = "dice" if "dice" in found.as_rater[0] else "accuracy"
        terminal.rows(f"{title}: {fit}", as_matrix(found.as_rater, fit))
    terminal.rows("does 'as X' fit X better than 'as others' do?", [_own(r) for r in found.raters])
    if found.as_rater and len(found.raters) > MOST_COLUMNS and not written:
        terminal.notes(["'as rater' against each rater: -o FOLDER or --json"])
    if "confusion_error" in found.main:
        typer.echo(f"\nerror of the matrices: {with_interval(found.main, 'confusion_error')}")


def _cuts(rows: Sequence[Row]) -> list[Row]:
    """Name the columns as the options are; cuts stand behind their scores."""
    names = {"dice_half": "at 0.5", "dice_best": "at best", "dice_area": "at area"}
    names |= {"cut_best": "best cut", "cut_area": "area cut"}
    ends = ("_low", "_high")
    return [{names.get(k, k): v for k, v in r.items() if not k.endswith(ends)} for r in rows]


def _brief(row: Row, left_out: Sequence[str] = ()) -> Row:
    """Keep the interval of the first score only, and leave out what does not fit."""
    short = terminal.brief(row, next(name for name in row if f"{name}_low" in row))
    return {k: v for k, v in short.items() if "volume" not in k and k not in left_out}


def _own(row: Row) -> Row:
    """Keep, of each rater, how much better 'as X' fits than 'as others' do on average."""
    fit = "dice" if "dice" in row else "accuracy"
    return {
        "rater": row["rater"],
        "log-lik.": row["log_likelihood"],
        "others": row.get("log_likelihood_of_others"),
        "better by": _signed(row, "log_likelihood_better"),
        fit: row[fit],
        f"others' {fit}": row.get(f"{fit}_of_others"),
    }


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
    terminal.rows("runs, with 95 % intervals", rows)
    from raters.evaluation.result import NAMES

    lines = [
        {"run": row["run"], "score": NAMES.get(row["score"], score)}
        | {"difference": _signed(row, "difference")}
        for row in found.differences
    ]
    terminal.rows(f"more than {found.runs[0].run}, paired", lines)


def _signed(row: Row, name: str) -> str | None:
    """Return a difference with its sign and interval; a rounded -0 is 0."""
    return None if row.get(name) is None else with_interval(row, name, "+z.3f")

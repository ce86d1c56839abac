"""What `raters evaluate` shows of trained runs: tables that fit a terminal."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import typer

from raters.cli.evaluate import show_summary
from raters.cli.failures import end_with_failures
from raters.cli.saying import say
from raters.cli.tables import MOST_ROWS, show_notes, show_rows, study_notes
from raters.study.study import many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from raters.cli.study_options import OpenStudy
    from raters.prediction.compare_runs import Comparison
    from raters.prediction.evaluate_result import RunScores
    from raters.rows import Row
    from raters.study.study import Study

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
}


def evaluate_runs(
    runs: Sequence[str],
    opened: OpenStudy,
    split: str,
    surfaces: bool,
    out: str,
    as_json: bool,
    cut: str = "0.5",
) -> None:
    """Score one run, or compare several."""
    from raters.training.run import refuse_no_model

    for run in runs:
        refuse_no_model(run)
    say("reading the study")
    study = opened()
    if out:
        _refuse_place(out, study, runs)
    say("loading the model" if len(runs) == 1 else "loading the models")
    from raters.prediction import compare_runs, evaluate_run
    from raters.rows import to_json

    progress = sys.stderr.isatty()
    result: RunScores | Comparison
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are shown below, loudly
        if len(runs) > 1:
            result = compare_runs(list(runs), study, split or None, surfaces, progress, cut)
        else:
            result = evaluate_run(runs[0], study, split or None, None, surfaces, progress, cut)
    _warn(result.warnings)
    if out:
        result.write(out)
    if as_json:
        typer.echo(to_json(result.to_dict()))
    else:
        from raters.prediction import Comparison

        if isinstance(result, Comparison):
            _show_comparison(result)
        else:
            _show_run(result, bool(out))
        show_notes([*result.notes, *study_notes(study)])
        if out:
            typer.echo(f"\ntables written: {out}")
    end_with_failures(result.failures, "could not be scored")


def _refuse_place(out: str, study: Study, runs: Sequence[str]) -> None:
    """Refuse to write over what is read, before anything is scored."""
    from raters.prediction.compare_runs import FILES as COMPARED
    from raters.prediction.evaluate_result import FILES
    from raters.study.places import Inputs

    written = FILES if len(runs) == 1 else COMPARED
    Inputs.of(study).and_of(Inputs.run(*runs)).refuse(out, written)


def _warn(texts: Sequence[str]) -> None:
    for text in texts:
        typer.secho(f"WARNING: {text}", err=True, fg="red", bold=True)


def _show_run(found: RunScores, written: bool) -> None:
    where = f", split {found.split}" if found.split else ""
    typer.echo(f"{found.run}: {found.method}, {many(found.scored, 'case')}{where}")
    show_summary(found.summary, written)
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
        typer.echo(f"\nerror of the matrices: {_with_interval(found.main, 'confusion_error')}")


def _cuts(rows: Sequence[Row]) -> list[Row]:
    """Name the columns as the options are; cuts stand behind their scores."""
    names = {"dice_half": "at 0.5", "dice_best": "at best", "dice_area": "at area"}
    names |= {"cut_best": "best cut", "cut_area": "area cut"}
    shown = [{k: v for k, v in row.items() if not k.endswith(("_low", "_high"))} for row in rows]
    return [{names.get(k, k): v for k, v in row.items()} for row in shown]


def _fit(found: RunScores) -> str:
    return "dice" if "dice" in found.as_rater[0] else "accuracy"


def _matrix(found: RunScores, which: int) -> list[Row]:
    score = ("log_likelihood", _fit(found))[which]
    table: dict[str, Row] = {}
    for row in found.as_rater:
        table.setdefault(row["as"], {"as": row["as"]})[row["against"]] = row[score]
    return list(table.values())


def _brief(row: Row) -> Row:
    """Keep the interval of the first score only."""
    first = next(name for name in row if f"{name}_low" in row)
    short: Row = {}
    for name, value in row.items():
        if not name.endswith(("_low", "_high")):
            short[name] = value
        if name == first:
            short["interval"] = _ends(row, first)
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
        short["interval"] = _ends(row, "score")
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


def _ends(row: Row, name: str) -> str | None:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return None if low is None else f"{low:.3f} to {high:.3f}"


def _with_interval(row: Row, name: str) -> str:
    ends = _ends(row, name)
    return f"{row[name]:.3f}" + (f" ({ends})" if ends else "")


def _signed(row: Row, name: str) -> str | None:
    value, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
    if value is None:
        return None
    ends = "" if low is None or high is None else f" ({_plus(low)} to {_plus(high)})"
    return f"{_plus(value)}{ends}"


def _plus(value: float) -> str:
    """Return a number with its sign; a rounded -0 plus 0 is 0."""
    return f"{round(value, 3) + 0.0:+.3f}"

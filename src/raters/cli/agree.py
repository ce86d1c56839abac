"""`raters agree`: how far raters agree, who differs from the rest, and on which cases."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.study_options import AsJson, OpenStudy, TablesOut, takes_study
from raters.cli.tables import (
    LEFT_OUT,
    MOST_ROWS,
    end_with_failures,
    go_on,
    show_notes,
    show_rows,
    study_notes,
)

if TYPE_CHECKING:
    from raters.agreement.agree import Agreement
    from raters.errors import RatersError
    from raters.rows import Row
    from raters.study.study import Study


@takes_study
def agree(
    opened: OpenStudy,
    out: TablesOut = "",
    surfaces: Annotated[
        bool, typer.Option("--surfaces", help="Also HD95 and surface distance (slower).")
    ] = False,
    maps: Annotated[
        str, typer.Option(help="Write a map of the labels' entropy for each case here.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show who agrees with whom, who differs from the rest, and the most disputed cases.

    raters agree "masks/{rater}/{case}.nii.gz" -o agreement/
    """
    from raters.agreement.agree import agree as compare
    from raters.rows import to_json
    from raters.study.places import Inputs

    study = opened()
    _refuse_places(study, out, maps)
    inputs = Inputs.of(study)

    def work(part: Study) -> tuple[Agreement, list[RatersError]]:
        result = compare(part, surfaces, progress=sys.stderr.isatty())
        result.inputs = inputs
        result.notes += study_notes(part)
        if out:
            result.write(out)
        return result, _write_maps(part, maps) if maps else []

    (result, without_map), failures = go_on(work, study, lambda case: case.given)
    if as_json:
        typer.echo(to_json(result.to_dict()))
    else:
        _show(result, out, study.anonymous)
    end_with_failures(failures, LEFT_OUT, "raters check lists all")
    end_with_failures(without_map, "got no map")


def _refuse_places(study: Study, out: str, maps: str) -> None:
    """Refuse to write over what is read, before anything is compared."""
    from raters.agreement.agree import FILES
    from raters.agreement.case import refuse_place
    from raters.study.places import Inputs

    if out:
        Inputs.of(study).refuse(out, FILES)
    if maps:
        refuse_place(study, maps)


def _write_maps(study: Study, folder: str) -> list[RatersError]:
    from raters.agreement.case import write_entropy_maps

    failures: list[RatersError] = []
    number = write_entropy_maps(study, folder, sys.stderr.isatty(), failures)
    typer.echo(f"{number:,} maps written: {folder}", err=True)
    return failures


def _show(result: Agreement, out: str, anonymous: bool = False) -> None:
    several = len({row["class"] for row in result.overall}) > 2
    show_rows("agreement", result.overall if several else result.overall[-1:])
    if not anonymous:  # rows of columns that are not people
        show_rows("pairs of raters", _of_all(result.pairs, several))
        show_rows("raters against the rest", _of_all(result.raters, several))
    show_rows("most disputed cases", _short(result.cases[:10]), total=len(result.cases))
    notes = list(result.notes)
    if several and not out:
        notes.append("pairs and raters by class: -o FOLDER or --json")
    show_notes(notes)
    if out:
        typer.echo(f"\ntables written: {out}")


def _of_all(rows: list[Row], several: bool) -> list[Row]:
    """Keep the rows over all classes; with one foreground class the two say the same."""
    kept = [row for row in rows if row.get("class", "all") == "all"]
    if len(kept) > MOST_ROWS:  # those that rest on most cases come first
        kept.sort(key=lambda row: -row["cases"])
    return [{k: v for k, v in row.items() if several or k != "class"} for row in kept]


def _short(rows: list[Row]) -> list[Row]:
    """Leave out what does not fit a terminal: groups that are the cases, 1 - Dice."""
    dull = {"disagreement"} | ({"group"} if all(r["group"] == r["case"] for r in rows) else set())
    return [{k: v for k, v in row.items() if k not in dull} for row in rows]

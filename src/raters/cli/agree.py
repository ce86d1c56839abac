"""`raters agree`: how far raters agree, who differs from the rest, and on which cases."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from raters.cli.study_options import AsJson, OpenStudy, TablesOut, takes_study
from raters.core.wording import many
from raters.views import terminal

if TYPE_CHECKING:
    from raters.assessment.agree import Agreement
    from raters.core.errors import RatersError
    from raters.io.rows import Row
    from raters.study.study import Study

_SURFACES = "Also HD95 and surface distance (slower)."
_MAPS = "Write a map of the labels' entropy for each case here."


@takes_study
def agree(
    opened: OpenStudy,
    out: TablesOut = "",
    surfaces: Annotated[bool, Option("--surfaces", help=_SURFACES)] = False,
    maps: Annotated[str, Option(help=_MAPS)] = "",
    as_json: AsJson = False,
) -> None:
    """Show who agrees with whom, who differs from the rest, and the most disputed cases.

    raters agree "masks/{rater}/{case}.nii.gz" -o agreement/
    """
    from raters.assessment.agree import agree as compare
    from raters.assessment.agree import refuse_place as refuse_tables
    from raters.assessment.agreement_case import refuse_place, write_entropy_maps
    from raters.study.places import Inputs

    study = opened()
    progress = sys.stderr.isatty()
    inputs = Inputs.of(study)
    if out:
        refuse_tables(inputs, out)
    if maps:
        refuse_place(study, maps)

    def work(part: Study) -> tuple[Agreement, list[RatersError]]:
        result = compare(part, surfaces=surfaces, progress=progress)
        result.inputs = inputs
        result.notes += part.all_notes()
        if out:
            result.write(out)
        without_map: list[RatersError] = []
        if maps:
            number = write_entropy_maps(part, maps, progress, without_map)
            typer.echo(f"{many(number, 'map')} written: {maps}", err=True)
        return result, without_map

    (result, without_map), failures = terminal.go_on(work, study, lambda case: case.given)
    if as_json:
        terminal.json(result.to_dict())
    else:
        _show(result, out, study.anonymous)
    terminal.end_with_unreadable(failures)
    terminal.end_with_failures(without_map, "got no map")


def _show(result: Agreement, out: str, anonymous: bool = False) -> None:
    several = len({row["class"] for row in result.overall}) > 2
    terminal.rows("agreement", result.overall if several else result.overall[-1:])
    if not anonymous:  # rows of columns that are not people
        terminal.rows("pairs of raters", _of_all(result.pairs, several))
        terminal.rows("raters against the rest", _of_all(result.raters, several))
    # Without what does not fit a terminal: groups that are the cases, 1 - Dice.
    first = result.cases[:10]
    alone = all(row["group"] == row["case"] for row in first)
    first = terminal.without(("disagreement", "group") if alone else ("disagreement",), first)
    terminal.rows("most disputed cases", first, total=len(result.cases))
    notes = list(result.notes)
    if several and not out:
        notes.append("pairs and raters by class: -o FOLDER or --json")
    terminal.notes(notes)
    if out:
        typer.echo(f"\ntables written: {out}")


def _of_all(rows: list[Row], several: bool) -> list[Row]:
    """Keep the rows over all classes; with one foreground class the two say the same."""
    kept = [row for row in rows if row.get("class", "all") == "all"]
    if len(kept) > terminal.MOST_ROWS:  # those that rest on most cases come first
        kept.sort(key=lambda row: -row["cases"])
    return kept if several else terminal.without(("class",), kept)

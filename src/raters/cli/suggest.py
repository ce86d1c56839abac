"""`raters suggest`: the images and patches where more drawing would gain most."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.study_options import AsJson, OpenStudy, TablesOut, takes_study, whole_numbers
from raters.cli.tables import end_with_failures, say, show_rows

if TYPE_CHECKING:
    from raters.prediction.suggest import Suggestions
    from raters.study.study import Study
    from raters.training.model import Model


@takes_study
def suggest(
    opened: OpenStudy,
    run: Annotated[str, typer.Argument(help="Folder of a trained model.", metavar="RUN")],
    out: TablesOut = "",
    num_cases: Annotated[int, typer.Option(help="How many images to list.", min=0)] = 20,
    num_patches: Annotated[int, typer.Option(help="How many patches to list.", min=0)] = 20,
    patch_size: Annotated[
        str, typer.Option(help="Sides of a patch: 64,64. By default a quarter of the image.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the images and patches where one more drawing would tell most of the truth.

    raters suggest run/ "unlabelled/{case}.png" -o next/

    STUDY may be images alone, or a study whose labels are counted in.
    """
    from raters.rows import to_json
    from raters.training.run import refuse_no_model

    size = whole_numbers("--patch-size", patch_size, "64,64") or None
    refuse_no_model(run)
    say("loading the model")
    import raters
    from raters.prediction.suggest import FILES
    from raters.prediction.suggest import suggest as rank
    from raters.study.places import Inputs

    model = raters.load(run)
    study = _study(opened, model)
    if out:
        Inputs.run(run).refuse(out)
        Inputs.of(study).refuse(out, FILES)
    found = rank(model, study, num_cases, num_patches, size, sys.stderr.isatty())
    if out:
        found.write(out)
        found.draw(model, study, out)
    if as_json:
        typer.echo(to_json(found.to_dict()))
    else:
        _show(found, out)
    end_with_failures(found.failures, "could not be looked at", "--json lists all")


def _study(opened: OpenStudy, model: Model) -> Study:
    """Open a study with its labels, or images alone."""
    from raters.prediction.images import open_images
    from raters.study.pattern import is_pattern
    from raters.study.study_file import STUDY_FILE

    assert isinstance(opened, partial)  # made by `takes_study`
    source = opened.keywords["study"]
    folder = Path(source).is_dir() and not (Path(source) / STUDY_FILE).exists()
    if folder or (is_pattern(source) and "{rater}" not in source):
        return open_images(source, model.config)
    study: Study = opened()
    return study


def _show(found: Suggestions, out: str) -> None:
    alone = all(row["group"] == row["case"] for row in found.cases)
    for title, rows in (("images", found.cases), ("patches", found.patches)):
        dull = {"group"} if alone else set()
        show_rows(title, [{k: v for k, v in row.items() if k not in dull} for row in rows])
    if out:
        typer.echo(f"\ntables and pictures written: {out}")

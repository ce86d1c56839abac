"""`raters predict`, `suggest` and `export`: what a trained model says of images, and itself."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument, Option

from raters.cli.study_options import (
    SELDOM,
    AsJson,
    OpenStudy,
    Out,
    TablesOut,
    takes_study,
    whole_numbers,
)
from raters.core.errors import RatersError
from raters.core.wording import file_size, many
from raters.views import terminal

if TYPE_CHECKING:
    from raters.learning.prediction.predict_study import PredictResult
    from raters.learning.training.model import Model
    from raters.planning.suggest import Suggestions
    from raters.study.study import Study

_IMAGES = (
    "Image, folder, pattern with {case}, study, manifest (CSV: case, image); for features an "
    "array (.npy) or a table (.csv)."
)
_PROBABILITIES = "Also the probability of each class."
_ENTROPY = "Also a map of the uncertainty, in bits."
_AS_RATER = "Also what this rater would draw; can be repeated."
_CONFUSION = "Also the matrices of all raters."
_SAMPLES = "Also this many samples of the labels, of methods that give samples."
_WEIGHTS = (
    "How much each rater counts in the truth, of methods that take weights: alice=0.7,bob=0.3."
)
_RECURRENCES = "Also the labels of each recurrence and the trust in each rater, of prism."
_CUT = (
    "Foreground is where its probability is above this: a number; area (predicts as much as "
    "raters draw on average) or area-drawn (without blank masks); best (chosen on held-out "
    "cases with a reference); or by class: 2=0.3,3=area."
)


def predict(
    run: Annotated[str, Argument(help="Folder of a trained model.", metavar="RUN")],
    images: Annotated[str, Argument(help=_IMAGES, metavar="IMAGES")],
    out: Out,
    probabilities: Annotated[bool, Option("--probabilities", help=_PROBABILITIES)] = False,
    entropy: Annotated[bool, Option("--entropy", help=_ENTROPY)] = False,
    as_rater: Annotated[list[str] | None, Option("--as-rater", help=_AS_RATER)] = None,
    confusion: Annotated[
        bool, Option("--confusion", help=_CONFUSION, rich_help_panel=SELDOM)
    ] = False,
    samples: Annotated[int, Option(help=_SAMPLES, rich_help_panel=SELDOM)] = 0,
    seed: Annotated[
        int, Option(help="Where the randomness of samples starts.", rich_help_panel=SELDOM)
    ] = 0,
    weights: Annotated[
        str | None, Option(help=_WEIGHTS, show_default=False, rich_help_panel=SELDOM)
    ] = None,
    recurrences: Annotated[
        bool, Option("--recurrences", help=_RECURRENCES, rich_help_panel=SELDOM)
    ] = False,
    cut: Annotated[str, Option(help=_CUT)] = "0.5",
    overlap: Annotated[
        float, Option(help="Overlap of neighbouring windows (a share).", rich_help_panel=SELDOM)
    ] = 0.25,
    device: Annotated[
        str, Option(help="auto, cpu, cuda, cuda:1 or mps.", rich_help_panel=SELDOM)
    ] = "auto",
    overwrite: Annotated[
        bool, Option(help="Predict all cases again.", rich_help_panel=SELDOM)
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Predict the consensus for images; called again, finished cases are skipped.

    raters predict run/ "images/{case}.nii.gz" -o predictions/ --entropy
    """
    from raters.study.places import Inputs

    began = time.perf_counter()
    # All that is below a plain folder is read: predictions in it would be read the next time.
    Inputs.named(images).and_of(Inputs.run(run)).refuse(out)
    model = terminal.loaded(run)
    from raters.learning.prediction.images import open_images
    from raters.learning.prediction.predict_study import predict_study
    from raters.learning.prediction.writing import Outputs

    outputs = Outputs(
        probabilities,
        entropy,
        tuple(dict.fromkeys(as_rater or [])),
        confusion,
        overlap,
        cut,
        samples,
        seed,
        weights,
        recurrences,
    )
    study = open_images(images, model.config)
    _move(model, device)
    result = predict_study(
        model, study, out, outputs, overwrite=overwrite, progress=sys.stderr.isatty()
    )
    _report(result, as_json, time.perf_counter() - began)


def _move(model: Model, device: str) -> None:
    """Put a model where it is to run."""
    import torch

    best = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        model.method.to(torch.device(best if device == "auto" else device))
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise RatersError(
            f"--device: found {device!r}, which cannot be used here ({why}); expected 'cpu' or "
            "'auto'"
        ) from None


def _report(result: PredictResult, as_json: bool, whole: float) -> None:
    """Print what was done, and how fast: without what it took to load the model."""
    facts = result.to_dict()
    cases = many(result.written, "case")
    if as_json:
        terminal.json({**facts, "whole_seconds": whole})
    else:
        terminal.notes(result.notes)
        there = terminal.there_already(result.skipped)
        typer.echo(f"{cases} predicted{there}: {result.folder}")
        if result.written:
            pixels = f", {facts['megapixels_per_second']:.3g} megapixels/s"
            speed = f"{facts['cases_per_second']:.3g} cases/s"
            speed += pixels if result.pixels > result.written else ""
            typer.echo(f"{cases} in {result.seconds:.1f} s ({speed}); {whole:.1f} s in all")
    terminal.end_with_failures(result.failures, "could not be predicted", "--json lists all")


_PATCH_SIZE = "Sides of a patch: 64,64. By default a quarter of the image."


@takes_study
def suggest(
    opened: OpenStudy,
    run: Annotated[str, Argument(help="Folder of a trained model.", metavar="RUN")],
    out: TablesOut = "",
    num_cases: Annotated[int, Option(help="How many images to list.", min=0)] = 20,
    num_patches: Annotated[int, Option(help="How many patches to list.", min=0)] = 20,
    patch_size: Annotated[str, Option(help=_PATCH_SIZE)] = "",
    as_json: AsJson = False,
) -> None:
    """List the images and patches where one more drawing would tell most of the truth.

    raters suggest run/ "unlabelled/{case}.png" -o next/

    STUDY may be images alone, or a study whose labels are counted in.
    """
    size = whole_numbers("--patch-size", patch_size, "64,64") or None
    model = terminal.loaded(run)
    from raters.planning.suggest import refuse_place
    from raters.planning.suggest import suggest as rank
    from raters.study.places import Inputs

    study = _study(opened, model)
    if out:
        Inputs.run(run).refuse(out)
        refuse_place(Inputs.of(study), out)
    found = rank(model, study, num_cases, num_patches, size, progress=sys.stderr.isatty())
    if out:
        found.write(out)
        found.draw(model, study, out)
    if as_json:
        terminal.json(found.to_dict())
    else:
        _show(found, out)
    terminal.end_with_failures(found.failures, "could not be looked at", "--json lists all")


def _study(opened: OpenStudy, model: Model) -> Study:
    """Open a study with its labels, or images alone."""
    from raters.learning.prediction.images import open_images
    from raters.study.pattern import is_pattern
    from raters.study.study_file import STUDY_FILE

    source = opened.given["study"]
    folder = Path(source).is_dir() and not (Path(source) / STUDY_FILE).exists()
    if folder or (is_pattern(source) and "{rater}" not in source):
        return open_images(source, model.config)
    return opened()


def _show(found: Suggestions, out: str) -> None:
    alone = all(row["group"] == row["case"] for row in found.cases)
    for title, rows in (("images", found.cases), ("patches", found.patches)):
        terminal.rows(title, terminal.without(("group",), rows) if alone else rows)
    if out:
        typer.echo(f"\ntables and pictures written: {out}")


_MODEL = "The folder of a model."
_OUT = "The file (.onnx, .pt2) or folder to write; it must not exist yet."
_NORMALISE = (
    "auto, inside or outside: whether the normalisation of images becomes part of the network. "
    "auto: inside where possible."
)


def export(
    model: Annotated[str, Argument(metavar="RUN", help=_MODEL, show_default=False)],
    to: Annotated[str, Option("--to", help="onnx, torch or monai-bundle.", show_default=False)],
    out: Annotated[str, Option("-o", "--out", help=_OUT, show_default=False)],
    normalise: Annotated[str, Option(help=_NORMALISE)] = "auto",
) -> None:
    """Export a model's network for use without raters, and compare the two.

    Images of any size go in, the probability of each class comes out.

    raters export run/ --to onnx -o model.onnx
    """
    from raters.learning.training.run import refuse_no_model

    refuse_no_model(model)
    terminal.say("loading the model")
    from raters.learning.export.run import export as export_model

    done = export_model(model, to, out, normalise=cast(Any, normalise))
    for name, size in done.files.items():
        where = done.path if done.path.name == name else done.path / name
        typer.echo(f"{where}: {file_size(size)}")
    for line in done.described():
        terminal.text(line)

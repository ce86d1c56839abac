"""`raters predict`: what a trained model says of images, as files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from raters.cli.study_options import Out
from raters.cli.tables import end_with_failures, say, show_notes
from raters.errors import RatersError
from raters.wording import many

if TYPE_CHECKING:
    from raters.prediction.predict_study import PredictResult
    from raters.training.model import Model


def predict(
    run: Annotated[str, typer.Argument(help="Folder of a trained model.", metavar="RUN")],
    images: Annotated[
        str,
        typer.Argument(
            help="Image, folder, pattern with {case}, study, manifest (CSV: case, image); for "
            "features an array (.npy) or a table (.csv).",
            metavar="IMAGES",
        ),
    ],
    out: Out,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also the probability of each class.")
    ] = False,
    entropy: Annotated[
        bool, typer.Option("--entropy", help="Also a map of the uncertainty, in bits.")
    ] = False,
    as_rater: Annotated[
        list[str] | None,
        typer.Option("--as-rater", help="Also what this rater would draw; can be repeated."),
    ] = None,
    confusion: Annotated[
        bool, typer.Option("--confusion", help="Also the matrices of all raters.")
    ] = False,
    samples: Annotated[
        int,
        typer.Option(help="Also this many samples of the labels, of methods that give samples."),
    ] = 0,
    seed: Annotated[int, typer.Option(help="Where the randomness of samples starts.")] = 0,
    weights: Annotated[
        str | None,
        typer.Option(
            help="How much each rater counts in the truth, of methods that take weights: "
            "alice=0.7,bob=0.3.",
            show_default=False,
        ),
    ] = None,
    recurrences: Annotated[
        bool,
        typer.Option(
            "--recurrences",
            help="Also the labels of each recurrence and the trust in each rater, of prism.",
        ),
    ] = False,
    cut: Annotated[
        str,
        typer.Option(
            help="Foreground is where its probability is above this: a number; area (predicts as "
            "much as raters draw on average) or area-drawn (without blank masks); best (chosen on "
            "held-out cases with a reference); or by class: 2=0.3,3=area."
        ),
    ] = "0.5",
    overlap: Annotated[
        float, typer.Option(help="Overlap of neighbouring windows (a share).")
    ] = 0.25,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    overwrite: Annotated[bool, typer.Option(help="Predict all cases again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Predict the consensus for images; called again, finished cases are skipped.

    raters predict run/ "images/{case}.nii.gz" -o predictions/ --entropy
    """
    from raters.study.places import Inputs
    from raters.training.run import refuse_no_model

    began = time.perf_counter()
    # All that is below a plain folder is read: predictions in it would be read the next time.
    Inputs.named(images).and_of(Inputs.run(run)).refuse(out)
    refuse_no_model(run)
    say("loading the model")
    import raters
    from raters.prediction.images import open_images
    from raters.prediction.predict_study import predict_study
    from raters.prediction.writing import Outputs

    model = raters.load(run)
    outputs = Outputs(
        probabilities, entropy, tuple(dict.fromkeys(as_rater or [])), confusion, overlap, cut,
        samples, seed, weights, recurrences,
    )  # fmt: skip
    study = open_images(images, model.config)
    _move(model, device)
    result = predict_study(model, study, out, outputs, overwrite, sys.stderr.isatty())
    _report(result, as_json, time.perf_counter() - began)


def _move(model: Model, device: str) -> None:
    """Put a model where it is to run."""
    import torch

    wanted = device
    if device == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        model.method.to(torch.device(wanted))
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise RatersError(
            f"--device: found {device!r}, which cannot be used here ({why}); expected 'cpu' or "
            "'auto'"
        ) from None


def _report(result: PredictResult, as_json: bool, whole: float) -> None:
    """Return what was done, and how fast: without what it took to load the model."""
    from raters.rows import to_json

    if as_json:
        typer.echo(to_json({**result.to_dict(), "whole_seconds": whole}))
    else:
        show_notes(result.notes)
        there = f", {result.skipped:,} there already" if result.skipped else ""
        typer.echo(f"{many(result.written, 'case')} predicted{there}: {result.folder}")
        facts = result.to_dict()
        if result.written:
            pixels = facts["megapixels_per_second"]
            speed = f"{facts['cases_per_second']:.3g} cases/s"
            speed += f", {pixels:.3g} megapixels/s" if result.pixels > result.written else ""
            cases = many(result.written, "case")
            typer.echo(f"{cases} in {result.seconds:.1f} s ({speed}); {whole:.1f} s in all")
    end_with_failures(result.failures, "could not be predicted", "--json lists all")

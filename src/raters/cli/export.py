"""`raters export`: a model for use without raters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from raters.cli.tables import say, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from raters.export.run import Exported

_MOST_CHANNELS = 4  # whose mean and std are printed


def export(
    model: Annotated[
        str, typer.Argument(metavar="RUN", help="The folder of a model.", show_default=False)
    ],
    to: Annotated[
        str, typer.Option("--to", help="onnx, torch or monai-bundle.", show_default=False)
    ],
    out: Annotated[
        str,
        typer.Option(
            "-o",
            "--out",
            help="The file (.onnx, .pt2) or folder to write; it must not exist yet.",
            show_default=False,
        ),
    ],
    normalise: Annotated[
        str,
        typer.Option(
            help="auto, inside or outside: whether the normalisation of images becomes part of "
            "the network. auto: inside where possible."
        ),
    ] = "auto",
) -> None:
    """Export a model's network for use without raters, and compare the two.

    Images of any size go in, the probability of each class comes out.

    raters export run/ --to onnx -o model.onnx
    """
    from raters.training.run import refuse_no_model

    refuse_no_model(model)
    say("loading the model")
    from raters.export.run import export as export_model

    _show(export_model(model, to, out, normalise=cast(Any, normalise)))


def _show(done: Exported) -> None:
    for name, size in done.files.items():
        where = done.path if done.path.name == name else done.path / name
        typer.echo(f"{where}: {_bytes(size)}")
    needs = done.metadata["input"]
    bundle = done.format == "monai-bundle"
    lines = [f"input: {needs['name']} ({needs['meaning']})"] if not bundle else []
    lines.append(f"normalisation: {_normalisation(done.metadata['normalisation'], bundle)}")
    if done.metadata["patch_size"]:
        lines.append(f"windows: {done.metadata['windows']}")
    if done.difference is None:
        lines.append("not compared with the model: found no onnxruntime, expected it for that")
    else:
        lines.append(
            f"largest difference from the model's own probabilities: {done.difference:.1e}"
        )
    for line in lines:
        typer.echo(wrapped(line))


def _normalisation(facts: Mapping[str, Any], bundle: bool) -> str:
    """Report who normalises images: the user has to know what is left to do.

    Example:
        >>> _normalisation({"mode": "study", "inside": False, "mean": [0.5], "std": [0.25]}, False)
        'outside, do it first: (image - mean) / std with mean 0.5 and std 0.25, per channel'
    """
    if bundle:
        return "done by the bundle (configs/inference.json): give it the files as they are"
    if facts["mode"] == "none":
        return "none: give the values of the files"
    if facts["inside"]:
        whole = ", and whole images, not windows" if facts["mode"] == "case" else ""
        return f"inside the network, nothing is to be done: give the values of the files{whole}"
    if facts["mode"] == "case":
        own = "mean and std each image's own, a channel at a time"
        return f"outside, do it first: (image - mean) / std, {own}; 0 where std is 0"
    mean, std = (", ".join(f"{value:.6g}" for value in facts[name]) for name in ("mean", "std"))
    if len(facts["mean"]) > _MOST_CHANNELS:
        mean, std = (f"normalisation.{name} of the metadata" for name in ("mean", "std"))
    rule = f"(image - mean) / std with mean {mean} and std {std}"
    return f"outside, do it first: {rule}, per channel"


def _bytes(size: int) -> str:
    """Return a size as people say it.

    Example:
        >>> _bytes(512), _bytes(2_340_000)
        ('1 kB', '2.3 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(round(size / 1e3), 1)} kB"

"""`raters demo`: a small drawn study is written, checked, compared, scored and imported."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[str, typer.Option("-o", "--out", help="The folder to write.")] = "demo",
) -> None:
    """Draw a small study of lesions with three raters who err differently, and look at it.

    Every line that it prints after a $ can be run alone.
    """
    from raters.demo import draw_study

    folder = Path(out)
    typer.echo(f"drawing 24 cases by three raters into {folder}")
    draw_study(folder)
    masks, images = f"{folder}/masks/{{rater}}/{{case}}.png", f"{folder}/images/{{case}}.png"
    reference = f"{folder}/truth/{{case}}.png"
    options = [masks, "--images", images, "--reference", reference]
    _run(["check", *options])
    _run(["agree", masks])
    for method in ("vote", "staple"):
        _run(["fuse", masks, "-m", method, "-o", f"{folder}/{method}", "--overwrite"])
        _run(["evaluate", f"{folder}/{method}", masks, "--reference", reference])
    _run(["import", *options, "-o", f"{folder}/study", "--new-split", "train=.7,test=.3"])
    _run(["check", f"{folder}/study", "--split", "test"])


def _run(arguments: list[str]) -> None:
    """Show a command as a user would type it, and run it."""
    from raters.cli import app

    typer.secho(f"\n$ raters {' '.join(_quoted(a) for a in arguments)}", bold=True)
    app(arguments, standalone_mode=False)


def _quoted(argument: str) -> str:
    return f'"{argument}"' if "{" in argument else shlex.quote(argument)

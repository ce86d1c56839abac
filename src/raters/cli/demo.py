"""`raters demo`: drawn data, and the whole way from raters' masks to a network and a report."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from raters.core.errors import RatersError
from raters.views import terminal

if TYPE_CHECKING:
    from raters.demo.story import Step, Story

_STOPPED = 130

_MNIST = "With --digits: the folder of MNIST's files; else they are fetched."
_OUT = r"The folder to write \[default: demo, demo-quick or demo-digits]."
_QUICK = (
    "About a minute: fewer and smaller images, shorter trainings, no spatial-staple; the numbers "
    "are rougher."
)
_DRAW = "Only draw a small study, by three raters."
_DIGITS = "Handwritten digits instead of lesions."


def demo(
    mnist: Annotated[str, Argument(help=_MNIST, metavar="[MNIST_FOLDER]", show_default=False)] = "",
    out: Annotated[str, Option("-o", "--out", help=_OUT, show_default=False)] = "",
    quick: Annotated[bool, Option("--quick", help=_QUICK)] = False,
    draw: Annotated[bool, Option("--draw", help=_DRAW)] = False,
    digits: Annotated[bool, Option("--digits", help=_DIGITS)] = False,
) -> None:
    """Draw a study by five raters who err, fuse, train on one label per image, report.

    Every line that it prints after a $ can be run alone. Called again, it resumes where it
    stopped: what is drawn, fused and trained is not done again.

    raters demo

    raters demo --quick

    raters demo --draw -o .

    raters demo --digits mnist/
    """
    asked = {"--quick": quick, "--draw": draw, "--digits": digits}
    given = [name for name, wanted in asked.items() if wanted]
    if mnist and not digits:
        raise RatersError(f"found the folder {mnist!r}, expected it after --digits only")
    if len(given) > 1:
        raise RatersError(f"found {' together with '.join(given)}, expected one of them")
    from raters.demo import story
    from raters.demo.draw import CASES, draw_study

    if draw:
        draw_study(Path(out or "demo"))
        typer.echo(f"{CASES} cases by three raters: {Path(out or 'demo')}")
    elif digits:
        tell(story.DIGITS, Path(out or "demo-digits"), mnist)
    elif quick:
        tell(story.QUICK, Path(out or "demo-quick"))
    else:
        tell(story.LESIONS, Path(out or "demo"))


def tell(story: Story, folder: Path, mnist: str = "") -> None:
    """Draw the data of a story and run its commands in its folder."""
    from raters.demo.draw import draw_story
    from raters.demo.story import NETWORKS_REPORT, REPORT, refuse_without_training, steps

    refuse_without_training()
    start = time.monotonic()
    typer.echo(f"this takes {story.takes} on two cores")
    number = draw_story(story, folder, mnist, sys.stderr.isatty())
    done = f"{number:,} drawn" if number else "all there already"
    typer.echo(f"{story.train + story.test:,} images of {story.kind} in {folder}: {done}")
    typer.echo(f"raters: {story.raters}")
    typer.echo(f"{story.train:,} have one label each, {story.test} for testing have all five")
    if folder.resolve() != Path.cwd():
        typer.secho(f"\n$ cd {shlex.quote(str(folder))}", bold=True)
    with contextlib.chdir(folder), _threads(story):
        for step in steps(story):
            _run(step)
        _show_results(story.fused)
    minutes = (time.monotonic() - start) / 60
    typer.echo(f"\n{minutes:.1f} minutes in all")
    typer.echo(f"what the network learnt: {folder / NETWORKS_REPORT}")
    typer.echo(f"look at {folder / REPORT}")


def _threads(story: Story) -> contextlib.AbstractContextManager[None]:
    if not story.one_thread:
        return contextlib.nullcontext()
    from raters.learning.training.threads import one_thread

    return one_thread()


def _run(step: Step) -> None:
    """Show a command as a user would type it, and run it; an existing run is resumed."""
    from raters.cli import app
    from raters.demo.story import line
    from raters.learning.training.run import holds_run

    arguments = list(step.arguments)
    if step.run and holds_run(Path(step.run)):
        arguments.append("--resume")
    if step.why:
        typer.echo(f"\n{step.why}")
    typer.secho(f"{'' if step.why else chr(10)}$ {line(tuple(arguments))}", bold=True)
    before = sys.argv
    sys.argv = ["raters", *arguments]  # what `raters train` names to resume with
    try:
        code = app(arguments, standalone_mode=False)
    finally:
        sys.argv = before
    if code:
        if code == _STOPPED:
            typer.echo("the demo resumes from here when it is called again", err=True)
        raise typer.Exit(code)


def _show_results(fused: tuple[str, ...]) -> None:
    from raters.demo.story import LAST_WORDS, gain, rater_rows, results, sentence

    rows = results(Path(), fused)
    terminal.rows("Dice against the truth, test images; networks at 0.5 and at other cuts", rows)
    typer.echo(sentence(rows, gain(Path())))
    terminal.rows("What pixel-cm knows of each rater", rater_rows(Path()))
    typer.echo(LAST_WORDS)

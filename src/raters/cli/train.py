"""`raters train`: a model of the truth and of the raters, in a run folder."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from raters.cli.saying import say, wrapped
from raters.cli.study_options import OpenStudy, described, takes_study
from raters.cli.tables import show_notes, study_notes
from raters.cli.train_early import (
    asked,
    refuse_extension,
    refuse_no_images,
    refuse_place,
    refuse_used,
)
from raters.cli.train_extend import extend_run
from raters.cli.train_report import report, stopped_message, told
from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model

STOPPED = 130
"""The exit code after Ctrl-C."""


def train(
    opened: OpenStudy,
    options: dict[str, Any],
    out: Annotated[
        str, typer.Option("-o", "--out", help="The run folder to write.", show_default=False)
    ] = "",
    method: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-m",
            "--method",
            help=r"How to learn, see `raters methods` \[default: pixel-cm].",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            help="YAML with method, options and training, such as config.yaml of a run; "
            "options on the command line override the file.",
            metavar="FILE.yaml",
        ),
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the folder.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the plan with estimated time and memory."),
    ] = False,
    extend: Annotated[
        str,
        typer.Option(
            "--extend", help="Add the study's new raters to this trained run.", metavar="RUN"
        ),
    ] = "",
) -> None:
    """Train a network that predicts the consensus, and a model of each rater.

    Cases of the split 'train' are trained on, those of 'val' choose the best
    epoch (without splits, a share is held out); 'test' is never touched.
    Ctrl-C stops, --resume continues.

    raters train "masks/{rater}/{case}.png" --images "images/{case}.png" -o run/
    """
    from raters.study.lock import only_one
    from raters.study.places import RUN_FILES, Inputs
    from raters.training.run import first_process

    if not out and not dry_run:
        raise RatersError("--out: found no folder, expected one to write the run to: -o run/")
    with _plain_warnings(), _stoppable(dry_run or bool(extend)):
        if extend:
            refuse_extension(
                extend, out, method=method, config=config, resume=resume, dry_run=dry_run
            )
            say("reading the study")
            study = opened()
            Inputs.of(study).and_of(Inputs.run(extend)).refuse(out, RUN_FILES)
            with only_one(out) if first_process() else nullcontext():
                refuse_used(out)
                extend_run(study, extend, out, options, _words(opened))
                _remember(out, opened)
            return
        method, options, notes = asked(method, config, options, resume)
        if dry_run:
            refuse_place(out, resume=True)
        else:
            refuse_place(out, resume, method, options)
        say("reading the study")
        study = opened()
        refuse_no_images(study)
        if not dry_run:
            Inputs.of(study).refuse(out, RUN_FILES)
        for note in notes:
            typer.echo(wrapped(f"note: {note}"))
        notes = study_notes(study)
        if dry_run:
            _estimate(study, method, options, notes)
            return
        show_notes([*notes, *_left_out(study, method, options)])
        with _remembered(out, opened):
            model = _fitted(study, method, out, resume, options)
        report(model, out, _words(opened), study)


def _words(opened: OpenStudy) -> dict[str, Any]:
    """Return the words of the command line that name the study."""
    found: dict[str, Any] = opened.keywords  # type: ignore[attr-defined]
    return found


def listed() -> None:
    """Train a network that predicts the consensus, and a model of each rater."""


def command() -> Any:  # noqa: ANN401
    """Make the command with all its options, from the pydantic classes."""
    from raters.cli.study_options import open_study
    from raters.cli.train_options import train_options
    from raters.cli.typed_options import names_of, with_options

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    verb = with_options(train, train_options(), names_of(open_study))
    settings = {"help_option_names": ["-h", "--help"]}
    app.command("train", context_settings=settings)(takes_study(verb))
    return typer.main.get_command(app)


def _fitted(
    study: Study, method: str | None, out: str, resume: bool, options: dict[str, Any]
) -> Model:
    say("loading torch")
    import raters

    return raters.fit(study, method, progress=told(), folder=out, resume=resume, **options)


def _remember(out: str, opened: OpenStudy) -> None:
    """Write into the run which study it learned from, so that `raters report` finds it."""
    from raters.study.remember import remember_study
    from raters.training.run import holds_run

    if holds_run(Path(out)):
        remember_study(out, described(opened))


@contextmanager
def _remembered(out: str, opened: OpenStudy) -> Iterator[None]:
    """Remember the study, also of a new run that is stopped.

    A run that was there before keeps what it remembers if it refuses this study.
    """
    from raters.training.run import holds_run

    before = holds_run(Path(out))
    try:
        yield
    except BaseException as error:
        # A folder that this run was refused is another's.
        if not before and getattr(error, "kind", "") not in ("locked", "exists"):
            with suppress(OSError):  # a full disk: what stopped the run says more
                _remember(out, opened)
        raise
    _remember(out, opened)


def _left_out(study: Study, method: str | None, options: dict[str, Any]) -> list[str]:
    import numpy as np

    from raters.training.checks import left_out_note
    from raters.training.given import checked_options
    from raters.training.partition import left_out, partition

    if method is None:
        return []  # said when the run began
    training = checked_options(method, options)[1]
    parts = partition(study, training.val_fraction, training.seed, method)
    return left_out_note(left_out(study, study.index.ids[np.concatenate(parts)]), method)


def _estimate(study: Study, method: str | None, options: dict[str, Any], notes: list[str]) -> None:
    say("loading torch")
    from raters.cli.tables import show_rows
    from raters.training.estimate import estimate
    from raters.training.options import DEFAULT_METHOD

    found = estimate(study, method or DEFAULT_METHOD, **options)
    show_rows("what would be trained", [{"": k, "found": v} for k, v in found.described().items()])
    show_notes([*notes, *found.notes, "nothing was written"])


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as sentences, without the line of code that they come from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def _stoppable(nothing_kept: bool) -> Iterator[None]:
    """Report how to resume after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\n{stopped_message(sys.argv, nothing_kept)}", err=True)
        raise typer.Exit(STOPPED) from None

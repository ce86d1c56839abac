"""The command line: `raters VERB ...`, one file a verb."""

from __future__ import annotations

import io
import sys

import typer

from raters.cli.agree import agree
from raters.cli.check import check
from raters.cli.demo import demo
from raters.cli.evaluate import evaluate
from raters.cli.fuse import fuse
from raters.cli.import_ import import_
from raters.cli.prepare import prepare
from raters.cli.simulate import simulate
from raters.errors import RatersError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check")(check)
app.command("import")(import_)
app.command("prepare")(prepare)
app.command("simulate")(simulate)
app.command("agree")(agree)
app.command("fuse")(fuse)
app.command("evaluate")(evaluate)
app.command("demo")(demo)

_STOPPED = 130


def _version(wanted: bool) -> None:
    if wanted:
        from raters.version import __version__

        typer.echo(f"raters {__version__}")
        raise typer.Exit


@app.callback()
def raters(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Learn from raters who disagree: what is true, and how far each rater can be trusted.

    STUDY is a quoted pattern ("masks/{rater}/{case}.nii.gz"), a folder written by raters, a
    manifest (CSV: case, rater, mask, image) or a table of class labels (CSV: task, worker, label).

    Start with:  raters check "masks/{rater}/{case}.nii.gz" --images "images/{case}.nii.gz"
    """


def main() -> None:
    """Run a verb; what users can act on ends with one clear message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold what it cannot show
    try:
        app()
    except RatersError as error:
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except SystemExit as end:
        if end.code == _STOPPED:  # Typer makes this of Ctrl-C
            sys.stderr.write("\nstopped: an import goes on from here when it is called again\n")
        raise


def _fail(message: str) -> None:
    sys.stderr.write(f"error: {message}\n")
    sys.exit(2)

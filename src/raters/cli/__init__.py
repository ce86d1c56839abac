"""The command line: `raters VERB ...`, one file per verb."""

from __future__ import annotations

import atexit
import gc
import io
import os
import shlex
import sys
from typing import Any

import typer
from typer import Option
from typer.core import TyperGroup

from raters.cli.agree import agree
from raters.cli.check import check
from raters.cli.demo import demo
from raters.cli.evaluate import evaluate
from raters.cli.fuse import fuse
from raters.cli.help import with_help
from raters.cli.import_ import import_, prepare
from raters.cli.methods import methods
from raters.cli.predict import export, predict, suggest
from raters.cli.report import report
from raters.cli.simulate import simulate
from raters.cli.study_options import takes_network
from raters.cli.train import command as train_command
from raters.cli.train import listed, stopped_message
from raters.cli.verbs import Verb, command_of, installed_verbs
from raters.core.errors import RatersError, training_missing
from raters.core.wording import printable


class Verbs(TyperGroup):
    """Makes `train`, with its many options, and looks for installed verbs only where needed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Return the names of all verbs."""
        self._add_installed_verbs()
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Find the verb that the command line names."""
        if args[0] not in self.commands:
            self._add_installed_verbs()

        name, command, arguments = super().resolve_command(ctx, args)
        if name == "train":
            command = train_command()
        return name, command, arguments

    def _add_installed_verbs(self) -> None:
        for name, verb in installed_verbs().items():
            self.commands.setdefault(name, command_of(name, verb))


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_VERBS: dict[str, Verb] = {
    "check": Verb(check, "Data"),
    "import": Verb(import_, "Data", resumes=True),
    "prepare": Verb(prepare, "Data", resumes=True),
    "simulate": Verb(simulate, "Data", resumes=True),
    "agree": Verb(agree, "Analyse"),
    "fuse": Verb(fuse, "Analyse", resumes=True),
    "methods": Verb(methods, "Train"),
    "train": Verb(listed, "Train", resumes=True),
    "predict": Verb(takes_network(predict), "Train", resumes=True),
    "evaluate": Verb(takes_network(evaluate), "Train"),
    "suggest": Verb(takes_network(suggest), "Train"),
    "report": Verb(takes_network(report), "Share"),
    "export": Verb(takes_network(export), "Share"),
    "demo": Verb(demo, "Share", resumes=True),
}
for _name, _verb in _VERBS.items():
    app.command(_name, rich_help_panel=_verb.panel)(_verb.command)
with_help(app)


def all_commands() -> dict[str, Any]:
    """Return the command of each verb by its name, those of installed packages last."""
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    commands["train"] = train_command()
    for name, verb in installed_verbs().items():
        commands.setdefault(name, command_of(name, verb))
    return commands


_STOPPED = 130
_NO_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")


def _version(wanted: bool) -> None:
    if wanted:
        from raters.version import __version__

        typer.echo(f"raters {__version__}")
        raise typer.Exit


@app.callback()
def raters(
    version: bool = Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Learn from raters who disagree: a consensus, and how far each rater can be trusted.

    STUDY is a folder of masks, a quoted pattern ("masks/{rater}/{case}.nii.gz"), a manifest (CSV:
    case, rater, mask, image) or a table of class labels (CSV: task, worker, label).

    Start with:  raters check FOLDER, or raters check "masks/{rater}/{case}.nii.gz"
    """


def main() -> None:
    """Run a verb; what users can act on ends with one clear message and exit code 2."""
    # Torch and its friends leave half a million objects behind: to go over them before the process
    # ends takes seconds, and frees what ends with it anyway.
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold what it cannot show
    try:
        app()
    except RatersError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        missing = training_missing(error)
        if missing is None:
            raise
        _fail(str(missing))
    except OSError as error:
        _fail(_of_system(error))
    except MemoryError as error:
        _fail(_without_memory(str(error)))
    except RuntimeError as error:  # of torch
        if not any(words in str(error) for words in _NO_MEMORY):
            raise
        _fail(_without_memory(str(error)))
    except SystemExit as end:
        if end.code == _STOPPED:  # Typer makes this of Ctrl-C
            sys.stderr.write(_when_stopped(sys.argv[1:]))
        raise


def _of_system(error: OSError) -> str:
    """Return what the system refused, and of which file; failing that, which folder."""
    why = error.strerror or str(error) or type(error).__name__
    if error.filename:
        named = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
        return f"{named}: {why}"
    words = sys.argv[1:]
    after = [words[k + 1] for k, word in enumerate(words[:-1]) if word in ("-o", "--out")]
    return f"{after[0]}: {why}" if after else f"{shlex.join(['raters', *words])}: {why}"


def _without_memory(text: str) -> str:
    """Report that there is not enough memory, in a line."""
    why = " ".join(text.split())
    more = f" ({why[:200]})" if why else ""
    return f"found too little memory{more}, expected more: try smaller images, patches or batches"


def _when_stopped(arguments: list[str]) -> str:
    """Return what happens to the work of a verb that was stopped."""
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb == "train":
        return f"\n{stopped_message(sys.argv)}\n"
    known = _VERBS.get(verb) or installed_verbs().get(verb)
    if known is not None and known.resumes:
        return f"\nstopped: raters {verb} resumes from here when it is called again\n"
    return "\nstopped\n"


def _fail(message: str) -> None:
    sys.stderr.write(f"error: {printable(message)}\n")
    sys.exit(2)

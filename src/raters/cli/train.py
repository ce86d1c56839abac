"""`raters train`: a model of the truth and of the raters, in a run folder."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from raters.cli.study_options import SELDOM, USUAL, OpenStudy, takes_study
from raters.core.errors import RatersError, placed
from raters.core.wording import printable
from raters.views import terminal

if TYPE_CHECKING:
    from raters.learning.training.model import Model
    from raters.learning.training.options import Checked
    from raters.study.study import Study


_OUT = r"The run folder to write \[default: run]."
_RUN = "run"
_METHOD = r"How to learn, see `raters methods` \[default: pixel-cm]."
_CONFIG = (
    "YAML with method, options and training, such as config.yaml of a run; options on the "
    "command line override the file."
)
_DRY_RUN = "Show the plan with estimated time and memory."
_EXTEND = "Add the study's new raters to this trained run."


def train(
    opened: OpenStudy,
    options: dict[str, Any],
    out: Annotated[str, Option("-o", "--out", help=_OUT, show_default=False)] = "",
    method: Annotated[
        str | None, Option("-m", "--method", help=_METHOD, show_default=False)
    ] = None,
    config: Annotated[
        str, Option("--config", help=_CONFIG, metavar="FILE.yaml", rich_help_panel=SELDOM)
    ] = "",
    resume: Annotated[bool, Option("--resume", help="Resume the run in the folder.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help=_DRY_RUN, rich_help_panel=SELDOM)] = False,
    extend: Annotated[
        str, Option("--extend", help=_EXTEND, metavar="RUN", rich_help_panel=SELDOM)
    ] = "",
) -> None:
    """Train a network that predicts the consensus, and a model of each rater.

    Cases of the split 'train' are trained on, those of 'val' choose the best
    epoch (without splits, a share is held out); 'test' is never touched.
    Ctrl-C stops, --resume continues.

    raters train "masks/{rater}/{case}.png" --images "images/{case}.png" -o run/
    """
    if not dry_run:
        out = out or _RUN
    with _plain_warnings():
        if extend:
            given = {"method": method, "config": config, "resume": resume, "dry_run": dry_run}
            _extend(opened, extend, out, options, given)
            return
        method, options, notes, checked = _asked(method, config, options, resume and not dry_run)
        refuse_place(out, resume or dry_run, method, {} if dry_run else options)
        terminal.say("reading the study")
        study = opened()
        for note in notes:
            terminal.text(f"note: {note}")
        terminal.notes(study.all_notes())
        terminal.say("loading torch")
        if dry_run:
            from raters.learning.training.estimate import estimate

            assert checked is not None
            found = estimate(study, checked)
            facts = found.described().items()
            terminal.rows("what would be trained", [{"": k, "found": v} for k, v in facts])
            terminal.notes([*found.planned.notes, "nothing was written"])
            return
        from raters.learning.training.fit import fit

        tell = None if sys.stderr.isatty() else terminal.say  # the bar, else one line per epoch
        how = {
            "on_plan": lambda planned: terminal.notes(planned.notes),
            **({} if checked else options),
        }
        with _remembered(out, opened):
            model = fit(study, checked or method, progress=tell, folder=out, resume=resume, **how)
        report(model, out, opened.given, study)


def _asked(
    method: str | None, config: str, options: dict[str, Any], resume: bool
) -> tuple[str | None, dict[str, Any], list[str], Checked | None]:
    """Put command line and file together, and check all options unless a run says the rest.

    A file may not name code to be run.
    """
    from raters.cli.train_options import read_config
    from raters.learning.networks.options import allowed, is_own
    from raters.learning.training.options import DEFAULT_METHOD, checked_options

    named: str | None = None
    of_file: dict[str, Any] = {}
    notes: list[str] = []
    if config:
        named, of_file, notes = read_config(config, method)
    if is_own(of_file.get("network")) and "network" not in options:
        allowed(of_file["network"])
    method = method or named
    options = {**of_file, **options}
    if resume:
        return method, options, notes, None
    try:
        checked = checked_options(method or DEFAULT_METHOD, options)
    except RatersError:
        with placed(file=config or None):  # the file is named where it errs
            checked_options(method or DEFAULT_METHOD, of_file)
        raise
    return method, options, notes, checked


def refuse_place(out: str, resume: bool, method: str | None, options: dict[str, Any]) -> None:
    """Refuse a folder with other files, one with a run, or a run that was asked otherwise."""
    from raters.io.results import refuse_locked
    from raters.learning.training.options import refuse_other_options, refuse_run
    from raters.learning.training.run import first_process, refuse_foreign

    if not out or not first_process():
        return  # the first process may have written already
    refuse_locked(out)
    refuse_foreign(out)
    if resume:
        refuse_other_options(Path(out), method, options)
    else:
        refuse_run(Path(out))


def listed() -> None:
    """Train a network that predicts the consensus, and a model of each rater."""


def command() -> Any:  # noqa: ANN401
    """Make the command with all its options, from the pydantic classes."""
    from raters.cli.help import VerbWithHelp
    from raters.cli.train_options import FEW, train_options, with_options

    class Train(VerbWithHelp):
        few = FEW

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    verb = with_options(train, train_options(), USUAL)
    settings = {"help_option_names": ["-h", "--help"]}
    app.command("train", cls=Train, context_settings=settings)(takes_study(verb))
    return typer.main.get_command(app)


@contextmanager
def _remembered(out: str, opened: OpenStudy) -> Iterator[None]:
    """Write into the run which study it learned from, so that `raters report` finds it.

    Also of a new run that is stopped; one that was there keeps what it remembers if it refuses
    this study.
    """
    from raters.learning.training.run import holds_run
    from raters.study.places import remember_study

    before = holds_run(Path(out))
    try:
        yield
    except BaseException as error:
        # A folder that this run was refused is another's.
        refused = getattr(error, "kind", "") in ("locked", "exists")
        if not before and not refused and holds_run(Path(out)):
            with suppress(OSError):  # a full disk: what stopped the run says more
                remember_study(out, opened.described())
        raise
    if holds_run(Path(out)):
        remember_study(out, opened.described())


def _extend(
    opened: OpenStudy, run: str, out: str, options: dict[str, Any], given: dict[str, Any]
) -> None:
    """Add the study's new raters to a run, and write the longer one to a new folder."""
    from raters.learning.networks.options import allow
    from raters.learning.training.run import refuse_no_model, refuse_used
    from raters.study.places import RUN_FILES, Inputs

    for name in (name for name, value in given.items() if value):
        raise RatersError(
            f"found --{name.replace('_', '-')} together with --extend, expected one of them: the "
            "model stays what it is, and only new raters are fitted"
        )
    if "network" in options:
        allow(options.pop("network"))
    refuse_no_model(run)
    refuse_used(out)
    terminal.say("reading the study")
    study = opened()
    Inputs.of(study).and_of(Inputs.run(run)).refuse(out, RUN_FILES)
    terminal.notes(study.all_notes())
    terminal.say("loading torch and the model")
    from raters.learning.training.extend import extend_run

    with _remembered(out, opened):
        tell = None if sys.stderr.isatty() else terminal.say
        longer, added = extend_run(run, study, out, tell, **options)
    typer.echo(f"added to {run}: {printable(', '.join(added))}")
    report(longer, out, opened.given, study)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as sentences, without the line of code that they come from."""

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield


def report(model: Model, out: str, words: dict[str, Any], study: Study) -> None:
    """Report how it went, where it is, and what comes next."""
    best = next((row for row in model.history if row["epoch"] == model.best_epoch), {})
    named = {"held_out": "held-out loss", "reference": "held-out score by the reference"}
    scores = ("epoch", "loss", "held_out", "reference", "dominance")
    terminal.rows("best epoch", [{named.get(k, k): best[k] for k in scores if k in best}])
    typer.echo(f"\nthe run: {out}")
    typer.echo("next:")
    for line in next_commands(out, words, scored_split(out, study)):
        typer.echo(f"  {line}")


def scored_split(out: str, study: Study) -> str:
    """Name the cases that a run is best scored on: 'test', if there is one, else those held out."""
    from raters.learning.training.run import read_splits

    if "test" in study.index.splits:
        return "test"
    return "held-out" if any(part == "held-out" for _, part, _ in read_splits(Path(out))) else ""


def next_commands(out: str, study: dict[str, Any], split: str = "") -> list[str]:
    """Return lines that a user can run on the new model.

    Example:
        >>> for line in next_commands("run", {"study": "a.csv", "images": "x.npy"}, "held-out"):
        ...     print(line)
        raters evaluate run a.csv --images x.npy --split held-out
        raters predict run NEW.npy -o predictions/
    """
    words = study_words(study)
    images = study.get("images") or ""
    new = "NEW.npy" if images.endswith(".npy") else "NEW_IMAGES"  # that the model has not seen
    if "{case}" in images:
        new = f'"NEW/{{case}}{images.rpartition("{case}")[2].rpartition("/")[2]}"'
    if split and not study.get("split"):
        words += ["--split", split]
    return [
        shlex.join(["raters", "evaluate", out, *words]),
        f"raters predict {shlex.quote(out)} {new} -o predictions/",
    ]


def study_words(study: dict[str, Any]) -> list[str]:
    """Return the words of the command line that name a study, without those that say nothing new.

    Example:
        >>> study_words({"study": "a.csv", "wide": True, "header": False, "task": "task"})
        ['a.csv', '--wide', '--no-header']
    """
    words = [study["study"]]
    for name, value in study.items():
        if name == "study" or value == USUAL[name]:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            several = value if isinstance(value, list) else [value]
            words += [word for one in several for word in (f"--{name}", str(one))]
    return words


def stopped_message(arguments: list[str]) -> str:
    """Return the user's own command line again, with --resume where there is a run to resume.

    Example:
        >>> stopped_message(["/bin/raters", "train", "a b.csv", "-o", "run"])
        "stopped; resume with: raters train 'a b.csv' -o run --resume"
    """
    words = [Path(arguments[0]).name, *arguments[1:]] if arguments else ["raters", "train"]
    options = {word.partition("=")[0] for word in words}
    resumes = not options & {"--dry-run", "--extend", "--resume"}  # else nothing, or it is there
    return f"stopped; resume with: {shlex.join([*words, *(['--resume'] if resumes else [])])}"

"""`raters train`: a model of the truth and of the raters, in a run folder."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from raters.cli.study_options import USUAL, OpenStudy, described, takes_study
from raters.cli.tables import say, show_notes, show_rows, study_notes, wrapped
from raters.errors import RatersError, placed
from raters.wording import printable

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model
    from raters.training.options import Checked
    from raters.training.run import Split

STOPPED = 130
"""The exit code after Ctrl-C."""


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from raters.cli.train_options import show

        show(context.command, everything=True)
        typer.echo(context.get_help())
        raise typer.Exit


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
        bool, typer.Option("--dry-run", help="Show the plan with estimated time and memory.")
    ] = False,
    extend: Annotated[
        str,
        typer.Option(
            "--extend", help="Add the study's new raters to this trained run.", metavar="RUN"
        ),
    ] = "",
    help_all: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--help-all", help="Show all options and exit.", is_eager=True, callback=_show_all
        ),
    ] = False,
) -> None:
    """Train a network that predicts the consensus, and a model of each rater.

    Cases of the split 'train' are trained on, those of 'val' choose the best
    epoch (without splits, a share is held out); 'test' is never touched.
    Ctrl-C stops, --resume continues. --help-all shows all options.

    raters train "masks/{rater}/{case}.png" --images "images/{case}.png" -o run/
    """
    if not out and not dry_run:
        raise RatersError("--out: found no folder, expected one to write the run to: -o run/")
    with _plain_warnings(), _stoppable(dry_run or bool(extend)):
        if extend:
            given = {"method": method, "config": config, "resume": resume, "dry_run": dry_run}
            _extend(opened, extend, out, options, given)
            return
        method, options, notes = _asked(method, config, options)
        checked = None if resume and not dry_run else _checked(method, options, config)
        refuse_place(out, resume or dry_run, method, {} if dry_run else options)
        say("reading the study")
        study = opened()
        for note in notes:
            typer.echo(wrapped(f"note: {note}"))
        show_notes(study_notes(study))
        say("loading torch")
        if dry_run:
            _estimate(study, checked)
            return
        from raters.training.fit import fit

        with _remembered(out, opened):
            given = {} if checked else options
            model = fit(
                study, checked or method, told(), out, resume, None, _show_left_out, **given
            )
        report(model, out, _words(opened), study)


def _asked(
    method: str | None, config: str, options: dict[str, Any]
) -> tuple[str | None, dict[str, Any], list[str]]:
    """Put command line and file together; a file may not name code to be run."""
    if not config:
        return method, options, []
    from raters.cli.train_options import read_config
    from raters.networks.options import allowed, is_own

    found = read_config(config, method)
    if is_own(found.options.get("network")) and "network" not in options:
        allowed(found.options["network"])
    return method or found.method, {**found.options, **options}, found.notes


def _checked(method: str | None, options: dict[str, Any], config: str) -> Checked:
    """Check all options before anything is read; the file of options is named where it errs."""
    from raters.cli.train_options import read_config
    from raters.training.options import DEFAULT_METHOD, checked_options

    try:
        return checked_options(method or DEFAULT_METHOD, options)
    except RatersError:
        with placed(file=config):
            of_file = read_config(config, method).options if config else {}
            checked_options(method or DEFAULT_METHOD, of_file)
        raise


def refuse_place(out: str, resume: bool, method: str | None, options: dict[str, Any]) -> None:
    """Refuse a folder with other files, one with a run, or a run that was asked otherwise."""
    from raters.study.results import refuse_locked
    from raters.training.options import refuse_other_options, refuse_run
    from raters.training.run import first_process, refuse_foreign

    if not out or not first_process():
        return  # the first process may have written already
    refuse_locked(out)
    refuse_foreign(out)
    if resume:
        refuse_other_options(Path(out), method, options)
    else:
        refuse_run(Path(out))


def _show_left_out(planned: Any) -> None:  # noqa: ANN401
    show_notes(list(planned.notes))


def _words(opened: OpenStudy) -> dict[str, Any]:
    """Return the words of the command line that name the study."""
    found: dict[str, Any] = opened.keywords  # type: ignore[attr-defined]
    return found


def listed() -> None:
    """Train a network that predicts the consensus, and a model of each rater."""


def command() -> Any:  # noqa: ANN401
    """Make the command with all its options, from the pydantic classes."""
    from raters.cli.study_options import open_study
    from raters.cli.train_options import names_of, show, train_options, with_options

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    verb = with_options(train, train_options(), names_of(open_study))
    settings = {"help_option_names": ["-h", "--help"]}
    app.command("train", context_settings=settings)(takes_study(verb))
    return show(typer.main.get_command(app), everything=False)


def _remember(out: str, opened: OpenStudy) -> None:
    """Write into the run which study it learned from, so that `raters report` finds it."""
    from raters.study.places import remember_study
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


def _estimate(study: Study, checked: Checked | None) -> None:
    from raters.cli.tables import show_rows
    from raters.training.estimate import estimate

    assert checked is not None
    found = estimate(study, checked)
    show_rows("what would be trained", [{"": k, "found": v} for k, v in found.described().items()])
    show_notes([*found.planned.notes, "nothing was written"])


def _extend(
    opened: OpenStudy, run: str, out: str, options: dict[str, Any], given: dict[str, Any]
) -> None:
    """Add the study's new raters to a run, and write the longer one to a new folder."""
    from raters.networks.options import allow
    from raters.study.places import RUN_FILES, Inputs
    from raters.study.results import only_one
    from raters.training.run import first_process, refuse_no_model

    for name in (name for name, value in given.items() if value):
        raise RatersError(
            f"found --{name.replace('_', '-')} together with --extend, expected one of them: the "
            "model stays what it is, and only new raters are fitted"
        )
    if "network" in options:
        allow(options.pop("network"))
    refuse_no_model(run)
    _refuse_used(out)
    say("reading the study")
    study = opened()
    Inputs.of(study).and_of(Inputs.run(run)).refuse(out, RUN_FILES)
    with only_one(out) if first_process() else nullcontext():
        _refuse_used(out)
        show_notes(study_notes(study))
        say("loading torch and the model")
        import raters
        from raters.training.extend import extension_splits

        model = raters.load(run)
        before = set(model.config.raters)
        longer = raters.extend(model, study, progress=told(), **options)
        added = [name for name in longer.config.raters if name not in before]
        _write(longer, run, out, added, extension_splits(model, study, **options))
        typer.echo(f"added to {run}: {printable(', '.join(added))}")
        report(longer, out, _words(opened), study)
        _remember(out, opened)


def _refuse_used(out: str) -> None:
    """Refuse a folder that somebody writes to, or that holds anything."""
    from raters.study.results import is_empty
    from raters.training.run import refuse_foreign

    refuse_foreign(out)
    if Path(out).is_dir() and not is_empty(Path(out)):
        raise RatersError("found a run, expected a new folder", kind="exists", file=out)


def _write(model: Model, run: str, out: str, added: list[str], splits: Sequence[Split]) -> None:
    from raters.training.run import (
        SPLITS,
        epoch_line,
        log,
        read_splits,
        write_progress,
        write_splits,
    )

    model.save(out)
    folder, epochs = Path(out), len(model.history)
    if epochs:
        write_progress(folder, model.history, model.best_epoch, epochs, finished=True)
    earlier = read_splits(Path(run)) if (Path(run) / SPLITS).exists() else []
    write_splits(folder, both_splits(earlier, splits))
    log(folder, f"extended {run} by {', '.join(added)}")
    for row in model.history:
        log(folder, epoch_line(row, epochs))
    log(folder, f"finished: epoch {model.best_epoch} of {epochs} is the best")


def both_splits(earlier: Sequence[Split], later: Sequence[Split]) -> list[Split]:
    """Return what a case was used for by either: who trained on it once has seen it for good.

    Example:
        >>> both_splits([("a", "train", "a"), ("b", "left-out", "b")], [("a", "held-out", "a")])
        [('a', 'train', 'a'), ('b', 'left-out', 'b')]
    """
    order = ("train", "held-out", "left-out")
    found: dict[str, Split] = {}
    for split in (*earlier, *later):
        before = found.get(split[0])
        if before is None or order.index(split[1]) < order.index(before[1]):
            found[split[0]] = split
    return list(found.values())


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


def told() -> Callable[[str], None] | None:
    """Return where epochs are reported: the bar of a terminal, else one line per epoch."""
    return None if sys.stderr.isatty() else say


def report(model: Model, out: str, words: dict[str, Any], study: Study) -> None:
    """Report how it went, where it is, and what comes next."""
    best = next((row for row in model.history if row["epoch"] == model.best_epoch), {})
    named = {"held_out": "held-out loss", "reference": "held-out score by the reference"}
    scores = ("epoch", "loss", "held_out", "reference", "dominance")
    show_rows("best epoch", [{named.get(k, k): best[k] for k in scores if k in best}])
    typer.echo(f"\nthe run: {out}")
    typer.echo("next:")
    for line in next_commands(out, words, scored_split(out, study)):
        typer.echo(f"  {line}")


def scored_split(out: str, study: Study) -> str:
    """Name the cases that a run is best scored on: 'test', if there is one, else those held out."""
    from raters.training.run import read_splits

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
    if split and not study.get("split"):
        words += ["--split", split]
    return [
        shlex.join(["raters", "evaluate", out, *words]),
        f"raters predict {shlex.quote(out)} {_new_images(study.get('images'))} -o predictions/",
    ]


def _new_images(images: str | None) -> str:
    """Return a placeholder for images that the model has not seen."""
    if images and "{case}" in images:
        return f'"NEW/{{case}}{images.rpartition("{case}")[2].rpartition("/")[2]}"'
    return "NEW.npy" if images and images.endswith(".npy") else "NEW_IMAGES"


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


def stopped_message(arguments: list[str], nothing_kept: bool = False) -> str:
    """Return the user's own command line again, with --resume where there is a run to resume.

    Example:
        >>> stopped_message(["/bin/raters", "train", "a b.csv", "-o", "run"])
        "stopped; resume with: raters train 'a b.csv' -o run --resume"
    """
    words = [Path(arguments[0]).name, *arguments[1:]] if arguments else ["raters", "train"]
    if nothing_kept or "--resume" in words:
        return f"stopped; resume with: {shlex.join(words)}"
    return f"stopped; resume with: {shlex.join([*words, '--resume'])}"

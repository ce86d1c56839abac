"""What `raters train` says at its end: how it went, where it is, and what to run next."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from raters.cli.saying import say
from raters.cli.study_options import open_study
from raters.cli.tables import show_rows

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model


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
    usual = {name: p.default for name, p in inspect.signature(open_study).parameters.items()}
    words = [study["study"]]
    for name, value in study.items():
        if name == "study" or value == usual[name]:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
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

"""`raters train --extend RUN`: the raters of a study that a run does not know yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from raters.cli.saying import say
from raters.cli.tables import show_notes, study_notes
from raters.cli.train_report import report, told
from raters.wording import printable

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.model import Model
    from raters.training.run import Split


def extend_run(
    study: Study, run: str, out: str, options: dict[str, Any], words: dict[str, Any]
) -> None:
    """Add raters to a run, and write the longer one to a new folder."""
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
    report(longer, out, words, study)


def _write(model: Model, run: str, out: str, added: list[str], splits: Sequence[Split]) -> None:
    from raters.training.record import epoch_line
    from raters.training.run import SPLITS, log, read_splits, write_progress, write_splits

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

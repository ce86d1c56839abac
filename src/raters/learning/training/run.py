"""The folder of a run: what was asked for, how it went, how far it is; read without torch."""

from __future__ import annotations

import errno
import json
import os
import platform
import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.core.errors import RatersError
from raters.core.wording import many
from raters.io.claim import Owner, check_folder
from raters.io.paths import read_text
from raters.io.results import is_empty
from raters.io.rows import Row, read_cells, write_cells, write_csv, write_json
from raters.study.fingerprint import data_of
from raters.study.pattern import there
from raters.version import __version__

if TYPE_CHECKING:
    from raters.learning.training.engine import Learner
    from raters.learning.training.model import Model
    from raters.learning.training.prepare import Planned

CONFIG = "config.yaml"
WEIGHTS = "weights.safetensors"
HISTORY = "history.csv"
SCORES = "scores.json"
SPLITS = "splits.csv"
LOG = "log.txt"
RATER_WEIGHTS = "rater_weights.csv"
SOURCES = ".sources.json"
CHECKPOINT = "checkpoints/last.ckpt"
FILES = (CONFIG, WEIGHTS, HISTORY, SCORES, SPLITS, LOG, CHECKPOINT)
_OWNER = Owner("train", "a run", journals=FILES, left=("cache", "checkpoints"))

COLUMNS = ("case", "part", "group")
Split = tuple[str, str, str]
"""A case, its part ('train', 'held-out' or 'left-out'), and its group."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RANKS = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID")


def first_process() -> bool:
    """Return whether this process is the one that writes; the others only train.

    Those who start several processes (Lightning, torchrun, SLURM) number them by variables.
    """
    return all(os.environ.get(name, "0") == "0" for name in _RANKS)


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Return what a full disk means to a run."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise RatersError(
            f"found no space for it ({error.strerror}), expected some: the run is whole up to the "
            "epoch before; free some space and use --resume",
            kind="full",
            file=path,
        ) from None


def holds_run(folder: Path) -> bool:
    """Return whether a folder holds a run, finished or not."""
    return any((folder / name).exists() for name in FILES)


def refuse_foreign(folder: str | Path) -> None:
    """Refuse to write a run where something else is: nothing of it may be lost.

    Raises:
        RatersError: The folder is a file, or holds files and no run.
    """
    check_folder(folder, _OWNER)


def read_history(folder: str | Path) -> tuple[list[Row], int]:
    """Read the rows of the epochs, and the best epoch; nothing and 0 where there are none.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_csv(folder / "history.csv", [{"epoch": 1, "phase": "main", "loss": 0.25}])
        >>> read_history(folder)
        ([{'epoch': 1, 'phase': 'main', 'loss': 0.25}], 0)
    """
    path = Path(folder) / HISTORY
    if not path.exists():
        return [], 0
    try:
        columns, cells = read_cells(path)
    except RatersError as error:
        why = f"cannot be read ({error.message}), expected a row per epoch"
        raise RatersError(why, file=path) from None
    rows = (zip(columns, row, strict=True) for row in cells)
    found = [{name: _number(cell) for name, cell in row if cell} for row in rows]
    best = read_scores(folder).get("best_epoch", 0)
    if not isinstance(best, int):
        why = f"found the best epoch {best!r}, expected a number"
        raise RatersError(why, file=Path(folder) / SCORES)
    return found, best


def read_scores(folder: str | Path) -> dict[str, Any]:
    """Read `scores.json`; nothing if it is not there."""
    path = Path(folder) / SCORES
    try:
        found = json.loads(read_text(path))
    except FileNotFoundError:
        return {}
    except RatersError:
        raise
    except (ValueError, RecursionError) as error:
        raise RatersError(f"found no JSON ({error}), expected scores", file=path) from None
    if not isinstance(found, dict):
        raise RatersError(f"found {type(found).__name__}, expected scores by name", file=path)
    return found


def refuse_used(folder: str | Path) -> None:
    """Refuse a folder that somebody writes to, or that holds anything."""
    refuse_foreign(folder)
    if Path(folder).is_dir() and not is_empty(Path(folder)):
        raise RatersError("found a run, expected a new folder", kind="exists", file=folder)


def refuse_no_model(folder: str | Path) -> None:
    """Refuse what is no model folder, and say what is there instead; also an unfinished run."""
    if not isinstance(folder, str | Path):
        raise RatersError(f"found {type(folder).__name__}, expected the path of a model folder")
    path = Path(folder)
    if (path / CONFIG).exists():
        refuse_unfinished(path)
        return
    found = "no such folder" if not path.exists() else "found a file"
    if path.is_dir():
        found = "found a study" if (path / "study.yaml").exists() else there(path)
    why = f"{found}, expected a model folder: {CONFIG} and {WEIGHTS}"
    raise RatersError(why, kind="not-a-model", file=path)


def refuse_unfinished(folder: str | Path) -> None:
    """Refuse a run that did not come to its end: its weights are not there yet."""
    path = Path(folder)
    if (path / WEIGHTS).exists() or not any((path / name).exists() for name in (SPLITS, SCORES)):
        return
    scores = read_scores(path)
    at = scores.get("epochs", 0)
    of = scores.get("expected_epochs", "?")
    raise RatersError(
        f"found an unfinished run (epoch {at} of {of}), expected a finished one: resume it with "
        f"raters train STUDY -o {shlex.quote(str(path))} --resume",
        kind="unfinished",
        file=path,
    )


def finished(folder: Path) -> bool:
    """Return whether a run came to its end."""
    return bool(read_scores(folder).get("finished")) and (folder / WEIGHTS).exists()


def write_splits(folder: Path, splits: Sequence[Split]) -> None:
    """Write which case was used for what."""
    with room_for(folder / SPLITS):
        write_cells(folder / SPLITS, [COLUMNS, *splits])


def read_splits(folder: Path) -> list[Split]:
    """Read what `write_splits` wrote."""
    path = folder / SPLITS
    columns, cells = read_cells(path)
    if tuple(columns) != COLUMNS:
        why = f"found the columns {', '.join(columns)}, expected {', '.join(COLUMNS)}"
        raise RatersError(why, file=path)
    return [(case, part, group) for case, part, group in cells]


def read_sources(folder: Path) -> dict[str, str]:
    """Read the fingerprints of cases that a run keeps; nothing where it keeps none."""
    path = folder / SOURCES
    try:
        found = json.loads(read_text(path))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        message = f"found no JSON ({error}), expected fingerprints of cases"
        raise RatersError(message, file=path) from None
    if not isinstance(found, dict):
        message = f"found {type(found).__name__}, expected fingerprints by case"
        raise RatersError(message, file=path)
    return found


def write_progress(
    folder: Path, history: Sequence[Row], best_epoch: int, epochs: int, **state: bool
) -> None:
    """Write `history.csv` and `scores.json`, each whole; `finished` and `stopped_early` if so.

    (Lightning's CSV logger writes in place: a kill could leave half of a file.)
    """
    seconds = sum(row["seconds"] for row in history)
    waited = sum(row["seconds"] * row.get("waiting", 0.0) for row in history)
    scores = {
        "best_epoch": best_epoch,
        "epochs": len(history),
        "expected_epochs": epochs,
        "finished": state.get("finished", False),
        "stopped_early": state.get("stopped_early", False),
        "seconds": round(seconds, 3),
        "waiting": round(waited / seconds, 4) if seconds else 0.0,
        "best": next((row for row in history if row["epoch"] == best_epoch), {}),
    }
    with room_for(folder / HISTORY):
        write_csv(folder / HISTORY, history)
    with room_for(folder / SCORES):
        write_json(folder / SCORES, scores)


def log(folder: Path, text: str) -> None:
    """Add a line to `log.txt`, with the time."""
    time = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    line = " ".join(text.split())  # one event, one line
    with room_for(folder / LOG), open(folder / LOG, "a", encoding="utf-8") as file:
        file.write(f"{time}  {line}\n")


def _number(cell: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


class Record:
    """Keeps the folder of a run up to date; of several processes only the first writes.

    Args:
        folder: The folder.
        planned: What is trained on what.
        notes: Warnings that are not in the log yet.
        resume: Whether to resume from an existing checkpoint; no other is ever read.
    """

    def __init__(
        self, folder: Path, planned: Planned, notes: list[str], resume: bool = False
    ) -> None:
        self.folder = folder
        self.planned = planned
        self.notes = notes
        self._resume = resume
        self._writes = planned.config.training.writes
        self._started = False
        self.checkpoint = folder / CHECKPOINT

    @cached_property
    def sources(self) -> dict[str, str]:
        """Fingerprints of what each case is read from, by the names of cases."""
        study = self.planned.study
        return {
            str(case): data_of(study, position) for position, case in enumerate(study.index.ids)
        }

    def refuse_other_data(self) -> None:
        """Reject to resume a run whose cases have changed: it would learn from two data sets.

        Runs of versions that kept no fingerprints are resumed as they are.

        Raises:
            RatersError: that names a case, and says how to go on.
        """
        if not self._writes:
            return
        kept = read_sources(self.folder)
        now = self.sources
        changed = [case for case, source in now.items() if kept.get(case, source) != source]
        if not changed:
            return
        more = f" and {many(len(changed) - 1, 'other case')}" if len(changed) > 1 else ""
        message = (
            f"found a run on other data: that of case {changed[0]!r}{more} has changed since it "
            "was started, expected the same; bring it back, train anew with another -o, or "
            f"delete {self.folder / SOURCES} to go on with the data as it is now"
        )
        raise RatersError(message, kind="folder-taken", file=self.folder)

    @property
    def earlier(self) -> Path | None:
        """The checkpoint to resume from, if asked to resume and there is one."""
        return self.checkpoint if self._resume and self.checkpoint.exists() else None

    def log(self, text: str) -> None:
        """Add a line to the log, after the warnings that came before."""
        while self._writes and self.notes:
            log(self.folder, f"warning: {self.notes.pop(0)}")
        if self._writes:
            log(self.folder, text)

    def start(self, learner: Learner) -> None:
        """Write what is known before the first step; also where the run is resumed."""
        import torch

        from raters.learning.training.config import write_config

        if not self._writes:
            return
        config = self.planned.config
        self._started = True
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / CONFIG).exists():
            with room_for(self.folder / CONFIG):
                write_config(self.folder, config)
        write_splits(self.folder, self.planned.splits)
        if not (self.folder / SOURCES).exists():
            with room_for(self.folder / SOURCES):
                write_json(self.folder / SOURCES, self.sources)
        self._write_progress(learner)
        done = len(learner.history)
        self.log(f"resumed after epoch {done}" if done else f"started {config.method}")
        trained, held_out = map(len, self.planned.parts)
        self.log(
            f"{trained} cases to train on, {held_out} held out, {len(config.raters)} raters, "
            f"{len(config.classes)} classes"
        )
        versions = f"raters {__version__}, torch {torch.__version__}"
        self.log(f"{versions}, python {platform.python_version()}")

    def epoch(self, learner: Learner) -> None:
        """Write down an epoch: first the checkpoint, as all else can be made from it."""
        learner.trainer.save_checkpoint(self.checkpoint)  # all processes take part
        if self._writes:
            self._write_progress(learner)
            self.log(epoch_line(learner.history[-1], self.planned.config.training.epochs))

    def finish(self, model: Model, learner: Learner) -> None:
        """Write the weights of the best epoch, then say that it is finished."""
        if not self._writes:
            return
        with room_for(self.folder / WEIGHTS):
            model.save(self.folder)
        self._write_progress(learner, finished=True)
        early = " early" if learner.stopped else ""
        self.log(f"finished{early}: epoch {model.best_epoch} of {len(model.history)} is the best")
        waiting = read_scores(self.folder).get("waiting", 0.0)
        self.log(f"waited for data {100 * waiting:.0f} % of the time")

    @contextmanager
    def log_on_error(self) -> Iterator[None]:
        """Report in the log why a run did not come to its end."""
        try:
            yield
        except BaseException as error:
            if not self._started:
                raise  # the folder is as it was before
            known = {KeyboardInterrupt: "by Ctrl-C", SystemExit: "from outside (SIGTERM)"}
            why = known.get(type(error), f"by an error: {error}")
            with suppress(OSError, RatersError):  # a full disk takes no more lines
                self.log(f"stopped {why}; --resume continues after the last whole epoch")
            raise

    def _write_progress(self, learner: Learner, finished: bool = False) -> None:
        state = {"finished": finished, "stopped_early": learner.stopped}
        best = max(learner.best.epoch, 0)
        epochs = self.planned.config.training.epochs
        write_progress(self.folder, learner.history, best, epochs, **state)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Return a list that warnings are added to; they are shown all the same."""
    notes: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def noted(message: Any, category: Any, *rest: Any) -> None:  # noqa: ANN401
            notes.append(str(message))
            show(message, category, *rest)

        warnings.showwarning = noted  # type: ignore[assignment]
        yield notes


def epoch_line(row: Row, epochs: int) -> str:
    """Report in a line what an epoch gave."""
    numbers = [f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float)]
    return f"epoch {row['epoch']}/{epochs} ({row['phase']}): {', '.join(numbers)}"


def still_falling(values: Sequence[float]) -> bool:
    """Return whether values were falling up to the end.

    The last third must be well below the third before it (by a tenth of the whole way that they
    went), and its own second half below its first one (by a twentieth): else they have settled.

    Example:
        >>> still_falling([9, 8, 7, 6, 5, 4, 3, 2]), still_falling([9, 4, 2, 1, 1, 1, 1, 1])
        (True, False)
        >>> still_falling([9, 8, 7, 6, 5, 4, 1, 1, 1])  # it fell late, and settled
        False
    """
    if len(values) < 3:
        return False
    part = len(values) // 3
    way = max(values) - min(values)
    before = values[-2 * part : -part]
    after = values[-max(2, part) :]
    if (sum(before) - sum(values[-part:])) / part <= 0.1 * way:
        return False
    half = len(after) // 2
    return (sum(after[:half]) - sum(after[-half:])) / half > 0.05 * way

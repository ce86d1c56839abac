"""Whether a run can resume with what was given: checked before anything is read; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raters.errors import RatersError
from raters.study.paths import read_text
from raters.study.plain_yaml import load_plain
from raters.training.run import CONFIG, first_process, holds_run

FREE = ("num_workers", "cache", "devices", "num_nodes", "loggers")
"""Options that may change when a run is resumed: they do not change what is learnt.

`devices` and `nodes` change one thing: each process draws its own dropout.
"""

COMPLETE = ("network", "width", "depth", "norm", "dropout", "patch_size")
"""Options that are complete elsewhere: what the user left open may be given later."""

_CHOSEN = ("warm_up", "select", "normalise")  # planning may write them in other words


def refuse_run(folder: Path) -> None:
    """Raise if a folder holds a run and --resume was not given."""
    if holds_run(folder):
        raise RatersError(
            "found a run, expected a new folder; to resume the run, use --resume (resume=True)",
            kind="exists",
            file=folder,
        )


def is_writer(folder: Path, given: Mapping[str, Any]) -> bool:
    """Return whether this process writes the run: the first of several, or one that trains alone.

    A process that trains alone may have a number of another work (an array of SLURM's).
    """
    before = _part(_plain(folder / CONFIG), "training")
    numbers = [given.get(name, before.get(name, 1)) for name in ("devices", "num_nodes")]
    return first_process() or numbers == [1, 1]


def refuse_other_options(folder: Path, method: str | None, given: Mapping[str, Any]) -> None:
    """Refuse, of what was given, what is plainly not as in the run; the rest is compared later."""
    config = _plain(folder / CONFIG)
    if method is not None and isinstance(config.get("method"), str):
        refuse_unlike("method", method, config["method"], folder)
    before = {**_part(config, "training"), **_part(config, "options")}
    for name, found in given.items():
        settled = name in before and name not in (*FREE, *COMPLETE, *_CHOSEN)
        if settled and found != "auto" and isinstance(found, int | float | str):
            refuse_unlike(name, found, before[name], folder)


def refuse_unlike(name: str, found: object, expected: object, folder: Path) -> None:
    """Refuse an option that is not as in the run."""
    if found == expected:
        return
    message = f"found {name}={_shown(found)}, expected {_shown(expected)} as in {folder / CONFIG}"
    if name == "epochs":
        message += (
            ": the length of a run is fixed by the schedule of its learning rate; start a new one "
            f"(--config {folder / CONFIG} --epochs {found} -o NEW)"
        )
    raise RatersError(message)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(getattr(item, "name", item)) for item in value)
    return str(value)


def _plain(path: Path) -> dict[str, Any]:
    """Read a file as far as it can be read: what is wrong with it is said when it is needed."""
    import yaml

    try:
        found = load_plain(read_text(path))
    except (OSError, ValueError, yaml.YAMLError, RatersError):
        return {}
    return found if isinstance(found, dict) else {}


def _part(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}

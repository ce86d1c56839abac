"""Resuming a run: with the same study and options as before; looked at without torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.errors import RatersError
from raters.methods.registry import learning_method
from raters.networks.options import allowed, is_own
from raters.study.plain_yaml import read_yaml
from raters.training.run import CHECKPOINT, CONFIG, SPLITS, first_process, holds_run, read_splits

if TYPE_CHECKING:
    from raters.study.study import Study
    from raters.training.config import ModelConfig
    from raters.training.prepare import Planned

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


def earlier_run(folder: Path, resume: bool) -> ModelConfig | None:
    """Return the configuration of the run that a folder holds; None if there is none yet.

    Raises:
        RatersError: if there is one, and `resume` was not given.
    """
    from raters.training.config import read_config

    if not holds_run(folder):
        return None  # also with `resume`: the run may have ended before it wrote anything
    if not resume:
        refuse_run(folder)
    return read_config(folder / CONFIG)


def plan_again(
    study: Study, method: str | None, given: Mapping[str, Any], earlier: ModelConfig, folder: Path
) -> Planned:
    """Plan as before; options that were not given are those of the run.

    Raises:
        RatersError: that names the first option, rater or case that is not as it was.
    """
    from raters.training.options import checked_options
    from raters.training.prepare import plan_training

    name = earlier.method if method is None else method
    refuse_unlike("method", name, earlier.method, folder)
    options = {**_options_of(earlier), **given}
    if is_own(earlier.network.name) and "network" not in given:
        options["network"] = allowed(earlier.network.name)
    planned = plan_training(study, checked_options(name, options), earlier.normalisation)
    _refuse_other_config(planned.config, earlier, folder)
    if (folder / SPLITS).exists() or (folder / CHECKPOINT).exists():
        _refuse_other_cases(planned, folder)
    return planned


def _options_of(config: ModelConfig) -> dict[str, Any]:
    fixed = learning_method(config.method).fixed
    own = {name: value for name, value in config.options.items() if name not in fixed}
    return {**config.training.model_dump(), **own}


def _refuse_other_config(config: ModelConfig, earlier: ModelConfig, folder: Path) -> None:
    training, before = config.training.model_dump(), earlier.training.model_dump()
    for name, expected in before.items():
        if name not in (*FREE, *COMPLETE):
            refuse_unlike(name, training[name], expected, folder)
    for name, expected in earlier.options.items():
        refuse_unlike(name, config.options[name], expected, folder)
    for name, expected in earlier.network.model_dump().items():
        shown = "network" if name == "name" else name
        refuse_unlike(shown, getattr(config.network, name), expected, folder)
    same = ("patch_size", "kind", "raters", "classes", "channels", "spatial_dims")
    for name in (*same, "annotations", "unmarked"):
        refuse_unlike(name, getattr(config, name), getattr(earlier, name), folder)


def _refuse_other_cases(planned: Planned, folder: Path) -> None:
    try:
        before = read_splits(folder)
    except (OSError, ValueError) as error:
        why = f"cannot be read ({error}), expected the cases of the run"
        raise RatersError(why, file=folder / SPLITS) from None
    for now, then in zip_longest(planned.splits, before):
        if now == then:
            continue
        raise RatersError(f"found {_case(now)}, expected {_case(then)} as in {folder / SPLITS}")


def _case(split: tuple[str, str, str] | None) -> str:
    if split is None:
        return "no further case"
    case, part, group = split
    return f"the case {case!r} ({part}, group {group!r})"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(getattr(item, "name", item)) for item in value)
    return str(value)


def _plain(path: Path) -> dict[str, Any]:
    """Read a file as far as it can be read: what is wrong with it is said when it is needed."""
    try:
        found = read_yaml(path, "a model's config")
    except RatersError:
        return {}
    return found if isinstance(found, dict) else {}


def _part(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}

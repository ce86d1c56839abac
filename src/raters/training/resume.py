"""Resuming a run: it must be the same study and the same options as before."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from raters.errors import RatersError
from raters.methods.registry import learning_method
from raters.study.study import Study
from raters.training.config import ModelConfig, read_config
from raters.training.going_on import COMPLETE, FREE, refuse_run, refuse_unlike
from raters.training.prepare import Planned, plan_training
from raters.training.run import CHECKPOINT, CONFIG, SPLITS, holds_run, read_splits


def earlier_run(folder: Path, resume: bool) -> ModelConfig | None:
    """Return the configuration of the run that a folder holds; None if there is none yet.

    Raises:
        RatersError: if there is one, and `resume` was not given.
    """
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
    name = earlier.method if method is None else method
    refuse_unlike("method", name, earlier.method, folder)
    options = {**_options_of(earlier), **given}
    planned = plan_training(study, name, options, earlier.normalisation)
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
    for name in ("patch_size", "kind", "raters", "classes", "channels", "spatial_dims"):
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

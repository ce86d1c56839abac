"""The options of `raters train`: of training and all methods, in panels, or from a YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from raters.cli.typed_options import PREFIX, TypedOption
from raters.errors import RatersError
from raters.methods.registry import METHODS, learning_method
from raters.training.options import DEFAULT_METHOD, TrainingOptions
from raters.wording import expected_one_of

SHOWN = (
    *("study", "images", "out", "method", "epochs", "batch_size", "lr", "network", "patch_size"),
    *("seed", "devices", "resume", "help", "help_all"),
)
"""What `raters train --help` shows; `--help-all` shows the rest too."""

PANELS = {
    "Network": ("network", "width", "depth", "norm", "dropout"),
    "Data": (
        "normalise",
        "patch_size",
        "patches_per_case",
        "foreground",
        "augment",
        "class_weights",
        "val_fraction",
    ),
    "Machine": ("num_workers", "cache", "precision", "devices", "num_nodes", "loggers"),
}
"""Where options of training stand in the help; the others stand under 'Training'."""


def training_options() -> list[TypedOption]:
    """Return the options of training.

    Example:
        >>> {option.field: option.panel for option in training_options()}["width"]
        'Network'
    """
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    fields = TrainingOptions.model_fields
    made = [TypedOption(k, info, panel_of.get(k, "Training")) for k, info in fields.items()]
    order = ["Training", *PANELS]
    return sorted(made, key=lambda option: order.index(option.panel))


def method_options() -> list[TypedOption]:
    """Return the options of all methods; each says which methods take it.

    Example:
        >>> {option.field: option.takers for option in method_options()}["rank"]
        ('low-rank-cm',)
    """
    found: dict[str, tuple[FieldInfo, list[str]]] = {}
    for method, entry in METHODS.items():
        for name, info in entry.own_options.items():
            found.setdefault(name, (info, []))[1].append(method)
    return [TypedOption(k, info, "Method", tuple(who)) for k, (info, who) in found.items()]


def train_options() -> list[TypedOption]:
    """Return all of them."""
    return [*method_options(), *training_options()]


def show(command: Any, everything: bool) -> Any:  # noqa: ANN401
    """Let the help of `raters train` show all options in their panels, or the few most need."""
    panel_of = {option.field: option.panel for option in train_options()}
    for parameter in command.params:
        name = parameter.name.removeprefix(PREFIX)
        parameter.hidden = not everything and name not in SHOWN
        if name in panel_of:
            parameter.rich_help_panel = panel_of[name] if everything else None
    return command


FACTS = (
    "format",
    "network",
    "kind",
    "raters",
    "unlabelled",
    "classes",
    "channels",
    "spatial_dims",
    "patch_size",
    "normalisation",
)
"""What the `config.yaml` of a run says of its data and of what was chosen for them."""


class TrainConfig(NamedTuple):
    """What a file asks for.

    Attributes:
        method: The method, if it names one.
        options: Options of the method and of training.
        notes: What a user should know of how it was understood.
    """

    method: str | None
    options: dict[str, Any]
    notes: list[str]


def read_config(file: str, method: str | None = None) -> TrainConfig:
    """Read `method`, `options` (of the method) and `training` from a YAML file.

    Args:
        file: The file; no tag in it makes an object.
        method: The method that takes the place of the file's own.
    """
    path = Path(file)
    content = _mapping(_yaml(path), "the file", path)
    facts = [key for key in content if key in FACTS]
    _refuse_unknown(content, ("method", "options", "training", *FACTS), path)
    named = content.get("method")
    if named is not None and not isinstance(named, str):
        raise RatersError(f"found the method {named!r}, expected a name", file=path)
    chosen = method or named or DEFAULT_METHOD
    try:
        options = _method_options(content.get("options"), chosen, path)
        training = _training_options(content.get("training"), path)
    except RatersError as error:
        raise error.at(file=path) from None
    ignored = f"facts of that run's data are not used: {', '.join(facts)}"
    return TrainConfig(named, {**options, **training}, [ignored] if facts else [])


def _method_options(found: Any, method: str, path: Path) -> dict[str, Any]:  # noqa: ANN401
    """Return the options of the method; those that make it what it is may be written out."""
    entry = learning_method(method)
    options = _mapping(found, "options", path)
    kept = {k: v for k, v in options.items() if k not in entry.fixed or entry.fixed[k] != v}
    _refuse_unknown(kept, entry.options.model_fields, path, "options.")
    return kept


def _training_options(found: Any, path: Path) -> dict[str, Any]:  # noqa: ANN401
    options = _mapping(found, "training", path)
    _refuse_unknown(options, TrainingOptions.model_fields, path, "training.")
    return options


def _yaml(path: Path) -> Any:  # noqa: ANN401
    import yaml

    from raters.study.paths import read_text
    from raters.study.plain_yaml import load_plain

    try:
        return load_plain(read_text(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise RatersError(f"cannot be read ({why}), expected a YAML file", file=path) from None
    except yaml.YAMLError as error:
        raise RatersError(
            f"found no plain YAML ({error}), expected method, options and training", file=path
        ) from None


def _mapping(found: Any, what: str, path: Path) -> dict[str, Any]:  # noqa: ANN401
    if found is None:
        return {}
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise RatersError(f"found {what} as {kind}, expected keys and values", file=path)
    return {str(key): value for key, value in found.items()}


def _refuse_unknown(
    found: Iterable[str], known: Iterable[str], path: Path, where: str = ""
) -> None:
    for key in found:
        if key not in known:
            message = f"found the key {where + key!r}, {expected_one_of(known, key)}"
            raise RatersError(message, file=path)

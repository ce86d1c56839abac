"""`raters train --config FILE.yaml`: method and options from a file, such as that of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from raters.errors import RatersError

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
    from raters.training.options import DEFAULT_METHOD

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
    from raters.methods.registry import learning_method

    entry = learning_method(method)
    options = _mapping(found, "options", path)
    kept = {k: v for k, v in options.items() if k not in entry.fixed or entry.fixed[k] != v}
    _refuse_unknown(kept, entry.options.model_fields, path, "options.")
    return kept


def _training_options(found: Any, path: Path) -> dict[str, Any]:  # noqa: ANN401
    from raters.training.options import TrainingOptions

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
    from raters.wording import expected_one_of

    for key in found:
        if key not in known:
            message = f"found the key {where + key!r}, {expected_one_of(known, key)}"
            raise RatersError(message, file=path)

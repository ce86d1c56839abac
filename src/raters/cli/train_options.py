"""The options of `raters train`, from pydantic classes, and YAML files of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

from pydantic.fields import FieldInfo
from typer import Option

from raters.cli.study_options import as_verb, parameters
from raters.core.errors import RatersError, placed
from raters.core.wording import expected_one_of
from raters.learning.methods.fields import default_of, meaning, metavar, parsed, plain_type
from raters.learning.methods.registry import METHODS, learning_method
from raters.learning.training.options import DEFAULT_METHOD, TrainingOptions

PREFIX = "set_"  # of the parameters: no name of a verb begins so


@dataclass(frozen=True)
class TypedOption:
    """An option of the command line that stands for a field.

    Attributes:
        field: The name of the field.
        info: The field: type, default, range and meaning.
        panel: Where it stands in the help.
        takers: The methods that take it, if not all do.
    """

    field: str
    info: FieldInfo
    panel: str
    takers: tuple[str, ...] = ()

    def flag(self, taken: Iterable[str]) -> str:
        """Return the name on the command line; a taken name gets a word in front."""
        name = self.field.replace("_", "-")
        return f"option-{name}" if name in taken else name

    def parameter(self, taken: Iterable[str]) -> inspect.Parameter:
        """Return the parameter that typer makes an option of; None means that it was not given."""
        flag = self.flag(taken)
        kind = plain_type(self.info.annotation)
        switch = kind is bool
        option = Option(
            f"--{flag}/--no-{flag}" if switch else f"--{flag}",
            help=self.help_text(),
            rich_help_panel=self.panel,
            show_default=False,
            metavar=None if switch else metavar(self.info.annotation),
        )
        hint: Any = Annotated[Optional[kind], option]  # noqa: UP045
        named = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(PREFIX + self.field, named, default=None, annotation=hint)

    def help_text(self) -> str:
        """Return who takes it, what it means, its range and its default."""
        takers = f"[{', '.join(self.takers)}] " if self.takers else ""
        default = default_of(self.info)
        shown = f" [default: {default}]" if default else ""
        return f"{takers}{meaning(self.info)}{shown}".replace("[", r"\[")  # else it is markup


def given_options(options: Sequence[TypedOption], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the user set, by name."""
    found = [(option, values.get(PREFIX + option.field)) for option in options]
    return {o.field: parsed(o.field, o.info, value) for o, value in found if value is not None}


def names_of(function: Callable[..., Any]) -> set[str]:
    """Return the names that the options of a function have on the command line."""
    return {name.replace("_", "-") for name in inspect.signature(function).parameters}


def with_options(
    verb: Callable[..., None], options: Sequence[TypedOption], taken: Iterable[str]
) -> Callable[..., None]:
    """Add typed options to a verb; it gets those that the user set as the dictionary `options`."""
    names = {*taken, *names_of(verb)}
    made = [option.parameter(names) for option in options]

    def command(opened: Any, **values: Any) -> None:  # noqa: ANN401
        typed = {}
        for parameter in made:
            typed[parameter.name] = values.pop(parameter.name)
        verb(opened, options=given_options(options, typed), **values)

    own = [p for p in parameters(verb) if p.name != "options"]
    return as_verb(command, verb, [*own, *made])


_FEW = ("epochs", "batch_size", "lr", "network", "patch_size", "seed", "devices")
FEW = tuple(PREFIX + name for name in _FEW)
"""The parameters that `raters train --help` shows; `--help-all` shows the rest too."""

PANELS = {
    "Network": "network width depth norm dropout",
    "Data": "normalise patch_size patches_per_case foreground augment class_weights val_fraction",
    "Machine": "num_workers cache precision devices num_nodes loggers",
}
"""Where options of training stand in the help; the others stand under 'Training'."""


def training_options() -> list[TypedOption]:
    """Return the options of training.

    Example:
        >>> {option.field: option.panel for option in training_options()}["width"]
        'Network'
    """
    panel_of = {name: panel for panel, names in PANELS.items() for name in names.split()}
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


FACTS = (
    *("format", "network", "kind", "raters", "unlabelled", "classes", "channels", "spatial_dims"),
    *("patch_size", "image_size", "normalisation", "annotations", "unmarked"),
)
"""What the `config.yaml` of a run says of its data and of what was chosen for them."""


Asked = tuple[str | None, dict[str, Any], list[str]]
"""A method, if one is named, options of it and of training, and what a user should know of them."""


def read_config(file: str, method: str | None = None) -> Asked:
    """Read `method`, `options` (of the method) and `training` from a YAML file.

    Args:
        file: The file; no tag in it makes an object.
        method: The method that takes the place of the file's own.
    """
    from raters.io.plain_yaml import read_yaml

    with placed(file=file):
        plain = read_yaml(Path(file), "a YAML file of method, options and training")
        return _understood(plain, method)


def _understood(found: Any, method: str | None) -> Asked:  # noqa: ANN401
    content = _keys(found, "the file", ("method", "options", "training", *FACTS))
    facts = [key for key in content if key in FACTS]
    named = content.get("method")
    if named is not None and not isinstance(named, str):
        raise RatersError(f"found the method {named!r}, expected a name")
    entry = learning_method(method or named or DEFAULT_METHOD)
    options = _keys(content.get("options"), "options", entry.options.model_fields)
    # Those that make the method what it is may be written out.
    own = {k: v for k, v in options.items() if k not in entry.fixed or entry.fixed[k] != v}
    training = _keys(content.get("training"), "training", TrainingOptions.model_fields)
    ignored = f"facts of that run's data are not used: {', '.join(facts)}"
    return named, {**own, **training}, [ignored] if facts else []


def _keys(found: Any, what: str, known: Iterable[str]) -> dict[str, Any]:  # noqa: ANN401
    """Return keys and values that are known; none where nothing was found."""
    if not isinstance(found, dict | None):
        raise RatersError(f"found {what} as {type(found).__name__}, expected keys and values")
    content = {str(key): value for key, value in (found or {}).items()}
    for key in content:
        if key not in known:
            where = key if what == "the file" else f"{what}.{key}"
            raise RatersError(f"found the key {where!r}, {expected_one_of(known, key)}")
    return content

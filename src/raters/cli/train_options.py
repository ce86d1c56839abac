"""Command-line options from pydantic classes, those of `raters train`, and YAML files of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from raters.errors import RatersError, placed
from raters.methods.registry import METHODS, learning_method
from raters.training.options import DEFAULT_METHOD, TrainingOptions
from raters.wording import expected_one_of

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
        flag, kind = self.flag(taken), plain_type(self.info.annotation)
        flags = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        option = typer.Option(
            flags,
            help=self.help_text(),
            rich_help_panel=self.panel,
            show_default=False,
            metavar=None if kind is bool else metavar(self.info.annotation),
        )
        return inspect.Parameter(
            PREFIX + self.field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[Optional[kind], option],  # noqa: UP045
        )

    def help_text(self) -> str:
        """Report who takes it, what it means, its range and its default."""
        takers = f"[{', '.join(self.takers)}] " if self.takers else ""
        limits = limits_of(self.info)
        default = default_of(self.info)
        text = f"{takers}{self.info.description or ''}{f' ({limits})' if limits else ''}"
        shown = f" [default: {default}]" if default else ""
        return (text + shown).replace("[", r"\[")  # else rich takes it for markup


def plain_type(annotation: Any) -> type:  # noqa: ANN401
    """Return what the command line reads: a switch, a number, or text.

    Example:
        >>> plain_type(float | None), plain_type(Literal["a", "b"]), plain_type(bool)
        (<class 'float'>, <class 'str'>, <class 'bool'>)
    """
    kinds = [kind for kind in _alternatives(annotation) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float) else str


def metavar(annotation: Any) -> str:  # noqa: ANN401
    """Show what may be given.

    Example:
        >>> metavar(Literal["cosine", "constant"]), metavar(int | None)
        ('cosine|constant', 'INTEGER')
        >>> metavar(tuple[int, ...] | Literal["auto", "whole"])
        'N,N,...|auto|whole'
    """
    words = {bool: "", int: "INTEGER", float: "NUMBER", str: "NAME", type(None): ""}
    shown = [words[k] if k in words else _words_of(k) for k in _alternatives(annotation)]
    return "|".join(word for word in shown if word)


def _words_of(kind: Any) -> str:  # noqa: ANN401
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return "N,N,..." if item is int else f"{metavar(item)},..."
    return "VALUE"


def _alternatives(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401
    several = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if several else (annotation,)


def limits_of(info: FieldInfo) -> str:
    """Return which numbers are allowed.

    Example:
        >>> from pydantic import Field
        >>> limits_of(Field(0.5, gt=0, le=1)), limits_of(Field(2, ge=1))
        ('above 0, at most 1', '1 or more')
    """
    said = []
    for limit in info.metadata:
        if isinstance(limit, Ge):
            said.append(f"{limit.ge:g} or more")
        elif isinstance(limit, Gt):
            said.append(f"above {limit.gt:g}")
        elif isinstance(limit, Le):
            said.append(f"at most {limit.le:g}")
        elif isinstance(limit, Lt) and limit.lt != 2**63:
            said.append(f"below {limit.lt:g}")
    return ", ".join(said)


def default_of(info: FieldInfo) -> str:
    """Show a default; nothing for one that the description or the data give."""
    if info.default is None or info.default == ():
        return ""
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    return f"{info.default:g}" if isinstance(info.default, float) else str(info.default)


def parsed(option: TypedOption, value: Any) -> Any:  # noqa: ANN401
    """Turn text of the command line into what the field takes; pydantic checks the rest.

    Example:
        >>> from pydantic.fields import FieldInfo
        >>> sides = FieldInfo.from_annotation(tuple[int, ...] | Literal["auto"])
        >>> parsed(TypedOption("patch_size", sides, ""), "96,96")
        (96, 96)
    """
    kinds = _alternatives(option.info.annotation)
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    words = [w for kind in kinds if get_origin(kind) is Literal for w in get_args(kind)]
    if not isinstance(value, str) or not lists or value in words:
        return value
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if get_args(lists[0])[0] is not int:
        return parts
    try:
        return tuple(int(part) for part in parts)
    except ValueError:
        expected = " or ".join(["whole numbers such as 96,96", *map(repr, words)])
        flag = option.field.replace("_", "-")
        raise RatersError(f"--{flag}: found {value!r}, expected {expected}") from None


def given_options(options: Sequence[TypedOption], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the user set, by name."""
    found = {option.field: values.get(PREFIX + option.field) for option in options}
    by_name = {option.field: option for option in options}
    return {k: parsed(by_name[k], v) for k, v in found.items() if v is not None}


def names_of(function: Callable[..., Any]) -> set[str]:
    """Return the names that the options of a function have on the command line."""
    return {name.replace("_", "-") for name in inspect.signature(function).parameters}


def with_options(
    verb: Callable[..., None], options: Sequence[TypedOption], taken: Iterable[str]
) -> Callable[..., None]:
    """Return a verb typed options; it gets those that the user set as the dictionary `options`."""
    signature = inspect.signature(verb, eval_str=True)
    own = [p for name, p in signature.parameters.items() if name != "options"]
    names = {*taken, *names_of(verb)}
    made = [option.parameter(names) for option in options]

    def command(opened: Any, **values: Any) -> None:  # noqa: ANN401
        typed = {p.name: values.pop(p.name) for p in made}
        verb(opened, options=given_options(options, typed), **values)

    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.name != "opened"]
    together = [signature.parameters["opened"], *keyword, *made]
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in together}
    return command


SHOWN = (
    *("study", "images", "out", "method", "epochs", "batch_size", "lr", "network", "patch_size"),
    *("seed", "devices", "resume", "help", "help_all"),
)
"""What `raters train --help` shows; `--help-all` shows the rest too."""

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
    *("format", "network", "kind", "raters", "unlabelled", "classes", "channels", "spatial_dims"),
    *("patch_size", "image_size", "normalisation", "annotations", "unmarked"),
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
    from raters.study.plain_yaml import read_yaml

    with placed(file=file):
        plain = read_yaml(Path(file), "a YAML file of method, options and training")
        return _understood(plain, method)


def _understood(found: Any, method: str | None) -> TrainConfig:  # noqa: ANN401
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
    return TrainConfig(named, {**own, **training}, [ignored] if facts else [])


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

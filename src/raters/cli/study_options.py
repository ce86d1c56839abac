"""The STUDY argument and the options that say how to read it, the same in every verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo
from typer.models import ArgumentInfo

from raters.core.errors import RatersError

if TYPE_CHECKING:
    from raters.study.study import Study

Out = Annotated[str, Option("-o", "--out", help="The folder to write.", show_default=False)]
TablesOut = Annotated[str, Option("-o", "--out", help="Write all tables here, as CSV and JSON.")]
AsJson = Annotated[bool, Option("--json", help="Print everything as JSON.")]

# Panels.
_CHOOSE = "Filter cases, raters, classes"
_MASKS = "Masks"
_TABLES = "Tables"
PANELS = (_CHOOSE, _MASKS, _TABLES)
"""The headings of what says how a study is read."""

SELDOM = "Seldom needed"
"""The heading of options of a verb that few need; like all headings, only `--help-all` shows it."""

Overwrite = Annotated[bool, Option(help="Write all cases again.", rich_help_panel=SELDOM)]


def _option(
    name: str,
    text: str,
    panel: str | None = _MASKS,
    default: object = "",
    kind: object = str,
    **more: Any,  # noqa: ANN401
) -> inspect.Parameter:
    option = Option(more.pop("flag", f"--{name}"), help=text, rich_help_panel=panel, **more)
    hint = Annotated[kind, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, _NAMED, default=default, annotation=hint)


_NAMED = inspect.Parameter.KEYWORD_ONLY
_ARGUMENT = Argument(help="Pattern, folder, manifest or table.", metavar="STUDY")
_IMAGES = "Pattern of images; for tables also a .npy array or a column of paths."
_REFERENCE = "Pattern of true masks; for tables a file with a true label per task."
_ONE_NAME = "One name may mean different people: do not rank or name raters."
_ABSENT = "What an absent mask means: missing, or empty (drew nothing)."
_HEADER = "Whether a wide table has a header."
_ANNOTATION = "What a rater's labels mean: ann=positive; mask, negative, scribble, box."
_UNMARKED = "What drawings say where nothing is marked: rest, or unknown."
_OVERLAP = "With a file per class: error, priority (last wins) or combine."
_OPTIONS = (
    inspect.Parameter("study", _NAMED, annotation=Annotated[str, _ARGUMENT]),
    _option("images", _IMAGES, None, None, str | None),
    _option("reference", _REFERENCE, None, None, str | None),
    _option("raters", "Keep these raters: ann,bob.", _CHOOSE),
    _option("cases", "Keep these cases: a1,b*.", _CHOOSE),
    _option("classes", "Keep these classes; in masks others become background.", _CHOOSE),
    _option("split", "Keep the cases of a split.", _CHOOSE),
    _option("diagnosis", "Keep the cases of a diagnosis.", _CHOOSE),
    _option("anonymous", _ONE_NAME, _CHOOSE, False, bool),
    _option("values", "What values mean: '0=background,1=tumour'.", metavar="V=NAME,..."),
    _option("ignore", "Values that mean 'not labelled'.", metavar="V,..."),
    _option("absent", _ABSENT, default="missing"),
    _option("threshold", "Threshold for grey-level masks.", default=None, kind=float | None),
    _option("overlap", _OVERLAP, default="error"),
    _option("resample", "'nearest' puts masks on the grid of the image."),
    _option("annotation", _ANNOTATION, default=None, kind=list[str] | None, metavar="RATER=KIND"),
    _option("unmarked", _UNMARKED, metavar="rest|unknown"),
    _option("task", "Column of the task.", _TABLES, "task"),
    _option("worker", "Column of the rater.", _TABLES, "worker"),
    _option("label", "Column of the label.", _TABLES, "label"),
    _option("wide", "One column per rater.", _TABLES, False, bool),
    _option("missing", "Values that mean 'not labelled'.", _TABLES, metavar="V,..."),
    _option("header", _HEADER, _TABLES, None, bool | None, flag="--header/--no-header"),
)


USUAL = {option.name: option.default for option in _OPTIONS}
"""The defaults of all options, by name."""


class OpenStudy:
    """Opens the study that a command line names.

    Attributes:
        given: What the command line says of it, by the names of `USUAL`.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self._guesses: dict[str, dict[str, Any]] = {}

    def __call__(self, strict: bool = True, truth: bool = False, **other: str) -> Study:
        """Open it; `other` takes the place of what was given."""
        given = {**self.given, **other}
        if not given["study"]:
            raise RatersError(
                "STUDY: found no name, expected a folder, a manifest, a table, or a pattern such "
                "as 'masks/{rater}/{case}.nii.gz'"
            )
        from raters.study.read import read

        options = read_options(given) if truth else self._resolved(given)
        return read(**options, strict=strict, truth=truth)

    def _resolved(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `raters.read`, plain folders guessed and said once."""
        from raters.study.plain_folder import guess_source

        options = read_options(given)
        source = options["source"]
        if source not in self._guesses:
            guess = guess_source(options)
            self._guesses[source] = {} if guess is None else guess.arguments
            if guess is not None:
                echo(guess.line, err=True)
        return options | self._guesses[source]

    @property
    def changed(self) -> dict[str, Any]:
        """What was given and is not the default."""
        return {k: value for k, value in self.given.items() if value != USUAL[k]}

    def described(self) -> dict[str, Any]:
        """Return the arguments of `raters.read` with which it is opened."""
        return self._resolved(self.given)


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn what the command line says of a study into the arguments of `raters.read`.

    Args:
        given: By the names of `USUAL`: all of them, or some.

    Example:
        >>> read_options({"study": "a.csv", "raters": "ann, bob", "ignore": "255", "split": ""})
        {'source': 'a.csv', 'raters': ['ann', 'bob'], 'ignore': [255], 'split': None}
    """
    from raters.study import annotations, backend

    for option, words in {**backend.WORDS, "unmarked": annotations.WORDS}.items():
        if given.get(option, "") not in ("", *words):
            listed = " or ".join(map(repr, words))
            raise RatersError(f"--{option}: found {given[option]!r}, expected {listed}")
    options: dict[str, Any] = {}
    for name, value in given.items():
        if name in ("raters", "cases", "classes", "missing"):
            value = _listed(value)
        elif name == "ignore":
            value = whole_numbers("--ignore", value, "255")
        elif name == "annotation":
            value = _kinds(value or [])
        options[_CALLED.get(name, name)] = None if value == "" else value
    return options


_CALLED = {"study": "source", "annotation": "annotations"}
"""Arguments of `raters.read` that are called otherwise on the command line."""


def _kinds(given: list[str]) -> dict[str, str] | None:
    """Return what `--annotation RATER=KIND` says, by rater; a name may hold '='."""
    found: dict[str, str] = {}
    for part in given:
        rater, _, kind = (word.strip() for word in part.rpartition("="))
        if not rater:
            raise RatersError(
                f"--annotation: found {part!r}, expected RATER=KIND such as ann=positive"
            )
        if rater in found:
            raise RatersError(f"--annotation: found the rater {rater!r} twice, expected one kind")
        found[rater] = kind
    return found or None


def takes_study(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the STUDY argument and its options to a verb, whose first argument opens the study."""
    own = parameters(verb)[1:]
    # A verb may give an option of its own meaning to a shared name.
    shared = [p for p in _OPTIONS if p.name not in {q.name for q in own}]

    def command(**given: Any) -> None:  # noqa: ANN401
        values = {}
        for parameter in shared:
            values[parameter.name] = given.pop(parameter.name)
        opened = OpenStudy(values)
        verb(opened, **given)

    first = [p for p in own if isinstance(p.annotation.__metadata__[0], ArgumentInfo)]
    together = [*first, shared[0], *(p for p in own if p not in first), *shared[1:]]
    return as_verb(command, verb, together)


def takes_network(verb: Callable[..., None]) -> Callable[..., None]:
    """Add an option for networks of the user's own to a verb that opens trained models."""
    text = "The run's own network, which may then be imported and run."
    own = _option("network", text, SELDOM, metavar="PACKAGE.MODULE:FACTORY")

    def command(network: str, **given: Any) -> None:  # noqa: ANN401
        if network:
            from raters.learning.networks.options import allow

            allow(network)
        verb(**given)

    return as_verb(command, verb, [*parameters(verb), own])


def parameters(verb: Callable[..., None]) -> list[inspect.Parameter]:
    """Return what a verb takes, all by name."""
    found = inspect.signature(verb, eval_str=True).parameters.values()
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in found]


def as_verb(
    command: Callable[..., None], verb: Callable[..., None], takes: list[inspect.Parameter]
) -> Callable[..., None]:
    """Let a function pass for a verb that takes these parameters."""
    command.__name__ = verb.__name__
    command.__doc__ = verb.__doc__
    command.__signature__ = inspect.Signature(takes)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in takes}
    return command


def _listed(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None


def whole_numbers(option: str, text: str, such_as: str) -> list[int]:
    """Return the whole numbers that an option lists; `such_as` shows users what is expected."""
    try:
        return [int(part) for part in _listed(text) or []]
    except ValueError:
        raise RatersError(
            f"{option}: found {text!r}, expected whole numbers such as {such_as}"
        ) from None


def named_values(given: list[str]) -> dict[str, Any]:
    """Return what `--option NAME=VALUE` says.

    Example:
        >>> named_values(["max-iter=5", "tol=1e-5"])
        {'max_iter': 5, 'tol': 1e-05}
    """
    import yaml

    from raters.io.plain_yaml import load_value

    options: dict[str, Any] = {}
    for part in given:
        name, sign, value = part.partition("=")
        if not sign:
            raise RatersError(f"--option: found {part!r}, expected NAME=VALUE")
        try:
            options[name.strip().replace("-", "_")] = load_value(value)
        except yaml.YAMLError:
            raise RatersError(f"--option: found {part!r}, expected NAME=VALUE in YAML") from None
    return options

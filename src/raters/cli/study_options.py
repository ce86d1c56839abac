"""The STUDY argument and the options that say how to read it, the same in every verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_type_hints

import typer

from raters.errors import RatersError

if TYPE_CHECKING:
    from raters.study.study import Study

OpenStudy = Callable[..., "Study"]
"""Opens the study that the command line names; takes `strict` and `truth` as `raters.read` does."""

_CHOOSE = "Filter cases, raters, classes"
_MASKS = "Masks"
_TABLES = "Tables"

_EXPECTED = {
    "absent": ("missing", "empty"),
    "overlap": ("error", "priority", "combine"),
    "resample": ("", "nearest"),
}


def _option(*names: str, text: str, panel: str = _MASKS, metavar: str | None = None) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


def open_study(
    study: Annotated[
        str, typer.Argument(help="Pattern, folder, manifest or table.", metavar="STUDY")
    ],
    images: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Pattern of images; for tables also a .npy array or a column of paths."),
    ] = None,
    reference: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Pattern of true masks; for tables a file with a true label per task."),
    ] = None,
    raters: Annotated[
        str, _option("--raters", text="Keep these raters: ann,bob.", panel=_CHOOSE)
    ] = "",
    cases: Annotated[str, _option("--cases", text="Keep these cases: a1,b*.", panel=_CHOOSE)] = "",
    classes: Annotated[
        str,
        _option(
            "--classes",
            text="Keep these classes; in masks others become background.",
            panel=_CHOOSE,
        ),
    ] = "",
    split: Annotated[
        str, _option("--split", text="Keep the cases of a split.", panel=_CHOOSE)
    ] = "",
    anonymous: Annotated[
        bool,
        _option(
            "--anonymous",
            text="One name may mean different people: do not rank or name raters.",
            panel=_CHOOSE,
        ),
    ] = False,
    values: Annotated[
        str,
        _option(
            "--values", text="What values mean: '0=background,1=tumour'.", metavar="V=NAME,..."
        ),
    ] = "",
    ignore: Annotated[
        str, _option("--ignore", text="Values that mean 'not labelled'.", metavar="V,...")
    ] = "",
    absent: Annotated[
        str,
        _option("--absent", text="What an absent mask means: missing, or empty (drew nothing)."),
    ] = "missing",
    threshold: Annotated[
        Optional[float],  # noqa: UP045
        _option("--threshold", text="Threshold for grey-level masks."),
    ] = None,
    overlap: Annotated[
        str,
        _option("--overlap", text="With a file per class: error, priority (last wins) or combine."),
    ] = "error",
    resample: Annotated[
        str, _option("--resample", text="'nearest' puts masks on the grid of the image.")
    ] = "",
    task: Annotated[str, _option("--task", text="Column of the task.", panel=_TABLES)] = "task",
    worker: Annotated[
        str, _option("--worker", text="Column of the rater.", panel=_TABLES)
    ] = "worker",
    label: Annotated[str, _option("--label", text="Column of the label.", panel=_TABLES)] = "label",
    wide: Annotated[bool, _option("--wide", text="One column per rater.", panel=_TABLES)] = False,
    missing: Annotated[
        str,
        _option(
            "--missing", text="Values that mean 'not labelled'.", panel=_TABLES, metavar="V,..."
        ),
    ] = "",
    header: Annotated[
        Optional[bool],  # noqa: UP045
        _option("--header/--no-header", text="Whether a wide table has a header.", panel=_TABLES),
    ] = None,
    strict: bool = True,
    truth: bool = False,
) -> Study:
    """Open the study that the options describe."""
    given = dict(locals())
    if not study:
        raise RatersError(
            "STUDY: found no name, expected a folder, a manifest, a table, or a pattern such as "
            "'masks/{rater}/{case}.nii.gz'"
        )
    from raters.study.read import read

    del given["strict"], given["truth"]
    return read(**read_options(given), strict=strict, truth=truth)


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn what the command line says of a study into the arguments of `raters.read`.

    Args:
        given: By the names of `open_study`: all of them, or some.

    Example:
        >>> read_options({"study": "a.csv", "raters": "ann, bob", "ignore": "255", "split": ""})
        {'source': 'a.csv', 'raters': ['ann', 'bob'], 'ignore': [255], 'split': None}
    """
    for option, expected in _EXPECTED.items():
        if option in given:
            _refuse_other(f"--{option}", given[option], expected)
    options: dict[str, Any] = {}
    for name, value in given.items():
        if name in ("raters", "cases", "classes", "missing"):
            value = _listed(value)
        elif name == "ignore":
            value = _whole_numbers("--ignore", value)
        options["source" if name == "study" else name] = None if value == "" else value
    return options


def described(opened: OpenStudy) -> dict[str, Any]:
    """Return the arguments of `raters.read` with which a verb opens its study."""
    assert isinstance(opened, partial)  # made by `takes_study`
    return read_options(opened.keywords)


def takes_study(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb the STUDY argument and its options; the verb gets a function that opens it.

    The options are those of `open_study`, so that no verb lists them again.
    """
    own = _parameters(verb, but=("opened",))
    # A verb may give an option of its own meaning to a shared name.
    shared = _parameters(open_study, but=("strict", "truth", *(p.name for p in own)))

    def command(**given: Any) -> None:  # noqa: ANN401
        described = {p.name: given.pop(p.name) for p in shared}
        verb(partial(open_study, **described), **given)

    first = [p for p in own if _is_argument(p)]
    together = [*first, shared[0], *(p for p in own if p not in first), *shared[1:]]
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in together}
    return command


def _parameters(function: Callable[..., Any], but: tuple[str, ...]) -> list[inspect.Parameter]:
    hints = get_type_hints(
        function, include_extras=True, localns={"Study": object, "OpenStudy": object}
    )
    return [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name])
        for p in inspect.signature(function).parameters.values()
        if p.name not in but
    ]


def _is_argument(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter stands without a name on the command line, before STUDY."""
    found = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(info, typer.models.ArgumentInfo) for info in found)


def _listed(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None


def _whole_numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in _listed(text) or []]
    except ValueError:
        raise RatersError(f"{option}: found {text!r}, expected whole numbers such as 255") from None


def _refuse_other(option: str, found: str, expected: tuple[str, ...]) -> None:
    if found not in expected:
        listed = " or ".join(repr(e) for e in expected if e)
        raise RatersError(f"{option}: found {found!r}, expected {listed}")

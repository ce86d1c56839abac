"""`raters methods`: the learning methods, and the options of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from raters.cli.saying import wrapped

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from raters.methods.registry import MethodEntry
    from raters.rows import Row


def methods(
    method: Annotated[
        str, typer.Argument(help="A method to show; all are listed without one.", metavar="METHOD")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the learning methods, or show the options of one, its paper and when to use it.

    raters methods pixel-cm
    """
    from raters.methods.registry import METHODS, learning_method
    from raters.rows import to_json

    if as_json:
        names = [method] if method else list(METHODS)
        found = {name: facts(name, learning_method(name)) for name in names}
        typer.echo(to_json(found[method] if method else list(found.values())))
    elif method:
        _show_one(method, learning_method(method))
    else:
        _show_all()


def facts(name: str, entry: MethodEntry) -> Row:
    """Return what there is to know of a method as plain data."""
    return {
        "name": name,
        "about": entry.about,
        "when": entry.when,
        "paper": entry.paper or None,
        "fixed": dict(entry.fixed),
        "options": [_option(k, info) for k, info in entry.own_options.items()],
    }


def _option(name: str, info: FieldInfo) -> Row:
    from raters.cli.typed_options import limits_of, metavar, plain_type

    kind: Any = plain_type(info.annotation)
    limits = limits_of(info)
    return {
        "option": name,
        "type": "yes|no" if kind is bool else metavar(info.annotation),
        "default": info.default,
        "meaning": f"{info.description or ''}{f' ({limits})' if limits else ''}",
    }


def _show_all() -> None:
    from raters.cli.tables import show_rows
    from raters.methods.registry import METHODS

    rows: list[Row] = [
        {"name": name, "about": entry.about, "paper": entry.paper or None}
        for name, entry in METHODS.items()
    ]
    show_rows("learning methods", rows)
    typer.echo("\noptions of one: raters methods NAME")


def _show_one(name: str, entry: MethodEntry) -> None:
    from raters.cli.tables import show_rows
    from raters.cli.typed_options import default_of

    typer.echo(wrapped(f"{name}: {entry.about}"))
    typer.echo(wrapped(f"when:  {entry.when}", indent=7))
    if entry.paper:
        typer.echo(wrapped(f"paper: {entry.paper}", indent=7))
    rows = [
        {**_option(k, info), "option": f"--{k.replace('_', '-')}", "default": default_of(info)}
        for k, info in entry.own_options.items()
    ]
    show_rows("options", rows)
    typer.echo(f"\nraters train STUDY -m {name} -o run/\nall options: raters train --help")

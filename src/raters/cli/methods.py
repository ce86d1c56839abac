"""`raters methods`: the learning and fusion methods, and the options of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from raters.cli.study_options import AsJson
from raters.cli.tables import wrapped
from raters.fusion.methods import KINDS
from raters.fusion.methods import METHODS as FUSION

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from raters.fusion.methods import Method
    from raters.methods.entry import MethodEntry
    from raters.rows import Row


def methods(
    method: Annotated[
        str, typer.Argument(help="A method to show; all are listed without one.", metavar="METHOD")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the methods, or show the options of one, its paper and when to use it.

    raters methods pixel-cm
    """
    from raters.errors import RatersError
    from raters.methods.registry import METHODS
    from raters.rows import to_json
    from raters.wording import expected_one_of

    found = [facts(name, entry) for name, entry in METHODS.items() if method in ("", name)]
    found += [fusion_facts(name, m) for name, m in FUSION.items() if method in ("", name)]
    if not found:
        known = list(dict.fromkeys([*METHODS, *FUSION]))
        raise RatersError(f"found the method {method!r}, {expected_one_of(known, method)}")
    if as_json:
        typer.echo(to_json(found[0] if method and len(found) == 1 else found))
    elif not method:
        _show_all()
    else:
        if method in METHODS:
            _show_one(method, METHODS[method])
        if method in FUSION:
            _show_fusion(method, FUSION[method])


def facts(name: str, entry: MethodEntry) -> Row:
    """Return what there is to know of a learning method as plain data."""
    from raters.methods.entry import LABELS_OF

    return {
        "name": name,
        "verb": "train",
        "about": entry.about,
        "when": entry.when,
        "paper": entry.paper or None,
        "for": [LABELS_OF[kind] for kind in entry.kinds],
        "learns_from": entry.learns_from,
        "needs": entry.needs or None,
        "costs": entry.costs,
        "fixed": dict(entry.fixed),
        "options": [_option(k, info) for k, info in entry.own_options.items()],
    }


def fusion_facts(name: str, method: Method) -> Row:
    """Return what there is to know of a fusion method as plain data."""
    options = {
        KINDS[kind]: [
            {"option": o.name, "default": o.default, "meaning": o.meaning}
            for o in method.options(kind).values()
        ]
        for kind in method.kinds
    }
    return {"name": name, "verb": "fuse", "about": method.about, "options": options}


def _option(name: str, info: FieldInfo) -> Row:
    from raters.cli.train_options import limits_of, metavar, plain_type

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
    from raters.methods.entry import LABELS_OF
    from raters.methods.registry import METHODS

    rows: list[Row] = [
        {"name": name, "about": entry.about, "for": " and ".join(LABELS_OF[k] for k in entry.kinds)}
        for name, entry in METHODS.items()
    ]
    show_rows("learning methods (raters train)", rows, most=len(rows))
    rows = [
        {"name": name, "about": method.about, "for": " and ".join(KINDS[k] for k in method.kinds)}
        for name, method in FUSION.items()
    ]
    show_rows("fusion methods (raters fuse)", rows, most=len(rows))
    typer.echo("\noptions and paper of one: raters methods NAME")


def _show_one(name: str, entry: MethodEntry) -> None:
    from raters.cli.tables import show_rows
    from raters.cli.train_options import default_of
    from raters.methods.entry import LABELS_OF

    typer.echo(wrapped(f"{name}: {entry.about}"))
    typer.echo(wrapped(f"when:  {entry.when}", indent=7))
    needs = f"; needs {entry.needs}" if entry.needs else ""
    kinds = " and ".join(LABELS_OF[kind] for kind in entry.kinds)
    learns = f"{entry.learns_from}{needs}"
    typer.echo(wrapped(f"for:   {kinds}; learns from {learns}", indent=7))
    if entry.paper:
        typer.echo(wrapped(f"paper: {entry.paper}", indent=7))
    rows = [
        {**_option(k, info), "option": f"--{k.replace('_', '-')}", "default": default_of(info)}
        for k, info in entry.own_options.items()
    ]
    show_rows("options of raters train", rows)
    typer.echo(f"\nraters train STUDY -m {name} -o run/\nall options: raters train --help")


def _show_fusion(name: str, method: Method) -> None:
    from raters.cli.tables import show_rows

    found = fusion_facts(name, method)
    typer.echo(wrapped(f"\n{name}, without images: {method.about}"))
    for what, options in found["options"].items():
        rows = [{**o, "option": f"--option {o['option']}={o['default']}"} for o in options]
        show_rows(f"options of raters fuse for {what}", [{**r, "default": None} for r in rows])
    typer.echo(f"\nraters fuse STUDY -m {name} -o consensus/")

"""`raters methods`: the learning and fusion methods, and the options of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from raters.cli.study_options import AsJson
from raters.fusion.methods import KINDS
from raters.fusion.methods import METHODS as FUSION
from raters.views import terminal

if TYPE_CHECKING:
    from raters.fusion.methods import Method
    from raters.learning.methods.entry import MethodEntry

_METHOD = "A method to show; all are listed without one."


def methods(
    method: Annotated[str, Argument(help=_METHOD, metavar="METHOD")] = "", as_json: AsJson = False
) -> None:
    """List the methods, or show the options of one, its paper and when to use it.

    raters methods pixel-cm
    """
    from raters.core.errors import one_of
    from raters.learning.methods.registry import METHODS

    found = [entry.facts(name) for name, entry in METHODS.items() if method in ("", name)]
    found += [m.facts(name) for name, m in FUSION.items() if method in ("", name)]
    if method:
        one_of({**METHODS, **FUSION}, method, "the method")
    if as_json:
        terminal.json(found[0] if method and len(found) == 1 else found)
    elif not method:
        _show_all()
    else:
        if method in METHODS:
            _show_one(method, METHODS[method])
        if method in FUSION:
            _show_fusion(method, FUSION[method])


def _show_all() -> None:
    from raters.learning.methods.entry import FIRST, LABELS_OF
    from raters.learning.methods.registry import METHODS

    listed: dict[str, tuple[Mapping[str, Any], Mapping[Any, str]]] = {
        "learning methods (raters train)": (METHODS, LABELS_OF),
        "fusion methods (raters fuse)": (FUSION, KINDS),
    }
    for title, (found, labels) in listed.items():
        rows = [
            {"name": name, "about": one.about, "for": " and ".join(labels[k] for k in one.kinds)}
            for name, one in found.items()
        ]
        terminal.rows(title, rows, most=len(rows))
    heads = ("you have", "raters fuse", "raters train")
    terminal.rows("which to take first", [dict(zip(heads, row, strict=True)) for row in FIRST])
    typer.echo("\nwhen to take one, its options and paper: raters methods NAME")


def _show_one(name: str, entry: MethodEntry) -> None:
    from raters.learning.methods.entry import LABELS_OF
    from raters.learning.methods.fields import default_of, described

    terminal.text(f"{name}: {entry.about}")
    terminal.text(f"when:  {entry.when}", indent=7)
    needs = f"; needs {entry.needs}" if entry.needs else ""
    kinds = " and ".join(LABELS_OF[kind] for kind in entry.kinds)
    learns = f"{entry.learns_from}{needs}"
    terminal.text(f"for:   {kinds}; learns from {learns}", indent=7)
    if entry.paper:
        terminal.text(f"paper: {entry.paper}", indent=7)
    rows = [
        {**described(k, info), "option": f"--{k.replace('_', '-')}", "default": default_of(info)}
        for k, info in entry.own_options.items()
    ]
    terminal.rows("options of raters train", rows)
    typer.echo(f"\nraters train STUDY -m {name} -o run/\nall options: raters train --help")


def _show_fusion(name: str, method: Method) -> None:
    typer.echo()
    images = "with images" if method.images else "without images"
    terminal.text(f"{name}, {images}: {method.about}")
    terminal.text(f"when:  {method.when}", indent=7)
    for what, options in method.facts(name)["options"].items():
        rows = [{**o, "option": f"--option {o['option']}={o['default']}"} for o in options]
        terminal.rows(f"options of raters fuse for {what}", terminal.without(("default",), rows))
    typer.echo(f"\nraters fuse STUDY -m {name} -o consensus/")

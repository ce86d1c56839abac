"""Writes the tables of options into the pages, from the registries and the commands themselves.

A page asks for a table by a comment, `<!-- table: learning pixel-cm -->`, and has it up to
`<!-- end -->`. `python docs/make_tables.py` brings all pages up to date; a test compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raters.rows import to_markdown

DOCS = Path(__file__).parent
_HEADER = ["option", "default", "meaning"]
TABLE = re.compile(r"<!-- table: ([^\n]+?) -->\n.*?<!-- end -->", re.DOTALL)


def learning_options(name: str) -> str:
    """Return the options of a learning method, as `raters methods NAME` shows them."""
    from raters.cli.methods import facts
    from raters.cli.train_options import default_of
    from raters.methods.registry import METHODS

    entry = METHODS[name]
    rows = [
        [f"`{o['option']}`", str(o["type"]), default_of(info) or "", str(o["meaning"])]
        for o, info in zip(facts(name, entry)["options"], entry.own_options.values(), strict=True)
    ]
    return to_markdown(["option", "type", "default", "meaning"], rows) if rows else _none(name)


def fusion_options(name: str, kind: str) -> str:
    """Return the options of a fusion method for masks or tables, by its signature and docstring."""
    from raters.fusion.methods import METHODS

    found = METHODS[name].options({"masks": "segmentation", "tables": "classification"}[kind])
    rows = [[f"`{o.name}`", f"`{o.default}`", o.meaning] for o in found.values()]
    return to_markdown(_HEADER, rows) if rows else _none(name)


def _none(name: str) -> str:
    return f"`{name}` has no options of its own.\n"


def commands() -> dict[str, Any]:
    """Return all verbs of the command line as click commands."""
    import typer

    from raters.cli import app, train_command

    verbs: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    return {**verbs, "train": train_command()}


def list_of_verbs() -> str:
    """Return one row per verb."""
    rows = [
        [f"[`raters {n}`](#raters-{n})", inspect.cleandoc(c.help or "").split("\n\n")[0]]
        for n, c in commands().items()
    ]
    return to_markdown(["verb", "what it does"], rows)


def verb_options(name: str) -> str:
    """Return the arguments and options of a verb, but for those that say how to read a study."""
    shared, all_of_it = _study_options(), commands()[name].params
    own = [p for p in all_of_it if _what(p) not in shared and p.name != "help"]
    text = to_markdown(_HEADER, map(_parameter, own)) if own else ""
    takes = len(all_of_it) - len(own) > len(shared) / 2
    more = "and [all that say how to read a study](#how-a-study-is-read).\n" if takes else ""
    return "\n".join(part for part in (text, more) if part)


def study_options() -> str:
    """Return the options that say how to read a study."""
    shared = _study_options()
    found = [p for p in commands()["agree"].params if _what(p) in shared]
    return to_markdown(_HEADER, map(_parameter, found))


def _study_options() -> set[tuple[str, str]]:
    """Return names and meanings: a verb may give another meaning to one of the names."""
    from raters.cli.study_options import open_study

    names = inspect.signature(open_study).parameters
    return {_what(p) for p in commands()["agree"].params if p.name in names}


def _what(parameter: Any) -> tuple[str, str]:  # noqa: ANN401
    return parameter.name, getattr(parameter, "help", "") or ""


def _parameter(parameter: Any) -> list[str]:  # noqa: ANN401
    names = [*parameter.opts, *parameter.secondary_opts]
    shown = (
        names
        if parameter.param_type_name == "option"
        else [parameter.metavar or parameter.name.upper()]
    )
    default = "" if callable(parameter.default) else parameter.default
    hidden = default is None or default is False or default in ("", [], ()) or parameter.required
    help_text = re.sub(r"\\\[", "[", getattr(parameter, "help", "") or "")
    return [", ".join(f"`{n}`" for n in shown), "" if hidden else f"`{default}`", help_text]


MAKERS: dict[str, Callable[..., str]] = {
    "learning": learning_options,
    "fusion": fusion_options,
    "verbs": list_of_verbs,
    "verb": verb_options,
    "study": study_options,
}


def renewed(text: str) -> str:
    """Return a page with all its tables up to date."""

    def table(match: re.Match[str]) -> str:
        kind, *words = match[1].split()
        return f"<!-- table: {match[1]} -->\n\n{MAKERS[kind](*words)}\n<!-- end -->"

    return TABLE.sub(table, text)


def main() -> None:
    """Bring all pages up to date."""
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = renewed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(DOCS)} renewed\n")


if __name__ == "__main__":
    main()

"""Writes the tables of options into the pages, from the registries and the commands themselves.

A page asks for a table by a comment, `<!-- table: learning pixel-cm -->`, and has it up to
`<!-- end -->`. Results of benchmarks are quoted as `raters_bench.pages` says and have pages in
`results/`. `python docs/make_tables.py` brings all pages up to date; a test compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raters.io.rows import to_markdown

if TYPE_CHECKING:
    from raters_bench.pages import Reader

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
SITE = DOCS.parent / "mkdocs.yml"
RESULTS = DOCS / "results"
NAV = re.compile(r"( +)# benchmarks: python docs/make_tables.py\n.*?\1# end\n", re.DOTALL)
_HEADER = ["option", "default", "meaning"]
TABLE = re.compile(r"<!-- table: ([^\n]+?) -->\n.*?<!-- end -->", re.DOTALL)


def learning_options(name: str) -> str:
    """Return the options of a learning method, as `raters methods NAME` shows them."""
    from raters.learning.methods.fields import default_of
    from raters.learning.methods.registry import METHODS

    entry = METHODS[name]
    rows = [
        [f"`{o['option']}`", str(o["type"]), default_of(info) or "", str(o["meaning"])]
        for o, info in zip(entry.facts(name)["options"], entry.own_options.values(), strict=True)
    ]
    return to_markdown(["option", "type", "default", "meaning"], rows) if rows else _none(name)


_GIVES = {
    "truth": "truth",
    "as_rater": "as each rater",
    "confusion": "matrices",
    "samples": "samples",
    "weights": "any weighting of raters",
    "fusion": "fusion with labels",
    "recurrences": "each recurrence",
}


def learning_methods() -> str:
    """Return one row per learning method: what it takes, learns from, needs, gives and costs."""
    from raters.learning.methods.entry import LABELS_OF
    from raters.learning.methods.registry import METHODS

    pages = {name: page.name for page in DOCS.glob("methods/*.md") for name in _learning_in(page)}
    rows = [
        [
            f"[`{name}`]({pages[name]})" if name in pages else f"`{name}`",
            ", ".join(LABELS_OF[kind] for kind in entry.kinds),
            entry.learns_from,
            "; ".join(filter(None, [entry.needs, _raters(entry.least_raters)])),
            ", ".join(said for answer, said in _GIVES.items() if answer in entry.answers),
            entry.costs,
            entry.paper,
        ]
        for name, entry in METHODS.items()
    ]
    header = ["method", "for", "learns from", "needs", "gives", "costs of a step", "paper"]
    return to_markdown(header, rows)


def _learning_in(page: Path) -> list[str]:
    return re.findall(r"<!-- table: learning (\S+) -->", page.read_text(encoding="utf-8"))


def _raters(least: int) -> str:
    return f"{least} raters" if least > 1 else ""


def fusion_options(name: str, kind: str) -> str:
    """Return the options of a fusion method for masks or tables, by its signature and docstring."""
    from raters.fusion.methods import METHODS

    found = METHODS[name].options({"masks": "segmentation", "tables": "classification"}[kind])
    rows = [[f"`{o.name}`", f"`{o.default}`", o.meaning] for o in found.values()]
    return to_markdown(_HEADER, rows) if rows else _none(name)


def _none(name: str) -> str:
    return f"`{name}` has no options of its own.\n"


def commands() -> dict[str, Any]:
    """Return all verbs of the command line as click commands; those of a group with its name."""
    from raters.cli import all_commands

    found: dict[str, Any] = {}
    for name, command in all_commands().items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {k}": c for k, c in inner.items()} if inner else {name: command}
    return found


def list_of_verbs() -> str:
    """Return one row per verb."""
    rows = [
        [f"[`raters {n}`](#{_anchor(n)})", inspect.cleandoc(c.help or "").split("\n\n")[0]]
        for n, c in commands().items()
    ]
    return to_markdown(["verb", "what it does"], rows)


def _anchor(verb: str) -> str:
    return f"raters {verb}".replace(" ", "-")


def verb_options(*words: str) -> str:
    """Return the arguments and options of a verb, but for those that say how to read a study."""
    shared = _study_options()
    all_of_it = commands()[" ".join(words)].params
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
    from raters.cli.study_options import USUAL

    return {_what(p) for p in commands()["agree"].params if p.name in USUAL}


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


def advice(kind: str, truth: str = "truth") -> str:
    """Return what a choice without truth was worth in simulated studies."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("advice", DOCS.parent / "benchmarks" / "advice.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.table(kind, truth))


MAKERS: dict[str, Callable[..., str]] = {
    "advice": advice,
    "learning": learning_options,
    "methods": learning_methods,
    "fusion": fusion_options,
    "verbs": list_of_verbs,
    "verb": verb_options,
    "study": study_options,
}


def renewed(text: str, read: Reader) -> str:
    """Return a page with all its tables and quotes up to date."""
    from raters_bench.pages import quoted

    def table(match: re.Match[str]) -> str:
        kind, *words = match[1].split()
        return f"<!-- table: {match[1]} -->\n\n{MAKERS[kind](*words)}\n<!-- end -->"

    return quoted(TABLE.sub(table, text), read)


def pages(read: Reader) -> dict[Path, str]:
    """Return all that is made here, as it should be, by its file."""
    from raters_bench.pages import pages as result_pages

    results = {RESULTS / name: text for name, text in result_pages(read).items()}
    others = [p for p in (README, *sorted(DOCS.rglob("*.md"))) if p.parent != RESULTS]
    site = SITE.read_text(encoding="utf-8")
    return {
        **{page: renewed(page.read_text(encoding="utf-8"), read) for page in others},
        **results,
        SITE: NAV.sub(lambda match: _nav(match[1], [page.stem for page in results]), site),
    }


def _nav(indent: str, names: list[str]) -> str:
    lines = [f"- {name}: results/{name}.md" for name in names if name != "index"]
    listed = ["# benchmarks: python docs/make_tables.py", *lines, "# end"]
    return "".join(f"{indent}{line}\n" for line in listed)


def draw(read: Reader) -> list[Path]:
    """Draw the benchmarks whose results have changed; return the files."""
    from raters_bench.pages import all_committed
    from raters_bench.plot import digest_of_plot, drawn_digest, write_plot

    drawn = []
    for name, found in all_committed(read).items():
        path = RESULTS / f"{name}.png"
        if found is not None and digest_of_plot(path) != drawn_digest(found):
            drawn.append(write_plot(found, path))
    return drawn


def main() -> None:
    """Bring all pages up to date."""
    from raters_bench.pages import reader

    read = reader(RESULTS)
    for path in draw(read):
        sys.stdout.write(f"{path.relative_to(DOCS)} drawn\n")
    for page, after in pages(read).items():
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        if after != before:
            page.parent.mkdir(exist_ok=True)
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(DOCS.parent)} renewed\n")


if __name__ == "__main__":
    main()

"""Sentences of reports: the macros of `sentences*.jinja`, fed with plain data; names are links.

`say("draws_more", more=..., less=...)` gives `Markup`: names in it are escaped, and open what they
name (`#case=NAME`, `#rater=NAME`). Put pieces together with `joined` or in the template: an
f-string would make plain text of them, links and all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from raters.core.wording import ALL_RATERS, many
from raters.io.plain_yaml import load_plain
from raters.version import __version__

_NAMED = 3
_LONGEST = 40
_OWN_WORDS = re.compile(r"((?:<[^>]*>)*)(rater |class |case |task |all raters)")


def say(sentence: str, /, **values: Any) -> Markup:  # noqa: ANN401
    """Return a sentence of the template, its spaces made single.

    Example:
        >>> say("undecided", undecided=0, bare=2, tasks=10)
        Markup('2 of 10 tasks have no label.')
    """
    return one_line(_sentences()[sentence](**values))


def one_line(text: object) -> Markup:
    """Return what a macro made with its spaces and ends of lines made single."""
    return Markup(" ".join(str(text).split()))


@cache
def texts() -> dict[str, Any]:
    """Return `texts.yaml`: what sections, tables and figures say, by key."""
    return dict(load_plain(files("raters.views.texts").joinpath("texts.yaml").read_text("utf-8")))


def text_of(key: str, part: str, **values: Any) -> Markup:  # noqa: ANN401
    """Return a part ('title', 'about', 'caption') of an entry of `texts.yaml`; '' without one."""
    return filled_in(texts().get(key, {}).get(part, ""), **values)


def filled_in(text: str, **values: Any) -> Markup:  # noqa: ANN401
    """Render a text of `texts.yaml`."""
    found = templates().from_string(text).render(**values) if "{" in text else str(escape(text))
    return Markup(" ".join(found.split()))


def joined(*texts: str, by: str = " ") -> Markup:
    """Join sentences (or paragraphs, by an empty line); empty ones are left out, plain escaped."""
    return Markup(by).join(text for text in texts if text)


def sentence(note: str) -> str:
    """Return a note as a sentence.

    Example:
        >>> sentence("two cases  were left out")
        'Two cases were left out.'
    """
    text = " ".join(note.split())
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def plain(text: str) -> str:
    """Return a text without its links.

    Example:
        >>> plain(link("a<b")), plain("1 < 2")
        ('a<b', '1 < 2')
    """
    return text.striptags() if isinstance(text, Markup) else text


def named(name: object, what: str = "rater") -> str:
    """Return a name that fits into a sentence; a number says what it is the name of.

    Example:
        >>> named("ann"), named("7"), named("3", "class")
        ('ann', 'rater 7', 'class 3')
    """
    text = " ".join(str(name).split()) or "(no name)"
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{what} {text}" if re.fullmatch(r"[\d.,-]+", text) else text


def address(name: object, kind: str) -> str:
    """Return the part of the page's address that opens a case or a rater, or the file of a sheet.

    Example:
        >>> address("a b", "case"), address("a b.html", "sheet")
        ('#case=a%20b', 'sheets/a%20b.html')
    """
    front = "sheets/" if kind == "sheet" else f"#{kind}="
    return f"{front}{quote(str(name), safe='', errors='replace')}"


def link(name: object, kind: str = "rater", what: str | None = None) -> Markup:
    """Return a name as a link that opens a case or a rater; `what` stands before a number."""
    if name == ALL_RATERS:
        return escape(name)
    shown = named(name, kind if what is None else what).lstrip()
    return Markup('<a href="{}">{}</a>').format(address(name, kind), shown)


def percent(share: float) -> str:
    """Return a share in per cent.

    Example:
        >>> percent(0.253), percent(0.004), percent(0)
        ('25 %', '0.4 %', '0 %')
    """
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.0f} %"


def between(low: float, high: float) -> str:
    """Return two numbers, or one where they are written alike.

    Example:
        >>> between(0.871, 0.889), between(0.999, 1.0)
        ('0.87 to 0.89', '1.00')
    """
    return " to ".join(dict.fromkeys((f"{low:.2f}", f"{high:.2f}")))


def begin(text: str) -> Markup:
    """Begin a sentence with a capital, unless it begins with a name.

    Example:
        >>> print(begin("rater 7 draws less."), begin("ann draws less."))
        Rater 7 draws less. ann draws less.
    """
    escaped = escape(text)
    found = _OWN_WORDS.match(escaped)
    if not found:
        return escaped
    at = found.start(2)
    return Markup(escaped[:at] + escaped[at].upper() + escaped[at + 1 :])


def together(parts: Sequence[object], most: int = _NAMED) -> Markup:
    """List parts of a sentence; only the first ones if there are many.

    Example:
        >>> print(together(["a"]), together("abc"), together("abcde"), sep="; ")
        a; a, b and c; a, b, c and 2 more
    """
    shown = list(parts)
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    *others, last = map(escape, shown)
    return Markup(" and ").join([Markup(", ").join(others), last]) if others else last


@cache
def templates() -> Environment:
    """Return the templates of the page; names in them are escaped."""
    found = Environment(
        loader=PackageLoader("raters", "views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "rater": link,
        "case": lambda name: link(name, "case"),
        "task": lambda name: link(name, "case", "task"),
        "bare": lambda name: link(name, "case", ""),
        "class": lambda name: named(name, "class"),
        "percent": percent,
        "two": lambda number: f"{number:.2f}",
        "commas": lambda number: f"{number:,}",
        "begin": begin,
        "together": together,
        "many": many,
        "address": address,
    }
    found.globals["between"] = between
    own = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    found.policies["json.dumps_kwargs"] = own
    return found


def filled_page(template: str, **values: Any) -> str:  # noqa: ANN401
    """Return a page; names of files in it may hold bytes that are no text."""
    return as_text(templates().get_template(template).render(version=__version__, **values))


def as_text(name: str) -> str:
    """Return a name as text that any system takes: names of files may hold bytes that are none."""
    return name.encode("utf-8", "replace").decode("utf-8")


@cache
def _sentences() -> dict[str, Any]:
    names = ("texts/sentences.jinja", "texts/sentences_run.jinja")
    return macros_of(names)


def macros_of(names: Sequence[str], loader: BaseLoader | None = None) -> dict[str, Any]:
    """Return the macros of some templates by name.

    Args:
        names: The names of the templates.
        loader: Where they are; by default among those of `raters`.
    """
    # Ends of lines are spaces there; `say` makes them single.
    environment = templates().overlay(trim_blocks=False)
    if loader is not None:
        environment.loader = loader
    macros: dict[str, Any] = {}
    for name in names:
        macros |= vars(environment.get_template(name).module)
    return macros

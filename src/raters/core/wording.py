"""Reports what is wrong with options and files in our own words: 'found X, expected Y'."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T")

ALL_RATERS = "all raters"
"""The name of all raters together, where they are anonymous."""
MOST_LISTED = 12
"""Words that are listed one by one; of more, only the nearest is named."""

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LIMITS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "yes or no",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "keys and values",
    "model": "keys and values",
    "none": "nothing",
}


def worded(error: ValidationError) -> str:
    """Report in one sentence what was found first and what was expected.

    Example:
        >>> from pydantic import BaseModel, Field
        >>> class Options(BaseModel):
        ...     epochs: int = Field(3, ge=1)
        >>> try:
        ...     Options(epochs=0)
        ... except ValueError as error:
        ...     worded(error)
        'found epochs=0, expected 1 or more'
    """
    found = error.errors(include_url=False)
    first = found[0]
    name = _name(first["loc"])
    if first["type"] == "missing":
        return f"found no {name}, expected it"
    if first["type"] == "extra_forbidden":
        return f"found the unknown key {name!r}, expected none of this name"
    # What may be one thing or another is rejected once for each.
    same = [_expected(one) for one in found if _name(one["loc"]) == name]
    shown = _shown(first["input"])
    what = f"{name}={shown}" if name else shown
    return f"found {what}, expected {' or '.join(dict.fromkeys(same))}"


def _expected(error: Mapping[str, Any]) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if kind in _LIMITS:
        limit, words = _LIMITS[kind]
        return words.format(f"{context[limit]:g}")
    if kind == "literal_error":
        words = str(context["expected"])
        several = " or " in words  # quotes are of no use in a list of words
        return re.sub(r"'([^']*)'", r"\1", words) if several else words
    if kind == "int_from_float":
        return "a whole number"
    start = re.sub(r"_(type|parsing|parsing_size|attributes_type)$", "", kind)
    plain = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    return _KINDS.get(start, plain[:1].lower() + plain[1:])


def _name(place: tuple[int | str, ...]) -> str:
    """Return the name of a field, without the alternatives that were tried for it."""
    parts = [str(part) for part in place if "[" not in str(part)]
    while len(parts) > 1 and parts[-1] in ("int", "str", "float", "bool"):
        parts.pop()
    while len(parts) > 1 and parts[-1].isdigit():
        parts.pop()
    return ".".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[^\s,=]{1,60}", value):
        return cut_text(value, 60)
    return cut_text(repr(value), 60)


def cut_text(text: str, most: int) -> str:
    """Return the start of a text that is too long.

    Example:
        >>> cut_text("a long text", 11), cut_text("a long text", 10)
        ('a long text', 'a long ...')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    r"""Return a text with its control characters written out, so that no name steers a terminal.

    Line breaks stay; escape sequences, and marks that turn the direction of writing, do not.

    Example:
        >>> printable("ann\x1b[2J"), printable("Jürgen\nK.")
        ('ann\\x1b[2J', 'Jürgen\nK.')
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def expected_one_of(known: Iterable[str], found: str) -> str:
    """List the words that are known, or, of many, the one that is nearest to what was found.

    Example:
        >>> expected_one_of(["epochs", "seed"], "epoch")
        "expected one of epochs, seed; did you mean 'epochs'?"
        >>> expected_one_of([*map(str, range(90)), "epochs"], "epoch")
        "expected a known one; did you mean 'epochs'?"
    """
    listed = list(known)
    if not listed:
        return "expected none"
    close = get_close_matches(str(found), listed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    if close and len(listed) > MOST_LISTED:
        return f"expected a known one{hint}"
    return f"expected one of {listing(listed, MOST_LISTED)}{hint}"


def listing(items: Sequence[T], most: int = 20, form: Callable[[T], str] = str) -> str:
    """Return the first of some things, and how many more there are.

    Example:
        >>> listing(["a", "b"], most=5), listing(range(1500), most=2, form=repr)
        ('a, b', '0, 1 and 1,498 more')
    """
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(map(form, items[:most])) + more


def first_repeated(items: Iterable[T]) -> T | None:
    """Return the first thing that was there before; None if each is there once.

    Example:
        >>> first_repeated("abcb"), first_repeated("abc")
        ('b', None)
    """
    seen: set[T] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def first_difference(there: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return where two sets of options differ first, as JSON has it; of parts, in which key.

    Example:
        >>> first_difference({"a": 1, "train": {"epochs": 2}}, {"a": 1, "train": {"epochs": 5}})
        'train epochs 2 there, 5 now'
        >>> first_difference({"a": 1, "old": 2}, {"a": 1})
        'old 2 there, null now'
    """
    for key in (*now, *there):
        old = there.get(key)
        new = now.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = next(k for k in (*new, *old) if old.get(k) != new.get(k))
            key = f"{key} {inner}"
            old = old.get(inner)
            new = new.get(inner)
        return f"{key} {_as_json(old)} there, {_as_json(new)} now"
    return "written by another version"


def _as_json(value: object) -> str:
    return cut_text(json.dumps(value, ensure_ascii=False), 80)


def many(number: int, what: str) -> str:
    """Return a number with its noun: '1 case', '3 cases', '1,000 classes'."""
    ending = ""
    if number != 1:
        ending = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{ending}"


def duration(seconds: float) -> str:
    """Return a time in words.

    Example:
        >>> duration(0.5), duration(75), duration(5400)
        ('0.5 s', '75 s', '1 h 30 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours = f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if minutes < 60 else hours


def file_size(size: int) -> str:
    """Return a size as people say it.

    Example:
        >>> file_size(512), file_size(2_340_000)
        ('1 kB', '2.3 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(round(size / 1e3), 1)} kB"

"""Makes docstrings fit the site: examples and formulas become code (no script is fetched)."""

from __future__ import annotations

import re
from typing import Any

import griffe

_MATH = re.compile(r"^( *)\.\. math::[ \n]*((?:.+\n?)+)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Changes the text of each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = fitting(obj.docstring.value)


def fitting(text: str) -> str:
    """Return 'Example:' the name that the parser knows, and write formulas as code."""
    text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
    text = re.sub(r":math:`", "`", text)
    return _MATH.sub(_as_code, text)


def _as_code(match: re.Match[str]) -> str:
    lines = ["```text", *(line.strip() for line in match[2].strip().splitlines()), "```"]
    return "".join(f"{match[1]}{line}\n" for line in lines)

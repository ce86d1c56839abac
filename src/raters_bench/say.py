"""Sentences of pages of benchmarks, made from plain data (`sentences.jinja`)."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from raters.views.texts.say import macros_of, one_line


def say(sentence: str, /, **values: Any) -> Markup:  # noqa: ANN401
    """Return a sentence of the template, its spaces made single.

    Example:
        >>> str(say("bench_next", name="lidc", left=1))[:28]
        'Run the cell that is missing'
    """
    return one_line(_sentences()[sentence](**values))


@cache
def _sentences() -> dict[str, Any]:
    return macros_of(["sentences.jinja"], PackageLoader("raters_bench", "."))

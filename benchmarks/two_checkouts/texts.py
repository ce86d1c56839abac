"""Texts as they are compared: whole, without what is another in every run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

MEASURED = re.compile(
    r"seconds|cpu_seconds|waiting|peak_memory_mb|checksum|versions?|raters_version"
)
"""Keys and columns that are left out: they are another in every run, or in every version.

- seconds, cpu_seconds: times that this run took.
- waiting: the share of this time in which training waited for data.
- peak_memory_mb: of a process, in results of benchmarks.
- checksum: of a result of a benchmark, with its seconds and memory; it is checked where results
  are read again.
- version, versions, raters_version: of raters and libraries; a new version is no other result.
"""

_NUMBER = r"\b\d+(?:,\d{3})*(?:\.\d+)?"
_CHANGING = {
    # Lines about epochs and their summary.
    r"\b(seconds|waiting) \d[\d.e-]*": r"\1 NUMBER",
    r"\bwaited for data \d+ % of the time": "waited for data",
    # What `train --dry-run` expects of this machine at this time.
    r"^memory +about [\d.]+ [GM]B": "memory NUMBER",
    # Speeds; then a time of day; then a duration, as `raters.core.wording.duration` words it.
    r"\b\d[\d,.]*(e[+-]?\d+)? (\w+)/s\b": r"NUMBER \2/s",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?": "TIME",
    _NUMBER + r" h \d+ min\b": "DURATION",
    _NUMBER + r" (ms|s|min|h|seconds?|minutes?|hours?)\b": "DURATION",
    r"\braters \d+\.\d+\.\d+[\w.+]*": "raters VERSION",
    # A program of torch holds the names of the modules that it came from.
    r"\.pt2: \d+ kB": ".pt2: SIZE",
}
_ATTRIBUTES = ("alt", "aria-label", "content", "data-name", "href", "placeholder", "title", "value")
_ENDLESS = ("area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr")


class Cleaner:
    """Replaces what is another in every run: paths of this comparison, times and versions.

    Args:
        paths: Folders of the comparison, with the word that takes the place of each.
    """

    def __init__(self, paths: Iterable[tuple[Path, str]]) -> None:
        # The longest first: a folder may be inside another.
        ordered = sorted(paths, key=lambda item: -len(str(item[0])))
        self.replacements = [
            *((re.compile(re.escape(str(path))), word) for path, word in ordered),
            *((re.compile(pattern), word) for pattern, word in _CHANGING.items()),
        ]

    def clean(self, text: str) -> str:
        """Return a text without them."""
        for pattern, word in self.replacements:
            text = pattern.sub(word, text)
        return text


def page_text(html: str) -> list[str]:
    """Return what a page says: its texts and labels in order, without tags, styles and scripts.

    Data for the scripts (JSON) are part of it. Columns of measured times are left out.
    """
    parser = _PageText()
    parser.feed(html)
    parser.close()
    return parser.lines


class _PageText(HTMLParser):
    """Collects the texts of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self._open: list[str] = []
        self._is_data = False
        self._data = ""
        self._heads: list[str] = []
        self._column = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note labels, and where in a table we are."""
        if tag not in _ENDLESS:
            self._open.append(tag)
        self._is_data = tag == "script" and ("type", "application/json") in attrs
        if tag == "table":
            self._heads = []
        elif tag == "th":
            self._heads.append("")
        elif tag == "tr":
            self._column = 0
        elif tag == "td":
            self._column += 1

        is_policy = tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs
        if is_policy:
            return  # the hash of the script
        for name, value in attrs:
            if name in _ATTRIBUTES and value:
                self.lines.append(f"{tag} {name}: {value}")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element, and those in it that were not closed; keep the data of a script."""
        if tag == "script" and self._data:
            content = without_measured(json.loads(self._data))
            self.lines.append(json.dumps(content, sort_keys=True))
            self._data = ""
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Keep a text, or the data of a script."""
        text = " ".join(data.split())
        if not text or "style" in self._open:
            return
        if "script" in self._open:
            if self._is_data:
                self._data += data  # the parser may give it in parts
            return
        if "th" in self._open and self._heads:
            self._heads[-1] += text
        if "td" in self._open and self._is_measured():
            return
        self.lines.append(text)

    def _is_measured(self) -> bool:
        column = self._column - 1
        return column < len(self._heads) and is_measured(self._heads[column])


def is_measured(name: str) -> bool:
    """Whether a key or column holds a time, a date or a version."""
    return MEASURED.fullmatch(name) is not None


def without_measured(content: Any) -> Any:  # noqa: ANN401
    """Return plain data without what is measured, in dictionaries and in tables of a page."""
    if isinstance(content, list):
        return [without_measured(value) for value in content]
    if not isinstance(content, dict):
        return content
    if set(content) >= {"columns", "rows"}:
        content = _without_measured_columns(content)
    return {k: without_measured(v) for k, v in content.items() if not is_measured(str(k))}


def _without_measured_columns(table: dict[str, Any]) -> dict[str, Any]:
    kept = [k for k, name in enumerate(table["columns"]) if not is_measured(str(name))]
    if len(kept) == len(table["columns"]):
        return table
    rows = [[row[k] for k in kept] for row in table["rows"]]
    return {**table, "columns": [table["columns"][k] for k in kept], "rows": rows}

"""Names as they are shown in figures: literally, in one line, and not too long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from matplotlib import font_manager

_MOST = 24

_FIRST = "DejaVu Sans"  # comes along with matplotlib
_OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans Symbols2",
    "Noto Emoji",
    "Symbola",
)


def shown(name: object, most: int = _MOST) -> str:
    r"""Return a name as text for matplotlib that is drawn as it was written.

    Dollars would start a formula, so they are escaped. Breaks of lines become spaces, a letter
    that no font here has becomes its number, and long names lose their middle.

    Example:
        >>> shown("$x_1$ & <b>")
        '\\$x_1\\$ & <b>'
        >>> shown("reader of the second hospital, 2nd session", most=20)
        'reader of…nd session'
        >>> shown("no \U0001F9FF font")
        'no [U+1F9FF] font'
    """
    text = " ".join("".join(_drawable(c) for c in str(name)).split())
    if len(text) > most:
        head = (most - 1) // 2
        text = f"{text[:head].rstrip()}…{text[head + 1 - most :].lstrip()}"
    return text.replace("$", r"\$")


def all_shown(names: Iterable[object], most: int = _MOST) -> list[str]:
    """Return all names as `shown` does."""
    return [shown(name, most) for name in names]


@cache
def families() -> tuple[str, ...]:
    """Return the fonts to draw with: that of matplotlib, then those installed for other scripts."""
    installed = set(font_manager.fontManager.get_font_names())
    return (_FIRST, *(name for name in _OTHERS if name in installed))


@cache
def _letters() -> frozenset[int]:
    """Return the letters that one of the fonts has."""
    files = [font_manager.findfont(name) for name in families()]
    return frozenset(c for file in files for c in font_manager.get_font(file).get_charmap())


def _drawable(character: str) -> str:
    if not character.isprintable():
        return " "
    return character if ord(character) in _letters() else f"[U+{ord(character):04X}]"

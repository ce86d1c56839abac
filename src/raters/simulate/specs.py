"""Reads whom to simulate: 'good,over:2.5,under@0.7,5xhammer-spammer:0.3'."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from raters.errors import RatersError

_SPEC = re.compile(
    r"(?:(?P<name>[^=]+)=)?(?:(?P<times>[0-9]+)x)?(?P<kind>[A-Za-z][A-Za-z-]*)"
    r"(?:(?P<sign>[:@])(?P<number>[0-9.eE+-]+))?"
)

MOST = 100_000
"""Raters of one kind."""
_DIGITS = 10


@dataclass(frozen=True)
class Spec:
    """One rater to simulate.

    Attributes:
        name: The rater's name in the study.
        kind: The way to err: a name of `DRAWERS` or of `KINDS`.
        amount: The severity of a drawer, or the skill of a class rater; None if not said.
        mean_dice: The mean Dice against the truth to reach; None if not said.
    """

    name: str
    kind: str
    amount: float | None = None
    mean_dice: float | None = None


def parse_raters(text: str) -> tuple[Spec, ...]:
    """Read a list of raters, separated by commas: `[name=][times x]kind[:amount | @mean Dice]`.

    Names are by default the kinds; where one is repeated it is numbered.

    Raises:
        RatersError: that names the part that cannot be read.

    Example:
        >>> [spec.name for spec in parse_raters("good,over:2.5,over@0.7,ann=under")]
        ['good', 'over', 'over2', 'ann']
        >>> parse_raters("over:2.5")
        (Spec(name='over', kind='over', amount=2.5, mean_dice=None),)
        >>> [spec.name for spec in parse_raters("3xhammer-spammer:0.3")]
        ['hammer-spammer', 'hammer-spammer2', 'hammer-spammer3']
    """
    specs = [spec for part in text.split(",") for spec in _parse(part.strip())]
    return unique_names(specs)


def unique_names(specs: list[Spec]) -> tuple[Spec, ...]:
    """Number repeated names: over, over2, over3."""
    used: set[str] = set()
    last: dict[str, int] = {}
    named = []
    for spec in specs:
        name, number = spec.name, last.get(spec.name, 1)
        while name in used:
            number += 1
            name = f"{spec.name}{number}"
        last[spec.name] = number
        used.add(name)
        named.append(replace(spec, name=name))
    return tuple(named)


def _parse(part: str) -> list[Spec]:
    found = _SPEC.fullmatch(part)
    amount = _number(found["number"]) if found and found["number"] else None
    if found is None or (found["number"] and amount is None) or found["times"] == "0":
        raise RatersError(
            f"found the rater {part!r}, expected a kind, 'kind:severity' or 'kind@mean-Dice', "
            "as in 'good,over:2.5,under@0.7'"
        )
    times = int(found["times"] or 1) if len(found["times"] or "") < _DIGITS else MOST + 1
    if times > MOST:
        raise RatersError(f"found {found['times']} raters in {part!r}, expected at most {MOST:,}")
    kind, is_dice = found["kind"], found["sign"] == "@"
    name = (found["name"] or kind).strip()
    spec = Spec(name, kind, None if is_dice else amount, amount if is_dice else None)
    return [spec] * times


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

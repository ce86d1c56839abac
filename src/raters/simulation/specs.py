"""Reads whom to simulate ('good,over:2.5,under@0.7,5xhammer-spammer:0.3'), and who labels what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from raters.core.arrays import Flags, Floats
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters.study.annotations import Annotation

_SPEC = re.compile(
    r"(?:(?P<name>[^=]+)=)?(?:(?P<times>[0-9]+)x)?(?P<kind>[A-Za-z][A-Za-z-]*[0-9]*)"
    r"(?::(?P<amount>[0-9.eE+-]+))?(?:@(?P<share>[0-9.eE+-]+))?"
)

COARSE: dict[str, tuple[Annotation, ...]] = {
    "positive": ("positive",),
    "negative": ("negative",),
    "scribble": ("scribble",),
    "box": ("box",),
    **{f"level{k}": ("positive", "negative") for k in range(1, 6)},
}
"""Kinds of raters who do not draw masks, and what each hands in."""

MOST = 100_000
"""Raters of one kind."""
_DIGITS = 10


@dataclass(frozen=True)
class Spec:
    """One rater to simulate.

    Attributes:
        name: The rater's name in the study.
        kind: The way to err: a name of `DRAWERS`, of `COARSE` or of `KINDS`.
        amount: The severity of a drawer, or the skill of a class rater; None if not said.
        mean_dice: The mean Dice against the truth to reach; None if not said.
        share: The part of its area that a coarse drawing keeps; None if not said.
    """

    name: str
    kind: str
    amount: float | None = None
    mean_dice: float | None = None
    share: float | None = None


def parse_raters(text: str) -> tuple[Spec, ...]:
    """Read a list of raters, separated by commas: `[name=][times x]kind[:amount | @mean Dice]`.

    Kinds of `COARSE` are `kind[:amount][@share of the area]`. Names are by default the kinds; where
    one is repeated it is numbered.

    Raises:
        RatersError: that names the part that cannot be read.

    Example:
        >>> [spec.name for spec in parse_raters("good,over:2.5,over@0.7,ann=under")]
        ['good', 'over', 'over2', 'ann']
        >>> parse_raters("over:2.5")
        (Spec(name='over', kind='over', amount=2.5, mean_dice=None, share=None),)
        >>> parse_raters("positive:2@0.5")
        (Spec(name='positive', kind='positive', amount=2.0, mean_dice=None, share=0.5),)
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
        name = spec.name
        number = last.get(spec.name, 1)
        while name in used:
            number += 1
            name = f"{spec.name}{number}"
        last[spec.name] = number
        used.add(name)
        named.append(replace(spec, name=name))
    return tuple(named)


def _parse(part: str) -> list[Spec]:
    found = _SPEC.fullmatch(part)
    amount = _number(found["amount"]) if found else None
    share = _number(found["share"]) if found else None
    if found is None or found["times"] == "0" or not _is_read(found, amount, share):
        raise RatersError(
            f"found the rater {part!r}, expected a kind, 'kind:severity' or 'kind@mean-Dice', "
            "as in 'good,over:2.5,under@0.7', or a coarse drawing with its share of the area, as "
            "in 'positive@0.5'"
        )
    times = int(found["times"] or 1) if len(found["times"] or "") < _DIGITS else MOST + 1
    if times > MOST:
        raise RatersError(f"found {found['times']} raters in {part!r}, expected at most {MOST:,}")
    kind = found["kind"]
    name = (found["name"] or kind).strip()
    coarse = kind in COARSE
    spec = Spec(name, kind, amount, None if coarse else share, share if coarse else None)
    return [spec] * times


def _is_read(found: re.Match[str], amount: float | None, share: float | None) -> bool:
    """Whether what was said is a number; only coarse drawings have both a severity and a share."""
    said = {"amount": amount, "share": share}
    if any(found[key] is not None and number is None for key, number in said.items()):
        return False
    return found["kind"] in COARSE or amount is None or share is None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


How = Literal["all", "one"] | int | Sequence[float] | Mapping[str, float]


def assign(cases: int, raters: Sequence[str], how: How, rng: np.random.Generator) -> Flags:
    """Return which rater labels which case; the rest is MISSING.

    Args:
        cases: The number of cases.
        raters: The names of the raters.
        how: 'all' raters label every case; 'one' random rater does; `k` random raters do; a
            share per rater: each labels that part of the cases, at random and independently of
            the others (a case may then have no label at all); or shares of teams, of whom each
            case has one: `{"ann": 2, "bob+cy": 1}`; the team '' is nobody.
        rng: Randomness.

    Returns:
        `(cases, raters)`. With 'one' and `k` the raters' numbers of cases differ by at most one.

    Example:
        >>> given = assign(7, ["ann", "bob", "cy"], 2, np.random.default_rng(0))
        >>> given.sum(axis=1).tolist(), sorted(given.sum(axis=0).tolist())
        ([2, 2, 2, 2, 2, 2, 2], [4, 5, 5])
        >>> teams = {"ann": 2, "bob+cy": 1}
        >>> assign(9, ["ann", "bob", "cy"], teams, np.random.default_rng(0)).sum(axis=0).tolist()
        [6, 3, 3]
    """
    number = len(raters)
    if how == "all":
        return np.ones((cases, number), bool)
    if how == "one":
        return _k_each(cases, number, 1, rng)
    if isinstance(how, str):
        raise RatersError(f"found {how!r}, expected 'all', 'one', a number, or shares by rater")
    if isinstance(how, int | np.integer):
        return _k_each(cases, number, int(how), rng)
    if isinstance(how, Mapping):
        return _teams(cases, raters, how, rng)
    return _shares(cases, np.asarray(how, np.float64), number, rng)


def parse_assign(text: str) -> How:
    """Read 'all', 'one', '2', shares such as '0.5,1,0.2', or teams such as 'ann=2,bob+cy=1'.

    Example:
        >>> parse_assign("one"), parse_assign("2"), parse_assign("0.5,1,0.2")
        ('one', 2, (0.5, 1.0, 0.2))
        >>> parse_assign("ann=2,bob+cy=1")
        {'ann': 2.0, 'bob+cy': 1.0}
    """
    words: dict[str, How] = {"all": "all", "one": "one"}
    if text in words:
        return words[text]
    try:
        if text.strip().isdecimal():
            return int(text)
        if "=" in text:
            parts = [part.rpartition("=") for part in text.split(",")]
            return {team.strip(): float(share) for team, _, share in parts}
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise RatersError(
            f"found {text!r}, expected 'all', 'one', a number of raters per case, "
            "a share for each rater such as '0.5,1,0.2', or teams such as 'ann=2,bob+cy=1'"
        ) from None


def _k_each(cases: int, raters: int, k: int, rng: np.random.Generator) -> Flags:
    """Return each case to those who have the fewest so far, ties at random."""
    if not 1 <= k <= raters:
        raise RatersError(f"found {k} raters per case, expected 1 to {raters}")
    given = np.zeros((cases, raters), bool)
    load = np.zeros(raters)
    for case, ties in enumerate(rng.random((cases, raters))):
        chosen = np.argsort(load + ties)[:k]
        given[case, chosen] = True
        load[chosen] += 1
    return given


def _teams(
    cases: int, raters: Sequence[str], teams: Mapping[str, float], rng: np.random.Generator
) -> Flags:
    """Return each case to one team, as many as its share of all."""
    members = {team: team.split("+") if team else [] for team in teams}
    for team, names in members.items():
        for name in names:
            if name not in raters:
                raise RatersError(
                    f"found the rater {name!r} in the team {team!r}, "
                    f"{expected_one_of(list(raters), name)}"
                )
    shares = np.array(list(teams.values()), np.float64)
    if not len(shares) or not ((shares > 0) & np.isfinite(shares)).all():
        raise RatersError(f"found the shares {dict(teams)}, expected numbers above 0")
    ends = np.rint(np.cumsum(shares) / shares.sum() * cases)
    team_of = np.searchsorted(ends, rng.permutation(cases), side="right")
    in_team = np.array([[name in names for name in raters] for names in members.values()])
    return np.asarray(in_team[team_of])


def _shares(cases: int, shares: Floats, raters: int, rng: np.random.Generator) -> Flags:
    if shares.shape != (raters,) or not ((shares >= 0) & (shares <= 1)).all():
        raise RatersError(
            f"found shares {shares.tolist()}, expected {raters} numbers from 0 to 1, one per rater"
        )
    numbers = np.rint(shares * cases).astype(int)
    return np.stack([rng.permutation(cases) < number for number in numbers], axis=1)

"""What a paper's text claims, answered from our results: yes, no, unclear or not run.

A check is one comparison; values and M are in the units that tables show:

    dice: pixel-cm, paper's form @ usual raters > STAPLE @ usual raters
    error: pixel-cm @ one label < vote @ one label
    accuracy: vote @ few raters ~ trained on the truth @ few raters within 0.5
    accuracy: vote @ few raters > 50
    accuracy: global-cm @ flippers > vote @ flippers within 1      (better, or at most 1 behind)
    accuracy: global-cm @ flippers > vote @ flippers by 5          (better by more than 5)
    miou: coarse @ level 2 minus coarse @ level 1 > coarse @ level 3 minus coarse @ level 2
    soft_dice_unseen: prism @ all alike > vote @ all alike in soft_dice_fused

`@ SETTING` may be omitted where a benchmark has one setting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from raters.comparison.scores import SCORES, signed
from raters.core.errors import RatersError
from raters.core.wording import expected_one_of
from raters_bench.results import Collected, Difference, paired
from raters_bench.spec import Claim, Specification

Answer = Literal["yes", "no", "unclear", "not run", "not checked"]
Place = tuple[str, str]
"""A row and a setting."""


class Gain(NamedTuple):
    """How much more one place has than another."""

    more: Place
    less: Place


Operand = Place | Gain | float
"""A row and a setting, a difference between two, or a number."""

ONE_SEED = "one seed: unclear by rule"
"""What is said of a comparison of rows of which one has a single seed, and so no interval."""

_OPERATOR = re.compile(r"\s([<>~])\s")
_MARGIN = re.compile(r"^(.*)\s(within|by)\s+(\S+)$", re.DOTALL)
_MINUS = " minus "
_OTHER = re.compile(r"^(.*)\sin\s+(\w+)$", re.DOTALL)


@dataclass(frozen=True)
class Check:
    """One comparison.

    Attributes:
        text: As it was written.
        score: The score.
        left: A row and a setting, or the difference between two.
        sign: '>', '<' or '~' (about the same).
        right: The same, or a number.
        within: How far apart values may be that are about the same, or how far behind one that is
            better or level; negative: by how much one must be better.
        other: The score of the right side, where it is another.
    """

    text: str
    score: str
    left: Place | Gain
    sign: str
    right: Operand
    within: float = 0.0
    other: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim or a check, and the numbers that it rests on."""

    answer: Answer
    why: str = ""

    def __str__(self) -> str:
        return f"{self.answer} ({self.why})" if self.why else self.answer


def parse_check(text: str, spec: Specification) -> Check:
    """Read a comparison.

    Raises:
        RatersError: that says what was found and what was expected.

    Example:
        >>> spec = Specification(
        ...     title="t", data={"source": "mnist"}, scores=["dice"], scales={"smoke": {}},
        ...     settings={"all": {}, "one": {}}, rows={"a, b": {"method": "vote"}, "c": {}})
        >>> check = parse_check("dice: a, b @ all ~ c @ one within 0.5", spec)
        >>> check.left, check.sign, check.right, check.within
        (('a, b', 'all'), '~', ('c', 'one'), 0.5)
        >>> parse_check("dice: a @ all > c @ one", spec)
        Traceback (most recent call last):
        raters.core.errors.RatersError: check 'dice: a @ all > c @ one': found the row 'a', ...
    """
    score, colon, rest = (part.strip() for part in text.partition(":"))
    if not colon or score not in SCORES:
        raise _bad(text, f"found the score {score!r}, {expected_one_of(SCORES, score)}")
    signs = list(_OPERATOR.finditer(rest))
    if not signs:
        raise _bad(text, "found no sign, expected SCORE: ROW @ SETTING > ROW @ SETTING, or < or ~")
    first: RatersError | None = None
    for sign in signs:  # a name may hold a sign, too
        try:
            return _split(text, spec, score, rest, sign)
        except RatersError as error:
            first = first or error
    assert first is not None
    raise first


def _split(text: str, spec: Specification, score: str, rest: str, sign: re.Match[str]) -> Check:
    left = rest[: sign.start()].strip()
    right = rest[sign.end() :].strip()
    within = 0.0
    ending = _MARGIN.match(right)
    if ending or sign[1] == "~":
        number = _number(ending[3]) if ending else None
        if ending is None or number is None or number <= 0:
            raise _bad(text, "found no 'within M' at the end, expected a number of shown units")
        if sign[1] == "~" and ending[2] == "by":
            raise _bad(text, "found 'by M' with ~, expected 'within M'")
        right = ending[1].strip()
        within = number if ending[2] == "within" else -number
    named = _OTHER.match(right)
    other = ""
    if named and named[2] in SCORES:
        right, other = named.groups()
    value = _number(right)
    side: Operand = _side(text, right, spec) if value is None or right in spec.rows else value
    return Check(text, score, _side(text, left, spec), sign[1], side, within, other)


def _side(text: str, side: str, spec: Specification) -> Place | Gain:
    more, minus, less = side.partition(_MINUS)
    if not minus:
        return _place(text, side, spec)
    return Gain(_place(text, more.strip(), spec), _place(text, less.strip(), spec))


def _place(text: str, side: str, spec: Specification) -> Place:
    row, at, setting = (part.strip() for part in side.partition("@"))
    if not at and len(spec.settings) == 1:
        setting = next(iter(spec.settings))
    elif not at:
        raise _bad(text, f"found {side!r} without a setting, expected ROW @ SETTING")
    for what, name, known in (("row", row, spec.rows), ("setting", setting, spec.settings)):
        if name not in known:
            raise _bad(text, f"found the {what} {name!r}, {expected_one_of(known, name)}")
    return row, setting


def _bad(text: str, message: str) -> RatersError:
    return RatersError(f"check {text!r}: {message}", kind="check")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def refuse_checks(spec: Specification) -> None:
    """Reject checks that name what a benchmark does not have.

    Raises:
        RatersError: that names the benchmark, the check, and what was expected.
    """
    for claim in spec.claims:
        for text in claim.check:
            try:
                parse_check(text, spec)
            except RatersError as error:
                raise RatersError(f"{spec.name}, {error}", kind="check") from None


def answer_check(check: Check, found: Collected) -> Verdict:
    """Answer a comparison by the paired difference over common seeds and its 95 % interval.

    Yes where the interval is on the side that is claimed (for '~' within ± M; with 'within M' not
    more than M on the other, with 'by M' more than M away), no where it is on the other side
    (outside ± M), else unclear; one seed has no interval and is always unclear.
    """
    left = _by_seed(check.left, check.score, found)
    if isinstance(check.right, float):
        right = dict.fromkeys(left, check.right)
    else:
        right = _by_seed(check.right, check.other or check.score, found)
    difference = paired(left, right)
    if difference is None:
        why = [_absent(check, found), *([ONE_SEED] if _fewest_seeds(check, found) == 1 else [])]
        return Verdict("not run", "; ".join(why))
    return Verdict(_decided(check, difference), difference_words(difference, check.score))


def _by_seed(side: Place | Gain, score: str, found: Collected) -> dict[int, float]:
    """Return the values of a side; those of a difference for the seeds that both have."""
    if not isinstance(side, Gain):
        return found.by_seed(side[1], side[0], score)
    more, less = (_by_seed(place, score, found) for place in side)
    return {seed: more[seed] - less[seed] for seed in more if seed in less}


def _places(check: Check) -> list[Place]:
    """Return all rows and settings of a check."""
    sides = [side for side in (check.left, check.right) if not isinstance(side, float)]
    return [place for side in sides for place in (side if isinstance(side, Gain) else [side])]


def _fewest_seeds(check: Check, found: Collected) -> int:
    """Return how many seeds the rows of a check will have in common at most."""
    whole = len(found.spec.scale(found.scale).seeds)
    return min(min(found.spec.rows[row].seeds or whole, whole) for row, _ in _places(check))


def _absent(check: Check, found: Collected) -> str:
    for row, setting in _places(check):
        if not any(found.by_seed(setting, row, score) for score in (check.score, check.other)):
            return f"{row}: {found.why.get((setting, row), 'not at this scale')}"
    return "no common seed"


def _decided(check: Check, difference: Difference) -> Answer:
    if difference.low is None or difference.high is None:
        return "unclear"
    if check.sign == "<":
        low = -difference.high
        high = -difference.low
    else:
        low = difference.low
        high = difference.high
    if check.sign == "~":
        inside = -check.within < low and high < check.within
        outside = low > check.within or high < -check.within
    else:
        inside = low > -check.within
        outside = high < -check.within
    if inside:
        return "yes"
    if outside:
        return "no"
    return "unclear"


def difference_words(difference: Difference, score: str) -> str:
    """Return a difference with its interval, and of how few seeds it is.

    Example:
        >>> difference_words(Difference(1.23, 0.5, 2.0, 3), "dice")
        '+1.2 [+0.5, +2.0]'
        >>> difference_words(Difference(1.23, None, None, 1), "dice")
        '+1.2, one seed: unclear by rule'
        >>> difference_words(Difference(-0.01, -0.2, 0.18, 2), "error")
        '-0.010 [-0.200, +0.180], two seeds'
    """
    mean = signed(difference.mean, score)
    if difference.low is None or difference.high is None:
        return f"{mean}, {ONE_SEED}"
    few = ", two seeds" if difference.n == 2 else ""
    return f"{mean} [{signed(difference.low, score)}, {signed(difference.high, score)}]{few}"


def answer_claim(claim: Claim, found: Collected) -> Verdict:
    """Answer a claim: yes if all its checks hold, no if one does not, else unclear."""
    verdicts = [answer_check(parse_check(text, found.spec), found) for text in claim.check]
    if not verdicts:
        return Verdict("not checked")
    answers = {v.answer for v in verdicts}
    why = "; ".join(v.why for v in verdicts)
    if len(answers) == 1:
        return Verdict(verdicts[0].answer, why)
    return Verdict("no" if "no" in answers else "unclear", why)

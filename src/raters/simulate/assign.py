"""Who labels what: all raters, one, k, or each a share of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from raters.arrays import Flags, Floats
from raters.errors import RatersError

How = Literal["all", "one"] | int | Sequence[float]


def assign(cases: int, raters: int, how: How, rng: np.random.Generator) -> Flags:
    """Return which rater labels which case; the rest is MISSING.

    Args:
        cases: The number of cases.
        raters: The number of raters.
        how: 'all' raters label every case; 'one' random rater does; `k` random raters do; or a
            share per rater: each labels that part of the cases, at random and independently of
            the others (a case may then have no label at all).
        rng: Randomness.

    Returns:
        `(cases, raters)`. With 'one' and `k` the raters' numbers of cases differ by at most one.

    Example:
        >>> given = assign(7, 3, 2, np.random.default_rng(0))
        >>> given.sum(axis=1).tolist(), sorted(given.sum(axis=0).tolist())
        ([2, 2, 2, 2, 2, 2, 2], [4, 5, 5])
    """
    if how == "all":
        return np.ones((cases, raters), bool)
    if how == "one":
        return _k_each(cases, raters, 1, rng)
    if isinstance(how, str):
        raise RatersError(f"found {how!r}, expected 'all', 'one', a number, or shares by rater")
    if isinstance(how, int | np.integer):
        return _k_each(cases, raters, int(how), rng)
    return _shares(cases, np.asarray(how, np.float64), raters, rng)


def parse_assign(text: str) -> How:
    """Read 'all', 'one', '2', or shares such as '0.5,1,0.2'.

    Example:
        >>> parse_assign("one"), parse_assign("2"), parse_assign("0.5,1,0.2")
        ('one', 2, (0.5, 1.0, 0.2))
    """
    words: dict[str, How] = {"all": "all", "one": "one"}
    if text in words:
        return words[text]
    try:
        if text.strip().isdecimal():
            return int(text)
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise RatersError(
            f"found {text!r}, expected 'all', 'one', a number of raters per case, "
            "or a share for each rater such as '0.5,1,0.2'"
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


def _shares(cases: int, shares: Floats, raters: int, rng: np.random.Generator) -> Flags:
    if shares.shape != (raters,) or not ((shares >= 0) & (shares <= 1)).all():
        raise RatersError(
            f"found shares {shares.tolist()}, expected {raters} numbers from 0 to 1, one per rater"
        )
    numbers = np.rint(shares * cases).astype(int)
    return np.stack([rng.permutation(cases) < number for number in numbers], axis=1)

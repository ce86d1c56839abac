"""A block of a table, and numbers as people read them."""

from __future__ import annotations

from dataclasses import dataclass

from raters.comparison.scores import SCORES, signed
from raters.core.wording import many
from raters_bench.claims import difference_words
from raters_bench.results import Difference, RankCorrelation, Summary


@dataclass(frozen=True)
class Block:
    """One table.

    Attributes:
        title: What it shows.
        header: The heads of its columns.
        lines: Its cells, as texts.
        notes: What a reader must know.
    """

    title: str
    header: list[str]
    lines: list[list[str]]
    notes: tuple[str, ...] = ()


def value_words(found: Summary | None, score: str) -> str:
    """Return a mean with its standard deviation.

    Example:
        >>> value_words(Summary(91.83, 0.12, 3), "dice")
        '91.8 ± 0.1'
        >>> value_words(Summary(0.1, None, 1), "error"), value_words(None, "error")
        ('0.100', '')
    """
    if found is None:
        return ""
    digits = SCORES[score].digits
    spread = "" if found.sd is None else f" ± {found.sd:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread}"


def published_words(value: float | None) -> str:
    """Return a published value as it is printed there; '' if there is none.

    Example:
        >>> published_words(62.89), published_words(0.1132), published_words(None)
        ('62.89', '0.1132', '')
    """
    return "" if value is None else f"{value:.10g}"


def seeds_words(done: int, wanted: int) -> str:
    """Return how many seeds a row rests on.

    Example:
        >>> seeds_words(3, 3), seeds_words(2, 3), seeds_words(1, 1), seeds_words(0, 3)
        ('3', '2 of 3', 'one', '')
    """
    if not done:
        return ""
    if done < wanted:
        return f"{done} of {wanted}"
    return "one" if done == 1 else str(done)


def rank_words(one: RankCorrelation, order_only: bool = False) -> str:
    """Return a rank correlation in words.

    Example:
        >>> rank_words(RankCorrelation("", "dice", 0.8, 5))
        'published and our order of 5 rows by Dice, at 0.5: rank correlation 0.80'
        >>> rank_words(RankCorrelation("", "error", -1.0, 2))
        'published and our order of 2 rows by error of the matrices: reversed'
    """
    only = " (published values can be compared by their order only)" if order_only else ""
    if one.rho is None:
        found = "none"
    elif one.rows == 2:
        found = "the same" if one.rho > 0 else "reversed"
    else:
        found = f"rank correlation {one.rho:.2f}"
    rows = many(one.rows, "row")
    return f"published and our order of {rows} by {SCORES[one.score].title}: {found}{only}"


def difference_cell(one: Difference | None, score: str) -> str:
    """Return a difference with its interval, if it has one.

    Example:
        >>> difference_cell(Difference(1.23, None, None, 1), "dice")
        '+1.2'
    """
    if one is None:
        return ""
    if one.low is None:
        return signed(one.mean, score)
    return difference_words(one, score)


def interval_notes(counts: set[int]) -> tuple[str, ...]:
    """Return what intervals are, and which differences have none, by the numbers of seeds."""
    if counts == {1}:
        return ("one seed: no intervals",)
    note = "in brackets: 95 % intervals, Student's t over seeds, paired"
    return (note + ("; without brackets: one seed" if 1 in counts else ""),)

"""The table of a benchmark as an HTML page whose first screen says what it found."""

from __future__ import annotations

from collections.abc import Sequence

from raters.benchmarks.blocks import Block, difference_cell, value_words
from raters.benchmarks.results import Collected, Summary, paired
from raters.benchmarks.scores import SCORES
from raters.benchmarks.table import blocks, claim_blocks, claim_rows
from raters.report.blocks import Block as Shown
from raters.report.blocks import First, Matrix, Number, Report, Section, TableBlock, TextBlock
from raters.report.page import render
from raters.report.say import plain, say
from raters.rows import Row

_MOST_COLUMNS = 6
_MOST_ROWS = 9


def to_html(title: str, made: Sequence[Block], first: First | None = None) -> str:
    """Return blocks as one HTML page that fetches nothing.

    Example:
        >>> page = to_html("a < b", [Block("", ["row"], [["<i>"]])])
        >>> "<td>&lt;i&gt;</td>" in page and "<title>a &lt; b</title>" in page
        True
    """
    sections = []
    for number, block in enumerate(made, 1):
        keys = [str(k) for k in range(len(block.header))]  # heads may be the same
        rows = [dict(zip(keys, line, strict=True)) for line in block.lines]
        heads = dict(zip(keys, block.header, strict=True))
        shown: list[Shown] = [TableBlock(f"table-{number}", rows, "", heads)]
        shown += [TextBlock(note, "note") for note in block.notes]
        sections.append(Section(block.title or "Table", blocks=shown))
    return render(Report(title, {}, sections, first=first))


def bench_page(found: Collected, title: str) -> str:
    """Return the page of a benchmark."""
    made = [*blocks(found), *claim_blocks(found)]
    return to_html(title, made, first_screen(found) if found.num_done else None)


def first_screen(found: Collected) -> First:
    """Return what a benchmark found: the best row, claims that hold, the best rows by setting."""
    score, claims = found.spec.scores[0], claim_rows(found)
    holding = [row["claim"] for row in claims if row["answer"] == "yes"]
    against = [row["claim"] for row in claims if row["answer"] == "no"]
    numbers = []
    if best := _best(found, score):
        about = plain(say("bench_about", best=best))
        numbers.append(Number(f"best {best['score']}", best["value"], about=about))
    if claims:
        numbers.append(Number("claims that hold here", f"{len(holding)} of {len(claims)}"))
    numbers.append(Number("cells with a result", f"{found.num_done:,} of {found.num_wanted:,}"))
    actions = [
        say("bench_best", best=best),
        say("bench_claims", against=against, claims=len(claims), comparable=found.comparable),
        say("bench_next", name=found.spec.name, left=found.num_wanted - found.num_done),
    ]
    return First(numbers, _matrix(found, score), (), actions)


def _ranked(found: Collected, score: str, within: Sequence[str]) -> list[tuple[Summary, str, str]]:
    """Return the means of rows with their settings and names, the best first."""
    places = [(setting, row) for setting in within for row in found.rows_of(setting)]
    known = [(one, *place) for place in places if (one := found.summary(*place, score))]
    return sorted(known, key=lambda item: item[0].mean, reverse=SCORES[score].higher)


def _best(found: Collected, score: str) -> Row | None:
    """Return the best row, rows that are as good, and all rows at the best cut.

    What was trained on the truth is no choice where nobody knows it.
    """

    def choices(score: str, within: Sequence[str]) -> list[tuple[Summary, str, str]]:
        rows, ranked = found.spec.rows, _ranked(found, score, within)
        return [item for item in ranked if rows[item[2]].method != "truth"]

    ranked = choices(score, found.settings)
    if not ranked:
        return None
    one, setting, row = ranked[0]
    rest = [item for item in ranked[1:] if item[1] == setting]
    cut = next(iter(SCORES[score].cuts), score)
    at_cut = {name: value_words(own, cut) for own, _, name in choices(cut, [setting])}
    return {"row": row, "setting": setting, "seeds": one.n, "baseline": found.spec.baseline,
            "than": difference_cell(found.difference(setting, row, score), score),
            "score": SCORES[score].title, "value": value_words(one, score),
            "cut": SCORES[cut].title if cut != score and row in at_cut else "", "at_cut": at_cut,
            "ties": [item[2] for item in rest if _tied(found, score, ranked[0], item)]}  # fmt: skip


def _tied(found: Collected, score: str, *two: tuple[Summary, str, str]) -> bool:
    """Return whether two rows are as good as each other: within a rounding, or by the interval."""
    close = abs(two[0][0].mean - two[1][0].mean) < 10.0 ** -SCORES[score].digits
    more = paired(*(found.by_seed(setting, row, score) for _, setting, row in two))
    if close or more is None or more.low is None or more.high is None:
        return close
    return more.low <= 0 <= more.high


def _matrix(found: Collected, score: str) -> Matrix | None:
    """Return the best rows and the baseline by setting; of one setting, at all cuts."""
    settings = list(found.settings)[:_MOST_COLUMNS]
    places, heads = [(setting, score) for setting in settings], settings
    if len(settings) == 1:
        places += [(settings[0], cut) for cut in SCORES[score].cuts]
        heads = [SCORES[one].title for _, one in places]
    rows = list(dict.fromkeys(row for _, _, row in _ranked(found, score, settings)))
    if not rows:
        return None
    shown = [r for k, r in enumerate(rows) if k < _MOST_ROWS or r == found.spec.baseline]
    cells = [[found.summary(setting, row, one) for setting, one in places] for row in shown]
    values = [[None if one is None else float(one.mean) for one in line] for line in cells]
    about = f"{len(shown)} of {len(rows)} rows, the best first." if len(shown) < len(rows) else ""
    return Matrix(SCORES[score].title, shown, heads, values, about, digits=SCORES[score].digits)

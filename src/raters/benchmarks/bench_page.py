"""The table of a benchmark as an HTML page whose first screen says what it found."""

from __future__ import annotations

from collections.abc import Sequence

from raters.benchmarks.blocks import Block, difference_cell, value_words
from raters.benchmarks.results import Collected
from raters.benchmarks.scores import SCORES
from raters.benchmarks.table import blocks, claim_blocks, claim_rows
from raters.report.blocks import Block as Shown
from raters.report.blocks import First, Matrix, Number, Report, Section, TableBlock, TextBlock
from raters.report.page import render
from raters.report.say import say

_MOST_COLUMNS = 6


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
    """Return what a benchmark found: the best row, claims that hold, all rows by setting."""
    score = found.spec.scores[0]
    known = [
        (one.mean, setting, row, one)
        for setting in found.settings
        for row in found.rows_of(setting)
        if (one := found.summary(setting, row, score)) is not None
    ]
    known.sort(key=lambda item: item[0], reverse=SCORES[score].higher)
    claims = claim_rows(found)
    holding = [row["claim"] for row in claims if row["answer"] == "yes"]
    against = [row["claim"] for row in claims if row["answer"] == "no"]
    numbers = []
    best = None
    if known:
        _, setting, row, one = known[0]
        more = found.difference(setting, row, score)
        than = difference_cell(more, score)
        best = {"row": row, "setting": setting, "value": value_words(one, score)}
        best |= {"score": SCORES[score].title, "than": than, "baseline": found.spec.baseline}
        about = f"{row}, {setting}" + (f"; {than} to {found.spec.baseline}" if than else "")
        numbers.append(Number(f"best {SCORES[score].title}", best["value"], about=about))
    if claims:
        numbers.append(Number("claims that hold here", f"{len(holding)} of {len(claims)}"))
    numbers.append(Number("cells with a result", f"{found.num_done:,} of {found.num_wanted:,}"))
    actions = [
        say("bench_best", best=best),
        say("bench_claims", against=against, claims=len(claims), comparable=found.comparable),
        say("bench_next", name=found.spec.name, left=found.num_wanted - found.num_done),
    ]
    return First(numbers, _matrix(found, score), (), actions)


def _matrix(found: Collected, score: str) -> Matrix | None:
    settings = list(found.settings)[:_MOST_COLUMNS]
    rows = list(dict.fromkeys(row for setting in settings for row in found.rows_of(setting)))
    values: list[list[float | None]] = []
    for row in rows:
        cells = [found.summary(s, row, score) for s in settings]
        values.append([None if one is None else float(one.mean) for one in cells])
    kept = [k for k, cells in enumerate(values) if any(cell is not None for cell in cells)]
    if not kept:
        return None
    chosen = [rows[k] for k in kept]
    return Matrix(SCORES[score].title, chosen, settings, [values[k] for k in kept])

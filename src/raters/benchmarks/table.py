"""The table of a benchmark: as blocks of text, Markdown, CSV, HTML and JSON.

Each setting has a block of values (mean ± standard deviation over seeds, the published value beside
it) and one of paired differences to the baseline. A row without results says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape

from raters.benchmarks.claims import answer_check, answer_claim, difference_words, parse_check
from raters.benchmarks.results import (
    REASONS,
    Collected,
    Difference,
    RankCorrelation,
    Summary,
    long_rows,
    rank_correlations,
)
from raters.benchmarks.scores import SCORES, columns
from raters.rows import Row, to_json, to_markdown
from raters.wording import many

NAME_WIDTH = 26
"""Characters of a terminal that names of rows may take before they are folded."""


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


def blocks(found: Collected, width: int | None = None) -> list[Block]:
    """Return the tables of a benchmark: values, then differences, for each setting.

    Args:
        found: The results.
        width: Of a terminal: scores that do not fit side by side have tables of their own.
    """
    made = []
    for setting in found.settings:
        made += _fitting(found, setting, values_block, width)
        made += _fitting(found, setting, differences_block, width)
    return made


Make = Callable[[Collected, str, Sequence[str]], Block | None]


def _fitting(found: Collected, setting: str, make: Make, width: int | None) -> list[Block]:
    """Put as many scores into a table as fit; a score and its twins at other cuts stay together."""
    made: list[Block] = []
    together: tuple[str, ...] = ()
    for score in found.spec.scores:
        block = make(found, setting, columns((*together, score)))
        if block is None:
            continue
        if together and width is not None and _width(block) > width:
            together = ()
            block = make(found, setting, columns((score,)))
            assert block is not None
        if together:
            made.pop()
        together = (*together, score)
        made.append(block)
    return made


def _width(block: Block) -> int:
    """Return the characters that a table takes; names of rows and heads may be folded."""
    cells = list(zip(*block.lines, strict=True))
    names = min(max(len(name) for name in cells[0]), NAME_WIDTH)
    widest = [max(len(text) for text in column if text not in REASONS) for column in cells[1:]]
    heads = [max(map(len, head.split())) for head in block.header[1:]]
    return names + sum(2 + max(pair) for pair in zip(widest, heads, strict=True))


def values_block(found: Collected, setting: str, scores: Sequence[str]) -> Block | None:
    """Return the values of a setting, with the published ones beside them.

    Args:
        found: The results.
        setting: The setting.
        scores: What is shown of it; without what nothing is known of, once there are results.

    Returns:
        The table; None if it has no score to show.
    """
    rows = found.rows_of(setting)
    kept = _used(found, setting, rows, scores)
    if not kept:
        return None
    heads, printed = ["row"], []
    for score in kept:
        heads.append(SCORES[score].title)
        if any(found.published(setting, row, score) is not None for row in rows):
            heads.append("published")
            printed.append(score)
    lines = []
    for row in rows:
        line = [row]
        for score in kept:
            line.append(value_words(found.summary(setting, row, score), score))
            if score in printed:
                line.append(published_words(found.published(setting, row, score)))
        place = setting, row
        line.append(seeds_words(found.done.get(place, 0), found.wanted.get(place, 0)))
        if place in found.why and place not in found.done:
            line[1] = found.why[place]
        lines.append(line)
    notes = _notes(found, setting, rows, kept)
    return Block(_titled(found, setting), [*heads, "seeds"], lines, notes)


def _used(
    found: Collected, setting: str, rows: Sequence[str], scores: Sequence[str]
) -> Sequence[str]:
    if not any(found.by_seed(setting, row, score) for row in rows for score in found.scores):
        return scores
    return [
        score
        for score in scores
        if any(
            found.by_seed(setting, row, score) or found.published(setting, row, score) is not None
            for row in rows
        )
    ]


def _titled(found: Collected, setting: str) -> str:
    return setting or found.spec.title


def _notes(
    found: Collected, setting: str, rows: Sequence[str], scores: Sequence[str]
) -> tuple[str, ...]:
    notes = []
    if scores[0] == found.spec.scores[0]:  # once, where scores have tables of their own
        notes = [found.spec.settings[setting].note]
        notes += [
            f"{row}: {found.spec.rows[row].note}" for row in rows if found.spec.rows[row].note
        ]
    notes += [
        rank_words(one, found.spec.order_only)
        for one in rank_correlations(found)
        if one.setting == setting and one.score in scores and one.rows > 1
    ]
    return tuple(note for note in notes if note)


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


def differences_block(found: Collected, setting: str, scores: Sequence[str]) -> Block | None:
    """Return what each row is more than the baseline; None if there is nothing to compare."""
    rows = found.rows_of(setting)
    more = {(row, s): found.difference(setting, row, s) for row in rows for s in scores}
    kept = [s for s in scores if any(more[row, s] is not None for row in rows)]
    if not kept:
        return None
    lines = []
    for row in rows:
        cells = [difference_cell(more[row, score], score) for score in kept]
        if any(cells):
            lines.append([row, *cells])
    counts = {one.n for one in more.values() if one is not None}
    title = f"{_titled(found, setting)}: minus {found.spec.baseline}"
    return Block(title, ["row", *(SCORES[s].title for s in kept)], lines, _interval_notes(counts))


def difference_cell(one: Difference | None, score: str) -> str:
    """Return a difference with its interval, if it has one.

    Example:
        >>> difference_cell(Difference(1.23, None, None, 1), "dice")
        '+1.2'
    """
    if one is None:
        return ""
    if one.low is None:
        return f"{one.mean:+.{SCORES[score].digits}f}"
    return difference_words(one, score)


def _interval_notes(counts: set[int]) -> tuple[str, ...]:
    if counts == {1}:
        return ("one seed: no intervals",)
    note = "in brackets: 95 % intervals, Student's t over seeds, paired"
    return (note + ("; without brackets: one seed" if 1 in counts else ""),)


def to_markdown_page(made: Sequence[Block], level: int = 3) -> str:
    """Return blocks as Markdown, each below a heading.

    Example:
        >>> print(to_markdown_page([Block("one label", ["row"], [["vote"]], ("drawn",))]), end="")
        ### one label
        <BLANKLINE>
        | row |
        | --- |
        | vote |
        <BLANKLINE>
        - drawn
    """
    parts = []
    for block in made:
        notes = "".join(f"- {note}\n" for note in block.notes)
        table = to_markdown(block.header, block.lines)
        parts.append(f"{'#' * level} {block.title}\n\n{table}" + (f"\n{notes}" if notes else ""))
    return "\n".join(parts)


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:left}"
    "tr{border-bottom:1px solid #ddd}"
)


def to_html(title: str, made: Sequence[Block]) -> str:
    """Return blocks as one HTML page that fetches nothing.

    Example:
        >>> page = to_html("a < b", [Block("", ["row"], [["<i>"]])])
        >>> "<td>&lt;i&gt;</td>" in page and "<title>a &lt; b</title>" in page
        True
    """
    body = []
    for block in made:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
        rows = "\n".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>"
            for line in block.lines
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in block.notes)
        listed = f"<ul>{notes}</ul>\n" if notes else ""
        body.append(
            f"<h2>{escape(block.title)}</h2>\n<table>\n<tr>{head}</tr>\n{rows}\n</table>\n{listed}"
        )
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    inner = f"<h1>{escape(title)}</h1>\n{''.join(body)}"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{inner}</body></html>\n'


def flat_rows(found: Collected) -> list[Row]:
    """Return one row for each setting, row and score, for CSV and JSON."""
    rows = []
    for setting in found.settings:
        for name in found.rows_of(setting):
            for score in found.scores:
                one = found.summary(setting, name, score)
                more = found.difference(setting, name, score)
                rows.append(
                    {
                        "benchmark": found.spec.name,
                        "scale": found.scale,
                        "setting": setting,
                        "row": name,
                        "score": score,
                        "mean": one and one.mean,
                        "sd": one and one.sd,
                        "seeds": one.n if one else 0,
                        "published": found.published(setting, name, score),
                        "baseline": found.spec.baseline or None,
                        "difference": more and more.mean,
                        "difference_low": more and more.low,
                        "difference_high": more and more.high,
                        "why": found.why.get((setting, name)) if one is None else None,
                    }
                )
    return rows


def claim_rows(found: Collected) -> list[Row]:
    """Return one row for each claim: what it says, the answer, and why."""
    rows = []
    for claim in found.spec.claims:
        verdict = answer_claim(claim, found)
        checks = [
            {"check": text, **asdict(answer_check(parse_check(text, found.spec), found))}
            for text in claim.check
        ]
        rows.append({"claim": claim.says, **asdict(verdict), "checks": checks})
    return rows


def facts(found: Collected) -> Row:
    """Return all that a table says, as plain data."""
    return {
        "benchmark": found.spec.name,
        "title": found.spec.title,
        "paper": found.spec.paper or None,
        "scale": found.scale,
        "cells": {"done": found.num_done, "all": found.num_wanted},
        "seconds": round(found.seconds, 1),
        "peak_memory_mb": found.memory or None,
        "versions": found.versions,
        "table": flat_rows(found),
        "values": long_rows(found),
        "rank_correlations": [asdict(one) for one in rank_correlations(found)],
        "claims": claim_rows(found),
        "problems": found.problems,
    }


def to_json_page(found: Collected) -> str:
    """Return all that a table says, as JSON."""
    return to_json(facts(found)) + "\n"


def claim_blocks(found: Collected) -> list[Block]:
    """Return the checklist of what the paper's text claims; none if it claims nothing."""
    rows = claim_rows(found)
    if not rows:
        return []
    lines = [[row["claim"], row["answer"], row["why"]] for row in rows]
    return [Block("what the text claims", ["claim", "holds here", "difference"], lines)]

"""The table of a benchmark: as blocks of text, Markdown, CSV, HTML and JSON.

Each setting has a block of values (mean ± standard deviation over seeds, the published value beside
it) and one of paired differences to the baseline. A row without results says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from raters.comparison.scores import SCORES, columns
from raters.io.rows import Row, to_csv, to_json, to_markdown
from raters_bench.blocks import (
    Block,
    difference_cell,
    interval_notes,
    published_words,
    rank_words,
    seeds_words,
    value_words,
)
from raters_bench.claims import answer_check, answer_claim, parse_check
from raters_bench.results import REASONS, Collected, curves, long_rows, rank_correlations

NAME_WIDTH = 26
"""Characters of a terminal that names of rows may take before they are folded."""


def blocks(found: Collected, width: int | None = None) -> list[Block]:
    """Return the tables of a benchmark: values, then differences, for each setting.

    Args:
        found: The results.
        width: Of a terminal: scores that do not fit side by side have tables of their own.
    """
    groups = curves(found)
    drawn = {setting for points in groups.values() for setting in points.values()}
    made = []
    for name, points in groups.items():
        for score in found.scores:
            made += curve_blocks(found, name, points, score)

    empty: list[list[str]] = []
    for setting in found.settings:
        if setting in drawn:
            continue
        if len(found.settings) > 1 and not _has_any(found, setting):
            empty.append([_titled(found, setting)])
            continue
        made += _fitting(found, setting, values_block, width)
        made += _fitting(found, setting, differences_block, width)
    return [*made, Block("no results yet", ["setting"], empty)] if empty else made


def _has_any(found: Collected, setting: str) -> bool:
    rows = found.rows_of(setting)
    printed = any(found.spec.rows[row].published.get(setting) for row in rows)
    return printed or any((setting, row) in found.done for row in rows)


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
    widest = [
        max((len(text) for text in column if text not in REASONS), default=0)
        for column in cells[1:]
    ]
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
    printed = [s for s in kept if any(found.published(setting, r, s) is not None for r in rows)]
    heads = ["row"]
    lines = []
    for score in kept:
        heads += [SCORES[score].title, *(["published"] if score in printed else [])]
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
        own = {row: found.spec.rows[row].note_in(setting) for row in rows}
        notes += [f"{row}: {note}" for row, note in own.items() if note]
    notes += [
        rank_words(one, found.spec.order_only)
        for one in rank_correlations(found)
        if one.setting == setting and one.score in scores and one.rows > 1
    ]
    return tuple(note for note in notes if note)


def differences_block(found: Collected, setting: str, scores: Sequence[str]) -> Block | None:
    """Return what each row is more than the baseline; None if there is nothing to compare."""
    rows = found.rows_of(setting)
    more = {(row, s): found.difference(setting, row, s) for row in rows for s in scores}
    kept = [s for s in scores if any(more[row, s] is not None for row in rows)]
    if not kept:
        return None
    lines = [[row, *(difference_cell(more[row, s], s) for s in kept)] for row in rows]
    lines = [line for line in lines if any(line[1:])]
    counts = {one.n for one in more.values() if one is not None}
    title = f"{_titled(found, setting)}: minus {found.spec.baseline}"
    return Block(title, ["row", *(SCORES[s].title for s in kept)], lines, interval_notes(counts))


def to_markdown_page(made: Sequence[Block]) -> str:
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
        parts.append(f"### {block.title}\n\n{table}" + (f"\n{notes}" if notes else ""))
    return "\n".join(parts)


def flat_rows(found: Collected) -> list[Row]:
    """Return one row for each setting, row and score, for CSV and JSON."""
    rows = []
    for setting in found.settings:
        for name in found.rows_of(setting):
            for score in found.scores:
                summary = found.summary(setting, name, score)
                difference = found.difference(setting, name, score)
                rows.append(
                    {
                        "benchmark": found.spec.name,
                        "scale": found.scale,
                        "setting": setting,
                        "row": name,
                        "score": score,
                        "mean": None if summary is None else summary.mean,
                        "sd": None if summary is None else summary.sd,
                        "seeds": 0 if summary is None else summary.n,
                        "published": found.published(setting, name, score),
                        "baseline": found.spec.baseline or None,
                        "difference": None if difference is None else difference.mean,
                        "difference_low": None if difference is None else difference.low,
                        "difference_high": None if difference is None else difference.high,
                        "why": found.why.get((setting, name)) if summary is None else None,
                    }
                )
    return rows


def claim_rows(found: Collected) -> list[Row]:
    """Return one row for each claim: what it says, the answer, and why.

    There are none at a scale whose numbers cannot be compared.
    """
    rows = []
    for claim in found.spec.claims if found.comparable else ():
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


def claim_blocks(found: Collected) -> list[Block]:
    """Return the checklist of what the paper's text claims; none if it claims nothing."""
    rows = claim_rows(found)
    if not rows:
        return []
    lines = [[row["claim"], row["answer"], row["why"]] for row in rows]
    return [Block("what the text claims", ["claim", "holds here", "difference"], lines)]


SMOKE = (
    "drawn data and next to no training, which only shows that it runs; these numbers cannot be "
    "compared with published ones, so that ranks and claims are left out"
)


def rendered(found: Collected, form: str) -> str:
    """Return a table as 'md', 'csv', 'html' or 'json'."""
    if form == "csv":
        return to_csv(flat_rows(found))
    if form == "json":
        return to_json(facts(found)) + "\n"
    title = f"{found.spec.title}: {found.spec.name}, {found.scale}"
    if not found.comparable:
        title += f" ({SMOKE})"
    if form == "html":
        from raters_bench.bench_page import bench_page

        return bench_page(found, title)
    return f"## {title}\n\n{to_markdown_page([*blocks(found), *claim_blocks(found)])}"


def curve_blocks(
    found: Collected, name: str, points: Mapping[float, str], score: str
) -> list[Block]:
    """Return the values of a score along an axis, and the differences to the baseline.

    Args:
        found: The results.
        name: What the settings have in common.
        points: The settings by their place on the axis.
        score: The score.
    """
    rows = list(dict.fromkeys(row for s in points.values() for row in found.rows_of(s)))
    heads = [f"{x:g}" for x in points]
    values = [[row, *(_point(found, s, row, score) for s in points.values())] for row in rows]
    gaps = {row: [found.difference(s, row, score) for s in points.values()] for row in rows}
    more = [
        [row, *(difference_cell(g, score) for g in gaps[row])] for row in rows if any(gaps[row])
    ]
    if not any(found.by_seed(s, row, score) for s in points.values() for row in rows):
        return []
    title = ": ".join(part for part in (name, SCORES[score].title) if part)
    made = [Block(title, ["row", *heads], values, _curve_notes(found, points, score, rows))]
    if more:
        minus = f"{title}, minus {found.spec.baseline}"
        counts: set[int] = set()
        for differences in gaps.values():
            counts.update(one.n for one in differences if one is not None)
        made.append(Block(minus, ["row", *heads], more, interval_notes(counts)))
    return made


def _point(found: Collected, setting: str, row: str, score: str) -> str:
    """Return a value of a curve; (published) beside it, or why there is none."""
    text = value_words(found.summary(setting, row, score), score)
    if not text and (setting, row) not in found.done:
        text = found.why.get((setting, row), "")
    printed = published_words(found.published(setting, row, score))
    return f"{text} ({printed})" if printed else text


def _curve_notes(
    found: Collected, points: Mapping[float, str], score: str, rows: Sequence[str]
) -> tuple[str, ...]:
    spec = found.spec
    notes = [f"columns: {spec.axis}"]
    if score == spec.scores[0]:
        notes += [
            f"{x:g}: {spec.settings[s].note}" for x, s in points.items() if spec.settings[s].note
        ]
        own = [(row, spec.rows[row].note_in(s)) for row in rows for s in points.values()]
        notes += [f"{row}: {note}" for row, note in dict.fromkeys(own) if note]
    counts = sorted({len(found.by_seed(s, r, score)) for s in points.values() for r in rows} - {0})
    seeds = " or ".join(seeds_words(n, n) for n in counts)
    notes.append(f"seeds: {seeds}" + ("; without ±: one" if counts[0] == 1 < counts[-1] else ""))
    if any(found.published(s, row, score) is not None for s in points.values() for row in rows):
        notes.append("in parentheses: published")
    return tuple(notes)

"""Tables of curves: a row per method, and a column for each place on the axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raters.benchmarks.blocks import (
    Block,
    difference_cell,
    interval_notes,
    published_words,
    seeds_words,
    value_words,
)
from raters.benchmarks.results import Collected, Difference
from raters.benchmarks.scores import SCORES


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
    values, more = [], []
    for row in rows:
        cells = [_point(found, setting, row, score) for setting in points.values()]
        values.append([row, *cells])
        gaps = [
            difference_cell(found.difference(setting, row, score), score)
            for setting in points.values()
        ]
        more += [[row, *gaps]] if any(gaps) else []
    if not any(found.by_seed(s, row, score) for s in points.values() for row in rows):
        return []
    title = ": ".join(part for part in (name, SCORES[score].title) if part)
    made = [Block(title, ["row", *heads], values, _curve_notes(found, points, score, rows))]
    if more:
        minus = f"{title}, minus {found.spec.baseline}"
        counts = {n.n for n in _gaps(found, points, rows, score) if n is not None}
        made.append(Block(minus, ["row", *heads], more, interval_notes(counts)))
    return made


def _point(found: Collected, setting: str, row: str, score: str) -> str:
    """Return a value of a curve; (published) beside it, or why there is none."""
    text = value_words(found.summary(setting, row, score), score)
    if not text and (setting, row) not in found.done:
        text = found.why.get((setting, row), "")
    printed = published_words(found.published(setting, row, score))
    return f"{text} ({printed})" if printed else text


def _gaps(
    found: Collected, points: Mapping[float, str], rows: Sequence[str], score: str
) -> list[Difference | None]:
    return [found.difference(s, row, score) for s in points.values() for row in rows]


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

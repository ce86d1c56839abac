"""`raters bench run --study`: methods compared on a study of the user's own, without truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from raters.benchmarks.blocks import difference_cell, value_words
from raters.benchmarks.own import compare_study
from raters.benchmarks.results import Difference, Summary
from raters.benchmarks.scores import SCORES
from raters.cli.bench import end_with_failed_cells
from raters.cli.bench_show import print_json
from raters.cli.tables import say, show_notes, show_rows

if TYPE_CHECKING:
    from raters.benchmarks.own_table import StudyComparison
    from raters.rows import Row
    from raters.study.study import Study


def run_study(
    study: Study,
    methods: str,
    folder: str,
    seeds: tuple[int, ...] | None,
    as_json: bool,
    **how: Any,  # noqa: ANN401
) -> None:
    """Compare methods and print the table.

    Args:
        study: The study.
        methods: Their names, with commas between them; '' for the usual ones.
        folder: Where results are written.
        seeds: Seeds; None for the usual ones.
        as_json: Print everything as JSON.
        **how: As in `compare_study`.
    """
    names = [part.strip() for part in methods.split(",") if part.strip()] or None
    if seeds is not None:
        how["seeds"] = seeds
    bar = sys.stderr.isatty()
    how |= {"progress": bar, "tell": say if how["scheduler"] or not bar else None}
    found = compare_study(study, names, folder, **how)
    if as_json:
        print_json({"methods": found.rows, "notes": found.notes, "advice": found.advice})
    else:
        _show(found)
        typer.echo(f"\nthe table: {Path(folder) / 'comparison.md'}, .csv and .json")
    end_with_failed_cells(found.run)


def _show(found: StudyComparison) -> None:
    show_rows("methods on held-out cases", [_values(row, found.scores) for row in found.rows])
    more = [_differences(row, found.scores) for row in found.rows]
    show_rows("difference to the baseline, 95 % intervals", [row for row in more if len(row) > 1])
    show_notes(found.notes)
    if found.advice:
        typer.echo(found.advice)


def _values(row: Row, scores: list[str]) -> Row:
    line: Row = {"method": row["method"]}
    for score in scores:
        mean, sd = (_shown(row.get(f"{score}{end}"), score) for end in ("", "_sd"))
        one = None if mean is None else Summary(mean, sd, 1)
        line[SCORES[score].title] = value_words(one, score) or None
    return {**line, "missing": row.get("missing")}


def _differences(row: Row, scores: list[str]) -> Row:
    line: Row = {"method": row["method"]}
    for score in scores:
        ends = (_shown(row.get(f"{score}_{end}"), score) for end in ("difference", "low", "high"))
        mean, low, high = ends
        if mean is not None:
            line[SCORES[score].title] = difference_cell(Difference(mean, low, high, 0), score)
    return line


def _shown(value: float | None, score: str) -> float | None:
    return None if value is None else value * SCORES[score].factor

"""The tables of benchmarks on a terminal, and as Markdown, CSV, HTML and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from raters.cli.tables import show_notes, show_rows, wrapped
from raters.wording import duration, many

if TYPE_CHECKING:
    from raters.benchmarks.results import Collected


SMOKE = (
    "drawn data and next to no training, which only shows that it runs; these numbers cannot be "
    "compared with published ones, so that ranks and claims are left out"
)


def rendered(found: Collected, form: str) -> str:
    """Return a table as 'md', 'csv', 'html' or 'json'."""
    from raters.benchmarks import table as tables
    from raters.rows import to_csv

    if form == "csv":
        return to_csv(tables.flat_rows(found))
    if form == "json":
        return tables.to_json_page(found)
    made = [*tables.blocks(found), *tables.claim_blocks(found)]
    title = f"{found.spec.title} ({found.spec.name}, {found.scale})"
    if not found.comparable:
        title += f": {SMOKE}"
    if form == "html":
        from raters.benchmarks.bench_page import bench_page

        return bench_page(found, title)
    return f"## {title}\n\n{tables.to_markdown_page(made)}"


def show_table(found: Collected) -> None:
    """Print the tables of a benchmark, the claims of its paper, and what has no result."""
    from rich.console import Console

    from raters.benchmarks.table import blocks, claim_blocks

    typer.echo(f"\n{found.spec.name}: {found.spec.title}")
    if found.spec.paper:
        typer.echo(wrapped(f"paper: {found.spec.paper}", indent=7))
    done, time = f"{found.num_done:,} of {many(found.num_wanted, 'cell')}", duration(found.seconds)
    typer.echo(f"scale: {found.scale}; {done} done, {time} on one core")
    if not found.comparable:
        typer.echo(wrapped(f"note: {SMOKE}", indent=6))
    for block in [*blocks(found, Console().width), *claim_blocks(found)]:
        heads = _different(block.header)
        rows = [
            dict(zip(heads, (cell or None for cell in line), strict=True)) for line in block.lines
        ]
        show_rows(block.title, rows)
        show_notes(block.notes)


def _different(header: Sequence[str]) -> list[str]:
    """Return heads as keys: blanks, which nobody sees, tell those apart that are the same."""
    return [f"{head}{' ' * list(header[:k]).count(head)}" for k, head in enumerate(header)]


def print_json(content: Any) -> None:  # noqa: ANN401
    """Print plain data as JSON."""
    from raters.rows import to_json

    typer.echo(to_json(content))

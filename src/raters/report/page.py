"""The report as one HTML file, and the folder with its figures and tables.

A `Report` has facts (cards at the top) and sections; a section has blocks. `render` gives the page
as text, `write` puts it into a folder together with all figures (PNG, SVG) and tables (CSV).

Example:
    >>> table = TableBlock("raters", [{"rater": "<b>", "dice": 0.9}], "All agree.")
    >>> page = render(Report("Lesions", {"cases": 2}, [Section("Raters", blocks=[table])]))
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
"""

from __future__ import annotations

from pathlib import Path

from raters.report.blocks import (
    Block,
    FigureBlock,
    Report,
    Section,
    TableBlock,
    TextBlock,
    ViewerBlock,
    all_blocks,
    file_names,
)
from raters.report.figures import write_figure
from raters.report.html import rendered
from raters.rows import write_csv
from raters.study.paths import written_whole

__all__ = [
    "Block",
    "FigureBlock",
    "Report",
    "Section",
    "TableBlock",
    "TextBlock",
    "ViewerBlock",
    "render",
    "write",
]


def render(report: Report) -> str:
    """Return the report as one HTML page that needs nothing else."""
    return rendered(report)[0]


def write(report: Report, folder: str | Path) -> Path:
    """Write `report.html`, `figures/*.png`, `figures/*.svg` and `tables/*.csv` into a folder.

    Each file is written whole or not at all; other files of the folder are left alone.

    Returns:
        The path of `report.html`.
    """
    target = Path(folder)
    text, drawings = rendered(report)
    names = file_names(report)
    for block in all_blocks(report):
        if isinstance(block, FigureBlock):
            write_figure(block.figure, drawings[id(block)], target / "figures" / names[id(block)])
        elif isinstance(block, TableBlock):
            write_csv(target / "tables" / f"{names[id(block)]}.csv", block.rows)
    path = target / "report.html"
    with written_whole(path) as file:
        file.write(text)
    return path

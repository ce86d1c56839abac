"""The report as one HTML file, and the folder with its figures and tables.

A `Report` has a first screen and sections; a section has blocks. `render` gives the page as text,
`write` puts it into a folder together with all figures (PNG, SVG) and tables (CSV).

Example:
    >>> from raters.views.report.blocks import Section
    >>> table = TableBlock("raters", [{"rater": "<b>", "dice": 0.9}], "All agree.")
    >>> page = render(Report("Lesions", {"cases": 2}, [Section("Raters", blocks=[table])]))
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)

Texts are escaped by jinja2. Data for the script stand in `<script type="application/json">`, with
every '<' coded. The page forbids all scripts but its own, and all addresses (Content-Security-
Policy), so that nothing in it can act or be fetched.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from raters.core.progress import track
from raters.io.claim import Owner, claim_folder
from raters.io.paths import written_whole
from raters.io.rows import write_csv
from raters.views.report.blocks import (
    Block,
    FigureBlock,
    Report,
    Section,
    TableBlock,
    TextBlock,
    ViewerBlock,
    all_blocks,
    file_names,
    with_blocks,
)
from raters.views.report.figures import figure_svg, inline_svg, write_figure
from raters.views.report.tables import rater_names, shown_value, table_view
from raters.views.report.viewer import ViewerCase, case_data, index_data, within
from raters.views.texts.say import filled_page

VIEWERS_BUDGET = 6_500_000
"""Bytes that all viewers of a page may take together."""

OWNER = Owner(
    "report",
    "one that raters report wrote to, or that of a run",
    journals=("weights.safetensors", "checkpoints/last.ckpt"),
)
"""Reports may lie in the folder of a run, beside what is read of it."""

SCRIPTS = ("viewer_picture.js", "viewer_panes.js", "viewer_pointer.js", "viewer.js", "page.js")
"""The files of the page's script; the last one starts it."""

View = dict[str, Any]


def rendered(report: Report) -> tuple[str, dict[int, str]]:
    """Return the page, and the SVG files of its figures by `id()` of their blocks."""
    blocks = all_blocks(report)
    drawings = {id(b): figure_svg(b.figure, b.dense) for b in blocks if isinstance(b, FigureBlock)}
    names = file_names(report)
    budget = viewer_budget(report)
    raters = rater_names(block.rows for block in blocks if isinstance(block, TableBlock))
    if report.first is not None and report.first.matrix is not None:
        raters |= set(report.first.matrix.colours)
    keys = (f"b{number}" for number in count(1))
    views = [
        [_view(block, next(keys), names, drawings, budget, raters) for block in section.blocks]
        for section in report.sections
    ]
    viewers = [block for block in blocks if isinstance(block, ViewerBlock)]
    viewed = [case.id for block in viewers for case in within(block.cases, budget)]
    viewed += [name for block in viewers for name, _ in block.elsewhere]
    page = _page(
        title=report.title,
        about=report.about,
        facts=[(name, shown_value(value)) for name, value in report.facts.items()],
        first=report.first,
        sections=report.sections,
        views=views,
        raters=raters,
        # Links to cases that no viewer opens open their row in a table.
        names={"viewed": viewed, "raters": sorted(raters)},
    )
    return page, drawings


def viewer_budget(report: Report) -> int:
    """Return the bytes that each viewer of a page may take."""
    viewers = sum(isinstance(block, ViewerBlock) for block in all_blocks(report))
    return VIEWERS_BUDGET // max(1, viewers)


def _page(**values: Any) -> str:  # noqa: ANN401
    folder = files("raters.views.report")

    def read(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    style = read("page.css") + read("viewer.css")
    script = "\n".join(map(read, SCRIPTS))
    digest = b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    values |= {"style": Markup(style), "script": Markup(script), "digest": digest}
    return filled_page("report/page.html", **values)


def _view(
    block: Block,
    key: str,
    names: dict[int, str],
    drawings: dict[int, str],
    budget: int,
    raters: Container[str],
) -> View:
    """Return what the template needs of a block; `key` is its id in the page."""
    if isinstance(block, TextBlock):
        return {"type": "text", "kind": block.kind, "text": block.text}
    view = {"key": key, "name": names[id(block)], "caption": block.caption}
    if isinstance(block, FigureBlock):
        svg = Markup(inline_svg(drawings[id(block)], f"{key}-", raters))
        return view | {"type": "figure", "svg": svg, "title": block.name}
    if isinstance(block, TableBlock):
        rows = block.rows if block.shown is None else block.shown
        return view | {"type": "table"} | table_view(rows, block.columns)
    return view | _viewer(block, budget)


def _viewer(block: ViewerBlock, budget: int) -> View:
    cases = within(block.cases, budget)
    return {
        "type": "viewer",
        "count": block.count or len(block.cases) + len(block.rest),
        "held": len(cases),
        "elsewhere": bool(block.elsewhere),
        "more": block.make is not None,
        "back": block.back,
        "index": index_data(cases, block.layers, block.maps, block.elsewhere),
        "cases": [case_data(case) for case in cases],
    }


def render(report: Report) -> str:
    """Return the report as one HTML page that needs nothing else."""
    return rendered(report)[0]


def write(
    report: Report, folder: str | Path, all_cases: bool = False, progress: bool = False
) -> Path:
    """Write `report.html`, `figures/*.png`, `figures/*.svg` and `tables/*.csv` into a folder.

    Each file is written whole or not at all. Called again, the earlier report is replaced;
    other files of the folder are left alone.

    Args:
        report: The report.
        folder: Where to write.
        all_cases: Whether to write the cases that do not fit into the viewers, as `cases/*.html`.
        progress: Show a progress bar of these.

    Returns:
        The path of `report.html`.

    Raises:
        RatersError: The folder, or a file of that name in it, is not of an earlier report.
    """
    target = Path(folder)
    claim_folder(target, OWNER, _files_of(report))
    if all_cases:
        report = _with_all_cases(report, target, progress)
    text, drawings = rendered(report)
    names = file_names(report)
    for block in all_blocks(report):
        if isinstance(block, FigureBlock):
            write_figure(block.figure, drawings[id(block)], target / "figures" / names[id(block)])
        elif isinstance(block, TableBlock):
            write_csv(target / "tables" / f"{names[id(block)]}.csv", block.rows)
    return written(target / "report.html", text)


def _files_of(report: Report) -> list[str]:
    """Return the files of a report, as paths in its folder, but for pages of further cases."""
    names = file_names(report)
    files = ["report.html"]
    for block in all_blocks(report):
        if isinstance(block, FigureBlock):
            files += [f"figures/{names[id(block)]}.svg", f"figures/{names[id(block)]}.png"]
        elif isinstance(block, TableBlock):
            files.append(f"tables/{names[id(block)]}.csv")
    return files


def written(path: Path, text: str) -> Path:
    """Write a page, whole or not at all."""
    with written_whole(path) as file:
        file.write(text)
    return path


def _with_all_cases(report: Report, target: Path, progress: bool) -> Report:
    """Write the further cases of all viewers; return the report with links to them."""
    names = file_names(report)
    budget = viewer_budget(report)

    def linked(block: Block) -> Block:
        if not isinstance(block, ViewerBlock):
            return block
        kept = within(block.cases, budget)
        made = map(block.make, block.rest) if block.make is not None else iter(())
        rest = chain(block.cases[len(kept) :], track(made, len(block.rest), "all cases", progress))
        count = len(block.cases) + len(block.rest)
        plain = replace(block, caption="", rest=(), make=None, count=count, back="../report.html")
        links = []
        for number, cases in enumerate(_pages(rest), 1):
            name = f"{names[id(block)]}-{number}.html"
            section = Section("Cases", blocks=[replace(plain, cases=cases)])
            page = Report(f"{report.title}: cases, page {number}", {}, [section])
            claim_folder(target, OWNER, [f"cases/{name}"])
            written(target / "cases" / name, render(page))
            links += [
                (one.id, f"cases/{quote(name)}#case={quote(one.id, '', errors='replace')}")
                for one in cases
            ]
        return replace(block, cases=kept, count=count, elsewhere=links)

    return with_blocks(report, linked)


def _pages(cases: Iterable[ViewerCase]) -> Iterator[list[ViewerCase]]:
    """Return cases in lists that fit a page each; only one list is in memory."""
    page: list[ViewerCase] = []
    left = VIEWERS_BUDGET
    for case in cases:
        left -= case.size
        if page and left < 0:
            yield page
            page = []
            left = VIEWERS_BUDGET - case.size
        page.append(case)
    if page:
        yield page

"""A report as plain data: its first screen, sections, and blocks of figures, tables and texts.

Names of raters and cases may hold anything, they are only shown. Texts are plain, or `Markup` of
`say`, in which names are links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, Literal, TypeVar

from matplotlib.figure import Figure

from raters.io.paths import file_name
from raters.io.rows import Row
from raters.views.report.tables import shown_value
from raters.views.report.viewer import Layer, MapLayer, ViewerCase
from raters.views.texts.say import filled_in, plain, say, text_of, texts

_LONGEST_NAME = 60
T = TypeVar("T")
TextKind = Literal["plain", "note", "warning"]


@dataclass(frozen=True)
class FigureBlock:
    """A figure of `raters.views.plots` in `theme="light"`; the page makes it fit dark screens.

    Attributes:
        name: The name of its files: `figures/NAME.png` and `.svg`.
        figure: The figure.
        caption: What it shows and what to do about it, in a sentence or two.
        dense: Whether to draw its marks as one picture (thousands of points); texts stay text.
            It is done anyway if the figure would be large.
    """

    name: str
    figure: Figure
    caption: str = ""
    dense: bool = False


@dataclass(frozen=True)
class TableBlock:
    """A table: sorted by a click, searched if it is long, 200 rows at a time.

    Attributes:
        name: The name of its file, `tables/NAME.csv`, which holds all columns and rows.
        rows: The rows; None and NaN are cells without a value.
        caption: What it shows and what to do about it, in a sentence or two.
        columns: The columns that the page shows, in order, or `{column: heading}`; None for all.
        shown: The rows as the page shows them, where they differ from those of the file.
    """

    name: str
    rows: Sequence[Row]
    caption: str = ""
    columns: Sequence[str] | Mapping[str, str] | None = None
    shown: Sequence[Row] | None = None


@dataclass(frozen=True)
class ViewerBlock:
    """Cases to look at: pictures, labels, maps and slices.

    Attributes:
        name: A name for links to it.
        cases: The cases in the order of the list, the most telling ones first.
        caption: What to look for, in a sentence or two.
        layers: Those whose labels can be shown, in order, with their colours (`rater_layers`,
            `extra_layers`); labels that no layer names get one at the end.
        maps: The maps that can be laid over the picture, with their legends; maps of cases that
            are not named here get a plain one at the end.
        rest: The names of further cases, which are not made yet.
        make: Makes one of them.
        elsewhere: The names of cases on other pages, with the addresses of these.
        count: How many cases there are on all pages; 0 for those above.
        back: The address of the report, on a page of further cases.
    """

    name: str
    cases: Sequence[ViewerCase]
    caption: str = ""
    layers: Sequence[Layer] = ()
    maps: Sequence[MapLayer] = ()
    rest: Sequence[str] = ()
    make: Callable[[str], ViewerCase] | None = None
    elsewhere: Sequence[tuple[str, str]] = ()
    count: int = 0
    back: str = ""


@dataclass(frozen=True)
class TextBlock:
    """A paragraph.

    Attributes:
        text: Plain text; an empty line begins a new paragraph.
        kind: 'plain'; 'note' for a hint; 'warning' for what is missing or wrong.
    """

    text: str
    kind: TextKind = "plain"


Block = FigureBlock | TableBlock | ViewerBlock | TextBlock


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading, listed in the navigation.

    Attributes:
        title: The heading, a few words.
        about: What the section answers, in a sentence; '' for none.
        blocks: What it shows.
    """

    title: str
    about: str = ""
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Number:
    """A headline: its name, the number (or words), the ends of its interval, what it means."""

    name: str
    value: float | str | None
    low: float | None = None
    high: float | None = None
    about: str = ""

    @property
    def shown(self) -> str:
        """The number as text."""
        return f"{self.value:.2f}" if isinstance(self.value, float) else shown_value(self.value)


@dataclass(frozen=True)
class Matrix:
    """A small table of numbers in shades; `values[row][column]`, None for no value.

    `colours` are those of rows that are raters, whose names are links; numbers have `digits`;
    `notes` are a few words behind each row, or none.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    about: str = ""
    colours: Mapping[str, str] = field(default_factory=dict)
    digits: int = 2
    notes: Sequence[str] = ()

    def shade(self, value: float) -> int:
        """Spread shades over the values that there are, so that small differences are seen."""
        known: list[float] = []
        for row in self.values:
            known += [cell for cell in row if cell is not None]
        return round(6 + 50 * (value - min(known)) / max(max(known) - min(known), 0.1))


@dataclass(frozen=True)
class Card:
    """A case to open: its name, a few words, and a picture or lines of text."""

    case: str
    note: str = ""
    picture: str = ""
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class First:
    """The first screen: the answer before any scrolling.

    Attributes:
        numbers: The headline, and up to three numbers to compare it with.
        matrix: Who agrees with whom; None where nobody can be told apart.
        cards: The cases to look at first, at most six.
        actions: What to do, three sentences.
        cases: What the cards show, in a few words.
    """

    numbers: Sequence[Number] = ()
    matrix: Matrix | None = None
    cards: Sequence[Card] = ()
    actions: Sequence[str] = ()
    cases: str = "Most disputed"


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: The heading of the page.
        facts: A line at the top, `{"cases": 120, "raters": 5}`: few, and short.
        sections: The sections.
        about: A sentence or two below the title; '' for none.
        first: The first screen; None for none.
    """

    title: str
    facts: Mapping[str, object] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    about: str = ""
    first: First | None = None


def table(
    key: str,
    rows: Sequence[Row],
    shown: Sequence[Row] | None = None,
    caption: str | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    **values: Any,  # noqa: ANN401
) -> TableBlock:
    """Return a table with the caption and columns that `texts.yaml` has for it.

    Args:
        key: 'page.name'; the name is that of its file.
        rows: The rows of the file.
        shown: The rows of the page, where they differ.
        caption: A caption in place of the one that is there.
        columns: Columns in place of those that are there; without either, all are shown.
        values: What caption and headings are made of. Columns without any value are left out.
    """
    named = texts().get(key, {}).get("columns") if columns is None else None
    if named:
        both = [[plain(filled_in(text, **values)) for text in pair] for pair in named.items()]
        heads = dict(both)
        seen = rows if shown is None else shown
        known = {k: h for k, h in heads.items() if h and any(r.get(k) is not None for r in seen)}
        columns = known or heads
    about = text_of(key, "caption", **values) if caption is None else caption
    return TableBlock(key.split(".", 1)[1], rows, about, columns, shown)


def figure(
    key: str,
    drawn: Figure,
    caption: str | None = None,
    **values: Any,  # noqa: ANN401
) -> FigureBlock:
    """Return a figure with the caption that `texts.yaml` has for it."""
    about = text_of(key, "caption", **values) if caption is None else caption
    return FigureBlock(key.split(".", 1)[1], drawn, about)


def section(key: str, *blocks: Block | None, **values: Any) -> Section:  # noqa: ANN401
    """Return blocks (None is none) with the title and the sentence that `texts.yaml` has."""
    title = plain(text_of(key, "title", **values))
    about = text_of(key, "about", **values)
    return Section(title, about, there(*blocks))


def there(*items: T | None) -> list[T]:
    """Leave out what is None."""
    return [item for item in items if item is not None]


def note(sentence: str, kind: TextKind = "note", /, **values: Any) -> TextBlock:  # noqa: ANN401
    """Return a sentence of the template as a paragraph."""
    return TextBlock(say(sentence, **values), kind)


def all_blocks(report: Report) -> list[Block]:
    """Return the blocks of all sections."""
    return [block for section in report.sections for block in section.blocks]


def with_blocks(report: Report, change: Callable[[Block], Block]) -> Report:
    """Return a report whose blocks are changed, one by one."""
    sections = [replace(s, blocks=[change(block) for block in s.blocks]) for s in report.sections]
    return replace(report, sections=sections)


def file_names(report: Report) -> dict[int, str]:
    """Return each block (by its `id()`) the name of its file, different from all others.

    Names that only differ in upper and lower case count as the same: some systems mix them up.
    """
    blocks = [block for block in all_blocks(report) if not isinstance(block, TextBlock)]
    names = different_names(file_name(block.name) for block in blocks)
    return {id(block): name for block, name in zip(blocks, names, strict=True)}


def different_names(names: Iterable[str]) -> list[str]:
    """Return names of files that are not too long, and differ in more than upper and lower case.

    Example:
        >>> different_names(["ann", "Ann", "bob"])
        ['ann', 'Ann-2', 'bob']
    """
    found: dict[str, str] = {}
    for long in names:
        first = long[:_LONGEST_NAME]
        further = (f"{first}-{number}" for number in count(2))
        name = next(name for name in chain([first], further) if name.casefold() not in found)
        found[name.casefold()] = name
    return list(found.values())

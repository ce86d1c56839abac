"""What tests look for in reports."""

from __future__ import annotations

from raters.views.report.blocks import First, Report, TableBlock, TextBlock, all_blocks
from raters.views.texts.say import plain


def first_screen_of(report: Report) -> First:
    """Return the first screen, which is there."""
    assert report.first is not None
    return report.first


def table_named(report: Report, name: str) -> TableBlock:
    """Return the table of a name, of which there is one."""
    tables = []
    for block in all_blocks(report):
        if isinstance(block, TableBlock) and block.name == name:
            tables.append(block)
    assert len(tables) == 1
    return tables[0]


def texts_and_captions(report: Report) -> list[str]:
    """Return the words of all blocks."""
    return [b.text if isinstance(b, TextBlock) else b.caption for b in all_blocks(report)]


def words_of(report: Report) -> str:
    """Return the words of all blocks, without their marks."""
    return " ".join(map(plain, texts_and_captions(report)))

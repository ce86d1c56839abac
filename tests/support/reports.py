"""What tests look for in reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raters.study.study import Study
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


def draw_growing_squares(cases: Sequence[str], raters: Sequence[str]) -> Study:
    """Draw squares that two raters see alike but for a pixel, larger from case to case."""
    labels = np.zeros((len(cases), 2, 16, 16), int)
    for k in range(len(cases)):
        labels[k, :, 2 : 4 + k % 9, 2:9] = 1
        labels[k, 1, 4, 4] = 0
    return Study.from_arrays(labels=labels, raters=raters, classes=["no", "yes"], cases=cases)

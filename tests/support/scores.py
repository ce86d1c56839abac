"""Scores by their definitions, and the rows of tables of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray


def foreground_dice(mask: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the Dice score of class 1, and 0 where neither mask has it."""
    foreground = mask == 1
    expected = reference == 1
    both = int((foreground & expected).sum())
    total = int(foreground.sum()) + int(expected.sum())
    return float(2 * both / max(total, 1))


def only_row(rows: Sequence[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    """Return the row that has some values, of which there is one."""
    (row,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return row

"""The outline of a mask along the borders of its pixels, as closed lines."""

from __future__ import annotations

import numpy as np
from matplotlib.path import Path
from numpy.typing import ArrayLike, NDArray

Corner = tuple[int, int]


def border_lines(mask: ArrayLike) -> list[NDArray[np.float64]]:
    """Trace a 2D mask along pixel borders.

    Pixels are squares around whole coordinates, as matplotlib's `imshow` draws them. Outer lines
    and holes turn in opposite ways, so that the signed areas add up to the number of pixels; where
    two pixels only touch at a corner, the lines keep them apart.

    Returns:
        Closed lines `(points, 2)` of x (column) and y (row), with the first point again at the end.

    Example:
        >>> [line.tolist() for line in border_lines([[0, 1]])]
        [[[0.5, -0.5], [1.5, -0.5], [1.5, 0.5], [0.5, 0.5], [0.5, -0.5]]]
    """
    inside = np.pad(np.asarray(mask, bool), 1)
    following = _edges(inside)
    lines = []
    while following:
        lines.append(_straightened(_walk(following)))
    return lines


def border_path(mask: ArrayLike) -> Path:
    """Return the outline as one path, with holes left open.

    Example:
        >>> path = border_path([[0, 1, 1], [0, 1, 0]])
        >>> path.contains_points([(1, 0), (2, 0), (1, 1), (2, 1)]).tolist()
        [True, True, True, False]
    """
    lines = border_lines(mask)
    if not lines:
        return Path(np.zeros((0, 2)))
    return Path.make_compound_path(*(Path(line, closed=True) for line in lines))


def _edges(inside: NDArray[np.bool_]) -> dict[Corner, list[Corner]]:
    """Return the borders as arrows from corner to corner (row, column), the mask to their right."""
    following: dict[Corner, list[Corner]] = {}

    def add(rows: NDArray[np.intp], columns: NDArray[np.intp], way: Corner) -> None:
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            following.setdefault((row, column), []).append((row + way[0], column + way[1]))

    core = inside[1:-1, 1:-1]
    for open_side, start, way in (
        (core & ~inside[:-2, 1:-1], (0, 0), (0, 1)),  # along the top, to the right
        (core & ~inside[1:-1, 2:], (0, 1), (1, 0)),  # down the right side
        (core & ~inside[2:, 1:-1], (1, 1), (0, -1)),  # along the bottom, to the left
        (core & ~inside[1:-1, :-2], (1, 0), (-1, 0)),  # up the left side
    ):
        rows, columns = np.nonzero(open_side)
        add(rows + start[0], columns + start[1], way)
    return following


def _walk(following: dict[Corner, list[Corner]]) -> list[Corner]:
    """Follow the arrows from any corner until it is reached again; used arrows are removed."""
    start = next(iter(following))
    line, here = [start], start
    came = (0, 0)
    while True:
        ways = following[here]
        there = ways[0] if len(ways) == 1 else _right_turn(here, came, ways)
        ways.remove(there)
        if not ways:
            del following[here]
        came = (there[0] - here[0], there[1] - here[1])
        line.append(there)
        here = there
        if here == start:
            return line


def _right_turn(here: Corner, came: Corner, ways: list[Corner]) -> Corner:
    """At a corner where two pixels touch, stay with the pixel on the right."""
    right = (here[0] + came[1], here[1] - came[0])
    return right if right in ways else ways[0]


def _straightened(line: list[Corner]) -> NDArray[np.float64]:
    """Leave out corners on straight parts; give x and y."""
    points = np.array(line[:-1])
    turns = np.roll(points, -1, axis=0) - points
    kept = points[(turns != np.roll(turns, 1, axis=0)).any(axis=1)]
    return np.concatenate([kept, kept[:1]])[:, ::-1] - 0.5

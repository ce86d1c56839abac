"""Runs the cells of benchmarks, where their data lie; checks them before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from raters.comparison.cell import Cell, refuse_options, result_of
from raters.comparison.run import CellsRun, run_cells
from raters.core.cluster import Tell
from raters.core.errors import RatersError
from raters.io.rows import Row
from raters_bench.data import Places, make_data, missing_data


def run_benchmarks(
    cells: Sequence[Cell],
    folder: Path,
    places: Places,
    num_workers: int | None = None,
    scheduler: str | None = None,
    *,
    again: bool = False,
    progress: bool = False,
    tell: Tell | None = None,
) -> CellsRun:
    """Run cells and write one JSON file for each; cells with a result are skipped.

    Args:
        cells: The cells.
        folder: Where results are written.
        places: Where data sets lie.
        num_workers: As in `raters.comparison.run.run_cells`, and so are the others.
        scheduler: As there.
        again: As there.
        progress: As there.
        tell: As there.

    Raises:
        RatersError: Data are missing, options are wrong, or what `run_cells` raises.
    """
    refuse_options(list(cells))
    missing = missing_data((cell.data for cell in cells), places)
    if missing:
        raise RatersError("\n".join(map(str, missing)), kind=missing[0].kind)

    score = partial(make_and_score, places=places)
    return run_cells(
        cells, folder, score, num_workers, scheduler, again=again, progress=progress, tell=tell
    )


def make_and_score(cell: Cell, _: Path, places: Places) -> Row:
    """Make the study of a cell, train its method, and return the scores by name.

    Example:
        >>> cell = Cell("try", "smoke", "", "vote", 0, "vote", {}, {"source": "drawn-classes"},
        ...     {"raters": "3xhammer-spammer:0.8"}, {"epochs": 2})
        >>> sorted(make_and_score(cell, Path("unused.npz"), {}))[:2]
        ['accuracy', 'as_rater']
    """
    from raters_bench.scoring import score_cell  # seconds of imports

    data = make_data(cell.data, cell.raters, cell.seed, places)
    return score_cell(cell, data)


def check_cells(
    cells: list[Cell], folder: Path, places: Places
) -> tuple[list[Row], list[RatersError]]:
    """Check all that can be checked without training.

    Returns:
        A row for each cell, with its `state`: done, to run, or what is wrong with its result; and
        what would fail.

    Raises:
        RatersError: An option that a method or the training does not take.
    """
    refuse_options(cells)
    failures = missing_data((cell.data for cell in cells), places)
    rows: list[Row] = []
    for cell in cells:
        try:
            state = "done" if result_of(cell, folder) is not None else "to run"
        except RatersError as error:
            state = str(error.kind).replace("-", " ")
            failures.append(error)
        names = ("benchmark", "scale", "setting", "row", "seed", "method")
        rows.append({**{k: getattr(cell, k) for k in names}, "state": state})
    return rows, failures

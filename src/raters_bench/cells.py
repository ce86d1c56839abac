"""The cells of a benchmark: each row in each setting with each seed."""

from __future__ import annotations

from raters.comparison.cell import Cell, why_empty
from raters_bench.spec import Specification, merged


def cells_of(spec: Specification, scale: str, rows: tuple[str, ...] = ()) -> list[Cell]:
    """List the cells of a benchmark; those that share a study are neighbours.

    Rows without a method, or with one that raters does not have, have no cells.

    Args:
        spec: The benchmark.
        scale: The name of a scale.
        rows: Only these rows; by default all.
    """
    size = spec.scale(scale)
    found = []
    for setting in size.settings or tuple(spec.settings):
        for position, seed in enumerate(size.seeds):
            for name in rows or size.rows or tuple(spec.rows):
                row = spec.rows[name]
                elsewhere = row.settings is not None and setting not in row.settings
                if elsewhere or position >= (row.seeds or len(size.seeds)) or why_empty(row.method):
                    continue
                found.append(
                    Cell(
                        benchmark=spec.cells or spec.name,
                        scale=scale,
                        setting=setting,
                        row=name,
                        seed=seed,
                        method=str(row.method),
                        options=row.options,
                        matrices=row.matrices,
                        **merged(spec, setting, scale),
                    )
                )
    return found

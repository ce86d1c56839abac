"""Turns Dice at the cuts of a run into a table, and into scores that runs are compared by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raters.prediction.evaluate_cuts import HALF, NAMES, RunCuts, key_of
from raters.prediction.evaluate_sums import RunSums
from raters.prediction.evaluate_tables import ALL, entry
from raters.rows import Row
from raters.scores.bootstrap_sums import GroupBootstrap, ratio

Floats = NDArray[np.float64]


def score_vectors(sums: RunSums, against: str) -> dict[str, list[Floats]]:
    """Return the sums of the main score at each cut but 0.5: Dice of all classes, and whether."""
    found = {}
    for name in NAMES[1:]:
        rows = sums.vectors.get(key_of(name, against), [])
        if rows:
            found[f"score_{name}"] = [row[[0, len(row) // 2]] for row in rows]
    return found


def cut_rows(
    sums: RunSums, bootstrap: GroupBootstrap, against: str, classes: tuple[str, ...], cuts: RunCuts
) -> list[Row]:
    """Return Dice at each cut, of all foreground classes and of each, with the cuts."""
    if len(cuts.others) < 2:
        return []
    whole = [ALL] if len(classes) > 2 else []
    rows: list[Row] = []
    for name in (*whole, *classes[1:]):
        place = 0 if name == ALL else classes.index(name)
        row: Row = {"against": against, "class": name}
        for cut, values in cuts.others.items():
            parts = sums.stacked(key_of(cut, against))
            assert parts is not None  # each case has them
            pair = parts[:, [place, len(classes) + place]]
            row |= entry(f"dice_{cut}", bootstrap.interval(pair, ratio))
            if cut != HALF:
                row[f"cut_{cut}"] = None if name == ALL else float(values[place - 1])
        rows.append(row)
    return rows

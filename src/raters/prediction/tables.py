"""Predictions as tables: the classes of cases, and matrices that never vary."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.evaluation.predictions import rater_folder
from raters.prediction.predict import entropy_bits, same_confusion
from raters.rows import Row, write_csv

if TYPE_CHECKING:
    from raters.prediction.writing import Outputs
    from raters.study.journal import Journal
    from raters.training.model import Model

TABLE = "predictions.csv"
CONFUSION_TABLE = "confusion.csv"


def write_tables(
    model: Model, cases: list[str], folder: Path, outputs: Outputs, journal: Journal
) -> None:
    """Write the classes of cases, from what was kept of each of them now or before.

    `predictions.csv` has the columns case, label (a value of the study), and the probability of
    each class; `as-<rater>/predictions.csv` has what a rater would say.
    """
    if model.config.kind != "classification":
        return
    done = journal.cases
    kept = {name: journal.facts(name) for name in cases if name in done}
    if not kept:
        return
    # Exact, as `raters evaluate` reads them again by the names of cases.
    rows = _rows(model, {n: f["p"] for n, f in kept.items()}, outputs.entropy)
    write_csv(folder / TABLE, rows, exact=True)
    for rater in outputs.raters:
        told = {n: f["told"][rater] for n, f in kept.items() if rater in f["told"]}
        write_csv(folder / rater_folder(rater) / TABLE, _rows(model, told, False), exact=True)


def write_confusion(model: Model, folder: Path) -> None:
    """Write matrices that never vary as one table: rater, true, observed, p.

    Raters of whom no label was trained on are left out.
    """
    names = [c.name for c in model.config.classes]
    matrices = same_confusion(model).reshape(-1, len(names), len(names))
    rows: list[Row] = [
        {"rater": rater, "true": names[t], "observed": names[o], "p": float(matrix[t, o])}
        for rater, matrix in zip(model.config.raters, matrices, strict=True)
        if rater not in model.config.unlabelled
        for t, o in product(range(len(names)), repeat=2)
    ]
    write_csv(folder / CONFUSION_TABLE, rows)


def _rows(model: Model, found: dict[str, list[float]], entropy: bool) -> list[Row]:
    if not found:
        return []
    truth = np.array(list(found.values()), np.float32).T
    bits, best = entropy_bits(truth), truth.argmax(0)
    classes, rows = model.config.classes, []
    for k, (name, p) in enumerate(found.items()):
        row: Row = {"case": name, "label": classes[best[k]].value}
        if entropy:
            row["entropy"] = round(float(bits[k]), 6)
        rows.append(row | {f"p_{c.name}": value for c, value in zip(classes, p, strict=True)})
    return rows

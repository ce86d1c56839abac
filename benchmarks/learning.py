"""What the learning benchmarks share: runs that are kept in a file, scores, and tables.

Each run (one method, one setting, one seed) is one line of JSON in `--out`; a run that is there
is not repeated, so that a benchmark goes on after an interruption and the table can be drawn alone.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import raters
from raters.core.classes import MISSING
from raters.metrics import CutTally, cut_labels, mean_dice
from raters.study.case import Case
from raters.study.study import Study

Row = dict[str, Any]

CUTS = {"dice": "at 0.5", "dice_best": "at the best cut", "dice_area": "at the area cut"}
"""Dice at each cut, as columns; see `dice_at_cuts`."""

PAPER: Row = {"form": "paper"}
"""A method as its paper describes it: `raters.learning.methods.options` says what that is."""

PAPER_LOSS: Row = {
    "likelihood": "marginal",
    "trace": 0.01,
    "trace_over": "all",
    "prior": 0.0,
    "warm_up": 2,
    "warm_up_on": "labels",
}
"""Only the loss of Zhang et al. (2020), with the matrices of `pixel-cm` (a head on the truth
network's features, softmax, a start near the identity)."""

IDENTITY: Row = {"prior_to": "identity", "warm_up": 0.4}
"""pixel-cm with matrices that are drawn to one near the identity, after a long warm-up."""


def arguments(about: str | None, data: str) -> argparse.ArgumentParser:
    """Make the arguments that all scripts have."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("data", type=Path, help=data)
    parser.add_argument("--out", type=Path, required=True, help="runs, one a line; kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--only", nargs="*", help="names of rows to run")
    return parser


class Runs:
    """Runs that are kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[Row] = [json.loads(line) for line in lines]

    def once(self, key: Row, run: Callable[[], Row]) -> Row:
        """Return the row of a key; it is measured if it is not there."""
        for row in self.rows:
            if all(row.get(name) == value for name, value in key.items()):
                return row
        started = time.perf_counter()
        row = {**key, **run(), "seconds": round(time.perf_counter() - started, 1)}
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
        return row


def trained(study: Study, method: str, **options: Any) -> raters.Model:  # noqa: ANN401
    """Train a model; warnings of dominance belong to the measurement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return raters.fit(study, method, progress=False, **options)


def dice_to(model: raters.Model, study: Study) -> float:
    """Return the mean Dice of a model against the reference, cut at 0.5."""
    classes = len(study.classes)
    scores = [
        mean_dice(model.predict(case), case.reference, classes)
        for case in study.iter_cases()
        if case.reference is not None
    ]
    return float(np.mean(scores))


def dice_at_cuts(model: raters.Model, held_out: Study, test: Study, each: bool = False) -> Row:
    """Return the mean Dice on test cases at three cuts; cuts are chosen on held-out cases.

    At 0.5; at the cut with the best Dice against the held-out references; at the cut where the
    predicted area is the raters' mean area, with blank masks and (`drawn`) without them.

    Args:
        model: The model.
        held_out: Cases to choose cuts on.
        test: Cases to score.
        each: Whether the masks of each rater stand for the reference, where there is none.
    """
    tally = CutTally(len(held_out.classes))
    for case, truth in model.predict_proba(held_out):
        tally.add(truth, labels=case.labels)
        for mask in _references(case, each):
            tally.add(truth, reference=mask)
    cuts = {"best": tally.best(), "area": tally.area(), "area_drawn": tally.area(blank=False)}
    scores: dict[str, list[float]] = {"dice": []} | {f"dice_{name}": [] for name in cuts}
    for case, truth in model.predict_proba(test):
        masks = _references(case, each)
        for name, cut in zip(scores, (0.5, *cuts.values()), strict=True):
            guess = cut_labels(truth, cut)
            scores[name] += [mean_dice(guess, mask, len(truth)) for mask in masks]
    found: Row = {name: float(np.mean(values)) for name, values in scores.items()}
    return found | {f"cut_{name}": cut.round(2).tolist() for name, cut in cuts.items()}


def _references(case: Case, each: bool) -> list[np.ndarray]:
    if each:
        return [mask for mask in case.labels if (mask != MISSING).any()]
    return [] if case.reference is None else [case.reference]


def accuracy_to(model: raters.Model, study: Study) -> float:
    """Return the accuracy of a model against the reference."""
    right = [
        int(model.truth(case).argmax()) == int(case.reference)
        for case in study.iter_cases()
        if case.reference is not None
    ]
    return float(np.mean(right))


def mean_and_spread(values: Sequence[float]) -> str:
    """Write '91.2 ± 0.3' (standard deviation over seeds) in percent."""
    found = 100 * np.array(values, float)
    if len(found) < 2:
        return f"{found.mean():.1f}"
    return f"{found.mean():.1f} ± {found.std(ddof=1):.1f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [list(header), ["---"] * len(header), *[list(row) for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

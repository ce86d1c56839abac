"""Scores of one cell on a user's study: how well held-out labels are explained, without truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raters.arrays import Floats, Labels
from raters.benchmarks.held_out import LabelFit, counted_matrices, has_matrices
from raters.evaluation.runs import score_model, shared_raters
from raters.rows import Row
from raters.study.paths import written_whole

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study
    from raters.training.model import Model


BY_LABEL = ("likelihood", "left_out", "likelihood_counted", "left_out_counted")
"""Scores that are means over labels: with the matrices that a method learns, or counted ones if it
learns none; and with counted ones for all methods alike, which compares their networks alone."""


def score_own(
    model: Model, study: Study, test: Study, beside: Path | None = None
) -> tuple[Evaluation, Row]:
    """Score a model on held-out cases by the raters' labels, and by references if there are any.

    Args:
        model: The model.
        study: What it was trained on: matrices are counted on all cases that are not of 'test'.
        test: The held-out cases.
        beside: Where sums and predictions of each case are kept, to compare cells by.
    """
    rest = study.take(np.flatnonzero(study.index.splits != "test"))
    known = shared_raters(model.config.labelled, test)
    columns, places = [model.config.raters.index(name) for name in known], list(known.values())
    cut = None if model.cuts is None else model.cuts.area
    alike = own = LabelFit(columns, places, counted_matrices(model, rest), cut)
    if has_matrices(model):
        own = LabelFit(columns, places, None, cut)
    found = score_model(
        model, test, surfaces=False, samples=0, watch=alike if own is alike else _both(own, alike)
    )
    if not found.score.endswith("reference"):
        for name in ("score", "score_best", "score_area"):
            found.main.pop(name, None)
    sums = {c: np.array([*own.sums[c][:2], *alike.sums[c][:2], own.sums[c][2]]) for c in own.sums}
    if beside is not None:
        groups = dict(zip(test.index.ids, test.index.groups, strict=True))
        write_kept(beside, Kept({c: str(groups[c]) for c in sums}, sums, own.predicted))
    *logs, labels = np.sum(list(sums.values()), axis=0).tolist()
    means = {
        name: log / labels if labels else None for name, log in zip(BY_LABEL, logs, strict=True)
    }
    return found, {**means, "labels": int(labels), "cases": len(sums)}


def _both(one: LabelFit, two: LabelFit) -> Callable[[Any], Any]:
    return lambda stream: two(one(stream))


@dataclass(frozen=True)
class Kept:
    """What is kept of the held-out cases of a cell, by case.

    Attributes:
        groups: The group.
        sums: Log-likelihoods as `BY_LABEL` lists them, and how many labels they are sums of.
        predicted: The predicted class, `(*space)`; masks at the cut of the raters' area.
    """

    groups: Mapping[str, str]
    sums: Mapping[str, Floats]
    predicted: Mapping[str, Labels]


def write_kept(path: Path, kept: Kept) -> None:
    """Write what is kept of a cell as `.npz`."""
    each = [kept.predicted[case] for case in kept.sums]
    table = all(one.ndim == 0 for one in each)  # a file for each task would take long
    arrays = {"": np.array(each)} if table else {f"{k}": one for k, one in enumerate(each)}
    with written_whole(path, "wb") as file:
        np.savez_compressed(
            file,
            cases=np.array(list(kept.sums), np.str_),
            groups=np.array([kept.groups[case] for case in kept.sums], np.str_),
            sums=np.array(list(kept.sums.values()), np.float64),
            **{f"predicted{name}": one for name, one in arrays.items()},  # type: ignore[arg-type]
        )


def read_kept(path: Path) -> Kept | None:
    """Read what is kept of a cell; None if it is gone."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        names = [str(name) for name in found["cases"]]
        groups = dict(zip(names, map(str, found["groups"]), strict=True))
        sums = dict(zip(names, found["sums"], strict=True))
        table = found.get("predicted")
        predicted = {
            name: found[f"predicted{k}"] if table is None else table[k]
            for k, name in enumerate(names)
        }
    return Kept(groups, sums, predicted)

"""Scores of one cell on a user's study: how well held-out labels are explained, without truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raters.arrays import Floats, Labels
from raters.benchmarks.held_out import LabelFit, counted_matrices, has_matrices
from raters.evaluation.runs import score_model
from raters.evaluation.split import shared_raters
from raters.rows import Row
from raters.study.paths import written_whole

if TYPE_CHECKING:
    from raters.evaluation.result import Evaluation
    from raters.study.study import Study
    from raters.training.model import Model


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
    fit = LabelFit(
        columns=[model.config.raters.index(name) for name in known],
        places=list(known.values()),
        counted=None if has_matrices(model) else counted_matrices(model, rest),
        cut=None if model.cuts is None else model.cuts.area,
    )
    found = score_model(model, test, surfaces=False, samples=0, watch=fit)
    if not found.score.endswith("reference"):
        for name in ("score", "score_best", "score_area"):
            found.main.pop(name, None)
    if beside is not None:
        groups = dict(zip(test.index.ids, test.index.groups, strict=True))
        write_kept(beside, Kept({c: str(groups[c]) for c in fit.sums}, fit.sums, fit.predicted))
    return found, {**fit.scores(), "cases": len(fit.sums)}


@dataclass(frozen=True)
class Kept:
    """What is kept of the held-out cases of a cell, by case.

    Attributes:
        groups: The group.
        sums: As `LabelFit.sums`.
        predicted: As `LabelFit.predicted`.
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
            sums=np.array(list(kept.sums.values()), np.float64).reshape(-1, 3),
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

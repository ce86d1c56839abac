"""Predicted masks against the reference and against each rater."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raters.errors import RatersError, enough_memory
from raters.evaluation.predictions import PredictedMasks
from raters.evaluation.result import REFERENCE, Evaluation, summarise
from raters.progress import track
from raters.rows import Row
from raters.scores.bootstrap import LEAST_GROUPS
from raters.scores.overlap import dice_from_counts, iou_from_counts, pair_counts, volume_difference
from raters.scores.surface import surface_distances_by_class
from raters.study.classes import MISSING
from raters.study.parallel import ordered_map

if TYPE_CHECKING:
    from raters.study.case import Case
    from raters.study.study import Study

ALL = "all"
"""The name in the column `class` for the mean over foreground classes."""


def evaluate_masks(
    source: str | Path, study: Study, surfaces: bool = True, progress: bool = False
) -> Evaluation:
    """Score predicted masks; `raters.evaluate` says what the tables hold."""
    predictions = PredictedMasks(source, study)
    result = Evaluation(notes=_notes(predictions, study))

    def work(case: Case) -> tuple[list[Row], RatersError | None]:
        try:
            with enough_memory(case.id):
                return list(case_rows(case, predictions.read(case), study, surfaces)), None
        except RatersError as error:
            return [], error.at(case=case.id)

    cases = [case for case in study.iter_cases() if case.id in predictions]
    for rows, error in track(ordered_map(work, cases), len(cases), "scoring", progress):
        result.cases += rows
        if error is not None:
            result.failures.append(error)
    if not result.cases:
        if result.failures:
            raise result.failures[0]
        raise RatersError("found neither raters nor references, expected labels to compare with")
    result.summary = summarise(result.cases, score_names(surfaces), (REFERENCE, *study.raters))
    return result


def score_names(surfaces: bool) -> list[str]:
    """Name the scores that `case_rows` gives."""
    distances = ["hd95", "surface_distance"] if surfaces else []
    return ["dice", "dice_drawn", "iou", *distances, "volume_difference", "relative_volume"]


def _notes(predictions: PredictedMasks, study: Study) -> list[str]:
    notes = []
    for what, names in (
        ("cases without a prediction (left out)", predictions.missing),
        ("files that belong to no case (left out)", predictions.strange),
    ):
        if names:
            more = ", ..." if len(names) > 3 else ""
            notes.append(f"{len(names):,} {what}: {', '.join(names[:3])}{more}")
    if len(set(study.index.groups)) < LEAST_GROUPS:
        notes.append(f"fewer than {LEAST_GROUPS} groups: there are no intervals")
    return notes


def case_rows(
    case: Case, predicted: NDArray[np.int16], study: Study, surfaces: bool
) -> Iterator[Row]:
    """Score a prediction against the reference and all raters who labelled the case."""
    if case.reference is not None:
        yield from _score(case, REFERENCE, case.reference, predicted, study, surfaces)
    for rater, labels in zip(study.raters, case.labels if study.raters else (), strict=True):
        if (labels != MISSING).any():
            yield from _score(case, rater, labels, predicted, study, surfaces)


def _score(
    case: Case,
    against: str,
    labels: NDArray[np.int16],
    predicted: NDArray[np.int16],
    study: Study,
    surfaces: bool,
) -> Iterator[Row]:
    classes, spacing = len(study.classes), case.geometry.spacing
    counts = pair_counts(labels, predicted, classes)
    volume = volume_difference(labels, predicted, classes, spacing)
    scores = {"dice": dice_from_counts(counts), "iou": iou_from_counts(counts)}
    if surfaces:
        distances = surface_distances_by_class(labels, predicted, classes, spacing)
        scores["hd95"] = np.array([d.hd95 for d in distances])
        scores["surface_distance"] = np.array([d.assd for d in distances])
    scores |= {"volume_difference": volume.mm3, "relative_volume": volume.relative}
    place = {"case": case.id, "group": case.group, "split": case.split, "against": against}
    # Two empty masks agree (Dice 1); that says nothing on outlines, so it is told apart.
    drawn = (counts.sum(axis=0) + counts.sum(axis=1))[1:] > 0
    scores["dice_drawn"] = np.where(drawn, scores["dice"], np.nan)
    for k, name in enumerate(study.classes.names[1:]):
        yield {**place, "class": name, **{s: float(v[k]) for s, v in scores.items()}}
    if classes > 2:
        means = {s: float(v.mean()) for s, v in scores.items()}
        means["dice_drawn"] = float(scores["dice"][drawn].mean()) if drawn.any() else np.nan
        yield {**place, "class": ALL, **means}
